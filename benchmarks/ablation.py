#!/usr/bin/env python3
"""Worth of each mechanism of the search `tandem`, on a fixed set of problems.

    benchmarks/ablation.py --make                       write the problems (once, minutes; needs the whole compiler)
    benchmarks/ablation.py [--without NAME,NAME] ...    search them with `tandem-plan`, and compare with the reference
    benchmarks/ablation.py --each NAME,NAME             leave out each of these mechanisms in turn
    benchmarks/ablation.py --record                     make the results the reference, for all problems that ran

Options: [--classes plain,memory,large,axes] [--only PART-OF-A-NAME] [--jobs N] [--folder build/ablation] [--tool FILE]
[--check] [--json FILE]

Half of the problems are of models and clusters that the search was not written with. The reference is
benchmarks/ablation.json. Printed per class: the increase of cost in the mean and at worst, the decrease of bounds, and
the CPU time (user seconds). A mechanism is removed if it is worth less than the limits in every class, alone and
together with other such mechanisms.
"""

import concurrent.futures
import dataclasses
import hashlib
import json
import math
import pathlib
import re
import tempfile

from harness import BUILD, ROOT, Report, add_tool, export, fail, make_parser, measure_process
from search_grid import write_devices

REFERENCE = pathlib.Path(__file__).with_suffix(".json")
# What may be lost by class: of the cost in the mean and at worst, of the bound in the mean.
MEAN_COST, WORST_COST, MEAN_BOUND = 0.003, 0.02, 0.01

# Names of steps, their files, and the options of their export.
STEPS = {
    "gpt": ["gpt"],
    "llama": ["llama"],
    "bert_moe": ["bert_moe"],
    "vit_moe": ["vit_moe"],
    "llama-8b": ["llama", "--preset", "8b", "--set", "batch=64,seq=2048"],
    # The search was not written with these.
    "mlp": ["mlp"],
    "hf-bert": ["hf", "--preset", "bert"],
    "hf-gpt2": ["hf", "--preset", "gpt2"],
    "hf-llama": ["hf", "--preset", "llama"],
    "switch": ["bert_moe", "--set", "gate=switch"],
    "few": ["gpt", "--set", "layers=2,width=2048,heads=16,seq=32,batch=8,vocab=512,dropout=0.0"],
    "many": ["gpt", "--set", "layers=2,width=512,heads=8,seq=128,batch=64,vocab=512,dropout=0.0"],
    "experts": [
        "bert_moe",
        "--set",
        "layers=2,width=256,heads=4,seq=64,batch=64,experts=8,hidden=1024",
    ],
    "gpt-6": ["gpt", "--preset", "bench", "--set", "batch=32"],
    "gpt-24": ["gpt", "--set", "layers=24,width=2048,heads=16,seq=1024,batch=64,vocab=50304"],
    "moe-12": [
        "bert_moe",
        "--set",
        "layers=12,width=768,heads=12,seq=128,batch=128,experts=16,hidden=3072",
    ],
    "hf-llama-16": [
        "hf",
        "--preset",
        "llama",
        "--set",
        "layers=16,width=512,heads=8,seq=256,batch=64",
    ],
    "gpt-175b": ["gpt", "--preset", "175b", "--set", "batch=512,seq=2048", "--dtype", "bfloat16"],
}


@dataclasses.dataclass
class Problem:
    kind: str
    step: str
    cluster: str
    mesh: str
    micro: int
    # Of the peak that the free plan has; 0: no limit.
    share: float = 0
    options: tuple = ()

    @property
    def name(self):
        mesh = "x".join(re.findall(r"=(\d+)", self.mesh))
        if "data" not in self.mesh:
            mesh = "m" + mesh
        limit = f"-{self.share:g}" if self.share else ""
        return f"{self.step}-{self.cluster}-{mesh}-micro{self.micro}{limit}"


