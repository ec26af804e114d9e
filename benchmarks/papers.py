#!/usr/bin/env python3
"""Published speed-ups beside simulations of the papers' own models on their own machines.

    benchmarks/papers.py [--paper AMP] [--only TEXT] [--check] [--json FILE]

papers.json has the published numbers with their places, the layouts (model, mesh, options, cluster file) and what each
row compares. A layout is captured on the meta device, compiled for the device `sim` and simulated. Where passes have
published times, their order is simulated (papers_orders.py); rows of Oases are priced by its accounting (oases.py). A
row is open where the paper does not give a quantity, which it names.
Cluster files say where their rates come from; docs/rationale/simulation.md says which inputs were not blind.

The last table predicts iterations of HiDup's own code: a mixture of experts of 6 layers of width 1,024, 32 sequences
of 256 tokens for each V100.
"""

import json
import sys
import tempfile
from pathlib import Path

import oases
import papers_orders
from harness import BUILD, ROOT, TOOL, Report, export, make_parser, measure_process

DATA = json.loads((ROOT / "benchmarks/papers.json").read_text())
CLOSE, MOST_OPEN = 0.10, 0.2
# In place of one of its machines: file of examples/clusters, and values.
HALF, SLOW = "nodes.0.devices.V100=4", "link.network.bandwidth=30 Gbit/s"
# A device that overlaps nothing computes and moves data in turns.
TURNS = "interference.computation=2", "interference.collective=2"
# Efficiencies with which a step computes as long as table 4 of HiDup says: by machine, of HiDup and of DeepSpeed, whose
# layers compute longer (seconds: 0.2948, 0.3531; 0.3088, 0.3479; 0.3021, 0.3469).
REACHED = "kinds.V100.rates.f32.efficiency={}"
CLUSTERS = {
    "v100-1x4": ("v100-1x8", [HALF]),
    "v100-1x4-hidup": ("v100-1x8", [HALF, REACHED.format(0.682)]),
    "v100-1x4-deepspeed": ("v100-1x8", [HALF, REACHED.format(0.553)]),
    "v100-2x4-hidup": ("v100-2x4", [REACHED.format(0.646)]),
    "v100-2x4-deepspeed": ("v100-2x4", [REACHED.format(0.562)]),
    "v100-2x4-30g-hidup": ("v100-2x4", [SLOW, REACHED.format(0.663)]),
    "v100-2x4-30g-deepspeed": ("v100-2x4", [SLOW, REACHED.format(0.564)]),
}
# Layers wait for no limit of memory: papers offload, and make values again.
NO_LIMIT = "1000TiB"
HIDUP = "layers=6,width=1024,heads=16,hidden=4096,seq=256,experts={0},batch={1}"
# The GPT-2 that AMP profiled.
WIDTH, VOCABULARY, SEQUENCE = 1024, 52256, 1024
HALF_BYTES, PCIE = 2, 6.25e9  # bytes of an element; B/s between devices of a machine
HIDUP_MACHINES = [("1x4 V100", "v100-1x4", 4), ("2x4 V100", "v100-2x4", 8)]


def find_excess(profile):
    """Seconds by which the forward pass of a split layer is longer than its share of the whole one and its two sums."""
    rows, split = profile["rows"], profile["split"]
    summed = 2 * 2 * (split - 1) / split * SEQUENCE * WIDTH * HALF_BYTES / PCIE
    return max(0.0, profile.get("least", 0) - rows * (profile.get("layer", 0) / split + summed))


