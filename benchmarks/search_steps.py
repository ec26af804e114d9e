#!/usr/bin/env python3
"""Planning time from step.mlir to plan file, as whole processes: figure 14 of HiDup with import and output.

    benchmarks/search_steps.py [--model bert_moe] [--runs 5] [--check] [--json FILE]

Each run is a process of tandem-compile for V100 machines of eight devices (or one machine with fewer), with
`--mesh data=N --micro 2` and `--search hidup` or `--search tandem`. The model at the paper's size, with repeated layers, runs against layers and devices. A
model whose layers all differ (benchmarks/differing_layers.py) runs against layers. Runs take turns over the points.
Prints medians of wall time, CPU time and memory. Limits apply to CPU time, which is closer to an idle machine. The
curves have steps: beyond 120, 600 and 1,000 operators, `tandem` leaves out its slow parts (docs/rationale/search.md).
"""

import pathlib
import tempfile

from harness import ROOT, Report, export, make_parser, plan, print_gap, take_medians, write_cluster

SEARCHES = ["hidup", "tandem"]
LAYERS, DEVICES = [2, 4, 8, 16], [8, 16, 32, 64]
# Where the two curves meet, and how long the model of the paper may take there: s.
LAYERS_OF_DEVICES, DEVICES_OF_LAYERS = 8, 64
LIMITS = {"hidup": 0.5, "tandem": 2}
# What time may grow by, as shares of what layers or devices do; `tandem` searches layers that repeat once.
REPEATED = {"hidup": 1.5, "tandem": 0.5}
DIFFERENT = {"hidup": 1.5, "tandem": 1.5}
DEVICE = {"hidup": 0.25, "tandem": 0.25}
DIFFERING = ROOT / "benchmarks/differing_layers.py"


def export_layers(model, layers, folder):
    step = folder / f"{model.stem}-{layers}.mlir"
    export(model, step, "--preset", "paper", "--set", f"layers={layers}")
    return step


def write_machines(devices, folder):
    machines = f"count: {devices // 8}"
    return write_cluster(folder / f"{devices}.yaml", "v100-8x8", r"count: 8\b", machines)


def measure(model, points, runs, folder):
    steps = {layers: export_layers(model, layers, folder) for layers, _ in points}
    clusters = {devices: write_machines(devices, folder) for _, devices in points}
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


def check_growth(report, rows, key, shares):
    """Time grows at most by these shares of what `key` grows by."""
    for search, share in shares.items():
        found = sorted((row[key], row["cpu_s"]) for row in rows if row["search"] == search)
        (least, fast), (most, slow) = found[0], found[-1]
        what = f"{search}, growth of time from {least} to {most} {key}"
        report.limit(what, slow / fast / (most / least), share, f"of that of {key}")


def check_times(report, rows):
    for row in rows:
        if row["layers"] == LAYERS_OF_DEVICES:
            limit = LIMITS[row["search"]]
            report.limit(f"{row['search']}, {row['layers']} layers", row["cpu_s"], limit, "s CPU")


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--model", default="bert_moe", choices=["bert_moe", "vit_moe"])
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    across_layers = {(n, DEVICES_OF_LAYERS) for n in LAYERS}
    points = across_layers | {(LAYERS_OF_DEVICES, n) for n in DEVICES}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rows = measure(ROOT / f"examples/{args.model}.py", points, args.runs, folder)
        differing = measure(DIFFERING, across_layers, args.runs, folder)
    report = Report()
    what = f"from step to plan (figure 14), median of {args.runs}"
    model = f"{args.model}, paper's size"
    of_layers = [row for row in rows if row["devices"] == DEVICES_OF_LAYERS]
    of_devices = [row for row in rows if row["layers"] == LAYERS_OF_DEVICES]
    for title, table, key, shares in (
        (f"{model}, {DEVICES_OF_LAYERS} devices, against layers", of_layers, "layers", REPEATED),
        (f"{model}, {LAYERS_OF_DEVICES} layers, against devices", of_devices, "devices", DEVICE),
        (f"layers that all differ, {DEVICES_OF_LAYERS} devices", differing, "layers", DIFFERENT),
    ):
        print_table(f"{what}: {title}", table)
        report.add(f"{what}: {title}", table)
        check_growth(report, table, key, shares)
        if table is of_layers and args.model == "bert_moe":
            check_times(report, table)
    report.finish(args)


if __name__ == "__main__":
    main()
