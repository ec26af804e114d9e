"""Values of the operators of a step in one stage of a compilation, and their comparison with those of another stage.

Operators keep their `nn.id` from stage to stage: a value is compared with that of the stage before, whole where forms say
how the parts make it, else point by point.
"""

from dataclasses import dataclass, field, replace

import torch

from .compare import FLOOR, TOLERANCES, _difference, _in_any_order, _largest, _scale

# Larger magnitudes are those of masks: beside them any difference would be small.
_MASK = 1e30
_TOLERANCE = TOLERANCES[torch.float64]
# In place of an operator's name: what a value is that none gave. Its place is its key, such as `gradient/w`.
_ARGUMENT, _RESULT = "argument", "result"
# What they give is what their operand is in all iterations.
_LEAVE_LOOPS = ("spmd.carry", "spmd.collect")
# Results whose elements rounding does not decide.
_EXACT_ROLES = ("loss/", "gradient/", "output/")


@dataclass
class OperatorValue:
    """A result of an operator in a run of one stage, or an argument or a result of the step."""

    number: int
    id: int
    strand: int
    iteration: int
    result: int
    operator: str
    kind: str  # forward, backward, update or none
    place: str
    operands: list  # their numbers, -1 for what was not recorded
    whole: torch.Tensor | None = None
    points: dict = field(default_factory=dict)
    command: str = ""  # of a Program, what wrote it; its points are ranks
    strands: int = 1  # points of the interpreter for each rank: those of time
    parts: list = field(default_factory=list)  # of a loop over parts of the batch, each iteration's

    @property
    def key(self):
        """What a value has in all stages; None without a number."""
        if self.operator == _RESULT and self.place.startswith(_EXACT_ROLES):
            return self.place
        return (self.id, self.result, self.iteration) if self.id >= 0 else None

    def at(self, point):
        """The whole for None, else what a point holds."""
        return self.whole if point is None else self.points.get(point)

    def __str__(self):
        if self.operator in (_ARGUMENT, _RESULT):
            return f"{self.operator} {self.place}"
        strand = f", strand {self.strand}" if self.strand >= 0 else ""
        number = f"nn.id {self.id}" if self.id >= 0 else "no nn.id"
        passes = f"{self.kind}, " if self.kind else ""
        command = f", written by {self.command}" if self.command else ""
        return f"{self.operator} at {self.place or 'no line'} ({passes}{number}{strand}){command}"


def read_operators(path):
    """What `--save-operators` wrote: {number: OperatorValue} in the order of the run."""
    from safetensors.torch import load_file

    values = {}
    for key, tensor in load_file(path).items():
        *texts, points = key.split("|")
        number, *numbers = (int(texts[i]) for i in range(5))
        operands = [int(text) for text in texts[8].split(",") if text]
        value = values.setdefault(number, OperatorValue(number, *numbers, *texts[5:8], operands))
        if points == "whole":
            value.whole = tensor
        else:
            value.points |= dict.fromkeys(map(int, points.split(",")), tensor)
    return dict(sorted(values.items()))


def operands_of(value, values):
    """Those that were recorded."""
    return [values[number] for number in value.operands if number in values]


def as_operators(commands, before):
    """Values that commands wrote, in one dimension, as those of the operators of `before` that they are of."""
    known = {}
    for value in before.values():
        if value.key is not None:
            known.setdefault(value.key, []).append(value)
    strands = _count_points(before) // max(1, _count_points(commands))
    return {
        number: _as_operator(command, old, strands)
        for number, command in commands.items()
        if (old := _last(known.get(command.key, ()), command.strand))
    }


def _count_points(values):
    return 1 + max((point for value in values.values() for point in value.points), default=-1)


def _as_operator(command, old, strands):
    points = {
        rank: tensor.double() if tensor.dtype.is_floating_point else tensor
        for rank, tensor in command.points.items()
    }
    own = {"number": command.number, "operands": [], "whole": None, "points": points}
    return replace(old, **own, command=command.operator, strands=strands)


def _last(group, strand):
    return next((v for v in reversed(group) if v.strand in (-1, strand)), None)


