"""Changes that a step leaves in Python objects of its model and of names in its code.

Examples are a growing list, a count in a dict, a variable of a closure. In eager, the next step begins with them. So it
is traced once more with the changed objects, and refused if the trace differs. Numbers and tensors in attributes of
modules have their own rules (`python_state.py`, `attributes.py`).
"""

import collections
import contextlib
import io
import random
import sys

import torch

from ..errors import CaptureError
from ..tracing.surroundings import is_traced
from .outside import code_of, reads_of
from .python_state import name_of_place
from .snapshots import OfClass, Snapshot, Variable, are_same, contents, is_plain, parts_of

_NUMBERS = (bool, int, float)
_OF_OTHERS = ("torch.", "builtins")


def _draws(value):
    """A function that gives the state of a generator of Python's or NumPy's, or None."""
    numpy = sys.modules.get("numpy")
    if isinstance(value, random.Random):
        return value.getstate
    if numpy is not None and isinstance(value, numpy.random.RandomState):
        return lambda: repr(value.get_state(legacy=False))
    if numpy is not None and isinstance(value, numpy.random.Generator):
        return lambda: repr(value.bit_generator.state)
    return None


class Outside:
    """What the code of a step names past its arguments, as it was before the first trace."""

    def __init__(self, model, loss_fn):
        named = list(model.named_modules())
        modules = {id(module): name_of_place("module", name) for name, module in named}
        reads = reads_of(code_of(named, loss_fn), modules)
        self.parts, self._generators = [], []
        self._places = reads.places
        self.wholes = list(reads.wholes.items())
        for name, (entries, value) in reads.touched.items():
            self._add(name, value)
            name = self._with_place(name)
            self.parts += [(name, Variable(entry)) for entry in entries[-1:] if entry.is_variable]
            for entry in entries[-1:]:
                self.parts += [(name, part) for part in parts_of(entry.holder)]
        for name, value in reads.wholes.items():
            self._add(name, value)
            name = self._with_place(name)
            self.parts += [
                (f"{name}: {place}" if place else name, p) for place, p in contents(value)
            ]
        kinds = [kind for _, module in named for kind in type(module).__mro__]
        kinds += [value for value in reads.wholes.values() if isinstance(value, type)]
        own = [kind for kind in dict.fromkeys(kinds) if not kind.__module__.startswith(_OF_OTHERS)]
        self.parts += [(f"class {kind.__qualname__}", OfClass(kind)) for kind in own]
        self.parts = list({p.identity: (name, p) for name, p in reversed(self.parts)}.values())

    def _with_place(self, name):
        return f"{name} at {self._places[name]}" if name in self._places else name

    def _add(self, name, value):
        name = self._with_place(name)
        if (state := _draws(value)) is not None:
            self._generators.append((name, state, state()))
        if isinstance(value, collections.abc.Iterator) and not isinstance(value, io.IOBase):
            raise CaptureError(
                f"{name}, is an iterator ({type(value).__name__}), of which each step would take the next; expected a tensor of"
                " the batch, or a buffer"
            )

    def now(self):
        """The parts, as they are before a trace."""
        for _, part in self.parts:
            part.before = part.now()
        return self.parts

    def check_generators(self):
        """CaptureError where one has drawn since."""
        for name, state, before in self._generators:
            if state() != before:
                raise CaptureError(
                    f"{name}, draws numbers, which would be the same in every step; expected torch's, such as torch.rand(())"
                )


def _is_alike(now, before):
    if now is before:
        return True
    return is_plain(now) and type(now) is type(before) and repr(now) == repr(before)


def _is_known(now, before):
    """Whether an attribute of a module is followed elsewhere: a number that was one, and tensors."""
    is_tensor = isinstance(now, torch.Tensor) or is_traced(now)
    return is_tensor or (type(now) in _NUMBERS and type(before) in _NUMBERS)


def _of_attributes(part):
    """The attributes of a module with those that are followed here, as a list; None where there are none."""
    now, before = (dict(zip(v[::2], v[1::2], strict=True)) for v in (part.now(), part.before))
    gone = before.keys() - now.keys()
    new = {
        key: value
        for key, value in now.items()
        if not _is_alike(value, before.get(key)) and not _is_known(value, before.get(key))
    }
    if not gone and not new:
        return None
    left = {key: value for key, value in (before | new).items() if key not in gone}
    return [each for pair in left.items() for each in pair]


def _of_part(part):
    now, before = part.now(), part.before
    if len(now) == len(before) and all(map(_is_alike, now, before)):
        return None
    # Tensors of a module's own containers are followed elsewhere, but for how many there are.
    only_tensors = part.is_near and len(now) == len(before)
    only_tensors = only_tensors and all(
        _is_alike(a, b) or isinstance(a, torch.Tensor) for a, b in zip(now, before, strict=True)
    )
    return None if only_tensors else now


@contextlib.contextmanager
def kept(model, outside, begin, left, stays):
    """Takes back what a trace assigns to attributes, puts into what these hold, or changes in what the code names: caches would keep
    traced tensors. So would a module under two names, whose tensors PyTorch swaps twice and restores once. With `stays` what holds
    no traced tensor outside of the model stays. The trace begins with the values `begin` and adds to `left` what it leaves, both
    {part: (name, values)}.
    """
    of_model, others = Snapshot(model).parts, outside.now()
    parts = [*of_model, *others]
    own = {part.identity for _, part in others} if stays else set()
    own -= {part.identity for _, part in of_model}
    try:
        for _, part in parts:
            if part.identity in begin:
                part.put(begin[part.identity][1])
        yield
    finally:
        for name, part in parts:
            now = part.now()
            if not are_same(now, part.before):
                found = (_of_attributes if part.is_of_module else _of_part)(part)
                if found is not None:
                    left[part.identity] = name, found
                if part.identity not in own or is_traced(now):
                    part.put(part.before)


def as_begin(left, of_number=lambda number: number):
    """With tensors that are in no trace in the place of those that were in one. Containers in which nothing is another are the same."""

    def stand_in(value):
        if isinstance(value, torch.Tensor):
            return torch.zeros(value.shape, dtype=value.dtype) if is_traced(value) else value
        if type(value) in (list, tuple):
            items = list(map(stand_in, value))
            return value if are_same(items, value) else type(value)(items)
        if type(value) is dict:
            entries = {key: stand_in(entry) for key, entry in value.items()}
            return value if are_same(entries.values(), value.values()) else entries
        return of_number(value)

    return {part: (name, list(map(stand_in, values))) for part, (name, values) in left.items()}


def makes_modules(left):
    """Whether a first step makes modules, of which no later one is the same graph: its first values are no part of a step."""
    return any(
        isinstance(value, torch.nn.Module) for _, values in left.values() for value in values
    )


def moving(first, second):
    """The parts that two steps leave otherwise."""

    def texts(values):
        return [repr(value) if is_plain(value) else type(value) for value in values]

    both = first.keys() & second.keys()
    return {part for part in both if texts(first[part][1]) != texts(second[part][1])}


def refuse(names):
    """CaptureError for what the first of two steps changed, and what made them different."""
    return CaptureError(
        f"{', '.join(name.removesuffix(': ') for name in sorted(names)[:3])}: is another one after a step, and the next one, or a later"
        " one, computes something else with it; expected equal steps: keep it in a buffer, or run a step of eager, or compile"
        " again, when it changes"
    )
