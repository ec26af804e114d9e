"""Parts `bandwidth`, `hosts` and `batch`: Tandem with the searched plan against its peers.

They repeat figures 8, 6 and 9 of HiDup (Zhang et al., SoCC 2022).
"""

from . import contest
from .pictures import Chart
from .steps import Model

MODELS = ("gpt", "bert_moe")
# The first one is where computation and communication are balanced; claims are made at those CLAIMED.
RATES = ("1gbit", "300mbit", "2gbit")
CLAIMED = ("1gbit", "300mbit")
BATCHES = (8, 16, 32, 64)
# Of figure 6: batch and experts grow with the hosts.
HOSTS = (2, 4)
NAMES = {
    "ddp": "DDP",
    "fsdp": "FSDP2",
    "tensor": "DTensor, Megatron",
    "expert": "DDP, experts by all-to-all",
}


def measure_bandwidth(bed, peers, report, scales):
    rows = []
    for name in MODELS:
        model = Model(name, bed.folder)
        for rate in RATES:
            bed.network.set_rate(rate)
            row = contest.compare(bed, peers, model, scales[name])
            rows.append(row | {"claimed": rate in CLAIMED})
    add(report, "bandwidth", rows)
    for name in MODELS:
        draw_bandwidth(name, rows, bed.folder.parent / f"bandwidth-{name}.svg")


def add(report, title, rows):
    report.add(title, rows)
    for row in rows:
        if row.get("claimed", True):
            contest.claim(report, row)


def select(rows, name, x, key, unit=1e3):
    return sorted((row[x], unit * row[key]) for row in rows if row["model"] == name)


def draw_bandwidth(name, rows, path):
    rows = [row | {"Mbit/s": row["rate"] / 1e6} for row in rows]
    rows = [
        row
        | {
            "max(P, C)": max(row["computation"], row["communication"]),
            "P + C": row["computation"] + row["communication"],
        }
        for row in rows
    ]
    bounds = ("max(P, C)", "P + C")
    lines = {"Tandem": "Tandem, searched", "without overlap": "the same, one queue"}
    lines |= {way: NAMES[way] for way in contest.WAYS[name]}
    series = {title: select(rows, name, "Mbit/s", key) for key, title in lines.items()}
    series |= {bound: select(rows, name, "Mbit/s", bound) for bound in bounds}
    Chart(
        f"{name}: a step on two hosts, by bandwidth",
        "Mbit/s of each link",
        "ms",
        series,
        lines=tuple(lines.values()),
        bounds=bounds,
        logarithmic=(True, True),
    ).write(path)


def measure_batches(bed, peers, report, scales):
    name, rows = "bert_moe", []
    bed.network.set_rate(RATES[0])
    for batch in BATCHES:
        model = Model(name, bed.folder, batch=batch)
        rows.append(contest.compare(bed, peers, model, scales[name]))
    add(report, "batch", rows)
    draw_lines(name, rows, "batch", "sequences of a batch", bed.folder.parent / "batch.svg")


def measure_hosts(bed, peers, report, scales, earlier):
    """`earlier` are the rows of fewer hosts."""
    hosts, rows = bed.network.hosts, list(earlier)
    for name in MODELS:
        sizes = {"batch": 8 * hosts} | ({"experts": 2 * hosts} if name == "bert_moe" else {})
        model = Model(name, bed.folder, **sizes)
        rows.append(contest.compare(bed, peers, model, scales[name]))
    if hosts == HOSTS[-1]:
        add(report, "hosts", rows)
        for name in MODELS:
            draw_lines(name, rows, "hosts", "hosts", bed.folder.parent / f"hosts-{name}.svg")
    return rows


def draw_lines(name, rows, x, label, path):
    lines = {"Tandem": "Tandem, searched"} | {way: NAMES[way] for way in contest.WAYS[name]}
    series = {title: select(rows, name, x, key) for key, title in lines.items()}
    Chart(f"{name}: a step", label, "ms", series, lines=tuple(lines.values())).write(path)
