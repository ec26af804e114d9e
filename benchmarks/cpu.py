#!/usr/bin/env python3
"""A training step on one core against its roofline and against PyTorch.

    benchmarks/cpu.py [--only gpt llama ... attention] [--turns 3] [--check] [--json FILE]

One rank without duplex. Terms of the roofline, per model, size and precision (bf16: PyTorch's under autocast):

    products      of oneDNN's fastest kernel for the shape, with packed operands
    attention     its products at that rate, in the blocks that a band needs
    exponentials  of attention, one forward and one backward, at oneDNN's rate
    bytes         read and written by all other operators, at the bandwidth of a copy that fits in no cache

Each stands beside the time of Tandem's commands of that kind. Then follow the ratio of the step to the sum of the
terms, to the better of eager and torch.compile, and of two microbatches to one. Contestants take turns in one process
on one pinned core. A ratio is taken per turn, and the medians count. Attention alone, forward and backward, is compared
with PyTorch's fused CPU kernel. Compilation uses all cores. The build folder keeps torch.compile's results, since they
take most of the time.
"""

import contextlib
import copy
import json
import os
import pathlib
import statistics
import tempfile
import time

import torch
import torch.nn.functional as F
from harness import BUILD, ROOT, Report, get_cpu_name, make_parser, measure_process
from tandem.capture.model_file import load_model_file
from tandem.session.compile import compile as tandem_compile
from tandem.tracing.precision import casting
from torch import nn

MODELS = ("gpt", "llama", "bert_moe", "vit_moe")
PRESETS = ("bench", "wide")
PRECISIONS = (None, "bf16")
POSITIONS = (512, 1024, 4096)
# Of a step: to the sum of the terms, to the better of PyTorch's, of two microbatches to one.
MOST_OF_ROOFLINE, MOST_OF_TORCH, MOST_OF_ONE = 1.1, 0.8, 1.05
# Of attention alone: PyTorch's time to Tandem's.
LEAST_FASTER = 1.3
# Commands of a Program by the term that they belong to; all others are `bytes`.
TERMS = {"gemm": "products", "attention": "attention", "attention_backward": "attention"}


def pin(cores):
    """All threads of this process, and what they start."""
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):  # It has ended since.
            os.sched_setaffinity(int(thread), cores)


@contextlib.contextmanager
def one_core():
    cores = os.sched_getaffinity(0)
    pin({min(cores)})
    try:
        yield
    finally:
        pin(cores)


def roofline(program, *options):
    """What the tool says of the bytes of a Program."""
    with tempfile.NamedTemporaryFile(suffix=".tdm") as file:
        file.write(program)
        file.flush()
        return json.loads(measure_process([BUILD / "bin/roofline", file.name, *options])["text"])


def rate_products(report, step_s):
    """Rows of the products, those by which a step loses most first; in seconds, and as parts of the step."""
    rows = report["products"]
    for row in rows:
        row["lost_s"] = row["count"] * row["ours_s"] * (1 - row["of_packed"])
        row["of_step"] = row["count"] * row["ours_s"] / step_s
        row["lost_of_step"] = row["lost_s"] / step_s
    return sorted(rows, key=lambda row: -row["lost_s"])


def title_of_products(name, preset, precision):
    return f"Products of {name} {preset} {precision or 'f32'}"


def terms_of(report):
    """{term: seconds}."""

    def total(rows, key):
        return sum(row["count"] * row[key] for row in rows)

    return {
        "products": total(report["products"], "packed_s"),
        "attention": total(report["attention"], "products_s"),
        "exponentials": total(report["attention"], "exponentials_s"),
        "bytes": report["rest_B"] / report["copy_B_per_s"],
    }


def trace_commands(step, batch, folder):
    """[(kind, seconds)] of the commands of one step."""
    path = pathlib.Path(folder) / "trace.json"
    step._programs.main.session.start_trace()
    step(batch)
    step._programs.main.session.stop_trace()
    step._programs.main.session.write_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    return [
        (event["args"]["kind"], event["dur"] * 1e-6)
        for event in events
        if event["ph"] == "X" and "kind" in event.get("args", {})
    ]


