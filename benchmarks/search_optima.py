#!/usr/bin/env python3
"""Plans of `tandem` against optima that an integer program proves.

    benchmarks/search_optima.py [PROBLEM ...] [--mesh data=4 --mesh data=2,model=2] [--models gpt,vit_moe] [--micro 2]
        [--limit 600] [--json FILE]

Without problems, two-layer examples are exported and turned into problems (laptop cluster). Without duplex two rows per
problem: pieces of waiting collectives that cost nothing, where costs add up and `ilp` proves the optimum of all plans;
and pieces as the cluster has them, where `ilp` proves it for the stages that `tandem` chose; with duplex (--micro 2) the
latter alone. It takes 1 to 2 s of CPU each on one axis, a minute on two or with duplex; the gap column says what was
not proven within --limit, `-` that nothing was.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("TANDEM_BUILD", ROOT / "build"))
MODELS = "gpt,bert_moe,vit_moe,llama"
TOLERANCE = 1e-6  # relative


def fail(message):
    sys.exit(f"search_optima.py: error: {message}")


def call(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        fail(f"{command[0]}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout


def make_problems(models, mesh, micro, folder):
    for model in models:
        step, problem = (
            folder / f"{model}.mlir",
            folder / f"{model}-{mesh}{'' if micro == 1 else f'-micro{micro}'}.txt",
        )
        environment = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
        call(
            [
                sys.executable,
                "-m",
                "tandem",
                "export",
                ROOT / "examples" / f"{model}.py",
                "-o",
                step,
            ],
            env=environment,
        )
        call(
            [
                BUILD / "bin/tandem-compile",
                step,
                "--mesh",
                mesh,
                "--micro",
                str(micro),
                "--search",
                "tandem",
                "--plan-only",
            ]
            + ["--problem-out", problem, "-o", folder / "plan"]
        )
        yield problem


def search(problem, algorithm, plan, limit, *arguments):
    """Cost, share by which it may exceed the least (0: proven, None: no bound), seconds of the search."""
    out = call(
        [BUILD / "bin/tandem-plan", problem, "--search", algorithm, "-o", plan, *arguments]
        + (["--search-time-limit", str(limit)] if limit else [])
    )
    found = dict(re.findall(r"^(cost|bound) (\S+) s$", plan.read_text(), re.M))
    seconds = float(re.search(r"^search (\S+) s", out, re.M)[1])
    cost, bound = float(found["cost"]), float(found["bound"])
    if stages := re.search(r"gap with these stages (?:(\S+) %|unknown)", out):
        return cost, float(stages[1]) / 100 if stages[1] else None, seconds
    return cost, cost / bound - 1 if bound else None, seconds


def get_stages(plan):
    ends, last = [], None
    for line in plan.read_text().splitlines():
        if line.startswith("stage ") and last is not None:
            ends.append(last + 1)
        if match := re.match(r"\s*operator (\d+)", line):
            last = int(match[1])
    return ",".join(map(str, [*ends, last + 1]))


def measure(problem, folder, limit):
    text = problem.read_text()
    plan = folder / "plan"
    rows = []
    has_duplex = re.search(r"(?m)^axis \S+ time ", text)
    for pieces in ["as they are"] if has_duplex else ["free", "as they are"]:
        target = folder / "problem.txt"
        target.write_text(re.sub(r"(?m)^piece \S+", "piece 0", text) if pieces == "free" else text)
        cost, gap, seconds = search(target, "tandem", plan, 0)
        row = {
            "problem": problem.stem,
            "pieces": pieces,
            "tandem": cost,
            "gap": gap,
            "seconds": seconds,
        }
        stages = [] if pieces == "free" else ["--stages", get_stages(plan)]
        row["ilp"], row["ilp gap"], row["ilp seconds"] = search(
            target, "ilp", folder / "ilp", limit, "--start", plan, *stages
        )
        rows.append(row)
        show(row)
    return rows


def show(row):
    def percent(gap):
        return f"{'-' if gap is None else f'{gap:.4%}':>9}"

    line = f"{row['problem']:28} {row['pieces']:12} {row['tandem'] * 1e3:10.6f} {percent(row['gap'])} {row['seconds']:8.1f}"
    line += f" {row['ilp'] * 1e3:12.6f} {percent(row['ilp gap'])} {row['ilp seconds']:8.1f}"
    print(f"{line} {row['tandem'] / row['ilp'] - 1:+10.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", type=pathlib.Path)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--mesh", action="append", help="data=4; may be given again")
    parser.add_argument("--micro", type=int, default=1, help="number of microbatches")
    parser.add_argument("--limit", type=float, default=600, help="seconds for ilp")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    print(
        "problem                      pieces       tandem, ms       gap        s      ilp, ms       gap        s      above"
    )
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models = options.models.split(",")
        made = options.problems or [
            problem
            for mesh in options.mesh or ["data=4"]
            for problem in make_problems(models, mesh, options.micro, folder)
        ]
        for problem in made:
            rows += measure(problem, folder, options.limit)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    worse = [
        row
        for row in rows
        if row["pieces"] == "free" and row["tandem"] > row["ilp"] * (1 + TOLERANCE)
    ]
    if worse:
        fail(f"{len(worse)} plans cost more than the optimum")


if __name__ == "__main__":
    main()
