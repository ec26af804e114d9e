#!/usr/bin/env python3
"""Plans of `tandem` against optima that an integer program proves.

    benchmarks/search_optima.py [PROBLEM ...] [--mesh data=4 --mesh data=2,model=2] [--models gpt,vit_moe] [--micro 2]
        [--limit 600] [--check] [--json FILE]

Without problems, it exports two-layer examples as problems (laptop cluster). Without duplex, a problem has two rows:

* Free pieces of waiting collectives. Costs add up, and `ilp` proves the optimum of all plans.
* Pieces as priced by the cluster. `ilp` proves the optimum for the HiDup stages that `tandem` chose.

With duplex (--micro 2) a problem has only the second one, first with strands only where tandem's plan has some. On two
axes, duplex with all strands is too large; use --limit 100. The gap columns show the unproven rest within --limit, `-`
if nothing was proven.
"""

import pathlib
import re
import tempfile

from harness import BUILD, ROOT, Report, export, make_parser, measure_process

MODELS = "gpt,bert_moe,vit_moe,llama"
TOLERANCE = 1e-6  # relative


def make_problems(models, mesh, micro, folder):
    for model in models:
        step = folder / f"{model}.mlir"
        problem = folder / f"{model}-{mesh}{'' if micro == 1 else f'-micro{micro}'}.txt"
        export(ROOT / f"examples/{model}.py", step)
        measure_process(
            [BUILD / "bin/tandem-compile", step, "--mesh", mesh, "--micro", micro, "--plan-only"]
            + ["--search", "presets", "--problem-out", problem, "-o", folder / "plan"]
        )
        yield problem


def search(problem, algorithm, plan, limit, *arguments):
    """Cost, CPU seconds, and the share by which the cost may exceed the least (0: proven, None: no bound), with the
    stages that are given (if any), and with their strands."""
    row = measure_process(
        [BUILD / "bin/tandem-plan", problem, "--search", algorithm, "-o", plan, *arguments]
        + (["--search-time-limit", limit] if limit else [])
    )
    found = dict(re.findall(r"^(cost|bound) (\S+) s(?: |$)", plan.read_text(), re.M))
    cost, bound = float(found["cost"]), float(found["bound"])
    gaps = dict(
        re.findall(r"(?m)^gap with these stages( and strands)? (?:(\S+) %|unknown)", row["text"])
    )
    gaps = {name: float(gap) / 100 if gap else None for name, gap in gaps.items()}
    gap = gaps.get("", cost / bound - 1 if bound else None)
    return cost, row["cpu_s"], gap, gaps.get(" and strands", gap)


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
        cost, seconds, gap, _ = search(target, "tandem", plan, 0)
        row = {
            "problem": problem.stem,
            "pieces": pieces,
            "tandem": cost,
            "gap": gap,
            "seconds": seconds,
        }
        stages = [] if pieces == "free" else ["--stages", get_stages(plan)]
        found = search(target, "ilp", folder / "ilp", limit, "--start", plan, *stages)
        row["ilp"], row["ilp seconds"], row["ilp gap"], row["strands gap"] = found
        rows.append(row)
        show(row)
    return rows


def show(row):
    def percent(gap):
        return f"{'-' if gap is None else f'{gap:.4%}':>9}"

    line = f"{row['problem']:28} {row['pieces']:12} {row['tandem'] * 1e3:10.6f} {percent(row['gap'])} {row['seconds']:8.1f}"
    line += f" {row['ilp'] * 1e3:12.6f} {percent(row['ilp gap'])} {percent(row['strands gap'])} {row['ilp seconds']:8.1f}"
    print(f"{line} {row['tandem'] / row['ilp'] - 1:+10.1e}", flush=True)


def check(report, rows, problems):
    report.add(f"plans against optima that an integer program proves: {problems}", rows)
    for pieces, name in (("free", "pieces for nothing"), ("as they are", "tandem's stages")):
        found = [row for row in rows if row["pieces"] == pieces]
        if not found:
            continue
        worse = [row for row in found if row["tandem"] > row["ilp"] * (1 + TOLERANCE)]
        report.limit(f"{name}, dearer than ilp's", len(worse), 0, "plans")
        proven = [
            row
            for row in found
            if row["strands gap"] is not None and row["strands gap"] < TOLERANCE
        ]
        report.claim(
            f"{name}, {len(proven)} of {len(found)} optima that ilp proves are tandem's",
            all(abs(row["tandem"] / row["ilp"] - 1) <= TOLERANCE for row in proven),
        )


def main():
    parser = make_parser(__doc__)
    parser.add_argument("problems", nargs="*", type=pathlib.Path)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--mesh", action="append", help="data=4; may be given again")
    parser.add_argument("--micro", type=int, default=1, help="number of microbatches")
    parser.add_argument("--limit", type=float, default=600, help="seconds for ilp")
    args = parser.parse_args()
    print(
        "problem                      pieces       tandem, ms       gap    CPU/s      ilp, ms       gap   strands    CPU/s      above"
    )
    rows, meshes = [], args.mesh or ["data=4"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        made = args.problems or [
            problem
            for mesh in meshes
            for problem in make_problems(args.models.split(","), mesh, args.micro, folder)
        ]
        for problem in made:
            rows += measure(problem, folder, args.limit)
    report = Report()
    given = ", ".join(path.stem for path in args.problems)
    check(report, rows, given or f"{' and '.join(meshes)}, micro {args.micro}")
    report.finish(args)


if __name__ == "__main__":
    main()
