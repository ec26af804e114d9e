#!/usr/bin/env python3
"""Test that no neighbouring division into HiDup stages is cheaper, on HiDup's search problems (Zhang et al., SoCC 2022).

    benchmarks/search_boundaries.py [FOLDER] [--layers 2] [--gbit 10,100] [--check] [--json FILE]

FOLDER holds the paper's search problems, MODEL-Llayers-Nranks.json; the default are those of the tests, at their own
bandwidth. `tandem` finds a plan under each accounting of HiDup. `ilp` then decides the forms anew for its division, and
for each division that moves, adds or removes one boundary. It proves that no plan of these divisions is cheaper. Prints
the divisions, the proven ones, and the CPU time of a proof.
"""

import pathlib
import tempfile

from harness import ROOT, Report, fail, make_parser
from search import NAME, hidup_problem, read_problem
from search_optima import TOLERANCE, get_stages, search


def list_neighbours(ends):
    """All divisions that move, add or remove one boundary; the last end is no boundary."""
    inner, last = ends[:-1], ends[-1]
    free = [op for op in range(1, last) if op not in inner]
    divisions = [sorted([*ends, op]) for op in free]
    for i, end in enumerate(inner):
        rest = ends[:i] + ends[i + 1 :]
        low = ends[i - 1] if i else 0
        moves = [op for op in range(low + 1, ends[i + 1]) if op != end]
        divisions += [rest, *(sorted([*rest, op]) for op in moves)]
    return divisions


def measure(problem, folder):
    """The plan's cost, and what is proven of the divisions."""
    plan, other = folder / "plan", folder / "other"
    cost, *_ = search(problem, "tandem", plan, 0)
    ends = [int(end) for end in get_stages(plan).split(",")]
    divisions = [ends, *list_neighbours(ends)]
    proven, seconds = 0, []
    for division in divisions:
        stages = ",".join(map(str, division))
        found, cpu, gap, _ = search(problem, "ilp", other, 0, "--start", plan, "--stages", stages)
        proven += found >= cost * (1 - TOLERANCE) and gap is not None and gap <= TOLERANCE
        seconds.append(cpu)
    return {
        "cost_s": cost,
        "stages": len(ends),
        "divisions": len(divisions),
        "proven": proven,
        "cpu_s": sum(seconds),
        "longest_s": max(seconds),
    }


def find_problems(folder, layers):
    found = []
    for path in sorted(folder.iterdir()):
        match = NAME.fullmatch(path.stem)
        if match and int(match[2]) == layers and path.suffix in (".json", ".txt"):
            found.append(path)
    return found or fail(f"{folder}: found no problem MODEL-{layers}layers-Nranks.json")


def show(row):
    print(
        f"{row['problem']:26} {row['gbit'] or '-':>6} {row['accounting']:16} {row['cost_s']:9.6f} {row['stages']:7}"
        f" {row['divisions']:10} {row['proven']:7} {1e3 * row['cpu_s'] / row['divisions']:7.0f} {1e3 * row['longest_s']:8.0f}",
        flush=True,
    )


def main():
    parser = make_parser(__doc__)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=ROOT / "test/Search/Inputs")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--gbit", default="10,100", help="of problems that are JSON")
    args = parser.parse_args()
    print(
        "problem                    Gbit/s accounting          cost/s  stages  divisions  proven  CPU/ms  longest"
    )
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for path in find_problems(args.folder, args.layers):
            rates = [float(rate) for rate in args.gbit.split(",")]
            for gbit in rates if path.suffix == ".json" else [None]:
                for accounting in hidup_problem.ACCOUNTINGS:
                    problem = folder / "problem.txt"
                    problem.write_text(read_problem(path, gbit, accounting))
                    where = {"problem": path.stem, "gbit": gbit, "accounting": accounting}
                    rows.append(where | measure(problem, folder))
                    show(rows[-1])
    report = Report()
    report.add(f"divisions next to a plan's, {args.layers} layers", rows)
    proven, divisions = (sum(row[key] for row in rows) for key in ("proven", "divisions"))
    report.claim(
        f"{proven} of {divisions} divisions proven to have no cheaper plan", proven == divisions
    )
    report.finish(args)


if __name__ == "__main__":
    main()
