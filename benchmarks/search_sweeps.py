#!/usr/bin/env python3
"""Findings of the HiDup paper (Zhang et al., SoCC 2022) about plans, on its own search problems.

    benchmarks/search_sweeps.py [PROBLEM ...] [--sweep NAME]... [--check] [--json FILE]

    figure 11   replicated parameters against bandwidth
    figure 12   splits of mixture-of-experts layers against bandwidth
    table 5     cost of a plan found with wrong prices

PROBLEM is the text of a search problem, or JSON for scripts/hidup_problem.py. Each sweep prints where the plan changes.
--check exits with 1 if a finding does not hold. benchmarks/search.py has figure 14. The paper uses BERT-SGMoE: figure
11 and table 5 on eight devices, figure 12 on two machines.
"""

import json
import pathlib
import random
import re
import statistics
import sys
import tempfile

from harness import ROOT, Report, add_tool, fail, get_indices, make_parser, measure_process

sys.path.insert(0, str(ROOT / "scripts"))
import hidup_problem  # noqa: E402

DEFAULT = ROOT / "test/Search/Inputs/bert-sgmoe-2layers-2ranks.txt"
# Gbit/s: what links between machines have. docs/rationale/hidup.md says what happens outside.
BANDWIDTHS = [4, 5, 6, 8, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200]
# Table 5: noise of the times, and how much longer the plan may take.
RANDOM_NOISE = {0.2: 1.002, 0.5: 1.129}
COMMUNICATION_NOISE = {0.2: 1.0, 0.5: 1.0, -0.2: 1.0, -0.5: 1.172}
TABLE_DIGITS = 0.0005  # the table shows tenths of a percent


class Problem:
    """The text of a search problem on one space axis, to be written with other prices."""

    def __init__(self, path):
        self.name = path.name.split(".")[0]
        text = path.read_text()
        if path.suffix == ".json":
            text = hidup_problem.problem_text(json.loads(text), 10, "hidup-serial")
        self.head, self.sets, self.operators, self.shapes = [], {}, [], []
        for line in text.splitlines():
            words = line.split()
            if line.startswith("axis"):
                self.axis, self.ranks = words[1], int(words[3])
                self.head.append("axis")
            elif line.startswith("signatures"):
                signatures = self.sets[words[1]] = []
            elif line.startswith("  "):
                signatures.append(line)
            elif line.startswith("operator"):
                self.operators.append(line)
            elif words and not line.startswith("#"):
                self.head.append(line)
            if line.startswith("tensor "):
                self.shapes.append([int(n) for n in words[3].split("x") if n != "scalar"])

    def get_text(self, gbit, accounting, computation=None, communication=1.0, split=()):
        """Every operator has a set of its own, so that noise does not change what a plan is bound to.

        Parameters of the names in `split` may not be replicated.
        """
        rates = hidup_problem.rates(self.ranks, gbit)
        prices = " ".join(
            f"{kind} {hidup_problem.LATENCY * communication!r} s {communication / rate!r} s/B"
            for kind, rate in rates.items()
        )
        priced = {
            "axis": f"axis {self.axis} space {self.ranks} queue 0 {prices}",
            "accounting": f"accounting {accounting}",
        }
        lines = [priced.get(line.split()[0], line) for line in self.head]
        operators = []
        for i, operator in enumerate(self.operators):
            words = operator.split()
            at = words.index("set") + 1
            factor = computation[i] if computation else 1.0
            lines += [f"signatures {i}"]
            lines += [
                scale(signature, factor)
                for signature in self.sets[words[at]]
                if words[4] not in split or "replicate" not in signature
            ]
            words[at] = str(i)
            operators.append(" ".join(words))
        return "\n".join(lines + operators) + "\n"


def scale(signature, factor):
    found = re.fullmatch(r"(.*' )(\S+)( s \S+ B)", signature)
    return f"{found[1]}{float(found[2]) * factor!r}{found[3]}"


class Plan:
    """What tandem-plan answers."""

    def __init__(self, problem, output):
        self.text = output[: output.index("stages ")]
        self.cost = float(re.search(r"^cost (\S+) s$", self.text, re.M)[1])
        self.seconds = float(re.search(r"^search (\S+) s", output, re.M)[1])
        self.signatures = re.findall(r"^  operator \d+ (\S+) \S+='([^']*)'", output, re.M)
        self.changes = [
            (int(tensor), get_form(before), get_form(after))
            for tensor, after, before in re.findall(
                r"^  change (\d+) \S+ \S+ (\S+) from (\S+)", output, re.M
            )
        ]
        kinds = [operator.split()[3] for operator in problem.operators]
        self.parameters = [
            s for s, kind in zip(self.signatures, kinds, strict=True) if kind == "resident"
        ]
        self.replicated = [name for name, forms in self.parameters if "gather" not in forms]

    def get_decisions(self):
        """All but costs."""
        return re.sub(r"^(cost|bound|peak) .*$", "", self.text, flags=re.M)


