"""Part `prediction`: predicted against measured seconds of a step."""

from testbed import format_rate

from .pictures import Chart
from .steps import Model

RATES = ("1gbit", "300mbit")
MICRO = (1, 2, 4)
PLANS = {
    "gpt": ("data-parallel", "zero", "tensor-parallel", "searched"),
    "bert_moe": ("data-parallel", "zero", "expert-parallel", "searched"),
}
CLOSE, OF_CASES = 0.10, 0.8
BEST = 1.05
CORRELATION = 0.95


def rank(values):
    """Places of values in their order; equal ones do not occur in measurements."""
    order = sorted(range(len(values)), key=values.__getitem__)
    places = [0] * len(values)
    for place, index in enumerate(order):
        places[index] = place
    return places


def correlate_ranks(a, b):
    """Spearman's coefficient."""
    differences = sum((x - y) ** 2 for x, y in zip(rank(a), rank(b), strict=True))
    count = len(a)
    return 1 - 6 * differences / (count * (count**2 - 1))


def measure_cases(bed, model, scale):
    rows = []
    for plan in PLANS[model.name]:
        for micro in MICRO:
            compiled = bed.compile(model, plan, micro, scale)
            found = bed.measure(compiled, scale)
            rows.append(
                {
                    "model": model.name,
                    "rate": bed.network.rate,
                    "plan": plan,
                    "micro": micro,
                    "predicted": compiled.cost,
                    "measured": found.seconds,
                }
            )
    return rows


def print_rows(rows):
    for row in rows:
        error = row["predicted"] / row["measured"] - 1
        print(
            f"{row['model']:8} {format_rate(row['rate']):10} {row['plan']:15} micro {row['micro']}: predicted"
            f" {1e3 * row['predicted']:6.1f} ms, measured {1e3 * row['measured']:6.1f} ms ({error:+.1%})",
            flush=True,
        )


def measure(bed, report, scales):
    """`scales` per model: how slow devices are, the same at all rates."""
    rows = []
    for name in PLANS:
        model = Model(name, bed.folder)
        for rate in RATES:
            bed.network.set_rate(rate)
            found = measure_cases(bed, model, scales[name])
            print_rows(found)
            rows += found
    report.add("prediction", rows)
    claim(report, rows)
    draw(rows, bed.folder.parent / "prediction.svg")


def claim(report, rows):
    close = [abs(row["predicted"] / row["measured"] - 1) <= CLOSE for row in rows]
    share = sum(close) / len(close)
    report.claim(
        f"{share:.0%} of {len(close)} predictions are within {CLOSE:.0%}, at least {OF_CASES:.0%}",
        share >= OF_CASES,
    )
    for name, rate in sorted({(row["model"], row["rate"]) for row in rows}):
        group = [row for row in rows if (row["model"], row["rate"]) == (name, rate)]
        fastest = min(row["measured"] for row in group)
        best = min(group, key=lambda row: row["predicted"])
        times = best["measured"] / fastest
        report.claim(
            f"{name}, {format_rate(rate)}: what is predicted to be best ({best['plan']}, micro {best['micro']}) takes"
            f" {times:.2f} times what the fastest takes, at most {BEST}",
            times <= BEST,
        )
    columns = [[row[key] for row in rows] for key in ("predicted", "measured")]
    coefficient = correlate_ranks(*columns)
    report.claim(
        f"rank correlation of predictions and measurements {coefficient:.3f}, at least {CORRELATION}",
        coefficient >= CORRELATION,
    )


def draw(rows, path):
    series = {}
    for row in rows:
        point = 1e3 * row["predicted"], 1e3 * row["measured"]
        series.setdefault(f"{row['model']} {row['plan']}", []).append(point)
    ends = [value for values in series.values() for point in values for value in point]
    series["predicted = measured"] = [(min(ends),) * 2, (max(ends),) * 2]
    Chart(
        "Seconds of a step, predicted and measured",
        "predicted, ms",
        "measured, ms",
        series,
        bounds=("predicted = measured",),
        logarithmic=(True, True),
    ).write(path)