def as_whole_batch(parts, before, floor):
    """Values of a step that runs once for each part of the batch, as those of the step `before` it, which has other
    numbers. Operators are told apart by name, line, pass, and their values. If as many are left in both, these have one
    order; else they get no number.
    """
    iterations, left, made = {}, {}, {}
    for value in parts.values():
        key = (value.id, value.result) if value.id >= 0 else value.number
        iterations.setdefault(key, []).append(value)
    for group in iterations.values():
        last = group[-1]
        if last.operator in _LEAVE_LOOPS:
            left[last.number] = last.operands[0]
            continue
        operands = [left.get(operand, operand) for operand in last.operands]
        own = [each.whole for each in group] if len(group) > 1 else []
        made[last.number] = replace(last, id=-1, operands=operands, parts=own)
    pair, known = Pair(before, made, floor), _by_place(before)
    for place, group in _by_place(made).items():
        for mine, theirs in _same(pair, known.get(place, []), group):
            mine.id, mine.result, mine.iteration = theirs.id, theirs.result, theirs.iteration
    return made


def _same(pair, old, new):
    """(new value, old value) of operators of one place."""
    old, unlike = list(old), []
    for mine in new:
        theirs = next((n for n, each in enumerate(old) if pair.agree(each, mine)), None)
        if theirs is None:
            unlike.append(mine)
        else:
            yield mine, old.pop(theirs)
    # Positions that a stage counts from elsewhere are what is made of them.
    if len(unlike) == len(old) and all(each.operands for each in unlike):
        yield from zip(unlike, old, strict=True)


def _by_place(values):
    groups = {}
    for value in values.values():
        if value.operator not in (_ARGUMENT, _RESULT):
            place = value.operator, value.place, value.kind, value.result
            groups.setdefault(place, []).append(value)
    return groups


def _sorted(value, tensor):
    return replace(value, whole=_in_any_order(tensor), parts=[])


@dataclass
class Difference:
    """Of a value from `old` of the stage before. `used` is the share of what is allowed: above 1 it is a fault."""

    value: OperatorValue
    old: OperatorValue
    point: int | None
    largest: float
    allowed: float

    @property
    def used(self):
        if not self.largest:
            return 0.0
        used = self.largest / self.allowed if self.allowed else float("inf")
        return used if used == used else float("inf")

    @property
    def size(self):
        """What is off by how much, in words."""
        place = "on rank" if self.value.command else "at point"
        where = "" if self.point is None else f", {place} {self.point}"
        return f"off by {self.largest:.1e}, allowed {self.allowed:.1e}{where}"

    def __str__(self):
        return f"{self.value}: {self.size}"


class _Noise:
    """Elements of the update that are made of gradients below the floor: rounding decides them, as an optimizer
    divides a gradient by its size (docs/rationale/verify.md).
    """

    def __init__(self, values, floor):
        self.values, self.floor, self.known = values, floor, {}

    def of(self, value, point):
        key = value.number, point
        if key not in self.known:
            self.known[key] = self._find(value, point)
        return self.known[key]

    def _find(self, value, point):
        tensor = value.at(point)
        if tensor is None or not tensor.dtype.is_floating_point or value.operator == _ARGUMENT:
            return None
        if value.kind != "update" or value.id < 0:
            return tensor.abs() < self.floor
        if value.operator.startswith("spmd."):
            return self._gather(value, tensor)
        mask = torch.zeros_like(tensor, dtype=torch.bool)
        for operand in operands_of(value, self.values):
            other = self.of(operand, point)
            if other is None:
                continue
            if other.shape == mask.shape:
                mask |= other
            elif value.operator == "nn.reshape":
                mask |= other.reshape(mask.shape)
        return mask

    def _gather(self, value, tensor):
        """Of a collective: each element is one of any member's, or the sum of those of all, at its place in a slice."""
        mask = torch.zeros_like(tensor, dtype=torch.bool)
        for operand in operands_of(value, self.values):
            for point in operand.points or [None]:
                other = self.of(operand, point)
                if other is not None:
                    mask |= _slices(other, mask.shape)
        return mask


