#!/usr/bin/env python3
"""Search time against layers and devices: figure 14 of HiDup (Zhang et al., SoCC 2022), on its own search problems.

    benchmarks/search.py [FOLDER] [--model bert-sgmoe] [--search hidup] [--runs 5] [--check] [--json FILE]

FOLDER holds the paper's search problems, MODEL-Llayers-Nranks.json; the default are those of the tests. If it lacks a
number of layers, a smaller problem is repeated. Each run is a process of tandem-plan, in turns over the problems.
Prints medians: of the search, as the tool reports it, and of the whole process (wall and CPU time). Limits apply to CPU
time, which is closer to an idle machine.
"""

import json
import os
import pathlib
import re
import sys
import tempfile

from harness import (
    ROOT,
    Report,
    add_tool,
    fail,
    get_indices,
    make_parser,
    measure_process,
    take_medians,
)

sys.path.insert(0, str(ROOT / "scripts"))
import hidup_problem  # noqa: E402

NAME = re.compile(r"(.+)-(\d+)layers-(\d+)ranks")
# Time of the published searcher (Rust) on one core of a cloud machine, bert-sgmoe on 8 ranks, by layers: s.
PUBLISHED = {2: 0.16, 4: 0.30, 8: 0.59, 16: 1.17}
# What it finds under hidup-serial at 10 Gbit/s, by layers and ranks: s.
PUBLISHED_COSTS = {(2, 2): 0.897974, (2, 8): 1.101680, (4, 2): 1.346265, (4, 8): 1.646403}
COST_DIGITS = 5.1e-7
# Of the published time; of a whole process, with LAYERS_OF_RANKS layers: s.
SEARCH_SHARE, PROCESS_LIMIT = 0.1, 0.1
# The curve over layers, and the one over ranks, go through this problem.
RANKS_OF_LAYERS, LAYERS_OF_RANKS = 8, 8
# How often as long a search may take per layer than with the fewest, or on other devices: noise.
SHAPE = 3


def find_problems(folder, model):
    """(layers, ranks) -> file."""
    found = {}
    for path in sorted(folder.iterdir()):
        match = NAME.fullmatch(path.stem)
        if match and match[1] == model and path.suffix in (".json", ".txt"):
            found[int(match[2]), int(match[3])] = path
    if all(ranks != RANKS_OF_LAYERS for _, ranks in found):
        fail(f"{folder}: found no problem {model}-Llayers-{RANKS_OF_LAYERS}ranks.json")
    return found


def read_problem(path, gbit, accounting):
    text = path.read_text()
    if path.suffix == ".json":
        return hidup_problem.problem_text(json.loads(text), gbit, accounting)
    return re.sub(r"(?m)^accounting .*", f"accounting {accounting}", text)


# ---- Problems of more layers


def find_layers(operators):
    """Where all layers begin and end: but for inputs, one tensor enters there, and one leaves."""
    last_use = {}
    for i, line in enumerate(operators):
        for tensor in get_indices(line, "operands"):
            last_use[tensor] = i
    named = [i for i, line in enumerate(operators) if line.split()[4].startswith("layers_")]
    live, gates = set(), []
    for i, line in enumerate(operators):
        if line.split()[3] != "input":
            live |= set(get_indices(line, "results"))
        live = {tensor for tensor in live if last_use.get(tensor, i) > i}
        if len(live) == 1 and (i < named[0] or i > named[-1]):
            gates.append((i + 1, *live))
    begin = max(gate for gate in gates if gate[0] <= named[0])
    return begin, min(gate for gate in gates if gate[0] > named[-1])


class Copier:
    """Writes operators one behind the other, and their tensors, numbered anew."""

    def __init__(self, tensors):
        self.old, self.new = tensors, {}
        self.operators, self.tensors = [], []

    def add(self, line):
        words = line.split()
        for tensor in get_indices(line, "results"):
            self.new[tensor] = str(len(self.tensors))
            words_of_tensor = ["tensor", self.new[tensor], *self.old[tensor].split()[2:]]
            self.tensors.append(" ".join(words_of_tensor))
        for key in ("operands", "results"):
            numbers = [self.new[tensor] for tensor in get_indices(line, key)]
            words[words.index(key) + 1] = ",".join(numbers) or "-"
        self.operators.append(" ".join(["operator", str(len(self.operators)), *words[2:]]))


def deepen(text, times):
    """The problem with its layers so many times, one behind the other."""
    lines = text.splitlines()
    operators = [line for line in lines if line.startswith("operator ")]
    tensors = [line for line in lines if line.startswith("tensor ")]
    (begin, entering), (end, leaving) = find_layers(operators)
    copier = Copier(tensors)
    for line in operators[:begin]:
        copier.add(line)
    for i in range(times):
        if i > 0:
            copier.new[entering] = copier.new[leaving]
        for line in operators[begin:end]:
            copier.add(line)
    for line in operators[end:]:
        copier.add(line)
    others = [line for line in lines if line not in tensors and line not in operators]
    head = lines.index(tensors[0])
    written = [*others[:head], *copier.tensors, *others[head:], *copier.operators]
    return "\n".join(written) + "\n"


