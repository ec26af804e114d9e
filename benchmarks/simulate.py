#!/usr/bin/env python3
"""Simulations of large machines, beside the compiler's own predictions, and beside runs on this machine.

    benchmarks/simulate.py [--part scale] [--part agreement] [--part page] [--part measured] [--check] [--json FILE]

* *scale*: GPT-3 (96 layers of width 12,288, bf16) from the meta device, 32 microbatches. On 1,024 devices it is compiled
  for the device `sim` and simulated; the same on 10,000 devices; and 64 ranks with jitter.
* *agreement*: the timeline of tandem-compile beside tandem-run --device sim, for models, plans and orders.
* *page*: a report page of 50,000 runs of commands, in a headless browser (Debian's chromium).
* *measured*: steps on the CPU device beside their simulation with the cluster file that tandem-profile writes here. It
  is not among the default parts. Run it alone, on a machine that does nothing else, with a core for each rank:
  `benchmarks/simulate.py --part measured --ranks 2 --check`. It takes about ten minutes; a second run says how far
  measurements of one Program lie apart.

Limits of time apply to CPU time, which is closer to an idle machine than wall time.
"""

import json
import pathlib
import statistics
import sys
import tempfile

from harness import BUILD, ROOT, Report, export, make_parser, measure_process, write_cluster

