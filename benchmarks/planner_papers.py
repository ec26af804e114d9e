#!/usr/bin/env python3
"""What planners of papers measured, beside what `tandem-plan` predicts.

    benchmarks/planner_papers.py [--check] [--json FILE] [--data ../shared/data/pipeline]

AMP: layouts that it measured on GPUs, priced from the layer times that it profiled, the bandwidths of its clusters and
the shapes of its models. No constant is fitted. Spearman's rank correlation with the measured seconds, and the place of
the fastest layout among ours. Fold3D: the speed-up of AIAO over Megatron's interleaved schedule, simulated with the
forward and backward times, the degrees and the whole gradient sum of Megatron that the paper prints; and the step of a
searched order by AIAO's.

Zero Bubble: bubbles of searched orders for the times of its table 9, beside its own schedules of table 5. A microbatch
holds what its table 1 says of a layer: B frees some of it, W the rest. `W` is the same where W alone frees memory. The
last column has two sections of each point in a V and half of the memory of 1F1B.
"""

import json
import pathlib
import re
import tempfile

from harness import BUILD, ROOT, TOOL, Report, make_parser, measure_process

ORDER_TOOL = BUILD / "bin/tandem-order"
KEYS = "pp", "dp", "mp", "micro_batch"

# Hidden size and heads of Zero Bubble's models (table 3), for sequences of 1,024.
ZERO_BUBBLE_MODELS = {
    "1.5B": (2304, 24),
    "6.2B": (4096, 32),
    "14.6B": (5120, 40),
    "28.3B": (6144, 48),
}
ORDER_SECONDS = 5  # of one search
ROUNDING = 5e-5  # of the paper's rates

HIDDEN, SEQUENCE, VOCABULARY, BOTTOM = 1024, 1024, 52256, 9
FLOAT = 4  # bytes: AMP's models and links count f32
EXPERIMENTS = {
    # Kinds of each node, model, targets.
    "homogeneous": (["G4"] * 4, "gpt2", 0.92),
    "het_cluster": (["P3"] * 3 + ["G4"], "gpt2", 0.50),
    "het_model": (["P3"] * 4, "transgan", 0.89),
}


def describe_layers(model):
    """Of each layer of AMP's profile: bytes of parameters, and bytes of one row that leave it and that devices sum."""
    if model == "transgan":
        kept = HIDDEN * BOTTOM**2 * FLOAT  # upsampling keeps the number of elements
        layers = [[0, kept, 0] for _ in range(56)]
        for first, width in (3, HIDDEN), (41, HIDDEN // 64):
            for i in range(first, first + 12):
                layers[i] = [12 * width**2 * FLOAT, kept, kept]
        return layers
    row = SEQUENCE * HIDDEN * FLOAT
    layers = [[0, row, 0] for _ in range(30)]
    for i in range(2, 26):
        layers[i] = [12 * HIDDEN**2 * FLOAT, row, row]
    layers[0][0] = layers[28][0] = HIDDEN * VOCABULARY * FLOAT
    layers[28][1] = layers[29][1] = SEQUENCE * VOCABULARY * FLOAT
    return layers


def write_amp(data, experiment, named=True):
    kinds, model, _ = EXPERIMENTS[experiment]
    cluster = data["clusters"][experiment]
    lines = [f"batch {cluster['batch']}", *(f"kind {kind}" for kind in sorted(set(kinds)))]
    for i, kind in enumerate(kinds):
        lines.append(f"nodes 1 {kind} {cluster['gpus']}")
        lines.append(f"link node device bandwidth {cluster['intra_gbit'][i] * 1e9 / 8:.0f}")
        lines.append(f"link network node bandwidth {cluster['inter_gbit'][i] * 1e9 / 8:.0f}")
    layers = describe_layers(model)
    for i, (weights, moved, reduced) in enumerate(layers):
        # Two sums in each pass: behind attention and behind the MLP.
        tied = "tied 0 " if model == "gpt2" and i == 28 else ""
        lines.append(f"layer {i} {tied}weights {weights} bytes {moved} reduced {2 * reduced}")
        for kind in sorted(set(kinds)):
            for degree in 1, 2, 4:
                seconds = data["profiles_forward_seconds"][f"{model}_{kind}_{degree}"][i]
                lines.append(
                    f"layer {i} kind {kind} model {degree} F {seconds!r} I {seconds!r} W {seconds!r}"
                )
    for case in data["cases"] if named else []:
        given = case["input"]
        if case["experiment"] == experiment:
            lines.append(
                f"layout pipe {given['pp']} data {given['dp']} model {given['mp']} rows {given['micro_batch']}"
            )
    return "\n".join(lines) + "\n"


def rank(values):
    order = sorted(values)
    return [order.index(value) + (order.count(value) - 1) / 2 for value in values]


def get_spearman(first, second):
    a, b = rank(first), rank(second)
    mean = (len(a) - 1) / 2
    cov = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    return cov / (sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b)) ** 0.5


