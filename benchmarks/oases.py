#!/usr/bin/env python3
"""Oases beside its paper (Li et al., 2023): the planner, and the rows of its ablation.

    benchmarks/oases.py [--only planner] [--check] [--json FILE]

planner    the degrees that the paper found (table 6), under the accounting `oases`
ablation   speed-ups over Megatron (table 3), priced by the accounting `tandem`; halves of a batch compute as much slower
           as those of a gpt on one core here, which is measured first; beside it, as much slower as the paper's were:
           a step computes for efficiency / throughput (tables 2, 3), and Oases halves its batch
"""

import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
from harness import BUILD, ROOT

SECONDS = 0.2
# Width: the degree of all layers without the planner, and the degrees that the paper's planner found.
FOUND = {2048: ("4*24", "2*8,4*16"), 4096: ("4*16", "2*10,4*6"), 8192: ("8*8", "4*2,8*6")}


def plan(tool, folder, width, cluster, degrees=None):
    """(seconds of a step, seconds of the search, whether it is proven, degrees of the layers)."""
    problem, found = folder / "problem.txt", folder / "plan.txt"
    script = [sys.executable, ROOT / "scripts" / "oases_problem.py", "-o", problem]
    chosen = ["--degrees", degrees] if degrees else []
    subprocess.run([*script, "--width", str(width), "--cluster", cluster, *chosen], check=True)
    command = [tool, problem, "--search", "oases", "-o", found]
    printed = subprocess.run(command, check=True, text=True, capture_output=True).stdout
    cost = float(re.search(r"cost (\S+) s", printed)[1])
    search = float(re.search(r"search (\S+) s", printed)[1])
    # The second signature of a block splits its weights over `a`, too.
    small, large = (int(each.split("*")[0]) for each in FOUND[width][1].split(","))
    lines = found.read_text().splitlines()
    blocks = [line for line in lines if re.match(r" *operator \d+ (attention|ffn)\d", line)]
    degrees = [
        large if "reduce" in re.search(r"a='([^']*)'", line)[1] else small for line in blocks
    ]
    return cost, search, "optimal" in printed, degrees


def show(degrees):
    """Of pairs of blocks: `2*8,4*16`; a layer whose blocks differ is `2/4`."""
    layers = [
        "/".join(map(str, sorted(set(degrees[i : i + 2])))) for i in range(0, len(degrees), 2)
    ]
    return ",".join(f"{each}*{len(list(group))}" for each, group in itertools.groupby(layers))


# Speed-ups of the paper: cross-pass schedule, with fine-grained recomputation, with the planner.
PAPER = {
    ("nvlink", 2048): (1.31, 1.40, 1.62),
    ("nvlink", 4096): (1.25, 1.31, 1.39),
    ("nvlink", 8192): (1.39, 1.60, 1.63),
    ("pcie", 2048): (1.42, 1.85, 1.95),
    ("pcie", 4096): (1.60, 1.69, 1.73),
    ("pcie", 8192): (1.46, 1.68, 1.71),
}
# Efficiency (table 2) and thousand tokens per second (table 3) of Megatron and of Oases: what a step of theirs computes.
COMPUTED = {
    ("nvlink", 2048): ((0.472, 31.4), (0.885, 50.9)),
    ("nvlink", 4096): ((0.575, 18.1), (0.932, 25.2)),
    ("nvlink", 8192): ((0.374, 5.6), (0.704, 9.1)),
    ("pcie", 2048): ((0.364, 23.0), (0.789, 44.7)),
    ("pcie", 4096): ((0.474, 14.0), (0.900, 24.3)),
    ("pcie", 8192): ((0.325, 5.3), (0.700, 9.0)),
}
# How far the first two may be from the paper on the cluster without NVLink, whose columns have one bottleneck.
CLOSE = {"pcie": (0.10, 0.15)}
# A step on one core whose halves are one sequence each, as those of 8192 wide are; it is measured in turns.
GPT = "layers=2,width=256,heads=4,seq=256,batch=2,dropout=0"
STEPS, TURNS = 5, 5


def measure_splitting(folder):
    """Seconds of the computation of a gpt in two strands, of that in one; of each the quietest step."""
    step, data = folder / "gpt.mlir", folder / "gpt.safetensors"
    tandem = [sys.executable, "-m", "tandem", "export", ROOT / "examples/gpt.py", "--set", GPT]
    environment = dict(os.environ, PYTHONPATH=str(BUILD / "python"))
    harness.measure_process([*tandem, "-o", step], environment)
    seconds = {1: [], 2: []}
    for micro in seconds:
        command = [BUILD / "bin/tandem-compile", step, "--mesh", "data=1", "--micro", micro]
        harness.measure_process([*command, "-o", folder / f"{micro}.tdm"])
    for _ in range(TURNS):
        for micro, found in seconds.items():
            stats = folder / "stats.json"
            command = [BUILD / "bin/tandem-run", folder / f"{micro}.tdm", "--data", data]
            harness.measure_process([*command, "--steps", STEPS, "--stats", stats])
            steps = json.loads(stats.read_text())["steps"][1:]
            found += [each["seconds"] for each in steps]
    one, two = map(min, seconds.values())
    return two / one