def get_form(text):
    """`gather(0)` of `ranks=gather(0)`."""
    return text.rpartition("=")[2]


class Planner:
    def __init__(self, tool, algorithm):
        self.tool, self.algorithm = tool, algorithm
        self.folder = tempfile.TemporaryDirectory()
        self.problem = pathlib.Path(self.folder.name) / "problem"
        self.plan = pathlib.Path(self.folder.name) / "plan"

    def run(self, text, *options):
        self.problem.write_text(text)
        return measure_process([self.tool, self.problem, *options])["text"]

    def search(self, problem, *prices, **noise):
        output = self.run(problem.get_text(*prices, **noise), "--search", self.algorithm)
        return Plan(problem, output)

    def cost(self, problem, plan, *prices):
        return self.get_cost(problem.get_text(*prices), plan)

    def get_cost(self, text, plan):
        """Of the plan's decisions, at other prices."""
        self.plan.write_text(plan.text)
        output = self.run(text, "--replan", self.plan)
        return float(re.search(r"^cost (\S+) s$", output, re.M)[1])


# ---- Figure 11


def sweep_replication(planner, problem, accounting, bandwidths):
    print(f"\n{problem.name}, {accounting}: replicated parameters (figure 11)")
    rows, before = [], None
    for gbit in bandwidths:
        plan = planner.search(problem, gbit, accounting)
        share = len(plan.replicated) / len(plan.parameters)
        note = ""
        if before and before.get_decisions() != plan.get_decisions():
            old, new = set(before.replicated), set(plan.replicated)
            forms = sum(a != b for a, b in zip(before.signatures, plan.signatures, strict=True))
            note = f"plan changes: {forms} operators' forms"
            if old - new:
                note += ", no longer replicated: " + " ".join(sorted(old - new))
            if new - old:
                note += ", now replicated: " + " ".join(sorted(new - old))
        row = {"gbit": gbit, "share": share, "cost": plan.cost, "change": note}
        if rows and share > rows[-1]["share"]:
            split = set(plan.replicated) - set(before.replicated)
            row["rise"] = (
                planner.search(problem, gbit, accounting, split=split).cost / plan.cost - 1
            )
            note += f"; splitting these would cost {row['rise']:.4%}"
        rows.append(row)
        count = f"{len(plan.replicated)} of {len(plan.parameters)}"
        print(f"  {gbit:6g} Gbit/s {plan.cost:10.6f} s  {count} = {share:6.1%}  {note}")
        before = plan
    return rows


def check_replication(rows):
    """Never rises, and differs between the ends."""
    shares = [row["share"] for row in rows]
    rises = [row["rise"] for row in rows if "rise" in row]
    if rises:
        print(f"  rises: {len(rises)}; without them at most {max(rises):.4%} dearer")
    return not rises and shares[0] > shares[-1]


# ---- Figure 12


def get_volume(problem, plan, tensors):
    """Bytes that a rank sends, forward and backward, to change the forms of these tensors."""
    total, n = 0.0, problem.ranks
    for tensor, before, after in plan.changes:
        if tensor not in tensors or before == "full":
            continue
        size = 4.0
        for extent in problem.shapes[tensor]:
            size *= extent
        if before == "replicate":
            total += 2 * size * (n - 1) / n  # an all-reduce, backward only
        elif before.startswith("gather") and after.startswith("gather"):
            total += 2 * size * (n - 1) / n**2
        else:
            total += 2 * size * (n - 1) / n * (2 if (before, after) == ("reduce", "full") else 1)
    return total


def get_moe(problem, plan):
    """The first mixture-of-experts layer: its strategy and the bytes that it sends.

    Its operators are a gate, the einsums that dispatch, compute twice, and combine. GShard's strategy computes all of
    them where the tokens are, but the experts where they are: two all-to-alls of the dispatched tokens.
    """
    names = [name for name, _ in plan.signatures]
    first = next(i for i, name in enumerate(names) if "gate" in name)
    einsums = [i for i in range(first, len(names)) if names[i].startswith("einsum")][:4]
    gating = next(i for i in range(first, len(names)) if "gating" in names[i])
    tensors = set()
    for i in range(gating, einsums[-1] + 1):
        tensors |= set(get_indices(problem.operators[i], "operands"))
        tensors |= set(get_indices(problem.operators[i], "results"))
    dispatch, _, _, combine = (plan.signatures[i][1] for i in einsums)
    parts = []
    batch = all(part == "gather(0)" for part in re.split(", | -> ", dispatch))
    if batch and combine.endswith("-> gather(0)"):
        parts.append("GShard: experts split, two all-to-alls")
    elif batch:
        parts.append("dispatch per token, combine per expert: one all-to-all")
    else:
        parts.append("input whole on all ranks")
    if "gather" not in plan.signatures[gating][1]:
        parts.append("gating on every rank")
    return ", ".join(parts), get_volume(problem, plan, tensors)


