"""Offers a model's backward pass to make values again, chooses sources at random, and runs the step: in the reference
interpreter, which compares all sources, and compiled. Values must be those of the step without the offer.

usage: check_sources.py SOURCE FOLDER MODEL SEEDS MESH PLAN...
"""

import random
import re
import sys
from pathlib import Path

from check_stages import capture, run
from safetensors.torch import load_file

TOLERANCE = 1e-9


def choose(text, seed):
    """Gives each `nn.either` a source; seed 0 takes the last one of each, what is made again."""
    numbers = random.Random(seed)

    def mark(match):
        count = match[1].count("%")
        source = numbers.randrange(count) if seed else count - 1
        return f"{match[0]}nn.source = {source} : i64, "

    return re.sub(r"= nn\.either ((?:%\S+,? )+)\{", mark, text)


def differences(found, expected):
    found, expected = load_file(found), load_file(expected)
    for name in (name for name in expected if name.startswith(("parameter/", "state/"))):
        value = expected[name]
        scale = max(value.double().abs().max().item(), 1e-3) if value.numel() else 1
        if (found[name].double() - value.double()).abs().max().item() > TOLERANCE * scale:
            yield name


def check(folder, seed, mesh, options):
    offered, plan = folder / "offered.mlir", folder / "plan.mlir"
    step, data = folder / "step.mlir", folder / "step.safetensors"
    program, after = folder / "step.tdm", folder / "after.safetensors"
    accumulate, options = re.fullmatch(r"(?:accumulate=(\d+) )?(.*)", options).groups()
    stages = [f"--tandem-accumulate=accumulate={accumulate}"] if accumulate else []
    stages += [f"--tandem-plan=mesh={mesh} {options}"]
    failure = run("tandem-opt", offered, *stages, "-o", plan)
    if failure:
        return f"plan: {failure}"
    plan.write_text(choose(plan.read_text(), seed))
    sharded = folder / "shard.mlir"
    for command in (
        ("tandem-opt", plan, "--tandem-shard", "-o", sharded),
        ("tandem-interpret", sharded, "--data", data, "--compare", step),
        ("tandem-compile", plan, "--from", "plan", "-o", program),
        ("tandem-run", program, "--data", data, "--steps", "1", "--save", after),
    ):
        if failure := run(*command):
            return f"{command[0]}: {failure}"
    names = list(differences(after, folder / "expected.safetensors"))
    return f"{names[0]} differs" if names else None


def main(source, folder, model, seeds, mesh, plans):
    folder.mkdir(parents=True, exist_ok=True)
    capture(source, folder, model)
    step, data, offered = (
        folder / name for name in ("step.mlir", "step.safetensors", "offered.mlir")
    )
    failures = [
        run("tandem-opt", step, "--tandem-import=recompute=true", "-o", offered),
        # Sources are compared here.
        run("tandem-interpret", offered, "--data", data, "--compare", step),
        run("tandem-interpret", step, "--data", data, "--save", folder / "expected.safetensors"),
    ]
    for plan in plans:
        failures += [check(folder, seed, mesh, plan) for seed in seeds]
    failures = [failure for failure in failures if failure]
    count = offered.read_text().count("nn.either")
    print(
        f"{model}: {failures[0] if failures else f'{count} choices keep the results'}", flush=True
    )
    return 1 if failures or not count else 0


if __name__ == "__main__":
    source, folder, model, seeds, mesh, *plans = sys.argv[1:]
    sys.exit(
        main(
            Path(source), Path(folder), model, [int(seed) for seed in seeds.split(",")], mesh, plans
        )
    )
