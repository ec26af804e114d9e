#!/usr/bin/env python3
"""Time to first step by stage, in CPU seconds: models of the zoos, each with an empty cache.

    scripts/zoo benchmarks/waiting.py [--only NAME ...] [--runs 3] [--slowest 10] [--beside FOLDER] [--json FILE]

Each row is a model of zoo_models.json in a process of its own, in float32 on `data=2`: CPU seconds (all threads) of
`tandem.compile`, the median of the runs. Stages of the capture are those of the progress line: before the forward pass,
forward pass, backward pass, update, decompositions (the second trace), operators (the lowering), text. The compiler's
stages are one column. With --beside, runs alternate with those of the package `tandem` in that folder, and a column has
the ratio. The last row is the sum of the slowest.
"""

import fnmatch
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from harness import BUILD, Report, fail, make_parser

_CAPTURE = "capture"
# The stages of the capture, as `progress.tell` names them, and what stands for all stages of the compiler.
STAGES = [
    "before",
    "forward pass",
    "backward pass",
    "update",
    "decompositions",
    "operators",
    "text",
]
_COMPILER = "compiler"


class _Stages:
    """Stands where the line on the terminal does, and adds up CPU seconds."""

    def __init__(self):
        self.what, self._at, self.seconds = None, None, {}
        self._begin = time.process_time()

    def _change(self, stage):
        now = time.process_time()
        if self._at is not None:
            self.seconds[self._at] = self.seconds.get(self._at, 0.0) + now - self._begin
        self._at, self._begin = stage, now

    def begin(self, what):
        self.what = what
        self._change(STAGES[0] if what == _CAPTURE else _COMPILER)

    def tell(self, detail):
        if self.what == _CAPTURE:
            self._change(detail)

    def pause(self, paused):
        """Nothing is shown."""

    def end(self):
        self._change(None)


def _single(value):
    import torch

    is_real = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.float() if is_real else value


def measure_here(name):
    """Prints {stage: seconds} of a model, as JSON."""
    import tandem
    import torch
    import zoo_cases
    from tandem.base import progress

    torch.set_num_threads(1)
    zoo_cases.stand_in_for_torchvision()
    case = zoo_cases.all_cases()[name]
    model = case.make_model().float()
    batch = torch.utils._pytree.tree_map(_single, case.batches(1)[0])
    optimizer = case.make_optimizer(model)
    progress._current = stages = _Stages()
    tandem.compile(model, case.loss, optimizer, batch, mesh={"data": 2})
    stages.end()
    print(json.dumps(stages.seconds))


def run_alone(name, package):
    """{stage: seconds} that a process of its own prints; None where the model is refused."""
    with tempfile.TemporaryDirectory(prefix="waiting-") as cache:
        environment = os.environ | {"TANDEM_CACHE_DIR": cache, "PYTHONPATH": str(package)}
        command = [sys.executable, "-W", "ignore", __file__, "--here", name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(f"  {name}: {(done.stderr.strip().splitlines() or ['no reason'])[-1]}")
        return None
    return json.loads(done.stdout.splitlines()[-1])


def measure(name, packages, runs):
    """{stage: median seconds} for each package; None where one does not run."""
    samples = [[] for _ in packages]
    for _ in range(runs):
        for found, package in zip(samples, packages, strict=True):
            row = run_alone(name, package)
            if row is None:
                return None
            found.append(row)
    names = [*STAGES, _COMPILER]
    return [
        {stage: statistics.median(row.get(stage, 0.0) for row in found) for stage in names}
        for found in samples
    ]


def _row(name, medians):
    own, *before = medians
    row = {"model": name, "cpu_s": sum(own.values())} | {f"{s}_s": own[s] for s in own}
    return row | ({"beside_s": sum(before[0].values())} if before else {})


def _line(row):
    cells = "".join(f"{row[f'{stage}_s']:8.2f}" for stage in [*STAGES, _COMPILER])
    beside = row.get("beside_s")
    ratio = f"{beside:9.2f}{row['cpu_s'] / beside:7.2f}" if beside else ""
    return f"  {row['model']:34}{row['cpu_s']:8.2f}{cells}{ratio}"


def _wanted(options):
    import zoo_cases

    names = zoo_cases.all_cases()
    return [n for n in names if any(fnmatch.fnmatch(n, only) for only in options.only)]


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--only", nargs="*", default=["*"], help="names of models, with * and ?")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--slowest", type=int, default=10, help="how many are added up")
    parser.add_argument("--beside", help="a folder with another package tandem")
    parser.add_argument("--here", help="measure in this process")
    options = parser.parse_args()
    if options.here:
        return measure_here(options.here)
    packages = [BUILD / "python", *filter(None, [options.beside])]
    names = "".join(f"{name.split()[0]:>8.7}" for name in [*STAGES, _COMPILER])
    print(f"  {'model':34}{'CPU s':>8}{names}{'   beside  ratio' if options.beside else ''}")
    rows = []
    for name in _wanted(options):
        medians = measure(name, packages, options.runs)
        if medians is not None:
            rows.append(_row(name, medians))
            print(_line(rows[-1]), flush=True)
    if not rows:
        fail(f"no model of {' '.join(options.only)} runs")
    slowest = sorted(rows, key=lambda row: -row.get("beside_s", row["cpu_s"]))[: options.slowest]
    total = {key: sum(row[key] for row in slowest) for key in rows[0] if key != "model"}
    print(_line({"model": f"the {len(slowest)} slowest"} | total))
    report = Report()
    report.add("seconds of CPU before the first step", rows)
    report.finish(options)


if __name__ == "__main__":
    main()
