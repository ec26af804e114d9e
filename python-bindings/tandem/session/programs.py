"""The Programs of a step: one per batch shape and one for evaluation, on one store of values.

The first one decides the stored forms. Later ones are compiled when a batch needs them, and take values as stored: forms
are pins, and parts of parameters are separate arguments (`parts.py`).
"""

import contextlib
import copy
import math
import os
import warnings
from collections import Counter, OrderedDict
from dataclasses import dataclass, replace

import torch
from torch.utils.weak import WeakIdKeyDictionary

from ..base import job as jobs
from ..base import progress
from ..base.native import native
from ..base.notices import tell
from ..base.options import default_preset, preset_names, preset_of_batch
from ..base.reading import guarded
from ..base.tree import outline
from ..base.types import DTYPES, widened
from ..capture.export import export
from ..capture.wanted import Wanted
from ..errors import BatchError, CaptureError, CompileError, StateError, TandemError
from ..guards.python_state import Flags, modes, name_of_number
from ..guards.settings import Settings, unit_of
from ..optimizers.clipping import NORM
from ..optimizers.paths import hold
from ..tracing.arguments import batch_constants, batch_tensors, kind_of
from . import gpu
from .batches import inputs_for
from .parts import accumulated, section_options, stored_parts, stored_pins
from .process_batches import told_with
from .rows import check_some

# What lives from step to step and starts from what the torch model and optimizer have.
_STORED = ("parameter", "buffer", "state")
# Programs beside the first one that are kept: of those that were used last.
_MOST = 32
# Captures for other numbers of the user's, behind which one is told what they take.
_MANY = 8


@contextlib.contextmanager
def _telling(settings):
    """Within it what cannot be captured is a StateError that says what was changed; `settings` are those of all processes."""
    try:
        yield
    except CaptureError as error:
        changes = {n: text for of_process in settings for n, text in of_process.items()}
        if not changes:
            raise
        found = ", ".join(f"{name} is {text} now" for name, text in changes.items())
        raise StateError(
            f"{found}, expected what it was for tandem.compile, as the step cannot be captured with it: {error}"
        ) from error


class Loaded:
    """A captured step with a session of its Program on a store of values."""

    def __init__(self, module, program, threads, store=None, graph=True):
        self.module, self.device = module, None
        self.norm = None  # of the gradients of the last run
        self._numbers = {}  # that the session has
        self.session = native().Session(program, threads, store, graph)
        if self.session.notice:
            tell(self.session.notice)

    def with_module(self, module):
        """The same session for another capture of the same text, which returns something else."""
        other = copy.copy(self)
        other.module = module
        return other

    def index_of(self, key):
        """Of the argument in the session; negative where the Program does not use it."""
        role, _, name = key.partition("/")
        return self.session.find_argument(role, name)

    def set(self, key, value, root=None):
        index = self.index_of(key)
        if index < 0:  # An argument that the step does not use is not in the Program.
            return
        with guarded(key, value):
            value = widened(value)
            if root is not None or not gpu.put(self.session, index, value):
                self.session.set_argument(index, value.detach().cpu().contiguous(), root)

    def result(self, role, name):
        """A result of the last run as a whole tensor, on the GPU that the batch was on, if it was on one."""
        index = self.session.find_result(role, name)
        if index < 0:
            raise TandemError(f"the step has no result {role}/{name}")
        if self.device is None:
            return read(self.session.results[index], self.session.get_result, index)
        return gpu.take(self.session, index, self.device)

    def run(self, tensors, numbers=()):
        """What `loss_fn` returns. `tensors` are pairs of a key and its value in this run, `numbers` those of the optimizer's groups,
        {name: number}.
        """
        self.device = gpu.device_of(tensor for _, tensor in tensors)
        for key, tensor in tensors:
            self.set(key, tensor)
        for name in numbers:
            if name not in self._numbers or self._numbers[name] != numbers[name]:
                self.set(f"learning_rate/{name}", torch.tensor(numbers[name], dtype=torch.float64))
                self._numbers[name] = numbers[name]
        self.session.step()
        # All processes of a job are here, and each may look at it later, alone.
        if self.session.find_result("output", NORM) >= 0:
            self.norm = self.result("output", NORM)
        return self.module.returned.build(self.result)


