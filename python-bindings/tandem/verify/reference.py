"""Runs a step's IR of any compiler stage in the reference interpreter, or its Program, by the tools.

For `verify --device reference`, which tells a wrong plan or stage from a wrong kernel, and for `bisect`.
"""

import os
import subprocess
import sysconfig
from pathlib import Path

import torch

from ..base.outputs import write_tensors
from ..errors import RunError, TandemError
from .compare import CHOICE, History, Values, is_choice

STAGES = ("import", "accumulate", "plan", "shard", "localize", "duplex", "schedule")


def find_tool(name):
    """A tool of the build that this package belongs to, or that was installed with it, else from the PATH."""
    root = Path(__file__).resolve().parents[3]
    build = Path(os.environ.get("TANDEM_BUILD", root / "build"))
    paths = (build / "bin" / name, Path(sysconfig.get_path("scripts")) / name)
    return next((str(path) for path in paths if path.exists()), name)


def run_tool(error_class, name, *arguments):
    try:
        process = subprocess.run(
            [find_tool(name), *map(str, arguments)], capture_output=True, text=True
        )
    except FileNotFoundError as error:
        raise TandemError(f"{name} is not there; `make build` makes it") from error
    if process.returncode:
        lines = [line for line in process.stderr.splitlines() if "error:" in line] or [
            process.stderr.strip()
        ]
        raise error_class(
            lines[0] if lines[0] else f"{name} ended with status {process.returncode}"
        )
    return process.stdout


def run_reference(module, ir, batches, seed, folder, operators=None, rounds=True):
    """Trains the step in `ir`, one step at a time; returns the history. `operators(number)` names the file for what each
    operator of a step gives, until an error ends it. Without `rounds` no value is rounded to its type: all arithmetic is
    that of float64.
    """
    history, after_steps = History(), []
    results = Path(folder) / "results.safetensors"

    def run(number, *words):
        words = [ir, *words, "--save-results", results]
        if operators:
            words += ["--save-operators", operators(number)]
        if not rounds:
            words.append("--exact")
        run_tool(RunError, "tandem-interpret", *words)

    for values in _steps(module, batches, seed, folder, run):
        _note(history, _load(results))
        after_steps.append(Values.of(values))
    history.take(after_steps)
    return history


def record_program(module, program, batches, seed, folder, operators, threads=1):
    """Trains the step of a Program; what its commands gave of each operator goes to the files `operators(number)`."""

    def run(number, *words):
        words = [program, *words, "--threads", threads, "--save-operators", operators(number)]
        run_tool(RunError, "tandem-run", *words)

    for _ in _steps(module, batches, seed, folder, run):
        pass


def _steps(module, batches, seed, folder, run):
    """The values behind each step, which `run(number, "--data", FILE, "--save", FILE)` does."""
    data, after = (Path(folder) / f"{name}.safetensors" for name in ("data", "after"))
    values = module.values() | {"seed/seed": torch.tensor(seed)}
    for number, batch in enumerate(batches):
        tensors = values | {
            key.replace("input/", "batch.0/"): t for key, t in module.inputs(batch).items()
        }
        write_tensors(data, tensors)
        run(number, "--data", data, "--save", after)
        values |= _load(after)
        yield values


def _load(path):
    """Copies: a loaded file stays mapped, and is written again at the next step."""
    from safetensors.torch import load_file

    return {key: tensor.clone() for key, tensor in load_file(path).items()}


def _note(history, results):
    """Takes loss, gradients and choices of one step."""
    history.losses.append(results["loss/loss"].item())
    named = {key.partition("/"): tensor for key, tensor in results.items()}
    history.gradients.append(
        {name: tensor for (role, _, name), tensor in named.items() if role == "gradient"}
    )
    choices = {name: tensor for (role, _, name), tensor in named.items() if is_choice(role, name)}
    history.choices.append([choices[f"{CHOICE}{i}"] for i in range(len(choices))])