def list_problems():
    models = ["gpt", "llama", "bert_moe", "vit_moe"]
    two = "data=2,model=2"
    problems = []
    for model in models:
        problems += [
            Problem("plain", model, "laptop", "data=4", 1),
            Problem("plain", model, "laptop", "data=4", 2),
            Problem("plain", model, "laptop", two, 1),
            Problem("plain", model, "v100-2x4", "data=4", 2),
            Problem("axes", model, "laptop", two, 2),
            Problem("memory", model, "laptop", "data=4", 2, 0.7),
        ]
    problems += [
        Problem("memory", "gpt", "laptop", two, 2, 0.6),
        Problem("memory", "llama", "laptop", two, 2, 0.8),
        Problem("memory", "bert_moe", "laptop", two, 1, 0.8),
        Problem("memory", "vit_moe", "laptop", two, 1, 0.6),
        Problem("large", "llama-8b", "h100-8x8", "data=8,model=8", 1),
        Problem("large", "llama-8b", "h100-8x8", "data=8,model=8", 2),
        # Others.
        Problem("plain", "mlp", "laptop", "data=4", 2),
        Problem("plain", "hf-bert", "laptop", "data=4", 1),
        Problem("plain", "hf-gpt2", "laptop", "model=4", 2),
        Problem("plain", "hf-llama", "v100-2x4", "data=4", 2),
        Problem("plain", "hf-llama", "laptop", two, 1),
        Problem("plain", "switch", "laptop", "data=2", 4),
        Problem("plain", "few", "v100-1x8", "model=8", 2),
        Problem("plain", "many", "v100-1x8", "data=8", 2),
        Problem("plain", "experts", "v100-1x8", "data=8", 2),
        Problem("axes", "hf-bert", "laptop", two, 2),
        Problem("axes", "hf-llama", "a100-4x8", two, 2),
        Problem("axes", "gpt", "h100-8x8", "data=4,model=2", 2),
        Problem("axes", "switch", "laptop", two, 4),
        Problem("axes", "hf-gpt2", "laptop", "data=2,fsdp=2,model=2", 2),
        Problem("memory", "hf-bert", "laptop", "data=4", 2, 0.7),
        Problem("memory", "hf-llama", "a100-4x8", two, 2, 0.6),
        Problem("memory", "experts", "v100-1x8", "data=8", 2, 0.7),
        Problem("memory", "hf-gpt2", "laptop", "model=4", 2, 0.8),
        Problem("memory", "gpt-6", "laptop", "data=4", 1, 0.9),
        Problem("large", "gpt-24", "h100-8x8", "data=8,model=4", 2),
        Problem("large", "moe-12", "v100-8x8", "data=32", 1),
        Problem("large", "hf-llama-16", "a100-4x8", "data=8,model=2", 2),
        Problem(
            "large",
            "gpt-175b",
            "h100-128x8",
            "data=16,fsdp=8,model=8",
            1,
            options=("--recompute",),
        ),
    ]
    return problems


# ---- Making the problems ---------------------------------------------------------------------------------------------


def make_problem(problem, folder, steps):
    """Of one without a limit."""
    name, *options = STEPS[problem.step]
    step = steps / f"{problem.step}.mlir"
    if not step.exists():
        export(ROOT / f"examples/{name}.py", step, *options)
    devices = math.prod(int(size) for size in re.findall(r"=(\d+)", problem.mesh))
    cluster = write_devices(problem.cluster, devices, steps)
    measure_process(
        [BUILD / "bin/tandem-compile", step, "--cluster", cluster, "--mesh", problem.mesh]
        + ["--micro", problem.micro, "--plan-only", "--search", "presets", *problem.options]
        + ["--problem-out", folder / f"{problem.name}.txt", "-o", steps / "plan"],
        refused=re.compile("no preset fits"),
    )


def limit_memory(problem, folder, tool):
    """Writes it from the one without a limit, which is made and searched if need be."""
    free = dataclasses.replace(problem, share=0)
    text = re.sub(r"(?m)^memory .*\n", "", (folder / f"{free.name}.txt").read_text())
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "free.txt"
        path.write_text(text)
        measure_process([tool, path, "-o", pathlib.Path(name) / "plan"])
        plan = (pathlib.Path(name) / "plan").read_text()
    peak = int(re.search(r"(?m)^peak (\d+) B", plan)[1])
    limit = f"memory {int(problem.share * peak)} B\n"
    text = re.sub(r"(?m)^(axis )", lambda match: limit + match[1], text, count=1)
    (folder / f"{problem.name}.txt").write_text(text)


def make_problems(problems, folder, tool):
    folder.mkdir(parents=True, exist_ok=True)
    steps = folder / "steps"
    steps.mkdir(exist_ok=True)
    for problem in problems:
        free = dataclasses.replace(problem, share=0)
        if not (folder / f"{free.name}.txt").exists():
            make_problem(free, folder, steps)
        if problem.share and not (folder / f"{problem.name}.txt").exists():
            limit_memory(problem, folder, tool)
        print(problem.name, flush=True)


# ---- Searching them --------------------------------------------------------------------------------------------------