def time_by_term(step, batch, turns):
    """{term: median seconds of Tandem's commands}; attention has its exponentials."""
    sums = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(turns):
            parts = dict.fromkeys(("products", "attention", "bytes"), 0.0)
            for kind, seconds in trace_commands(step, batch, folder):
                parts[TERMS.get(kind, "bytes")] += seconds
            sums.append(parts)
    return {term: statistics.median(parts[term] for parts in sums) for term in sums[0]}


# Steps


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


def contestants(file, batch, options, with_two):
    model = file.make_model()

    def tandem(micro=1):
        twin = copy.deepcopy(model)
        return tandem_compile(
            twin,
            file.loss,
            file.make_optimizer(twin),
            batch,
            precision=file.precision,
            micro=micro,
        )

    steps = {"tandem": tandem()}
    if with_two:
        steps["two"] = tandem(micro=2)
    if not options.alone:
        steps["eager"] = eager_step(file, copy.deepcopy(model), compiled=False)
    if not options.alone and not options.eager:
        torch._dynamo.reset()  # Else its limit of recompilations is met by the third model, and eager is measured twice.
        steps["compiled"] = eager_step(file, copy.deepcopy(model), compiled=True)
    return steps


def take_turns(steps, batches, turns):
    """{name: seconds of each turn}, in turns; the first calls warm up."""
    times = {name: [] for name in steps}
    for step in steps.values():
        step(batches[1 % len(batches)])
    for turn in range(turns):
        for name, step in steps.items():
            begin = time.perf_counter()
            step(batches[turn % len(batches)])
            times[name].append(time.perf_counter() - begin)
    return times


def median_ratio(times, name, other):
    return statistics.median(a / b for a, b in zip(times[name], times[other], strict=True))


def measure_model(report, name, preset, precision, options):
    """A row of the table: seconds, and ratios. Adds a table of the products to `report`."""
    path = ROOT / "examples" / f"{name}.py"
    file = load_model_file(path, preset, None, "float32", precision)
    batches = file.batches(2)
    with_two = preset == PRESETS[0] and not precision
    steps = contestants(file, batches[0], options, with_two)
    for step in steps.values():
        step(batches[0])
    with one_core():
        times = take_turns(steps, batches, options.turns)
        ours = time_by_term(steps["tandem"], batches[0], 3)
        least = roofline(steps["tandem"].bytes, "--ours")
    products = rate_products(least, statistics.median(times["tandem"]))
    report.add(title_of_products(name, preset, precision), products)
    terms = terms_of(least)
    row = {"model": name, "size": preset, "precision": precision or "f32"}
    row |= {f"{term}_s": seconds for term, seconds in terms.items()}
    row |= {f"tandem_{term}_s": seconds for term, seconds in ours.items()}
    row |= {f"{contestant}_s": statistics.median(t) for contestant, t in times.items()}
    row["of_roofline"] = row["tandem_s"] / sum(terms.values())
    if with_two:
        row["two_to_one"] = median_ratio(times, "two", "tandem")
    others = [other for other in ("eager", "compiled") if other in times]
    if others:
        row["of_torch"] = max(median_ratio(times, "tandem", other) for other in others)
    return row


def print_row(row):
    def pair(term, *roofline):
        least = sum(row[f"{t}_s"] for t in roofline)
        return f"{1e3 * row[f'tandem_{term}_s']:8.1f} /{1e3 * least:7.1f}"

    parts = [
        f"{row['model']:9} {row['size']:6} {row['precision']:5}",
        pair("products", "products"),
        pair("attention", "attention", "exponentials"),
        pair("bytes", "bytes"),
        f"{1e3 * row['tandem_s']:9.1f} ms",
        f"{row['of_roofline']:5.2f}",
    ]
    names = ("eager", "compiled", "two")
    parts += [f"{name} {1e3 * row[f'{name}_s']:7.1f}" for name in names if f"{name}_s" in row]
    parts += [f"{key} {row[key]:.2f}" for key in ("of_torch", "two_to_one") if key in row]
    print("  " + "  ".join(parts), flush=True)


def limit_row(report, row):
    what = f"{row['model']} {row['size']} {row['precision']}"
    limits = {
        "of_roofline": ("roofline", MOST_OF_ROOFLINE),
        "of_torch": ("PyTorch", MOST_OF_TORCH),
        "two_to_one": ("one microbatch, of two", MOST_OF_ONE),
    }
    for key, (other, most) in limits.items():
        if key in row:
            report.limit(f"{what}, to {other}", row[key], most, "times")


