"""From the first value that differs between two stages to the operator that makes it so.

An operator is looked for by its number, which changes of form, slices and sums that a stage puts in between do not have, and
captured steps not at all. So the operands of a value that differs are compared with those of the same operator in the
stage before, and theirs, until all operands of one agree.
"""

from dataclasses import dataclass

from .operators import Difference, OperatorValue


@dataclass
class Origin:
    """`difference` is that of the operator at fault. Where it reads `instead`, which is right, in place of `expected` of the
    stage before, that is the fault. `reader` is who reads a value at fault, else None.
    """

    difference: Difference
    reader: OperatorValue | None = None
    instead: OperatorValue | None = None
    expected: OperatorValue | None = None
    is_missing: bool = False  # no value of the later stage is the expected one

    def __str__(self):
        if self.instead is None:
            return str(self.difference)
        value, size = self.difference.value, self.difference.size
        if self.is_missing:
            return f"{self.expected} is missing: {value} reads {self.instead} in its place: {size}"
        return f"{value} reads {self.instead}, expected {self.expected}: {size}"

    def notes(self, stage):
        """Lines about the operator at fault; `stage` is the one before."""
        old, value = self.difference.old, self.difference.value
        if self.instead is None and old.operator != value.operator:
            yield f"in its place {stage} has {old}"
        if self.reader is not None:
            yield f"read by {self.reader}"


def find_origin(pair, fault):
    """The `Origin` of a `Difference` between the stages of a `Pair`."""
    difference, reader = fault, None
    while wrong := _wrong_operand(pair, difference):
        value, operand = difference.value, wrong.value
        if _is_right(pair, operand):
            is_missing = not _is_there(pair, wrong.old)
            return Origin(difference, reader, operand, wrong.old, is_missing)
        difference, reader = wrong, value
    return Origin(difference, reader)


def _wrong_operand(pair, difference):
    """The `Difference` of the first operand that is another than in the stage before, of those the one that was made
    first; None where all agree or the operators have other operands.
    """
    value, old = difference.value, difference.old
    if value.operator != old.operator or len(value.operands) != len(old.operands):
        return None
    differences = [
        pair.compare(pair.before[theirs], pair.after[mine])
        for mine, theirs in zip(value.operands, old.operands, strict=True)
        if mine in pair.after and theirs in pair.before
    ]
    wrong = [each for each in differences if each is not None and each.used > 1]
    return min(wrong, key=lambda each: each.value.number, default=None)


def _is_right(pair, value):
    """Whether the stage before has a value as well: by its number, else one of its line, if the user's code has that."""
    if pair.known_as(value):
        found = pair.difference_of(value)
        return found is not None and found.used <= 1
    every = pair.before.values()
    return any(
        pair.agree(old, value) for old in [v for v in every if v.place == value.place] or every
    )


def _is_there(pair, old):
    return any(pair.agree(old, value) for value in pair.after.values())