def sweep_experts(planner, problem, accounting, bandwidths):
    print(f"\n{problem.name}, {accounting}: mixture-of-experts layers (figure 12)")
    rows = []
    for gbit in [1, 2, 3] + bandwidths:
        strategy, volume = get_moe(problem, planner.search(problem, gbit, accounting))
        changes = bool(rows) and rows[-1]["strategy"] != strategy
        rows.append({"gbit": gbit, "strategy": strategy, "bytes": volume, "change": changes})
        print(f"  {gbit:6g} Gbit/s {volume / 1e6:8.2f} MB  {'*' if changes else ' '} {strategy}")
    return rows


def check_experts(rows):
    """GShard's strategy where links are fast, and below it one that sends less."""
    gshard = [row for row in rows if row["strategy"].startswith("GShard")]
    others = [row for row in rows if not row["strategy"].startswith("GShard")]
    if not gshard or not others or others[-1]["gbit"] > gshard[0]["gbit"]:
        return False
    return others[-1]["bytes"] < gshard[0]["bytes"]


# ---- Table 5


def sweep_noise(planner, problem, accounting, gbit, runs=10):
    print(f"\n{problem.name}, {accounting}, {gbit} Gbit/s: wrong times (table 5)")
    prices = (gbit, accounting)
    best = planner.search(problem, *prices).cost
    rows = []

    def add(name, limit, noises):
        costs = [
            planner.cost(problem, planner.search(problem, *prices, **noise), *prices)
            for noise in noises
        ]
        ratio = statistics.mean(costs) / best
        rows.append({"gbit": gbit, "noise": name, "relative": ratio, "paper": limit})
        print(f"  {name:22} {ratio:7.2%}   paper {limit:.1%}")

    for share, limit in RANDOM_NOISE.items():
        generator = random.Random(5)
        noises = [
            {"computation": [1 + generator.uniform(-share, share) for _ in problem.operators]}
            for _ in range(runs)
        ]
        add(f"{share:.0%} random", limit, noises)
    for share, limit in COMMUNICATION_NOISE.items():
        add(f"{share:+.0%} communication", limit, [{"communication": 1 + share}])
    return rows


def check_noise(rows):
    return all(row["relative"] <= row["paper"] + TABLE_DIGITS for row in rows)


SWEEPS = {
    "figure11": (sweep_replication, check_replication),
    "figure12": (sweep_experts, check_experts),
    "table5": (lambda *a: sweep_noise(*a[:-1], 10) + sweep_noise(*a[:-1], 100), check_noise),
}
FINDINGS = {
    "figure11": "the share of parameters that are whole never rises with the bandwidth, and differs between the ends",
    "figure12": "experts change from GShard's strategy, where links are fast, to one that sends less",
    "table5": "with wrong times plans cost at most what they do in the table",
}


def record(report, problem, name, rows, holds):
    """Adds a sweep's table, and whether the paper's finding holds."""
    report.add(f"{name} of HiDup, {problem}", rows)
    report.claim(f"{name}: {FINDINGS[name]}", holds)


def read_problems(kind, paths):
    try:
        return [kind(path) for path in paths]
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")


def parse_numbers(text):
    return [float(part) for part in text.split(",")]


def parse_arguments():
    parser = make_parser(__doc__)
    parser.add_argument("problems", nargs="*", type=pathlib.Path, default=[DEFAULT])
    parser.add_argument("--sweep", action="append", choices=SWEEPS, help="all if none is given")
    parser.add_argument(
        "--bandwidths",
        type=parse_numbers,
        default=BANDWIDTHS,
        help="of figures 11 and 12, in Gbit/s",
    )
    parser.add_argument("--accounting", choices=hidup_problem.ACCOUNTINGS, default="hidup-serial")
    parser.add_argument("--search", choices=["hidup", "tandem"], default="hidup")
    add_tool(parser)
    return parser.parse_args()


def main():
    args = parse_arguments()
    planner = Planner(args.tool, args.search)
    report = Report()
    for problem in read_problems(Problem, args.problems):
        for name in args.sweep or SWEEPS:
            sweep, check = SWEEPS[name]
            rows = sweep(planner, problem, args.accounting, args.bandwidths)
            record(report, f"{problem.name}, {args.accounting}", name, rows, check(rows))
    report.finish(args)


if __name__ == "__main__":
    main()
