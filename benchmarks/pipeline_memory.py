#!/usr/bin/env python3
"""Memory of a pipeline's rank against what its order and its passes need.

    benchmarks/pipeline_memory.py [--models gpt,unet] [--points 2,4] [--microbatches 4,8] [--orders 1f1b,gpipe,interleaved] [--check] [--json FILE]

A rank needs at most the sum of

own        arguments, results with memory of their own, constants, sums over microbatches, and what runs once
saved      the most that passes hold for later passes of their section, each tensor once: views, conversions and copies
           of an argument or of what is saved do not count
received   the most that came from other sections and was not read yet
transient  the largest of one pass: its arena, and what it makes that is not saved

--check fails where a rank holds more than 1.05 times that. Types are float32, or bf16 with the suffix of a model.
"""

import math
import pathlib
import re
import sys
import tempfile
from collections import defaultdict

from harness import BUILD, ROOT, Report, export, make_parser, measure_process

sys.path.insert(0, str(ROOT / "python-bindings/tests"))

# File of the model, and options of its export.
MODELS = {
    "gpt": ("examples/gpt", ["--set", "layers=8,width=128,heads=4,seq=64,batch=32"]),
    "gpt bf16": (
        "examples/gpt",
        ["--set", "layers=8,width=128,heads=4,seq=64,batch=32", "--precision", "bf16"],
    ),
    "llama": (
        "examples/llama",
        ["--set", "layers=8,width=128,heads=4,kv_heads=2,hidden=256,seq=64,batch=32"],
    ),
    "bert_moe": (
        "examples/bert_moe",
        ["--set", "gate=sgmoe,layers=4,width=64,hidden=128,seq=64,batch=32"],
    ),
    "unet": (
        "python-bindings/tests/models/skipping",
        ["--preset", "unet", "--set", "layers=5,width=16,size=32,batch=32"],
    ),
    "encoder-decoder": (
        "python-bindings/tests/models/skipping",
        ["--preset", "encoder-decoder", "--set", "layers=5,width=64,size=64,batch=32"],
    ),
}
MOST = 1.05
# Operators whose results are what they read in another shape, layout or type.
VIEWS = {"nn.reshape", "nn.permute", "nn.expand", "nn.slice", "nn.convert"}


