#!/usr/bin/env python3
"""From step.mlir to plan file, whole processes, against layers and devices: figure 14 of HiDup with import and output.

    benchmarks/search_steps.py [--model bert_moe] [--runs 5] [--json build/bench/search.json]

Each run is a process of tandem-compile for V100 machines of eight devices (one of fewer), `--mesh data=N --micro 2`,
with `--search hidup` and `--search tandem`: the model at the paper's size, whose layers repeat, against layers and
devices, and a model whose layers all differ (benchmarks/differing_layers.py) against layers. Runs go in turns over the
points so that all see the same machine. Shown are medians of wall and CPU time and of memory; CPU time is closer to
what an idle machine shows.
"""

import argparse
import os
import pathlib
import re
import statistics
import sys
import tempfile

from search import ROOT, fail, measure_process, write_json

BUILD = pathlib.Path(os.environ.get("TANDEM_BUILD", ROOT / "build"))
SEARCHES = ["hidup", "tandem"]
LAYERS, DEVICES = [2, 4, 8, 16], [8, 16, 32, 64]
# Where the two curves meet.
LAYERS_OF_DEVICES, DEVICES_OF_LAYERS = 8, 64
DIFFERING = ROOT / "benchmarks/differing_layers.py"


def export(model, step, *options):
    """Of a model file, on the meta device; what the process took."""
    environment = dict(os.environ, PYTHONPATH=str(BUILD / "python"))
    return measure_process(
        [sys.executable, "-m", "tandem", "export", model, "--meta", "-o", step, *options],
        environment,
    )


def export_layers(model, layers, folder):
    step = folder / f"{model.stem}-{layers}.mlir"
    export(model, step, "--preset", "paper", "--set", f"layers={layers}")
    return step


def write_cluster(devices, folder):
    text = (ROOT / "examples/clusters/v100-8x8.yaml").read_text()
    changed, count = re.subn(r"count: 8\b", f"count: {devices // 8}", text, count=1)
    if count != 1:
        fail("examples/clusters/v100-8x8.yaml: found no 'count: 8', expected eight machines")
    path = folder / f"{devices}.yaml"
    path.write_text(changed)
    return path


def plan(step, *options):
    """What a process of tandem-compile takes from the step to a plan, its cost, and how far it may be from the best."""
    row = measure_process(
        [BUILD / "bin/tandem-compile", step, *options, "--plan-only", "-o", os.devnull]
    )
    text = row.pop("text")
    cost = re.search(r"cost ([\d.e-]+) s", text)
    if not cost:
        fail(f"{step}: found no cost in the answer of tandem-compile: {text.strip()}")
    gap = re.search(r"at most ([\d.]+) % above", text)
    proven = 0.0 if ", optimal" in text else None
    return row | {"cost_s": float(cost[1]), "gap": float(gap[1]) / 100 if gap else proven}


def take_medians(rows):
    """None where a row has no number, as the gaps of hidup's plans, which have no bound."""
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    return {
        key: None if None in values else statistics.median(values)
        for key, values in columns.items()
    }


def print_gap(gap):
    return "-" if gap is None else f"{gap:.2%}"


def measure(model, points, runs, folder):
    steps = {layers: export_layers(model, layers, folder) for layers, _ in points}
    clusters = {devices: write_cluster(devices, folder) for _, devices in points}
    samples = {(search, *point): [] for point in sorted(points) for search in SEARCHES}
    for _ in range(runs):
        for search, layers, devices in samples:
            options = ["--cluster", clusters[devices], "--mesh", f"data={devices}", "--micro", "2"]
            row = plan(steps[layers], *options, "--search", search)
            samples[search, layers, devices].append(row)
    return [
        {"search": search, "layers": layers, "devices": devices} | take_medians(rows)
        for (search, layers, devices), rows in samples.items()
    ]


def print_table(title, rows):
    print(f"\n{title}\nsearch  layers  devices  process/s  CPU/s  memory/MB      cost/s       gap")
    for row in rows:
        print(
            f"{row['search']:6}  {row['layers']:6}  {row['devices']:7}  {row['process_s']:9.2f}"
            f"  {row['cpu_s']:5.2f}  {row['memory_B'] / 1e6:9.0f}  {row['cost_s']:10.6f}  {print_gap(row['gap']):>8}"
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="bert_moe", choices=["bert_moe", "vit_moe"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "build/bench/search.json")
    args = parser.parse_args()
    across_layers = {(n, DEVICES_OF_LAYERS) for n in LAYERS}
    points = across_layers | {(LAYERS_OF_DEVICES, n) for n in DEVICES}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rows = measure(ROOT / f"examples/{args.model}.py", points, args.runs, folder)
        differing = measure(DIFFERING, across_layers, args.runs, folder)
    print(f"{args.model}, paper's size, from step.mlir to plan file, median of {args.runs}")
    print_table(
        f"against layers, on {DEVICES_OF_LAYERS} devices",
        [r for r in rows if r["devices"] == DEVICES_OF_LAYERS],
    )
    print_table(
        f"against devices, with {LAYERS_OF_DEVICES} layers",
        [r for r in rows if r["layers"] == LAYERS_OF_DEVICES],
    )
    print_table(f"layers that all differ, on {DEVICES_OF_LAYERS} devices", differing)
    write_json(
        args.json, "from step to plan, layers that differ", {"runs": args.runs, "rows": differing}
    )
    write_json(args.json, f"from step to plan, {args.model}", {"runs": args.runs, "rows": rows})


if __name__ == "__main__":
    main()
