#!/usr/bin/env python3
"""Findings of the HiDup paper about plans, on whole steps: forward, backward and updates, accounting `tandem`.

    benchmarks/step_sweeps.py [PROBLEM ...] [--factors 0.01,0.1,1,10] [--noise RUNS] [--check] [--json FILE]

    figure 11   replicated parameters against bandwidth
    figure 12   splits of mixture-of-experts layers against bandwidth
    table 5     cost of a plan found with wrong prices (--noise), beside the paper's

PROBLEM is the text of a search problem with one space axis, as written by
`tandem-compile STEP.mlir --mesh data=4 --problem-out`. --factors multiplies the speed of its links. Each line has the
gap between plan and bound. If it is 0, changes from line to line are properties of the optimum. --check exits with 1 if
a finding does not hold (docs/rationale/hidup.md lists the paper's findings that fail for whole steps).
"""

import math
import pathlib
import random
import re
import statistics

import search_sweeps
from harness import ROOT, Report, add_tool, fail, get_indices, make_parser
from search_sweeps import (
    RANDOM_NOISE,
    Planner,
    check_replication,
    parse_numbers,
    read_problems,
    record,
)

DEFAULT = ROOT / "test/Search/Inputs/vit_moe-2layers-data4.txt"
FACTORS = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30]
PRICE = re.compile(r"(\S+) s (\S+) s/B")


class Step:
    """The text of a step's search problem, to be written with other prices."""

    def __init__(self, path):
        self.name, self.path = path.stem, path
        self.lines = path.read_text().splitlines()
        spaces = [line.split() for line in self.lines if re.match(r"axis \S+ space ", line)]
        if "accounting tandem" not in self.lines or len(spaces) != 1:
            fail(
                f"{path}: found {len(spaces)} space axes, expected a problem with accounting tandem and one space axis"
            )
        self.axis, self.ranks = spaces[0][1], int(spaces[0][3])
        self.tensors = {}
        self.operators = []
        for line in self.lines:
            words = line.split()
            if line.startswith("tensor "):
                shape = [int(extent) for extent in words[3].split("x") if extent != "scalar"]
                self.tensors[int(words[1])] = (shape, math.prod(shape) * int(words[4]))
            elif line.startswith("operator "):
                self.operators.append(line)
        self.parameters = self.find_parameters()
        self.experts = self.find_experts()

    def find_parameters(self):
        """{name: tensor} of what is stored and read by the forward pass; states are read by updates."""
        stored, read = {}, set()
        for line in self.operators:
            words = line.split()
            if words[3] == "resident":
                stored[words[4]] = get_indices(line, "results")[0]
            elif words[2] == "forward":
                read |= set(get_indices(line, "operands"))
        return {name: tensor for name, tensor in stored.items() if tensor in read}

    def find_experts(self):
        """Parameters beside a gate with three dimensions, none of 1: a matrix for each expert."""
        modules = [name.removesuffix("gate.weight") for name in self.parameters if "gate." in name]
        return [
            name
            for name, tensor in self.parameters.items()
            if any(name.startswith(module) for module in modules)
            and len(self.tensors[tensor][0]) == 3
            and 1 not in self.tensors[tensor][0]
        ]

    def get_text(self, factor, noise=None):
        """With links so many times as fast, and each operator's times multiplied by what `noise` draws."""
        lines = []
        for line in self.lines:
            if line.startswith(f"axis {self.axis} "):
                line = PRICE.sub(
                    lambda price: f"{price[1]} s {float(price[2]) / factor!r} s/B",
                    line,
                )
            lines.append(line)
        return "\n".join(add_noise(lines, noise) if noise else lines) + "\n"


def add_noise(lines, noise):
    """Every operator gets a set of signatures of its own."""
    sets, others, operators = {}, [], []
    for line in lines:
        if line.startswith("signatures"):
            signatures = sets[line.split()[1]] = []
        elif line.startswith("  "):
            signatures.append(line)
        else:
            (operators if line.startswith(("operator", "tie")) else others).append(line)
    for i, line in enumerate(operators):
        words = line.split()
        if words[0] == "tie":
            continue
        at, factor = words.index("set") + 1, noise()
        others += [f"signatures {i}"]
        others += [search_sweeps.scale(signature, factor) for signature in sets[words[at]]]
        words[at] = str(i)
        operators[i] = " ".join(words)
    return others + operators


class StepPlan:
    """What tandem-plan answers."""

    def __init__(self, step, output):
        self.text = output[: output.index("stages ")] if "\nstages " in output else output
        self.cost = self.find(r"^cost (\S+) s$")
        self.gap = self.cost / self.find(r"^bound (\S+) s") - 1
        forms = dict(
            re.findall(rf"^  operator \d+ (\S+) {step.axis}='-> ([^']*)'", self.text, re.M)
        )
        self.forms = {name: forms[name] for name in step.parameters}
        self.whole = {name for name, form in self.forms.items() if "gather" not in form}
        changes = re.findall(r"^  change (\d+) \S+ (\S+) (\S+) from (\S+)", self.text, re.M)
        self.sent = {"forward": 0.0, "backward": 0.0, "update": 0.0}
        for tensor, phase, after, before in changes:
            self.sent[phase] += get_bytes(step, int(tensor), before, after)
        self.exchanges = sum(
            phase == "forward"
            and get_form(step, before).startswith("gather")
            and get_form(step, after).startswith("gather")
            and get_form(step, before) != get_form(step, after)
            for _, phase, after, before in changes
        )

    def find(self, pattern):
        return float(re.search(pattern, self.text, re.M)[1])


