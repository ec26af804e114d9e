"""`python -m tandem bisect`: the first stage of the compiler, and its first operator, whose value differs."""

import tempfile
from pathlib import Path

from ..base import options as table
from ..errors import ModelFileError, RunError
from ..session.compile import compile_text
from ..verify.bisect import Bisection
from ..verify.reference import STAGES
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
        help="IR behind a stage, edited by hand: goes on from there instead of what the stage gives",
    )
    table.add_arguments(parser, table.named_command_rows("device", "threads"))


def _edited(options):
    """(stage, text) of --from, or (None, None)."""
    if options.edited is None:
        return None, None
    stage, equals, path = options.edited.partition("=")
    if not equals or not path:
        raise ModelFileError(f"--from is {options.edited!r}, expected STAGE=FILE")
    try:
        return stage, Path(path).read_text()
    except UnicodeDecodeError as error:
        raise ModelFileError(f"{path}: is not text, expected IR behind a stage") from error


def _compile(subject, options):
    """([(stage, IR behind it)], the compiled Program). An edited stage stands in place of its own."""
    given = {**planner_options(options), "device": options.device}
    mlir, name = subject.module.mlir, options.file
    stage, text = _edited(options)
    if stage is None:
        compiled = compile_text(mlir, name, **given, print_after=list(STAGES))
        return compiled.ir, compiled
    own = [each for each in STAGES if each != stage]
    # IR behind the stage that cuts sections has them.
    has_sections = stage in STAGES[STAGES.index("accumulate") :]
    behind = {k: v for k, v in given.items() if not has_sections or k not in ("sections", "order")}
    place = STAGES.index(stage) if stage in STAGES else len(STAGES)
    before = compile_text(mlir, name, **given, print_after=own[:place], stop_after=stage).ir[:place]
    compiled = compile_text(
        text, options.edited, **behind, from_stage=stage, print_after=own[place:]
    )
    edited = [(stage, text)] if stage in STAGES else []
    return [*before, *edited, *compiled.ir], compiled


def _findings(subject, options, folder):
    """A `Finding` for each stage, up to the first that differs."""
    stages, compiled = _compile(subject, options)
    bisection = Bisection(subject, options.seed, folder)
    last = None
    for stage, text in [("capture", subject.module.mlir), *stages]:
        if text != last:
            yield bisection.run_stage(stage, text)
        last = text
    history = failure = None
    try:
        history = run_program(subject, compiled, options.threads, options.seed)
    except RunError as error:
        failure = error
    yield bisection.run_program(history, failure, compiled.bytes, options.threads)


def _line(finding, before):
    if finding.error:
        return f"{finding.stage:10} {finding.error}"
    row = finding.row
    text = f"{finding.stage:10} eager: {row.used:.0e} of the tolerance used ({row.kind} {row.name})"
    if finding.compared:
        used = finding.difference.used
        text += f"; {before}: {used:.0e} ({finding.compared} values of operators)"
    return text + (f"; {finding.note}" if finding.note else "")


def _verdict(finding, before):
    """What is said of the first stage that differs."""
    lines = [f"bisect: {finding.stage} differs first"]
    if finding.difference is not None and finding.difference.used > 1:
        lines[0] += f" from {before}: {finding.difference}"
        lines += [f"  made of what this stage put in: {maker}" for maker in finding.makers]
    elif finding.error:
        return f"{lines[0]}: {finding.error}"
    if finding.error:
        lines.append(f"  then: {finding.error}")
    elif not finding.row.passed:
        row = finding.row
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


def run(options):
    subject = load_subject(options, _MOST_STEPS)
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
