#!/usr/bin/env python3
"""Compile time of each stage against the number of layers, from step.mlir to .tdm, as whole processes.

    benchmarks/compile.py [--runs 3] [--check] [--json FILE]

Compiles a gpt of tiny width, so that only the number of operators matters:

* *growth*: `--mesh data=4 --plan zero --micro 2` with 12, 24, 48 and 96 layers, kernels included, with an empty cache.
  The exponent of a stage is the slope of the logarithm of its seconds over that of the layers: 1 is linear, 2 is
  quadratic. Seconds are the least of the runs, which is closest to an idle machine. 48 layers have a time limit.
* *many commands*: 48 layers, `--plan data-parallel --micro 16`, 42,000 launches, up to `lower`.
* *pipeline*: 48 layers, `--mesh pipe=8 --sections 8 --accumulate 32`, with an empty cache and again with that of the
  first run, which has a time limit.
"""

import math
import os
import pathlib
import re
import tempfile

from harness import BUILD, ROOT, Report, export, make_parser, measure_process

LAYERS = [12, 24, 48, 96]
GROWTH = ["--mesh", "data=4", "--plan", "zero", "--micro", "2"]
PIPELINE = ["--mesh", "pipe=8", "--sections", "8", "--accumulate", "32"]
MANY = ["--mesh", "data=4", "--plan", "data-parallel", "--micro", "16"]
# Sixteen microbatches on four devices divide a batch of 64.
MANY_BATCH = 64
PIPELINE_BATCH = 32
# Seconds on two cores, and the largest exponent of a stage.
COLD_LIMIT, LOWER_LIMIT, PIPELINE_LIMIT, EXPONENT_LIMIT = 8, 5, 15, 1.15
# A stage below this takes what starting takes; its exponent says nothing: s.
SHORTEST = 0.02


def export_layers(layers, folder, *settings):
    step = folder / f"gpt-{layers}.mlir"
    export(
        ROOT / "examples/gpt.py", step, "--preset", "tiny",
        "--set", ",".join([f"layers={layers}", *settings]),
    )  # fmt: skip
    return step


def compile_step(step, *options, cache=None):
    """Seconds of stages and of the process; without `cache`, that of kernels is empty."""
    with tempfile.TemporaryDirectory() as empty:
        row = measure_process(
            [BUILD / "bin/tandem-compile", step, *options, "--times"],
            dict(os.environ, TANDEM_CACHE_DIR=cache or empty),
        )
    stages = re.findall(r"^ *([\d.]+) s  (\w+)$", row.pop("text"), re.M)
    return row | {f"{stage}_s": float(seconds) for seconds, stage in stages}


def take_least(rows):
    return {key: min(row[key] for row in rows) for key in rows[0]}


def get_exponent(rows, key):
    """The slope of a straight line through logarithms, by least squares."""
    xs = [math.log(row["layers"]) for row in rows]
    ys = [math.log(row[key]) for row in rows]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum(
        (a - x) ** 2 for a in xs
    )


def measure_growth(runs, folder):
    steps = {layers: export_layers(layers, folder) for layers in LAYERS}
    samples = {layers: [] for layers in LAYERS}
    for _ in range(runs):
        for layers, step in steps.items():
            samples[layers].append(compile_step(step, *GROWTH, "-o", folder / "out.tdm"))
    return [{"layers": layers} | take_least(rows) for layers, rows in samples.items()]


def measure_many(runs, folder):
    step = export_layers(48, folder, f"batch={MANY_BATCH}")
    options = [*MANY, "--stop-after", "lower", "-o", os.devnull]
    return take_least([compile_step(step, *options) for _ in range(runs)])


def measure_pipeline(folder):
    """A row with cold kernels, and one with warm ones."""
    step = export_layers(48, folder, f"batch={PIPELINE_BATCH}")
    with tempfile.TemporaryDirectory() as cache:
        options = [*PIPELINE, "-o", folder / "out.tdm"]
        return [{"layers": 48} | compile_step(step, *options, cache=cache) for _ in range(2)]


def print_table(title, rows):
    keys = [key for key in rows[0] if key.endswith("_s")]
    print(f"\n{title}\n{'layers':>6}" + "".join(f"{key[:-2]:>10}" for key in keys) + "   memory/MB")
    for row in rows:
        seconds = "".join(f"{row[key]:10.3f}" for key in keys)
        print(f"{row['layers']:6}{seconds}{row['memory_B'] / 1e6:12.0f}")


def check_growth(report, rows):
    for key in (key for key in rows[0] if key.endswith("_s")):
        if rows[-1][key] >= SHORTEST:
            what = f"{key[:-2]}, exponent from {LAYERS[0]} to {LAYERS[-1]} layers"
            report.limit(what, get_exponent(rows, key), EXPONENT_LIMIT, "of layers")
    cold = next(row for row in rows if row["layers"] == 48)
    report.limit("48 layers, to .tdm", cold["process_s"], COLD_LIMIT, "s")


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--runs", type=int, default=3, help="of each point")
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rows = measure_growth(options.runs, folder)
        title = f"gpt of tiny width, {' '.join(GROWTH)}, cold kernels: seconds"
        report.add(title, rows)
        print_table(title, rows)
        check_growth(report, rows)
        many = [{"layers": 48} | measure_many(options.runs, folder)]
        title = f"gpt of tiny width, {' '.join(MANY)}: seconds"
        report.add(title, many)
        print_table(title, many)
        report.limit("lower", many[0]["lower_s"], LOWER_LIMIT, "s")
        pipeline = measure_pipeline(folder)
        title = f"gpt of tiny width, {' '.join(PIPELINE)}, cold and warm kernels: seconds"
        report.add(title, pipeline)
        print_table(title, pipeline)
        report.limit("pipeline, warm kernels", pipeline[1]["process_s"], PIPELINE_LIMIT, "s")
    report.finish(options)


if __name__ == "__main__":
    main()
