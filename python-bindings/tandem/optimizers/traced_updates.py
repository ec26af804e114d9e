"""Updates of optimizers without formulas: traced from their own `step`.

`step` runs on a copy of the optimizer. Its parameters, gradients and state are tensors of the trace; rates, counts and
other changing numbers are Numbers (`traced_numbers.py`). PyTorch's optimizers handle one parameter at a time, so one
trace serves all that are alike. Other classes may not, so they are traced for all parameters at once.
"""

import contextlib
import inspect
from collections import defaultdict
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from ..base.types import is_number
from ..errors import CaptureError
from .experiments import (
    IMPLEMENTATIONS,
    Experiment,
    Recorder,
    check_kept,
    explained,
    like,
    marks,
    plain_group,
    twin_of,
)
from .paths import Paths
from .traced_numbers import SMALLEST, Number, TensorsAsNumbers, functions_of_numbers

# They look at all parameters, call the loss again, or want sparse gradients.
_REFUSED = (torch.optim.LBFGS, torch.optim.SparseAdam)
_POSITIVE = (SMALLEST, float("inf"))


def step_of(kind):
    """The `step` of a class as it is written, without what PyTorch, schedulers and dynamo wrap it in."""
    return inspect.unwrap(kind.step)


def init_of(kind):
    """The function that makes the state, as it is written."""
    return inspect.unwrap(kind._init_group)


def updates_alone(kind):
    """Whether every parameter is updated by itself: `step` is PyTorch's own, or the class says so."""
    return getattr(kind, "updates_alone", step_of(kind).__module__.startswith("torch.optim."))


def _check_holds_none(optimizer):
    """CaptureError for one that lets another one update: that has the parameters of eager, to which a step gives no gradients."""
    for name, value in optimizer.__dict__.items():
        inner = list(value.values()) if isinstance(value, dict) else value
        for each in inner if isinstance(inner, (list, tuple)) else [inner]:
            if isinstance(each, torch.optim.Optimizer):
                kind = type(each).__qualname__
                raise CaptureError(
                    f"optimizer {type(optimizer).__qualname__}: holds an optimizer {kind} in {name!r}, whose step would find no"
                    f" gradients, expected that one itself, or a class whose own step updates the parameters"
                )


class State:
    """Of one parameter: `tensors` that it begins with, the names of those that are numbers in eager, `constants` that stay
    what they are, and whether eager counts its steps, in `step`.
    """

    def __init__(self, tensors, numbers, constants, counts):
        self.tensors, self.numbers, self.constants = tensors, numbers, constants
        self.counts = counts


class _Changes(CaptureError):
    """The step changes the number `name`, which is `value`, of a group."""

    def __init__(self, kind, group, name, value):
        super().__init__(
            f"optimizer {kind}: its step changes {name!r} of its parameter group for some values only, expected it to be"
            " a number from the beginning"
        )
        self.group, self.name, self.value = group, name, value


class _Uncounted(CaptureError):
    """A way does not count a step."""


