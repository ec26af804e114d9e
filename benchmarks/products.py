#!/usr/bin/env python3
"""Every product of the examples: the rate of oneDNN on operands in the layouts that it likes best, and ours.

    benchmarks/products.py [--only gpt ...] [--presets bench wide] [--check] [--json FILE]

`ours` is the runtime's command with the strides, the bias and the sum of the Program, `packed` a product of the same
shape whose operands were packed before; both take turns on one pinned core. Rows come by the time that a step loses.
"""

import os

from cpu import MODELS, PRESETS, pin_to_one_core, roofline
from harness import ROOT, Report, get_cpu_name, make_parser
from tandem.compile import compile as tandem_compile
from tandem.model_file import load_model_file

# Of the packed rate, over the products of a model.
LEAST = 0.95


def products_of(name, preset, precision):
    path = ROOT / "examples" / f"{name}.py"
    file = load_model_file(path, preset, None, "float32", precision)
    model = file.make_model()
    batch = file.batches(1)[0]
    step = tandem_compile(
        model, file.loss, file.make_optimizer(model), batch, precision=file.precision
    )
    rows = roofline(step.bytes, "--ours")["products"]
    for row in rows:
        row["of_packed"] = row["packed_s"] / row["ours_s"]
        row["lost_s"] = row["count"] * (row["ours_s"] - row["packed_s"])
    return sorted(rows, key=lambda row: -row["lost_s"])


def describe_strides(strides):
    """`n` rows are contiguous, `t` columns are; with the distance of the others."""
    *_, row, column = strides
    return f"n{row}" if column == 1 else f"t{column}" if row == 1 else f"{row},{column}"


def print_rows(title, rows):
    print(
        f"{title}\n  times  batch          m     n     k  a, b, c                  packed   ours GFLOP/s    of  lost ms"
    )
    for row in rows:
        batch = "x".join(map(str, row["batch"])) or "1"
        strides = " ".join(map(describe_strides, row["strides"]))
        extra = "+=" if row["accumulate"] else "  "
        rates = [row["flops"] / row[key] * 1e-9 for key in ("packed_s", "ours_s")]
        print(
            f"  {row['count']:5}  {batch:9} {row['m']:6}{row['n']:6}{row['k']:6}  {strides:22} {extra}"
            f" {rates[0]:7.1f} {rates[1]:7.1f}       {row['of_packed']:6.2f} {1e3 * row['lost_s']:7.2f}",
            flush=True,
        )


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=PRESETS)
    parser.add_argument("--precisions", nargs="+", choices=["f32", "bf16"], default=["f32", "bf16"])
    options = parser.parse_args()
    core = pin_to_one_core()
    print(f"{get_cpu_name()}, core {core} of {os.cpu_count()}")
    report = Report()
    for name in options.only:
        for preset in options.presets:
            for precision in options.precisions:
                title = f"Products of {name} {preset} {precision}"
                rows = products_of(name, preset, None if precision == "f32" else precision)
                print_rows(title, rows)
                report.add(title, rows)
                ours, packed = (
                    sum(row["count"] * row[key] for row in rows) for key in ("ours_s", "packed_s")
                )
                report.limit("all, to packed", ours / packed, 1 / LEAST, "times")
    report.finish(options)


if __name__ == "__main__":
    main()
