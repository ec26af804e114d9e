"""A compiled training step with its values: what `tandem.compile` returns."""

import contextlib
import math
import numbers
import os
import threading
from collections import defaultdict

import torch

from .. import checkpoint
from ..base import job as jobs
from ..base.native import native
from ..base.types import DTYPES, is_number
from ..errors import RunError, StateError, TandemError
from ..guards.ambient import check_around, check_gradients
from ..guards.outdated import Trained, expect_current_values, names_of_state
from ..guards.python_state import Flags
from ..guards.watch import Watch, check_schedulers, is_same_state
from ..optimizers import hyperparameters
from ..optimizers.clipping import NORM, expect_none_behind
from ..optimizers.counts import Counts
from ..optimizers.optimizers import FunctionalOptimizer, is_fresh_state
from ..optimizers.state_dicts import (
    as_tensor,
    by_name,
    check_dict,
    checked,
    count_of,
    is_own,
    plain_number,
    remedy,
    under_own_names,
)
from ..tracing.unregistered import named_parameters, places_of
from . import copies
from .explanations import explain
from .programs import Loaded, Programs, describe, read
from .timeline import check_place, report

# Key of a Tandem step's own values in an optimizer's state dict; torch.optim ignores it.
_OWN_STATE = "tandem"
# Roles of what the model's state dict has.
_STORED = ("parameter", "buffer")


def _rate(index, rate, what="optimizer"):
    """A group's learning rate as an argument of the step."""
    one = isinstance(rate, torch.Tensor) and rate.numel() == 1 and not rate.is_meta
    if not one and not isinstance(rate, numbers.Real):
        raise StateError(
            f"{what} parameter group {index}: lr is {rate!r}, expected a number or a tensor of one"
        )
    if not math.isfinite(rate):
        raise StateError(
            f"{what} parameter group {index}: lr is {rate!r}, expected a finite number"
        )
    return _float64(rate)


def _settings(reports):
    """Those of all processes, or none: who has them compiles together with the others."""
    settings = [report["settings"] for report in reports]
    return settings if any(settings) else ()


def _raise_first(errors):
    for error in errors:
        if error is not None:
            raise error


def _float64(number):
    return torch.as_tensor(number, dtype=torch.float64).reshape(())


