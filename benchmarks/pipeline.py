"""Pipelines on emulated hosts: predicted and measured steps, and torch.distributed.pipelining beside them. Needs root.

prediction    five pipelines over four hosts: predicted and measured seconds of a step
peers         losses of torch.distributed.pipelining, computed; then its steps with sleeping modules of the same seconds

Links are of 1 Gbit/s and of 300 Mbit/s (--rate: one of them). Computation is timed (tandem-run --times). Leaves Programs and traces in build/bench/pipeline.
"""

import json
import re
import signal
import statistics
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass

import harness
from harness import BUILD, fail
from overlap.contest import Peers
from overlap.steps import STEPS, Bed, Compiled, Model, read_report
from testbed import Network, TestbedError, format_rate
from testbed.cores import sample_quietly

HOSTS, RATES = 4, ("1gbit", "300mbit")
SIZES = {
    "gpt": dict(layers=8, width=256, heads=4, seq=64, batch=32, dropout=0.0),
    "llama": dict(layers=8, width=256, heads=4, kv_heads=2, hidden=512, seq=64, batch=32),
}
# Devices are so many times as slow as those of overlap/cluster.py, so that steps take some tenths of a second.
SCALE = 2.0
OF_FILE = "_PipelineScheduleRuntime"
SCHEDULES = {
    "1f1b": "Schedule1F1B",
    "gpipe": "ScheduleGPipe",
    "interleaved": "ScheduleInterleaved1F1B",
    "interleaved-zb": "ScheduleInterleavedZeroBubble",
    "zb-v": "ScheduleZBVZeroBubble",
    "dualpipe-v": "ScheduleDualPipeV",
    "zb-h1": OF_FILE,
    "zb-h2": OF_FILE,
    "aiao": OF_FILE,
}
VEES = ("zb-v", "dualpipe-v")
EVEN, UNEVEN, INTERLEAVED = (2, 2, 2, 2), (1, 3, 2, 2), (1,) * 8
CLOSE, OF_CASES, AT_MOST, LEAST_SECONDS = 0.05, 4, 0.08, 0.2
OF_PEER, LOSS_TOLERANCE = 1.02, 1e-5
SMALL = dict(layers=8, width=32, heads=4, kv_heads=2, hidden=64, seq=16, batch=8)


@dataclass(frozen=True)
class Case:
    """A pipeline: `layers` of each section, in the order of the data."""

    model: str
    microbatches: int
    order: str = "1f1b"
    layers: tuple = EVEN

    def __str__(self):
        sections = "+".join(map(str, self.layers))
        return f"{self.model} {sections} layers, {self.order}, {self.microbatches} microbatches"

    def places(self):
        """The point of each section."""
        there = list(range(HOSTS))
        back = there[::-1] if self.order in VEES else there
        return [*there, *back][: len(self.layers)]

    def pins(self):
        import tandem

        first = 0
        for point, count in zip(self.places(), self.layers, strict=True):
            globs = ",".join(f"layers.{layer}.*" for layer in range(first, first + count))
            yield tandem.pin(globs, pipe=f"at({point})")
            first += count


PREDICTED = (
    Case("gpt", 4),
    Case("gpt", 8),
    Case("gpt", 16),
    Case("llama", 8, "gpipe"),
    Case("llama", 8, layers=UNEVEN),
)
BESIDE_PEERS = (
    Case("gpt", 4),
    Case("gpt", 8),
    Case("gpt", 16),
    Case("gpt", 8, "gpipe"),
    Case("gpt", 8, "interleaved", INTERLEAVED),
    Case("gpt", 8, "interleaved-zb", INTERLEAVED),
    Case("gpt", 8, "zb-v", INTERLEAVED),
    Case("gpt", 8, "dualpipe-v", INTERLEAVED),
    Case("gpt", 8, "zb-h1"),
    Case("gpt", 8, "zb-h2"),
    Case("gpt", 8, "aiao", INTERLEAVED),
    Case("llama", 8),
)


