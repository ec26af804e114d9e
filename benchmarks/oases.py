#!/usr/bin/env python3
"""The planner of Oases beside the degrees that the paper found (its table 6), under the accounting `oases`.

    benchmarks/oases.py [--check]

`--check` exits with 1 unless each plan is proven, found within 0.2 s, and no slower than the paper's degrees.
"""

import argparse
import itertools
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
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


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument(
        "--tool", default=ROOT / "build" / "bin" / "tandem-plan", help="tandem-plan"
    )
    options = parser.parse_args()
    missed = []
    print("cluster  width  one degree   paper's degrees         found                   search")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for cluster, width in itertools.product(("nvlink", "pcie"), FOUND):
            setting = (options.tool, folder, width, cluster)
            same, papers = (plan(*setting, degrees)[0] for degrees in FOUND[width])
            cost, search, is_proven, degrees = plan(*setting)
            print(
                f"{cluster:8} {width:5}  {same * 1e3:7.1f} ms  {papers * 1e3:7.1f} ms {FOUND[width][1]:12}"
                f" {cost * 1e3:7.1f} ms {show(degrees):12} {search * 1e3:6.1f} ms"
            )
            if not is_proven or search > SECONDS or cost > papers * (1 + 1e-9):
                missed.append(f"{cluster} {width}")
    for each in missed:
        print(f"misses: {each}")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
