"""A compiled training step with its values: what `tandem.compile` returns."""

import contextlib
import json
import numbers
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping

import torch

from .arguments import batch_constants, batch_tensors
from .errors import BatchError, CompileError, RunError, StateError, TandemError
from .native import native
from .optimizers import FunctionalOptimizer
from .python_state import Flags
from .timeline import report
from .watch import Watch, check_schedulers

_DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i8": torch.int8,
    "i1": torch.bool,
}
# Key of a Tandem step's own values in an optimizer's state dict; torch.optim ignores it.
_OWN_STATE = "tandem"
# Roles of what the model's state dict has.
_STORED = ("parameter", "buffer")


def check_time_limit(seconds):
    """The limit of a search, as the compiler takes it."""
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= sys.float_info.max:
        raise CompileError(f"search_time_limit is {seconds!r}, expected seconds, or 0 for no limit")
    return seconds


def _check_outputs(path, file):
    """That text can be written to both, each of which may be None; `path` exists then."""
    try:
        what = f"path {path!r}"
        if path is not None:
            open(os.fspath(path), "a").close()
        what = f"file {file!r}"
        if file is not None:
            file.write("")
    except (AttributeError, OSError, TypeError, ValueError) as error:
        raise TandemError(f"explain: cannot write to {what}: {error}") from error


def _type_name(dtype, shape):
    return f"{str(dtype).removeprefix('torch.')}{list(shape)}"


def _rate(index, rate):
    """A group's learning rate as an argument of the step."""
    one = isinstance(rate, torch.Tensor) and rate.numel() == 1 and not rate.is_meta
    if not one and not isinstance(rate, numbers.Real):
        raise StateError(
            f"optimizer parameter group {index}: lr is {rate!r}, expected a number or a tensor of one"
        )
    return torch.as_tensor(rate, dtype=torch.float64).reshape(())


