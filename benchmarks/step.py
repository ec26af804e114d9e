"""Time of a training step: Tandem on one rank, without duplex, against PyTorch on the same core.

In float32, or with `--precision bf16` under autocast. Eager, torch.compile and Tandem take turns in one process on one pinned core, so that all of
them see the same machine; a ratio is taken per turn.
"""

import argparse
import copy
import os
import statistics
import sys
import time
from pathlib import Path

import torch
from harness import get_cpu_name
from tandem.compile import compile as tandem_compile
from tandem.model_file import load_model_file
from tandem.precision import PRECISIONS, casting

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("gpt", "bert_moe")


def pin_to_one_core():
    """Threads that come later inherit it."""
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    return core


def eager_step(file, model, compiled):
    """One training step as a PyTorch user writes it."""
    optimizer = file.make_optimizer(model)

    def loss_of(batch):
        with casting(file.precision):
            return file.loss(model, batch)

    forward = torch.compile(loss_of) if compiled else loss_of

    def step(batch):
        optimizer.zero_grad(set_to_none=True)
        loss = forward(batch)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def contestants(file, batch, compiles):
    model = file.make_model()
    twin = copy.deepcopy(model)
    steps = {"eager": eager_step(file, copy.deepcopy(model), compiled=False)}
    if compiles:
        steps["torch.compile"] = eager_step(file, copy.deepcopy(model), compiled=True)
    return steps | {
        "tandem": tandem_compile(
            twin, file.loss, file.make_optimizer(twin), batch, precision=file.precision
        ),
    }


def measure(steps, batches, turns):
    """{name: seconds of each turn}, in turns; the first calls warm up."""
    times = {name: [] for name in steps}
    for step in steps.values():
        step(batches[0])
        step(batches[1 % len(batches)])
    for turn in range(turns):
        for name, step in steps.items():
            begin = time.perf_counter()
            step(batches[turn % len(batches)])
            times[name].append(time.perf_counter() - begin)
    return times


def report(name, times):
    """Prints a line with the median ratio to each of the others."""
    medians = {contestant: statistics.median(seconds) for contestant, seconds in times.items()}
    parts = [f"{contestant} {1e3 * seconds:7.1f} ms" for contestant, seconds in medians.items()]
    ratios = [
        f"{other} {statistics.median(a / b for a, b in zip(times['tandem'], times[other], strict=True)):.2f}"
        for other in times
        if other != "tandem"
    ]
    print(f"{name:9} {'   '.join(parts)}   tandem / {', / '.join(ratios)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--preset", default="bench")
    parser.add_argument("--only", default="", choices=["", *MODELS])
    parser.add_argument("--precision", choices=list(PRECISIONS), help="as under torch.autocast")
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    options = parser.parse_args()
    core = pin_to_one_core()
    print(
        f"{get_cpu_name()}, core {core}, torch {torch.__version__}, {options.precision or 'float32'}, medians of {options.turns} turns"
    )
    for name in MODELS:
        if options.only in ("", name):
            file = load_model_file(
                ROOT / "examples" / f"{name}.py",
                options.preset,
                None,
                "float32",
                options.precision,
            )
            batches = file.batches(4)
            steps = contestants(file, batches[0], not options.eager)
            report(name, measure(steps, batches, options.turns))
    return 0


if __name__ == "__main__":
    sys.exit(main())