def hash_problem(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def search(problem, path, tool, without):
    with tempfile.TemporaryDirectory() as name:
        plan = pathlib.Path(name) / "plan"
        row = measure_process(
            [tool, path, "-o", plan, *(["--without", ",".join(without)] if without else [])],
            refused=re.compile("no plan|found no plan"),
        )
        if not row:
            return {"problem": problem.name, "kind": problem.kind, "cost": None}
        found = dict(re.findall(r"(?m)^(cost|bound) (\S+) s", plan.read_text()))
    return {
        "problem": problem.name,
        "kind": problem.kind,
        "hash": hash_problem(path),
        "cost": float(found["cost"]),
        "bound": float(found["bound"]),
        "cpu_s": round(row["cpu_s"], 3),
    }


def search_all(problems, folder, tool, without, jobs):
    """The longest ones, the last of the list, begin first."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        rows = [
            pool.submit(search, problem, folder / f"{problem.name}.txt", tool, without)
            for problem in problems
        ]
        return [row.result() for row in rows]


# ---- Comparing -------------------------------------------------------------------------------------------------------


def compare(row, reference):
    """Shares by which it is dearer, and its bound lower."""
    if row["cost"] is None:
        return row | {"dearer": math.inf, "lower": 0, "times": 0}
    before = reference.get(row["problem"])
    if not before or before["hash"] != row["hash"]:
        fail(f"{row['problem']}: no reference for this problem, see --make and --record")
    bound = before["bound"]
    return row | {
        "dearer": row["cost"] / before["cost"] - 1,
        "lower": 1 - row["bound"] / bound if bound else 0,
        "times": row["cpu_s"] / max(before["cpu_s"], 0.01),
        "before_s": before["cpu_s"],
    }


def summarize(rows):
    count = len(rows)
    return {
        "mean": sum(row["dearer"] for row in rows) / count,
        "worst": max(row["dearer"] for row in rows),
        "lower": sum(row["lower"] for row in rows) / count,
        "cpu_s": sum(row.get("cpu_s", 0) for row in rows),
        "times": sum(row.get("cpu_s", 0) for row in rows)
        / sum(row.get("before_s", 0.01) for row in rows),
    }


def show(name, rows, is_long):
    for row in rows if is_long else []:
        print(
            f"  {row['problem']:44} {row['cost'] or 0:14.9f} {row['dearer']:+9.3%} {row['lower']:+9.3%}"
            f" {row.get('cpu_s', 0):7.1f} {row['times']:6.2f}"
        )
    for kind in dict.fromkeys(row["kind"] for row in rows):
        of_kind = [row for row in rows if row["kind"] == kind]
        found = summarize(of_kind)
        print(
            f"{name:34} {kind:7} {len(of_kind):3} {found['mean']:+9.3%} {found['worst']:+9.3%}"
            f" {found['lower']:+9.3%} {found['cpu_s']:7.1f} {found['times']:6.2f}",
            flush=True,
        )


def judge(report, name, rows):
    report.add(f"the search without {name}", rows)
    for kind in dict.fromkeys(row["kind"] for row in rows):
        found = summarize([row for row in rows if row["kind"] == kind])
        report.limit(f"{kind}, dearer in the mean", found["mean"], MEAN_COST, "")
        report.limit(f"{kind}, dearer at worst", found["worst"], WORST_COST, "")
        report.limit(f"{kind}, bounds lower in the mean", found["lower"], MEAN_BOUND, "")


def record(rows, reference):
    for row in rows:
        if row["cost"] is not None:
            reference[row["problem"]] = {
                key: row[key] for key in ("hash", "cost", "bound", "cpu_s")
            }
    lines = [f"{json.dumps(name)}: {json.dumps(reference[name])}" for name in sorted(reference)]
    REFERENCE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main():
    parser = make_parser(__doc__)
    add_tool(parser)
    parser.add_argument("--make", action="store_true", help="write the problems")
    parser.add_argument("--record", action="store_true", help="make the result the reference")
    parser.add_argument("--without", default="", help="mechanisms that are left out together")
    parser.add_argument("--each", default="", help="mechanisms that are left out one at a time")
    parser.add_argument("--classes", default="plain,memory,large,axes")
    parser.add_argument("--only", default="", help="problems with this in their names")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "ablation")
    args = parser.parse_args()
    kinds = args.classes.split(",")
    problems = [p for p in list_problems() if p.kind in kinds and args.only in p.name]
    if not problems:
        parser.error(f"no problem of --classes {args.classes} has {args.only!r} in its name")
    if args.make:
        make_problems(problems, args.folder, args.tool)
        return
    reference = json.loads(REFERENCE.read_text()) if REFERENCE.exists() else {}
    report = Report()
    print(f"{'without':34} class       mean dearer  worst     lower   CPU/s  times")
    for names in args.each.split(",") if args.each else [args.without]:
        without = names.split(",") if names else []
        rows = search_all(problems, args.folder, args.tool, without, args.jobs)
        if args.record:
            record(rows, reference)
        rows = [compare(row, reference) for row in rows]
        show(names or "-", rows, not args.each)
        judge(report, names or "nothing", rows)
    report.finish(args)


if __name__ == "__main__":
    main()
