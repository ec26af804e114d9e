#!/usr/bin/env python3
"""Peak memory against what is made again, beside PyTorch: the steps of recompute_steps.py under limits of memory.

    benchmarks/recompute.py [--steps gpt,llama] [--part limits] [--measure-pytorch] [--check] [--json FILE] [--figures FOLDER]

Steps are planned by `--search tandem` on one rank and compiled; only those of *measured* run.

* *limits*: each step without a limit and at eight limits, PyTorch's peaks among them. With dropout at those of the step
  without. The plan at a smaller limit is a start at the next larger one.
* *regions*: models that checkpoint each block or half block themselves, without a limit.
* *search*: CPU seconds of searches on four ranks with a limit that binds, and of Llama with 8 billion parameters on 8x8 H100.
* *measured*: seconds of a gpt's step at three limits, predicted from a profile of this machine, and measured.

*Again*: FLOPs of products that the Program computes beyond those of the step without a limit, relative to these. With
dropout attention counts, as PyTorch decomposes it into products then. *Held*: what a rank of the Program holds.

PyTorch's peaks are in recompute_pytorch.json, which `--measure-pytorch` writes again (10 minutes).
"""

import dataclasses
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import recompute_measured
from harness import (
    BUILD,
    ROOT,
    Report,
    export,
    fail,
    make_parser,
    measure_process,
    plan,
    print_gap,
)
from overlap.pictures import Chart
from search_memory import get_held

MODELS = ROOT / "benchmarks/recompute_steps.py"
YARDSTICK = ROOT / "benchmarks/recompute_pytorch.json"
COUNT = 8
# What gpt may make again at a limit: MB, share.
TARGETS = {"gpt": [(1083, 0.0), (800, 0.12)]}
# FLOPs of a step with dropout, relative to those without, at one limit.
DROPOUT = 1.01
# CPU of a search with a limit that binds, this share of the peak, relative to that without.
SEARCH_LIMIT, SHARE = 2, 0.6
MESH = ["--mesh", "data=4", "--micro", "2", "--search", "tandem"]
# The large model, and the CPU seconds of its search.
LARGE = [ROOT / "examples/llama.py", "--preset", "8b", "--set", "batch=64,seq=2048"]
LARGE_MESH = [
    *("--cluster", ROOT / "examples/clusters/h100-8x8.yaml"),
    *("--mesh", "data=8,model=8", "--search", "tandem"),
]
LARGE_LIMIT = 5
# What does not fit, and what it holds: the Program, or the least that was found or is possible.
REFUSED = re.compile(r"error: .*?holds (?:at least )?([\d.]+ [kMG]?B)\b.* more than the limit")
UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}


@dataclasses.dataclass
class Step:
    """What PyTorch does with it, `rows`, and the exported file."""

    name: str
    sizes: dict
    rows: list
    path: pathlib.Path

    @property
    def counts_attention(self):
        return float(self.sizes.get("dropout", 0)) > 0

    def get_plan(self, limit):
        return self.path.with_suffix(f".{limit}.plan")

    def export(self, regions="none"):
        sizes = self.sizes | {"regions": regions}
        settings = ",".join(f"{key}={value}" for key, value in sizes.items())
        options = ["--preset", sizes["example"], "--set", settings]
        export(MODELS, self.path, *options)
        return self.path


def read_steps(names, folder):
    tables = json.loads(YARDSTICK.read_text())
    unknown = [name for name in names if name not in tables]
    if unknown:
        fail(f"--steps: found '{unknown[0]}', expected one of {', '.join(tables)}")
    return [
        Step(
            name,
            dict(entry.split("=") for entry in tables[name]["sizes"]),
            tables[name]["rows"],
            folder / f"{name.replace(' ', '-')}.mlir",
        )
        for name in names or tables
    ]


def get_front(rows):
    """Those to which no other one is better in both peak and FLOPs, the largest peak first."""
    front = []
    for row in sorted(rows, key=lambda row: (row["peak"], row["again"])):
        if not front or row["again"] < front[-1]["again"]:
            front.append(row)
    return front[::-1]