def plan(text, folder, *options):
    path = folder / "layouts.txt"
    path.write_text(text)
    return measure_process([TOOL, "--layouts", path, *options])


def predict(text):
    """Seconds by degrees and rows."""
    lines = re.findall(
        r"(?m)^pipe=(\d+),data=(\d+),model=(\d+) rows=(\d+).*? ([\d.]+) +[\d.]+ %", text
    )
    return {tuple(map(int, numbers)): float(seconds) for *numbers, seconds in lines}


def check_amp(data, folder, report):
    rows, claims = [], []
    for experiment, (_, _, target) in EXPERIMENTS.items():
        found = predict(plan(write_amp(data, experiment), folder, "--explain")["text"])
        cases = [case for case in data["cases"] if case["experiment"] == experiment]
        ours = [found[tuple(case["input"][key] for key in KEYS)] for case in cases]
        measured = [case["measured_seconds"] for case in cases]
        theirs = [case["amp_code"]["predicted_seconds"] for case in cases]
        place = sorted(ours).index(ours[measured.index(min(measured))]) + 1
        best = plan(write_amp(data, experiment, False), folder)
        spearman = get_spearman(ours, measured)
        rows.append(
            {
                "experiment": experiment,
                "layouts": len(cases),
                "spearman_amp": get_spearman(theirs, measured),
            }
            | {"spearman": spearman, "place_of_fastest": place, "search_s": best["process_s"]}
        )
        print(
            f"{experiment:12} {len(cases):3} layouts, Spearman {rows[-1]['spearman_amp']:.3f} of AMP, {spearman:.3f} of "
            f"ours; the fastest has place {place}; search {best['process_s']:.2f} s: "
            + " ".join(best["text"].splitlines()[1].split()[:3])
        )
        claims.append(
            (f"{experiment}: Spearman {spearman:.3f}, at least {target}", spearman >= target)
        )
        claims.append(
            (f"{experiment}: the fastest layout has place {place}, at most 2", place <= 2)
        )
        claims.append((f"{experiment}: search below 10 s", best["process_s"] < 10))
    report.add("amp", rows)
    for text, holds in claims:
        report.claim(text, holds)


def get_costs(row, name):
    """Milliseconds of a section's F and backward pass for a microbatch, and of its sum of gradients."""
    times, segments = row["fold3d" if name == "aiao" else "megatron"], row["segments"]
    passes = (
        times[key] / (row["microbatches"] * segments) for key in ("forward_ms", "backward_ms")
    )
    return *passes, row["megatron"]["dp_sync_exposed_ms"] / segments


def simulate(row, name, folder):
    """Milliseconds of a schedule with the times of a row, without and with sums of gradients beside it."""
    points, sections, microbatches = row["pipeline"], row["segments"], row["microbatches"]
    sizes = ["--points", points, "--microbatches", microbatches, "--sections-per-point", sections]
    order = folder / "order.csv"
    order.write_text(measure_process([ORDER_TOOL, "--make", name, *sizes])["text"])
    forward, backward, total = get_costs(row, name)
    costs = f"{forward},{backward / 2},{backward / 2},0,{total}"
    text = measure_process([ORDER_TOOL, order, "--costs", costs])["text"]
    makespan = float(re.search(r"(?m)^makespan (\S+)", text)[1])
    return makespan, float(re.search(r"(?m)^gradient sums end (\S+)", text)[1])


def search_fold3d(row, folder):
    """Milliseconds of an order that is searched for AIAO's sections."""
    forward, backward, total = get_costs(row, "aiao")
    points, number = row["pipeline"], row["pipeline"] * row["segments"]
    lines = [f"microbatches {row['microbatches']}"]
    lines += [
        f"section {i} point {i % points} F {forward!r} I {backward / 2!r} W {backward / 2!r} sum {total!r}"
        for i in range(number)
    ]
    lines += [f"edge {i} {i + 1}" for i in range(number - 1)]
    path = folder / "schedule.txt"
    path.write_text("\n".join(lines) + "\n")
    run = measure_process([TOOL, "--schedule", path, "-o", folder / "order.csv"])
    return float(re.search(r"(?m)^# cost (\S+)", run["text"])[1])


def check_fold3d(data, folder, report):
    rows, claims = [], []
    for row in data["rows"]:
        # Megatron sums all gradients behind the last backward pass.
        megatron = simulate(row, "interleaved", folder)[0] + row["megatron"]["dp_sync_exposed_ms"]
        fold3d = simulate(row, "aiao", folder)[1]
        searched = search_fold3d(row, folder)
        measured = row["fold3d"]["tflops_per_gpu"] / row["megatron"]["tflops_per_gpu"]
        error = megatron / fold3d / measured - 1
        rows.append(
            {
                "row": row["name"],
                "measured": measured,
                "predicted": megatron / fold3d,
                "error": error,
                "searched_by_aiao": searched / fold3d,
            }
        )
        print(
            f"{row['name']:16} speed-up {measured:.3f} measured, {megatron / fold3d:.3f} predicted, {100 * error:+.1f} %; a"
            f" searched order takes {searched / fold3d:.3f} of AIAO's step"
        )
        claims.append((f"{row['name']}: speed-up within 10 %", abs(error) <= 0.10))
        claims.append(
            (f"{row['name']}: the searched order is as fast", searched <= fold3d * 1.000001)
        )
    report.add("fold3d", rows)
    for text, holds in claims:
        report.claim(text, holds)


