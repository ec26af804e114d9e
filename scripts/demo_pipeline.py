"""demo-pipeline: trains a GPT on four ranks, a section of its layers on each, and in PyTorch on one device.

Prints the losses of both, and the timeline of a step that is predicted for four machines: what each point does when.
Writes the Program, the timeline, its picture and what the ranks did here to demo/ (or to the given folder).
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("TANDEM_BUILD", ROOT / "build"))
CLUSTER = ROOT / "examples" / "clusters" / "ethernet-4x1.yaml"
STEPS, POINTS, MICROBATCHES = 5, 4, 8
SIZES = "layers=4,width=256,heads=4,seq=128,batch=32,dropout=0.0"
# Of actions, as in the picture: code of a colour of terminals.
COLOURS = {"F": 44, "I": 43, "B": 41, "W": 42, "U": 45}
COLUMNS = 78
# Kinds of events that wait for other points.
WAITING = ("wait", "transfer", "check_finite")


def load():
    """The model file, and how a step is compiled."""
    from tandem import pin
    from tandem.capture.model_file import load_model_file

    file = load_model_file(ROOT / "examples" / "gpt.py", None, SIZES, "float32")
    pins = [pin(f"layers.{point}.*", pipe=f"at({point})") for point in range(POINTS)]
    return file, {"mesh": {"pipe": POINTS}, "accumulate": MICROBATCHES, "pins": pins}


def train(step, batches, timeline):
    with step.trace(timeline):
        return [float(step(batch)) for batch in batches]


def train_in_torch(file, batches):
    import torch

    torch.set_num_threads(1)
    model = file.make_model(0)
    optimizer, losses = file.make_optimizer(model), []
    for batch in batches:
        optimizer.zero_grad()
        loss = file.loss(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def predict(program, timeline):
    """Writes the timeline of a step that CLUSTER's prices predict."""
    table = timeline.with_suffix(".times")
    for command in (
        ["tandem-profile", "--price", program, "--cluster", CLUSTER, "-o", table],
        ["tandem-trace", "predict", program, "--times", table, "-o", timeline],
    ):
        subprocess.run([BUILD / "bin" / command[0], *command[1:]], check=True)
    table.unlink()


def spans_of(timeline):
    """{rank: [(begin, end, action)]} of computing commands of actions; times in microseconds, the first is 0."""
    spans = {}
    for event in json.loads(timeline.read_text())["traceEvents"]:
        if event["ph"] == "X" and event["cat"] not in WAITING:
            of_rank = spans.setdefault(event["pid"], [])
            if action := re.match(r"\d+([FIBWU])\d* ", event["name"]):
                of_rank.append((event["ts"], event["ts"] + event["dur"], action[1]))
    first = min(begin for of_rank in spans.values() for begin, _, _ in of_rank)
    return {
        rank: [(begin - first, end - first, action) for begin, end, action in of_rank]
        for rank, of_rank in spans.items()
    }


def row_of(spans, width):
    """A letter per column: the action that takes most of it, a blank if waiting does; an update is seen if it is short."""
    row = ""
    for column in range(COLUMNS):
        left, right = column * width, (column + 1) * width
        parts = dict.fromkeys(COLOURS, 0.0)
        for begin, end, action in spans:
            parts[action] += max(0.0, min(end, right) - max(begin, left))
        most = "U" if parts["U"] else max(parts, key=parts.get)
        waits = most != "U" and parts[most] <= width - sum(parts.values())
        row += " " if waits else most
    return row


def coloured(row):
    if not sys.stdout.isatty():
        return row
    return re.sub(r"(\w)\1*", lambda run: f"\033[{COLOURS[run[1]]};97m{run[0]}\033[0m", row)


def print_timeline(timeline):
    from tandem import report

    spans = spans_of(timeline)
    width = max(end for of_rank in spans.values() for _, end, _ in of_rank) / COLUMNS
    found = report(timeline)
    for point, bubble in enumerate(entry["bubble"] for entry in found["points"]):
        print(f"point {point} |{coloured(row_of(spans[point], width))}| {bubble:4.0%} bubble")
    mean = sum(entry["bubble"] for entry in found["points"]) / POINTS
    ideal = (POINTS - 1) / (MICROBATCHES + POINTS - 1)
    print(
        f"bubble: {mean:.1%} of a step of {1e3 * found['total']['seconds']:.1f} ms,"
        f" {ideal:.1%} if sections were equal and transfers free"
    )


def in_words(losses):
    return "  ".join(f"{loss:.6f}" for loss in losses)


def main():
    import tandem

    parser = argparse.ArgumentParser("demo-pipeline", description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=ROOT / "demo", type=Path)
    folder = parser.parse_args().folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    file, options = load()
    batches, model = file.batches(STEPS), file.make_model(0)
    step = tandem.compile(model, file.loss, file.make_optimizer(model), batches[0], **options)
    losses = train(step, batches, folder / "pipeline-here.json")
    expected = train_in_torch(file, batches)
    largest = max(abs(a - b) for a, b in zip(losses, expected, strict=True))
    print(f"gpt ({SIZES}) on pipe={POINTS}, 1f1b, {MICROBATCHES} microbatches")
    print(f"Tandem   {in_words(losses)}")
    print(f"PyTorch  {in_words(expected)}  largest difference {largest:.1e}")
    step.save_program(folder / "pipeline.tdm")
    predict(folder / "pipeline.tdm", folder / "pipeline.json")
    print(f"a step on four machines ({CLUSTER.name}), as predicted:")
    print_timeline(folder / "pipeline.json")
    tandem.picture(folder / "pipeline.json", folder / "pipeline.svg")
    print(
        f"in {folder}: pipeline.svg, pipeline.tdm, and pipeline-here.json, what ran on this machine"
    )
    return int(largest > 1e-4)


if __name__ == "__main__":
    from tandem.errors import TandemError

    try:
        sys.exit(main())
    except TandemError as error:
        sys.exit(f"demo-pipeline: error: {error}")
