"""Finds the first stage of a compilation, and in it the first operator, whose value differs.

Every stage up to `schedule` runs in the reference interpreter, which writes what each operator gave
(`tandem-interpret --save-operators`). Operators keep their `nn.id` from stage to stage: a value is compared with
that of the stage before (`operators.py`), and the operator at fault is found from the first that differs (`origin.py`).
Arithmetic is that of float64 in all stages, whatever the types, so that the tolerance is that of float64.

A command of the Program does the work of several operators, and says of which it writes the values
(`tandem-run --save-operators`). They are compared with those of the last stage.
"""

from dataclasses import dataclass, field
from pathlib import Path

import torch

from ..errors import RunError
from .calls import find_call
from .compare import TOLERANCES, gradient_floor, worst
from .operators import (
    Difference,
    Pair,
    as_operators,
    as_whole_batch,
    operands_of,
    read_operators,
)
from .origin import Origin, find_origin
from .reference import record_program, run_reference
from .verify import judge


@dataclass
class Finding:
    """What is said of a stage: a row beside eager, and the first fault, else the largest difference, among the
    operators (None: not compared).
    """

    stage: str
    compared: int = 0
    row: object = None
    difference: Difference | None = None
    origin: Origin | None = None  # of a fault
    makers: list = field(default_factory=list)
    error: str = ""
    note: str = ""
    source: str = ""  # the operator of the captured step that makes what the row is of, if it fails
    call: str = ""  # what is said of the call that a captured step has otherwise than eager

    @property
    def fails(self):
        """Whether the stage gives an error, or another result than eager."""
        return bool(self.error) or (self.row is not None and not self.row.passed)

    @property
    def differs(self):
        return self.fails or self.origin is not None


@dataclass
class _Run:
    """Of a stage: the values of its operators, by step."""

    stage: str
    operators: list


def _makers(pair, value):
    """What the later stage itself has put in front of an operator: a change of form, a slice."""
    known = {old.id for old in pair.before.values()}
    made, left = {}, [value]
    while left:
        new = [
            operand
            for operand in operands_of(left.pop(), pair.after)
            if operand.operator != "argument"
            and (operand.id < 0 or operand.id not in known)
            and operand.number not in made
        ]
        made |= {operand.number: operand for operand in new}
        left += new
    return [made[number] for number in sorted(made)]


def _first_fault(pair, differences, failed):
    """Of operators and results, else of the result `failed` that eager has otherwise."""
    candidates = [*differences, *pair.result_differences(failed)]
    return next((each for each in candidates if each.used > 1), None)


def _judge_operators(finding, before, after, floor, tolerance):
    """Of the steps that the later stage has run."""
    row = finding.row
    failed = f"{row.kind}/{row.name}" if row and not row.passed else None
    for step, (old, new) in enumerate(zip(before.operators, after.operators, strict=False)):
        if finding.stage == "accumulate":
            new = as_whole_batch(new, old, floor)
        pair = Pair(old, new, floor, tolerance)
        differences = pair.differences()
        finding.compared += len(differences)
        fault = _first_fault(pair, differences, failed)
        is_refused = finding.error and finding.stage != "emit" and step + 1 == len(after.operators)
        if not fault and is_refused:
            # Copies must be equal to the bit, those of rounding as well.
            pair = Pair(old, new, 0.0, 0.0)
            fault = _first_fault(pair, pair.differences(), failed)
        largest = fault or max(differences, key=lambda each: each.used, default=None)
        if fault or (
            largest and (not finding.difference or largest.used > finding.difference.used)
        ):
            finding.difference = largest
        if fault:
            finding.origin = find_origin(pair, fault)
            finding.makers = _makers(pair, finding.origin.difference.value)
            finding.note = f"in step {step}"
            return


def _is_float64(step):
    made = [value for operator in step.operators for value in operator.results]
    types = {value.dtype for value in [*step.parameters, *made]}
    return not any(t.is_floating_point and t != torch.float64 for t in types)


class Bisection:
    """Runs stages in order, each beside the one before, and all beside eager."""

    def __init__(self, subject, seed, folder):
        self.subject, self.seed, self.folder = subject, seed, Path(folder)
        self.floor = max(gradient_floor(step) for step in subject.expected.gradients)
        self.before = None
        # Where the captured step is in float64 alone, a cast that a stage puts in is a fault, and shows.
        self.rounds = _is_float64(subject.module.step)

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

    def run_stage(self, stage, text, path=None):
        """The `Finding` of a stage, the IR behind which is `text`, that of the file `path` if there is one."""
        ir, finding = path or self.folder / f"{stage}.mlir", Finding(stage)
        if not path:
            ir.write_text(text)
        history, run, failure = self._run(stage, run_reference, ir, self.rounds)
        finding.error = str(failure) if failure else ""
        if history:
            self._judge_results(finding, history)
        if self.before:
            _judge_operators(finding, self.before, run, self.floor, TOLERANCES[torch.float64])
        elif finding.fails:
            finding.call = find_call(self.subject, run.operators)
        self.before = run
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
        run.operators = list(map(as_operators, run.operators, self.before.operators))
        tolerance = TOLERANCES[self.subject.module.precision]
        _judge_operators(finding, self.before, run, self.floor, tolerance)

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