def get_kept(model):
    """What W needs, as a share of what the backward pass does: 32 sbh of sb (34 h + 5 as), table 1."""
    hidden, heads = ZERO_BUBBLE_MODELS[model]
    return 32 * hidden / (34 * hidden + 5 * heads * SEQUENCE)


def write_schedule(times, points, microbatches, limit, kept=1.0, vee=False):
    """A section of each point, or two in a V; a microbatch holds 1 on each point."""
    forward, backward, weight, comm = times
    each = 2 if vee else 1
    lines = [f"microbatches {microbatches}", f"limit {limit}", "objective span"]
    for i in range(each * points):
        point = min(i, 2 * points - 1 - i) if vee else i
        lines.append(
            f"section {i} point {point} F {forward / each!r} I {backward / each!r} W {weight / each!r} "
            f"activations {1 / each} kept {kept / each!r}"
        )
    lines += [f"edge {i} {i + 1} comm {comm}" for i in range(each * points - 1)]
    return "\n".join(lines) + "\n"


def search_order(text, folder, work):
    """Bubble of the longest span, what none is below, and seconds of CPU."""
    path = folder / "schedule.txt"
    path.write_text(text)
    run = measure_process([TOOL, "--schedule", path, "-o", folder / "order.csv"])
    told = {
        key: float(re.search(rf"(?m)^# {key} (\S+)", run["text"])[1])
        for key in ("longest span", "lower bound")
    }
    return {
        "bubble": 1 - work / told["longest span"],
        "bound": 1 - work / told["lower bound"],
        "cpu_s": run["cpu_s"],
    }


def check_zero_bubble(data, folder, report):
    rows = []
    print(
        f"{'setting':16} {'p':>7} {'ZB-1p':>7} {'2p':>7} {'ZB-2p':>7} {'2p by W':>8} {'least':>7} {'V, p/2':>7} {'1F1B':>7}"
    )
    for name, (*passes, comm) in data["zero_bubble_paper"]["table9"].items():
        model, *sizes = re.match(r"(\S+) p=(\d+) m=(\d+)", name).groups()
        points, microbatches = map(int, sizes)
        paper = data["zero_bubble_paper"]["table5"][name]
        kept, times = get_kept(model), (*passes, comm)
        problems = {
            "1p": write_schedule(times, points, microbatches, points, kept),
            "2p": write_schedule(times, points, microbatches, 2 * points, kept),
            "2p by W": write_schedule(times, points, microbatches, 2 * points),
            "V": write_schedule(times, points, microbatches, points / 2, vee=True),
        }
        found = {
            key: search_order(text, folder, microbatches * sum(passes))
            for key, text in problems.items()
        }
        rows.append({"setting": name, **found, "paper": paper})
        print(
            f"{name:16} {found['1p']['bubble']:7.4f} {paper['ZB-1p']:7.4f} {found['2p']['bubble']:7.4f} "
            f"{paper['ZB-2p']:7.4f} {found['2p by W']['bubble']:8.4f} {found['2p by W']['bound']:7.4f} "
            f"{found['V']['bubble']:7.4f} {paper['1F1B']:7.4f}  at most {max(each['cpu_s'] for each in found.values()):.1f} s"
        )
    report.add("zero_bubble", rows)
    for row in rows:
        name, paper = row["setting"], row["paper"]
        for key, rival in ("1p", "ZB-1p"), ("2p", "ZB-2p"), ("V", "1F1B"):
            bubble = row[key]["bubble"]
            report.claim(
                f"{name}, {key}: bubble {bubble:.4f}, {rival} of the paper {paper[rival]:.4f}",
                bubble <= paper[rival] + ROUNDING if key != "V" else bubble < paper[rival],
            )
            seconds = row[key]["cpu_s"]
            report.claim(f"{name}, {key}: search below {ORDER_SECONDS} s", seconds < ORDER_SECONDS)


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=pathlib.Path, default=ROOT.parent / "shared/data/pipeline")
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        for part, check in (
            ("amp", check_amp),
            ("fold3d", check_fold3d),
            ("schedules", check_zero_bubble),
        ):
            check(
                json.loads((options.data / f"{part}.json").read_text()), pathlib.Path(name), report
            )
    report.finish(options)


if __name__ == "__main__":
    main()