def choose_limits(step):
    """Peaks of PyTorch, and the limits that have targets, unless a peak is just below: at most `COUNT`, the largest
    first; B.
    """
    peaks = [row["peak"] for row in get_front(step.rows)]
    targets = [mega * 1_000_000 for mega, _ in TARGETS.get(step.name, [])]
    own = {limit for limit in targets if not any(0.99 * limit <= peak <= limit for peak in peaks)}
    count = min(COUNT - len(own), len(peaks))
    spread = {peaks[round(i * (len(peaks) - 1) / (count - 1))] for i in range(count)}
    return sorted(spread | own, reverse=True)


def read_size(text):
    number, unit = text.split()
    return math.ceil(float(number) * UNITS[unit])


def count_flops(program, counts_attention):
    kinds = "gemm|convolution" + ("|attention|attention_backward" if counts_attention else "")
    pattern = rf"(?m)^  \d+ compute (?:{kinds}) .* flops (\d+) bytes"
    return sum(map(int, re.findall(pattern, program)))


def compile_step(step, limit, regions="none", smaller=None):
    """A row; of a limit that does not fit, with what is held. `smaller`: the row of a smaller limit."""
    program = step.path.with_suffix(".tdm")
    options = ["--memory", limit] if limit else []
    if smaller and "peak" in smaller:
        options += ["--start", step.get_plan(smaller["limit"])]
    command = [BUILD / "bin/tandem-compile", step.path, "--search", "tandem", *options]
    start = time.perf_counter()
    done = subprocess.run(
        list(map(str, [*command, "--times", "--save-plan", step.get_plan(limit), "-o", program])),
        capture_output=True,
        text=True,
    )
    row = {"step": step.name, "limit": limit, "process_s": time.perf_counter() - start}
    refused = REFUSED.search(done.stderr)
    if done.returncode and refused:
        return row | {"holds": read_size(refused[1])}
    if done.returncode:
        fail(f"{step.path.name}: {done.stderr.strip().splitlines()[-1]}")
    cost = re.search(r"cost ([\d.e-]+) s, peak (\d+) B", done.stderr)
    text = measure_process([BUILD / "bin/tandem-run", program, "--print"])["text"]
    return row | {
        "predicted_s": float(cost[1]),
        "peak": int(cost[2]),
        "flops": count_flops(text, step.counts_attention),
        "flops_attention": count_flops(text, True),
        "held": get_held(text),
        "plan_s": float(re.search(r"([\d.]+) s  plan\b", done.stdout + done.stderr)[1]),
    }


def add_again(row, base):
    """Shares of FLOPs made again, relative to a row that makes nothing again."""
    for end in ("", "_attention"):
        if "flops" in row:
            row[f"again{end}"] = row[f"flops{end}"] / base[f"flops{end}"] - 1


def show(row):
    limit = f"{row['limit'] / 1e6:.1f}" if row.get("limit") else "-"
    line = f"{row['step']:16} {row.get('regions', ''):6} {limit:>8}"
    if "holds" in row:
        print(f"{line}   does not fit: holds {row['holds'] / 1e6:.1f} MB", flush=True)
        return
    print(
        f"{line} {row['peak'] / 1e6:8.1f} {row['predicted_s']:9.4f} {row['again']:8.2%}"
        f" {row['again_attention']:10.2%} {row['held'] / 1e6:8.1f} {row['plan_s']:7.2f}",
        flush=True,
    )


HEADER = f"{'':23} limit/MB  peak/MB  time/s      again  with attn.  held/MB  plan/s"


def measure_limits(step, limits):
    step.export()
    base = compile_step(step, None)
    rows = []
    for limit in limits[::-1]:
        rows.append(compile_step(step, limit, smaller=rows[-1] if rows else None))
    rows = [base, *rows[::-1]]
    for row in rows:
        add_again(row, base)
        show(row)
    return rows


def get_fitting(rows):
    return [row for row in rows if "peak" in row]


