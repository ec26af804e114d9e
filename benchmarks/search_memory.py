#!/usr/bin/env python3
"""Memory of a compiled Program's rank against the peak memory in its plan.

    benchmarks/search_memory.py [--models gpt,llama,bert_moe] [--share 0.6] [--check] [--json FILE]

Plans each model for meshes of four ranks and two microbatches, without a memory limit and with --share of the peak
found without. A rank holds its arenas and its arguments. A plan counts a tensor and its reshape twice, and values
inside one kernel as stored. A Program's buffers begin at multiples of 64 bytes.
"""

import math
import pathlib
import re
import tempfile

from harness import BUILD, ROOT, Report, export, make_parser, measure_process, write_cluster

MESHES = ["data=4", "data=2,model=2"]
# Alignment is a part of small models.
ALLOWED = 1.01


def get_held(program):
    """Of the text of a Program: bytes of its largest rank."""
    ranks = re.split(r"(?m)^rank program ", program)
    arenas = [
        sum(map(int, re.findall(r"(?m)^  arena \d+ in \S+ (\d+) bytes", rank))) for rank in ranks
    ]
    arguments = re.findall(
        r"(?m)^argument \d+ \S+ [a-z]+(\d+)\[[^\]]*\] local \[([^\]]*)\]", program
    )
    return max(arenas) + sum(
        max(int(bits) // 8, 1)
        * math.prod(int(extent) for extent in shape.split(",") if extent.strip())
        for bits, shape in arguments
    )


def measure(step, mesh, memory, folder):
    cluster, plan, program = (folder / name for name in ("cluster.yaml", "plan", "step.tdm"))
    size = f"size: {memory} B" if memory else "size: 3 GiB"
    write_cluster(cluster, "laptop", "size: 3 GiB", size)
    measure_process(
        [BUILD / "bin/tandem-compile", step, "--mesh", mesh, "--micro", "2", "--search", "tandem"]
        + ["--cluster", cluster, "--save-plan", plan, "-o", program]
    )
    text = plan.read_text()
    return {
        "mesh": mesh,
        "limit": memory,
        "peak": int(re.search(r"(?m)^peak (\d+) B$", text)[1]),
        "held": get_held(measure_process([BUILD / "bin/tandem-run", program, "--print"])["text"]),
        "waits": len(re.findall(r"(?m)^wait ", text)),
    }


def show(row):
    print(
        f"{row['model']:10} {row['mesh']:15} {row['limit'] or '-':>10} {row['peak']:10} {row['held']:10}"
        f" {row['ratio']:6.3f} {row['waits']:5}",
        flush=True,
    )


def measure_model(model, share, folder):
    step = folder / f"{model}.mlir"
    export(ROOT / f"examples/{model}.py", step)
    rows = []
    for mesh in MESHES:
        free = measure(step, mesh, None, folder)
        limited = measure(step, mesh, int(free["peak"] * share), folder)
        for found in (free, limited):
            row = {"model": model, "ratio": found["held"] / found["peak"]} | found
            rows.append(row)
            show(row)
    return rows


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--models", default="gpt,llama,bert_moe")
    parser.add_argument("--share", type=float, default=0.6)
    args = parser.parse_args()
    print("model      mesh               limit/B     peak/B     held/B  ratio waits")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for model in args.models.split(","):
            rows += measure_model(model, args.share, pathlib.Path(name))
    report = Report()
    report.add("bytes that a Program holds against its plan's peak", rows)
    report.limit("held", max(row["ratio"] for row in rows), ALLOWED, "times the peak")
    over = [row for row in rows if row["limit"] and row["peak"] > row["limit"]]
    report.claim("no plan exceeds its limit", not over)
    report.finish(args)


if __name__ == "__main__":
    main()
