"""The options of the planner, one list for all commands that compile."""

from ..compile import PLANNER_DEFAULTS


def add_planner_arguments(parser):
    group = parser.add_argument_group("plan")
    group.add_argument(
        "--mesh",
        default="",
        metavar="AXIS=N,...",
        help="space axes; auto: the best for the cluster; default: one rank",
    )
    group.add_argument("--micro", type=int, default=1, help="microbatches (default: 1)")
    group.add_argument(
        "--accumulate", type=int, default=1, help="iterations over parts of the batch (default: 1)"
    )
    group.add_argument(
        "--plan", default="", help="plan preset, or a plan file (default: data-parallel)"
    )
    group.add_argument(
        "--pin",
        action="append",
        default=[],
        metavar="GLOB:AXIS=FORM",
        dest="pins",
        help="may be repeated",
    )
    group.add_argument(
        "--search", default="", help="find the plan: tandem, hidup, ilp, exhaustive or presets"
    )
    group.add_argument("--cluster", help="the machines that a search is for (default: a laptop)")
    group.add_argument(
        "--search-time-limit",
        type=float,
        default=0,
        metavar="S",
        help="take the best plan after S seconds",
    )
    group.add_argument(
        "--start",
        metavar="PLAN",
        help="start the search from a plan file, and be no worse",
    )
    group.add_argument(
        "--no-presets",
        action="store_false",
        dest="presets",
        help="do not start the search from the presets as well",
    )
    group.add_argument(
        "--recompute",
        action="store_true",
        help="let the backward pass make cheap values again instead of holding them",
    )
    group.add_argument("--problem-out", metavar="FILE", help="write the search problem")
    group.add_argument("--explain", action="store_true", help="say why the plan is as it is")
    group.add_argument(
        "--fail-on-replicate",
        type=int,
        metavar="BYTES",
        help="fail if a larger tensor is left whole on all devices",
    )
    group.add_argument(
        "--timeline",
        action="store_true",
        help="say how long the schedule takes, with the plan's prices",
    )


def planner_options(options):
    """The keywords of `compile_module` for what the command line says."""
    return {name: getattr(options, name) for name in PLANNER_DEFAULTS}
