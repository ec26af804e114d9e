"""`python -m tandem bisect`: the first stage of the compiler, and its first operator, whose value differs."""

import math
import re
import shlex
import tempfile
from pathlib import Path

from ..base import options as table
from ..base import outputs
from ..errors import CompileError, ModelFileError, RunError
from ..session.compile import compile_text
from ..verify.bisect import Bisection, Finding
from ..verify.reference import STAGES, run_tool
from ..verify.verify import run_program
from ._model import add_model_arguments
from ._planner import add_planner_arguments, planner_options
from ._subject import load_subject

HELP = (
    "run every stage of a compilation beside eager; name the first stage and operator that differ"
)

_STEPS = 2
_MOST_STEPS = 2**10
DETAILS = (
    "Stages up to schedule run in the reference interpreter, in the arithmetic of float64, and what each operator gives is"
    " compared with the stage before. The Program of all stages runs on the device, and what its commands write is compared as"
    " well. Losses, gradients, parameters and states of each stage are compared with eager as `verify` does. docs/bisect.md has"
    " an example."
)


def add_arguments(parser):
    add_model_arguments(parser, dtype="float64")
    add_planner_arguments(parser)
    parser.add_argument(
        "--steps", type=int, default=_STEPS, help=f"training steps (default: {_STEPS})"
    )
    parser.add_argument(
        "--from",
        dest="edited",
        metavar="STAGE=FILE",
        help="IR behind a stage, as --save writes it, edited by hand: goes on from there instead of what the stage gives",
    )
    parser.add_argument(
        "--save",
        metavar="FOLDER",
        help="write the IR behind each stage to FOLDER/STAGE.mlir, for --from, and run nothing",
    )
    table.add_arguments(parser, table.named_command_rows("device", "threads"))


class _Edited:
    """The stage and the IR of --from."""

    def __init__(self, words):
        self.stage, equals, self.path = words.partition("=")
        if not equals or not self.path:
            raise ModelFileError(f"--from is {words!r}, expected STAGE=FILE")
        try:
            self.text = Path(self.path).read_text()
        except UnicodeDecodeError as error:
            raise ModelFileError(f"{self.path}: is not text, expected IR behind a stage") from error

    def check(self, own, options):
        """That it is of the run at hand: it has mesh, arguments and results of `own`, what the stage itself gives."""
        with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
            file.write(own)
            file.flush()
            expected = _signature(file.name)
        try:
            found = _signature(self.path)
        except ModelFileError as error:
            raise ModelFileError(
                f"{self.path}: is no IR that verifies behind {self.stage}: {error}"
            ) from error
        for value in expected | found:
            if expected.get(value) != found.get(value):
                has = f"{value} {found[value]}" if value in found else f"no {value}"
                raise ModelFileError(
                    f"{self.path}: has {has}, expected {expected.get(value, 'none')}, as in what `{_saving(options)}` writes"
                )


def _signature(path):
    """{what: its type} of the mesh, and of arguments and results of a step."""
    lines = run_tool(ModelFileError, "tandem-interpret", path, "--print-signature").splitlines()
    return dict(line.rsplit(" ", 1) for line in lines)


def _saving(options):
    """The command that writes what --from takes."""
    text = re.sub(r" --from(=| )\S+", "", " " + shlex.join(options.words))
    return f"python -m tandem{text} --save FOLDER"


def _given(options):
    return {**planner_options(options), "device": options.device}


def _save(subject, options):
    """Writes the IR behind each stage."""
    folder = Path(options.save)
    folder.mkdir(exist_ok=True)
    names = [*STAGES, "lower"]
    ir = compile_text(
        subject.module.mlir,
        options.file,
        **_given(options),
        print_after=names[:-1],
        stop_after="lower",
    ).ir
    for stage, text in ir:
        path = folder / f"{stage}.mlir"
        outputs.check_place(path, outputs.STEP, [options.file])
        outputs.write(path, lambda part, text=text: part.write_text(text))
        print(f"{path}: IR behind {stage}")


