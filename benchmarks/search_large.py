#!/usr/bin/env python3
"""Large models from Python file to plan file: time, memory and proven gaps of whole processes, and the cost of pins.

    benchmarks/search_large.py [--runs 3] [--part models] [--part pins] [--part hard] [--part limits] [--check] [--json FILE]

* *models*: Llama with 8 billion parameters on 8x8 H100 and GPT-3 on 128x8, exported on the meta device and planned by
  `--search tandem`. `--replan` prices the plans once more.
* *pins*: searches of two-layer models, Llama and GPT-3 with and without pins. A new pin needs a new search.
* *hard*: worst cases. Steps that are hard for their size (hard_steps.py), two microbatches on one and two axes, and
  two-layer models on three axes.
* *limits*: time between a time limit and the end of the process.

Exports run once, searches --runs times; those of GPT-3 and one with a time limit run once. Prints medians. Limits apply
to CPU time, which is closer to an idle machine than wall time.
"""

import pathlib
import re
import tempfile

from harness import (
    BUILD,
    ROOT,
    Report,
    export,
    make_parser,
    measure_process,
    plan,
    print_gap,
    take_medians,
)

CLUSTERS = ROOT / "examples/clusters"
LAPTOP = ["--cluster", CLUSTERS / "laptop.yaml", "--mesh", "data=4", "--micro", "2"]
LLAMA = ["--cluster", CLUSTERS / "h100-8x8.yaml", "--mesh", "data=8,model=8"]
GPT3 = ["--cluster", CLUSTERS / "h100-128x8.yaml", "--mesh", "data=16,fsdp=8,model=8"]
# Options of the exports, and what they may take.
EXPORTS = {
    "gpt": [],
    "bert_moe": [],
    "llama": [],
    "llama 8b": ["--preset", "8b", "--set", "batch=64,seq=2048"],
    "gpt 48 layers": ["--set", "layers=48,width=2048,heads=32,seq=1024,batch=64,vocab=50304"],
    "gpt 175b": ["--preset", "175b", "--set", "batch=512,seq=2048", "--dtype", "bfloat16"],
}
EXPORT_LIMITS = {"llama 8b": {"cpu_s": 20}}
# Models, their options, those of the search alone, and what they may take.
SEARCHES = [
    ("llama 8b", LLAMA, [], {"cpu_s": 2, "memory_B": 2**30, "gap": 0.03}),
    ("llama 8b", LLAMA, ["--search-time-limit", "60"], {"gap": 0.01}),
    ("gpt 48 layers", LLAMA, [], {"cpu_s": 5}),
    ("gpt 175b", [*GPT3, "--recompute"], [], {"cpu_s": 15, "gap": 1}),
]
UNITS = {"cpu_s": "s CPU", "memory_B": "B", "gap": "of the bound"}
# Models with pins, and the axis that these are on.
PINNED = [
    ("gpt", LAPTOP, "data"),
    ("bert_moe", LAPTOP, "data"),
    ("llama", LAPTOP, "data"),
    ("llama 8b", LLAMA, "model"),
    ("gpt 175b", [*GPT3, "--recompute"], "model"),
]
PINS = {
    "no pin": [],
    "one layer's split": ["layers.0.attention.out.weight:{}=gather(1)"],
    "all layers' split": ["layers.*.attention.out.weight:{}=gather(1)"],
    "embedding whole": ["tokens.weight:{}=full"],
    "all matrices split": ["layers.*.weight:{}=gather(0)"],
}
# Presets of hard_steps.py, and what the plan of a step of up to 5,000 operators may take: s.
HARD = ["t5", "gemma3_text", "modernbert", "longt5", "reformer", "mamba"]
HARD_LIMIT = 20
HARD_MESHES = ["data=4", "data=2,model=2"]
# Small models, which are hard on three axes.
THREE_AXES = [("gpt", "data=2,fsdp=2,model=2"), ("llama", "data=2,fsdp=2,model=2")]
# Steps with limits of time, these, and how much later a process may have ended: s.
TIMED = [("t5", "data=2,model=2"), ("reformer", "data=2,model=2"), ("mamba", "data=4"), *THREE_AXES]
TIME_LIMITS = [0.1, 0.5, 2]
LATE_LIMIT = 0.5
# What a search with a pin more or less may take: times.
PIN_LIMIT = 2


def get_runs(runs, model, search=()):
    return 1 if model == "gpt 175b" or search else runs


def show(name, row):
    line = f"{name:36} {row['process_s']:9.2f} {row['cpu_s']:7.2f} {row['memory_B'] / 1e6:9.0f}"
    if "cost_s" in row:
        line += f" {row['cost_s']:10.6f} {print_gap(row['gap']):>8}"
    print(line, flush=True)


