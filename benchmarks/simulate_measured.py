"""Part `measured` of simulate.py: seconds of steps that ran, beside those that are simulated.

* *cpu*: Programs with values on the CPU device. Some runs give the mean seconds of each command and their spread, for
  `--times` and `--jitter`; the cluster file that tandem-profile writes on this machine gives the rest. *priced* is what
  the cluster file says alone. Other runs, in turn with these, are measured.
* *hosts*: the same on emulated hosts that send over shaped links; computation takes the seconds of a cluster file.
* *pipelines*: those of bench-pipeline, on four emulated hosts.

Hosts need root.
"""

import collections
import itertools
import json
import signal
import statistics
import sys

from harness import BUILD, ROOT, measure_process, simulate_seconds

# On the CPU device: model, its sizes, mesh for so many ranks, options.
DEEP, WIDE = (
    "layers=8,width=128,heads=4,seq=64,batch=16",
    "layers=4,width=256,heads=4,seq=128,batch=8",
)
CPU = [
    ("gpt", WIDE, "data={}", []),
    ("gpt", WIDE, "data={}", ["--plan", "zero"]),
    ("gpt", WIDE, "model={}", ["--plan", "tensor-parallel"]),
    ("gpt", WIDE, "pipe={}", ["--accumulate", "4"]),
    ("gpt", WIDE, "pipe={}", ["--accumulate", "4", "--order", "gpipe"]),
    ("gpt", DEEP, "data={}", ["--micro", "2"]),
    ("gpt", DEEP, "pipe={}", ["--accumulate", "8", "--order", "zb-h1"]),
    ("llama", "width=256,hidden=512,seq=64", "data={}", []),
    ("llama", "width=256,hidden=512,seq=64", "model={}", ["--plan", "tensor-parallel"]),
    ("bert_moe", DEEP, "data={}", ["--plan", "expert-parallel"]),
    ("bert_moe", DEEP, "data={}", ["--plan", "expert-parallel", "--micro", "2"]),
    ("vit_moe", "width=128,hidden=256", "data={}", []),
    ("resnet", "depths=2,width=32,stages=3,batch=64", "data={}", []),
    ("mlp", "layers=6,width=1024,batch=256", "data={}", []),
]
STEPS, TURNS = 20, 3  # of a run on the CPU device, and of runs
HOSTS, RATES = 2, ("1gbit", "300mbit")
NAMED = {
    "vit_moe data=2": "in a step of 5 ms collectives of some hundred bytes wake threads, which tandem-profile, whose"
    " collectives follow each other, does not measure"
}
CLOSE, MOST_CLOSE, FAR, CORRELATION = 0.05, 0.8, 0.08, 0.98
SETS = "cpu", "hosts", "pipelines"


def add_options(parser):
    parser.add_argument("--ranks", type=int, default=2, help="on the CPU device (2)")
    parser.add_argument("--only", action="append", choices=SETS, help="of the part measured")
    parser.add_argument("--cases", default="", metavar="TEXT", help="on the CPU: those with it")


def show(where, what, measured, simulated):
    row = {"where": where, "what": what, "measured_s": measured, "simulated_s": simulated}
    row["error"] = simulated / measured - 1
    print(
        f"{where:9} {what:58} {measured:10.6f} s {simulated:10.6f} s {row['error']:+.1%}",
        flush=True,
    )
    return row


# ===----------------------------------------------------------------------=== #
# The CPU device
# ===----------------------------------------------------------------------=== #


def run_here(program, values, timeline, times):
    """Seconds of a step, the median of those after the first two."""
    runner = [BUILD / "bin/tandem-run", program, "--data", values, "--steps", 2 + STEPS]
    measure_process([*runner, "--trace", timeline, "--save-times", times])
    tool = [BUILD / "bin/tandem-trace", "report", timeline, "--json", "--skip", 2]
    return json.loads(measure_process(tool)["text"])["total"]["seconds"]


def read_steps(timeline):
    """The events of each step after the first two."""
    steps = collections.defaultdict(list)
    for event in json.loads(timeline.read_text())["traceEvents"]:
        if event.get("ph") == "X" and event["args"].get("step", 0) > 2:
            steps[event["args"]["step"]].append(event)
    return list(steps.values())


