"""Part `collectives`: rate of the collectives' payload against iperf3 on the same links."""

import re

from harness import BUILD
from testbed import format_rate
from testbed.cores import sample_quietly

SIZES = (4 << 20, 16 << 20)
SHARE = 0.92
REPETITIONS = 9
LINE = re.compile(r"^(\S+) +([\d.]+) ms +sent +(\d+) bytes +([\d.]+) Mbit/s", re.M)


def measure_size(bed, size, line_rate):
    tool = [BUILD / "bin/collective-rate", 1, size, REPETITIONS]
    text = sample_quietly(lambda: bed.run(tool)[0])
    return [
        {
            "collective": name,
            "hosts": bed.network.hosts,
            "bytes": size,
            "ms": float(ms),
            "sent": int(sent),
            "share": float(rate) * 1e6 / line_rate,
        }
        for name, ms, sent, rate in LINE.findall(text)
        if "4 B" not in name
    ]


def measure(bed, report):
    links = sample_quietly(bed.network.measure)
    print(f"iperf3: {', '.join(map(format_rate, links))}")
    rows = [row for size in SIZES for row in measure_size(bed, size, min(links))]
    for row in rows:
        print(
            f"{row['collective']:14} of {row['bytes'] / 2**20:.0f} MiB, {row['hosts']} hosts: {row['ms']:7.1f} ms,"
            f" {row['share']:.1%} of iperf3"
        )
    report.add(f"collectives, {bed.network.hosts} hosts", rows)
    least = min(rows, key=lambda row: row["share"])
    report.claim(
        f"collectives of 4 MiB and more on {bed.network.hosts} hosts have {least['share']:.1%} of iperf3's rate or more,"
        f" at least {SHARE:.0%}",
        least["share"] >= SHARE,
    )
