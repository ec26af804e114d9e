"""Updates of optimizers that have no formula here: traced from their own `step`.

`step` runs on a copy of the optimizer whose parameters, gradients, state, step counts and learning rates are tensors of
the trace. PyTorch's optimizers look at one parameter at a time, so that one is traced for all that are alike; what another
class does is unknown, and it is traced for all parameters at once.
"""

import contextlib
import copy
import inspect
import numbers
from collections import defaultdict
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from .errors import CaptureError, TandemError
from .locations import location_of_traceback

# Ways of PyTorch's to compute the same.
IMPLEMENTATIONS = {"foreach", "fused", "capturable", "differentiable"}
_CONTAINERS = (list, dict, set)
# They look at all parameters, call the loss again, or want sparse gradients.
_REFUSED = (torch.optim.LBFGS, torch.optim.SparseAdam)


def step_of(kind):
    """The `step` of a class as it is written, without what PyTorch, schedulers and dynamo wrap it in."""
    return inspect.unwrap(kind.step)


def init_of(kind):
    """The function that makes the state, as it is written."""
    return inspect.unwrap(kind._init_group)


def updates_alone(kind):
    """Whether every parameter is updated by itself: `step` is PyTorch's own, or the class says so."""
    return getattr(kind, "updates_alone", step_of(kind).__module__.startswith("torch.optim."))


class _Recorder(dict):
    """A parameter's state, which notes what every entry was when it was made."""

    def __init__(self, known):
        super().__init__()
        self.first = {}
        self.update(known)

    def __setitem__(self, name, value):
        if name not in self.first:
            self.first[name] = value.clone() if isinstance(value, torch.Tensor) else value
        super().__setitem__(name, value)

    def update(self, *others, **more):
        for name, value in dict(*others, **more).items():
            self[name] = value

    def setdefault(self, name, value=None):
        if name not in self:
            self[name] = value
        return self[name]


def _copy(optimizer, groups, state):
    """Like the optimizer, on other parameters; without what schedulers have put over its `step`. Containers are its own."""
    twin = object.__new__(type(optimizer))
    own = {k: v for k, v in optimizer.__dict__.items() if k != "step"}
    twin.__dict__.update({k: copy.copy(v) if type(v) in _CONTAINERS else v for k, v in own.items()})
    twin.param_groups, twin.state = groups, state
    return twin