def _count(what, value):
    """An integer, which torch.optim stores as a tensor of floating-point type."""
    try:
        return int(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise StateError(f"{what}: found {value!r}, expected an integer") from error


def _check_dict(what, value, keys=()):
    if not isinstance(value, Mapping):
        raise StateError(f"{what}: found {type(value).__name__}, expected a dict")
    for key in keys:
        if key not in value:
            raise StateError(
                f"{what}: has no {key!r}, expected what {what.replace(' ', '_')}() gives"
            )


def _names_of(batch, tensors):
    if tensors:
        return f"tensors {', '.join(tensors)}"
    return f"no tensor but {type(batch).__module__}.{type(batch).__qualname__}".replace(
        "builtins.", ""
    )


def _expected_names(names):
    """A batch that is one tensor has no names; `0` stands for it."""
    return "a tensor" if names == ["0"] else f"tensors {', '.join(names)}"


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
    ):
        """`module` is the captured step, `program` the bytes of a Program made of it; `cluster` is the file
        that plans are priced for, `recompute` what the step was compiled with. `store` is that of another
        step, whose values are used as they are: both train the same parameters.
        """
        held = {f"{t.role}/{t.name}" for t in store.tensors} if store is not None else ()
        self._cluster, self._recompute = cluster, recompute
        self.module, self.bytes = module, program
        self._model_keys = list(model.state_dict())
        self._parameter_names = {id(p): name for name, p in model.named_parameters()}
        self._optimizer = optimizer
        self._flags = Flags(model)
        self._captured = FunctionalOptimizer(optimizer, list(model.named_parameters()))
        self._compiled = compiled
        self._session = native().Session(program, threads, store)
        if self._session.notice:
            warnings.warn(self._session.notice, stacklevel=3)
        # Of several processes the values of the first one count.
        self._root = 0 if len(self._session.ranks) < self._session.program.num_ranks else None
        self._running = threading.Lock()
        self._arguments = {a.key: a for a in module.arguments}
        # Of a model on the meta device: what has no value before `load_state_dict` gives one.
        self._missing = {}
        for argument in module.arguments:
            if argument.key not in held:
                self._start(argument)
        if "seed/seed" not in held:
            self._set("seed/seed", torch.tensor(seed), self._root)
        self._watch = Watch(model, optimizer)
        self._rates_checked = False
        self._timeline = None

    @property
    def store(self):
        """Where the values are; `store.tensors` lists them."""
        return self._session.store

    def _start(self, argument):
        if argument.value is not None:
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
        """One training step; returns the loss, a rank-0 tensor."""
        if not self._running.acquire(blocking=False):
            raise RunError(
                "step: called while another thread is in it, expected one call at a time"
            )
        try:
            return self._run(batch)
        finally:
            self._running.release()

    def _run(self, batch):
        self._check_values()
        inputs = self._check_batch(batch)
        self._captured.check_options()
        self._flags.check()
        rates = [_rate(i, group["lr"]) for i, group in enumerate(self._optimizer.param_groups)]
        self._check_changes(rates)
        for argument, tensor in inputs:
            self._set(argument.key, tensor)
        for index, rate in enumerate(rates):
            self._set(f"learning_rate/{index}", rate)
        self._session.step()
        return self.result("loss", "loss")

    def _check_changes(self, rates):
        """That the torch model and optimizer have not been given values that the step has not."""
        if not self._rates_checked:
            check_schedulers(self._optimizer, [float(rate) for rate in rates])
            self._rates_checked = True
        if not self._watch.changed():
            return
        self._watch.check_model(self._by_name(), self.value)
        self._watch.check_optimizer(self.optimizer_state_dict)
        self._watch.begin()

    def _check_batch(self, batch):
        """[(argument, tensor)]: the inputs, like the example's."""
        tensors = batch_tensors(batch)
        wanted = [a for a in self.module.arguments if a.role == "input"]
        names = [a.name for a in wanted]
        if list(tensors) != names and set(tensors) != set(names):
            raise BatchError(
                f"batch: found {_names_of(batch, tensors)}, expected {_expected_names(names)} as in"
                " the example batch"
            )
        self._check_constants(batch)
        for argument in wanted:
            tensor = tensors[argument.name]
            if tensor.is_meta:
                raise BatchError(
                    f"batch: tensor {argument.name!r} is on the meta device, expected one with values"
                )
            if tuple(tensor.shape) != tuple(argument.shape) or tensor.dtype != argument.dtype:
                raise BatchError(
                    f"batch: tensor {argument.name!r} is {_type_name(tensor.dtype, tensor.shape)}, expected"
                    f" {_type_name(argument.dtype, argument.shape)} as in the example batch"
                )
        return [(argument, tensors[argument.name]) for argument in wanted]

    def _check_constants(self, batch):
        """What is no tensor was a constant of the captured step."""
        expected, found = self.module.constants, batch_constants(batch)
        for name in expected.keys() | found.keys():
            a, b = (repr(values.get(name, "nothing")) for values in (found, expected))
            if a != b:
                raise BatchError(
                    f"batch: {name!r} is {a}, expected {b} as in the example batch; what changes from"
                    " batch to batch has to be a tensor"
                )

    # Values by role and name

    def _index(self, key):
        role, _, name = key.partition("/")
        return self._session.find_argument(role, name)

    def _set(self, key, value, root=None):
        index = self._index(key)
        if index >= 0:  # An argument that the step does not use is not in the Program.
            self._session.set_argument(index, value.detach().cpu().contiguous(), root)

    def value(self, key, rank=None):
        """The whole tensor of an argument, as it will be at the next step; with `rank` only in its process."""
        index = self._index(key)
        if key in self._missing:
            self._check_values()
        if index < 0:
            return self._arguments[key].value
        return self._read(self._session.arguments[index], self._session.get_argument, index, rank)

    def result(self, role, name):
        """A result of the last step as a whole tensor."""
        index = self._session.find_result(role, name)
        if index < 0:
            raise TandemError(f"the step has no result {role}/{name}")
        return self._read(self._session.results[index], self._session.get_result, index)

    @staticmethod
    def _read(whole, get, index, rank=None):
        tensor = torch.empty(tuple(whole.shape), dtype=_DTYPES[whole.type])
        get(index, tensor, rank)
        return tensor

    def gradients(self):
        """{parameter name: gradient} of the last step; the step must be compiled with `gradients=True`."""
        names = [r.name for r in self.module.results if r.role == "gradient"]
        if not names:
            raise TandemError(
                "gradients: the step was compiled without them, expected compile(..., gradients=True)"
            )
        return {name: self.result("gradient", name) for name in names}

    # State dicts

    def state_dict(self, rank=None):
        """Whole tensors under the model's own names, tied ones too: for `model.load_state_dict`. All
        processes of a job call it; with `rank` only the one that has it gets them, and the others {}.
        """
        values = {
            a.key: self.value(a.key, rank) for a in self.module.arguments if a.role in _STORED
        }
        if not self._has(rank):
            return {}
        return {name: values[argument.key] for name, argument in self._stored().items()}

    def _has(self, rank):
        return rank is None or rank in self._session.ranks

    def _by_name(self):
        """{name in the model: argument} of parameters and buffers, tied names too."""
        return {
            name: argument
            for argument in self.module.arguments
            if argument.role in _STORED
            for name in (argument.name, *argument.aliases)
        }

    def _stored(self):
        """{name in the model's state dict: argument}."""
        named = self._by_name()
        return {name: named[name] for name in self._model_keys if name in named}

    def _parameters_in_order(self):
        """(index in the optimizer's state dict, parameter name)."""
        parameters = [p for group in self._optimizer.param_groups for p in group["params"]]
        return [(i, self._parameter_names[id(p)]) for i, p in enumerate(parameters)]

    def _states_of(self, parameter):
        """[(name of the state, argument)] of a parameter."""
        states = [a for a in self.module.arguments if a.role == "state" and a.of == parameter]
        return [(a.name.removesuffix(f".{parameter}"), a) for a in states]

    def optimizer_state_dict(self, rank=None):
        """For `optimizer.load_state_dict` of torch.optim, and for `load_state_dict` of a step. `rank` as
        in `state_dict`.
        """
        count = self.value("step/step")
        state = {}
        for index, name in self._parameters_in_order() if count else ():
            entries = {
                state_name: self.value(a.key, rank) for state_name, a in self._states_of(name)
            }
            if entries and not isinstance(self._optimizer, torch.optim.SGD):
                entries = {"step": count.to(torch.get_default_dtype()), **entries}
            if entries:
                state[index] = entries
        groups = self._optimizer.state_dict()["param_groups"]
        own = {"step": int(count), "seed": int(self.value("seed/seed"))}
        if not self._has(rank):
            return {}
        return {"state": state, "param_groups": groups, _OWN_STATE: own}

    def load_state_dict(self, state, optimizer_state=None):
        """Takes over a model's state dict and, if given, an optimizer's (torch.optim's or a step's own),
        whose hyperparameters must be those of the step and whose learning rates those of the optimizer
        object, from which the step goes on reading them. After a StateError nothing has changed. Buffers
        that a state dict does not have stay, or, if they are damaged, become the torch model's again. All
        processes of a job call it; the values of the one with rank 0 count.
        """
        _check_dict("state dict", state, ())
        missing = [name for name in self._stored() if name not in state]
        if missing:
            raise StateError(
                f"state dict: has no {missing[0]!r}; expected every name of the model's state dict"
            )
        extra = [name for name in state if name not in self._model_keys]
        if extra:
            raise StateError(
                f"state dict: has {extra[0]!r}, expected only names of the model's own"
            )
        stored = [
            a for a in self.module.arguments if a.role in _STORED and a.name in self._model_keys
        ]
        values = {a.key: self._checked(a, state[a.name]) for a in stored}
        if optimizer_state is not None:
            values |= self._optimizer_values(optimizer_state)
        for key, value in (self._beyond_dicts() | values).items():
            self._set(key, value, self._root)
            self._missing.pop(key, None)
        self._watch.begin(with_optimizer=optimizer_state is not None)
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

    @staticmethod
    def _checked(argument, value):
        """The value in the argument's type."""
        if not isinstance(value, torch.Tensor) or value.is_meta:
            raise StateError(
                f"state dict: {argument.name!r} is {type(value).__name__}, expected a tensor with values"
            )
        if tuple(value.shape) != tuple(argument.shape):
            raise StateError(
                f"state dict: {argument.name!r} has shape {list(value.shape)}, expected {list(argument.shape)}"
            )
        return value.to(argument.dtype)

    def _optimizer_values(self, optimizer_state):
        """{key: value} of what the state dict of an optimizer gives."""
        what = "optimizer state dict"
        _check_dict(what, optimizer_state, ("state", "param_groups"))
        _check_dict(f"{what}: 'state'", optimizer_state["state"])
        self._captured.check_options(optimizer_state["param_groups"], what)
        self._check_rates(what, optimizer_state["param_groups"])
        values, counts = {}, set()
        for index, name in self._parameters_in_order():
            entries = optimizer_state["state"].get(index, {})
            _check_dict(f"{what}: state {index}", entries)
            counts |= {_count(what, entries["step"])} if "step" in entries else set()
            for state_name, argument in self._states_of(name):
                value = entries.get(state_name)
                value = torch.zeros(argument.shape) if value is None else value
                values[argument.key] = self._checked(argument, value)
        return values | self._own_values(optimizer_state, counts)

    def _check_rates(self, what, groups):
        """A rate of a checkpoint that the optimizer object has not would be lost."""
        for index, (saved, group) in enumerate(
            zip(groups, self._optimizer.param_groups, strict=True)
        ):
            if "lr" in saved and float(_rate(index, saved["lr"])) != float(
                _rate(index, group["lr"])
            ):
                raise StateError(
                    f"{what} parameter group {index}: lr is {float(saved['lr'])}, expected"
                    f" {float(group['lr'])} as in optimizer.param_groups, from which the step reads it; call"
                    " optimizer.load_state_dict before step.load_state_dict, or set the rate there"
                )

    @staticmethod
    def _own_values(optimizer_state, counts):
        """Step count and seed. `counts` are the different counts of the parameters."""
        what, own = "optimizer state dict", optimizer_state.get(_OWN_STATE, {})
        _check_dict(f"{what}: {_OWN_STATE!r}", own)
        if len(counts) > 1:
            raise StateError(
                f"{what}: parameters have taken {sorted(counts)} steps, expected one count"
            )
        # SGD does not count its steps, but a momentum that is there is not the first one.
        count = own.get("step", next(iter(counts), 1 if optimizer_state["state"] else 0))
        values = {"step/step": torch.tensor(_count(what, count))}
        if "seed" in own:
            values["seed/seed"] = torch.tensor(_count(what, own["seed"]))
        return values

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
        """Prints why the plan is as it is (docs/planner.md, *Reading an explanation*); returns it as a dict,
        and writes that as JSON to `path`. A plan is priced for the cluster that the step was compiled for,
        a laptop without one. `file` is where it is printed; default: standard output. After
        `search_time_limit` seconds, if that is not 0, other forms are estimated briefly, or not looked at.
        """
        if self._compiled is None:
            raise TandemError("explain: the step has no plan, expected one of tandem.compile")
        _check_outputs(path, file)
        with tempfile.TemporaryDirectory() as folder:
            plan = os.path.join(folder, "plan.txt")
            with open(plan, "w") as text:
                text.write(self._compiled.plan)
            options = native().CompileOptions()
            options.plan_file, options.cluster = plan, os.fspath(self._cluster or "")
            options.explain, options.stop_after = True, "plan"
            options.search_time_limit = check_time_limit(search_time_limit)
            options.recompute = self._recompute
            explained = native().compile(self.module.mlir, "step.mlir", options)
        print(explained.explanation, end="", file=file)
        if path is not None:
            with open(path, "w") as text:
                text.write(explained.explanation_json)
        return json.loads(explained.explanation_json)

    @property
    def program(self):
        """The Program, as data."""
        return self._session.program

    def save(self, path):
        """Writes the Program, for `tandem-run`."""
        with open(path, "wb") as file:
            file.write(self.bytes)

    @contextlib.contextmanager
    def trace(self, path):
        """Within `with step.trace("timeline.json"):` steps are recorded. At the end the timeline of all ranks is
        written, where rank 0 is; every process of a job takes part. After a failed step it has what there is.
        """
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