class Step:
    """Call it with a batch to train one step, from one thread at a time.

    Values live in `store`, split over the ranks by the plan; `state_dict` and `optimizer_state_dict`
    put them together. After `NonFiniteLossError`, and after another `RunError` before the step's first
    update, they are as before the step, and training can go on. After a later one those that may be half
    updated are damaged (`store.tensors` says which): the next step is an error until `load_state_dict`
    has given them new values.

    Values that the torch model or optimizer are given after the step was made are not the step's: the next
    call is an error that says so, unless they are what the step has (`watch.py` says what is seen).
    """

    def __init__(
        self,
        module,
        program,
        model,
        optimizer,
        compiled=None,
        threads=1,
        seed=0,
        cluster=None,
        recompute=False,
        store=None,
        recipe=None,
        graph=True,
    ):
        """`module` is the captured step, `program` the bytes of a Program made of it; `cluster` is the file
        that plans are priced for, `recompute` what the step was compiled with. `store` is that of another
        step, whose values are used as they are: both train the same parameters. `recipe` makes Programs for batches
        of other shapes and for evaluation. `graph` is that of `tandem.compile`.
        """
        held = {f"{t.role}/{t.name}" for t in store.tensors} if store is not None else ()
        self._cluster, self._recompute = cluster, recompute
        self.module, self.bytes = module, program
        self._model_keys = names_of_state(model)
        named = list(named_parameters(model, optimizer))
        self._parameter_names = {id(p): name for name, p in named}
        self._optimizer = optimizer
        self._flags = Flags(model, optimizer)
        # Names of what the optimizer trains, and the model holds without having registered it.
        self.unregistered = [place.name for place in places_of(model, optimizer)]
        self._captured = FunctionalOptimizer(optimizer, named)
        self._counted_of = {}
        self._compiled = compiled
        self._last = main = Loaded(module, program, threads, store, graph)
        self._counts = Counts(module.starts, self._counted(module.updated))
        self._session, self._programs = main.session, Programs(recipe, main)
        self._may_thaw = recipe is not None
        self._job = recipe.job if recipe is not None else None
        self.model_name, self.optimizer_name = (type(x).__qualname__ for x in (model, optimizer))
        # Of several processes the values of the first one count.
        self._root = 0 if len(self._session.ranks) < self._session.program.num_ranks else None
        self._running = threading.Lock()
        # Of a model on the meta device: what has no value before `load_state_dict` gives one.
        self._missing = {}
        self._kept = {}  # what no Program uses, once it was given another value than the torch model's
        for argument in module.arguments:
            if argument.key not in held:
                self._start(argument)
        if "seed/seed" not in held:
            self._set("seed/seed", torch.tensor(seed), self._root)
        self._watch = Watch(model, optimizer)
        self.is_ahead = (
            False  # of the torch model's values: it has trained since these were its own
        )
        expect_none_behind(model)
        expect_current_values(model, named, self)
        self._trained = Trained(self, named)
        self._rates_checked = False
        self._varying = recipe.wanted.varying if recipe is not None else frozenset()
        # They may be none: of a loss that no parameter decides.
        self._has_gradients = recipe is not None and recipe.wanted.gradients
        self._timeline = None

    def __repr__(self):
        return describe(self)

    @property
    def _arguments(self):
        return self._programs.arguments

    @property
    def store(self):
        """Where the values are; `store.tensors` lists them."""
        return self._session.store

    def _start(self, argument):
        is_fresh = argument.role == "state" and (
            argument.value is None or is_fresh_state(argument.value)
        )
        if is_fresh and self._root is None:
            return  # A store begins with zeros. In a job it is process 0 that says what is fresh.
        if argument.value is not None:
            if self._index(argument.key) >= 0:
                self._set(argument.key, argument.value, self._root)
        elif argument.role == "state":
            self._set(argument.key, torch.zeros(argument.shape, dtype=argument.dtype), self._root)
        elif argument.role in _STORED and self._index(argument.key) >= 0:
            self._missing[argument.key] = argument

    def _check_values(self):
        for argument in self._missing.values():
            what = f"{argument.role} {argument.name!r} is on the meta device and has no value, expected"
            if argument.name in self._model_keys:
                raise StateError(f"{what} load_state_dict() before the first step")
            raise StateError(f"{what} one made on the CPU: it is not part of the state dict")

    def __call__(self, batch):
        """One training step; returns what `loss_fn` returns: the loss, a rank-0 tensor, and what is with it."""
        with self._alone():
            return self._run(batch)

    def evaluate(self, batch):
        """What `loss_fn` returns for a batch of any size, with the model in eval mode and the step's values, which
        stay as they are.
        """
        with self._alone():
            reports = self._programs.check_alike(batch, self._report)
            self._check_changes(reports)
            program, inputs = self._programs.evaluation(batch, _settings(reports))
            return program.run(inputs)

    def _run(self, batch):
        reports = self._programs.check_alike(batch, self._ready)
        values = self._captured.numbers(self._varying)
        batch = self._programs.take(batch)
        if batch is None:
            return None
        self._last = self._programs.training(
            batch,
            self._hyperparameters(),
            values,
            self._flags.trained,
            self._starts,
            _settings(reports),
        )
        inputs = self._programs.inputs(self._last, batch)
        self._check_changes(reports)
        self.is_ahead = True
        self._trained.count += 1
        returned = self._last.run(inputs, values)
        self._programs.follow(self._last)
        # What schedulers want to come before them; they look whether it has.
        self._optimizer._opt_called = True
        return returned

    def _hyperparameters(self):
        """As a `Wanted` has them."""
        return dict(varying=self._varying, constants=self._captured.constants(self._varying))

    def _counted(self, updated):
        """Those of the parameters whose steps count: asked once, as each step needs them and options are as captured."""
        if updated not in self._counted_of:
            counted = filter(self._captured.depends_on_steps, updated)
            self._counted_of[updated] = frozenset(counted)
        return self._counted_of[updated]

    def _starts(self, updated):
        """Those of `Counts` for a step that updates the parameters `updated`."""
        counted = self._counted(updated)
        if counted != self._counts.trained:
            step = int(self.value("step/step"))
            self._counts.follow(counted, step, self._captured.steps_taken)
        return {n: start for n, start in sorted(self._counts.starts.items()) if n in updated}

    def _ready(self):
        """Checks the torch model and optimizer, as far as a step reads them. The report."""
        check_gradients(StateError)
        self._varying |= self._captured.check_options()
        rates = self._rates(self._optimizer.param_groups)
        self._watch.check_groups()
        self._flags.check(self._may_thaw)
        if not self._rates_checked:
            check_schedulers(self._optimizer, [float(rate) for rate in rates])
            self._rates_checked = True
        return self._report()

    def _rates(self, groups, what="optimizer"):
        """Those of parameter groups that have some, checked."""
        rated = self._captured.rated()
        return [_rate(i, group.get("lr"), what) for i, group in enumerate(groups) if i in rated]

    def _report(self):
        """What the processes of a job tell each other before a step: what must be alike, and what was changed."""
        check_around("step", StateError)
        self._check_values()
        self._trained.check()
        self._programs.check_constants(all_values=self._watch.count())
        changed, optimizer = self._watch.changed(), self._optimizer
        if changed:
            _raise_first([self._watch.other_names()])
        alike = hyperparameters.texts(optimizer) | self._flags.texts() if self._job else {}
        return {
            "alike": alike,
            "settings": self._programs.settings(),
            "changed": changed,
            "model": self._watch.suspected() if changed else [],
            "optimizer": changed and self._watch.has_other_state(),
        }

    def sees_changes(self):
        """Whether the torch model or optimizer may have been given values since the step was made. Asks no other process."""
        return self._watch.changed()

    def _check_changes(self, reports):
        """That the torch model and optimizer have not been given values that the step has not. All processes of a job put
        together what was changed in one of `reports`, and an error of one is that of all.
        """
        if not any(r["changed"] for r in reports):
            return
        arguments, errors = self._by_name(), [self._watch.other_names()]
        for name in sorted({n for r in reports for n in r["model"]} & arguments.keys()):
            named = arguments[name]
            value = named.of(self.value(named.argument.key))
            errors.append(self._watch.difference(name, named.kind, value))
        if any(r["optimizer"] for r in reports):
            errors.append(self._watch.other_state(self.optimizer_state_dict()))
        jobs.together(self._job, "values", lambda: _raise_first(errors))
        self._watch.begin()

    # Values by role and name

    def _index(self, key):
        role, _, name = key.partition("/")
        return self._session.find_argument(role, name)

    def _set(self, key, value, root=None):
        holder = self._programs.holder(key)
        role, _, name = key.partition("/")
        if holder.session.find_argument(role, name) >= 0:
            holder.set(key, value, root)
        elif role in (*_STORED, "seed"):
            self._keep(key, value.detach().cpu().clone())

    def _keep(self, key, value):
        """The value of an argument that no Program uses."""
        self._kept[key] = value

    def value(self, key, rank=None):
        """The whole tensor of an argument, as it will be at the next step; with `rank` only in its process."""
        if key in self._missing:
            self._check_values()
        session = self._programs.holder(key).session
        role, _, name = key.partition("/")
        index = session.find_argument(role, name)
        if index < 0:
            return self._kept.get(key, self._arguments[key].value)
        return read(session.arguments[index], session.get_argument, index, rank)

    def result(self, role, name):
        """A result of the last step as a whole tensor."""
        return self._last.result(role, name)

    def gradients(self):
        """{parameter name: gradient} of the last step; the step must be compiled with `gradients=True`."""
        names = [r.name for r in self._last.module.results if r.role == "gradient"]
        if not names and not self._has_gradients:
            raise TandemError(
                "gradients: the step was compiled without them, expected compile(..., gradients=True)"
            )
        return {name: self.result("gradient", name) for name in names}

    def grad_norm(self):
        """The norm of all gradients of the last step before clipping, a rank-0 tensor. Asks no other process."""
        if self._session.find_result("output", NORM) < 0:
            raise TandemError(
                "grad_norm: the step was compiled without it, expected compile(..., clip_grad_norm=...)"
            )
        if self._last.norm is None:
            raise TandemError("grad_norm: no step has been trained, expected one before")
        return self._last.norm

    # State dicts

    def state_dict(self, rank=None):
        """Whole tensors under the model's own names, tied ones too: for `model.load_state_dict`. All
        processes of a job call it; with `rank` only the one that has it gets them, and the others {}.
        """
        stored = self._stored()
        keys = dict.fromkeys(named.argument.key for named in stored.values())
        values = {key: self.value(key, rank) for key in keys}
        if not self._has(rank):
            return {}
        return {name: n.as_given(values[n.argument.key]) for name, n in stored.items()}

    def _has(self, rank):
        return rank is None or rank in self._session.ranks

    def _by_name(self):
        """{name in the model: Named} of parameters and buffers."""
        return by_name(self.module.arguments)

    def _stored(self):
        """{name in the model's state dict: Named}, in its order."""
        named = self._by_name()
        return {name: named[name] for name in self._model_keys if name in named}

    def _parameters_in_order(self):
        """(index in the optimizer's state dict, parameter name)."""
        self._watch.check_groups()
        parameters = [p for group in self._optimizer.param_groups for p in group["params"]]
        return [(i, self._parameter_names[id(p)]) for i, p in enumerate(parameters)]

    def _states(self):
        """{parameter name: [(name of the state, argument)]}; a parameter may have none."""
        states = defaultdict(list)
        for a in self._arguments.values():
            if a.role == "state":
                states[a.of].append((a.name.removesuffix(f".{a.of}"), a))
        return states

    def optimizer_state_dict(self, rank=None):
        """For `optimizer.load_state_dict` of torch.optim, and for `load_state_dict` of a step. `rank` as
        in `state_dict`.
        """
        count = self.value("step/step")
        state = {i: entries for i, _, entries in self._optimizer_state(count, rank) if entries}
        groups = self._groups(self._optimizer.state_dict()["param_groups"], rank)
        own = {"step": int(count), "seed": int(self.value("seed/seed"))}
        if not self._has(rank):
            return {}
        return {"state": self._untrained_state() | state, "param_groups": groups, _OWN_STATE: own}

    def _untrained_state(self):
        """{index: state} of parameters that no Program updates, such as frozen ones: the optimizer object keeps it, as PyTorch does."""
        parameters = [p for group in self._optimizer.param_groups for p in group["params"]]
        updated, state = self._programs.updated, self._optimizer.state
        return {
            index: {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in held.items()}
            for index, name in self._parameters_in_order()
            if name not in updated and (held := state.get(parameters[index]))
        }

    def _optimizer_state(self, count, rank=None):
        """[(index, name, state)] of the parameters, as torch.optim has it after `count` steps: nothing before the first."""
        updated, states = self._programs.updated, self._states()
        for index, name in self._parameters_in_order() if int(count) else ():
            entries = {s: self.value(a.key, rank) for s, a in states[name] if is_own(s)}
            if name in updated and self._captured.counts_steps(name):
                own = torch.tensor(float(self._counts.of(name, int(count))))
                entries = {"step": own, **entries}
            for number in self._captured.numbers_in(name) & entries.keys():
                entries[number] = plain_number(entries[number])
            if name in updated:
                entries |= self._captured.constants_in(name)
            yield index, name, entries

    def _groups(self, groups, rank=None):
        """Parameter groups with the numbers that steps have changed in them."""
        made = []
        for own, group in zip(self._captured.groups, groups, strict=True):
            keys = self._captured.shared_keys(own)
            values = {n: self.value(f"state/{key}", rank) for n, key in keys.items()}
            made.append(group | {n: plain_number(v) for n, v in values.items()})
        return made

    def load_state_dict(self, state, optimizer_state=None):
        """Takes over a model's state dict and, if given, an optimizer's (torch.optim's or a step's own),
        whose hyperparameters must be those of the step; its learning rates become those of the optimizer
        object, from which the step goes on reading them. Names may have the `module.` and `_orig_mod.` of wrapped models. After a StateError nothing has changed. Buffers
        that a state dict does not have stay, or, if they are damaged, become the torch model's again. All
        processes of a job call it; the values of the one with rank 0 count.
        """
        check_dict("state dict", state, ())
        state = under_own_names(state, self._model_keys)
        missing = [name for name in self._stored() if name not in state]
        if missing:
            raise StateError(
                f"state dict: has no {missing[0]!r}; expected every name of the model's state dict"
                + remedy(state, missing[0])
            )
        extra = [name for name in state if name not in self._model_keys]
        if extra:
            raise StateError(
                f"state dict: has {extra[0]!r}, expected only names of the model's own"
            )
        values = {}
        for name, named in self._stored().items():
            self._put(values, named, checked(named.kind, state[name]))
        self._take(self._beyond_dicts() | values, optimizer_state)

    def _put(self, values, named, value):
        """Into `values` by key: where tensors share memory, in the place that is the named one's, as PyTorch copies."""
        key = named.argument.key
        if not named.argument.views:
            values.setdefault(key, value)
            return
        if key not in values:
            values[key] = self.value(key) if named.viewed else value.clone()
        named.of(values[key]).copy_(value)

    def _take(self, values, optimizer_state=None):
        """Takes over values by key, and an optimizer's state dict."""
        with_model = bool(values)
        if optimizer_state is not None:
            values = values | self._optimizer_values(optimizer_state)
            self._counts.load(*self._loaded_counts)
        for key, value in values.items():
            self._set(key, value, self._root)
            self._missing.pop(key, None)
        if optimizer_state is not None:
            hyperparameters.restore(self._optimizer, optimizer_state["param_groups"])
        self._took_over(with_model, optimizer_state is not None)

    def _took_over(self, with_model=True, with_optimizer=True):
        """What the torch model and optimizer have now has been seen."""
        self._watch.begin(with_model, with_optimizer)
        self._captured.note_shared()
        self._trained.take_over(with_model, with_optimizer)
        self.is_ahead |= with_model
        self._rates_checked = False

    def _beyond_dicts(self):
        """{key: value to start from} of what is damaged and in no state dict."""
        keys = [
            f"{t.role}/{t.name}" for t in self.store.tensors if t.damaged and t.role == "buffer"
        ]
        lost = [self._arguments[key] for key in keys if key in self._arguments]
        return {
            a.key: a.value for a in lost if a.name not in self._model_keys and a.value is not None
        }

    def _optimizer_values(self, optimizer_state):
        """{key: value} of what the state dict of an optimizer gives."""
        what = "optimizer state dict"
        check_dict(what, optimizer_state, ("state", "param_groups"))
        check_dict(f"{what}: 'state'", optimizer_state["state"])
        self._check_groups(optimizer_state["param_groups"], what)
        values, counts, states = {}, {}, self._states()
        untrained = self._untrained_state()
        for index, name in self._parameters_in_order():
            entries = optimizer_state["state"].get(index, {})
            check_dict(f"{what}: state {index}", entries)
            if entries:
                counted = "step" in entries and self._counts_in_state(name)
                counts[name] = count_of(what, entries["step"]) if counted else None
            known = {"step", *self._captured.constants_in(name)}
            lost = [s for s, value in entries.items() if s not in known and value is not None]
            if lost and not states[name] and not is_same_state(entries, untrained.get(index, {})):
                raise StateError(
                    f"{what}: has state {lost[0]!r} of parameter {name!r}, which has no gradient in the step; thaw it before"
                    " tandem.compile, or give an example batch that trains it"
                )
            for state_name, argument in filter(lambda s: is_own(s[0]), states[name]):
                value = entries.get(state_name)
                value = (
                    self._captured.states(name, fresh=True)[state_name] if value is None else value
                )
                values[argument.key] = checked(argument, as_tensor(value))
        values |= self._group_values(optimizer_state["param_groups"], what)
        return values | self._own_values(optimizer_state, counts)

    def _counts_in_state(self, name):
        """Whether a state's `step` is the count of steps, and no state that may stay what it is."""
        return all(f"step.{name}" != argument.name for _, argument in self._states()[name])

    def _group_values(self, groups, what):
        """{key: value} of the numbers that steps change in parameter groups."""
        values = {}
        for own, group in zip(self._captured.groups, groups, strict=True):
            for name, key in self._captured.shared_keys(own).items():
                if not is_number(group.get(name)):
                    raise StateError(
                        f"{what} parameter group {own.index}: {name} is {group.get(name)!r}, expected a number"
                    )
                values[f"state/{key}"] = as_tensor(group[name])
        return values

    def _check_groups(self, groups, what):
        """That parameter groups are the captured ones, but for what may change, which they have."""
        self._captured.check_options(groups, what)
        self._rates(groups, what)

    def _own_values(self, optimizer_state, counts):
        """Step count and seed. `counts` are those of the parameters that have a state, None where it has none."""
        what, own = "optimizer state dict", optimizer_state.get(_OWN_STATE, {})
        check_dict(f"{what}: {_OWN_STATE!r}", own)
        counted = [count for count in counts.values() if count is not None]
        count = own.get("step", max(counted, default=self._uncounted(optimizer_state["state"])))
        count = count_of(what, count)
        known = self._programs.updated & self._states().keys()
        taken = {name: counts.get(name, 0) for name in known}
        taken = {name: count if own is None else own for name, own in taken.items()}
        self._loaded_counts = taken, count
        values = {"step/step": torch.tensor(count)}
        if "seed" in own:
            values["seed/seed"] = torch.tensor(count_of(what, own["seed"]))
        return values

    # Checkpoints, and copies from and to PyTorch

    @property
    def count(self):
        """How many steps these values have been trained. Asks no other process."""
        index = self._index("step/step")
        if index < 0:
            return int(self._kept.get("step/step", self._arguments["step/step"].value))
        own = self._session.ranks[0]
        member = next(s.member for s in self._session.slices(index) if s.rank == own)
        value = torch.empty((), dtype=DTYPES[self._session.arguments[index].type])
        self._session.read_slice(member, own, 0, value)
        return int(value)

    def save(self, folder, scheduler=None, extra=None):
        """Writes a checkpoint of all that the step needs to go on (docs/checkpoints.md): values, step count, seed,
        the optimizer's rates and the states of its learning-rate schedulers (`scheduler`: one or a list; by default
        those that there are). `extra` is what `load` returns: numbers, texts, lists, dicts and small tensors. All
        processes of a job call it; each writes what it has. When it returns, all is on the disk. What ends it before,
        a full disk or a killed process, leaves the checkpoint that was in `folder` whole. Raises CheckpointError.
        """
        with self._alone():
            checkpoint.save(self, folder, scheduler, extra)

    def load(self, folder=None, *, model=None, optimizer=None, scheduler=None):
        """Takes over what `save` wrote, under whatever mesh, plan, micro and number of processes, and returns its
        `extra`: the optimizer gets the rates, the schedulers their states. Schedulers are made before; with
        `scheduler=()` there are none to load. Or takes over the values of a torch model, an optimizer, or both, by
        name; in a job those of process 0 count. After a StateError nothing has changed; an error of the disk while
        values are read leaves them damaged, so that the next step is an error.
        """
        given = (folder is not None, model is not None or optimizer is not None)
        if given == (False, False) or given == (True, True):
            raise StateError(
                "load: expected a folder, or a model and an optimizer, or one of these"
            )
        with self._alone():
            if folder is not None:
                return checkpoint.load(self, folder, scheduler)
            return copies.copy_in(self, model, optimizer)

    def sync_to(self, model=None, optimizer=None, rank=None):
        """Copies values into a torch model, the optimizer's state into a torch optimizer of its parameters, or both,
        in PyTorch's own layout, so that a plain PyTorch loop goes on from here. One tensor at a time is put together;
        all processes of a job call it, and with `rank` only the process that has it copies.
        """
        with self._alone():
            copies.copy_out(self, model, optimizer, rank)

    @contextlib.contextmanager
    def _alone(self):
        """No other thread is in the step meanwhile."""
        if not self._running.acquire(blocking=False):
            raise RunError(
                "step: called while another thread is in it, expected one call at a time"
            )
        try:
            yield
        finally:
            self._running.release()

    def _uncounted(self, state):
        """The step count where the optimizer, such as SGD, has none: the step's own goes on, so that no random number
        comes again; but a momentum that is there is not the first one, and one that is not there is.
        """
        has_states = any(argument.role == "state" for argument in self._arguments.values())
        if not has_states:
            return self.count
        return max(self.count, 1) if state else 0

    # Reports

    @property
    def plan(self):
        """The plan as a table: which tensors are split how, which collectives with how many bytes."""
        return self._compiled.plan_table if self._compiled else ""

    @property
    def compiled(self):
        """The reports of the compiler: `plan` (as text that compiles again), `remarks`, `seconds`."""
        return self._compiled

    def explain(self, path=None, file=None, search_time_limit=0):
        """Prints why the plan is as it is (docs/explanations.md); returns it as a dict,
        and writes that as JSON to `path`. A plan is priced for the cluster that the step was compiled for,
        a laptop without one. `file` is where it is printed; default: standard output. After
        `search_time_limit` seconds, if that is not 0, other forms are estimated briefly, or not looked at.
        """
        return explain(
            self._compiled,
            self.module,
            self._cluster,
            self._recompute,
            path,
            file,
            search_time_limit,
        )

    @property
    def program(self):
        """The Program, as data."""
        return self._session.program

    def save_program(self, path):
        """Writes the Program, for `tandem-run`. All processes of a job may write it to one path."""
        native().write_program(os.fsdecode(path), self.bytes)

    @contextlib.contextmanager
    def trace(self, path):
        """Within `with step.trace("timeline.json"):` steps are recorded. At the end the timeline of all ranks is
        written, where rank 0 is; every process of a job takes part. After a failed step it has what there is.
        """
        check_place(os.fspath(path), self._job)
        self._session.start_trace()
        try:
            yield self
        except BaseException as error:
            # An error of a step is that of all processes; of another one they know nothing.
            with contextlib.suppress(RunError):
                self._write_trace(path, alone=not isinstance(error, RunError))
            raise
        self._write_trace(path)

    def _write_trace(self, path, alone=False):
        self._session.stop_trace()
        is_here, lacks = self._session.write_trace(os.fspath(path), alone)
        self._timeline = os.fspath(path) if is_here else None
        if lacks:
            raise RunError(lacks)

    def report(self, predicted=None, skip=0):
        """What was hidden in the timeline that `trace` wrote last, as `tandem.report`; None in a process
        that has not written it.
        """
        return None if self._timeline is None else report(self._timeline, predicted, skip)

    def hidden_share(self):
        """Share of the recorded communication time of this process' ranks that lies beside their computation."""
        return self._session.hidden_share()
