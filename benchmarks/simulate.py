#!/usr/bin/env python3
"""Simulations of large machines, beside the compiler's own predictions, and beside runs on this machine.

    benchmarks/simulate.py [--part scale] [--part search] [--part agreement] [--part page] [--part measured] [--check] [--json FILE]

* *scale*: GPT-3 (96 layers of width 12,288, bf16) from the meta device, 32 microbatches. On 1,024 devices it is compiled
  for the device `sim` and simulated; the same on 10,000 devices; and 64 ranks with jitter.
* *search*: `--mesh auto` for the same step and devices, beside Megatron's rule.
* *agreement*: the timeline of tandem-compile beside tandem-run --device sim, for models, plans and orders.
* *page*: a report page of 50,000 runs of commands, in a headless browser (Debian's chromium).
* *measured*: steps on the CPU device, and on emulated hosts (as root), beside their simulation: simulate_measured.py.
  Run it on a machine that does nothing else, with a core for each rank. A second run says how far measurements of one
  Program lie apart.

Limits of time apply to CPU time, which is closer to an idle machine than wall time.
"""

import json
import os
import pathlib
import re
import sys
import tempfile

import simulate_measured
from harness import (
    BUILD,
    ROOT,
    Report,
    export,
    fail,
    make_parser,
    measure_process,
    simulate,
    write_cluster,
)

CLUSTERS = ROOT / "examples/clusters"
GIB = 2**30
GPT3 = ["--preset", "175b", "--precision", "bf16"]
# Layers are made again in the backward pass: their activations do not fit.
PLAN = ["--plan", "tensor-parallel", "--accumulate", "32", "--pin", "layers.*:again"]
SEARCH_SECONDS = 30
# Name, devices, mesh, rows of the batch; limits of compiling and of simulating: CPU seconds and bytes.
SCALES = [
    ("1,024 devices", 1024, "pipe=8,data=16,model=8", 512, (60, 4 * GIB), (5, 2 * GIB), []),
    ("10,000 devices", 10000, "pipe=10,data=125,model=8", 4000, None, (10, 2 * GIB), []),
    ("64 ranks, jitter", 64, "pipe=8,model=8", 32, None, (60, 4 * GIB), ["--jitter", "0.03"]),
]
# Models with their sizes, and how they are compiled.
SMALL = {
    "gpt": "layers=4,width=64,heads=4,seq=32,batch=16",
    "llama": "batch=16",
    "bert_moe": "batch=16",
    "vit_moe": "batch=16",
    "resnet": "batch=16",
    "mlp": "",
}
WAYS = [
    ("data=4", []),
    ("data=4", ["--plan", "zero", "--micro", "2"]),
    ("data=2,model=2", ["--plan", "tensor-parallel"]),
    ("data=4", ["--search", "tandem", "--search-time-limit", "2"]),
    ("pipe=2,data=2", ["--accumulate", "4", "--plan", "pipeline", "--order", "gpipe"]),
]
AGREEMENT = 0.01  # of the compiler's timeline
PAGE_RUNS, PAGE_SECONDS, PAGE_BYTES = 50_000, 3, 10**7


def compile_step(step, program, *options):
    return measure_process([BUILD / "bin/tandem-compile", step, *options, "-o", program])


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
# Search
# ===----------------------------------------------------------------------=== #


def measure_search(report, folder, _):
    """The layout of `--mesh auto` beside Megatron's rule: tensors inside of a node, points as few as hold the step."""
    name, devices, mesh, batch, _, _, _ = SCALES[0]
    step = folder / "search.mlir"
    export(ROOT / "examples/gpt.py", step, *GPT3, "--set", f"batch={batch}")
    cluster = CLUSTERS / "h100-128x8.yaml"
    own = ["--cluster", cluster, "--device", "sim", "--arch", "sm_90"]
    searched = ["--mesh", "auto", "--search", "tandem", "--search-time-limit", SEARCH_SECONDS]
    row = compile_step(step, folder / "plan.txt", *searched, "--plan-only", *own)
    text = row.pop("text")
    # On a busy machine there is no time for a Program: the cost of the plan stands for its step.
    best = re.search(r"remark:   (\S.*?)  +step ([\d.]+) s", text) or re.search(
        r"(?s)remark:   (\S.*?)  +planned, .*search tandem: cost ([\d.]+) s", text
    )
    show(f"search, {name}", row)
    compile_step(step, folder / "rule.tdm", "--mesh", mesh, *PLAN, *own)
    rule = simulate(folder / "rule.tdm", cluster)[1]["seconds"]
    found = float(best[2])
    print(f"{best[1]}: predicted {found:.3f} s; {mesh}, layers made again: {rule:.3f} s")
    report.add(
        "layout of GPT-3, searched",
        [{"layout": best[1], "step_s": found, "rule": mesh, "rule_s": rule} | row],
    )
    report.limit("search, CPU", row["cpu_s"], 60, "s")
    report.limit("search, memory", row["memory_B"], 2 * GIB, "B")
    report.limit("step, of that by Megatron's rule", 100 * found / rule, 95, "%")


