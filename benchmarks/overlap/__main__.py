"""Communication that is hidden, measured on emulated hosts, beside DDP, FSDP2 and DTensor. Needs root.

collectives   rates of collectives beside iperf3's, two and four hosts
overlap       at P = C: speed-up against one queue, share that is hidden, bytes; two and four hosts
computed      a step that computes, and is not timed
peers         that losses are equal, and what gloo falls back to; then Tandem beside its peers
bandwidth       on two hosts, by the rate of the links (figure 8 of HiDup)
batch           by the size of the batch (figure 9)
hosts           by the number of hosts (figure 6)
prediction    predicted and measured seconds of a step: models, plans, rates, microbatches
pipelined     collectives inside of the sections of a pipeline, tensor-parallel on two hosts
recomputed    layers in checkpoints, tensor-parallel on two hosts; only if it is named (make bench-oases)

Leaves Programs, traces and cluster files in build/bench/overlap, pictures in build/bench.
"""

import os
import signal
import sys
import time

import harness
from harness import BUILD
from testbed import Network, TestbedError, format_rate
from testbed.cores import is_shared, measure_cores, sample_quietly

from . import collectives, contest, hiding, pipelined, prediction, recomputed, sweeps
from .steps import Bed, Model

RATE = "1gbit"
PARTS = (
    "collectives",
    "overlap",
    "computed",
    "peers",
    "bandwidth",
    "batch",
    "hosts",
    "prediction",
    "pipelined",
)
# What a part needs of the time that computation takes.
BALANCED = ("peers", "bandwidth", "batch", "hosts", "prediction")


def parse():
    parser = harness.make_parser(__doc__)
    parser.add_argument(
        "--only",
        action="append",
        choices=(*PARTS, "recomputed"),
        help="this part; may be given again",
    )
    return parser.parse_args()


def describe_machine():
    ratio = sample_quietly(lambda: measure_cores(BUILD / "bin/core-rate"))
    shared = is_shared(ratio)
    print(
        f"{harness.get_cpu_name()}, {os.cpu_count()} CPUs; two compute {ratio:.2f} times what one does"
    )
    if shared:
        print("shared core")
    print("computation is replaced by timed commands, except where it says computed")
    return {
        "CPU": harness.get_cpu_name(),
        "CPUs": os.cpu_count(),
        "two CPUs": ratio,
        "shared": shared,
    }


def describe_bed(bed, report):
    links = sample_quietly(bed.network.measure)
    text = ", ".join(map(format_rate, links))
    print(f"{bed.network.hosts} hosts, links of {format_rate(bed.network.rate)}; iperf3: {text}")
    report.add(f"links, {bed.network.hosts} hosts", [{"rate": bed.network.rate, "iperf3": links}])


class Benchmark:
    """The parts, and what they hand on."""

    def __init__(self, parts, report, folder):
        self.parts, self.report, self.folder = parts, report, folder
        self.scales, self.rows_by_hosts = {}, []

    def run(self):
        by_hosts = {2: self._on_two, 4: self._on_four}
        if set(self.parts) <= {"pipelined", "recomputed"}:
            del by_hosts[4]
        for hosts, measure in by_hosts.items():
            with Network(hosts, RATE) as network:
                bed = Bed(network, self.folder)
                describe_bed(bed, self.report)
                for part in ("collectives", "overlap"):
                    if part in self.parts:
                        module = {"collectives": collectives, "overlap": hiding}[part]
                        self._timed(part, lambda m=module, b=bed: m.measure(b, self.report))
                measure(bed)

    def _timed(self, part, measure):
        begin = time.monotonic()
        measure()
        print(f"({part}: {time.monotonic() - begin:.0f} s)", flush=True)

    def _balance(self, bed):
        """Devices are as fast in all parts that compare peers, plans and rates."""
        for name in sweeps.MODELS:
            if name not in self.scales:
                self.scales[name] = contest.get_balance(bed, Model(name, self.folder))

    def _on_two(self, bed):
        if "computed" in self.parts:
            self._timed("computed", lambda: hiding.measure_computed(bed, self.report))
        if "pipelined" in self.parts:
            self._timed("pipelined", lambda: pipelined.measure(bed, self.report))
        if "recomputed" in self.parts:
            self._timed("recomputed", lambda: recomputed.measure(bed, self.report))
        if set(BALANCED) & set(self.parts):
            self._balance(bed)
        if {"peers", "bandwidth", "batch", "hosts"} & set(self.parts):
            with contest.Peers(bed) as peers:
                self._beside_peers(bed, peers)
        if "prediction" in self.parts:
            self._timed("prediction", lambda: prediction.measure(bed, self.report, self.scales))

    def _beside_peers(self, bed, peers):
        if "peers" in self.parts:
            self._timed("peers", lambda: contest.check(bed, peers, self.report))
        arguments = bed, peers, self.report, self.scales
        if "bandwidth" in self.parts:
            self._timed("bandwidth", lambda: sweeps.measure_bandwidth(*arguments))
        if "batch" in self.parts:
            self._timed("batch", lambda: sweeps.measure_batches(*arguments))
        if "hosts" in self.parts:
            self._timed("hosts", lambda: self._add_hosts(arguments))

    def _add_hosts(self, arguments):
        self.rows_by_hosts = sweeps.measure_hosts(*arguments, self.rows_by_hosts)

    def _on_four(self, bed):
        if "hosts" in self.parts:
            with contest.Peers(bed) as peers:
                arguments = bed, peers, self.report, self.scales
                self._timed("hosts", lambda: self._add_hosts(arguments))


def main():
    options = parse()
    # So that hosts are removed on the way.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    begin, report = time.monotonic(), harness.Report()
    try:
        report.add("machine", [describe_machine()])
        Benchmark(options.only or PARTS, report, BUILD / "bench/overlap").run()
    except TestbedError as error:
        harness.fail(error)
    print(f"all parts: {(time.monotonic() - begin) / 60:.1f} minutes")
    report.finish(options)


if __name__ == "__main__":
    main()