def _compile(subject, options):
    """([(stage, IR behind it)], the compiled Program, the error that ends the compilation of an edited stage or None). An
    edited stage stands in place of its own.
    """
    mlir, name = subject.module.mlir, options.file
    if options.edited is None:
        compiled = compile_text(mlir, name, **_given(options), print_after=list(STAGES))
        return compiled.ir, compiled, None
    edited = _Edited(options.edited)
    place = STAGES.index(edited.stage) if edited.stage in STAGES else len(STAGES)
    own = compile_text(
        mlir, name, **_given(options), print_after=list(STAGES[:place]), stop_after=edited.stage
    ).ir
    edited.check(own[-1][1], options)
    stages = [*own[:-1], (edited.stage, edited.text)]
    if edited.stage not in STAGES:
        stages.pop()
    try:
        compiled = _compile_rest(edited, options, STAGES[place + 1 :])
    except CompileError as error:
        return stages, None, error
    return [*stages, *compiled.ir], compiled, None


def _compile_rest(edited, options, stages):
    # IR behind the stage that cuts sections has them.
    cut = STAGES[STAGES.index("accumulate") :]
    has_sections = edited.stage in (*cut, "lower")
    given = {
        name: value
        for name, value in _given(options).items()
        if not has_sections or name not in ("sections", "order")
    }
    return compile_text(
        edited.text, edited.path, **given, from_stage=edited.stage, print_after=list(stages)
    )


def _findings(subject, options, folder):
    """A `Finding` for each stage, up to the first that differs."""
    stages, compiled, failure = _compile(subject, options)
    bisection = Bisection(subject, options.seed, folder)
    paths = dict([options.edited.split("=", 1)]) if options.edited else {}
    last = None
    for stage, text in [("capture", subject.module.mlir), *stages]:
        if text != last:
            yield bisection.run_stage(stage, text, paths.get(stage))
        last = text
    if failure:
        (stage,) = paths
        yield Finding(stage, error=f"the stages behind refuse it: {failure}")
        return
    history = None
    try:
        history = run_program(subject, compiled, options.threads, options.seed)
    except RunError as error:
        failure = error
    yield bisection.run_program(history, failure, compiled.bytes, options.threads)


def _line(finding, before):
    row, parts = finding.row, []
    if row:
        parts.append(f"eager: {row.used:.0e} of the tolerance used ({row.kind} {row.name})")
    if finding.compared:
        used = finding.difference.used
        parts.append(f"{before}: {used:.0e} ({finding.compared} values of operators)")
    return f"{finding.stage:10} " + "; ".join(filter(None, [*parts, finding.error, finding.note]))


def _verdict(finding, before):
    """What is said of the first stage that differs."""
    head, error = f"bisect: {finding.stage} differs first", finding.error
    if finding.origin:
        lines = [f"{head} from {before}: {finding.origin}"]
        lines += [f"  {note}" for note in finding.origin.notes(before)]
        lines += [f"  made of what this stage put in: {maker}" for maker in finding.makers]
        lines += [f"  then: {error}"] if error else []
    else:
        lines = [": ".join(filter(None, [head, finding.call, error]))]
    row = finding.row
    if row and not row.passed:
        source = f", made by {finding.source}" if finding.source else ""
        lines.append(
            f"  beside eager: {row.kind} {row.name} is off by {row.absolute:.1e}, allowed {row.allowed:.1e}{source}"
        )
    return "\n".join(lines)


def _nothing(findings):
    """What is said of stages that agree."""
    differences = [each.difference for each in findings if each.difference]
    largest = max(differences, key=lambda each: each.used, default=None)
    place = f"; the largest difference of an operator: {largest}" if largest else ""
    return f"bisect: nothing differs{place}"


def _check_eager(subject):
    for step, loss in enumerate(subject.expected.losses):
        if not math.isfinite(loss):
            raise RunError(f"eager's loss of step {step} is {loss}, expected a finite value")


def run(options):
    if options.save and options.edited:
        raise ModelFileError("--save with --from, expected one of both")
    subject = load_subject(options, _MOST_STEPS)
    if options.save:
        return _save(subject, options)
    _check_eager(subject)
    findings, before = [], "eager"
    with tempfile.TemporaryDirectory() as folder:
        for finding in _findings(subject, options, folder):
            print(_line(finding, before), flush=True)
            if finding.differs:
                print(_verdict(finding, before))
                return 1
            findings.append(finding)
            before = finding.stage
    print(_nothing(findings))
    return 0