class Steps:
    """Exports of the models, each made when it is first asked for."""

    def __init__(self, folder):
        self.folder, self.made = folder, {}

    def get(self, name):
        """The file, and what the export took."""
        if name not in self.made:
            path = self.folder / f"{name}.mlir"
            if name in HARD:
                row = export(ROOT / "benchmarks/hard_steps.py", path, "--preset", name)
            else:
                row = export(ROOT / f"examples/{name.split()[0]}.py", path, *EXPORTS[name])
            del row["text"]
            self.made[name] = path, row
        return self.made[name]


def get_cost(path):
    return float(re.search(r"(?m)^cost (\S+) s$", path.read_text())[1])


def measure_search(step, options, search, runs, folder):
    """Medians, and whether the plan costs the same once more."""
    found, again = folder / "plan", folder / "again"
    search = [*options, "--search", "tandem", *search]
    rows = [plan(step, *search, output=found) for _ in range(runs)]
    measure_process([BUILD / "bin/tandem-compile", step, *options, "--replan", found, "-o", again])
    return take_medians(rows), get_cost(found) == get_cost(again)


def measure_models(report, steps, runs):
    rows = []
    report.add("large models from Python file to plan file", rows)

    def record(what, row, limits):
        rows.append({"what": what} | row)
        show(what, row)
        for key, limit in limits.items():
            report.limit(f"{what}, {key}", row[key], limit, UNITS[key])

    for name, options, search, limits in SEARCHES:
        is_new = name not in steps.made
        step, exported = steps.get(name)
        if is_new:
            record(f"export {name}", exported, EXPORT_LIMITS.get(name, {}))
        what = f"plan {name}" + (", a minute" if search else "")
        count = get_runs(runs, name, search)
        row, is_same = measure_search(step, options, search, count, steps.folder)
        record(what, row, limits)
        report.claim(f"{what}: costed again it costs the same", is_same)


def measure_pins(report, steps, runs):
    rows = []
    report.add("searches with pins against those without", rows)
    for name, options, axis in PINNED:
        step, _ = steps.get(name)
        samples = {pin: [] for pin in PINS}
        for _ in range(get_runs(runs, name)):
            for pin, texts in PINS.items():
                pins = [word for text in texts for word in ("--pin", text.format(axis))]
                samples[pin].append(plan(step, *options, *pins, "--search", "tandem"))
        found = {pin: take_medians(taken) for pin, taken in samples.items()}
        for pin, row in found.items():
            row["relative"] = row["cpu_s"] / found["no pin"]["cpu_s"]
            rows.append({"what": name, "pin": pin} | row)
            show(f"{name}, {pin}", row)
        shares = [row["relative"] for row in found.values()]
        report.limit(f"{name}, a pin more", max(shares), PIN_LIMIT, "times the CPU")
        report.limit(f"{name}, a pin less", 1 / min(shares), PIN_LIMIT, "times the CPU")


def get_time(row):
    """Seconds until a process ended; on a busy machine those of CPU time, which are less."""
    return min(row["process_s"], row["cpu_s"])


def measure_hard(report, steps, runs):
    rows = []
    report.add("steps that are hard for their size", rows)
    cases = [(name, mesh) for name in HARD for mesh in HARD_MESHES] + THREE_AXES
    for name, mesh in cases:
        step, _ = steps.get(name)
        options = ["--mesh", mesh, "--micro", "2", "--search", "tandem"]
        row = take_medians([plan(step, *options) for _ in range(runs)])
        rows.append({"what": name, "mesh": mesh} | row)
        show(f"{name}, {mesh}", row)
        report.limit(f"{name}, {mesh}", get_time(row), HARD_LIMIT, "s")


def measure_limits(report, steps, runs):
    rows = []
    report.add("searches with a limit of time", rows)
    for name, mesh in TIMED:
        step, _ = steps.get(name)
        for limit in TIME_LIMITS:
            options = ["--mesh", mesh, "--micro", "2", "--search-time-limit", limit]
            row = take_medians([plan(step, *options, "--search", "tandem") for _ in range(runs)])
            rows.append({"what": name, "mesh": mesh, "limit_s": limit} | row)
            show(f"{name}, {mesh}, {limit} s", row)
            late = get_time(row) - limit
            report.limit(f"{name}, {mesh}, after a limit of {limit} s", late, LATE_LIMIT, "s")


PARTS = {
    "models": measure_models,
    "pins": measure_pins,
    "hard": measure_hard,
    "limits": measure_limits,
}


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--part", action="append", choices=PARTS, help="all if none is given")
    args = parser.parse_args()
    report = Report()
    print(f"{'':36} process/s   CPU/s memory/MB     cost/s      gap")
    with tempfile.TemporaryDirectory() as name:
        steps = Steps(pathlib.Path(name))
        for part in args.part or PARTS:
            PARTS[part](report, steps, args.runs)
    report.finish(args)


if __name__ == "__main__":
    main()
