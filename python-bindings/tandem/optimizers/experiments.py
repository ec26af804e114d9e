"""Experiments on a user's optimizer: its use of state, found by steps on small tensors.

Eager makes state in a parameter's first step, which may differ from later steps: the first momentum is the gradient, an
anchor is the parameter's old value. If the first step differs from later ones, or new state depends on values, the
captured step has both (`paths.py`).
"""

import contextlib
import copy
import numbers
from collections import defaultdict
from dataclasses import dataclass, field

import torch

from ..base.types import is_number
from ..errors import CaptureError, TandemError
from ..tracing.locations import location_of_traceback

# Up to so many elements steps are tried on tensors of the parameters' shapes, and else with dimensions cut to `_LONGEST`.
_MOST, _LONGEST = 2**18, 6
_CONTAINERS = (list, dict, set)
# What a step reads from a group as an argument, or as a choice between ways to compute the same.
IMPLEMENTATIONS = {"foreach", "fused", "capturable", "differentiable"}


class Recorder(dict):
    """A parameter's state, which notes what every entry was when it was made."""

    def __init__(self, known=()):
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


def twin_of(optimizer, groups, state):
    """Like the optimizer, on other parameters; without what schedulers have put over its `step`. Containers are its own."""
    twin = object.__new__(type(optimizer))
    own = {k: v for k, v in optimizer.__dict__.items() if k != "step"}
    twin.__dict__.update({k: copy.copy(v) if type(v) in _CONTAINERS else v for k, v in own.items()})
    twin.param_groups, twin.state = groups, state
    return twin


def marks(attributes, but=()):
    """{name: what differs where a value does}: of attributes beside state and groups, or of a group, `but` some."""

    def mark(value):
        if isinstance(value, torch.Tensor):
            return id(value), value._version
        if type(value) in _CONTAINERS:
            entries = value.items() if isinstance(value, dict) else value
            return [
                mark(e) for pair in entries for e in (pair if isinstance(pair, tuple) else [pair])
            ]
        return value if isinstance(value, (bool, numbers.Real, str)) else id(value)

    others = {"state", "param_groups", "params", *but}
    return {name: mark(value) for name, value in attributes.items() if name not in others}


def check_kept(kind, what, before, after):
    """CaptureError where a step has changed what is no state: each step would begin with what is there now."""
    for name in before.keys() | after.keys():
        if repr(before.get(name)) != repr(after.get(name)):
            raise CaptureError(
                f"optimizer {kind}: its step changes {name!r} {what}, expected it to keep what changes in"
                " self.state[parameter], or in its parameter group, as tensors or numbers"
            )


@contextlib.contextmanager
def explained(kind):
    try:
        yield
    except TandemError:
        raise
    except Exception as error:
        location = location_of_traceback(error.__traceback__)
        place = "" if location.place is None else f"{location}: "
        raise CaptureError(
            f"{place}optimizer {kind}: its step fails: {type(error).__name__}: {error}; expected one that eager takes"
            " without an argument"
        ) from error


def plain_group(options, parameters):
    """A group whose step is the plain one, tensor by tensor."""
    forced = {name: False for name in IMPLEMENTATIONS & options.keys()}
    return options | forced | {"params": parameters}


@dataclass
class _Run:
    """One step: parameters, their states and groups behind it, and what states were when they were made."""

    values: list
    states: list
    first: list
    groups: list


@dataclass
class Findings:
    """`states` are those of the small tensors as they were made, `shared` are per group {name: number that it begins with} of what steps change there, `created` the names of those that a
    step makes, per group. `begins` says whether a first step is another one, `counts` whether `step` in a state is the number of
    steps, which is then no state of its own.
    """

    states: list = field(default_factory=list)
    shared: list = field(default_factory=list)
    created: list = field(default_factory=list)
    begins: bool = False
    counts: bool = True


