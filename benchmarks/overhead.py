#!/usr/bin/env python3
"""What a step of a tiny model takes on one rank: much of it is what the runtime adds to computation.

    benchmarks/overhead.py [--runs 5] [--steps 20000] [--check] [--json FILE]

`examples/mlp.py` by `tandem-run`, which sets a batch and prints a loss in each step: the seconds of a process with all
steps less those of one with none, per step, and the median of what `Session::step` alone takes (`--stats`).
The medians of the runs count.
"""

import json
import os
import pathlib
import statistics
import sys
import tempfile

from harness import BUILD, ROOT, Report, make_parser, measure_process

# Of a whole step on a core that does nothing else: us.
LIMIT = 20


def compile_model(folder):
    environment = dict(os.environ, PYTHONPATH=str(BUILD / "python"))
    step = folder / "mlp.mlir"
    measure_process(
        [sys.executable, "-m", "tandem", "export", ROOT / "examples/mlp.py", "-o", step],
        environment,
    )
    measure_process([BUILD / "bin/tandem-compile", step, "-o", folder / "mlp.tdm"])


def measure(folder, steps):
    """Microseconds of a step in the process, and of Session::step."""
    stats = folder / "stats.json"

    def run(count):
        return measure_process(
            [BUILD / "bin/tandem-run", folder / "mlp.tdm", "--data", folder / "mlp.safetensors"]
            + ["--steps", count, "--stats", stats]
        )["process_s"]

    start, whole = run(0), run(steps)
    alone = [step["seconds"] for step in json.loads(stats.read_text())["steps"]]
    return {
        "step_us": (whole - start) / steps * 1e6,
        "session_us": statistics.median(alone) * 1e6,
    }


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20000)
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        compile_model(folder)
        rows = [measure(folder, options.steps) for _ in range(options.runs)]
    title = f"mlp on one rank, {options.steps} steps: us"
    print(title)
    for row in rows:
        print(f"  step {row['step_us']:7.2f}   Session::step {row['session_us']:7.2f}")
    report.add(title, rows)
    median = statistics.median(row["step_us"] for row in rows)
    report.limit("a step, the median", median, LIMIT, "us")
    report.finish(options)


if __name__ == "__main__":
    main()
