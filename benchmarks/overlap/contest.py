"""Peers and Tandem on a test bed: equal losses first, then times."""

import json
import os
import re
import statistics
import subprocess
import sys

from harness import BUILD, fail
from peers.plans import PLANS
from testbed import format_rate, launch
from testbed.cores import sample_quietly

from .steps import STEPS, Model

# Of DDP, in MiB: the best of them counts.
BUCKETS = (1, 4, 25)
WAYS = {"gpt": ("ddp", "fsdp", "tensor"), "bert_moe": ("ddp", "fsdp", "expert")}
# Where losses are compared: small, so that computing takes no time.
SMALL = {
    "gpt": dict(layers=2, width=32, seq=16, batch=8),
    "bert_moe": dict(layers=2, width=32, hidden=64, seq=16, batch=8),
}
LOSS_TOLERANCE = 1e-5
# Steps of a sample of a peer, behind two that warm up.
PEER_STEPS = 5
NOISE = 1.01
OF_BOUND = 0.85
FALLBACK_BYTES = 4 << 20
# So that Tandem's own jobs can come and go beside them.
PORT = launch.MASTER_PORT + 10


class Peers:
    """A process on each host that waits for requests, of a module such as peers/worker.py."""

    def __init__(self, bed, module="peers.worker", port=PORT):
        self.bed = bed
        self.compared = {}  # rows, by model and rate
        path = os.pathsep.join([str(BUILD / "python"), os.path.dirname(os.path.dirname(__file__))])
        common = {"PYTHONPATH": path, "TORCH_CPP_LOG_LEVEL": "ERROR", "PYTHONWARNINGS": "ignore"}
        self.log = open(bed.folder / "peers.log", "a")  # noqa: SIM115 - closed by __exit__
        self.processes = [
            launch.start(
                bed.network,
                host,
                [sys.executable, "-m", module],
                launch.job_environment(bed.network, host, port) | common,
                prompt=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.log,
                text=True,
            )
            for host in range(bed.network.hosts)
        ]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            launch.end(process)
        self.log.close()

    def ask(self, **request):
        for process in self.processes:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        line = self.processes[0].stdout.readline()
        if not line:
            fail(f"a peer has ended, see {self.log.name}")
        return json.loads(line)

    def measure(self, way, model, seconds, bucket):
        """Median seconds and bytes of a step whose computation takes `seconds`."""
        request = dict(way=way, model=model.name, sizes=model.sizes, steps=PEER_STEPS)
        request |= {"seconds": seconds, "bucket_mb": bucket}
        found = sample_quietly(lambda: self.ask(**request))
        return {
            "seconds": statistics.median(found["seconds"]),
            "bytes": statistics.median(found["bytes"]),
        }

    def measure_best(self, way, model, seconds):
        """The fastest bucket, where there are buckets."""
        buckets = BUCKETS if way in ("ddp", "expert") else (None,)
        rows = [{"bucket": b} | self.measure(way, model, seconds, b or 25) for b in buckets]
        return min(rows, key=lambda row: row["seconds"])


def get_computation(bed, model, way, scale):
    """Seconds of a step's computation by Tandem's own plan of that way, which the peer gets as well."""
    compiled = bed.compile(model, PLANS[way], 1, scale)
    table = json.loads(bed.price(compiled, scale).read_text())
    return sum(table["seconds"][0].values())


def get_balance(bed, model):
    """How many times as slow devices have to be for data parallelism to compute as long as it communicates, as
    predicted.
    """
    table = json.loads(bed.price(bed.compile(model, "data-parallel", 1)).read_text())
    return sum(table["collectives"][0].values()) / sum(table["seconds"][0].values())


def compare(bed, peers, model, scale):
    """Seconds of a step: of Tandem with the searched plan, and of each peer, whose computation takes what Tandem's by
    the same plan would. Parts that need the same row share it; the first one prints it.
    """
    key = model.name, *sorted(model.sizes.items()), bed.network.rate
    if key not in peers.compared:
        peers.compared[key] = _compare(bed, peers, model, scale)
        print_row(peers.compared[key])
    return peers.compared[key]


