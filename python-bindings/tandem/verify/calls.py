"""The first call in the user's code that a captured step has otherwise, for `bisect`.

A captured step has other operators than eager calls, and in another order. So what a call gives is looked for among all
values of the captured step, whatever their shape and the order of their elements, and so is its gradient. A value that the
captured step does not have as such is right all the same where what is made of it is.
"""

from collections import defaultdict
from dataclasses import dataclass, field

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from ..tracing.locations import Location, current_location
from .compare import FLOOR, TOLERANCES, _in_any_order, _scale
from .eager import Eager, _pairs

_TOLERANCE = TOLERANCES[torch.float64]


@dataclass
class Call:
    """Of a function of PyTorch in the user's code. `sources` are the calls that gave its operands."""

    name: str
    place: Location
    sources: set
    values: list
    gradients: dict = field(default_factory=dict)
    readers: list = field(default_factory=list)

    def __str__(self):
        return f"{self.name} at {self.place}"


def _tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class _Calls(TorchFunctionMode):
    """Notes the calls of a step's forward pass."""

    def __init__(self):
        super().__init__()
        self.calls, self._makers, self._alive, self._is_forward = [], {}, [], True

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.backward:
            self._is_forward = False
        result = function(*args, **(kwargs or {}))
        place = current_location(Eager.step) if self._is_forward else None
        if place is not None and (made := _tensors(result)):
            self._note(getattr(function, "__name__", str(function)), place, (args, kwargs), made)
        return result

    def _note(self, name, place, operands, made):
        number = len(self.calls)
        sources = {self._makers.get(id(operand), number) for operand in _tensors(operands)}
        call = Call(
            name, place, sources - {number}, [_pairs(each.detach()).clone() for each in made]
        )
        for source in call.sources:
            self.calls[source].readers.append(number)
        for index, tensor in enumerate(made):
            self._makers[id(tensor)] = number
            if tensor.requires_grad and not tensor.is_leaf:
                tensor.register_hook(lambda gradient, i=index: call.gradients.update({i: gradient}))
        self._alive += made  # their ids stay theirs
        self.calls.append(call)


class _Known:
    """The values of a run of the captured step, by their number of elements."""

    def __init__(self, operators):
        self._values = defaultdict(list)
        for value in operators.values():
            for tensor in [value.whole] if value.whole is not None else value.points.values():
                self._values[tensor.numel()].append(_in_any_order(tensor.double()))

    def has(self, tensor, scale):
        own = _in_any_order(tensor.double())
        allowed = _TOLERANCE * max(_scale(own), FLOOR * scale)
        return any(
            torch.allclose(other, own, rtol=0, atol=allowed, equal_nan=True)
            for other in self._values[own.numel()]
        )


def _tells(tensors):
    """Whether what they are made of shows in them."""
    return any(t.is_floating_point() and t.numel() and (t != t.flatten()[0]).any() for t in tensors)


def _first_wrong(values, after, known, scale):
    """Of `values` by number, in their order, the number of the first that is not known, and nothing that is made of it
    either, while what it is made of is. `after` says of each which are made of it.
    """
    right = {
        number: all(known.has(each, scale(number)) for each in own)
        for number, own in values.items()
    }
    made_of = defaultdict(list)
    for number in reversed(values):
        readers = [reader for reader in after(number) if reader in values]
        right[number] |= any(right[reader] and _tells(values[reader]) for reader in readers)
        for reader in readers:
            made_of[reader].append(number)
    wrong = (n for n in values if not right[n] and all(right[of] for of in made_of[n]))
    return next(wrong, None)


def _find(calls, known):
    values = {number: call.values for number, call in enumerate(calls)}
    scales = [max(map(_scale, call.values)) for call in calls]
    number = _first_wrong(
        values,
        lambda n: calls[n].readers,
        known,
        lambda n: max([scales[source] for source in calls[n].sources], default=0.0),
    )
    if number is not None:
        return f"no value is what {calls[number]} gives"
    gradients = {
        number: list(call.gradients.values())
        for number, call in reversed([*enumerate(calls)])
        if call.gradients
    }
    largest = max((_scale(each) for own in gradients.values() for each in own), default=0.0)
    number = _first_wrong(gradients, lambda n: calls[n].sources, known, lambda _: largest)
    if number is None:
        return ""
    readers = ", ".join(str(calls[reader]) for reader in calls[number].readers)
    return f"no value is the gradient of what {calls[number]} gives to {readers or 'the loss'}"


def find_call(subject, runs):
    """What is said of the first call that the captured step has otherwise; empty where there is none. `runs` are the
    values of its operators, by step.
    """
    eager = subject.eager(torch.float64)
    for number, (batch, operators) in enumerate(zip(subject.batches, runs, strict=False)):
        with _Calls() as noted:
            eager.step(batch, number)
        if told := _find(noted.calls, _Known(operators)):
            return told
    return ""
