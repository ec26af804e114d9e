#!/usr/bin/env python3
"""Writes a setting of the Oases paper as the text of a SearchProblem with the accounting `oases`.

    scripts/oases_problem.py --width 2048 --cluster nvlink -o p.txt [--degrees 2*8,4*16]
    scripts/oases_problem.py --width 2048 --cluster nvlink -o p.txt --way cross-pass [--splitting 1.2]

Layers of a transformer decoder (appendix B), each of two blocks: attention, and the feed-forward network. 32 devices
are an axis `data`, and `a` and `b` that each split either the batch or the weights of a block: its degree is the size
of `b`, or of both. `--degrees` has one for each layer, and leaves no choice.

`--way` writes a row of table 3 with the accounting `tandem`: a step at one degree, whose backward pass makes each
layer again, and the last linear layer behind them, split over its columns. `megatron` has one strand, the others two.
`merak` makes a layer again in both strands, and only then goes back through it (figure 3b); `cross-pass` does both at
once; `fine-grained` does not repeat the sums of the forward pass, too. A half of a batch takes `--splitting` times as
long as it would at the speed of the whole.

The paper profiles its cluster. Here computation takes as long as throughputs of its table 6 say, and an all-reduce as
long as efficiencies of its table 2 say: of a step of Megatron, 4 computations and 3 all-reduces of each block, and 3
computations of the last linear layer.
"""

import argparse
import math
import re
import sys

SEQUENCE, DEVICES, HALF = 1024, 32, 2  # tokens, devices, bytes of an element
VOCABULARY = 51_200  # of the models of Megatron-LM, from which the paper takes its own
FLOPS = 16e12  # 1/s, of a device
PARAMETER_BYTES = 16  # in half precision, with gradient and the states of Adam
MEMORY = 24e9  # B
# Width: layers, heads, global batch, and the degrees that are tried (table 4, and half of its degree).
MODELS = {2048: (24, 32, 128, 2, 4), 4096: (16, 64, 32, 2, 4), 8192: (8, 128, 8, 4, 8)}
# Share of a step in which Megatron computes, by width (table 2).
EFFICIENCIES = {
    "nvlink": {1024: 0.839, 2048: 0.472, 4096: 0.575, 8192: 0.374},
    "pcie": {1024: 0.562, 2048: 0.364, 4096: 0.474, 8192: 0.325},
}
# Its degree, layers, and batch of a rank there (table 4).
MEASURED = {1024: (2, 24, 16), 2048: (4, 24, 16), 4096: (4, 16, 4), 8192: (8, 8, 2)}
WAYS = "megatron", "merak", "cross-pass", "fine-grained"


def fail(message):
    sys.exit(f"oases_problem.py: error: {message}")


def count_flops(width):
    """(attention, feed-forward network) of the forward pass of a sample."""
    return (8 * SEQUENCE * width**2 + 4 * SEQUENCE**2 * width, 16 * SEQUENCE * width**2)


def count_head_flops(width):
    """Of the forward pass of a sample through the last linear layer."""
    return 2 * SEQUENCE * width * VOCABULARY


def seconds_per_byte(cluster, degree, width):
    """Of an all-reduce of a tensor over `degree` devices, by the model of the nearest width that has this degree."""
    known = [each for each, (used, *_) in MEASURED.items() if used == degree]
    width = min(known, key=lambda each: abs(each - width))
    _, layers, batch = MEASURED[width]
    flops = 4 * layers * sum(count_flops(width)) + 3 * count_head_flops(width)
    computation = batch * flops / degree / FLOPS
    communication = (1 / EFFICIENCIES[cluster][width] - 1) * computation
    return communication / (6 * layers * batch * SEQUENCE * width * HALF)


def axis_rates(cluster, small, large, width):
    """Seconds per byte of an all-reduce over `a` and `b`: over both it takes what it takes over `large` devices."""
    inner = seconds_per_byte(cluster, small, width)
    return (seconds_per_byte(cluster, large, width) - inner) * small, inner


def axis_line(name, size, all_reduce):
    gather = all_reduce / 2
    rates = {
        "all-gather": gather,
        "reduce-scatter": gather,
        "all-reduce": all_reduce,
        "all-to-all": gather,
    }
    text = " ".join(f"{change} 0 s {rate!r} s/B" for change, rate in rates.items())
    return f"axis {name} space {size} queue 0 {text}"


def signature(forms, seconds, workspace):
    """`forms` are (operands, result) on `data`, `a` and `b`."""
    text = " ".join(
        f"{axis}='{', '.join(operands)} -> {result}'".replace("' ->", "'->")
        for axis, (operands, result) in zip(("data", "a", "b"), forms, strict=True)
    )
    return f"  {text} {seconds!r} s {round(workspace)} B"


SPLIT, FULL = "gather(0)", "full"


