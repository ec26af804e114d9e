#!/usr/bin/env python3
"""Time to first step of GPT-2 small of `transformers`, cold and warm.

    benchmarks/startup.py [--layers 12] [--batch 8] [--length 128] [--runs 1] [--interrupts 8] [--check] [--json FILE]

Each row is a process of its own: CPU seconds (all threads) and wall time of `tandem.compile` (mesh data=4, preset
zero). `nothing` starts with an empty cache (cold start), `again` with the cache of the row before (warm start). Further
columns have the extra time of the first step over the second one, and the kernel's share of both. On a virtual machine,
the first touch of a page may wait for its host. Memory is the largest resident memory of the process, including the
torch model. Beside it stands the need of the step: parameters, buffers and optimizer state, once each, and the arenas
of four ranks.

Then it sends Ctrl-C, at moments spread over `tandem.compile` with an empty cache and over `step.save`, and prints the
seconds from the signal to KeyboardInterrupt.
"""

import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from harness import BUILD, Report, fail, make_parser

# Seconds of the processor from an empty cache, and again.
FROM_NOTHING, AGAIN = 12, 2
# Of what parameters, optimizer and arenas need.
MEMORY = 2
# Seconds until Ctrl-C is heard.
HEARD = 0.5


def clocks():
    return time.process_time(), time.perf_counter()


def timed(call):
    """(CPU seconds, seconds, what it returns)"""
    cpu, wall = clocks()
    result = call()
    cpu_end, wall_end = clocks()
    return cpu_end - cpu, wall_end - wall, result


def peak_bytes():
    """The largest resident memory of this process."""
    text = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(text.partition("VmHWM:")[2].split()[0])


def needed_bytes(step):
    from math import prod

    import torch
    from tandem.base.types import DTYPES

    sizes = {name: torch.empty((), dtype=dtype).element_size() for name, dtype in DTYPES.items()}
    stored = sum(prod(t.shape) * sizes[t.type] for t in step.store.tensors)
    program = step.program
    arenas = [sum(arena.bytes for arena in p.arenas) for p in program.rank_programs]
    return stored + sum(arenas[index] for index in program.rank_to_program)


def make_compile(options):
    """A function that compiles, and the batch."""
    import tandem
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = GPT2Config(n_layer=options.layers, n_positions=options.length, use_cache=False)
    model = GPT2LMHeadModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(config.vocab_size, (options.batch, options.length))
    batch = {"input_ids": tokens, "labels": tokens}

    def loss_fn(model, batch):
        return model(**batch).loss

    def compile_step():
        return tandem.compile(model, loss_fn, optimizer, batch, mesh={"data": 4}, plan="zero")

    return compile_step, batch


def measure_here(options):
    """In the process that is measured: one row, as JSON."""
    compile_step, batch = make_compile(options)
    before, kernel = peak_bytes(), os.times().system
    cpu, wall, step = timed(compile_step)
    compile_kernel = os.times().system - kernel
    kernel = os.times().system
    first_cpu, _, _ = timed(lambda: step(batch))
    kernel = os.times().system - kernel
    second_cpu, _, _ = timed(lambda: step(batch))
    row = {
        "cpu_s": cpu,
        "kernel_s": compile_kernel,
        "seconds": wall,
        "first_step_cpu_s": first_cpu - second_cpu,
        "first_step_kernel_s": kernel,
        "step_cpu_s": second_cpu,
        "before_B": before,
        "peak_B": peak_bytes(),
        "needed_B": needed_bytes(step),
    }
    print(json.dumps([row | {f"{name}_s": seconds for name, seconds in step.compiled.seconds}]))


def interrupt_after(delay, call):
    """Seconds from the signal to where it is heard; None if the call ended before."""
    sent = []

    def send():
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(delay, send)
    timer.start()
    try:
        call()
        timer.cancel()
        timer.join()
        if sent:
            time.sleep(1)  # the signal comes between here and the end of the call
        return None
    except KeyboardInterrupt:
        return time.perf_counter() - sent[0]


