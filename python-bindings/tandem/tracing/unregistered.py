"""Unregistered parameters of a model: in a list, tuple, dict or plain attribute, or in modules there.

`model.parameters()` does not return them. If an optimizer trains one, it is a value of its step, and so are all others
of its module. The path through attributes, keys and indices is the name: `layers.0.weight`.
"""

from collections import deque
from dataclasses import dataclass
from itertools import chain

import torch

REGISTERED = frozenset(("_parameters", "_buffers", "_modules"))


@dataclass(frozen=True)
class Place:
    """Where a tensor is: under `key` of `holder`, a list, tuple or dict. `unit` is the outermost module there, or the tensor."""

    name: str
    holder: object
    key: object
    unit: torch.nn.Module | torch.Tensor
    is_buffer: bool = False

    def get(self, _=None):
        """What is there now, or None."""
        try:
            return self.holder[self.key]
        except (LookupError, TypeError):
            return None


def _join(path, name):
    return f"{path}.{name}" if path and name != "" else f"{path}{name}"


def _items(holder):
    """[(key, value)], by the methods of the built-in types."""
    if isinstance(holder, dict):
        return list(dict.items(holder))
    return list(enumerate((list if isinstance(holder, list) else tuple).__iter__(holder)))


def _attributes(path, module):
    own = {key: value for key, value in vars(module).items() if key not in REGISTERED}
    return [(_join(path, key), vars(module), key, value) for key, value in own.items()]


def _of_module(path, module):
    """(places, attributes) of a module and of those below it."""
    places, attributes = [], []
    for name, each in module.named_modules():
        inner = _join(path, name)
        for holder in (each._parameters, each._buffers):
            is_buffer = holder is each._buffers
            places += [
                Place(_join(inner, key), holder, key, module, is_buffer)
                for key, tensor in holder.items()
                if tensor is not None
            ]
        attributes += _attributes(inner, each)
    return places, attributes


def _places(model):
    """Those of all tensors with gradient, and of all tensors of modules, that the model has not registered."""
    known = set(map(id, chain(model.modules(), model.parameters(), model.buffers())))
    waiting = deque(chain.from_iterable(_attributes(n, m) for n, m in model.named_modules()))
    found = []
    while waiting:
        path, holder, key, value = waiting.popleft()
        if id(value) in known or isinstance(value, torch.jit.ScriptModule):
            continue
        if isinstance(value, torch.Tensor):
            found += [Place(path, holder, key, value)] * (value.is_leaf and value.requires_grad)
        elif isinstance(value, torch.nn.Module):
            places, attributes = _of_module(path, value)
            found += [place for place in places if id(place.get()) not in known]
            known |= set(map(id, value.modules()))
            waiting.extend(attributes)
        elif isinstance(value, (list, tuple, dict)):
            known.add(id(value))
            waiting.extend((_join(path, k), value, k, item) for k, item in _items(value))
    return found


def places_of(model, optimizer):
    """The places of what an optimizer trains beside the model's own parameters, and of what lies in the same modules."""
    groups = getattr(optimizer, "param_groups", ())
    trained = {id(tensor) for group in groups for tensor in group["params"]}
    trained -= set(map(id, model.parameters()))
    if not trained:
        return []
    places = _places(model)
    units = {id(place.unit) for place in places if id(place.get()) in trained}
    return [place for place in places if id(place.unit) in units]


def modules_of(places):
    """Those that tensors lie in, and are not registered."""
    units = {id(place.unit): place.unit for place in places}.values()
    return [m for unit in units if isinstance(unit, torch.nn.Module) for m in unit.modules()]


def _named(own, places, remove_duplicate):
    seen = set()
    for name, tensor in chain(own, ((place.name, place.get()) for place in places)):
        if not remove_duplicate or id(tensor) not in seen:
            seen.add(id(tensor))
            yield name, tensor


def named_parameters(model, optimizer, remove_duplicate=True):
    """As `model.named_parameters()`, with those that an optimizer trains beside."""
    own = model.named_parameters(remove_duplicate=remove_duplicate)
    places = [place for place in places_of(model, optimizer) if not place.is_buffer]
    return _named(own, places, remove_duplicate)


def named_buffers(model, optimizer, remove_duplicate=True):
    """As `model.named_buffers()`, with those of modules of which an optimizer trains a parameter."""
    own = model.named_buffers(remove_duplicate=remove_duplicate)
    places = [place for place in places_of(model, optimizer) if place.is_buffer]
    return _named(own, places, remove_duplicate)


def tensors_under(model, names):
    """{name: tensor} of those of these names that a model holds, but has not registered."""
    names = set(names)
    return {place.name: place.get() for place in _places(model) if place.name in names}