def _compare(bed, peers, model, scale):
    compiled = bed.compile(model, "searched", 2, scale)
    serial = bed.measure(compiled, scale, one_queue=True)
    duplex = bed.measure(compiled, scale)
    row = {
        "model": model.name,
        "hosts": bed.network.hosts,
        "batch": model.sizes["batch"],
        "rate": bed.network.rate,
        "computation": serial.computation,
        "communication": serial.communication,
        "without overlap": serial.seconds,
        "Tandem": duplex.seconds,
        "predicted": compiled.cost,
    }
    row["of bound"] = max(row["computation"], row["communication"]) / duplex.seconds
    for way in WAYS[model.name]:
        seconds = get_computation(bed, model, way, scale)
        found = peers.measure_best(way, model, seconds)
        row |= {way: found["seconds"], f"{way} bytes": found["bytes"]}
        row |= {f"{way} computation": seconds, f"{way} bucket": found["bucket"]}
    return row


def print_row(row):
    def ms(key):
        return f"{1e3 * row[key]:.0f}"

    ways = ", ".join(
        f"{way} {ms(way)} (P {ms(way + ' computation')})" for way in WAYS[row["model"]]
    )
    print(
        f"{row['model']:8} {row['hosts']} hosts, batch {row['batch']}, {format_rate(row['rate'])}: Tandem {ms('Tandem')} ms"
        f" (P {ms('computation')}, C {ms('communication')}, predicted {ms('predicted')}, without overlap"
        f" {ms('without overlap')}, {row['of bound']:.0%} of the bound); {ways}",
        flush=True,
    )


def claim(report, row):
    """What Tandem has to reach beside the peers."""
    what = f"{row['model']}, {row['hosts']} hosts, {row['batch']} sequences, {format_rate(row['rate'])}"
    best = min(WAYS[row["model"]], key=lambda way: row[way])
    report.claim(
        f"{what}: Tandem is not slower than the best peer, {best} ({row['Tandem'] / row[best]:.2f} of its time)",
        row["Tandem"] <= NOISE * row[best],
    )
    report.claim(
        f"{what}: Tandem reaches {row['of bound']:.0%} of what max(P, C) allows, at least {OF_BOUND:.0%}",
        row["of bound"] >= OF_BOUND,
    )


def check(bed, peers, report):
    """That Tandem and its peers compute the same, before anything is compared."""
    report.add(
        "losses, computed",
        [row for name in WAYS for row in compare_losses(bed, peers, name, bed.folder)],
    )
    print_fallbacks(peers, report)


def print_fallbacks(peers, report):
    """What gloo sends for a collective, beside what has to be sent."""
    found = peers.ask(way="bytes", bytes=FALLBACK_BYTES)
    rows = [{"collective": name, "sent": a, "needed": b} for name, (a, b) in found.items()]
    for row in rows:
        times = row["sent"] / row["needed"]
        text = f", {times:.1f} times what is needed: it falls back" if times > 1.3 else ""
        print(f"gloo: {row['collective']} sends {row['sent'] / 1e6:.2f} MB{text}")
    report.add("fallbacks of gloo", rows)


def compare_losses(bed, peers, name, folder):
    """Losses of Tandem and of each peer, computed; ends the process where they differ."""
    model, rows = Model(name, folder, **SMALL[name]), []
    for way in WAYS[name]:
        compiled = bed.compile(model, PLANS[way], 2)
        texts = bed.run(
            [BUILD / "bin/tandem-run", compiled.program, "--data", model.data, "--steps", STEPS]
        )
        own = [float(loss) for loss in re.findall(r"loss (\S+)", texts[0])]
        found = peers.ask(
            way=way, model=name, sizes=model.sizes, steps=STEPS, seconds=None, bucket_mb=25
        )["losses"]
        if len(own) != len(found):
            fail(
                f"{name} {way}: found {len(own)} and {len(found)} losses, expected {STEPS} of both"
            )
        largest = max(abs(a - b) / abs(b) for a, b in zip(own, found, strict=True))
        if largest > LOSS_TOLERANCE:
            fail(f"{name} {way}: losses {own} of Tandem and {found} differ, expected equal ones")
        print(f"{name} {way}: {STEPS} losses are those of Tandem within {largest:.1e}")
        rows.append({"model": name, "way": way, "steps": STEPS, "difference": largest})
    return rows
