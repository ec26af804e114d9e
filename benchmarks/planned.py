"""Layouts that the search chooses, on emulated hosts. Needs root and quiet cores; about 13 minutes.

searched      gpt and bert_moe over four hosts, at 1 Gbit/s and 300 Mbit/s: `mesh="auto"` beside Tandem without a
              pipe axis, the fastest schedule of torch.distributed.pipelining, and the best of DDP, FSDP2 and DTensor
unequal       the last host computes half as fast, and the link of the one before has a third of the bandwidth: the
              layout that was found beside the same pipeline in equal parts

Computation is timed (tandem-run --times). `--short` runs one model at one rate beside one schedule of torch.
"""

import json
import re
import signal
import statistics
import subprocess
import sys

import harness
import pipeline
from harness import BUILD, fail
from overlap.cluster import format_devices
from overlap.contest import PORT, WAYS, Peers, get_computation
from overlap.steps import STEPS, Compiled, Model
from pipeline import EVEN, HOSTS, INTERLEAVED, SCALE, SCHEDULES, SIZES, Case, PipelineBed, ask
from testbed import Network, TestbedError, format_rate
from testbed.cores import sample_quietly

RATES = ("1gbit", "300mbit")
MODELS = {
    "gpt": SIZES["gpt"],
    "bert_moe": dict(
        layers=8, width=256, heads=4, hidden=512, experts=4, seq=64, batch=32, dropout=0.0
    ),
}
MICROBATCHES = (4, 8, 16)
SEARCH_SECONDS = 60
# Of schedules of torch: steps of the first look, behind those that warm up, and how many get a whole sample.
FIRST_STEPS, FINALISTS = 2, 3
FASTER, OF_BOUND, CLOSE, OF_CASES = 1.05, 1.03, 0.05, 4
NOISE = 1.01  # of two measurements of one step
UNEQUAL_FASTER, UNEQUAL_CLOSE = 1.25, 0.07
SLOW_HOST, SLOW_LINK, SLOWER, NARROWER = HOSTS - 1, HOSTS - 2, 2, 3


