#!/usr/bin/env python3
"""Every matrix product of the examples: Tandem's rate against oneDNN's with packed operands.

    benchmarks/products.py [--only gpt ...] [--presets bench wide] [--precisions f32 bf16] [--from FILE] [--check] [--json FILE]

`ours` is the runtime's command with the strides, the bias and the sum of the Program. `packed` is a product of the same
shape with operands packed before. Both take turns on one pinned core, and `of` is the median of the turns' ratios. Rows
are ordered by lost time. `*` misses 95 %, judged for products that take 2 % of their step. With --from, products come
from the tables that benchmarks/cpu.py wrote there.
"""

import json
import pathlib
import statistics
import time

from cpu import (
    MODELS,
    PRESETS,
    one_core,
    rate_products,
    roofline,
    title_of_products,
)
from harness import ROOT, Report, fail, get_cpu_name, make_parser
from tandem.capture.model_file import load_model_file
from tandem.session.compile import compile as tandem_compile

# Of the packed rate, for each product that takes so much of its step.
LEAST, MATTERS = 0.95, 0.02


def time_step(step, batch, turns=3):
    """The median of the seconds of some steps behind one that warms up."""
    step(batch)
    times = []
    for _ in range(turns):
        begin = time.perf_counter()
        step(batch)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def measure_products(name, preset, precision):
    path = ROOT / "examples" / f"{name}.py"
    file = load_model_file(path, preset, None, "float32", precision)
    model = file.make_model()
    batch = file.batches(1)[0]
    step = tandem_compile(
        model, file.loss, file.make_optimizer(model), batch, precision=file.precision
    )
    with one_core():
        step_s = time_step(step, batch)
        return rate_products(roofline(step.bytes, "--ours"), step_s)


def read_tables(path):
    """{title: rows} that cpu.py wrote."""
    try:
        return {title: table["rows"] for title, table in json.loads(path.read_text()).items()}
    except (OSError, ValueError) as error:
        fail(f"{path}: expected tables of benchmarks/cpu.py: {error}")


def describe_strides(strides):
    """`n` rows are contiguous, `t` columns are; with the distance of the others."""
    *_, row, column = strides
    return f"n{row}" if column == 1 else f"t{column}" if row == 1 else f"{row},{column}"


def describe_shape(row):
    batch = "x".join(map(str, row["batch"]))
    return f"{batch + ' of ' if batch else ''}{row['m']}x{row['n']}x{row['k']}"


def print_rows(title, rows):
    print(
        f"{title}\n  times  batch          m     n     k  a, b, c"
        f"{'packed':>19}{'ours GFLOP/s':>15}{'of':>7}{'of step':>10}{'lost ms':>9}{'of step':>9}"
    )
    for row in rows:
        batch = "x".join(map(str, row["batch"])) or "1"
        strides = " ".join(map(describe_strides, row["strides"]))
        extra = "+=" if row["accumulate"] else "  "
        rates = [row["flops"] / row[key] * 1e-9 for key in ("packed_s", "ours_s")]
        mark = "*" if row["of_packed"] < LEAST else " "
        print(
            f"  {row['count']:5}  {batch:9} {row['m']:6}{row['n']:6}{row['k']:6}  {strides:22} {extra}"
            f" {rates[0]:7.1f} {rates[1]:7.1f}{row['of_packed']:15.2f}{mark}{row['of_step']:9.1%}"
            f"{1e3 * row['lost_s']:9.2f}{row['lost_of_step']:9.2%}",
            flush=True,
        )


def judge(report, rows):
    judged = [row for row in rows if row["of_step"] >= MATTERS]
    missing = [row for row in judged if row["of_packed"] < LEAST]
    shapes = ", ".join(f"{describe_shape(row)} {row['of_packed']:.2f}" for row in missing)
    report.claim(
        f"{len(judged) - len(missing)} of {len(judged)} products of {MATTERS:.0%} of the step reach {LEAST:.0%}"
        + (f"; not {shapes}" if shapes else ""),
        not missing,
    )


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=PRESETS)
    parser.add_argument("--precisions", nargs="+", choices=["f32", "bf16"], default=["f32", "bf16"])
    parser.add_argument("--from", dest="tables", type=pathlib.Path)
    options = parser.parse_args()
    known = read_tables(options.tables) if options.tables else None
    if known is None:
        print(f"{get_cpu_name()}, one core")
    report = Report()
    for name in options.only:
        for preset in options.presets:
            for precision in options.precisions:
                title = title_of_products(name, preset, precision)
                if known is None:
                    rows = measure_products(name, preset, None if precision == "f32" else precision)
                elif title in known:
                    rows = known[title]
                else:
                    fail(
                        f"{options.tables} has no '{title}', expected a table of benchmarks/cpu.py"
                    )
                print_rows(title, rows)
                report.add(title, rows)
                judge(report, rows)
    report.finish(options)


if __name__ == "__main__":
    main()