class TracedUpdates:
    """Of an optimizer object, which is read and never changed."""

    def __init__(self, optimizer):
        self.optimizer, self.kind = optimizer, type(optimizer).__qualname__
        self.is_joint = not updates_alone(type(optimizer))
        if isinstance(optimizer, _REFUSED):
            raise CaptureError(
                f"optimizer {self.kind}: expected one that updates parameters by their dense gradients, once per step"
            )
        _check_holds_none(optimizer)
        self.step = step_of(type(optimizer))
        experiment = Experiment(optimizer, self.step)
        self.found, self._known = experiment.run(), {}
        # Of hyperparameters, for which the step goes the way that was traced (`paths.py`).
        self.guards = {}
        if self.is_joint and self.found.states:
            self._discover(experiment)

    def _discover(self, experiment):
        """Finds what the step changes in groups on any of its ways, by ways of small tensors of which only shapes matter."""
        places, groups = 0, []
        for options, group in zip(experiment.options, self.optimizer.param_groups, strict=True):
            own = range(places, places + len(group["params"]))
            places += len(group["params"])
            groups.append((len(groups), options, sorted({own[0], own[-1]}) if own else []))
        keys = [key for _, _, own in groups for key in own]
        while True:
            try:
                self._go_all_ways(experiment, groups, keys)
            except _Changes as change:
                self.found.shared[change.group][change.name] = change.value
            except _Uncounted:
                self.found.counts = False
            except Exception:
                return  # The capture says it at its line.
            else:
                return

    def _go_all_ways(self, experiment, groups, keys):
        known = {key: self._state(self.found.states[key], ()) for key in keys}
        with FakeTensorMode(allow_non_fake_inputs=True):
            values = {
                k: torch.empty(experiment.shapes[k], dtype=experiment.dtypes[k]) for k in keys
            }
            inputs = {
                "values": values,
                "gradients": {k: torch.empty_like(v) for k, v in values.items()},
                "states": {
                    k: {n: torch.empty(t.shape, dtype=t.dtype) for n, t in known[k].tensors.items()}
                    for k in keys
                },
                "shared": [
                    {n: torch.empty((), dtype=torch.float64) for n in own}
                    for own in self.found.shared
                ],
                "numbers": [
                    {"lr": torch.empty((), dtype=torch.float64)} if is_number(o.get("lr")) else {}
                    for o in experiment.options
                ],
                "counts": {0: torch.empty((), dtype=torch.float64)},
            }
            way = _Way(self, groups, dict.fromkeys(keys, 0), known, lambda tensor: True)
            way.is_trial = True
            self._go(inputs, way, Paths(self.kind))

    def shared(self, group):
        """{name: number that it has now} of what steps change in a parameter group, by its number."""
        now = self.optimizer.param_groups[group]
        return {n: now.get(n, first) for n, first in self.found.shared[group].items()}

    def states(self, parameter, options, fresh=False):
        """The `State` of the parameter before its next update, or its first one."""
        held = {} if fresh else self.optimizer.state.get(parameter, {})
        depends = held or self.found.begins
        key = id(parameter) if depends else (tuple(parameter.shape), parameter.dtype, repr(options))
        if (key, fresh) not in self._known:
            self._known[key, fresh] = self._probe(parameter, options, held)
        return self._known[key, fresh]

    def _probe(self, parameter, options, held):
        """Takes a step: `step` makes the state, and counts."""
        own = torch.ones(parameter.shape, dtype=parameter.dtype)
        if not parameter.is_meta and self.found.begins:
            own = parameter.detach().clone()
        own.grad = torch.ones_like(own)
        unknown = {k: v for k, v in held.items() if torch.is_tensor(v) and v.is_meta}
        known = {k: v.clone() if torch.is_tensor(v) else v for k, v in held.items()}
        zeros = {k: torch.zeros_like(v, device="cpu") for k, v in unknown.items()}
        state = Recorder(known | zeros)
        twin = twin_of(
            self.optimizer, [plain_group(dict(options), [own])], defaultdict(Recorder, {own: state})
        )
        with torch.no_grad(), explained(self.kind):
            self.step(twin)
        begun = {k: like(state.first[k], v) for k, v in state.items()}
        return self._state(begun | unknown, held)

    def _state(self, begun, held):
        """`begun` is what was made, or `held`."""
        tensors, numbers, constants = {}, set(), {}
        counts = self.found.counts and "step" in begun and _kind_of_count(begun["step"])
        for name, value in begun.items():
            if name == "step" and counts:
                continue
            if is_number(value):
                numbers.add(name)
                value = torch.tensor(float(value), dtype=torch.float64)
            if isinstance(value, torch.Tensor):
                value = value.detach().clone()
                fresh = self.found.begins and name not in held
                tensors[name] = torch.zeros_like(value) if fresh else value
            elif value is None or isinstance(value, (bool, str)):
                constants[name] = value
            else:
                raise CaptureError(
                    f"optimizer {self.kind}: state {name!r} is {type(value).__name__}, expected tensors and numbers"
                )
        return State(tensors, frozenset(numbers), constants, counts)

    def run(self, inputs, groups, starts, known, numbers, value_of=None):
        """({key: new tensor}, {key: {name: new tensor}}, [{name: new tensor}], [(tensor that has to be true, message)]): of
        parameters, their states and their groups. `inputs` are trees of tensors: `values` of parameters by any keys,
        `gradients` of some, `states` of these, `shared` and `numbers` of each group, where a list stands for a tuple, and
        `counts`, the steps that parameters have taken before this one, by their starts, which `starts` says. `groups` are the
        number of each, its hyperparameters and keys, `known` the `State` of each parameter, `numbers` are
        {name: number now} of what `inputs` have of the groups, `value_of` is that of TensorsAsNumbers.
        """
        paths = Paths(self.kind, numbers)
        tensors, checks = self._go(inputs, _Way(self, groups, starts, known, value_of), paths)
        self.guards |= paths.guards
        tensors = iter(tensors)
        values = {key: next(tensors) for key in inputs["values"]}
        states = {k: {n: next(tensors) for n in own} for k, own in inputs["states"].items()}
        shared = [{n: next(tensors) for n in own} for own in inputs["shared"]]
        return values, states, shared, checks

    @staticmethod
    def _go(inputs, way, paths):
        """(new tensors, checks) of all ways together."""
        messages = []

        def update(inputs):
            outcome = paths.explore(lambda: way.go(inputs, paths))
            if outcome.tensors is None or any(ok is False for ok, _ in outcome.checks):
                raise CaptureError(next(message for ok, message in outcome.checks if ok is False))
            messages.extend(message for _, message in outcome.checks)
            return outcome.tensors, [ok for ok, _ in outcome.checks]

        with torch.no_grad():
            tensors, checks = torch.func.functionalize(update, remove="mutations")(inputs)
        return tensors, list(zip(checks, messages, strict=True))