def batch_forms(splits):
    return [SPLIT, SPLIT if splits else FULL, FULL]


def problem(width, cluster, degrees):
    layers, heads, batch, small, large = MODELS[width]
    sizes = {"data": DEVICES // large, "a": large // small, "b": small}
    rates = dict(zip(("a", "b"), axis_rates(cluster, small, large, width), strict=True))
    choices = [{small, large}] * layers if degrees is None else [{each} for each in degrees]
    lines = ["tandem-problem 1", "accounting oases", f"memory {MEMORY:.0f} B"]
    lines += [axis_line(name, size, rates.get(name, 0.0)) for name, size in sizes.items()]
    tensors, sets, operators = [], [], []

    def tensor(name, shape, size):
        tensors.append(f"tensor {len(tensors)} {name} {'x'.join(map(str, shape))} {size} B")
        return len(tensors) - 1

    def operator(kind, name, signatures, operands, results):
        if signatures not in sets:
            sets.append(signatures)
        one, other = (",".join(map(str, each)) or "-" for each in (operands, results))
        operators.append(
            f"operator {len(operators)} forward {kind} {name} set {sets.index(signatures)}"
            f" operands {one} results {other}"
        )

    # Tokens of a sub-batch, half of the batch.
    activation = (batch * SEQUENCE // 2, width)
    both = (True, False)
    stored = tuple(signature([((), form) for form in batch_forms(s)], 0.0, 0) for s in both)
    last = tensor("x", activation, HALF)
    operator("input", "x", stored, [], [last])
    for layer in range(layers):
        for part, matrix, flops in zip(
            ("attention", "ffn"), (4, 8), count_flops(width), strict=True
        ):
            name = f"{part}{layer}"
            weight = tensor(f"w_{name}", (matrix * width, width), PARAMETER_BYTES)
            splits = tuple(s for s in both if (small if s else large) in choices[layer])
            held = tuple(
                signature(
                    [((), FULL), ((), FULL if s else SPLIT), ((), SPLIT)],
                    0.0,
                    0,
                )
                for s in splits
            )
            operator("resident", f"w_{name}", held, [], [weight])
            forms = []
            for s in splits:
                devices = sizes["data"] * (sizes["a"] if s else 1)
                degree = small if s else large
                # Scores, probabilities and a mask of attention, of a sub-batch.
                scores = batch / 2 / devices * heads / degree * SEQUENCE**2 * 5
                forms.append(
                    signature(
                        [
                            ((SPLIT, FULL), SPLIT),
                            ((SPLIT, FULL), SPLIT) if s else ((FULL, SPLIT), "reduce"),
                            ((FULL, SPLIT), "reduce"),
                        ],
                        flops * batch / 2 / devices / degree / FLOPS,
                        scores,
                    )
                )
            result = tensor(name, activation, HALF)
            operator("compute", name, tuple(forms), [last, weight], [result])
            last = result
    ends = tuple(
        "  "
        + " ".join(
            f"{axis}='{form} ->'"
            for axis, form in zip(("data", "a", "b"), batch_forms(s), strict=True)
        )
        + " 0.0 s 0 B"
        for s in both
    )
    operator("output", "loss", ends, [last], [])
    lines += tensors
    for number, signatures in enumerate(sets):
        lines += [f"signatures {number}", *signatures]
    return "\n".join([*lines, *operators]) + "\n"


class Step:
    """The text of a step of layers in checkpoints, on an axis `model` and, for two strands, `micro`."""

    def __init__(self, width, cluster, way, splitting):
        self.layers, _, batch, _, degree = MODELS[width]
        self.strands, self.repeats = 1 if way == "megatron" else 2, way != "fine-grained"
        self.joins = way == "merak"
        per_device = batch / (DEVICES / degree)
        share = splitting / 2 if self.strands == 2 else 1
        self.seconds = [f * per_device / degree / FLOPS * share for f in count_flops(width)]
        self.head = count_head_flops(width) * per_device / degree / FLOPS * share
        rate = seconds_per_byte(cluster, degree, width)
        self.lines = ["tandem-problem 1", "accounting tandem"]
        self.lines += ["slowdown compute 1 collective 1", "piece 0 s"]
        self.lines += [axis_line("model", degree, rate)]
        if self.strands == 2:
            free = " ".join(
                f"{change} 0 s 0 s/B"
                for change in ("all-gather", "reduce-scatter", "all-reduce", "all-to-all")
            )
            self.lines += [f"axis micro time 2 {free}"]
        self.shape = f"{round(per_device * SEQUENCE)}x{width}"
        self.tensors, self.sets, self.operators = [], [], []

    def add(
        self, kind, name, model, seconds, operands, results=1, each="compute", form="gather(0)"
    ):
        """An operator of a pass, with its form over the strands; what it makes."""
        forms = [f"model='{model}'"]
        if self.strands == 2:
            halves = [form] * len(operands), [form] * results
            text = ", ".join(halves[0]) + " -> " + ", ".join(halves[1])
            forms.append(f"micro='{text.strip()}'")
        if (line := f"  {' '.join(forms)} {seconds!r} s 0 B") not in self.sets:
            self.sets.append(line)
        made = [len(self.tensors) + i for i in range(results)]
        self.tensors += [f"tensor {i} {name} {self.shape} {HALF} B" for i in made]
        one, other = (",".join(map(str, each)) or "-" for each in (operands, made))
        self.operators.append(
            f"operator {len(self.operators)} {kind} {each} {name} set {self.sets.index(line)}"
            f" operands {one} results {other}"
        )
        return made

    def add_again(self, layer, x):
        """What a layer makes again: of each block what its backward pass reads, and the layer's result, if it is summed
        again.
        """
        model = "full -> gather(1), reduce" if self.repeats else "full -> gather(1)"
        kept, last = [], []
        for part, seconds in enumerate(self.seconds):
            source, name = last or [x[2 * layer + part]], f"again{layer}.{part}"
            first, *last = self.add("backward", name, model, seconds, source, 1 + self.repeats)
            kept.append(first)
        return kept, last

    def join(self, name, values, forms):
        """The values, once both strands have all of them."""
        model = f"{', '.join(forms)} -> {', '.join(forms)}"
        return self.add("backward", name, model, 0.0, values, len(values), form="full")

    def write(self):
        x = self.add("forward", "x", "-> full", 0.0, [], each="input")
        for layer in range(self.layers):
            for part, seconds in enumerate(self.seconds):
                x += self.add("forward", f"f{layer}.{part}", "full -> reduce", seconds, x[-1:])
        scores = self.add("forward", "head", "full -> gather(1)", self.head, x[-1:])
        gradient = self.add("backward", "loss", "gather(1) -> reduce", 2 * self.head, scores)
        for layer in reversed(range(self.layers)):
            kept, last = self.add_again(layer, x)
            if self.joins:
                forms = ["full"] + ["gather(1)"] * len(kept) + ["full"] * len(last)
                made = self.join(f"made{layer}", [*gradient, *kept, *last], forms)
                gradient, kept, last = made[:1], made[1 : 1 + len(kept)], made[1 + len(kept) :]
            for part in (1, 0):
                more = last if part else []
                model = ", ".join(["full", "gather(1)"] + ["full"] * len(more)) + " -> reduce"
                operands = [*gradient, kept[part], *more]
                gradient = self.add(
                    "backward", f"b{layer}.{part}", model, 2 * self.seconds[part], operands
                )
            if self.joins:
                gradient = self.join(f"left{layer}", gradient, ["full"])
        self.add("backward", "end", "full -> full", 0.0, gradient)
        sets = [line for i, text in enumerate(self.sets) for line in (f"signatures {i}", text)]
        return "\n".join([*self.lines, *self.tensors, *sets, *self.operators]) + "\n"


def parse_degrees(text, width):
    layers, *_, small, large = MODELS[width]
    degrees = []
    for part in text.split(","):
        found = re.fullmatch(r"([0-9]{1,4})(?:\*([0-9]{1,4}))?", part)
        if not found:
            fail(f"--degrees has '{part}', expected a degree and how often, such as 2*8")
        degrees += [int(found[1])] * int(found[2] or 1)
    if len(degrees) != layers or not set(degrees) <= {small, large}:
        fail(f"--degrees is '{text}', expected {layers} degrees of {small} and {large}")
    return degrees


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--width", type=int, choices=MODELS, required=True)
    parser.add_argument("--cluster", choices=EFFICIENCIES, required=True)
    parser.add_argument("--degrees", help="of each layer: 2*8,4*16")
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--splitting", type=float, help="of a half's computation (1)")
    parser.add_argument("-o", dest="output", help="the problem; default: standard output")
    options = parser.parse_args()
    degrees = None
    if options.degrees is not None:
        degrees = parse_degrees(options.degrees, options.width)
    if options.way and degrees:
        fail("found --way and --degrees, expected one of them")
    splitting = 1.0 if options.splitting is None else options.splitting
    if not (0 < splitting < math.inf):
        fail(f"--splitting is {splitting}, expected a positive number")
    if not options.way and options.splitting is not None:
        fail("--splitting stands with --way only")
    if options.way:
        text = Step(options.width, options.cluster, options.way, splitting).write()
    else:
        text = problem(options.width, options.cluster, degrees)
    if not options.output:
        sys.stdout.write(text)
        return
    try:
        with open(options.output, "w") as file:
            file.write(text)
    except OSError as error:
        fail(f"cannot write '{options.output}': {error.strerror}")


if __name__ == "__main__":
    main()
