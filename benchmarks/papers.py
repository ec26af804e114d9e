#!/usr/bin/env python3
"""Published speed-ups beside simulations of the papers' own models on their own machines.

    benchmarks/papers.py [--paper AMP] [--only TEXT] [--check] [--json FILE]

papers.json has the published numbers with their places, the layouts (model, mesh, options, cluster file) and what each
row compares. A layout is captured on the meta device, compiled for the device `sim` and simulated. Rows of Oases are
priced by its accounting (oases.py). A row is open where the paper does not give a quantity, which it names.
Cluster files say where their rates come from; docs/rationale/simulation.md says which inputs were not blind.

The last table predicts iterations of HiDup's own code: a mixture of experts of 6 layers of width 1,024, 32 sequences
of 256 tokens for each V100.
"""

import json
import sys
import tempfile
from pathlib import Path

import oases
from harness import BUILD, ROOT, TOOL, Report, export, make_parser, measure_process

DATA = json.loads((ROOT / "benchmarks/papers.json").read_text())
CLOSE, MOST_OPEN = 0.10, 0.2
# In place of one of its machines: file of examples/clusters, and values.
CLUSTERS = {
    "v100-1x4": ("v100-1x8", ["nodes.0.devices.V100=4"]),
    "v100-2x4-30g": ("v100-2x4", ["link.network.bandwidth=30 Gbit/s"]),
}
# Layers wait for no limit of memory: papers offload, and make values again.
NO_LIMIT = "1000TiB"
HIDUP = "layers=6,width=1024,heads=16,hidden=4096,seq=256,experts={0},batch={1}"
# The GPT-2 that AMP profiled.
WIDTH, VOCABULARY, SEQUENCE = 1024, 52256, 1024
HIDUP_MACHINES = [("1x4 V100", "v100-1x4", 4), ("2x4 V100", "v100-2x4", 8)]


def list_products(profile):
    """{(m, n, k): seconds} of a GPT-2 that was profiled: the time of a layer by the FLOPs of its products.

    Its profiles of split layers have the all-reduces in them, so that of the whole layer is divided.
    """
    rows, split = profile["rows"], profile["split"]
    tokens, narrow = rows * SEQUENCE, WIDTH // split
    unit, head = rows * profile["layer"] / 12 / split, rows * profile["head"]
    found = {}
    # Both weights of the feed-forward network do four times what one of attention does.
    for width, seconds in ((narrow, unit), (4 * narrow, 4 * unit), (VOCABULARY, head)):
        for shape in (
            (tokens, width, WIDTH),
            (tokens, WIDTH, width),
            (width, WIDTH, tokens),
            (WIDTH, width, tokens),
        ):
            found.setdefault(shape, seconds)
    return found


class Simulations:
    """Layouts of papers.json, each simulated when it is first asked for."""

    def __init__(self, folder):
        self.folder, self.steps, self.found, self.clusters = folder, {}, {}, {}

    def get_step(self, model, options):
        key = (model, *options)
        if key not in self.steps:
            self.steps[key] = self.folder / f"step{len(self.steps)}.mlir"
            export(ROOT / f"examples/{model}.py", self.steps[key], *options)
        return self.steps[key]

    def get_cluster(self, name):
        if name not in self.clusters:
            base, values = CLUSTERS.get(name, (name, []))
            path = self.folder / f"{name}.yaml"
            sets = [word for value in values for word in ("--set", value)]
            base = ROOT / f"examples/clusters/{base}.yaml"
            measure_process([BUILD / "bin/tandem-profile", "--show", base, *sets, "-o", path])
            self.clusters[name] = path
        return self.clusters[name]

    def add_profile(self, cluster, profile):
        """The cluster with measured products."""
        lines = [
            f"    - {{operator: nn.matmul, type: f32, shape: {m}x{n}x{k}, time: {1e6 * seconds:.6g} us}}"
            for (m, n, k), seconds in list_products(profile).items()
        ]
        path = self.folder / "profiled.yaml"
        path.write_text(cluster.read_text() + "measured:\n  operators:\n" + "\n".join(lines) + "\n")
        return path

    def simulate(self, step, mesh, cluster, options):
        """The numbers of --json."""
        program, numbers = self.folder / "layout.tdm", self.folder / "layout.json"
        words = ["--mesh", mesh, *options, "--cluster", cluster, "--memory", NO_LIMIT]
        compiler = [BUILD / "bin/tandem-compile", step, *words, "--device", "sim"]
        measure_process([*compiler, "--arch", "sm_80", "-o", program])
        runner = [BUILD / "bin/tandem-run", program, "--device=sim", f"--cluster={cluster}"]
        measure_process([*runner, "--json", numbers])
        return json.loads(numbers.read_text())

    def get(self, name):
        """Of a layout."""
        if name not in self.found:
            layout = DATA["layouts"][name]
            step = DATA["steps"][layout["step"]]
            cluster = self.get_cluster(layout["cluster"])
            if "profile" in layout:
                cluster = self.add_profile(cluster, layout["profile"])
            self.found[name] = self.simulate(
                self.get_step(step["model"], step["options"]),
                layout["mesh"],
                cluster,
                layout["options"],
            )
        return self.found[name]