def _kind_of_count(count):
    return "tensor" if isinstance(count, torch.Tensor) else "number"


def _option(tensor, group, name, place, bounds):
    """A hyperparameter, with its name among the numbers of a step."""
    own = str(group) if name == "lr" else f"{group}.{name}.{place}"
    return Number(tensor, ("option", own), bounds, lambda values: values[own])


class _Way:
    """One trace of the step, of which Python goes one way."""

    def __init__(self, updates, groups, starts, known, value_of):
        self.updates, self.groups, self.starts, self.known = updates, groups, starts, known
        self.value_of, self.found = value_of, updates.found

    def go(self, inputs, paths):
        """New tensors: of parameters, their states, and groups."""
        mode = TensorsAsNumbers(paths)
        with mode:
            values = {key: value.clone() for key, value in inputs["values"].items()}
            for key, gradient in inputs["gradients"].items():
                values[key].grad = gradient.clone()
            counts = {
                start: Number(count.to(torch.float64), ("count", start), (0.0, float("inf")))
                for start, count in inputs["counts"].items()
            }
            firsts = {start: self._is_first(start, count, paths) for start, count in counts.items()}
            states = {
                key: {}
                if firsts[self.starts[key]]
                else self._state(key, own, counts[self.starts[key]])
                for key, own in inputs["states"].items()
            }
            held = defaultdict(dict, {values[key]: state for key, state in states.items()})
            begun = not any(firsts.values())
            mode.value_of = None if begun else self.value_of
            own = [self._group(i, inputs, values, begun) for i in range(len(self.groups))]
            twin = twin_of(self.updates.optimizer, own, held)
            self._step(twin)
            self._check_counts(twin, inputs, values, counts, firsts, paths)
            return self._results(twin, inputs, values, paths)

    def _is_first(self, start, count, paths):
        if not self.found.begins:
            return False
        return paths.decide(Number(count.tensor == 0, ("first", start)))

    def _state(self, key, own, count):
        known = self.known[key]
        state = dict(known.constants)
        for name, tensor in own.items():
            state[name] = tensor.clone()
            if name in known.numbers:
                state[name] = Number(tensor, ("state", key, name))
        if known.counts:
            state["step"] = count if known.counts == "number" else count.tensor.clone()
        return state

    def _group(self, index, inputs, values, begun):
        """PyTorch's formulas for tensors of counts."""
        number, options, keys = self.groups[index]
        forced = {"foreach": False, "fused": False, "capturable": True, "differentiable": False}
        group = options | {name: value for name, value in forced.items() if name in options}
        for name, tensors in inputs["numbers"][index].items():
            bounds = (float("-inf"), float("inf")) if name == "lr" else _POSITIVE
            many = isinstance(tensors, list)
            listed = enumerate(tensors if many else [tensors])
            made = [_option(tensor, number, name, i, bounds) for i, tensor in listed]
            group[name] = tuple(made) if many else made[0]
        for name, tensor in inputs["shared"][index].items():
            if begun or name not in self.found.created[index]:
                group[name] = Number(tensor, ("shared", index, name))
        return group | {"params": [values[key] for key in keys]}

    def _step(self, twin):
        shared = [
            self.found.shared[i].keys() | self.found.created[i] for i in range(len(self.groups))
        ]
        own = marks(twin.__dict__)
        of_groups = [marks(g, but) for g, but in zip(twin.param_groups, shared, strict=True)]
        with (
            mock.patch.object(torch.compiler, "is_compiling", lambda: True),
            # PyTorch's own step, called by one behind it, is measured by an object that is no tensor.
            mock.patch.object(torch.autograd.profiler, "record_function", contextlib.nullcontext),
            functions_of_numbers(self.updates.step),
        ):
            self.updates.step(twin)
        check_kept(self.updates.kind, "of the optimizer", own, marks(twin.__dict__))
        for index, (group, but) in enumerate(zip(twin.param_groups, shared, strict=True)):
            after = marks(group, but)
            changed = [n for n in after if repr(after[n]) != repr(of_groups[index].get(n))]
            self._check_groups(index, group, changed)
            check_kept(self.updates.kind, "of its parameter group", of_groups[index], after)

    def _check_groups(self, index, group, changed):
        _, options, _ = self.groups[index]
        for name in changed:
            before = options.get(name, 0.0)
            if (
                name != "lr"
                and is_number(before)
                and (is_number(group[name]) or isinstance(group[name], Number))
            ):
                raise _Changes(self.updates.kind, index, name, before)

    def _check_counts(self, twin, inputs, values, counts, firsts, paths):
        """That every step counts."""
        for key in inputs["states"]:
            start, now = self.starts[key], twin.state[values[key]].get("step")
            if self.known[key].counts != "number" or now is None:
                continue
            expected = 1 if firsts[start] else counts[start] + 1
            same = now == expected if is_number(now) else now.key == getattr(expected, "key", None)
            if not same and self.is_trial:
                raise _Uncounted("counts not")
            if not same:
                paths.check(False, self._refused("counts no step of a parameter"))

    def _check_constants(self, constants, state):
        """That what is neither a tensor nor a number stays what it is."""
        for name, value in constants.items():
            if name in state and (isinstance(state[name], torch.Tensor) or state[name] != value):
                raise CaptureError(
                    f"optimizer {self.updates.kind}: state {name!r} is {value!r} and then another value, expected a tensor or a"
                    " number"
                )

    def _refused(self, what):
        return f"optimizer {self.updates.kind}: its step {what} for the values of this step, expected one that always does"

    def _results(self, twin, inputs, values, paths):
        made = list(values.values())
        for key, own in inputs["states"].items():
            state = twin.state[values[key]]
            self._check_constants(self.known[key].constants, state)
            for name, tensor in own.items():
                if name not in state:
                    paths.check(False, self._refused(f"makes no state {name!r}"))
                made.append(self._as_stored(f"state {name!r}", state.get(name, tensor), tensor))
        for group, own in zip(twin.param_groups, inputs["shared"], strict=True):
            made += [self._as_stored(name, group.get(name, t), t) for name, t in own.items()]
        return made

    def _as_stored(self, name, value, stored):
        if isinstance(value, Number):
            value = value.tensor
        if not isinstance(value, torch.Tensor):
            value = torch.tensor(float(value), dtype=torch.float64)
        numbers = stored.dtype == torch.float64 and not stored.dim()
        value = value.to(torch.float64) if numbers else value
        if value.dtype != stored.dtype or (value.dim() and value.shape != stored.shape):
            raise CaptureError(
                f"optimizer {self.updates.kind}: {name} is {value.dtype} of shape {list(value.shape)} behind a step and"
                f" {stored.dtype} of shape {list(stored.shape)} before, expected the same"
            )
        return value if value.shape == stored.shape else value.expand(stored.shape)


__all__ = ["IMPLEMENTATIONS", "State", "TracedUpdates", "init_of", "step_of", "updates_alone"]