class PipelineBed(Bed):
    """A bed whose Programs are pipelines. What parts share is made and measured once."""

    def __init__(self, network, folder):
        super().__init__(network, folder)
        self._compiled, self._measured = {}, {}

    def compile_case(self, case, model):
        """The Program is the same at all rates."""
        key = case, model.data
        if key not in self._compiled:
            self._compiled[key] = self._compile_case(case, model)
        return self._compiled[key]

    def _compile_case(self, case, model):
        from tandem.session.compile import compile_module

        compiled = compile_module(
            model.module,
            "step.mlir",
            mesh=f"pipe={self.network.hosts}",
            accumulate=case.microbatches,
            pins=list(case.pins()),
            order=case.order,
        )
        sections = "".join(map(str, case.layers))
        size = f"{model.sizes['layers']}x{model.sizes['width']}"
        name = f"{case.model}-{size}-{sections}-{case.order}-{case.microbatches}"
        program = self.folder / f"{name}.tdm"
        program.write_bytes(compiled.bytes)
        return Compiled(model, case.order, case.microbatches, program, None)

    def predict(self, compiled):
        """What tandem-trace reports of the predicted timeline of a step."""
        predicted = compiled.program.with_suffix(".predicted.json")
        tool = [BUILD / "bin/tandem-trace", "predict", compiled.program, "-o", predicted]
        done = subprocess.run(
            list(map(str, [*tool, "--times", self.price(compiled, SCALE)])),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            fail(done.stderr.strip())
        return read_report(predicted, skip=0)

    def measure_case(self, case, model):
        """The Program, what is predicted of it, and a sample."""
        key = case, self.network.rate
        if key not in self._measured:
            compiled = self.compile_case(case, model)
            self._measured[key] = (
                compiled,
                self.predict(compiled),
                self.measure(compiled, SCALE),
            )
        return self._measured[key]


def make_models(bed):
    return {name: Model(name, bed.folder, **sizes) for name, sizes in SIZES.items()}


def measure_case(bed, case, model):
    _, predicted, measured = bed.measure_case(case, model)
    bubble = [
        (mine["bubble"], theirs["bubble"])
        for mine, theirs in zip(predicted["points"], measured.report["points"], strict=True)
    ]
    return {
        "case": str(case),
        "predicted": predicted["total"]["seconds"],
        "measured": measured.seconds,
        "least": min(measured.all_seconds),
        "most": max(measured.all_seconds),
        "bubbles predicted, measured": bubble,
    }


def measure_prediction(bed, models, report):
    rows = []
    for case in PREDICTED:
        row = measure_case(bed, case, models[case.model])
        row["error"] = row["predicted"] / row["measured"] - 1
        rows.append(row)
        pairs = ", ".join(f"{a:.1%} {b:.1%}" for a, b in row["bubbles predicted, measured"])
        print(
            f"{row['case']}: predicted {1e3 * row['predicted']:.1f} ms, measured {1e3 * row['measured']:.1f} ms"
            f" ({row['error']:+.1%}; {1e3 * row['least']:.1f} to {1e3 * row['most']:.1f}); bubbles {pairs}",
            flush=True,
        )
    report.add(f"prediction of pipelines, {format_rate(bed.network.rate)}", rows)
    errors = [abs(row["error"]) for row in rows]
    close = sum(error <= CLOSE for error in errors)
    report.claim(
        f"{close} of {len(rows)} predictions are within {CLOSE:.0%}, at least {OF_CASES}",
        close >= OF_CASES,
    )
    report.limit("largest error of a prediction", 100 * max(errors), 100 * AT_MOST, "%")
    least = min(row["measured"] for row in rows)
    report.claim(f"every step takes {LEAST_SECONDS} s and more", least >= LEAST_SECONDS)


def get_actions(bed, compiled, case, report):
    """Seconds of [F, I, W] of each section, and of what each point does besides, as the table has them."""
    table = json.loads(bed.price(compiled, SCALE).read_text())["seconds"]
    actions, update = [[0.0, 0.0, 0.0] for _ in case.layers], [0.0 for _ in table]
    for command in report["commands"]:
        program = command["rank_program"]
        seconds = table[program].get(str(command["id"]), 0.0)
        action = re.match(r"(\d+)([FIW])\d+ ", command["name"])
        if action:
            actions[int(action[1])]["FIW".index(action[2])] += seconds / case.microbatches
        else:
            update[program] += seconds
    return {"actions": actions, "update": update}


def make_order(case):
    """The text of an order for which torch has no class."""
    of_points = (
        ["--sections-per-point", len(case.layers) // HOSTS] if case.layers == INTERLEAVED else []
    )
    tool = [BUILD / "bin/tandem-order", "--make", case.order, "--points", HOSTS]
    command = [*tool, *of_points, "--microbatches", case.microbatches]
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=True
    ).stdout


def ask(peers, case, sizes, **request):
    if SCHEDULES[case.order] == OF_FILE:
        request["order"] = make_order(case)
    return peers.ask(
        schedule=SCHEDULES[case.order],
        sizes=sizes,
        microbatches=case.microbatches,
        layers=case.layers,
        sections=[
            [section for section, point in enumerate(case.places()) if point == host]
            for host in range(HOSTS)
        ],
        **request,
    )


def compare_losses(bed, peers):
    """Ends the process where Tandem's and those of torch.distributed.pipelining differ."""
    model, rows = Model("llama", bed.folder, **SMALL), []
    for order in SCHEDULES:
        layers = EVEN if order in ("1f1b", "gpipe", "zb-h1", "zb-h2") else INTERLEAVED
        case = Case("llama", 8, order, layers)
        compiled = bed.compile_case(case, model)
        command = [BUILD / "bin/tandem-run", compiled.program, "--data", model.data]
        own = re.findall(r"loss (\S+)", bed.run([*command, "--steps", STEPS])[0])
        found = ask(peers, case, model.sizes, steps=STEPS)["losses"]
        largest = max(abs(float(a) - b) / abs(b) for a, b in zip(own, found, strict=True))
        if largest > LOSS_TOLERANCE:
            fail(f"{case}: losses {own} of Tandem and {found} differ, expected equal ones")
        print(f"{case}: {STEPS} losses are those of Tandem within {largest:.1e}")
        rows.append({"case": str(case), "steps": STEPS, "difference": largest})
    return rows


def measure_beside(bed, peers, case, model):
    compiled, predicted, own = bed.measure_case(case, model)
    actions = get_actions(bed, compiled, case, predicted)
    found = sample_quietly(lambda: ask(peers, case, model.sizes, steps=STEPS, **actions))
    theirs = statistics.median(found["seconds"])
    row = {
        "case": str(case),
        "Tandem": own.seconds,
        "torch": theirs,
        "of torch": own.seconds / theirs,
    }
    print(
        f"{case}: Tandem {1e3 * own.seconds:.1f} ms, torch {1e3 * theirs:.1f} ms ({row['of torch']:.3f} of its time)",
        flush=True,
    )
    return row


def measure_peers(bed, peers, models, report):
    if "losses of pipelines, computed" not in report.tables:
        report.add("losses of pipelines, computed", compare_losses(bed, peers))
    rows = [measure_beside(bed, peers, case, models[case.model]) for case in BESIDE_PEERS]
    report.add(f"torch.distributed.pipelining, {format_rate(bed.network.rate)}", rows)
    for row in rows:
        report.limit(f"{row['case']}: of torch's time", row["of torch"], OF_PEER, "")


def main():
    parser = harness.make_parser(__doc__)
    parser.add_argument("--only", action="append", choices=("prediction", "peers"))
    parser.add_argument("--rate", action="append", choices=RATES, help="of each link")
    options = parser.parse_args()
    # So that hosts are removed on the way.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    report, parts = harness.Report(), options.only or ("prediction", "peers")
    try:
        with Network(HOSTS) as network:
            bed = PipelineBed(network, BUILD / "bench/pipeline")
            models = make_models(bed)
            # They wait, and take no time, while Tandem is measured.
            with Peers(bed, "peers.stages") if "peers" in parts else nullcontext() as peers:
                for rate in options.rate or RATES:
                    network.set_rate(rate)
                    print(
                        f"{HOSTS} hosts, links of {format_rate(network.rate)}; computation is timed"
                    )
                    if "prediction" in parts:
                        measure_prediction(bed, models, report)
                    if "peers" in parts:
                        measure_peers(bed, peers, models, report)
    except TestbedError as error:
        fail(error)
    report.finish(options)


if __name__ == "__main__":
    main()
