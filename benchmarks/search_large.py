#!/usr/bin/env python3
"""Large models from Python file to plan file: seconds, memory and proven gaps of whole processes, and what pins take.

    benchmarks/search_large.py [--runs 3] [--json build/bench/search.json]

Llama with 8 billion parameters on 8x8 H100 and GPT-3 on 128x8 are exported on the meta device and planned by
`--search tandem`; Llama with eight layers is planned without a pin, with one on a layer, and with one on all layers: adding
or removing one searches again. Exports run once, searches --runs times, GPT-3 once; shown are medians. CPU time is closer
to what an idle machine shows than wall time.
"""

import argparse
import pathlib
import tempfile

from search import ROOT, write_json
from search_steps import export, plan, print_gap, take_medians

CLUSTERS = ROOT / "examples/clusters"
LLAMA = ["--cluster", CLUSTERS / "h100-8x8.yaml", "--mesh", "data=8,model=8"]
GPT3 = ["--cluster", CLUSTERS / "h100-128x8.yaml", "--mesh", "data=16,fsdp=8,model=8"]
PINS = {
    "no pin": [],
    "one layer pinned": ["--pin", "layers.3.mlp.w1.weight:model=gather(0)"],
    "all layers pinned": ["--pin", "layers.*.mlp.w1.weight:model=gather(0)"],
}
# Name, model file, options of its export, options of its search, and whether the search runs but once.
MODELS = [
    ("llama 8b", "llama", ["--preset", "8b", "--set", "batch=64,seq=2048"], LLAMA, False),
    (
        "gpt 175b",
        "gpt",
        ["--preset", "175b", "--set", "batch=512,seq=2048", "--dtype", "bfloat16"],
        [*GPT3, "--recompute"],
        True,
    ),
]


def show(name, row):
    line = f"{name:28} {row['process_s']:9.2f} {row['cpu_s']:7.2f} {row['memory_B'] / 1e6:9.0f}"
    if "cost_s" in row:
        line += f" {row['cost_s']:10.6f} {print_gap(row['gap']):>8}"
    print(line, flush=True)


def measure_models(runs, folder):
    rows = []
    for name, model, sizes, options, once in MODELS:
        step = folder / f"{model}.mlir"
        exported = export(ROOT / f"examples/{model}.py", step, *sizes)
        del exported["text"]
        rows.append({"what": f"export {name}"} | exported)
        show(f"export {name}", exported)
        planned = take_medians(
            [plan(step, *options, "--search", "tandem") for _ in range(1 if once else runs)]
        )
        rows.append({"what": f"plan {name}"} | planned)
        show(f"plan {name}", planned)
    return rows


def measure_pins(runs, folder):
    step = folder / "pins.mlir"
    sizes = ["--preset", "8b", "--set", "layers=8,batch=64,seq=2048"]
    export(ROOT / "examples/llama.py", step, *sizes)
    samples = {name: [] for name in PINS}
    for _ in range(runs):
        for name, pins in PINS.items():
            samples[name].append(plan(step, *LLAMA, *pins, "--search", "tandem"))
    rows = {name: take_medians(found) for name, found in samples.items()}
    for name, row in rows.items():
        row["relative"] = row["cpu_s"] / rows["no pin"]["cpu_s"]
        show(f"llama, 8 layers, {name}", row)
    print(f"with pins at most {max(row['relative'] for row in rows.values()):.2f} times the CPU")
    return rows


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "build/bench/search.json")
    args = parser.parse_args()
    print(f"{'':28} process/s   CPU/s memory/MB     cost/s      gap")
    with tempfile.TemporaryDirectory() as name:
        models = measure_models(args.runs, pathlib.Path(name))
        pins = measure_pins(args.runs, pathlib.Path(name))
    write_json(args.json, "large models", models)
    write_json(args.json, "pins", pins)


if __name__ == "__main__":
    main()
