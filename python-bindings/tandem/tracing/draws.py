"""Ordinals of a step's random operators, in place of the generator's state.

A random number is a function of seed, step, ordinal and position (`tandem.random`). So the generator's state is the
ordinal of the next draw. Code that saves and restores the state draws the same numbers again:
`torch.utils.checkpoint` does so by default when it recomputes a part of the forward pass. Reversible layers restore a
seed of `torch.seed()`. Draws behind a constant seed would be equal in every step of eager, so they are an error.
"""

import contextlib
from typing import NamedTuple
from unittest import mock

import torch

_MAGIC = b"tandem random ordinal"
# What `torch.seed()` gives: the first of these that it has not given in this step. Below `sys.maxsize`, of which it is taken modulo.
_FIRST_SEED = 2**62
# In the place of the number of a seed: none was set in the step, or a constant.
_BEFORE, _CONSTANT = -1, -2


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


class SeedError(DrawError):
    """A draw that a constant seed decides."""


class Draws:
    """Counts draws. `calls` has one entry per ordinal; with `fixed`, none may be added."""

    def __init__(self, calls=(), fixed=False):
        self.calls, self.fixed = list(calls), fixed
        self.next = self._end = 0
        # Of each seed that `seed` gave: the ordinal of the first draw behind it, None before that.
        self._firsts = []
        self._seed = _BEFORE

    def draw(self, name, result):
        """The ordinal of a draw with the tensor `result`. Raises DrawError if it was another one before, or follows a constant seed."""
        self._begin_seed(name)
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
        self._end = max(self._end, self.next)
        return ordinal

    def _begin_seed(self, name):
        if self._seed == _CONSTANT:
            raise SeedError(
                f"{name} draws behind torch.manual_seed within the step, by which eager has the same numbers in every step;"
                " expected a tensor that is drawn before, such as a buffer"
            )
        if self._seed >= 0 and self._firsts[self._seed] is None:
            self._firsts[self._seed] = self.next

    def state(self):
        """For `torch.get_rng_state`: a real tensor, also while a step is traced."""
        held = b"".join(n.to_bytes(8, "little", signed=True) for n in (self.next, self._seed))
        with torch._C._DisableTorchDispatch():
            return torch.tensor(list(_MAGIC + held), dtype=torch.uint8)

    def set_state(self, state):
        """For `torch.set_rng_state`, with what `state` gave during the same step."""
        found = b""
        if type(state) is torch.Tensor:
            with torch._C._DisableTorchDispatch():
                found = bytes(state.reshape(-1).tolist())
        held = found.removeprefix(_MAGIC)
        if len(held) != 16 or held == found:
            raise DrawError(
                "set_rng_state: found a state from outside the step, expected the tensor that get_rng_state"
                " gave within it"
            )
        self.next, self._seed = (
            int.from_bytes(n, "little", signed=True) for n in (held[:8], held[8:])
        )

    def seed(self):
        """For `torch.seed`: another seed each time, which is set."""
        seed = _FIRST_SEED + len(self._firsts)
        self._firsts.append(None)
        self.set_seed(seed)
        return seed

    def set_seed(self, seed):
        """For `torch.manual_seed`."""
        place = seed - _FIRST_SEED if isinstance(seed, int) else _CONSTANT
        self._seed = place if 0 <= place < len(self._firsts) else _CONSTANT
        if self._seed != _CONSTANT:
            first = self._firsts[place]
            self.next = self._end if first is None else first
        return torch.default_generator

    @contextlib.contextmanager
    def as_generator(self):
        """Within it, PyTorch's functions for the state of the CPU's generator are these."""
        functions = {
            "get_rng_state": self.state,
            "set_rng_state": self.set_state,
            "seed": self.seed,
            "manual_seed": self.set_seed,
        }
        with contextlib.ExitStack() as stack:
            for module in (torch, torch.random):
                for name, own in functions.items():
                    stack.enter_context(mock.patch.object(module, name, own))
            yield self
