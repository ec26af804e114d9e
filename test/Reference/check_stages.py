"""Runs a model through the stages, and after each of them in the reference interpreter: every stage
must leave loss, parameters and state what they were on one device.

usage: check_stages.py SOURCE FOLDER MODEL PLAN... where a plan is `mesh:options`, as in
`data=2,model=2:micro=2 preset=tensor-parallel`.
"""

import subprocess
import sys
from pathlib import Path

from tandem.capture.export import export
from tandem.capture.model_file import load_model_file

STAGES = ["shard", "localize", "duplex", "schedule"]


def capture(source, folder, name):
    path, _, preset = name.partition(":")
    file = load_model_file(source / "examples" / f"{path}.py", preset or None, "", "float64")
    model, batches = file.make_model(), file.batches(2)
    step = export(model, file.loss, file.make_optimizer(model), batches[0])
    (folder / "step.mlir").write_text(step.mlir)
    step.save_values(folder / "step.safetensors", batches, seed=5)


def run(*command):
    """The command's error text, if it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    return (
        "\n".join(done.stderr.splitlines()[:5]) or f"exit status {done.returncode}"
        if done.returncode
        else None
    )


def check(folder, plan):
    mesh, _, options = plan.partition(":")
    source = folder / "plan.mlir"
    failure = run(
        "tandem-opt",
        folder / "step.mlir",
        "--tandem-import",
        f"--tandem-plan=mesh={mesh} {options}",
        "-o",
        source,
    )
    if failure:
        return f"plan: {failure}"
    for stage in STAGES:
        target = folder / f"{stage}.mlir"
        failure = run("tandem-opt", source, f"--tandem-{stage}", "-o", target)
        failure = failure or run(
            "tandem-interpret",
            target,
            "--data",
            folder / "step.safetensors",
            "--steps",
            "2",
            "--compare",
            folder / "step.mlir",
        )
        if failure:
            return f"{stage}: {failure}"
        source = target
    return None


def main(source, folder, model, plans):
    folder.mkdir(parents=True, exist_ok=True)
    capture(source, folder, model)
    failures = 0
    for plan in plans:
        failure = check(folder, plan)
        failures += failure is not None
        print(f"{model} {plan}: {failure or 'every stage keeps the results'}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4:]))
