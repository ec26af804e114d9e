"""`python -m tandem report`: what a timeline says, as text, or as a page for a browser."""

import argparse
import re

from ..session.timeline import page, report

HELP = "report what a timeline says: as text, or as a page with timeline, memory, bounds and plan"


def _ranks(words):
    return [_count(word) for word in words.split(",")]


def _count(word):
    if not re.fullmatch(r"\d{1,9}", word):
        raise argparse.ArgumentTypeError(f"{word!r}, expected a number from 0 to 999999999")
    return int(word)


def add_arguments(parser):
    parser.add_argument(
        "timelines",
        nargs="+",
        metavar="TIMELINE",
        help="what step.trace, tandem-run --trace or tandem-compile --timeline=FILE wrote; several of one Program",
    )
    parser.add_argument("--html", metavar="FILE", help="write the page; default: print text")
    parser.add_argument(
        "--predicted",
        metavar="FILE",
        help="a predicted timeline, or a table of seconds, to show above",
    )
    parser.add_argument("--program", metavar="FILE", help="the Program: shows memory over time")
    parser.add_argument(
        "--plan", metavar="FILE", help="the plan file, of tandem-compile --save-plan"
    )
    parser.add_argument(
        "--explain", metavar="FILE", help="the explanation, of tandem-compile --explain=FILE"
    )
    parser.add_argument(
        "--step", type=_count, help="the step to draw (default: that of median length)"
    )
    parser.add_argument(
        "--ranks",
        type=_ranks,
        default=(),
        help="the ranks to draw (default: one of each point, or the first eight)",
    )
    parser.add_argument(
        "--skip", type=_count, default=0, help="ignore the first N steps in tables (0)"
    )


def run(options):
    if options.html is None:
        for path in options.timelines:
            print(report(path, options.predicted, options.skip), end="")
        return
    page(
        options.timelines,
        options.html,
        predicted=options.predicted,
        program=options.program,
        plan=options.plan,
        explanation=options.explain,
        step=options.step,
        ranks=options.ranks,
        skip=options.skip,
    )