def find_least_again(rows, memory):
    """Of a step's rows that hold at most `memory`; None if none does."""
    return min((row["again"] for row in get_fitting(rows) if row["peak"] <= memory), default=None)


def claim_again(report, what, rows, memory, limit):
    found = find_least_again(rows, memory)
    shown = "nothing fits" if found is None else f"{found:.2%} made again"
    holds = found is not None and found <= limit
    text = f"{what}, {memory / 1e6:.1f} MB: {shown}, at most {limit:.2%}"
    report.claim(text, holds, found=found, limit=limit)


def check_limits(report, step, rows):
    for row in get_front(step.rows):
        claim_again(
            report, f"{step.name}, {row['how']} of PyTorch", rows, row["peak"], row["again"]
        )
    for mega, again in TARGETS.get(step.name, []):
        claim_again(report, step.name, rows, mega * 1_000_000, again)
    fitting = get_fitting(rows)
    over = [row for row in fitting if row["limit"] and row["peak"] > row["limit"]]
    report.claim(f"{step.name}: no peak exceeds its limit", not over)
    pairs = list(zip(fitting, fitting[1:], strict=False))
    falls = pairs and all(a["peak"] >= b["peak"] for a, b in pairs)
    rises = pairs and all(a["predicted_s"] <= b["predicted_s"] for a, b in pairs)
    report.claim(f"{step.name}: the peak falls with the limit", bool(falls))
    report.claim(f"{step.name}: the predicted time rises as the limit falls", bool(rises))


def check_dropout(report, name, rows, without):
    """Both at the same limits."""
    for row, other in zip(rows, without, strict=True):
        if row["limit"] is None or "holds" in other:
            continue
        ratio = None
        if "flops" in row:
            ratio = (1 + row["again_attention"]) / (1 + other["again_attention"])
        what = f"{name}, {row['limit'] / 1e6:.1f} MB, FLOPs to those without dropout"
        report.limit(what, ratio, DROPOUT, "times")


def run_limits(report, steps):
    print(f"\n{HEADER}")
    rows = {}
    for step in steps:
        plain = next((each for each in steps if f"{each.name} dropout" == step.name), step)
        rows[step.name] = measure_limits(step, choose_limits(plain))
    report.add("steps under limits of memory", [row for each in rows.values() for row in each])
    for step in steps:
        check_limits(report, step, rows[step.name])
        plain = step.name.removesuffix(" dropout")
        if plain != step.name and plain in rows:
            check_dropout(report, step.name, rows[step.name], rows[plain])


def run_regions(report, steps):
    """Beside eager's peak with the same regions."""
    print(f"\n{HEADER}  PyTorch: peak/MB, again")
    rows = []
    report.add("models that checkpoint regions themselves", rows)
    for step in steps:
        bases = []
        for regions in ("none", "block", "half"):
            step.export(regions)
            row = compile_step(step, None) | {"regions": regions}
            bases.append(row)
            add_again(row, bases[0])
            how = "eager" if regions == "none" else f"checkpoint per {regions}"
            eager = next(each for each in step.rows if each["how"] == how)
            row |= {"eager_peak": eager["peak"], "eager_again": eager["again"]}
            rows.append(row)
            show(row)
            print(f"{'':56} {eager['peak'] / 1e6:33.1f} {eager['again']:.2%}")
        report.claim(
            f"{step.name}: holds less with its regions",
            all(row["held"] < bases[0]["held"] for row in bases[1:]),
        )
        what = f"{step.name}, held to eager's peak"
        most = max(row["held"] / row["eager_peak"] for row in bases)
        report.limit(what, most, 1, "times")


def search(step, options, folder):
    """CPU seconds of the search without a limit, and of one at a share of its peak, which may not fit."""
    free = folder / "free"
    without = plan(step, *options, output=free)
    limit = int(SHARE * int(re.search(r"(?m)^peak (\d+) B$", free.read_text())[1]))
    bound = plan(step, *options, "--memory", limit, refused=REFUSED) or {}
    return {
        "limit": limit,
        "cpu_s": bound.get("cpu_s"),
        "without_s": without["cpu_s"],
        "predicted_s": bound.get("cost_s"),
        "predicted_without_s": without["cost_s"],
        "gap": bound.get("gap"),
    }


