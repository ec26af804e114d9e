"""The ordinals of a step's random operators, in the place of the generator's state.

A random number is a function of seed, step, ordinal and position (`tandem.random`), so the state of the
generator is the ordinal of the next draw. Code that saves the state and sets it again gets the numbers
of before: `torch.utils.checkpoint` does so, by default, when it runs a part of the forward pass a second
time in the backward pass.
"""

import contextlib
from typing import NamedTuple
from unittest import mock

import torch

_MAGIC = b"tandem random ordinal"


def is_random(operator):
    """Whether it draws numbers; Python's own functions in a graph, such as getitem, draw none."""
    return torch.Tag.nondeterministic_seeded in getattr(operator, "tags", ())


class RandomCall(NamedTuple):
    """The first draw of an ordinal: the ATen operator's name without its underscore, and what it gave."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype


class DrawError(Exception):
    """A draw that is not what the ordinal had before; the message says found and expected."""


class Draws:
    """Counts draws. `calls` has one entry per ordinal; with `fixed`, none may be added."""

    def __init__(self, calls=(), fixed=False):
        self.calls, self.fixed = list(calls), fixed
        self.next = 0

    def draw(self, name, result):
        """The ordinal of a draw with the tensor `result`. Raises DrawError if it was another one before."""
        ordinal, call = self.next, RandomCall(name, tuple(result.shape), result.dtype)
        if ordinal == len(self.calls):
            if self.fixed:
                raise DrawError(f"random call {ordinal} ({name}): expected {ordinal} calls")
            self.calls.append(call)
        before = self.calls[ordinal]
        if call.shape != before[1]:
            raise DrawError(
                f"random call {ordinal} ({name}) has shape {call.shape}, expected {before[1]}"
            )
        if call.name != before[0]:
            raise DrawError(f"random call {ordinal} is {name}, expected {before[0]}")
        self.next = ordinal + 1
        return ordinal

    def state(self):
        """For `torch.get_rng_state`: a real tensor, also while a step is traced."""
        with torch._C._DisableTorchDispatch():
            return torch.tensor(list(_MAGIC + self.next.to_bytes(8, "little")), dtype=torch.uint8)

    def set_state(self, state):
        """For `torch.set_rng_state`, with what `state` gave during the same step."""
        found = b""
        if type(state) is torch.Tensor:
            with torch._C._DisableTorchDispatch():
                found = bytes(state.reshape(-1).tolist())
        if not found.startswith(_MAGIC) or len(found) != len(_MAGIC) + 8:
            raise DrawError(
                "set_rng_state: found a state from outside the step, expected the tensor that get_rng_state"
                " gave within it"
            )
        self.next = int.from_bytes(found[len(_MAGIC) :], "little")

    @contextlib.contextmanager
    def as_generator(self):
        """Within it, PyTorch's functions for the state of the CPU's generator are these."""
        with contextlib.ExitStack() as stack:
            for module in (torch, torch.random):
                stack.enter_context(mock.patch.object(module, "get_rng_state", self.state))
                stack.enter_context(mock.patch.object(module, "set_rng_state", self.set_state))
            yield self
