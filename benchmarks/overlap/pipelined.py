"""Part `pipelined`: collectives inside of the sections of a pipeline, on two hosts, each of which has a rank of both points."""

import json
import subprocess

from harness import BUILD, fail

from .steps import Bed, Compiled, Model, read_report

MESH, PLAN, POINTS = "model=2,pipe=2", "tensor-parallel", 2
SIZES = dict(layers=8, width=128, seq=256, batch=16)
# Both points use the link of their host. With devices so many times as slow it is busy for two thirds of the time in
# which a rank computes.
SCALE = 4.0
# (order, accumulate, micro): without overlap, and with it.
WITHOUT, WITH = ("1f1b", 8, 1), ("1f1b", 4, 2)
OF_IDEAL, PREDICTED = 0.9, 0.075
# Between the points of one host.
NODE = "link:\n  node:\n    latency: 5 us\n    bandwidth: 20 GB/s\n    per: device\n"


class PointsBed(Bed):
    """A host has a rank of each point."""

    ranks_per_host = POINTS

    def profile(self, scale=1.0):
        path = super().profile(scale)
        text = path.read_text().replace("{host: 1}", f"{{host: {POINTS}}}")
        path = path.with_name(f"points-{path.name}")
        path.write_text(text.replace("link:\n", NODE, 1))
        return path

    def compile_case(self, model, order, accumulate, micro):
        from tandem.session.compile import compile_module

        compiled = compile_module(
            model.module,
            "step.mlir",
            mesh=MESH,
            plan=PLAN,
            accumulate=accumulate,
            micro=micro,
            order=order,
            cluster=self.profile(SCALE),
        )
        program = self.folder / f"pipelined-{order}-{accumulate}-{micro}.tdm"
        program.write_bytes(compiled.bytes)
        return Compiled(model, PLAN, micro, program, None)

    def predict(self, compiled, is_free=False):
        """Seconds of a step; `is_free`: if the collectives take no time."""
        table = self.price(compiled, SCALE)
        if is_free:
            prices = json.loads(table.read_text())
            for name in ("collectives", "latency"):
                prices[name] = [dict.fromkeys(own, 0.0) for own in prices[name]]
            table = table.with_suffix(".free.json")
            table.write_text(json.dumps(prices))
        predicted = compiled.program.with_suffix(".predicted.json")
        tool = [BUILD / "bin/tandem-trace", "predict", compiled.program, "--times", table]
        done = subprocess.run(
            list(map(str, [*tool, "-o", predicted])), capture_output=True, text=True
        )
        if done.returncode:
            fail(done.stderr.strip())
        return read_report(predicted, skip=0)["total"]["seconds"]


def measure_case(bed, model, case):
    compiled = bed.compile_case(model, *case)
    measured = bed.measure(compiled, SCALE)
    row = {
        "order": case[0],
        "accumulate": case[1],
        "micro": case[2],
        "computation": measured.computation,
        "predicted": bed.predict(compiled),
        "ideal": bed.predict(compiled, is_free=True),
        "measured": measured.seconds,
    }
    ms = {key: f"{1e3 * value:.1f} ms" for key, value in row.items() if isinstance(value, float)}
    print(
        f"{case[0]}, accumulate {case[1]}, micro {case[2]}: measured {ms['measured']}, predicted {ms['predicted']};"
        f" {ms['ideal']} if collectives took no time; a rank computes {ms['computation']}",
        flush=True,
    )
    return row


def measure(bed, report):
    bed = PointsBed(bed.network, bed.folder)
    model = Model("gpt", bed.folder, **SIZES)
    rows = [measure_case(bed, model, case) for case in (WITHOUT, WITH)]
    report.add("pipelined", rows)
    without, duplex = rows
    share = duplex["ideal"] / duplex["measured"]
    report.claim(
        f"two microbatches of each action: {share:.2f} of the ideal, at least {OF_IDEAL}",
        share >= OF_IDEAL,
    )
    report.claim(
        f"they take {duplex['measured'] / without['measured']:.2f} of the time of one after the other",
        duplex["measured"] < without["measured"],
    )
    error = abs(duplex["predicted"] / duplex["measured"] - 1)
    report.claim(
        f"pipelined: predicted within {error:.1%}, at most {PREDICTED:.1%}", error <= PREDICTED
    )