def take_typical(steps):
    """The half of the steps that are nearest to the median: what other processes took of one step is in none of them."""

    def get_seconds(step):
        return max(e["ts"] + e["dur"] for e in step) - min(e["ts"] for e in step)

    ordered = sorted(steps, key=get_seconds)
    return ordered[len(ordered) // 4 : -(len(ordered) // 4)]


def take_means(steps, times):
    """Puts the mean seconds of commands into the table; their standard deviation as a share of them."""
    table = json.loads(times.read_text())
    is_pipeline = len(table["seconds"]) > 1  # each rank has a program of its own
    seconds = collections.defaultdict(list)
    for event in itertools.chain.from_iterable(steps):
        program = event["pid"] if is_pipeline else 0
        seconds[program, str(event["args"]["id"])].append(event["dur"] * 1e-6)
    spread = total = 0.0
    for program, commands in enumerate(table["seconds"]):
        for command in commands:
            commands[command] = statistics.fmean(seconds[program, command])
            spread += statistics.pstdev(seconds[program, command])
            total += commands[command]
    times.write_text(json.dumps(table))
    return spread / total


def run_in_turns(program, values, folder):
    """Seconds of a step, a table of those of its commands, and their spread: of runs in turn, so that a machine that
    changes its pace changes both."""
    timeline, times, unused = (folder / name for name in ("run.json", "times", "unused"))
    measured, steps = [], []
    for _ in range(TURNS):
        run_here(program, values, timeline, times)
        steps += take_typical(read_steps(timeline))
        measured.append(run_here(program, values, timeline, unused))
    return statistics.median(measured), times, take_means(steps, times)


def measure_cpu(folder, options):
    cluster = folder / "here.yaml"
    profiler = [BUILD / "bin/tandem-profile", "-o", cluster, "--ranks", options.ranks]
    measure_process([*profiler, "--threads", "1"])
    for number, (model, sizes, mesh, words) in enumerate(CPU):
        mesh = mesh.format(options.ranks)
        what = f"{model} {mesh} {' '.join(words)}"
        if options.cases not in what:
            continue
        step, program = folder / f"run{number}.mlir", folder / f"run{number}.tdm"
        export = [sys.executable, "-m", "tandem", "export", ROOT / f"examples/{model}.py"]
        measure_process([*export, "--set", sizes, "-o", step])
        compiler = [BUILD / "bin/tandem-compile", step, "--mesh", mesh, *words]
        measure_process([*compiler, "--cluster", cluster, "-o", program])
        values = step.with_suffix(".safetensors")
        measured, times, spread = run_in_turns(program, values, folder)
        given = ("--times", times, "--jitter", f"{spread:.3f}", "--steps", STEPS)
        row = show("cpu", what, measured, simulate_seconds(program, cluster, *given))
        row |= {"spread": spread, "priced_s": simulate_seconds(program, cluster)}
        row["priced"] = row["priced_s"] / row["measured_s"] - 1
        print(f"{'':68} spread {spread:.0%}, priced {row['priced_s']:.6f} s {row['priced']:+.1%}")
        yield row


# ===----------------------------------------------------------------------=== #
# Emulated hosts
# ===----------------------------------------------------------------------=== #


def measure_hosts(folder, _):
    from overlap.prediction import MICRO, PLANS
    from overlap.steps import Bed, Model
    from testbed import Network, format_rate

    with Network(HOSTS, RATES[0]) as network:
        bed = Bed(network, folder / "hosts")
        models = [Model(name, bed.folder) for name in PLANS]
        for rate in RATES:
            network.set_rate(rate)
            for model in models:
                for plan in PLANS[model.name]:
                    for micro in MICRO:
                        compiled = bed.compile(model, plan, micro)
                        what = f"{model.name} {plan} micro {micro} {format_rate(network.rate)}"
                        yield show("hosts", what, bed.measure(compiled).seconds, compiled.cost)


def measure_pipelines(folder, _):
    import pipeline
    from testbed import Network

    with Network(pipeline.HOSTS, pipeline.RATES[0]) as network:
        bed = pipeline.PipelineBed(network, folder / "pipelines")
        models = pipeline.make_models(bed)
        for case in pipeline.PREDICTED:
            row = pipeline.measure_case(bed, case, models[case.model])
            yield show("pipelines", row["case"], row["measured"], row["predicted"])


# ===----------------------------------------------------------------------=== #
# Claims
# ===----------------------------------------------------------------------=== #


def get_ranks(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    return [order.index(i) for i in range(len(values))]


def check_errors(report, rows):
    errors = [abs(row["error"]) for row in rows]
    close = sum(error <= CLOSE for error in errors) / len(errors)
    report.claim(f"within {CLOSE:.0%}: {close:.0%}, at least {MOST_CLOSE:.0%}", close >= MOST_CLOSE)
    far = {row["what"].strip() for row in rows if abs(row["error"]) > FAR}
    for what in far & NAMED.keys():
        print(f"  named: {what}: {NAMED[what]}")
    far -= NAMED.keys()
    what = f"{len(far)} of {len(rows)} differ by more than {FAR:.0%}, beside named ones"
    report.claim(what, not far, found=sorted(far))
    if len(rows) < 2:
        return
    ranks = [get_ranks([row[key] for row in rows]) for key in ("measured_s", "simulated_s")]
    value = statistics.correlation(*ranks)
    report.claim(
        f"rank correlation {value:.3f}, at least {CORRELATION}", value >= CORRELATION, found=value
    )


def measure(report, folder, options):
    # So that hosts are removed on the way.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sets = dict(zip(SETS, (measure_cpu, measure_hosts, measure_pipelines), strict=True))
    rows = []
    report.add("steps that ran beside their simulation", rows)
    for name in options.only or SETS:
        rows += sets[name](folder, options)
    check_errors(report, rows)
