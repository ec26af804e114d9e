"""`python -m tandem verify`: is a model's training step the same in Tandem as in eager PyTorch?"""

import tempfile

from ..compare import LARGEST_FACTOR, MANY, RMS_FACTOR, TOLERANCES, table
from ..compile import compile_module, mesh_text
from ..errors import ModelFileError
from ..reference import STAGES, run_reference, run_stages
from ..step import Step
from ..verify import STEPS, TWINS, judge, make_subject, run_step
from ._model import add_model_arguments, load

HELP = "train a model file in eager PyTorch and in Tandem, and compare every loss, gradient and parameter"

_TOLERANCES = ", ".join(
    f"{str(dtype).removeprefix('torch.')} {tolerance:g}" for dtype, tolerance in TOLERANCES.items()
)
DETAILS = (
    "The reference is eager in float64. A row passes if its largest difference is within tolerance"
    f" ({_TOLERANCES}) times the scale that the rule names. Below float64, each step is compared from the"
    " values that Tandem had before it and with Tandem's choices of experts, and a row also passes if it is"
    f" as exact as eager in the same type: its largest error at most {LARGEST_FACTOR:g} times, and from"
    f" {MANY} elements on its root mean square error at most {RMS_FACTOR:g} times, that of the worst of"
    f" {TWINS} eager runs that start from these values or ones that differ in the last place. There a"
    " gradient scaled by 1.001 fails in float32, and one scaled by 1.25 in bfloat16."
    " docs/rationale/verify.md says why."
)


def add_arguments(parser):
    add_model_arguments(parser, dtype="float64")
    parser.add_argument(
        "--mesh",
        default="",
        metavar="AXIS=N,...",
        help="space axes; auto: the best for the cluster; default: one rank",
    )
    parser.add_argument(
        "--plan", default="", help="plan preset, or a plan file (default: data-parallel)"
    )
    parser.add_argument(
        "--search", default="", help="find the plan: tandem, hidup, ilp or exhaustive"
    )
    parser.add_argument(
        "--cluster", default="", help="the machines that a search is for (default: a laptop)"
    )
    parser.add_argument(
        "--search-time-limit",
        type=float,
        default=0,
        metavar="S",
        help="take the best plan after S seconds",
    )
    parser.add_argument("--micro", type=int, default=1, help="microbatches (default: 1)")
    parser.add_argument(
        "--pin", action="append", default=[], metavar="GLOB:AXIS=FORM", help="may be repeated"
    )
    parser.add_argument(
        "--steps", type=int, default=STEPS, help=f"training steps (default: {STEPS})"
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "reference"),
        default="cpu",
        help="reference: interpret the IR, without kernels",
    )
    parser.add_argument(
        "--stage",
        choices=STAGES,
        default=STAGES[-1],
        help="with --device reference: the last stage",
    )
    parser.add_argument("--threads", type=int, default=1, help="cores per rank (default: 1)")
    parser.add_argument("--show-plan", action="store_true", help="print the plan first")


def _run_program(options, subject):
    """The history of a compiled run."""
    compiled = compile_module(
        subject.module,
        options.file,
        mesh=options.mesh,
        plan=options.plan,
        micro=options.micro,
        pins=options.pin,
        search=options.search,
        cluster=options.cluster,
        search_time_limit=options.search_time_limit,
    )
    for remark in compiled.remarks:
        print(remark)
    if options.show_plan:
        print(compiled.plan_table)
    step = Step(
        subject.module,
        compiled.bytes,
        subject.model,
        subject.optimizer,
        compiled,
        options.threads,
        options.seed,
    )
    return run_step(step, subject.batches, not subject.exact)


def _run_reference(options, subject):
    with tempfile.TemporaryDirectory() as folder:
        ir = run_stages(
            subject.module.mlir,
            folder,
            options.stage,
            mesh_text(options.mesh),
            options.plan,
            options.micro,
            options.pin,
            options.search,
            options.cluster,
        )
        return run_reference(subject.module, ir, subject.batches, options.seed, folder)


def summary(rows):
    """One line, and whether all is well."""
    failed = [row for row in rows if not row.passed]
    worst = max((row.used for row in rows), default=0.0)
    text = f"{len(rows) - len(failed)} of {len(rows)} comparisons within tolerance, at most {worst:.0e} of it used"
    return text, not failed


def run(options):
    if options.steps < 1:
        raise ModelFileError(f"--steps is {options.steps}, expected at least 1")
    subject = make_subject(load(options), options.steps, options.seed)
    history = (_run_reference if options.device == "reference" else _run_program)(options, subject)
    rows = judge(subject, history)
    print(table(rows, subject.training.tolerance))
    text, passed = summary(rows)
    print(f"verify: {'passed' if passed else 'FAILED'}: {text}")
    return 0 if passed else 1
