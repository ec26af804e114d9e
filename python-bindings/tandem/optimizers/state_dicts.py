"""Checks of state dicts; StateError has the value found and the value expected."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ..base.types import as_complex, as_real, is_number
from ..errors import StateError
from ..tracing.arguments import Argument, Viewed
from ..tracing.wrappers import renamed

# Before the name of a number that steps change in a parameter group: a state of the group's first parameter.
OF_GROUP = "group:"


def is_own(state):
    """Whether a state is its parameter's, and none of a group."""
    return not state.startswith(OF_GROUP)


@dataclass
class Named:
    """What a model has under a name: an argument of a step, or a view of one."""

    argument: Argument
    viewed: Viewed | None = None

    @property
    def kind(self):
        """What has its name, shape and types."""
        return self.viewed or self.argument

    def of(self, value):
        """The tensor as it is stored, from the argument's value."""
        return value if self.viewed is None else self.viewed.view.of(value)

    def as_given(self, value):
        """As the model has it."""
        return as_complex(self.of(value), self.kind.is_complex)


def by_name(arguments):
    """{name in the model: Named} of parameters and buffers, tied names and views too."""
    named = {}
    for argument in arguments:
        if argument.role in ("parameter", "buffer"):
            named |= dict.fromkeys((argument.name, *argument.aliases), Named(argument))
        for viewed in argument.views:
            named |= dict.fromkeys((viewed.name, *viewed.aliases), Named(argument, viewed))
    return named


def count_of(what, value):
    """An integer, which torch.optim stores as a tensor of floating-point type."""
    try:
        return int(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise StateError(f"{what}: found {value!r}, expected an integer") from error


def check_dict(what, value, keys=()):
    if not isinstance(value, Mapping):
        raise StateError(f"{what}: found {type(value).__name__}, expected a dict")
    for key in keys:
        if key not in value:
            raise StateError(
                f"{what}: has no {key!r}, expected what {what.replace(' ', '_')}() gives"
            )


def under_own_names(state, names):
    """A model's state dict under the step's `names`, where its own differ by what wraps a model."""
    if not all(isinstance(name, str) for name in state):
        return state
    known = renamed(state, names)
    return {known[name]: value for name, value in state.items()}


def remedy(state, name):
    """What to do about a state dict without `name` that has it in a dict within, or under another prefix."""
    for key, value in state.items():
        if isinstance(value, Mapping) and name in value:
            return f"; pass the dict that it has as {key!r}"
        if isinstance(key, str) and key.endswith(f".{name}"):
            return f"; take the prefix {key.removesuffix(name)!r} off its names"
        if isinstance(key, str) and name.endswith(f".{key}"):
            return f"; put the prefix {name.removesuffix(key)!r} in front of its names"
    return ""


def checked(argument, value):
    """The value in the argument's type."""
    if not isinstance(value, torch.Tensor) or value.is_meta:
        raise StateError(
            f"state dict: {argument.name!r} is {type(value).__name__}, expected a tensor with values"
        )
    value = as_real(value)
    if tuple(value.shape) != tuple(argument.shape):
        raise StateError(
            f"state dict: {argument.name!r} has shape {list(value.shape)}, expected {list(argument.shape)}"
        )
    return value.to(argument.dtype)


def plain_number(tensor):
    """A number of Python's: an integer, if it is whole."""
    number = float(tensor)
    return int(number) if number.is_integer() else number


def as_tensor(value):
    """Of a number as well, which is a float64 in a step."""
    return torch.tensor(float(value), dtype=torch.float64) if is_number(value) else value