def compare_steps(report, names, options):
    title = "A step: ms of Tandem / at the roofline, by kind"
    print(f"{title}\n{'':25}{'products':>17}{'attention':>19}{'all else':>19}{'step':>14}   ratio")
    rows = []
    for name in names:
        for preset in PRESETS if not options.preset else [options.preset]:
            for precision in PRECISIONS:
                if options.precision in (None, precision or "f32"):
                    rows.append(measure_model(report, name, preset, precision, options))
                    print_row(rows[-1])
    report.add(title, rows)
    for row in rows:
        limit_row(report, row)


# Attention alone


class Attention(nn.Module):
    """Query, key and value are parameters; the loss is linear in the output."""

    def __init__(self, heads, positions, width):
        super().__init__()
        shape = (heads, heads, positions, width)
        self.q, self.k, self.v = (nn.Parameter(torch.randn(shape)) for _ in range(3))

    def forward(self, gradient):
        y = F.scaled_dot_product_attention(self.q, self.k, self.v)
        return (y * gradient).sum()


def torch_attention(model, gradient):
    """Seconds, forward and backward."""
    tensors = [t.detach().requires_grad_() for t in (model.q, model.k, model.v)]
    start = time.perf_counter()
    y = F.scaled_dot_product_attention(*tensors)
    y.backward(gradient)
    return time.perf_counter() - start


def measure_attention(positions, turns, heads=8, width=64):
    """A row of the table; memory is that of the step without its arguments."""
    model = Attention(heads, positions, width)
    gradient = torch.randn(heads, heads, positions, width)
    step = tandem_compile(
        model, lambda m, g: m(g), torch.optim.SGD(model.parameters(), lr=0.0), gradient
    )
    pairs = []
    with one_core(), tempfile.TemporaryDirectory() as folder:
        for _ in range(turns + 1):
            commands = trace_commands(step, gradient, folder)
            ours = sum(seconds for kind, seconds in commands if "attention" in kind)
            pairs.append((ours, torch_attention(model, gradient)))
        terms = terms_of(roofline(step.bytes))
    pairs = pairs[1:]
    arena = sum(a.bytes for a in step._programs.main.session.program.rank_programs[0].arenas)
    return {
        "positions": positions,
        "tandem_s": statistics.median(a for a, _ in pairs),
        "torch_s": statistics.median(b for _, b in pairs),
        "faster": statistics.median(b / a for a, b in pairs),
        "roofline_s": terms["attention"] + terms["exponentials"],
        "arena_B": arena,
    }


def compare_attention(report, options):
    title = "Attention of 8 x 8 heads, width 64, f32, forward and backward"
    print(title)
    rows = []
    for positions in options.positions:
        row = measure_attention(positions, 1 if positions > 2048 else options.turns)
        print(
            f"  {positions:5} positions: {1e3 * row['tandem_s']:8.1f} ms, roofline {1e3 * row['roofline_s']:8.1f},"
            f" torch {1e3 * row['torch_s']:8.1f}, {row['faster']:.2f} times faster, arena {row['arena_B'] >> 20} MiB",
            flush=True,
        )
        rows.append(row)
    report.add(title, rows)
    for row in rows:
        slower = 1 / row["faster"]
        report.limit(f"{row['positions']} positions, to PyTorch", slower, 1 / LEAST_FASTER, "times")
    if len(rows) > 1:
        least, most = rows[0], rows[-1]
        grown = most["arena_B"] / least["arena_B"] * least["positions"] / most["positions"]
        report.limit("memory per position, last to first", grown, 1.01, "times")


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=[*MODELS, "attention"])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--preset", choices=PRESETS)
    parser.add_argument("--precision", choices=["f32", "bf16"])
    parser.add_argument("--positions", type=int, nargs="+", default=POSITIONS)
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--alone", action="store_true", help="without PyTorch")
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(BUILD / "inductor"))
    print(f"{get_cpu_name()}, one core, torch {torch.__version__}, {options.turns} turns")
    chosen = options.only or [*MODELS, "attention"]
    report = Report()
    names = [name for name in MODELS if name in chosen]
    if names:
        compare_steps(report, names, options)
    if "attention" in chosen:
        compare_attention(report, options)
    report.finish(options)


if __name__ == "__main__":
    main()
