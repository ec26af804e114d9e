"""`python -m tandem verify`: compares a model's training in Tandem and in eager PyTorch."""

import tempfile
from pathlib import Path

from ..base import options as table
from ..session.compile import compile_module
from ..verify.compare import LARGEST_FACTOR, MANY, RMS_FACTOR, TOLERANCES
from ..verify.compare import table as comparison_table
from ..verify.reference import STAGES, run_reference
from ..verify.verify import STEPS, TWINS, judge, run_program
from ._model import add_model_arguments
from ._planner import add_planner_arguments, planner_options
from ._subject import load_subject

HELP = "train a model file in eager PyTorch and in Tandem, and compare every loss, gradient and parameter"

_MOST_STEPS = 2**20
# Not a device of the compiler: the interpreter of IR.
_REFERENCE = "reference"
_TOLERANCES = ", ".join(
    f"{str(dtype).removeprefix('torch.')} {tolerance:g}" for dtype, tolerance in TOLERANCES.items()
)
DETAILS = (
    "The reference is eager in float64. A row passes if its largest difference is within tolerance"
    f" ({_TOLERANCES}) times the scale in its rule. Below float64, each step of eager starts from Tandem's"
    " values before that step, with Tandem's choices of experts. A row then also passes if it is as exact as eager"
    f" in the same type. Its largest error is at most {LARGEST_FACTOR:g} times that of the worst of {TWINS} eager"
    " runs, which start from these values or from ones that differ in the last place. From"
    f" {MANY} elements on, its root mean square error is at most {RMS_FACTOR:g} times theirs. A gradient scaled"
    " by 1.001 then fails in float32, and one scaled by 1.25 in bfloat16. With --precision bf16, or a loss under"
    " autocast, eager does the same, with the tolerance of float32. docs/rationale/verify.md has the reasons."
)


def add_arguments(parser):
    add_model_arguments(parser, dtype="float64")
    add_planner_arguments(parser)
    parser.add_argument(
        "--steps", type=int, default=STEPS, help=f"training steps (default: {STEPS})"
    )
    device, threads = table.named_command_rows("device", "threads")
    table.add_arguments(
        parser,
        [device],
        choices={"device": [*device.choices, _REFERENCE]},
        notes={
            "device": "A GPU is the emulated one where TANDEM_CUDA_LIBRARIES names its libraries."
            f" {_REFERENCE}: interpret the IR, without kernels."
        },
    )
    parser.add_argument(
        "--stage",
        choices=STAGES,
        default=STAGES[-1],
        help=f"--device {_REFERENCE}: the last compiler stage",
    )
    table.add_arguments(parser, [threads], notes={"threads": "Default: 1."})
    parser.add_argument("--show-plan", action="store_true", help="print the plan first")


def _compile(options, subject, **more):
    """Compiles the step, and prints what the compiler says of the plan."""
    compiled = compile_module(subject.module, options.file, **planner_options(options), **more)
    for remark in compiled.remarks:
        print(remark)
    if options.show_plan:
        print(compiled.plan_table)
    print(compiled.explanation, end="")
    return compiled


def _run_program(options, subject):
    """The history of a compiled run."""
    compiled = _compile(options, subject, device=options.device)
    return run_program(subject, compiled, options.threads, options.seed)


def _run_reference(options, subject):
    """The history of the IR after a stage, interpreted."""
    compiled = _compile(options, subject, stop_after=options.stage)
    with tempfile.TemporaryDirectory() as folder:
        ir = Path(folder) / f"{options.stage}.mlir"
        ir.write_text(compiled.ir[-1][1])
        return run_reference(subject.module, ir, subject.batches, options.seed, folder)


def summary(rows):
    """One line, and whether all is well."""
    failed = [row for row in rows if not row.passed]
    worst = max((row.used for row in rows), default=0.0)
    text = f"{len(rows) - len(failed)} of {len(rows)} comparisons within tolerance, at most {worst:.0e} of it used"
    return text, not failed


def run(options):
    subject = load_subject(options, _MOST_STEPS)
    history = (_run_reference if options.device == _REFERENCE else _run_program)(options, subject)
    rows = judge(subject, history)
    print(comparison_table(rows, subject.training.tolerance))
    text, passed = summary(rows)
    print(f"verify: {'passed' if passed else 'FAILED'}: {text}")
    return 0 if passed else 1
