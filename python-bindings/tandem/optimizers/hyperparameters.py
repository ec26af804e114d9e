"""Hyperparameters of optimizer groups, loaded from a state dict into an optimizer."""

import math
import numbers
from collections import Counter
from collections.abc import Mapping

import torch

from ..base.types import is_number
from ..errors import CheckpointError


def _kind(value):
    """What a value may be replaced by: one of the same kind. None for what may be any single value."""
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


_OF_PARTS = ("a list", "a dict", "a counter", "a tensor")


def check_alike(what, name, value, own):
    """CheckpointError unless a saved value is of the kind of the one that it replaces, and its entries of the kinds of those."""
    kind = _kind(own)
    # Whether to use another implementation is not decided by None.
    if value is None and isinstance(own, bool):
        return
    if kind is None and _kind(value) not in _OF_PARTS:
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
        like = f"{kind} like {expected}" if kind else f"a single value, as {expected}"
        raise CheckpointError(f"{what}: {name} is {found}, expected {like}")
    if kind in ("a list", "a dict"):
        for key in own if kind == "a dict" else range(len(own)):
            check_alike(what, f"{name}[{key!r}]", value[key], own[key])


def check_finite(what, name, value, own):
    """CheckpointError for an infinity or nan in the place of a finite number."""
    if not all(map(_is_finite, _listed(value))) and all(map(_is_finite, _listed(own))):
        raise CheckpointError(f"{what}: {name} is {value!r}, expected finite numbers like {own!r}")


def _is_finite(value):
    return not isinstance(value, float) or math.isfinite(value)


def check_numbers(what, group, optimizer):
    """CheckpointError for a saved group without a number that the optimizer was made with. Flags come with versions of PyTorch."""
    for name, own in getattr(optimizer, "defaults", {}).items():
        if name not in group and _kind(own) in ("a number", "a list"):
            raise CheckpointError(f"{what}: has no {name}, expected {_kind(own)} like {own!r}")


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