def _slices(mask, shape):
    """A mask of another number of slices: of any one for fewer, of each for more."""
    for dim, (own, size) in enumerate(zip(mask.shape, shape, strict=True)):
        if own > size:
            mask = mask.unflatten(dim, (own // size, size)).any(dim)
        elif own < size:
            mask = torch.cat([mask] * (size // own), dim)
    return mask


class Pair:
    """Two stages, the values of which are compared: `before` and `after` are {number: OperatorValue}. `floor` is that of
    gradients: `compare.gradient_floor`. Operators are compared by their numbers, which a captured step does not have, and
    results by their keys.
    """

    def __init__(self, before, after, floor, tolerance=_TOLERANCE):
        self.before, self.after, self.floor, self.tolerance = before, after, floor, tolerance
        self.noise = _Noise(before, floor)
        self.old, self.new = self._group(before), self._group(after)
        self.strands = 1 + max((value.strand for value in after.values()), default=-1)

    @staticmethod
    def _group(values):
        """{key: values}: several where a stage has made several operators of one, the last of which gives its value."""
        groups = {}
        for value in values.values():
            if value.key is not None:
                groups.setdefault(value.key, []).append(value)
        return groups

    def _places(self, old, new):
        """(point of the earlier stage, point of the later one) that hold the same."""
        if old.whole is not None and new.whole is not None:
            return [(None, None)]
        if new.command:
            return [(rank * new.strands, rank) for rank in new.points]
        splits = new.strand >= 0 and old.strand < 0
        last = self.strands if splits else 1
        return [((p // last * last + new.strand) if splits else p, p) for p in new.points]

    def _allowed(self, old, point):
        reaches = [
            _scale(tensor)
            for tensor in (
                operand.at(point)
                for operand in operands_of(old, self.before)
                if operand.operator != "nn.constant"
            )
            if tensor is not None and tensor.dtype.is_floating_point and tensor.numel()
        ]
        scale = max([0.0, *(FLOOR * reach for reach in reaches if reach < _MASK)])
        if old.kind != "forward":
            scale = max(scale, self.floor)
        return self.tolerance * max(scale, _scale(old.at(point)))

    def _compare_at(self, old, new, places):
        theirs, mine = old.at(places[0]), new.at(places[1])
        if theirs is None or mine is None:
            return None
        if new.command and theirs.numel() == mine.numel():
            mine = mine.reshape(theirs.shape)
        if theirs.shape != mine.shape or not mine.numel():
            return None
        error = _difference(mine, theirs)
        error = torch.where(mine.isnan() & theirs.isnan(), 0.0, error)
        if not mine.dtype.is_floating_point:
            return Difference(new, old, places[1], _largest(error), 0.0)
        if new.kind == "update":
            noisy = self.noise.of(old, places[0])
            if noisy is not None and noisy.all():
                return None
            error = error if noisy is None else torch.where(noisy, 0.0, error)
        return Difference(new, old, places[1], _largest(error), self._allowed(old, places[0]))

    def _compare_parts(self, old, new):
        """Parts are rows, terms, or each the whole: whichever is nearest, in any order of elements."""
        if any(each is None for each in (old.whole, *new.parts)):
            return None
        makes = [torch.cat([p.flatten() for p in new.parts]), sum(new.parts), new.parts[-1]]
        theirs = _sorted(old, old.whole)
        found = [self._compare_at(theirs, _sorted(new, mine), (None, None)) for mine in makes]
        nearest = min(filter(None, found), key=lambda each: each.used, default=None)
        return nearest and replace(nearest, value=new, old=old)

    def compare(self, old, new):
        """The `Difference` at the worst of the points, or None where nothing is comparable."""
        if new.parts:
            return self._compare_parts(old, new)
        differences = [self._compare_at(old, new, places) for places in self._places(old, new)]
        return max(filter(None, differences), key=lambda each: each.used, default=None)

    def agree(self, old, new):
        found = self.compare(old, new)
        return found is not None and found.used <= 1

    def known_as(self, value):
        """The values of the stage before that one of the later stage is compared with."""
        group = [v for v in self.old.get(value.key, ()) if v.strand in (-1, value.strand)]
        if not group or not self._is_whole(value):
            return []
        # A command writes any one of those that a stage made of an operator.
        return group if value.command else group[-1:]

    def _is_whole(self, value):
        """Whether a value is that of its operator, and not a part of what a stage made of it: the last one on its points.
        Constants are copied.
        """
        later = (
            other
            for other in self.new[value.key]
            if other.number > value.number and other.strand in (-1, value.strand)
        )
        is_last = not any(other.points.keys() & value.points.keys() for other in later)
        return is_last or value.operator == "nn.constant"

    def difference_of(self, value):
        """From the nearest of the values that it is compared with; None where there is none."""
        compared = [self.compare(old, value) for old in self.known_as(value)]
        return min(filter(None, compared), key=lambda each: each.used, default=None)

    def differences(self):
        """Of all values, in the order of the later run."""
        return list(filter(None, map(self.difference_of, self.after.values())))

    def result_differences(self, name):
        """Of the result of that key, whatever its role."""
        old, new = (
            [each for each in values.values() if (each.operator, each.place) == (_RESULT, name)]
            for values in (self.before, self.after)
        )
        return list(filter(None, map(self.compare, old, new)))