def _numbers(name, value):
    """A state as a tensor, or None for what is none."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return torch.tensor(float(value), dtype=torch.float64)
    if value is None:
        return None
    raise CaptureError(
        f"optimizer state {name!r} is {type(value).__name__}, expected tensors and numbers"
    )


def _marks(attributes):
    """{name: what differs where a value does}: of attributes beside state and groups, or of a group."""

    def mark(value):
        if isinstance(value, torch.Tensor):
            return id(value), value._version
        if type(value) in _CONTAINERS:
            entries = value.items() if isinstance(value, dict) else value
            return [
                mark(e) for pair in entries for e in (pair if isinstance(pair, tuple) else [pair])
            ]
        return value if isinstance(value, (bool, numbers.Real, str)) else id(value)

    others = ("state", "param_groups", "params")
    return {name: mark(value) for name, value in attributes.items() if name not in others}


def _check_kept(kind, what, before, after):
    """CaptureError where a step has changed what is no state: each step would begin with what is there now."""
    for name in before.keys() | after.keys():
        if repr(before.get(name)) != repr(after.get(name)):
            raise CaptureError(
                f"optimizer {kind}: its step changes {name!r} {what}, expected it to keep what changes in"
                " self.state[parameter], as tensors or numbers"
            )


@contextlib.contextmanager
def _explained(kind):
    try:
        yield
    except TandemError:
        raise
    except Exception as error:
        location = location_of_traceback(error.__traceback__)
        place = "" if location.place is None else f"{location}: "
        raise CaptureError(
            f"{place}optimizer {kind}: its step fails where parameters and"
            f" gradients are zeros: {type(error).__name__}: {error}; expected one that takes no argument and looks at no"
            " value"
        ) from error


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


class TracedUpdates:
    """Of an optimizer object, which is read and never changed."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.is_joint = not updates_alone(type(optimizer))
        if isinstance(optimizer, _REFUSED):
            raise CaptureError(
                f"optimizer {type(optimizer).__qualname__}: expected one that updates parameters by their dense"
                " gradients, once per step"
            )
        _check_holds_none(optimizer)
        self._known = {}

    def states(self, parameter, options, fresh=False):
        """({name: tensor}, whether steps are counted) of the parameter before its next update, or its first one."""
        held = {} if fresh else self.optimizer.state.get(parameter, {})
        key = (
            (tuple(parameter.shape), parameter.dtype, repr(options)) if not held else id(parameter)
        )
        if key not in self._known:
            self._known[key] = self._probe(parameter, options, held)
        return self._known[key]

    def _probe(self, parameter, options, held):
        """Takes a step without gradient on zeros: `step` makes the state, and counts."""
        zeros = torch.zeros(parameter.shape, dtype=parameter.dtype)
        zeros.grad = torch.zeros_like(zeros)
        state = _Recorder({k: v.clone() if torch.is_tensor(v) else v for k, v in held.items()})
        group = options | {"params": [zeros], "foreach": False, "fused": False}
        group = {k: v for k, v in group.items() if k == "params" or k in options}
        twin = _copy(self.optimizer, [group], defaultdict(lambda: _Recorder({}), {zeros: state}))
        kind, own = type(twin).__qualname__, (_marks(twin.__dict__), _marks(group))
        with torch.no_grad(), _explained(kind):
            step_of(type(twin))(twin)
        _check_kept(kind, "of the optimizer", own[0], _marks(twin.__dict__))
        _check_kept(kind, "of its parameter group", own[1], _marks(group))
        if twin.state.keys() - {zeros}:
            raise CaptureError(
                f"optimizer {kind}: has a state that belongs to no parameter, expected none"
            )
        first, last = state.first.get("step"), state.get("step")
        counts = first is not None and float(last) == float(first) + 1
        made = {k: _numbers(k, v) for k, v in state.first.items() if not (counts and k == "step")}
        return {k: v for k, v in made.items() if v is not None}, counts

    def run(self, tensors, states, gradients, groups, counts):
        """({key: new tensor}, {key: {name: new tensor}}): of the parameters `tensors` and of their `states`, by any
        keys; one that `gradients` lacks has none. `groups` are pairs of hyperparameters, with rates that are
        tensors, and keys. `counts` are the numbers of steps that parameters have taken before this one.
        """
        names = [(key, name) for key in states for name in states[key]]

        def update(values, entries, grads, rates, counts):
            values = {key: value.clone() for key, value in zip(tensors, values, strict=True)}
            for key, gradient in zip(gradients, grads, strict=True):
                values[key].grad = gradient.clone()
            state = {key: {} for key in values}
            for (key, name), entry in zip(names, entries, strict=True):
                state[key][name] = entry.clone()
            for key, count in zip(states, counts, strict=True):
                state[key].setdefault("step", count.clone())
            own = [
                self._group(options, rate) for (options, _), rate in zip(groups, rates, strict=True)
            ]
            for group, (_, keys) in zip(own, groups, strict=True):
                group["params"] = [values[key] for key in keys]
            held = defaultdict(dict, {values[k]: state[k] for k in values if k in gradients})
            twin = _copy(self.optimizer, own, held)
            with (
                mock.patch.object(torch.compiler, "is_compiling", lambda: True),
                # PyTorch's own step, called by one behind it, is measured by an object that is no tensor.
                mock.patch.object(
                    torch.autograd.profiler, "record_function", contextlib.nullcontext
                ),
                _TensorsAsNumbers(),
            ):
                step_of(type(twin))(twin)
            made = [twin.state[values[key]][name] for key, name in names]
            return list(values.values()), [torch.as_tensor(entry) for entry in made]

        with torch.no_grad():
            values, entries = torch.func.functionalize(update, remove="mutations")(
                list(tensors.values()),
                [states[key][name] for key, name in names],
                list(gradients.values()),
                [options["lr"] for options, _ in groups],
                [counts[key].to(torch.float64) for key in states],
            )
        new = {key: {} for key in states}
        for (key, name), entry in zip(names, entries, strict=True):
            new[key][name] = entry
        return dict(zip(tensors, values, strict=True)), new

    @staticmethod
    def _group(options, rate):
        """PyTorch's formulas for tensors of counts."""
        forced = {"foreach": False, "fused": False, "capturable": True, "differentiable": False}
        own = {name: value for name, value in forced.items() if name in options}
        return options | own | {"lr": rate}


class _TensorsAsNumbers(TorchFunctionMode):
    """Rates and counts are tensors of one element where PyTorch wants numbers."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", "")
        if name == "item":
            return args[0]
        for word in ("alpha", "value"):
            if isinstance(kwargs.get(word), torch.Tensor):
                return _scaled(function, name, args, kwargs, kwargs.pop(word))
        if name in ("lerp", "lerp_") and isinstance(args[-1], torch.Tensor) and not kwargs:
            x, end, weight = args
            return _put(name, x, (end - x) * weight)
        return function(*args, **kwargs)


def _scaled(function, name, args, kwargs, factor):
    kind = name.rstrip("_")
    if kind in ("add", "sub"):
        term = args[1] * factor
        return _put(name, args[0], term if kind == "add" else -term)
    if kind in ("addcdiv", "addcmul"):
        term = args[1] / args[2] if kind == "addcdiv" else args[1] * args[2]
        return _put(name, args[0], term * factor)
    return function(*args, **kwargs)


def _put(name, x, term):
    return x.add_(term) if name.endswith("_") else x + term