def get_overlap(numbers):
    """Computation and communication of the first rank one after the other, by the time of a step."""
    queues = [queue for queue in numbers["queues"] if queue["rank"] == numbers["queues"][0]["rank"]]
    return sum(queue["busy"] for queue in queues) / numbers["seconds"]


class Oases:
    """Speed-ups over Megatron. Halves of a batch compute at the speed of the whole."""

    def __init__(self, folder):
        self.folder, self.found = folder, {}

    def get(self, cluster, width, way):
        key = (cluster, width)
        if key not in self.found:
            same, planned = (
                oases.plan(TOOL, self.folder, width, cluster, degrees)[0]
                for degrees in oases.FOUND[width]
            )
            one, cross, fine = (
                oases.price(TOOL, self.folder, width, cluster, each, 1)
                for each in ("megatron", "cross-pass", "fine-grained")
            )
            gains = {"cross-pass": one / cross, "fine-grained": one / fine}
            self.found[key] = gains | {"planner": one / fine * same / planned}
        return self.found[key][way]


def predict(row, simulations, planner):
    if "oases" in row:
        return planner.get(*row["oases"])
    new = simulations.get(row["new"])
    if row.get("overlap"):
        return get_overlap(new)
    return simulations.get(row["old"])["seconds"] / new["seconds"]


def compare(report, folder, papers, only):
    rows, simulations, planner = [], Simulations(folder), Oases(folder)
    report.add("published speed-ups", rows)
    for row in DATA["rows"]:
        what = f"{row['paper']}, {row['where']}: {row['what']}"
        if (papers and row["paper"] not in papers) or only not in what:
            continue
        if "open" in row:
            rows.append({"what": what, "open": row["open"]})
            print(f"{what}\n    open: {row['open']}", flush=True)
            continue
        found, published = predict(row, simulations, planner), row["published"]
        error = found / published - 1
        rows.append({"what": what, "published": published, "predicted": found, "error": error})
        print(f"{what}\n    {published:.3f} published, {found:.3f} ({error:+.1%})", flush=True)
    judge(report, rows)
    return simulations


def judge(report, rows):
    closed = [row for row in rows if "open" not in row]
    share = 1 - len(closed) / max(1, len(rows))
    report.claim(f"{share:.0%} of the rows are open, at most {MOST_OPEN:.0%}", share <= MOST_OPEN)
    close = [row for row in closed if abs(row["error"]) <= CLOSE]
    report.claim(
        f"{len(close)} of {len(closed)} rows are within {CLOSE:.0%}", len(close) == len(closed)
    )


def predict_hidup(report, simulations):
    rows = []
    report.add("iterations of HiDup's code, predicted", rows)
    for machine, name, ranks in HIDUP_MACHINES:
        step = simulations.get_step("bert_moe", ["--set", HIDUP.format(ranks, 32 * ranks)])
        cluster = simulations.get_cluster(name)
        for way, options in {
            "expert-parallel": ["--plan", "expert-parallel"],
            "expert-parallel, duplex": ["--plan", "expert-parallel", "--micro", "2"],
            "searched, duplex": ["--search", "tandem", "--micro", "2"],
        }.items():
            seconds = simulations.simulate(step, f"data={ranks}", cluster, options)["seconds"]
            rows.append({"machine": machine, "way": way, "seconds": seconds})
            print(f"{machine:10} {way:26} {seconds:8.4f} s an iteration", flush=True)


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--paper", action="append", choices=DATA["sources"], help="all if none")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows that have this text")
    options, report = parser.parse_args(), Report()
    with tempfile.TemporaryDirectory() as name:
        simulations = compare(report, Path(name), options.paper, options.only)
        if not options.paper or "HiDup" in options.paper:
            predict_hidup(report, simulations)
    report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
