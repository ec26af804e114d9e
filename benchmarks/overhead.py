#!/usr/bin/env python3
"""Overhead of the runtime: a step of a tiny model on one rank.

    benchmarks/overhead.py [--runs 5] [--steps 20000] [--check] [--json FILE]

Runs `examples/mlp.py` by `tandem-run`, which sets a batch and prints a loss in each step. Prints the seconds per step
of a process with all steps, less those of a process with none, and the median of `Session::step` alone (`--stats`).
Then it measures `tandem.compile` in Python: the check per step that model, optimizer and code are unchanged, for 201
modules, and the time to hash a megabyte of values (TANDEM_WATCH). The medians of the runs count.
"""

import json
import os
import pathlib
import statistics
import subprocess
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


WATCH = """
import json, os, time, torch
from torch import nn
from tandem.guards.settings import Settings
from tandem.guards.watch import Watch
blocks = [nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 8)) for _ in range(40)]
model = nn.Sequential(*blocks)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
settings, watch = Settings(model, lambda model, batch: model(batch).sum(), optimizer), Watch(model, optimizer)
def us(function):
    start = time.perf_counter()
    for _ in range(500):
        function()
    return (time.perf_counter() - start) / 500 * 1e6
os.environ["TANDEM_WATCH"] = "1"
model = nn.Linear(2**9, 2**9, bias=False)
hashed = Watch(model, torch.optim.SGD(model.parameters(), lr=0.1))
print(json.dumps({"python_us": us(settings.changes), "values_us": us(watch.changed), "megabyte_us": us(hashed.count)}))
"""


def measure_watch():
    """Microseconds that the checks of a step take in Python."""
    environment = dict(os.environ, PYTHONPATH=str(BUILD / "python"))
    done = subprocess.run(
        [sys.executable, "-c", WATCH], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


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
    title = "what a step looks at in Python, 201 modules: us"
    watched = measure_watch()
    print(title)
    print(
        f"  code {watched['python_us']:7.2f}   values {watched['values_us']:7.2f}   hash of 1 MB {watched['megabyte_us']:7.2f}"
    )
    report.add(title, [watched])
    median = statistics.median(row["step_us"] for row in rows)
    report.limit("a step, the median", median, LIMIT, "us")
    report.finish(options)


if __name__ == "__main__":
    main()