def price(tool, folder, width, cluster, way, splitting):
    """Seconds of a step."""
    problem = folder / "problem.txt"
    script = [sys.executable, ROOT / "scripts/oases_problem.py", "-o", problem, "--way", way]
    more = ["--width", width, "--cluster", cluster, "--splitting", splitting]
    harness.measure_process([*script, *more])
    command = [tool, problem, "--search", "tandem", "-o", folder / "plan.txt"]
    return float(re.search(r"cost (\S+) s", harness.measure_process(command)["text"])[1])


def compare_planner(tool, folder, report):
    """Costs of the paper's degrees over those of one degree, by cluster and width."""
    print("cluster  width  one degree   paper's degrees         found                   search")
    rows, gains = [], {}
    for cluster, width in itertools.product(("nvlink", "pcie"), FOUND):
        setting = (tool, folder, width, cluster)
        same, papers = (plan(*setting, degrees)[0] for degrees in FOUND[width])
        cost, search, is_proven, degrees = plan(*setting)
        print(
            f"{cluster:8} {width:5}  {same * 1e3:7.1f} ms  {papers * 1e3:7.1f} ms {FOUND[width][1]:12}"
            f" {cost * 1e3:7.1f} ms {show(degrees):12} {search * 1e3:6.1f} ms"
        )
        rows.append({"cluster": cluster, "width": width, "one": same, "paper's": papers})
        rows[-1] |= {"found": cost, "search": search, "proven": is_proven}
        gains[cluster, width] = same / papers
    report.add("planner", rows)
    for row in rows:
        what = f"{row['cluster']} {row['width']}"
        report.claim(f"{what}: the plan is proven", row["proven"])
        report.claim(f"{what}: found within {SECONDS} s", row["search"] <= SECONDS)
        is_cheap = row["found"] <= row["paper's"] * (1 + 1e-9)
        report.claim(f"{what}: no slower than the paper's degrees", is_cheap)
    return gains


def speed_up(tool, folder, width, cluster, splitting):
    """(cross-pass schedule, with fine-grained recomputation) over Megatron."""
    ways = ("megatron", "cross-pass", "fine-grained")
    one, *others = (price(tool, folder, width, cluster, way, splitting) for way in ways)
    return tuple(one / other for other in others)


def compare_ablation(tool, folder, report, gains):
    splitting = measure_splitting(folder)
    print(f"halves of a batch compute {splitting:.3f} times as long as the whole")
    print("cluster  width  cross-pass   fine-grained planner      (paper's)  with its halves")
    rows = []
    for (cluster, width), papers in PAPER.items():
        setting = (tool, folder, width, cluster)
        found = speed_up(*setting, splitting)
        found += (found[-1] * gains[cluster, width],)
        megatron, oases = (efficiency / speed for efficiency, speed in COMPUTED[cluster, width])
        explained = speed_up(*setting, oases / megatron)
        text = "  ".join(f"{a:.2f} ({b:.2f})" for a, b in zip(found, papers, strict=True))
        more = f"{oases / megatron:.2f}: " + ", ".join(f"{each:.2f}" for each in explained)
        print(f"{cluster:8} {width:5}  {text}             {more}", flush=True)
        rows.append({"cluster": cluster, "width": width, "speed-ups": found, "paper": papers})
        rows[-1] |= {"paper's splitting": oases / megatron, "with it": explained}
    report.add("ablation", [{"splitting": splitting}, *rows])
    for row in rows:
        what, found = f"{row['cluster']} {row['width']}", row["speed-ups"]
        is_ordered = all(a < b for a, b in itertools.pairwise((1, *found)))
        report.claim(f"{what}: rows are in the paper's order", is_ordered)
        names, close = ("cross-pass", "fine-grained"), CLOSE.get(row["cluster"], ())
        for name, own, paper, most in zip(names, found, row["paper"], close, strict=False):
            report.claim(f"{what}: {name} within {most:.0%}", abs(own / paper - 1) <= most)


def main():
    parser = harness.make_parser(__doc__)
    harness.add_tool(parser)
    parser.add_argument("--only", choices=("planner",), help="this part alone")
    options, report = parser.parse_args(), harness.Report()
    with tempfile.TemporaryDirectory() as name:
        gains = compare_planner(options.tool, Path(name), report)
        if not options.only:
            compare_ablation(options.tool, Path(name), report, gains)
    report.finish(options)


if __name__ == "__main__":
    main()