def read(kind, get, index, rank=None):
    """The whole value of an argument or result, whose type and shape `kind` has."""
    tensor = torch.empty(tuple(kind.shape), dtype=DTYPES[kind.type])
    get(index, tensor, rank)
    return tensor


@dataclass
class Recipe:
    """What a step was compiled of, but for the batch. `planner` are the options that `make_options` takes,
    `compile_module` makes a Program with them; `last_batch` is a `LastBatch`, `processes` are
    `ProcessBatches`, `job` are the processes that compile together.
    """

    model: torch.nn.Module
    loss_fn: object
    optimizer: torch.optim.Optimizer
    planner: dict
    compile_module: object
    last_batch: object
    processes: object
    job: object = None
    threads: int = 1
    graph: bool = True
    wanted: Wanted = Wanted()

    def capture(self, batch, **others):
        """`others` are wanted in the place of what `wanted` says."""
        wanted = replace(self.wanted, **others)
        return export(self.model, self.loss_fn, self.optimizer, batch, wanted=wanted, cache=True)


def _key_of(batch, wanted, settings):
    """All that a capture depends on, but for which parameters are frozen."""
    shapes = [(name, t.dtype, tuple(t.shape)) for name, t in batch_tensors(batch).items()]
    constants = sorted(batch_constants(batch).items(), key=str)
    return repr((outline(batch), shapes, constants, sorted(wanted.items()), settings))