# ===----------------------------------------------------------------------=== #
# Agreement
# ===----------------------------------------------------------------------=== #


def compare_predictions(step, folder, cluster, words):
    """What the compiler says of a Program with kernels, and what is simulated of one without."""
    prices, plan = ["--cluster", cluster], folder / "plan.txt"
    keeps = ["--timeline", "--save-plan", plan]
    text = compile_step(step, folder / "cpu.tdm", *words, *prices, *keeps)["text"]
    told = re.search(r"timeline ([\d.e-]+) s", text)
    if not told:
        fail(f"{step}: found no timeline in the answer of tandem-compile")
    # A search that ends at its time limit finds another plan each time.
    words = ["--plan-file", plan] if "--search" in words else words
    compile_step(step, folder / "sim.tdm", *words, *prices, "--device", "sim")
    return float(told[1]), simulate(folder / "sim.tdm", cluster)[1]["seconds"]


def measure_agreement(report, folder, _):
    rows = []
    report.add("the compiler's timeline beside the simulator's", rows)
    for model, sizes in SMALL.items():
        step = folder / f"{model}.mlir"
        export(ROOT / f"examples/{model}.py", step, *(["--set", sizes] if sizes else []))
        for mesh, options in WAYS:
            for cluster in "ethernet-4x1", "laptop":
                words = ["--mesh", mesh, *options]
                told, found = compare_predictions(step, folder, CLUSTERS / f"{cluster}.yaml", words)
                what = f"{model} {mesh} {' '.join(options)} {cluster}"
                row = {"what": what, "timeline_s": told, "simulated_s": found}
                rows.append(row | {"error": found / told - 1})
                print(
                    f"{what:76} {told:10.6f} s {found:10.6f} s {found / told - 1:+.2%}", flush=True
                )
    worst = max(abs(row["error"]) for row in rows)
    report.limit("largest difference", 100 * worst, 100 * AGREEMENT, "%")


# ===----------------------------------------------------------------------=== #
# Page
# ===----------------------------------------------------------------------=== #


def get_cpu_seconds(process):
    """Of a process and those that it started."""
    seconds = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        times = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        seconds.setdefault(int(words[1]), []).append((int(path.parent.name), times))

    def add(parent):
        return sum(times + add(child) for child, times in seconds.get(parent, []))

    return add(process)


def open_page(path):
    """Seconds and CPU seconds until a headless browser has drawn everything."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for word in ("headless=new", "no-sandbox", "disable-gpu", "window-size=1300,3000"):
        options.add_argument(f"--{word}")
    options.binary_location = "/usr/bin/chromium"
    service = webdriver.chrome.service.Service("/usr/bin/chromedriver")
    driver = webdriver.Chrome(options=options, service=service)
    try:
        driver.set_script_timeout(120)
        begin = get_cpu_seconds(service.process.pid)
        driver.get(f"file://{path}")
        wall = driver.execute_async_script("""
            const done = arguments[0];
            const look = () => window.Bokeh?.documents[0]?.is_idle ? done(performance.now()) : setTimeout(look, 20);
            look();
        """)
        return wall / 1e3, get_cpu_seconds(service.process.pid) - begin
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
    wall, cpu = open_page(page)
    row = {"runs": count_runs(timeline), "bytes": page.stat().st_size, "open_s": wall, "cpu_s": cpu}
    rows.append(row)
    print(
        f"{row['runs']} runs of commands, {row['bytes'] / 1e6:.1f} MB, opens in {wall:.2f} s, CPU {cpu:.2f} s"
    )
    report.claim(f"at least {PAGE_RUNS} runs: {row['runs']}", row["runs"] >= PAGE_RUNS)
    report.limit("size", row["bytes"], PAGE_BYTES, "B")
    report.limit("open, CPU", row["cpu_s"], PAGE_SECONDS, "s")


PARTS = {
    "scale": measure_scale,
    "search": measure_search,
    "agreement": measure_agreement,
    "page": measure_page,
    "measured": simulate_measured.measure,
}


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--part", action="append", choices=PARTS, help="all if none")
    simulate_measured.add_options(parser)
    options = parser.parse_args()
    report = Report()
    print(f"{'':40} process/s   CPU/s memory/MB")
    with tempfile.TemporaryDirectory() as name:
        for part in options.part or PARTS:
            PARTS[part](report, pathlib.Path(name), options)
    report.finish(options)


if __name__ == "__main__":
    main()
