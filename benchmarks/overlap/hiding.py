"""Part `overlap`: hidden share of the communication where it takes as long as the computation."""

from dataclasses import dataclass

from .steps import Model, draw

# (model, plan, microbatches, sizes). Many tokens for few parameters, so that most of what experts communicate are tokens; attention
# that computes as long as the feed-forward, since the collectives behind both are alike; and many layers, since what
# the first gathers and the last scatters has nothing beside it.
CASES = (
    ("bert_moe", "expert-parallel", 2, dict(layers=8, width=128, hidden=512, batch=32)),
    ("gpt", "tensor-parallel", 4, dict(layers=8, width=128, seq=256, batch=8)),
    ("gpt", "zero", 2, dict(layers=8, width=256)),
)
SPEED_UP = {2: 1.6, 4: 1.7}
HIDDEN = 0.85
# The table of times that makes P equal to C is found in so many rounds, or once both are so close.
ROUNDS, CLOSE = 3, 0.05
# A step is not slower than another if it takes at most so many times as long: what samples differ by.
NOISE = 1.01
# Sums of at most 1 KiB go to all processes at once, which is more bytes on more than two hosts and less time.
MORE_BYTES = 1.01


@dataclass
class Balanced:
    scale: float
    compiled: object
    serial: object


def balance(bed, model, plan, micro):
    """Makes devices as fast as makes P equal to C, both measured without overlap."""
    scale = 1.0
    for _ in range(ROUNDS):
        compiled = bed.compile(model, plan, micro, scale)
        serial = bed.measure(compiled, scale, one_queue=True)
        ratio = serial.communication / serial.computation
        if abs(ratio - 1) < CLOSE:
            break
        scale *= ratio
    return Balanced(scale, compiled, serial)


def measure_case(bed, model, plan, micro):
    found = balance(bed, model, plan, micro)
    scale, serial = found.scale, found.serial
    duplex = bed.measure(found.compiled, scale)
    one_strand = bed.measure(bed.compile(model, plan, 1, scale), scale)
    best_one_strand = bed.measure(bed.compile(model, "searched", 1, scale), scale)
    searched = bed.measure(bed.compile(model, "searched", micro, scale), scale)
    name = f"timeline-{model.name}-{plan}-{bed.network.hosts}"
    trace = found.compiled.program.with_suffix("").name
    draw(bed.folder / f"{trace}.trace.json", bed.folder / f"{name}.svg")
    return {
        "model": model.name,
        "plan": plan,
        "micro": micro,
        "hosts": bed.network.hosts,
        "computation": serial.computation,
        "communication": serial.communication,
        "without overlap": serial.seconds,
        "with overlap": duplex.seconds,
        "speed-up": serial.seconds / duplex.seconds,
        "hidden": duplex.hidden_of_smaller,
        "predicted": found.compiled.cost,
        "one strand": one_strand.seconds,
        "searched": searched.seconds,
        "searched, one strand": best_one_strand.seconds,
        "bytes": duplex.sent,
        "bytes of the plan": duplex.planned,
    }


def print_row(row):
    ms = {key: f"{1e3 * value:.0f} ms" for key, value in row.items() if isinstance(value, float)}
    print(
        f"{row['model']} {row['plan']}, micro {row['micro']}, {row['hosts']} hosts: P {ms['computation']}, C {ms['communication']};"
        f" without overlap {ms['without overlap']}, with {ms['with overlap']}"
        f" ({row['speed-up']:.2f} times; predicted {ms['predicted']}); {row['hidden']:.0%} of min(P, C) hidden\n"
        f"  one strand {ms['one strand']}; searched {ms['searched']}, with one strand {ms['searched, one strand']};"
        f" at most {row['bytes'] / 1e6:.3f} MB sent by a rank, {row['bytes of the plan'] / 1e6:.3f} MB planned",
        flush=True,
    )


def claim(report, row):
    what = f"{row['model']} {row['plan']}, {row['hosts']} hosts"
    speed_up, hosts = row["speed-up"], row["hosts"]
    report.claim(
        f"{what}: {speed_up:.2f} times as fast as without overlap, at least {SPEED_UP[hosts]}",
        speed_up >= SPEED_UP[hosts],
    )
    if hosts == 2:
        report.claim(
            f"{what}: {row['hidden']:.0%} of min(P, C) hidden, at least {HIDDEN:.0%}",
            row["hidden"] >= HIDDEN,
        )
    report.claim(
        f"{what}: several strands are not slower than one",
        row["with overlap"] <= NOISE * row["one strand"],
    )
    report.claim(
        f"{what}: it is not slower than the best plan with one strand",
        row["with overlap"] <= NOISE * row["searched, one strand"],
    )
    report.claim(
        f"{what}: the plan searched for several strands is not slower than that for one",
        row["searched"] <= NOISE * row["searched, one strand"],
    )
    report.claim(
        f"{what}: no more bytes than planned, but for sums of at most 1 KiB",
        row["bytes"] <= MORE_BYTES * row["bytes of the plan"],
    )


def measure_computed(bed, report):
    """Steps that compute. Hosts that share a core compute at half its speed beside each other: no claim is made."""
    rows = []
    for name, plan, micro, sizes in CASES:
        model = Model(name, bed.folder, **sizes)
        compiled = bed.compile(model, plan, micro)
        serial = bed.measure(compiled, one_queue=True, timed=False)
        duplex = bed.measure(compiled, timed=False)
        row = {"model": name, "plan": plan, "without overlap": serial.seconds}
        row |= {"with overlap": duplex.seconds, "hidden": duplex.hidden_of_smaller}
        row |= {"computation": serial.computation, "communication": serial.communication}
        rows.append(row)
        print(
            f"computed: {name} {plan}: P {1e3 * serial.computation:.0f} ms, C {1e3 * serial.communication:.0f} ms;"
            f" without overlap {1e3 * serial.seconds:.0f} ms, with {1e3 * duplex.seconds:.0f} ms"
            f" ({serial.seconds / duplex.seconds:.2f} times)",
            flush=True,
        )
    report.add("computed", rows)


def measure(bed, report):
    rows = []
    for name, plan, micro, sizes in CASES:
        rows.append(measure_case(bed, Model(name, bed.folder, **sizes), plan, micro))
        print_row(rows[-1])
    report.add(f"overlap, {bed.network.hosts} hosts", rows)
    for row in rows:
        claim(report, row)
