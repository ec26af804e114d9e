"""`python -m tandem sweep`: which cluster, which parallelism, and what a step costs."""

import argparse
import json
import re
import sys
from pathlib import Path

from ..base import outputs
from ..errors import TandemError
from ._sweep import PLANS, Sweep

HELP = "plan and simulate a captured step on clusters of many sizes and bandwidths"
DETAILS = "docs/what-if.md explains the columns."


_MOST_DEVICES = 2**20
_COLUMNS = (
    f"{'devices':>7}  {'bandwidth':>11}  {'plan':15}  {'mesh':26}  {'step':>10}"
    f"  {'items/s':>10}  {'MFU':>6}  {'USD/step':>9}  {'peak':>9}  fits"
)


def _devices(text):
    """`8..1024` doubles; `8,12,16` names each."""
    if not re.fullmatch(r"\d+\.\.\d+|\d+(,\d+)*", text):
        raise argparse.ArgumentTypeError(f"{text!r}, expected numbers as 8..1024 or 8,12,16")
    ends = [int(number) for number in re.findall(r"\d+", text)]
    if not all(0 < number <= _MOST_DEVICES for number in ends):
        raise argparse.ArgumentTypeError(f"{text!r}, expected numbers from 1 to {_MOST_DEVICES}")
    if ".." not in text:
        return ends
    first, last = ends
    if first > last:
        raise argparse.ArgumentTypeError(f"{text!r}, expected the smaller number first")
    return [first << power for power in range(20) if first << power <= last]


def _bandwidths(text):
    """`10,25,100Gbit`: the last unit holds for those before it that have none."""
    number = r"(\d+(?:\.\d*)?|\.\d+)"
    parts = [re.fullmatch(number + r"\s*(Gbit|Mbit|GB|MB)?(/s)?", part) for part in text.split(",")]
    if not all(part and float(part[1]) > 0 for part in parts) or not parts[-1][2]:
        raise argparse.ArgumentTypeError(
            f"{text!r}, expected bandwidths of a node's or device's link as 10,25,100Gbit"
        )
    return [f"{part[1]} {part[2] or parts[-1][2]}/s" for part in parts]


def _plans(text):
    names = text.split(",")
    for name in names:
        if name not in PLANS:
            raise argparse.ArgumentTypeError(f"{name!r}, expected {', '.join(PLANS)}")
    return names


def _count(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a number from 1 on")
    return int(text)


def add_arguments(parser):
    parser.add_argument("step", help="a captured step, of `python -m tandem export`")
    parser.add_argument(
        "--cluster", required=True, metavar="FILE", help="machines of one kind; their number varies"
    )
    parser.add_argument(
        "--devices", type=_devices, default=[8, 16, 32, 64], help="8..1024 or 8,12 (default: 8..64)"
    )
    parser.add_argument(
        "--bandwidth",
        type=_bandwidths,
        default=[""],
        metavar="N,...UNIT",
        help="of the network, as 10,25,100Gbit (default: that of the cluster)",
    )
    parser.add_argument(
        "--plans", type=_plans, default=list(PLANS), help=f"default: {','.join(PLANS)}"
    )
    parser.add_argument(
        "--accumulate",
        type=_count,
        help="parts of the batch (default: 1, of a pipeline up to four for each point)",
    )
    parser.add_argument(
        "--search-time-limit", type=_count, default=10, metavar="S", help="of each search (10)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the table as JSON")
    parser.add_argument("--html", metavar="FILE", help="write a page with curves")


def _line(row):
    head = f"{row.devices:7}  {row.bandwidth or '-':>11}  {row.plan:15}  "
    if not row.seconds:
        return f"{head}{row.why}"
    cost = f"{'-':>9}" if row.cost is None else f"{row.cost:9.3g}"
    mfu = f"{'-':>6}" if row.mfu is None else f"{row.mfu:6.1%}"
    return (
        f"{head}{row.name:26}  {row.seconds:8.4g} s  {row.rate:10.4g}  {mfu}  {cost}"
        f"  {row.peak / 1e9:6.4g} GB  {'yes' if row.fits else 'no'}"
    )


def _write_page(path, rows, title):
    try:
        from ..pages import curves
    except ModuleNotFoundError as error:
        raise TandemError(f"a page needs bokeh ({error}), expected `pip install bokeh`") from None
    page = curves.make_page(rows, title)
    outputs.write(path, lambda part: part.write_text(page))


def _check_places(options):
    for path, kind in ((options.json, outputs.SWEEP), (options.html, outputs.PAGE)):
        if path is not None:
            outputs.check_place(path, kind, [options.step, options.cluster])


def run(options):
    _check_places(options)
    machines = options.cluster, options.bandwidth
    sweep = Sweep(options.step, *machines, options.accumulate, options.search_time_limit)
    rows = []
    print(_COLUMNS, flush=True)
    try:
        for devices in options.devices:
            for row in sweep.rows(options.plans, devices):
                rows.append(row)
                print(_line(row), flush=True)
    finally:
        sweep.close()
    fields = [row.fields() for row in rows]
    if options.json:
        text = json.dumps({"sweep": str(options.step), "rows": fields}, indent=1)
        outputs.write(options.json, lambda part: part.write_text(text + "\n"))
    if options.html:
        _write_page(options.html, fields, Path(options.step).name)
    if not any(row.seconds for row in rows):
        print("tandem sweep: no plan is possible on any of these clusters", file=sys.stderr)
        return 1
