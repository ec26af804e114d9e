"""Programs for faults.py, compiled from examples: data-parallel ones, a pipeline, and a pipeline that sleeps."""

import importlib
import itertools
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("TANDEM_BUILD", ROOT / "build"))
RUN = str(BUILD / "bin/tandem-run")
STEPS = 24
LAYERS = MICROBATCHES = POINTS = 4
# Of the pipeline that sleeps: of each forward and each backward pass of a microbatch, and of the updates of a point.
PASS_SECONDS, UPDATE_SECONDS, TIMED_STEPS = 0.02, 0.3, 3
# Seconds behind the begin of a step, from and to, in which points are in that part of it.
PHASES = {"forward": (0.02, 0.06), "backward": (0.14, 0.24), "update": (0.36, 0.5)}


@dataclass
class Program:
    """A compiled step with values and batches, and what one process makes of them."""

    path: Path
    data: Path
    steps: int = STEPS
    times: Path = None  # of commands that sleep: nothing is read or saved
    losses: list = None
    saved: bytes = None
    seconds: dict = field(default_factory=dict)  # of a job, by processes
    start: dict = field(default_factory=dict)  # until its first step has ended


def compile_program(folder, name, called, **options):
    """`called` is the file's name; options as of tandem.compile."""
    import tandem
    from tandem.session.compile import compile_module

    sys.path.insert(0, str(ROOT / "examples"))
    example = importlib.import_module(name)
    preset = example.PRESETS["tiny"] | ({"layers": LAYERS} if "accumulate" in options else {})
    model = example.model(**preset)
    batches = list(itertools.islice(example.batches(**preset), 4))
    module = tandem.export(model, example.loss, example.optimizer(model), batches[0])
    program = Program(folder / f"{called}.tdm", folder / f"{called}.safetensors")
    program.path.write_bytes(compile_module(module, **options).bytes)
    module.save_values(program.data, batches)
    return program


def compile_pipeline(folder):
    """A layer on each point; the embedding is tied, so that a gradient goes back from the last point to the first."""
    import tandem

    pins = [tandem.pin(f"layers.{point}.*", pipe=f"at({point})") for point in range(POINTS)]
    mesh = f"pipe={POINTS}"
    return compile_program(folder, "gpt", "pipeline", mesh=mesh, accumulate=MICROBATCHES, pins=pins)


def list_commands(program):
    """(rank program, id, name) of each command."""
    text = subprocess.check_output([RUN, program.path, "--print"], text=True)
    number = -1
    for line in text.splitlines():
        if line.startswith("rank program"):
            number += 1
        elif found := re.match(r" +(\d+) .*? '([^']*)' stage ", line):
            yield number, found[1], found[2]


def let_sleep(pipeline):
    """The pipeline, in which passes and updates take their seconds: its losses and values mean nothing."""
    path = pipeline.path.with_suffix(".times.json")
    subprocess.run(
        [RUN, pipeline.path, "--steps=1", "--save-times", path], check=True, capture_output=True
    )
    table = json.loads(path.read_text())
    parts = {}
    for program, number, name in list_commands(pipeline):
        if number in table["seconds"][program] and name != "zeros":
            found = re.match(r"\d+[FB]\d+ ", name)
            parts.setdefault((program, found and found[0]), []).append(number)
    table["seconds"] = [dict.fromkeys(seconds, 0.0) for seconds in table["seconds"]]
    for (program, action), numbers in parts.items():
        seconds = PASS_SECONDS if action else UPDATE_SECONDS
        table["seconds"][program] |= dict.fromkeys(numbers, seconds / len(numbers))
    path.write_text(json.dumps(table))
    return Program(pipeline.path, pipeline.data, TIMED_STEPS, path)


def poison(program, point):
    """The values of `program` with a parameter of that layer that is not a number."""
    from safetensors.torch import load_file, save_file

    path = program.data.with_suffix(f".nan{point}.safetensors")
    values = load_file(program.data)
    values[f"parameter/layers.{point}.mlp.w1.weight"].fill_(float("nan"))
    save_file(values, path)
    return Program(program.path, path, program.steps)