class Programs:
    def __init__(self, recipe, main, plan=""):
        """`recipe` may be None: then there is only the Program `main`, which `plan` is the plan of, as a text."""
        self._recipe, self.main, self._plan = recipe, main, plan
        self._others, self._captured_anew = OrderedDict(), 0
        self._starts, self._counted_anew = {}, 0
        self._numbers = {}  # What steps have left in attributes, where the next one is another for it.
        self._last_made, self._idle = ({}, main.module.mlir), Counter()
        self._given = (
            WeakIdKeyDictionary()
        )  # Batch tensors that steps write to, and their versions.
        self._ways = {}  # The guards of the captures that differ in nothing else.
        if recipe is not None:
            self._trained = Flags(recipe.model, recipe.optimizer).trained
            self._flags = Flags(recipe.model, recipe.optimizer)
            self._settings = Settings(recipe.model, recipe.loss_fn, recipe.optimizer)

    @property
    def words(self):
        """Of the options, for people."""
        planner = self._recipe.planner if self._recipe is not None else {}
        plan, search = map(planner.get, ("plan", "search"))
        parts = accumulated(self._plan) or planner.get("accumulate")
        found = search and f"search {search}" or plan and f"plan {os.path.basename(plan)}"
        return [found] * bool(found) + [f"accumulate {parts}"] * (parts not in (None, 1))

    def settings(self):
        """What `Settings.changes` says. What the user has set is no longer what a step has left."""
        changes = self._settings.changes() if self._recipe is not None else {}
        for key in [key for key in self._numbers if name_of_number(*key) in changes]:
            del self._numbers[key]
        return changes

    def follow(self, loaded):
        """A step has run."""
        self._numbers |= loaded.module.leaves

    def training(self, batch, hyperparameters, numbers, trained, starts_of, settings=()):
        """The `Loaded` for batches of these shapes, in which `hyperparameters` are as a `Wanted` has them, and parameters
        `trained` have gradients; `starts_of(names)` are the starts (counts.py) of a step that updates these. `numbers` are
        those of the optimizer's groups, {name: number}. `settings` are
        those of all processes if one has some. A batch that differs in more is checked by who calls.
        """
        if self._recipe is None:
            return self.main
        batch, main = self._recipe.processes.widen(batch), self.main.module
        own = self._recipe.wanted
        wanted = hyperparameters | {"varying": own.varying | hyperparameters["varying"]}
        wanted |= {"numbers": dict(self._numbers)}
        same = (wanted["varying"], wanted["constants"]) == (own.varying, own.constants)
        same = same and trained == self._trained and hold(main.guards_of_numbers, numbers)
        same = same and not settings and not self._numbers and not self._differs_in_sizes(batch)
        if same and starts_of(main.updated) == main.starts:
            return self.main
        with self._naming_sizes(batch):
            return self._find_training(batch, (trained, numbers), wanted, starts_of, settings)

    def holder(self, key):
        """The `Loaded` that has the argument: of a parameter that has thawed, the first one has no state."""
        every = [self.main, *self._others.values()]
        return next((l for l in every if l.index_of(key) >= 0), self.main)

    @property
    def sessions(self):
        """Of all Programs, the first one's first; some have two captures."""
        return list(dict.fromkeys(l.session for l in (self.main, *self._others.values())))

    @property
    def arguments(self):
        """{key: argument} of all Programs; the inputs are the first one's."""
        every = [*reversed(self._others.values()), self.main]
        return {a.key: a for loaded in every for a in loaded.module.arguments}

    @property
    def updated(self):
        """The names of the parameters that some Program updates."""
        every = [self.main, *self._others.values()]
        return {r.name for loaded in every for r in loaded.module.results if r.role == "parameter"}

    @property
    def count(self):
        return 1 + len(self._others)

    @property
    def written(self):
        """The names of the parameters and buffers that some Program updates."""
        every = [self.main, *self._others.values()]
        return {
            r.name for p in every for r in p.module.results if r.role in ("parameter", "buffer")
        }

    def check_constants(self, all_values=False):
        """StateError where a Program has a constant that is no longer what it was. With `all_values` those of large ones count, too."""
        for loaded in (self.main, *self._others.values()):
            if loaded.module.read_past is not None:
                loaded.module.read_past.check(all_values)

    def check_alike(self, batch, make_report):
        """The reports of all processes, whose batches are alike."""
        if self._recipe is None:
            return [make_report()]
        return self._recipe.processes.check_alike(batch, make_report)

    def take(self, batch):
        """The batch of a training step, or None for one that is left out."""
        recipe = self._recipe
        if recipe is None:
            return batch
        recipe.processes.check_first(batch)
        if batch is None:
            raise BatchError("batch: is None, expected one like the example batch")
        return recipe.last_batch.take(batch, self.main.session.program, recipe.processes.parts)

    def inputs(self, loaded, batch):
        """Pairs of a key and a value, which have been checked."""
        memory = loaded.module.batch_memory
        if memory is not None:
            tensors = batch_tensors(batch)
            memory.check(tensors)
            self._note_written([(n, t) for n, t in tensors.items() if n in memory.written])
        if self._recipe is None:
            return inputs_for(loaded.module, batch)
        processes = self._recipe.processes
        inputs = inputs_for(loaded.module, processes.widen(batch))
        return processes.place(batch, inputs, loaded.session.program)

    def _note_written(self, tensors):
        """Warns, once, of one that is given again: the step has written to a copy, and eager to it."""
        for name, tensor in tensors if self._given is not None else ():
            if not tensor.is_inference() and self._given.get(tensor) == tensor._version:
                self._given = None
                warnings.warn(
                    f"batch: tensor {name!r} was given before, and the loss writes to it in place: eager goes on with what it wrote,"
                    " and the step with what is given; expected a copy (clone()) in the loss function",
                    stacklevel=4,
                )
                return
            self._given[tensor] = 0 if tensor.is_inference() else tensor._version

    def evaluation(self, batch, settings=()):
        """(`Loaded`, its inputs) of the forward pass alone."""
        if self._recipe is None:
            raise TandemError("evaluate: the step has no model, expected one of tandem.compile")
        self._recipe.processes.check_divides(batch)
        check_some(batch)
        batch = self._recipe.last_batch.with_weights(batch)
        widened = self._recipe.processes.widen(batch)
        with self._naming_sizes(widened):
            wanted = dict(trains=False, numbers=dict(self._numbers))
            loaded = self._find(widened, wanted, settings)
        return loaded, self.inputs(loaded, batch)

    def _differs_in_sizes(self, batch):
        """Whether tensors have other sizes than the example's, and that is all."""
        expected = {a.name: a for a in self.main.module.arguments if a.role == "input"}
        found = batch_tensors(batch)
        if found.keys() != expected.keys():
            return False
        pairs = [(found[name], expected[name]) for name in expected]
        alike = all(t.dtype == a.dtype and t.dim() == len(a.shape) for t, a in pairs)
        return alike and any(tuple(t.shape) != tuple(a.shape) for t, a in pairs)

    @contextlib.contextmanager
    def _naming_sizes(self, batch):
        """Within it what cannot be captured is a BatchError that says in what the batch differs from the example, if in anything."""
        try:
            yield
        except CaptureError as error:
            expected = {a.name: kind_of(a) for a in self.main.module.arguments if a.role == "input"}
            found = {name: kind_of(tensor) for name, tensor in batch_tensors(batch).items()}
            differing = [
                f"tensor {name!r} is {found.get(name, 'not there')}, and {expected.get(name, 'not there')} in the example batch"
                for name in (expected | found)
                if found.get(name) != expected.get(name)
            ]
            if not differing:
                raise
            raise BatchError(f"batch: {'; '.join(differing)}: {error}") from error

    def _find_training(self, batch, trained_and_numbers, wanted, starts_of, settings):
        """Only a capture says which parameters have gradients in batches of these shapes, and which way numbers go."""
        trained, numbers = trained_and_numbers
        base = trained, _key_of(batch, wanted, settings)
        ways = self._ways.setdefault(base, [])
        way = next((i for i, w in enumerate(ways) if hold(w, numbers)), len(ways))
        key, module = (*base, way), None
        with contextlib.ExitStack() as shown:
            if key not in self._starts:
                shown.enter_context(self._shown())
                likely = (self.main.module.updated | (trained - self._trained)) & trained
                module = self._capture(batch, wanted | {"starts": starts_of(likely)}, settings)
                self._starts[key] = module.updated, starts_of(module.updated)
                ways.append(module.guards_of_numbers)
            updated, before = self._starts[key]
            starts = starts_of(updated)
            self._starts[key] = updated, starts
            if starts != before:
                self._warn_of_counts(starts, before)
            if module is not None:
                own = {name: start for name, start in module.starts.items() if name in updated}
                module = module if own == starts else None
            return self._find(batch, wanted | {"starts": starts}, settings, (trained, way), module)

    def _find(self, batch, wanted, settings, way=None, module=None):
        """`way` is what a capture depends on beside. `module` is a capture for the batch, where there is one."""
        key = way, _key_of(batch, wanted, settings)
        if key not in self._others:
            self._warn_of_many(settings)
            self._others[key] = self._make(batch, wanted, settings, module)
        self._others.move_to_end(key)
        while len(self._others) > _MOST:
            self._others.popitem(last=False)
        return self._others[key]

    def _warn_of_many(self, settings):
        self._captured_anew += bool(settings)
        if settings and self._captured_anew == _MANY:
            names = ", ".join(sorted({name for of_process in settings for name in of_process}))
            tell(
                f"step: captured anew {_MANY} times, as {names} was set; what changes in each step takes no time as a"
                " tensor of the batch, or in a buffer"
            )

    def _warn_of_counts(self, starts, before):
        self._counted_anew += 1
        if self._counted_anew == _MANY:
            name = min(name for name, _ in starts.items() ^ before.items())
            tell(
                f"step: compiled anew {_MANY} times, as parameter {name!r} has a gradient in some steps only, and the"
                " optimizer counts the steps of each; with 0 * parameter.sum() in the loss it always has one, if only zero"
            )

    def _shown(self):
        job = self._recipe.job
        return progress.shown(job is None or job.process == 0)

    def _capture(self, batch, wanted, settings):
        recipe, trains = self._recipe, wanted.get("trains", True)
        wanted = wanted | {"parted": self.main.module.parted}
        progress.part("capture")
        before = self._settings.texts()
        with _telling(settings), modes(recipe.model, self._flags.training if trains else {}):
            module = jobs.together(recipe.job, "capture", lambda: recipe.capture(batch, **wanted))
        self._settings.ignore(before)
        with told_with(settings):
            jobs.check_module(recipe.job, module)
        return module

    def _make(self, batch, wanted, settings, module):
        job, trains = self._recipe.job, wanted.get("trains", True)
        with self._shown():
            module = self._capture(batch, wanted, settings) if module is None else module
            self._look_for_idle(module, settings)
            for loaded in (self.main, *self._others.values()):
                if loaded.module.mlir == module.mlir:
                    return loaded.with_module(module)
            compiled = jobs.compile_once(job, lambda: self._compile(module, trains))
            progress.part("session")
            return self._load(module, compiled.bytes)

    def _look_for_idle(self, module, settings):
        """What code reads as a whole, and what changed twice without another step for it, decides nothing, such as what a loop notes
        in a log: each of its changes would capture the step again.
        """
        texts = {n: text for of_process in settings for n, text in of_process.items()}
        before, mlir = self._last_made
        self._last_made = texts, module.mlir
        changed = [n for n in texts.keys() | before.keys() if texts.get(n) != before.get(n)]
        changed = set(map(unit_of, changed))
        if mlir != module.mlir or not changed <= self._settings.of_wholes:
            return
        self._idle.update(changed)
        idle = {name for name in changed if self._idle[name] > 1}
        if idle:
            self._settings.forget(idle)
            tell(
                f"step: {', '.join(sorted(idle)[:3])}: changes and decides nothing, so that it is no longer looked at; if it does later,"
                " compile again"
            )

    def _load(self, module, program):
        """What the first Program does not use, and so does not store, starts from the torch model's value."""
        store = self.main.session.store
        held = {f"{tensor.role}/{tensor.name}" for tensor in store.tensors}
        loaded = Loaded(module, program, self._recipe.threads, store, self._recipe.graph)
        for argument in module.arguments:
            is_new = argument.role in _STORED and argument.key not in held
            if is_new and argument.value is not None:
                loaded.set(argument.key, argument.value, None if self._recipe.job is None else 0)
        return loaded

    def _compile(self, module, trains):
        """An evaluation takes a batch of any size: in one piece, and whole on every rank, if need be."""
        program, planner = self.main.session.program, self._recipe.planner
        mesh = {axis.name: axis.size for axis in program.mesh}
        plan = _preset(planner, mesh)
        stored = [session.program for session in self.sessions]
        ways = [(plan, planner["micro"]), (plan, 1), (_whole_preset(), 1)]
        # A process that has a part of the rows cannot compute all.
        ways = ways[:-1] if self._recipe.processes.parts > 1 else ways
        *first, last = ways[:1] if trains else ways
        make, options = (
            self._recipe.compile_module,
            dict(mesh=mesh, pins=stored_pins(module, stored)),
        )
        options["stored_parts"] = stored_parts(stored)
        kept = ("device", "architecture", "memory", "host_memory")
        options |= {name: planner[name] for name in kept}
        with section_options(self._plan, module, stored, trains) as sections:
            if sections:
                options["sum_piece"] = planner["sum_piece"]
            options |= sections | {"pins": options["pins"] + sections.get("pins", [])}
            for plan, micro in first:
                with contextlib.suppress(CompileError):
                    return make(module, plan=plan, micro=micro, **options)
            options |= dict(plan=last[0], micro=last[1])
            if trains:
                options["recompute"] = planner["recompute"]
                if any(pin.host for pin in options["pins"]):
                    options["bucket"] = planner["bucket"]
                options.setdefault("accumulate", planner["accumulate"])
            return make(module, **options)


def _preset(planner, mesh):
    """A plan for another step: stored forms, which pins say, are all that is left of one that was found or written."""
    plan = planner["plan"]
    if planner["search"] is None and (plan is None or plan in preset_names()):
        return plan
    return default_preset() if "data" in mesh or len(mesh) < 2 else _whole_preset()


def _whole_preset():
    """The preset that computes a batch of any size, whole on every rank."""
    return preset_of_batch(native().PresetBatch.WHOLE)


def describe(step, words):
    """One line for people: model, optimizer, mesh and plan, and the batch. `words` are those of the options."""
    program, arguments = step.program, step.module.arguments
    count = sum(math.prod(a.shape) for a in arguments if a.role == "parameter")
    mesh = ",".join(f"{axis.name}={axis.size}" for axis in program.mesh) or "of one rank"
    inputs = ", ".join(
        f"{a.name} {str(a.dtype).removeprefix('torch.')}{list(a.shape)}"
        for a in arguments
        if a.role == "input"
    )
    words = [
        f"{count:,} parameters",
        step.optimizer_name,
        f"mesh {mesh}",
        *words,
        f"micro {program.micro}",
        f"batch {inputs}",
    ]
    return f"<tandem.Step of {step.model_name}: {'; '.join(words)}>"
