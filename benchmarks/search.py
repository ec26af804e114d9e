#!/usr/bin/env python3
"""Search time against layers and devices: the shape of figure 14 of HiDup (Zhang et al., SoCC 2022).

    benchmarks/search.py [FOLDER] [--model bert-sgmoe] [--search hidup] [--runs 5] [--json build/bench/search.json]

FOLDER holds the paper's search problems as JSON, MODEL-Llayers-Nranks.json; without one, the 2-layer problems of the
tests are taken. Each run is a process of tandem-plan, in turns over the problems so that all see the same machine;
shown are medians: of the search as the tool states it, and of the whole process (wall and CPU time). The machine's
other load is part of wall time; CPU time is closer to what an idle machine shows.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import hidup_problem  # noqa: E402

TOOL = pathlib.Path(os.environ.get("TANDEM_BUILD", ROOT / "build")) / "bin/tandem-plan"
NAME = re.compile(r"(.+)-(\d+)layers-(\d+)ranks")
# Time of the published searcher (Rust) on one core of a cloud machine, bert-sgmoe on 8 ranks, by layers: s.
PUBLISHED = {2: 0.16, 4: 0.30, 8: 0.59, 16: 1.17}
RANKS_OF_LAYERS = 8  # the curve over layers, and the one over ranks, go through this problem
LAYERS_OF_RANKS = 8


def fail(message):
    sys.exit(f"search.py: error: {message}")


def choose(folder, model):
    """The problems of both curves: (layers, ranks) -> file."""
    found = {}
    for path in sorted(folder.iterdir()):
        match = NAME.fullmatch(path.stem)
        if match and match[1] == model and path.suffix in (".json", ".txt"):
            found[int(match[2]), int(match[3])] = path
    on_curve = {
        k: v for k, v in found.items() if k[1] == RANKS_OF_LAYERS or k[0] == LAYERS_OF_RANKS
    }
    if not on_curve:
        fail(f"{folder}: found no problem {model}-Llayers-{RANKS_OF_LAYERS}ranks.json")
    return on_curve


def write_text(path, gbit, accounting, target):
    if path.suffix == ".json":
        target.write_text(
            hidup_problem.problem_text(json.loads(path.read_text()), gbit, accounting)
        )
    else:
        target.write_text(
            re.sub(r"(?m)^accounting .*", f"accounting {accounting}", path.read_text())
        )


def measure_process(command, environment=None):
    """Wall and CPU seconds, the largest resident memory, and what it printed; ends this process if it fails."""
    with tempfile.TemporaryFile("w+") as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            list(map(str, command)), stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode != 0:
        fail(text.strip() or f"{command[0]}: exit status {process.returncode}")
    return {
        "process_s": wall,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "memory_B": usage.ru_maxrss * 1024,
        "text": text,
    }


def run(tool, problem, search):
    """Seconds of one process: search, wall, CPU; and the cost."""
    row = measure_process([tool, problem, "--search", search, "-o", os.devnull])
    seconds = float(re.search(r"^search ([\d.e-]+) s", row["text"], re.M)[1])
    cost = float(re.search(r"^cost ([\d.e-]+) s", row["text"], re.M)[1])
    return seconds, row["process_s"], row["cpu_s"], cost


def measure(tool, problems, search, runs):
    times = {key: [] for key in problems}
    for _ in range(runs):
        for key, path in problems.items():
            times[key].append(run(tool, path, search))
    rows = []
    for (layers, ranks), samples in times.items():
        search_s, wall, cpu, cost = (
            statistics.median(column) for column in zip(*samples, strict=True)
        )
        rows.append(
            {
                "layers": layers,
                "ranks": ranks,
                "search_s": search_s,
                "process_s": wall,
                "cpu_s": cpu,
                "cost_s": cost,
            }
        )
    return sorted(rows, key=lambda row: (row["layers"], row["ranks"]))


def print_table(title, rows, model):
    if not rows:
        return
    print(f"\n{title}\nlayers  ranks  search/ms  process/ms  CPU/ms  published/ms      cost/s")
    for row in rows:
        published = (
            PUBLISHED.get(row["layers"]) if (model, row["ranks"]) == ("bert-sgmoe", 8) else None
        )
        print(
            f"{row['layers']:6}  {row['ranks']:5}  {1e3 * row['search_s']:9.1f}  {1e3 * row['process_s']:10.1f}"
            f"  {1e3 * row['cpu_s']:6.1f}  {1e3 * published if published else '-':>12}  {row['cost_s']:10.6f}"
        )


def write_json(path, key, value):
    """Other benchmarks of the search keep their own keys in the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = json.loads(path.read_text()) if path.exists() else {}
    data[key] = value
    path.write_text(json.dumps(data, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=ROOT / "test/Search/Inputs")
    parser.add_argument("--model", default="bert-sgmoe")
    parser.add_argument("--search", default="hidup")
    parser.add_argument("--accounting", choices=hidup_problem.ACCOUNTINGS, default="hidup-serial")
    parser.add_argument("--gbit", type=float, default=10)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--tool", default=str(TOOL))
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "build/bench/search.json")
    args = parser.parse_args()
    if not args.folder.is_dir():
        fail(f"{args.folder}: expected a folder of search problems")
    if not shutil.which(args.tool):
        fail(f"{args.tool}: found no such tool, expected tandem-plan")
    with tempfile.TemporaryDirectory() as folder:
        problems = {}
        for (layers, ranks), path in choose(args.folder, args.model).items():
            problems[layers, ranks] = pathlib.Path(folder) / f"{layers}-{ranks}.txt"
            write_text(path, args.gbit, args.accounting, problems[layers, ranks])
        rows = measure(args.tool, problems, args.search, args.runs)
    print(
        f"{args.model}, {args.gbit:g} Gbit/s, {args.accounting}, --search {args.search}, median of {args.runs}"
    )
    print_table(
        f"against layers, on {RANKS_OF_LAYERS} ranks",
        [r for r in rows if r["ranks"] == RANKS_OF_LAYERS],
        args.model,
    )
    print_table(
        f"against ranks, with {LAYERS_OF_RANKS} layers",
        [r for r in rows if r["layers"] == LAYERS_OF_RANKS],
        args.model,
    )
    key = f"time of {args.search}, {args.model}, {args.accounting}, {args.gbit:g} Gbit/s"
    write_json(args.json, key, {"runs": args.runs, "rows": rows})


if __name__ == "__main__":
    main()
