"""The hyperparameters of an optimizer's groups, as a state dict has them, put into an optimizer."""

import numbers
from collections import Counter
from collections.abc import Mapping

import torch

from .errors import CheckpointError
from .types import is_number


def _kind(value):
    """What a value may be replaced by: one of the same kind. None for what may be anything."""
    if isinstance(value, torch.Tensor):
        return "a number" if value.numel() == 1 else "a tensor"
    kinds = {
        bool: "True or False",
        numbers.Real: "a number",
        str: "a text",
        Counter: "a counter",
        Mapping: "a dict",
        (list, tuple): "a list",
    }
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), None)


def check_alike(what, name, value, own):
    """CheckpointError unless a saved value is of the kind of the one that it replaces, and its entries of the kinds of those."""
    kind = _kind(own)
    # Whether to use another implementation is not decided by None.
    if kind is None or (value is None and isinstance(own, bool)):
        return
    alike = _kind(value) == kind
    if alike and kind == "a list":
        alike = len(value) == len(own)
    elif alike and kind == "a dict":
        alike = value.keys() == own.keys()
    elif alike and kind == "a counter":
        alike = all(type(number) is int for pair in value.items() for number in pair)
    if not alike:
        found, expected = (" ".join(repr(v).split())[:60] for v in (value, own))
        raise CheckpointError(f"{what}: {name} is {found}, expected {kind} like {expected}")
    if kind in ("a list", "a dict"):
        for key in own if kind == "a dict" else range(len(own)):
            check_alike(what, f"{name}[{key!r}]", value[key], own[key])


def restore(optimizer, groups):
    """Gives each group what a saved one has, but for its parameters; in place, so that schedulers see it."""
    for group, saved in zip(optimizer.param_groups, groups, strict=True):
        for key, value in saved.items():
            if key == "params":
                continue
            own = group.get(key)
            if isinstance(own, torch.Tensor) and own is not value:
                own.detach().fill_(value.item() if isinstance(value, torch.Tensor) else value)
            else:
                group[key] = value.clone() if isinstance(value, torch.Tensor) else value


def texts(optimizer):
    """{"optimizer: lr of parameter group 0": its text} of the numbers of groups, which may change between steps."""
    return {
        f"optimizer: {name} of parameter group {index}": ", ".join(map(_text, _listed(value)))
        for index, group in enumerate(optimizer.param_groups)
        for name, value in group.items()
        if all(is_number(v) or isinstance(v, torch.Tensor) for v in _listed(value))
        and name != "params"
    }


def _listed(value):
    return value if isinstance(value, (tuple, list)) else (value,)


def _text(number):
    return repr(number.item() if isinstance(number, torch.Tensor) else number)
