"""Finds the first stage of a compilation, and in it the first operator, whose value differs.

Every stage up to `schedule` runs in the reference interpreter, which writes what each operator gave
(`tandem-interpret --save-operators`). Operators keep their `nn.id` from stage to stage: a value is compared with
that of the stage before, whole where forms say how the parts make it, else point by point. Arithmetic is that of
float64 in all stages, whatever the types, so that the tolerance is that of float64.

A command of the Program does the work of several operators, and says of which it writes the values
(`tandem-run --save-operators`). They are compared with those of the last stage.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from ..errors import RunError
from .compare import FLOOR, TOLERANCES, _difference, _largest, _scale, gradient_floor, worst
from .reference import record_program, run_reference
from .verify import judge

# Larger magnitudes are those of masks: beside them any difference would be small.
_MASK = 1e30
_TOLERANCE = TOLERANCES[torch.float64]


@dataclass
class OperatorValue:
    """A result of an operator in a run of one stage."""

    number: int
    id: int
    strand: int
    iteration: int
    result: int
    operator: str
    kind: str  # forward, backward, update or none
    place: str
    operands: list
    whole: torch.Tensor | None = None
    points: dict = field(default_factory=dict)
    command: str = ""  # of a Program, what wrote it; its points are ranks
    strands: int = 1  # points of the interpreter for each rank: those of time

    @property
    def key(self):
        return self.id, self.result, self.iteration

    def at(self, point):
        """The whole for None, else what a point holds."""
        return self.whole if point is None else self.points.get(point)

    def __str__(self):
        strand = f", strand {self.strand}" if self.strand >= 0 else ""
        passes = f"{self.kind}, " if self.kind else ""
        command = f", written by {self.command}" if self.command else ""
        return f"{self.operator} at {self.place or 'no line'} ({passes}nn.id {self.id}{strand}){command}"


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


def as_operators(commands, before):
    """Values that commands wrote, in one dimension, as those of the operators of `before` that they are of."""
    known = {}
    for value in before.values():
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


@dataclass
class Difference:
    """Of a value from that of the stage before. `used` is the share of what is allowed: above 1 it is a fault."""

    value: OperatorValue
    point: int | None
    largest: float
    allowed: float

    @property
    def used(self):
        if not self.largest:
            return 0.0
        used = self.largest / self.allowed if self.allowed else float("inf")
        return used if used == used else float("inf")

    def __str__(self):
        place = "on rank" if self.value.command else "at point"
        where = "" if self.point is None else f", {place} {self.point}"
        return f"{self.value}: off by {self.largest:.1e}, allowed {self.allowed:.1e}{where}"


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
        if tensor is None or not tensor.dtype.is_floating_point:
            return None
        if value.kind != "update" or value.id < 0:
            return tensor.abs() < self.floor
        if value.operator.startswith("spmd."):
            return self._gather(value, tensor)
        mask = torch.zeros_like(tensor, dtype=torch.bool)
        for number in value.operands:
            other = self.of(self.values[number], point)
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
        for operand in (self.values[number] for number in value.operands):
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


class _Pair:
    """Two stages, the values of which are compared."""

    def __init__(self, before, after, floor, tolerance):
        self.before, self.after, self.floor, self.tolerance = before, after, floor, tolerance
        self.noise = _Noise(before, floor)
        self.old, self.new = self._group(before), self._group(after)
        self.strands = 1 + max((value.strand for value in after.values()), default=-1)

    @staticmethod
    def _group(values):
        """{key: values}: several where a stage has made several operators of one, the last of which gives its value."""
        groups = {}
        for value in values.values():
            if value.id >= 0:
                groups.setdefault(value.key, []).append(value)
        return groups

    def is_renumbered(self):
        """Whether the later stage gave operators other numbers. What it makes of one may be others: some differ."""
        known = [key for key in self.new if key in self.old]
        same = [key for key in known if self.old[key][-1].operator == self.new[key][-1].operator]
        return 2 * len(same) < len(known)

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
                self.before[n].at(point)
                for n in old.operands
                if self.before[n].operator != "nn.constant"
            )
            if tensor is not None and tensor.dtype.is_floating_point and tensor.numel()
        ]
        scale = max([0.0, *(FLOOR * reach for reach in reaches if reach < _MASK)])
        if old.kind != "forward":
            scale = max(scale, self.floor)
        return self.tolerance * max(scale, _scale(old.at(point)))

    def _compare(self, old, new, places):
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
            return Difference(new, places[1], _largest(error), 0.0)
        if new.kind == "update":
            noisy = self.noise.of(old, places[0])
            if noisy.all():
                return None
            error = torch.where(noisy, 0.0, error)
        return Difference(new, places[1], _largest(error), self._allowed(old, places[0]))

    def _worst(self, old, new):
        """The worst of the points, or None where nothing is comparable."""
        differences = [self._compare(old, new, places) for places in self._places(old, new)]
        return max(filter(None, differences), key=lambda each: each.used, default=None)

    def differences(self):
        for value in self.after.values():
            group = [v for v in self.old.get(value.key, ()) if v.strand in (-1, value.strand)]
            if not group or _last(self.new[value.key], value.strand) is not value:
                continue
            # A command writes any one of those that a stage made of an operator.
            compared = [self._worst(v, value) for v in (group if value.command else group[-1:])]
            best = min(filter(None, compared), key=lambda each: each.used, default=None)
            if best is not None:
                yield best


def compare_operators(before, after, floor, tolerance=_TOLERANCE):
    """The `Difference`s of two stages in the order of the later run; None if operators were numbered anew between them.
    `floor` is that of gradients: `compare.gradient_floor`.
    """
    pair = _Pair(before, after, floor, tolerance)
    return None if pair.is_renumbered() else list(pair.differences())


@dataclass
class Finding:
    """What is said of a stage: a row beside eager, and the first fault, else the largest difference, among the
    operators (None: not compared).
    """

    stage: str
    compared: int = 0
    row: object = None
    difference: Difference | None = None
    makers: list = field(default_factory=list)
    error: str = ""
    note: str = ""
    source: str = ""  # the operator of the captured step that makes what the row is of, if it fails

    @property
    def differs(self):
        by_operator = self.difference is not None and self.difference.used > 1
        return bool(self.error) or by_operator or (self.row is not None and not self.row.passed)


@dataclass
class _Run:
    """Of a stage: the values of its operators, by step."""

    stage: str
    operators: list


def _makers(values, value, known):
    """What the stage itself has put in front of an operator: a change of form, a slice. `known` are the numbers of the
    stage before.
    """
    made, seen, left = [], set(), list(value.operands)
    while left:
        number = left.pop()
        if number in seen or number not in values:
            continue
        seen.add(number)
        if values[number].id < 0 or values[number].id not in known:
            made.append(values[number])
            left += values[number].operands
    return sorted(made, key=lambda maker: maker.number)


def _judge_operators(finding, before, after, floor, tolerance=_TOLERANCE):
    for step, (old, new) in enumerate(zip(before.operators, after.operators, strict=True)):
        differences = compare_operators(old, new, floor, tolerance)
        if differences is None:
            finding.note = "operators have other numbers than before: only results are compared"
            return
        finding.compared += len(differences)
        fault = next((each for each in differences if each.used > 1), None)
        largest = fault or max(differences, key=lambda each: each.used, default=None)
        if fault or (
            largest and (not finding.difference or largest.used > finding.difference.used)
        ):
            finding.difference = largest
        if fault:
            finding.makers = _makers(new, fault.value, {value.id for value in old.values()})
            finding.note = f"in step {step}"
            return


class Bisection:
    """Runs stages in order, each beside the one before, and all beside eager."""

    def __init__(self, subject, seed, folder):
        self.subject, self.seed, self.folder = subject, seed, Path(folder)
        self.floor = max(gradient_floor(step) for step in subject.expected.gradients)
        self.before = None

    def _run(self, stage, run, ir, *words):
        """What `run` gives, the `_Run` of what operators gave in it, and the error that ended it or None."""
        paths = []

        def operators(number):
            paths.append(self.folder / f"{stage}.{number}.safetensors")
            return paths[-1]

        subject, given, failure = self.subject, None, None
        try:
            given = run(
                subject.module, ir, subject.batches, self.seed, self.folder, operators, *words
            )
        except RunError as error:
            failure = error
        written = [path for path in paths if path.exists()]
        values = [read_operators(path) for path in written]
        for path in written:
            path.unlink()
        return given, _Run(stage, values), failure

    def run_stage(self, stage, text):
        """The `Finding` of a stage, the IR behind which is `text`."""
        ir, finding = self.folder / f"{stage}.mlir", Finding(stage)
        ir.write_text(text)
        history, run, failure = self._run(stage, run_reference, ir)
        if failure:
            finding.error = str(failure)
            return finding
        if self.before:
            _judge_operators(finding, self.before, run, self.floor)
        self.before = run
        self._judge_results(finding, history)
        return finding

    def run_program(self, history, failure, program, threads):
        """The `Finding` of a compiled run, which has a history or a failure, and of the Program's commands. Below float64
        these are looked at where results differ: the rounding of kernels is no fault.
        """
        finding = Finding("emit", error=str(failure) if failure else "")
        if history:
            self._judge_results(finding, history)
        if self.subject.exact or finding.differs:
            self._judge_commands(finding, program, threads)
        return finding

    def _judge_commands(self, finding, program, threads):
        path = self.folder / "step.tdm"
        path.write_bytes(program)
        _, run, failure = self._run("emit", record_program, path, threads)
        if failure and not run.operators and not finding.error:
            finding.note = f"commands were not compared: {failure}"
        before = _Run(self.before.stage, self.before.operators[: len(run.operators)])
        run.operators = list(map(as_operators, run.operators, before.operators))
        tolerance = TOLERANCES[self.subject.module.precision]
        _judge_operators(finding, before, run, self.floor, tolerance)

    def _judge_results(self, finding, history):
        """The row that is told of: of those that fail, the one whose result the step makes first, else the worst."""
        rows = judge(self.subject, history)
        failed = [row for row in rows if not row.passed]
        finding.row = min(failed, key=self._number_of) if failed else worst(rows)
        number = self._number_of(finding.row)
        operators = self.subject.module.step.operators
        if failed and number < len(operators):
            finding.source = f"nn.{operators[number].name} at {operators[number].location}"

    def _number_of(self, row):
        """The place, in the captured step, of the operator that makes what a row is of; behind all others if none does."""
        step = self.subject.module.step
        for result, output in zip(step.results, step.outputs, strict=True):
            if result.role == row.kind and (row.kind == "loss" or result.name == row.name):
                for number, operator in enumerate(step.operators):
                    if any(output is made for made in operator.results):
                        return number
        return len(step.operators)
