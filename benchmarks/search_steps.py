#!/usr/bin/env python3
"""From step.mlir to plan file, whole processes, against layers and devices: figure 14 of HiDup with import and output.

    benchmarks/search_steps.py [--model bert_moe] [--runs 5] [--json build/bench/search.json]

Each run is a process of tandem-compile for V100 machines of eight devices (one of fewer), `--mesh data=N --micro 2`,
the model at the paper's size, with `--search hidup` and `--search tandem`; runs go in turns over the points so that all
see the same machine. Shown are medians of wall and CPU time; CPU time is closer to what an idle machine shows.
"""

import argparse
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from search import ROOT, fail, write_json

BUILD = pathlib.Path(os.environ.get("TANDEM_BUILD", ROOT / "build"))
SEARCHES = ["hidup", "tandem"]
LAYERS, DEVICES = [2, 4, 8, 16], [8, 16, 32, 64]
# Where the two curves meet.
LAYERS_OF_DEVICES, DEVICES_OF_LAYERS = 8, 64


def export(model, layers, folder):
    step = folder / f"{layers}.mlir"
    environment = dict(os.environ, PYTHONPATH=str(BUILD / "python"))
    done = subprocess.run(
        [sys.executable, "-m", "tandem", "export", ROOT / f"examples/{model}.py", "--preset"]
        + ["paper", "--set", f"layers={layers}", "--meta", "-o", step],
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        fail(done.stderr.strip())
    return step


def write_cluster(devices, folder):
    text = (ROOT / "examples/clusters/v100-8x8.yaml").read_text()
    changed, count = re.subn(r"count: 8\b", f"count: {devices // 8}", text, count=1)
    if count != 1:
        fail("examples/clusters/v100-8x8.yaml: found no 'count: 8', expected eight machines")
    path = folder / f"{devices}.yaml"
    path.write_text(changed)
    return path


def run(step, cluster, devices, search):
    """Wall and CPU seconds of one process, and its plan's cost."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [BUILD / "bin/tandem-compile", step, "--cluster", cluster, "--mesh", f"data={devices}"]
        + ["--micro", "2", "--search", search, "--plan-only", "-o", os.devnull],
        capture_output=True,
        text=True,
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = re.search(r"cost ([\d.e-]+) s", done.stderr + done.stdout)
    if done.returncode != 0 or not cost:
        fail(done.stderr.strip())
    return (
        wall,
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        float(cost[1]),
    )


def measure(model, runs, folder):
    points = {(n, DEVICES_OF_LAYERS) for n in LAYERS} | {(LAYERS_OF_DEVICES, n) for n in DEVICES}
    steps = {layers: export(model, layers, folder) for layers, _ in points}
    clusters = {devices: write_cluster(devices, folder) for _, devices in points}
    samples = {(search, *point): [] for point in sorted(points) for search in SEARCHES}
    for _ in range(runs):
        for search, layers, devices in samples:
            samples[search, layers, devices].append(
                run(steps[layers], clusters[devices], devices, search)
            )
    rows = []
    for (search, layers, devices), values in samples.items():
        wall, cpu, cost = (statistics.median(column) for column in zip(*values, strict=True))
        rows.append(
            dict(
                search=search,
                layers=layers,
                devices=devices,
                process_s=wall,
                cpu_s=cpu,
                cost_s=cost,
            )
        )
    return rows


def print_table(title, rows):
    print(f"\n{title}\nsearch  layers  devices  process/s  CPU/s      cost/s")
    for row in rows:
        print(
            f"{row['search']:6}  {row['layers']:6}  {row['devices']:7}  {row['process_s']:9.2f}"
            f"  {row['cpu_s']:5.2f}  {row['cost_s']:10.6f}"
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="bert_moe", choices=["bert_moe", "vit_moe"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "build/bench/search.json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(args.model, args.runs, pathlib.Path(folder))
    print(f"{args.model}, paper's size, from step.mlir to plan file, median of {args.runs}")
    print_table(
        f"against layers, on {DEVICES_OF_LAYERS} devices",
        [r for r in rows if r["devices"] == DEVICES_OF_LAYERS],
    )
    print_table(
        f"against devices, with {LAYERS_OF_DEVICES} layers",
        [r for r in rows if r["layers"] == LAYERS_OF_DEVICES],
    )
    write_json(args.json, f"from step to plan, {args.model}", {"runs": args.runs, "rows": rows})


if __name__ == "__main__":
    main()
