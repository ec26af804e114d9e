#!/usr/bin/env python3
"""What planners of papers measured, beside what `tandem-plan` predicts.

    benchmarks/planner_papers.py [--check] [--json FILE] [--data ../shared/data/pipeline]

AMP: layouts that it measured on GPUs, priced from the layer times that it profiled, the bandwidths of its clusters and
the shapes of its models. No constant is fitted. Spearman's rank correlation with the measured seconds, and the place of
the fastest layout among ours. Fold3D: the speed-up of AIAO over Megatron's interleaved schedule, simulated with the
forward and backward times, the degrees and the whole gradient sum of Megatron that the paper prints.
"""

import json
import pathlib
import re
import tempfile

from harness import BUILD, ROOT, TOOL, Report, make_parser, measure_process

ORDER_TOOL = BUILD / "bin/tandem-order"
KEYS = "pp", "dp", "mp", "micro_batch"

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


def simulate(row, name, folder):
    """Milliseconds of a schedule with the times of a row, without and with sums of gradients beside it."""
    times = row["fold3d" if name == "aiao" else "megatron"]
    points, sections, microbatches = row["pipeline"], row["segments"], row["microbatches"]
    sizes = ["--points", points, "--microbatches", microbatches, "--sections-per-point", sections]
    order = folder / "order.csv"
    order.write_text(measure_process([ORDER_TOOL, "--make", name, *sizes])["text"])
    forward, backward = (
        times[key] / (microbatches * sections) for key in ("forward_ms", "backward_ms")
    )
    total = row["megatron"]["dp_sync_exposed_ms"] / sections
    costs = f"{forward},{backward / 2},{backward / 2},0,{total}"
    text = measure_process([ORDER_TOOL, order, "--costs", costs])["text"]
    makespan = float(re.search(r"(?m)^makespan (\S+)", text)[1])
    return makespan, float(re.search(r"(?m)^gradient sums end (\S+)", text)[1])


def check_fold3d(data, folder, report):
    rows, claims = [], []
    for row in data["rows"]:
        # Megatron sums all gradients behind the last backward pass.
        megatron = simulate(row, "interleaved", folder)[0] + row["megatron"]["dp_sync_exposed_ms"]
        fold3d = simulate(row, "aiao", folder)[1]
        measured = row["fold3d"]["tflops_per_gpu"] / row["megatron"]["tflops_per_gpu"]
        error = megatron / fold3d / measured - 1
        rows.append(
            {
                "row": row["name"],
                "measured": measured,
                "predicted": megatron / fold3d,
                "error": error,
            }
        )
        print(
            f"{row['name']:16} speed-up {measured:.3f} measured, {megatron / fold3d:.3f} predicted, {100 * error:+.1f} %"
        )
        claims.append((f"{row['name']}: speed-up within 10 %", abs(error) <= 0.10))
    report.add("fold3d", rows)
    for text, holds in claims:
        report.claim(text, holds)


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=pathlib.Path, default=ROOT.parent / "shared/data/pipeline")
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        for part, check in ("amp", check_amp), ("fold3d", check_fold3d):
            check(
                json.loads((options.data / f"{part}.json").read_text()), pathlib.Path(name), report
            )
    report.finish(options)


if __name__ == "__main__":
    main()