def get_form(step, layout):
    """`gather(0)` of `data=gather(0),micro=gather(0)`."""
    found = re.search(rf"\b{step.axis}=(reduce|gather\(\d+\))", layout)
    return found[1] if found else "full"


def get_bytes(step, tensor, before, after):
    """What a rank sends to change the layout of a whole tensor."""
    before, after = get_form(step, before), get_form(step, after)
    size, n = step.tensors[tensor][1], step.ranks
    if before == after or before == "full":
        return 0
    if before.startswith("gather") and after.startswith("gather"):
        return size * (n - 1) / n**2
    return size * (n - 1) / n * (2 if (before, after) == ("reduce", "full") else 1)


def search(planner, text, step):
    return StepPlan(step, planner.run(text, "--search", "tandem"))


# ---- Figures 11 and 12


def describe(step, plan):
    split = [name for name in step.experts if plan.forms[name] == "gather(0)"]
    if not step.experts:
        return ""
    if len(split) == len(step.experts):
        return "experts split"
    return "experts split in part" if split else "every rank has all experts"


def sweep_bandwidth(planner, step, factors):
    print(f"\n{step.name}: {len(step.parameters)} parameters, {step.ranks} ranks")
    rows, before, last = [], None, None
    for factor in sorted(factors):
        plan = search(planner, step.get_text(factor), step)
        row = {
            "factor": factor,
            "cost": plan.cost,
            "gap": plan.gap,
            "whole": len(plan.whole),
            "experts": describe(step, plan),
            "exchanges": plan.exchanges,
            "bytes": plan.sent,
        }
        row["share"] = len(plan.whole) / len(step.parameters)
        row["no longer whole"] = sorted(before - plan.whole) if before is not None else []
        row["now whole"] = sorted(plan.whole - before) if before is not None else []
        if rows and row["share"] > rows[-1]["share"]:
            # The plan in front of it at these prices: zero where both cost the same.
            row["rise"] = planner.get_cost(step.get_text(factor), last) / plan.cost - 1
        rows.append(row)
        before, last = plan.whole, plan
        show(step, row)
    return rows


def show(step, row):
    sent = ", ".join(f"{phase} {sent / 1e3:.1f}" for phase, sent in row["bytes"].items())
    print(
        f"  x {row['factor']:<6g} {row['cost'] * 1e3:9.4f} ms, gap {row['gap']:6.2%}"
        f"  whole {row['whole']} of {len(step.parameters)} = {row['share']:6.1%}"
        f"  kB sent: {sent}; {row['exchanges']} all-to-alls forward  {row['experts']}"
    )
    for change in ("no longer whole", "now whole"):
        if row[change]:
            print(f"            {change}: {' '.join(row[change])}")
    if "rise" in row:
        print(f"            the plan above would cost {row['rise']:.4%} more")


def check_experts(rows):
    """Where links are fast experts are split and tokens exchanged; where they are slow a strategy sends less."""
    fast = next((row for row in reversed(rows) if row["experts"] == "experts split"), None)
    if not fast or not fast["exchanges"]:
        return False
    slower = [
        row for row in rows if row["factor"] < fast["factor"] and row["experts"] != "experts split"
    ]
    return any(sum(row["bytes"].values()) < sum(fast["bytes"].values()) for row in slower)


# ---- Table 5


def sweep_noise(planner, step, factor, runs):
    print(f"\n{step.name}, links x {factor:g}: wrong times (table 5)")
    # The same sets, so that plans are of one problem.
    right = step.get_text(factor, lambda: 1.0)
    best = search(planner, right, step).cost
    rows = []
    for share, limit in RANDOM_NOISE.items():
        generator = random.Random(5)
        costs = []
        for _ in range(runs):
            wrong = step.get_text(factor, lambda: 1 + generator.uniform(-share, share))  # noqa: B023
            costs.append(planner.get_cost(right, search(planner, wrong, step)))
        ratio = statistics.mean(costs) / best
        rows.append({"noise": share, "relative": ratio, "paper": limit})
        print(f"  {share:.0%} random {ratio:7.2%}   paper {limit:.1%}")
    return rows


def parse_arguments():
    parser = make_parser(__doc__)
    parser.add_argument("problems", nargs="*", type=pathlib.Path, default=[DEFAULT])
    parser.add_argument(
        "--factors", type=parse_numbers, default=FACTORS, help="how many times as fast links are"
    )
    parser.add_argument("--noise", type=int, default=0, help="runs of table 5 per kind of noise")
    add_tool(parser)
    return parser.parse_args()


def main():
    args = parse_arguments()
    planner = Planner(args.tool, "tandem")
    report = Report()
    for step in read_problems(Step, args.problems):
        what = f"whole steps, {step.name}"
        rows = sweep_bandwidth(planner, step, args.factors)
        record(report, what, "figure11", rows, check_replication(rows))
        if step.experts:
            record(report, what, "figure12", rows, check_experts(rows))
        if args.noise:
            rows = sweep_noise(planner, step, 1, args.noise)
            report.add(f"table5 of HiDup, {what}", rows)
    report.finish(args)


if __name__ == "__main__":
    main()