class PlannedBed(PipelineBed):
    """A bed whose layouts are searched."""

    def __init__(self, network, folder):
        super().__init__(network, folder)
        self.actions = {}  # of all rates

    def compile_options(self, model, name, weighs=True, **options):
        """`weighs` says whether pipelines are weighed where the mesh is left open."""
        from tandem.base.native import native
        from tandem.base.options import make_options

        made = make_options(cluster=self.profile(SCALE), **options)
        made.weighs_pipelines = weighs
        compiled = native().compile(model.module.mlir, "step.mlir", made)
        rate = round(self.network.rate / 1e6)
        program = self.folder / f"{model.name}-{rate}-{name}.tdm"
        program.write_bytes(compiled.bytes)
        program.with_suffix(".plan").write_text(compiled.plan)
        return compiled, Compiled(model, name, 1, program, self.simulate(program))

    def search(self, model, name="searched", **options):
        return self.compile_options(
            model,
            name,
            mesh="auto",
            search="tandem",
            search_time_limit=SEARCH_SECONDS,
            **options,
        )

    def simulate(self, program):
        """Predicted seconds of a step."""
        numbers = program.with_suffix(".numbers.json")
        tool = [BUILD / "bin/tandem-run", program, "--device=sim", "--json", numbers]
        done = subprocess.run(
            list(map(str, [*tool, f"--cluster={self.profile(SCALE)}"])),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            fail(done.stderr.strip())
        return json.loads(numbers.read_text())["seconds"]


class UnequalBed(PlannedBed):
    """One host is slow, and another one's link is narrow."""

    def profile(self, scale=1.0):
        """Links as measured while all were alike, with the bandwidth that the network now has."""
        if not hasattr(self, "_link"):
            text = super().profile(scale).read_text()
            found = re.search(
                r"(?m)^  network:\n    latency: (.+)\n    bandwidth: ([\d.]+) (\S+)$", text
            )
            if not found:
                fail(f"{super().profile(scale)}: found no link 'network' with a bandwidth")
            self._link = found[1], float(found[2]), found[3]
            self.network.set_rate(self.network.rate / NARROWER, SLOW_LINK)
        latency, bandwidth, unit = self._link

        def link(share):
            return f"{{latency: {latency}, bandwidth: {bandwidth / share:.6g} {unit}, per: node}}"

        def kind(name, slower):
            return format_devices(scale * slower).replace("kinds:\n  host:", f"  {name}:")

        nodes = [
            f"  - {{count: 1, devices: {{{'slow' if host == SLOW_HOST else 'host'}: 1}},"
            f" link: {{network: {link(NARROWER if host == SLOW_LINK else 1)}}}}}\n"
            for host in range(self.network.hosts)
        ]
        path = self.folder / "cluster-unequal.yaml"
        path.write_text(
            f"name: unequal\nkinds:\n{kind('host', 1)}{kind('slow', SLOWER)}nodes:\n{''.join(nodes)}"
            f"link:\n  network: {link(1)}\n"
        )
        return path


def of_plan(compiled, word):
    """The rests of the lines of a plan that begin so."""
    return re.findall(rf"(?m)^{word} (.+)$", compiled.plan)


# ===----------------------------------------------------------------------=== #
# Beside peers
# ===----------------------------------------------------------------------=== #


def list_cases(model, is_short):
    """All schedules of torch.distributed.pipelining, with several numbers of microbatches."""
    for order in list(SCHEDULES)[: 1 if is_short else None]:
        layers = EVEN if order in ("1f1b", "gpipe", "zb-h1", "zb-h2") else INTERLEAVED
        for microbatches in MICROBATCHES[-1:] if is_short else MICROBATCHES:
            if order == "dualpipe-v" and microbatches < 2 * HOSTS:
                continue
            yield Case(model.name, microbatches, order, layers)


def get_actions(bed, case, model):
    """What actions take in Tandem's Program: it depends on the sections and microbatches, not on their order."""
    key = model.name, tuple(case.places()), case.layers, case.microbatches
    if key not in bed.actions:
        compiled = bed.compile_case(case, model)
        bed.actions[key] = pipeline.get_actions(bed, compiled, case, bed.predict(compiled))
    return bed.actions[key]


def get_bound(case, actions, update):
    """Seconds that no order of these actions is below: of each point what its first section waits for, and its work."""
    forward = [seconds[0] for seconds in actions]
    heads, work = {}, list(update)
    for section, point in enumerate(case.places()):
        heads.setdefault(point, sum(forward[:section]))
        work[point] += case.microbatches * sum(actions[section])
    return max(heads[point] + seconds for point, seconds in enumerate(work))


def measure_torch(bed, peers, model, is_short):
    """{case: seconds}, of which the actions take what Tandem's take. The fastest of a first look get a whole sample.
    What cannot be faster than the best so far is not looked at.
    """
    actions = {case: get_actions(bed, case, model) for case in list_cases(model, is_short)}
    bounds = {case: get_bound(case, **actions[case]) for case in actions}

    def measure(case, steps):
        answer = sample_quietly(lambda: ask(peers, case, model.sizes, steps=steps, **actions[case]))
        return statistics.median(answer["seconds"])

    first = {}
    for case in sorted(bounds, key=bounds.get):
        if not first or bounds[case] < min(first.values()):
            first[case] = measure(case, FIRST_STEPS)
    finalists = sorted(first, key=first.get)[:FINALISTS]
    return {str(case): measure(case, STEPS) for case in finalists}


def measure_data_parallel(bed, peers, model, is_short):
    """{way: seconds} of DDP, FSDP2 and DTensor, with the computation of Tandem's plan of that way."""
    ways = (*WAYS[model.name], "fsdp-kept")[: 1 if is_short else None]
    return {
        way: peers.measure_best(way, model, get_computation(bed, model, way, SCALE))["seconds"]
        for way in ways
    }


def get_printed_bound(compiled, computation):
    """Of a pipeline what the search of orders prints: no order of its sections takes less. Else the mean over ranks of
    what they compute.
    """
    printed = re.search(r"no order less than ([\d.e-]+) s", "\n".join(compiled.remarks))
    return float(printed[1]) if printed else computation


def measure_searched(bed, stages, peers, model, is_short):
    compiled, program = bed.search(model)
    _, alone = bed.search(model, "without-pipe", weighs=False)
    found, without = bed.measure(program, SCALE), bed.measure(alone, SCALE)
    torch = measure_torch(bed, stages, model, is_short)
    torch |= measure_data_parallel(bed, peers, model, is_short)
    best = min(torch, key=torch.get)
    row = {
        "model": model.name,
        "rate": bed.network.rate,
        "layout": compiled.layouts.splitlines()[1].split("  ")[1],
        "predicted": program.cost,
        "measured": found.seconds,
        "bound": get_printed_bound(compiled, found.computation),
        "without pipe": without.seconds,
        "best of torch": torch[best],
        "which": best,
        "all of torch": torch,
    }
    print(
        f"{model.name}, {format_rate(bed.network.rate)}: {row['layout']} {1e3 * found.seconds:.1f} ms"
        f" (predicted {1e3 * program.cost:.1f}, bound {1e3 * row['bound']:.1f}), without pipe"
        f" {1e3 * without.seconds:.1f} ms, torch {1e3 * torch[best]:.1f} ms ({best})",
        flush=True,
    )
    return row


def measure_all(bed, models, rates, is_short):
    rows = []
    # One set of processes for all; they wait, and take no time, while others are measured.
    with Peers(bed, "peers.stages") as stages, Peers(bed, port=PORT + 1) as peers:
        for model in [Model(name, bed.folder, **MODELS[name]) for name in models]:
            for rate in rates:
                bed.network.set_rate(rate)
                rows.append(measure_searched(bed, stages, peers, model, is_short))
    return rows


def claim_searched(report, rows):
    report.add("searched layouts on four hosts", rows)
    for row in rows:
        what = f"{row['model']}, {format_rate(row['rate'])}"
        ratio, of_bound = (
            row["best of torch"] / row["measured"],
            row["measured"] / row["bound"],
        )
        report.claim(
            f"{what}: {ratio:.3f} times as fast as the best of torch, at least {FASTER}; or within"
            f" {OF_BOUND - 1:.0%} of its bound ({of_bound:.3f})",
            ratio >= FASTER or of_bound <= OF_BOUND,
        )
        report.claim(
            f"{what}: {row['measured'] / row['without pipe']:.3f} of the time without a pipe axis,"
            f" at most {NOISE}",
            row["measured"] <= NOISE * row["without pipe"],
        )


# ===----------------------------------------------------------------------=== #
# Hosts that differ
# ===----------------------------------------------------------------------=== #


def measure_unequal(network, folder, is_short):
    bed = UnequalBed(network, folder)
    bed.profile(SCALE)  # sets the links
    sizes = SIZES["gpt"] | (dict(layers=4) if is_short else {})
    model = Model("gpt", bed.folder, **sizes)
    compiled, program = bed.search(model, "unequal")
    sections = of_plan(compiled, "section")
    if not sections:
        fail("unequal hosts: the search found no pipeline, expected one")
    with open(bed.folder / "order.csv", "w") as order:
        order.writelines(row + "\n" for row in of_plan(compiled, "row"))
    mesh = of_plan(compiled, "pipeline")[0].split()[1]
    places = [line.split()[2] for line in sections]
    _, equal = bed.compile_options(
        model,
        "equal",
        mesh=mesh,
        search="tandem",
        search_time_limit=SEARCH_SECONDS,
        accumulate=int(of_plan(compiled, "accumulate")[0]),
        sections=[f"{len(places)}@{','.join(places)}"],
        order=(of_plan(compiled, "order") or [bed.folder / "order.csv"])[0],
    )
    found, other = bed.measure(program, SCALE), bed.measure(equal, SCALE)
    row = {
        "layout": compiled.layouts.splitlines()[1].split("  ")[1],
        "predicted": program.cost,
        "measured": found.seconds,
        "predicted in equal parts": equal.cost,
        "in equal parts": other.seconds,
        "times as fast": other.seconds / found.seconds,
    }
    print(
        f"unequal hosts: {row['layout']} {1e3 * found.seconds:.1f} ms (predicted {1e3 * program.cost:.1f}), in equal"
        f" parts {1e3 * other.seconds:.1f} ms (predicted {1e3 * equal.cost:.1f}): {row['times as fast']:.2f} times as fast",
        flush=True,
    )
    return row


def claim_unequal(report, row):
    report.add("unequal hosts", [row])
    report.claim(
        f"unequal hosts: {row['times as fast']:.2f} times as fast as equal parts, at least {UNEQUAL_FASTER}",
        row["times as fast"] >= UNEQUAL_FASTER,
    )
    error = abs(row["predicted"] / row["measured"] - 1)
    report.limit("unequal hosts: error of the prediction", 100 * error, 100 * UNEQUAL_CLOSE, "%")


def claim_predictions(report, rows):
    """Of all layouts that were measured."""
    close = sum(abs(row["predicted"] / row["measured"] - 1) <= CLOSE for row in rows)
    least = OF_CASES * len(rows) // (OF_CASES + 1)
    report.claim(
        f"{close} of {len(rows)} predictions are within {CLOSE:.0%}, at least {least}",
        close >= least,
    )


def main():
    parser = harness.make_parser(__doc__)
    parser.add_argument("--only", action="append", choices=("searched", "unequal"))
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--rates", nargs="+", choices=RATES, default=list(RATES))
    options = parser.parse_args()
    models, rates = (
        names[: 1 if options.short else None] for names in (options.models, options.rates)
    )
    # So that hosts are removed on the way.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    report, parts, rows = harness.Report(), options.only or ("searched", "unequal"), []
    folder = BUILD / "bench/planned"
    try:
        with Network(HOSTS, RATES[0]) as network:
            if "searched" in parts:
                bed = PlannedBed(network, folder)
                rows += measure_all(bed, models, rates, options.short)
                claim_searched(report, rows)
            if "unequal" in parts:
                network.set_rate(RATES[0])
                rows.append(measure_unequal(network, folder, options.short))
                claim_unequal(report, rows[-1])
    except TestbedError as error:
        fail(error)
    claim_predictions(report, rows)
    report.finish(options)


if __name__ == "__main__":
    main()
