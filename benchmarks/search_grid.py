#!/usr/bin/env python3
"""Plans of `tandem` against presets, `hidup` and one microbatch, over models, meshes, microbatches and clusters.

    benchmarks/search_grid.py [--models gpt,mlp] [--mesh data=4 ...] [--micro 1,2,4] [--clusters laptop,v100-2x4] [--check]
        [--json FILE]

Each plan must cost at most as much as the cheapest preset, as `hidup`'s plan (one axis, two microbatches), and as the
plan with one microbatch. The schedule's time line must be no longer than the plan's cost. A cluster has as many devices
as the mesh has points: half of them in each of two machines, or all in one.
"""

import math
import os
import pathlib
import re
import tempfile

from harness import BUILD, ROOT, Report, export, fail, make_parser, measure_process, write_cluster

MODELS = {
    "gpt": ["gpt"],
    "bert_moe": ["bert_moe"],
    "bert_moe-switch": ["bert_moe", "--set", "gate=switch"],
    "vit_moe": ["vit_moe"],
    "llama": ["llama"],
    "mlp": ["mlp"],
    "hf-bert": ["hf", "--preset", "bert"],
    "hf-gpt2": ["hf", "--preset", "gpt2"],
    "hf-llama": ["hf", "--preset", "llama"],
}
MESHES = ["data=2", "data=4", "data=2,model=2", "model=4"]
CLUSTERS = ["laptop", "v100-2x4", "a100-4x8", "h100-8x8"]
# What `cost` and the printed six digits may differ by, relative.
TOLERANCE = 2e-6
# What a search says where there is no plan of its kind.
NO_PLAN = re.compile(r"no preset fits|expected one axis and two microbatches|does not divide")


def export_model(model, folder):
    name, *options = MODELS[model]
    path = folder / f"{model}.mlir"
    export(ROOT / f"examples/{name}.py", path, *options)
    return path


def write_devices(name, devices, folder):
    """The cluster with so many devices."""

    def shrink(entry):
        nodes = min(2, int(entry[1]))
        return f"{{count: {nodes}, devices: {{{entry[2]}: {devices // nodes}}}}}"

    path = folder / f"{name}-{devices}.yaml"
    return write_cluster(path, name, r"\{count: (\d+), devices: \{(\w+): \d+\}\}", shrink)


def search(step, cluster, mesh, micro, algorithm):
    """Cost, time line and CPU seconds; nothing if there is no such plan."""
    row = measure_process(
        [BUILD / "bin/tandem-compile", step, "--cluster", cluster, "--mesh", mesh]
        + ["--micro", micro, "--search", algorithm]
        + ["--timeline", "--stop-after", "schedule", "-o", os.devnull],
        refused=NO_PLAN,
    )
    if not row:
        return None
    found = re.search(r"schedule ([\d.e+-]+) s, cost of the plan ([\d.e+-]+) s", row["text"])
    if not found:
        fail(f"{step.stem}, {mesh}, micro {micro}, {cluster.stem}, {algorithm}: found no time line")
    return float(found[2]), float(found[1]), row["cpu_s"]


def judge(row):
    """What the plan is worse than, with the share."""
    others = {name: row[name] for name in ("presets", "hidup", "micro 1") if row.get(name)}
    worse = [
        f"{name} {100 * (row['tandem'] / cost - 1):+.4f} %"
        for name, cost in others.items()
        if row["tandem"] > cost * (1 + TOLERANCE)
    ]
    if row["timeline"] > row["tandem"] * (1 + TOLERANCE):
        worse.append(f"time line {100 * (row['timeline'] / row['tandem'] - 1):+.4f} % longer")
    return worse


def show(row):
    cells = [f"{1e3 * row[name]:11.6f}" if row.get(name) else f"{'-':>11}" for name in COSTS]
    print(
        f"{row['model']:16}{row['mesh']:15}{row['cluster']:10}{row['micro']:5} "
        + " ".join(cells)
        + f"{row['seconds']:7.1f}  "
        + "; ".join(row["worse"]),
        flush=True,
    )


COSTS = ["tandem", "presets", "hidup", "micro 1", "timeline"]


def run(model, step, mesh, cluster_name, micros, folder):
    devices = math.prod(int(size) for size in re.findall(r"=(\d+)", mesh))
    cluster = write_devices(cluster_name, devices, folder)
    single = None
    for micro in micros:
        found = search(step, cluster, mesh, micro, "tandem")
        presets = search(step, cluster, mesh, micro, "presets")
        hidup = search(step, cluster, mesh, micro, "hidup") if micro == 2 else None
        row = dict(model=model, mesh=mesh, cluster=cluster_name, micro=micro)
        row |= dict(zip(["tandem", "timeline", "seconds"], found, strict=True))
        row |= {"presets": presets and presets[0], "hidup": hidup and hidup[0], "micro 1": single}
        row["worse"] = judge(row)
        if micro == 1:
            single = row["tandem"]
        show(row)
        yield row


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--mesh", action="append", help="may be given again")
    parser.add_argument("--micro", default="1,2,4")
    parser.add_argument("--clusters", default=",".join(CLUSTERS))
    args = parser.parse_args()
    models, micros = args.models.split(","), [int(n) for n in args.micro.split(",")]
    if unknown := [model for model in models if model not in MODELS]:
        fail(f"--models: found {','.join(unknown)}, expected some of {','.join(MODELS)}")
    print(
        f"{'model':16}{'mesh':15}{'cluster':10}{'micro':>5} "
        + " ".join(f"{name + ' ms':>11}" for name in COSTS)
        + f"{'CPU s':>7}  worse than"
    )
    rows, report = [], Report()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for model in models:
            step = export_model(model, folder)
            for mesh in args.mesh or MESHES:
                for cluster in args.clusters.split(","):
                    rows += run(model, step, mesh, cluster, micros, folder)
    report.add("plans against presets, hidup, one microbatch and their schedules", rows)
    worse = sum(bool(row["worse"]) for row in rows)
    report.limit(f"worse than something, of {len(rows)} plans", worse, 0, "plans")
    report.finish(args)


if __name__ == "__main__":
    main()