def interrupt_here(options):
    """Rows, as JSON."""
    compile_step, batch = make_compile(options)
    with tempfile.TemporaryDirectory(prefix="startup-") as name:

        def clear():
            os.environ["TANDEM_CACHE_DIR"] = tempfile.mkdtemp(dir=name)

        _, whole, step = timed(compile_step)
        step(batch)
        _, saving, _ = timed(lambda: step.save(f"{name}/saved"))
        rows = []
        for what, seconds, call in (
            ("save", saving, lambda: step.save(f"{name}/saved")),
            ("compile", whole, compile_step),
        ):
            for number in range(options.interrupts):
                clear()
                delay = seconds * (number + 0.5) / options.interrupts
                rows.append(
                    {"what": what, "after_s": delay, "heard_s": interrupt_after(delay, call)}
                )
    print(json.dumps(rows))


def run_alone(options, what, cache):
    """The rows that a process of its own prints."""
    environment = os.environ | {"TANDEM_CACHE_DIR": str(cache), "PYTHONPATH": str(BUILD / "python")}
    command = [sys.executable, __file__, "--here", what, "--interrupts", options.interrupts]
    command += ["--layers", options.layers, "--batch", options.batch, "--length", options.length]
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)
    if done.returncode:
        fail((done.stderr.strip().splitlines() or ["no reason"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def measure_starts(options, report):
    title = f"GPT-2 with {options.layers} layers, batch {options.batch} x {options.length}, until the first step"
    print(title)
    rows = {"nothing": [], "again": []}
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory(prefix="startup-") as cache:
            for kind in rows:
                (row,) = run_alone(options, "start", cache)
                rows[kind].append({"from": kind} | row)
                print(
                    f"  {kind:8} {row['cpu_s']:6.1f} s of CPU (kernel {row['kernel_s']:.1f}), {row['seconds']:6.1f} s;  first step"
                    f" {row['first_step_cpu_s']:+5.1f} s (kernel {row['first_step_kernel_s']:.1f});  memory"
                    f" {row['peak_B'] / 1e9:5.2f} GB, needed {row['needed_B'] / 1e9:5.2f} GB",
                    flush=True,
                )
    report.add(title, rows["nothing"] + rows["again"])
    for kind, limit in {"nothing": FROM_NOTHING, "again": AGAIN}.items():
        seconds = statistics.median(row["cpu_s"] for row in rows[kind])
        report.limit(f"CPU, {kind}, the median", seconds, limit, "s")
    shares = [row["peak_B"] / row["needed_B"] for kind in rows for row in rows[kind]]
    report.limit("memory, the largest", max(shares), MEMORY, "of what is needed")


def measure_interrupts(options, report):
    title = "Ctrl-C: seconds until it is heard"
    print(title)
    with tempfile.TemporaryDirectory(prefix="startup-") as cache:
        rows = run_alone(options, "interrupts", cache)
    for row in rows:
        heard = "ended before" if row["heard_s"] is None else f"{row['heard_s']:.3f} s"
        print(f"  {row['what']:8} after {row['after_s']:6.2f} s: {heard}")
    report.add(title, rows)
    for what in ("compile", "save"):
        heard = [
            row["heard_s"] for row in rows if row["what"] == what and row["heard_s"] is not None
        ]
        report.limit(f"{what}, the longest", max(heard, default=None), HEARD, "s")


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--interrupts", type=int, default=8, help="of each; 0: none")
    parser.add_argument("--here", choices=["start", "interrupts"], help="measure in this process")
    options = parser.parse_args()
    if options.here:
        return (measure_here if options.here == "start" else interrupt_here)(options)
    report = Report()
    measure_starts(options, report)
    if options.interrupts:
        measure_interrupts(options, report)
    report.finish(options)


if __name__ == "__main__":
    main()