def list_products(profile):
    """{(m, n, k): seconds} of a GPT-2 that was profiled: the time of a layer by the FLOPs of its products.

    Its profiles of split layers have the all-reduces in them, so that of the whole layer is divided. What a split
    layer's forward pass takes at least is divided among products of a row: those of it, and as many of the backward
    pass that have their shapes. Without a time of a layer, that of the head alone.
    """
    rows, split = profile["rows"], profile["split"]
    tokens, narrow = rows * SEQUENCE, WIDTH // split
    unit, head = rows * profile.get("layer", 0) / 12 / split, rows * profile["head"]
    more = find_excess(profile) / 24
    found = {}
    # Both weights of the feed-forward network do four times what one of attention does.
    layer = ((narrow, unit, more), (4 * narrow, 4 * unit, 4 * more)) if unit else ()
    for width, seconds, excess in (*layer, (VOCABULARY, head, 0)):
        for shape in ((tokens, width, WIDTH), (tokens, WIDTH, width)):
            found.setdefault(shape, seconds + excess)
        for shape in ((width, WIDTH, tokens), (WIDTH, width, tokens)):
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

    def get_cluster(self, name, others=()):
        key = (name, *others)
        if key not in self.clusters:
            base, values = CLUSTERS.get(name, (name, []))
            path = self.folder / f"cluster{len(self.clusters)}.yaml"
            sets = [word for value in (*values, *others) for word in ("--set", value)]
            base = ROOT / f"examples/clusters/{base}.yaml"
            measure_process([BUILD / "bin/tandem-profile", "--show", base, *sets, "-o", path])
            self.clusters[key] = path
        return self.clusters[key]

    def add_profile(self, cluster, profile):
        """The cluster with measured products."""
        lines = [
            f"    - {{operator: nn.matmul, type: bf16, shape: {m}x{n}x{k}, time: {1e6 * seconds:.6g} us}}"
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
            cluster = self.get_cluster(layout["cluster"], TURNS if layout.get("serial") else ())
            if "profile" in layout:
                cluster = self.add_profile(cluster, layout["profile"])
            self.found[name] = self.simulate(
                self.get_step(step["model"], step["options"]),
                layout["mesh"],
                cluster,
                layout["options"],
            )
        return self.found[name]


def get_total(numbers):
    """Seconds of computation and communication, one after the other: of the slowest rank, and of the one that waits
    least for others, as waiting is part of a collective.
    """
    computes, moves = {}, {}
    for queue in numbers["queues"]:
        seconds = computes if queue["queue"] == "compute" else moves
        seconds[queue["rank"]] = seconds.get(queue["rank"], 0) + queue["busy"]
    return max(computes.values()) + min(moves.values(), default=0)


class Oases:
    """Speed-ups over Megatron."""

    WAYS = "megatron", "merak", "cross-pass", "fine-grained"
    # How many times longer a half of a batch takes beside a collective. At width 1024 with NVLink the efficiency of
    # Oases is 0.978, that of Megatron 0.839, and all systems have about the same throughput: 1.01 times the best one
    # (table 2, section 5.2). This width has no row here.
    SPLITTING = 0.978 / 0.839 / 1.01

    def __init__(self, folder):
        self.folder, self.found = folder, {}

    def get(self, cluster, width, way):
        key = (cluster, width)
        if key not in self.found:
            same, planned = (
                oases.plan(TOOL, self.folder, width, cluster, degrees)[0]
                for degrees in oases.FOUND[width]
            )
            one, *others = (
                oases.price(TOOL, self.folder, width, cluster, each, self.SPLITTING)
                for each in self.WAYS
            )
            gains = {each: one / other for each, other in zip(self.WAYS[1:], others, strict=True)}
            self.found[key] = gains | {"planner": gains["fine-grained"] * same / planned}
        return self.found[key][way]


def predict(row, simulations, orders, planner):
    if "oases" in row:
        return planner.get(*row["oases"])
    if isinstance(row["new"], list):
        return orders.get(*row["old"]) / orders.get(*row["new"])
    new = simulations.get(row["new"])
    if row.get("overlap"):
        return get_total(new) / new["seconds"]
    return simulations.get(row["old"])["seconds"] / new["seconds"]


def compare(report, folder, papers, only):
    rows, simulations, planner = [], Simulations(folder), Oases(folder)
    orders = papers_orders.Orders(folder, DATA)
    report.add("published speed-ups", rows)
    for row in DATA["rows"]:
        what = f"{row['paper']}, {row['where']}: {row['what']}"
        if (papers and row["paper"] not in papers) or only not in what:
            continue
        if "open" in row:
            rows.append({"what": what, "open": row["open"]})
            print(f"{what}\n    open: {row['open']}", flush=True)
            continue
        found, published = predict(row, simulations, orders, planner), row["published"]
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