def get_bytes(type):
    """Of `tensor<4x8xf32>`."""
    *extents, element = re.match(r"tensor<([\dx]*[a-z]+\d+)", type)[1].split("x")
    bits = int(element.lstrip("bfiu"))
    return math.prod(map(int, extents)) * max(bits // 8, 1)


def is_op(line):
    return re.match(r"%[\w%:, ]+ = |sched\.|return", line)


class Op:
    """`%4:2 = sched.run @s1.B microbatch 0(%1, %3) : (A, B) -> (C, D)`"""

    def __init__(self, line):
        head, _, rest = line.partition(" = ") if line.startswith("%") else ("", "", line)
        self.name = re.match(r"[\w.]+", rest)[0]
        self.text, _, types = rest.rpartition(" : ")
        self.operands = re.findall(r"%\w+(?:#\d+)?", self.text)
        self.results = [
            f"{name}#{i}" if count else name
            for name, count in re.findall(r"(%\w+)(?::(\d+))?", head)
            for i in range(int(count or 1))
        ]
        made = re.findall(r"tensor<[^<>]*>", types.rpartition("->")[2])
        self.bytes = dict(zip(self.results, map(get_bytes, made), strict=False)) if head else {}

    def find(self, pattern):
        found = re.search(pattern, self.text)
        return found and found[1]


def read_functions(text):
    """The header and the operators of the function of each action and of each point, by name."""
    functions, name, lines = {}, None, []
    for line in map(str.strip, text.split("\n")):
        if found := re.match(r"module @(\S+)", line):
            module = found[1]
        if found := re.match(r"func\.func @(\w+)", line):
            name, lines = module if found[1] == "step" else found[1], [line]
        elif name and line == "}":
            functions[name] = lines[0], [Op(line) for line in lines[1:]]
            name = None
        elif name and is_op(line):
            lines.append(line)
        elif name:
            lines[-1] += " " + line
    return functions


class Action:
    """A pass of a section, or what a point runs once: `s0.F`, `s0.B`, `p0.2`."""

    def __init__(self, name, header, ops, arena):
        self.name, self.arena = name, arena
        self.section = name.partition(".")[0] if name.startswith("s") else None
        _, _, results = header.partition(") -> (")
        self.updates = [
            int(found[1]) if (found := re.search(r"nn\.updates = (\d+)", result)) else None
            for result in re.split(r"\}, (?=tensor)", results)
        ]
        self.makers = {result: op for op in ops for result in op.results}
        self.returned = ops[-1].operands

    def find_root(self, value):
        """What `value` is a view of; None: of what no argument has a part in."""
        maker = self.makers.get(value)
        while maker and maker.name in VIEWS:
            value = maker.operands[0]
            maker = self.makers.get(value)
        return None if maker and maker.name in ("nn.constant", "nn.iota") else value


class Value:
    """What a function of a point makes: `uses` are pairs of a position and the action that reads it."""

    def __init__(self, maker, begin, bytes):
        self.maker, self.begin, self.bytes, self.uses = maker, begin, bytes, []

    def get_saved(self):
        """From when on and how long a section holds it for a later pass; nothing if none does."""
        of_sections = defaultdict(list)
        if isinstance(self.maker, Action) and self.maker.section:
            of_sections[self.maker.section].append(self.begin)
        for position, action in self.uses:
            of_sections[action.section].append(position)
        spans = [
            (min(held), max(held))
            for section, held in of_sections.items()
            if section and len(held) > 1
        ]
        return (min(a for a, _ in spans), max(b for _, b in spans)) if spans else None

    def get_received(self):
        """Likewise, how long it waits for sections that did not make it."""
        own = isinstance(self.maker, Action) and self.maker.section
        first = {}
        for position, action in self.uses:
            if action.section != own:
                first.setdefault(action.section, position)
        return (self.begin, max(first.values())) if first else None


def add_span(changes, span, bytes):
    changes[span[0]] += bytes
    changes[span[1] + 1] -= bytes


def get_most(changes):
    alive = most = 0
    for position in sorted(changes):
        alive += changes[position]
        most = max(most, alive)
    return most


class Point:
    """Reads the function of a point."""

    def __init__(self, ops, actions):
        self.values, self.actions = {}, actions
        self.own, self.transient = 0, 0
        self.runs = []
        for position, op in enumerate(ops):
            self.read(position, op)

    def read(self, position, op):
        if op.name == "sched.run":
            self.run(position, op, self.actions[op.find(r"@([\w.]+)")])
        elif op.name == "sched.receive":
            self.values[op.results[0]] = Value(None, position, op.bytes[op.results[0]])
        elif op.name == "sched.zeros":
            self.own += op.bytes[op.results[0]]

    def run(self, position, op, action):
        for operand in op.operands:
            if operand in self.values:
                self.values[operand].uses.append((position, action))
        for result, update in zip(op.results, action.updates, strict=False):
            if update is None:
                self.values[result] = Value(action, position, op.bytes[result])
        self.runs.append((position, op, action))

    def count(self):
        saved, received = defaultdict(int), defaultdict(int)
        for position, op, action in self.runs:
            self.transient = max(self.transient, self.count_transient(op, action))
            self.count_saved(position, op, action, saved)
        for value in self.values.values():
            span, held = value.get_received(), value.get_saved()
            is_once = isinstance(value.maker, Action) and not value.maker.section
            if is_once and value.uses:
                self.own += value.bytes
            elif value.maker is None and held:
                add_span(saved, held, value.bytes)
            if span and not is_once:
                end = min(span[1], held[0] - 1) if held else span[1]
                add_span(received, (span[0], max(end, span[0])), value.bytes)
        return {
            "own": self.own,
            "saved": get_most(saved),
            "received": get_most(received),
            "transient": self.transient,
        }

    def count_transient(self, op, action):
        made = [self.values[result] for result in op.results if result in self.values]
        return action.arena + sum(
            value.bytes for value in made if not value.get_saved() and not value.get_received()
        )

    def count_saved(self, position, op, action, saved):
        """Views of one tensor are one; those of an argument are none, if it stays there."""
        groups = defaultdict(list)
        for result, returned in zip(op.results, action.returned, strict=True):
            value = self.values.get(result)
            if value and action.section and value.get_saved():
                groups[action.find_root(returned)].append((returned, value))
        for root, members in groups.items():
            if root is None:
                continue
            bytes = sum(value.bytes for _, value in members)
            end = max(value.get_saved()[1] for _, value in members)
            if root in action.makers:
                bytes = min(bytes, action.makers[root].bytes[root])
            else:
                outer = self.values.get(op.operands[int(root.removeprefix("%arg"))])
                if not outer or (outer.get_saved() and outer.get_saved()[1] >= end):
                    continue
                bytes = min(bytes, outer.bytes)
            add_span(saved, (position, end), bytes)


def get_held(program):
    """Of the text of a Program: for each point, bytes of arguments and results, and of arenas."""
    constants = sum(map(int, re.findall(r"(?m)^constant \d+ in \S+ (\d+) bytes", program)))
    arenas = [
        sum(map(int, re.findall(r"(?m)^  arena \d+ in \S+ (\d+) bytes", rank)))
        for rank in re.split(r"(?m)^rank program ", program)[1:]
    ]
    own = [constants] * len(arenas)
    for line in re.findall(r"(?m)^(?:argument|result) \d+ .*", program):
        if line.startswith("result") and " at result" not in line:
            continue
        element, shape = re.search(r" ([a-z]+\d+)\[[^\]]*\] local \[([^\]]*)\]", line).groups()
        size = get_bytes(
            f"tensor<{''.join(e.strip() + 'x' for e in shape.split(',') if e.strip())}{element}>"
        )
        at = re.search(r"pipe: at\((\d+)\)", line)
        for point in [int(at[1])] if at else range(len(own)):
            own[point] += size
    return own, arenas


def measure(step, points, microbatches, order, folder):
    program = folder / "step.tdm"
    text = measure_process(
        [
            BUILD / "bin/tandem-compile",
            step,
            "--mesh",
            f"pipe={points}",
            "--accumulate",
            microbatches,
            "--order",
            order,
            "--no-locations",
            "--print-after",
            "localize,lower",
            "-o",
            program,
        ]
    )["text"]
    _, localized, lowered = re.split(r"(?m)^module attributes", text)
    arenas = dict(
        re.findall(
            r"module @(\S+) attributes\s+\{(?:(?!module @)[\s\S])*?sched\.arena = (\d+)", lowered
        )
    )
    functions = read_functions(localized)
    actions = {name: Action(name, *functions[name], int(arena)) for name, arena in arenas.items()}
    listing = measure_process([BUILD / "bin/tandem-run", program, "--print"])["text"]
    for point, (own, arena) in enumerate(zip(*get_held(listing), strict=True)):
        row = {"point": point, **Point(functions[f"p{point}"][1], actions).count()}
        row["own"] += own
        needed = sum(row[part] for part in ("own", "saved", "received", "transient"))
        held = own + arena
        yield row | {"held": held, "ratio": held / needed}


def show(row):
    name = f"{row['model']} {row['order']} m={row['microbatches']} {row['point']}/{row['points']}"
    parts = " ".join(
        f"{row[part] / 1e6:9.3f}" for part in ("own", "saved", "received", "transient", "held")
    )
    print(f"{name:38} {parts} {row['ratio']:6.3f}", flush=True)


def split(text):
    return text.split(",")


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--models", type=split, default=list(MODELS))
    parser.add_argument("--points", type=split, default=["2", "4"])
    parser.add_argument("--microbatches", type=split, default=["4", "8"])
    parser.add_argument("--orders", type=split, default=["1f1b", "gpipe", "interleaved"])
    args = parser.parse_args()
    print(f"{'in MB':38}       own     saved  received transient      held  ratio")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for model in args.models:
            file, options = MODELS[model]
            step = folder / "step.mlir"
            export(ROOT / f"{file}.py", step, *options)
            for points in map(int, args.points):
                for microbatches in map(int, args.microbatches):
                    for order in args.orders:
                        case = {"model": model, "order": order, "points": points}
                        case["microbatches"] = microbatches
                        for row in measure(step, points, microbatches, order, folder):
                            rows.append(case | row)
                            show(rows[-1])
    report = Report()
    report.add("bytes that a rank of a pipeline holds against what it needs", rows)
    report.limit("held", max(row["ratio"] for row in rows), MOST, "times what it needs")
    report.finish(args)


if __name__ == "__main__":
    main()