def make_curves(found, gbit, accounting):
    """The problems of both curves: (layers, ranks) -> text."""
    shallowest = {}
    for layers, ranks in sorted(found, reverse=True):
        shallowest[ranks] = layers
    wanted = {(layers, RANKS_OF_LAYERS) for layers in PUBLISHED}
    wanted |= {(LAYERS_OF_RANKS, ranks) for ranks in shallowest}
    curves = {}
    for layers, ranks in sorted(wanted):
        known = (layers, ranks) if (layers, ranks) in found else (shallowest[ranks], ranks)
        text = read_problem(found[known], gbit, accounting)
        if layers % known[0] == 0:
            curves[layers, ranks] = deepen(text, layers // known[0])
    return curves


# ---- Measurements


def run(tool, problem, search):
    """One process: seconds of the search, wall, CPU; and the cost."""
    row = measure_process([tool, problem, "--search", search, "-o", os.devnull])
    text = row.pop("text")
    return {
        "search_s": float(re.search(r"^search ([\d.e-]+) s", text, re.M)[1]),
        **row,
        "cost_s": float(re.search(r"^cost ([\d.e-]+) s", text, re.M)[1]),
    }


def measure(tool, problems, search, runs):
    samples = {key: [] for key in problems}
    for _ in range(runs):
        for key, path in problems.items():
            samples[key].append(run(tool, path, search))
    return [
        {"layers": layers, "ranks": ranks} | take_medians(rows)
        for (layers, ranks), rows in sorted(samples.items())
    ]


def print_table(title, rows, published):
    print(f"\n{title}\nlayers  ranks  search/ms  process/ms  CPU/ms  published/ms      cost/s")
    for row in rows:
        known = published.get(row["layers"]) if row["ranks"] == RANKS_OF_LAYERS else None
        print(
            f"{row['layers']:6}  {row['ranks']:5}  {1e3 * row['search_s']:9.1f}  {1e3 * row['process_s']:10.1f}"
            f"  {1e3 * row['cpu_s']:6.1f}  {1e3 * known if known else '-':>12}  {row['cost_s']:10.6f}"
        )


def check_layers(report, rows, published):
    for row in rows:
        if known := published.get(row["layers"]):
            what = f"{row['layers']} layers against the published {known} s"
            report.limit(what, row["cpu_s"] / known, SEARCH_SHARE, "times")
        if row["layers"] == LAYERS_OF_RANKS:
            report.limit(f"process of {row['layers']} layers", row["cpu_s"], PROCESS_LIMIT, "s CPU")
    per_layer = [row["cpu_s"] / row["layers"] for row in rows]
    report.limit("time per layer", max(per_layer) / per_layer[0], SHAPE, "times the first one's")


def check_ranks(report, rows, _):
    times = [row["cpu_s"] for row in rows]
    report.limit("longest time", max(times) / min(times), SHAPE, "times the shortest")


def check_costs(report, rows):
    for row in rows:
        if known := PUBLISHED_COSTS.get((row["layers"], row["ranks"])):
            text = f"{row['layers']} layers on {row['ranks']} ranks cost the published {known} s"
            report.claim(text, abs(row["cost_s"] - known) < COST_DIGITS)


# Against what, where the curves meet, and what has to hold.
CURVES = [
    ("layers", "ranks", RANKS_OF_LAYERS, check_layers),
    ("ranks", "layers", LAYERS_OF_RANKS, check_ranks),
]


def parse_arguments():
    parser = make_parser(__doc__)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=ROOT / "test/Search/Inputs")
    parser.add_argument("--model", default="bert-sgmoe")
    parser.add_argument("--search", default="hidup")
    parser.add_argument("--accounting", choices=hidup_problem.ACCOUNTINGS, default="hidup-serial")
    parser.add_argument("--gbit", type=float, default=10, help="of problems that are JSON")
    parser.add_argument("--runs", type=int, default=5)
    add_tool(parser)
    args = parser.parse_args()
    if not args.folder.is_dir():
        fail(f"{args.folder}: expected a folder of search problems")
    return args


def main():
    args = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        problems = {}
        curves = make_curves(find_problems(args.folder, args.model), args.gbit, args.accounting)
        for (layers, ranks), text in curves.items():
            problems[layers, ranks] = pathlib.Path(folder) / f"{layers}-{ranks}.txt"
            problems[layers, ranks].write_text(text)
        rows = measure(args.tool, problems, args.search, args.runs)
    what = f"{args.model}, {args.gbit:g} Gbit/s, {args.accounting}, --search {args.search}"
    published = PUBLISHED if (args.model, args.search) == ("bert-sgmoe", "hidup") else {}
    report = Report()
    for curve, fixed, value, check in CURVES:
        points = [row for row in rows if row[fixed] == value]
        title = f"search time against {curve}, {value} {fixed} (figure 14): {what}, median of {args.runs}"
        print_table(title, points, published)
        report.add(title, points)
        check(report, points, published)
        if (args.gbit, args.accounting) == (10, "hidup-serial"):
            check_costs(report, points)
    report.finish(args)


if __name__ == "__main__":
    main()