class Experiment:
    def __init__(self, optimizer, step):
        """`step` is the function that updates; the optimizer is read and never changed."""
        self.optimizer, self.step = optimizer, step
        self.kind = type(optimizer).__qualname__
        self.options = [
            {k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups
        ]
        every = [p for group in optimizer.param_groups for p in group["params"]]
        total = sum(p.numel() for p in every)
        self.shapes = [
            tuple(p.shape) if total <= _MOST else tuple(min(n, _LONGEST) for n in p.shape)
            for p in every
        ]
        self.dtypes = [p.dtype for p in every]

    def run(self):
        """The findings; those of an optimizer whose constructor makes the state are that nothing changes."""
        made = any(
            self.optimizer.state.get(p) for g in self.optimizer.param_groups for p in g["params"]
        )
        try:
            return self._find()
        except TandemError:
            if not made:
                raise
            return Findings([], [{} for _ in self.options], [set() for _ in self.options])

    def _find(self):
        one = self._go(seed=1)
        other = self._go(seed=2, scale=0.5)
        begun = self._begun(one)
        start = self._started(one)
        again = self._go(seed=1, states=begun, groups=start)
        later = self._go(seed=3, states=again.states, groups=again.groups)
        found = Findings(begun)
        for index, options in enumerate(self.options):
            self._find_shared(found, index, options, [r.groups[index] for r in (one, later)])
        self._check_kinds(again, later)
        same = _equal(_results(one), _results(again))
        found.begins = not (same and _equal(one.first, other.first))
        found.counts = all(
            float(after["step"]) == float(before["step"]) + 1
            for before, after in zip(begun, again.states, strict=True)
            if "step" in before and torch.as_tensor(before["step"]).numel() == 1
        )
        return found

    def _started(self, run):
        """Groups before the first step, with what it makes there."""
        after = [_entries(group) for group in run.groups]
        return [
            dict.fromkeys(made, 0.0) | own for own, made in zip(self.options, after, strict=True)
        ]

    def _begun(self, run):
        """States as they were made, each of the kind that it is of behind a step."""
        return [
            {k: like(first[k], v) for k, v in state.items()}
            for first, state in zip(run.first, run.states, strict=True)
        ]

    def _check_kinds(self, run, later):
        for before, after in zip(run.states, later.states, strict=True):
            for name in before.keys() | after.keys():
                kinds = [_kind_of(state.get(name)) for state in (before, after)]
                if kinds[0] != kinds[1]:
                    raise CaptureError(
                        f"optimizer {self.kind}: state {name!r} is {kinds[0]} behind one step and {kinds[1]} behind the next,"
                        " expected the same type and shape"
                    )

    def _find_shared(self, found, index, options, after):
        """What steps change in a group: numbers that each step goes on from."""
        shared, created = {}, set()
        before = marks(options)
        for group in after:
            for name, mark in marks(group).items():
                if repr(mark) == repr(before.get(name)) or name in IMPLEMENTATIONS:
                    continue
                if name == "lr" or not is_number(group[name]):
                    check_kept(self.kind, "of its parameter group", {}, {name: mark})
                if name not in options:
                    created.add(name)
                value = options.get(name, 0.0)
                if not is_number(value):
                    check_kept(self.kind, "of its parameter group", {}, {name: mark})
                shared[name] = value
        found.shared.append(shared)
        found.created.append(created)

    def _go(self, seed, states=None, groups=None, scale=1.0):
        """One step from `states`, none for a first step, with the entries of `groups`, by default the optimizer's."""
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.default_generator.manual_seed(seed)
            pairs = zip(self.shapes, self.dtypes, strict=True)
            values = [torch.randn(s, dtype=torch.float64).to(d) for s, d in pairs]
            for value in values:
                value.grad = torch.randn_like(value)
            tensors, own = iter(values), []
            for index, group in enumerate(self.optimizer.param_groups):
                options = dict(self.options[index]) if groups is None else _entries(groups[index])
                if is_number(options.get("lr")):
                    options["lr"] *= scale
                own.append(plain_group(options, [next(tensors) for _ in group["params"]]))
            held = defaultdict(Recorder)
            for value, state in zip(values, states or (), strict=states is not None):
                held[value] = Recorder(_copied(state))
            twin = twin_of(self.optimizer, own, held)
            before = marks(twin.__dict__)
            with explained(self.kind):
                self.step(twin)
            check_kept(self.kind, "of the optimizer", before, marks(twin.__dict__))
            if twin.state.keys() - set(values):
                raise CaptureError(
                    f"optimizer {self.kind}: has a state that belongs to no parameter, expected none"
                )
        own = [twin.state.get(value, Recorder()) for value in values]
        return _Run(values, [dict(s) for s in own], [s.first for s in own], twin.param_groups)


def _entries(group):
    return {k: v for k, v in group.items() if k != "params"}


def _copied(state):
    return {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in state.items()}


def like(first, last):
    """What an entry was when it was made, as what it is behind a step."""
    if isinstance(last, torch.Tensor) and (isinstance(first, torch.Tensor) or is_number(first)):
        made = torch.as_tensor(first).to(last.dtype)
        fits = made.dim() <= last.dim() and all(
            a in (1, b) for a, b in zip(made.shape[::-1], last.shape[::-1], strict=False)
        )
        return made.expand(last.shape).clone() if fits else torch.zeros_like(last)
    if is_number(last) and isinstance(first, torch.Tensor) and first.numel() == 1:
        return first.item()
    if first is None and isinstance(last, torch.Tensor):
        return torch.zeros_like(last)
    if first is None and is_number(last):
        return 0.0
    return first


def _kind_of(value):
    if isinstance(value, torch.Tensor):
        return f"a tensor of {str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if is_number(value):
        return "a number"
    return "nothing" if value is None else f"a {type(value).__name__}"


def _results(run):
    return [run.values, run.states, [_entries(group) for group in run.groups]]


def _equal(a, b):
    """To the bit, of trees."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        same = a.shape == b.shape and a.dtype == b.dtype
        return same and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b or (a != a and b != b))