CLUSTERS = ROOT / "examples/clusters"
GIB = 2**30
GPT3 = ["--preset", "175b", "--precision", "bf16"]
# Layers are made again in the backward pass: their activations do not fit.
PLAN = ["--plan", "tensor-parallel", "--accumulate", "32", "--pin", "layers.*:again"]
# Name, devices, mesh, rows of the batch; limits of compiling and of simulating: CPU seconds and bytes.
SCALES = [
    ("1,024 devices", 1024, "pipe=8,data=16,model=8", 512, (60, 4 * GIB), (5, 2 * GIB), []),
    ("10,000 devices", 10000, "pipe=10,data=125,model=8", 4000, None, (10, 2 * GIB), []),
    ("64 ranks, jitter", 64, "pipe=8,model=8", 32, None, (60, 4 * GIB), ["--jitter", "0.03"]),
]
# Model, its sizes, and options of the compiler.
SMALL = [
    ("gpt", "layers=4,width=64,heads=4,seq=32,batch=16", "data=4", []),
    ("gpt", "layers=4,width=64,heads=4,seq=32,batch=16", "data=4", ["--plan", "zero"]),
    ("gpt", "layers=4,width=64,heads=4,seq=32,batch=16", "data=2,model=2", ["--micro", "2"]),
    ("gpt", "layers=4,width=64,heads=4,seq=32,batch=16", "pipe=4", ["--accumulate", "8"]),
    (
        "gpt",
        "layers=4,width=64,heads=4,seq=32,batch=16",
        "pipe=2,data=2",
        ["--accumulate", "4", "--order", "gpipe"],
    ),
    ("llama", "", "model=4", ["--plan", "tensor-parallel"]),
    ("bert_moe", "", "data=4", ["--plan", "expert-parallel", "--micro", "2"]),
    ("mlp", "", "data=4", []),
]
AGREEMENT = 0.01  # of the compiler's timeline
PAGE_RUNS, PAGE_SECONDS, PAGE_BYTES = 50_000, 3, 10**7
# On the CPU device: model, its sizes, mesh for so many ranks, options.
DEEP, WIDE = (
    "layers=8,width=128,heads=4,seq=64,batch=16",
    "layers=4,width=256,heads=4,seq=128,batch=8",
)
MEASURED = [
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
CLOSE, MOST_CLOSE, FAR, CORRELATION = 0.05, 0.8, 0.08, 0.98


def compile_step(step, program, *options):
    return measure_process([BUILD / "bin/tandem-compile", step, *options, "-o", program])


def simulate(program, cluster, *options):
    """What the process took, and the numbers of --json."""
    numbers = program.with_suffix(".numbers.json")
    row = measure_process(
        [BUILD / "bin/tandem-run", program, "--device=sim", f"--cluster={cluster}"]
        + ["--json", numbers, *options]
    )
    return row, json.loads(numbers.read_text())


def show(name, row):
    print(
        f"{name:40} {row['process_s']:9.2f} {row['cpu_s']:7.2f} {row['memory_B'] / 1e6:9.0f}",
        flush=True,
    )


# ===----------------------------------------------------------------------=== #
# Scale
# ===----------------------------------------------------------------------=== #


def measure_scale(report, folder, _):
    rows = []
    report.add("GPT-3 on the device sim", rows)

    def record(what, row, limits):
        row.pop("text", None)
        rows.append({"what": what} | row)
        show(what, row)
        if limits:
            report.limit(f"{what}, CPU", row["cpu_s"], limits[0], "s")
            report.limit(f"{what}, memory", row["memory_B"], limits[1], "B")

    for name, devices, mesh, batch, compiling, simulating, options in SCALES:
        step, program = folder / f"{devices}.mlir", folder / f"{devices}.tdm"
        record(
            f"export, {name}",
            export(ROOT / "examples/gpt.py", step, *GPT3, "--set", f"batch={batch}"),
            None,
        )
        cluster = write_cluster(
            folder / f"{devices}.yaml", "h100-128x8", "count: 128", f"count: {devices // 8}"
        )
        words = ["--mesh", mesh, *PLAN, "--cluster", cluster, "--device", "sim", "--arch", "sm_90"]
        record(f"compile, {name}", compile_step(step, program, *words), compiling)
        row, numbers = simulate(program, cluster, *options)
        record(f"simulate, {name}", row | {"step_s": numbers["seconds"]}, simulating)


# ===----------------------------------------------------------------------=== #
# Agreement
# ===----------------------------------------------------------------------=== #


def measure_agreement(report, folder, _):
    rows = []
    report.add("the compiler's timeline beside the simulator's", rows)
    cluster = CLUSTERS / "ethernet-4x1.yaml"
    for number, (model, sizes, mesh, options) in enumerate(SMALL):
        step, timeline = folder / f"small{number}.mlir", folder / f"small{number}.json"
        export(ROOT / f"examples/{model}.py", step, *(["--set", sizes] if sizes else []))
        words = ["--mesh", mesh, *options, "--cluster", cluster]
        compile_step(step, folder / "cpu.tdm", *words, f"--timeline={timeline}")
        compile_step(step, folder / "sim.tdm", *words, "--device", "sim")
        told = measure_process([BUILD / "bin/tandem-trace", "report", timeline, "--json"])
        expected = json.loads(told["text"])["total"]["seconds"]
        found = simulate(folder / "sim.tdm", cluster)[1]["seconds"]
        error = found / expected - 1
        what = f"{model} {mesh} {' '.join(options)}"
        rows.append({"what": what, "timeline_s": expected, "simulated_s": found, "error": error})
        print(f"{what:60} {expected:10.6f} s {found:10.6f} s {error:+.2%}", flush=True)
    worst = max(abs(row["error"]) for row in rows)
    report.limit("largest difference", 100 * worst, 100 * AGREEMENT, "%")


# ===----------------------------------------------------------------------=== #
# Page
# ===----------------------------------------------------------------------=== #


def open_page(path):
    """Seconds until a headless browser has drawn everything."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for word in ("headless=new", "no-sandbox", "disable-gpu", "window-size=1300,3000"):
        options.add_argument(f"--{word}")
    options.binary_location = "/usr/bin/chromium"
    driver = webdriver.Chrome(
        options=options, service=webdriver.chrome.service.Service("/usr/bin/chromedriver")
    )
    try:
        driver.set_script_timeout(120)
        driver.get(f"file://{path}")
        return (
            driver.execute_async_script("""
            const done = arguments[0];
            const look = () => window.Bokeh?.documents[0]?.is_idle ? done(performance.now()) : setTimeout(look, 20);
            look();
        """)
            / 1e3
        )
    finally:
        driver.quit()


def count_runs(timeline):
    return sum(1 for event in json.loads(timeline.read_text())["traceEvents"] if event["ph"] == "X")


def measure_page(report, folder, _):
    rows = []
    report.add("a report page", rows)
    step, program = folder / "page.mlir", folder / "page.tdm"
    timeline, page = folder / "page.json", folder / "page.html"
    sizes = "layers=32,width=64,heads=4,seq=32,batch=128"
    export(ROOT / "examples/gpt.py", step, "--set", sizes)
    compile_step(step, program, "--mesh", "pipe=4", "--accumulate", "32", "--device", "sim")
    measure_process([BUILD / "bin/tandem-run", program, "--device", "sim", "--trace", timeline])
    measure_process([sys.executable, "-m", "tandem", "report", timeline, "--html", page])
    row = {"runs": count_runs(timeline), "bytes": page.stat().st_size, "open_s": open_page(page)}
    rows.append(row)
    print(
        f"{row['runs']} runs of commands, {row['bytes'] / 1e6:.1f} MB, opens in {row['open_s']:.2f} s"
    )
    report.claim(f"at least {PAGE_RUNS} runs: {row['runs']}", row["runs"] >= PAGE_RUNS)
    report.limit("size", row["bytes"], PAGE_BYTES, "B")
    report.limit("open", row["open_s"], PAGE_SECONDS, "s")


# ===----------------------------------------------------------------------=== #
# Measured
# ===----------------------------------------------------------------------=== #


def get_ranks(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    return [order.index(i) for i in range(len(values))]


def run_here(program, values, timeline):
    """Seconds of a step, the median of those after the first two."""
    measure_process(
        [BUILD / "bin/tandem-run", program, "--data", values, "--steps", "12", "--trace", timeline]
    )
    told = measure_process(
        [BUILD / "bin/tandem-trace", "report", timeline, "--json", "--skip", "2"]
    )
    return json.loads(told["text"])["total"]["seconds"]


def measure_runs(report, folder, options):
    rows = []
    report.add("steps on the CPU device beside their simulation", rows)
    cluster = folder / "here.yaml"
    measure_process(
        [BUILD / "bin/tandem-profile", "-o", cluster, "--ranks", options.ranks, "--threads", "1"]
    )
    for number, (model, sizes, mesh, words) in enumerate(MEASURED):
        step, program = folder / f"run{number}.mlir", folder / f"run{number}.tdm"
        sets = ["--set", sizes] if sizes else []
        measure_process(
            [
                sys.executable,
                "-m",
                "tandem",
                "export",
                ROOT / f"examples/{model}.py",
                "-o",
                step,
                *sets,
            ]
        )
        mesh = mesh.format(options.ranks)
        compile_step(step, program, "--mesh", mesh, *words, "--cluster", cluster)
        measured = run_here(program, step.with_suffix(".safetensors"), folder / "run.json")
        found = simulate(program, cluster)[1]["seconds"]
        what, error = f"{model} {mesh} {' '.join(words)}", found / measured - 1
        rows.append({"what": what, "measured_s": measured, "simulated_s": found, "error": error})
        print(f"{what:60} {measured:10.6f} s {found:10.6f} s {error:+.1%}", flush=True)
    check_errors(report, rows)


def check_errors(report, rows):
    errors = [abs(row["error"]) for row in rows]
    close = sum(error <= CLOSE for error in errors) / len(errors)
    report.claim(f"within {CLOSE:.0%}: {close:.0%}, at least {MOST_CLOSE:.0%}", close >= MOST_CLOSE)
    report.limit("largest error", 100 * max(errors), 100 * FAR, "%")
    ranks = [get_ranks([row[key] for row in rows]) for key in ("measured_s", "simulated_s")]
    value = statistics.correlation(*ranks)
    report.claim(
        f"rank correlation {value:.3f}, at least {CORRELATION}", value >= CORRELATION, found=value
    )


PARTS = {
    "scale": measure_scale,
    "agreement": measure_agreement,
    "page": measure_page,
    "measured": measure_runs,
}


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--part", action="append", choices=PARTS, help="all but measured if none")
    parser.add_argument("--ranks", type=int, default=2, help="of the part measured (2)")
    options = parser.parse_args()
    report = Report()
    print(f"{'':40} process/s   CPU/s memory/MB")
    with tempfile.TemporaryDirectory() as name:
        for part in options.part or ["scale", "agreement", "page"]:
            PARTS[part](report, pathlib.Path(name), options)
    report.finish(options)


if __name__ == "__main__":
    main()
