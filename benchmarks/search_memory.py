#!/usr/bin/env python3
"""Memory of a compiled Program's rank against the peak memory in its plan.

    benchmarks/search_memory.py [--models gpt,llama] [--plans zero,searched-2] [--share 0.6] [--check] [--json FILE]

Plans each model by presets and by search, on one to four ranks, with one and two microbatches. What is searched on four
ranks is searched again with --share of the peak as its limit. A rank holds arenas, arguments, results and constants.
--check fails where they are outside of 0.90 to 1.00 of the peak.
"""

import math
import pathlib
import re
import tempfile

from harness import BUILD, ROOT, Report, export, make_parser, measure_process, write_cluster

# Options of the exports.
MODELS = {
    "mlp": [],
    "resnet": [],
    "gpt": [],
    "llama": [],
    "bert_moe": [],
    "vit_moe": [],
    "gpt 256 wide": ["--set", "layers=4,width=256,heads=4,seq=128,batch=8"],
}
# Mesh, microbatches, and who plans.
PLANS = {
    "one": ("", 1, "data-parallel"),
    "one-2": ("", 2, "data-parallel"),
    "data": ("data=4", 1, "data-parallel"),
    "data-2": ("data=4", 2, "data-parallel"),
    "zero": ("data=4", 1, "zero"),
    "zero-2": ("data=4", 2, "zero"),
    "tensor": ("model=2", 1, "tensor-parallel"),
    "tensor-2": ("model=2", 2, "tensor-parallel"),
    "expert-2": ("data=4", 2, "expert-parallel"),
    "searched": ("data=4", 1, None),
    "searched-2": ("data=4", 2, None),
    "two-axes-2": ("data=2,model=2", 2, None),
}
# By presets that need what others do not have: attention, experts.
ONLY = {
    "tensor-parallel": lambda model: model not in ("mlp", "resnet"),
    "expert-parallel": lambda model: model.endswith("moe"),
}
LEAST, MOST = 0.90, 1.00


def get_held(program):
    """Of the text of a Program: bytes of its largest rank."""
    return max(map(int, re.findall(r"(?m)^rank program .* holds (\d+) bytes", program)))


def count_ranks(mesh):
    return math.prod(int(size) for size in re.findall(r"=(\d+)", mesh))


def measure(step, plan, memory, folder):
    mesh, micro, preset = PLANS[plan]
    cluster, saved, program = (folder / name for name in ("cluster.yaml", "plan", "step.tdm"))
    size = f"size: {memory} B" if memory else "size: 3 GiB"
    write_cluster(cluster, "laptop", "size: 3 GiB", size)
    text = cluster.read_text()
    cluster.write_text(text.replace("core: 4", f"core: {count_ranks(mesh)}"))
    planner = ["--plan", preset] if preset else ["--search", "tandem"]
    measure_process(
        [BUILD / "bin/tandem-compile", step, "--micro", micro, *planner, "--cluster", cluster]
        + (["--mesh", mesh] if mesh else [])
        + ["--save-plan", saved, "-o", program]
    )
    text = saved.read_text()
    held = get_held(measure_process([BUILD / "bin/tandem-run", program, "--print"])["text"])
    peak = int(re.search(r"(?m)^peak (\d+) B$", text)[1])
    return {
        "plan": plan,
        "limit": memory,
        "peak": peak,
        "held": held,
        "ratio": held / peak,
        "waits": len(re.findall(r"(?m)^wait ", text)),
    }


def show(row):
    print(
        f"{row['model']:12} {row['plan']:11} {row['limit'] or '-':>10} {row['peak']:10} {row['held']:10}"
        f" {row['ratio']:6.3f} {row['waits']:5}",
        flush=True,
    )


def measure_model(model, plans, share, folder):
    step = folder / "step.mlir"
    export(ROOT / f"examples/{model.split()[0]}.py", step, *MODELS[model])
    for plan in plans:
        mesh, _, preset = PLANS[plan]
        if preset in ONLY and not ONLY[preset](model):
            continue
        row = measure(step, plan, None, folder)
        yield row
        if not preset and count_ranks(mesh) == 4:
            yield measure(step, plan, int(row["peak"] * share), folder)


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--plans", default=",".join(PLANS))
    parser.add_argument("--share", type=float, default=0.6)
    args = parser.parse_args()
    print("model        plan           limit/B     peak/B     held/B  ratio waits")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for model in args.models.split(","):
            for row in measure_model(model, args.plans.split(","), args.share, pathlib.Path(name)):
                rows.append({"model": model} | row)
                show(rows[-1])
    report = Report()
    report.add("bytes that a Program holds against its plan's peak", rows)
    report.limit("held", max(row["ratio"] for row in rows), MOST, "times the peak")
    least = min(row["ratio"] for row in rows)
    report.claim(f"held: {least:.4g} times the peak, at least {LEAST:g}", least >= LEAST)
    over = [row for row in rows if row["limit"] and row["peak"] > row["limit"]]
    report.claim("no plan exceeds its limit", not over)
    report.finish(args)


if __name__ == "__main__":
    main()