def show_search(row):
    line = f"{row['step']:16} {row['limit'] / 1e6:8.1f} {row['without_s']:8.2f}"
    if row["cpu_s"] is None:
        print(f"{line}   does not fit", flush=True)
        return
    print(
        f"{line} {row['cpu_s']:6.2f} {row['predicted_without_s']:9.4f} {row['predicted_s']:9.4f}"
        f" {print_gap(row['gap']):>7}",
        flush=True,
    )


def run_search(report, steps):
    rows = []
    report.add("searches with a limit that binds", rows)
    print(f"\n{'':16} limit/MB  without  CPU/s   without    time/s     gap")
    for step in steps:
        rows.append({"step": step.name} | search(step.export(), MESH, step.path.parent))
        show_search(rows[-1])
        seconds, without = rows[-1]["cpu_s"], rows[-1]["without_s"]
        ratio = None if seconds is None else seconds / without
        report.limit(f"{step.name}, CPU to that without a limit", ratio, SEARCH_LIMIT, "times")
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "large.mlir"
        export(LARGE[0], path, *LARGE[1:])
        rows.append({"step": "llama 8b"} | search(path, LARGE_MESH, pathlib.Path(name)))
        show_search(rows[-1])
        report.limit("llama 8b, 8x8, with a limit", rows[-1]["cpu_s"], LARGE_LIMIT, "s CPU")


PARTS = {
    "limits": run_limits,
    "regions": run_regions,
    "search": run_search,
    "measured": recompute_measured.measure,
}


def get_points(rows, size="peak"):
    return [(row[size] / 1e6, 100 * row["again"]) for row in rows if size in row]


def draw(step, tables, folder):
    """Peaks over what is made again, with PyTorch's."""
    partitioner = [row for row in step.rows if row["how"].startswith("budget")]
    eager = [row for row in step.rows if row["how"].startswith("checkpoint")]
    series = {
        "PyTorch's partitioner": get_points(get_front(partitioner)),
        "PyTorch, checkpoints": get_points(eager),
    }
    for name, title, size in (
        ("Tandem", "steps under limits of memory", "peak"),
        ("Tandem, checkpoints", "models that checkpoint regions themselves", "held"),
    ):
        rows = tables.get(title, {"rows": []})["rows"]
        points = get_points([row for row in rows if row["step"] == step.name], size)
        if points:
            series[name] = points
    least = min(x for points in series.values() for x, _ in points)
    chart = Chart(
        f"{step.name}: what is made again, by peak memory",
        "peak, MB",
        "FLOPs made again, %",
        series,
        lines=("PyTorch's partitioner", "Tandem"),
        origin=(0.9 * least, 0.0),
    )
    folder.mkdir(parents=True, exist_ok=True)
    chart.write(folder / f"recompute-{step.path.stem}.svg")


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--steps", default="", help="names in recompute_pytorch.json, all if none")
    parser.add_argument("--part", action="append", choices=PARTS, help="all if none is given")
    parser.add_argument("--measure-pytorch", action="store_true", help="PyTorch's peaks first")
    parser.add_argument("--figures", type=pathlib.Path, help="writes a picture per step there")
    options = parser.parse_args()
    names = [name for name in options.steps.split(",") if name]
    if options.measure_pytorch:
        chosen = ["--steps", options.steps] if names else []
        subprocess.run(
            [sys.executable, MODELS.with_name("recompute_pytorch.py"), *chosen], check=True
        )
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        steps = read_steps(names, pathlib.Path(name))
        for part in options.part or PARTS:
            PARTS[part](report, steps)
    if options.figures:
        for step in steps:
            draw(step, report.tables, options.figures)
    report.finish(options)


if __name__ == "__main__":
    main()
