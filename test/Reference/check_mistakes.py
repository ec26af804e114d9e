"""Plants mistakes in the IR after `duplex`, one at a time; each must be refused or change a result.

usage: check_mistakes.py SOURCE FOLDER
"""

import re
import subprocess
import sys
from pathlib import Path

from check_stages import capture, check

# Axes of different sizes: a sum of equal counts over the wrong axis would be right.
PLAN = "data=4,model=2:micro=2 preset=tensor-parallel"
COLLECTIVE = re.compile(r" *(%\w+) = spmd\.all_reduce (%\w+) over \[\"(\w+)\"\].*-> (tensor<\S+>)")
SLICE = re.compile(r" *%\w+ = nn\.slice (%arg\w+) .*start = (\d+) : i64, stop = (\d+) : i64")
UPDATE = re.compile(r" *(%\w+) = nn\.sub (%arg\w+), (%\w+) .*: (\(.*\) -> (tensor<\S+>))")


def rename(lines, old, new):
    """`lines` with the value `old` replaced by `new`."""
    return [re.sub(re.escape(old) + r"\b", new, line) for line in lines]


def missing_collectives(lines):
    for i, line in enumerate(lines):
        if match := COLLECTIVE.match(line):
            result, operand = match[1], match[2]
            yield (
                f"line {i + 1}: no collective",
                lines[:i] + rename(lines[i + 1 :], result, operand),
            )


def wrong_groups(lines):
    for i, line in enumerate(lines):
        if match := COLLECTIVE.match(line):
            other = "model" if match[3] == "data" else "data"
            wrong = line.replace(f'["{match[3]}"]', f'["{other}"]')
            yield f"line {i + 1}: collective over {other}", lines[:i] + [wrong] + lines[i + 1 :]


def scaled_gradients(lines):
    for i, line in enumerate(lines):
        match = COLLECTIVE.match(line)
        if not match or 'nn.pass = #backward' not in line:
            continue
        kind = match[4]
        planted = [
            "    %scale = nn.constant dense<1.001> : tensor<f64> -> tensor<f64>",
            f"    %scaled = nn.mul {match[1]}, %scale : ({kind}, tensor<f64>) -> {kind}",
        ]
        rest = rename(lines[i + 1 :], match[1], "%scaled")
        yield f"line {i + 1}: gradient times 1.001", lines[: i + 1] + planted + rest


def double_updates(lines):
    for i, line in enumerate(lines):
        match = UPDATE.match(line)
        if not match or 'nn.pass = #update' not in line:
            continue
        planted = f"    %twice = nn.sub {match[1]}, {match[3]} : {match[4]}"
        rest = rename(lines[i + 1 :], match[1], "%twice")
        yield f"line {i + 1}: update done twice", lines[: i + 1] + [planted] + rest


def swapped_microbatches(lines):
    """The two strands take each other's slice of one input."""
    for argument in sorted({match[1] for line in lines if (match := SLICE.match(line))}):
        at = [i for i, line in enumerate(lines) if (m := SLICE.match(line)) and m[1] == argument]
        first, second = (SLICE.match(lines[i]).groups()[1:] for i in at[:2])
        swapped = list(lines)
        for i, (start, stop) in zip(at, (second, first), strict=False):
            swapped[i] = re.sub(
                r"start = \d+ : i64, stop = \d+",
                f"start = {start} : i64, stop = {stop}",
                swapped[i],
            )
        yield f"{argument}: microbatches swapped", swapped


MISTAKES = [
    missing_collectives,
    wrong_groups,
    scaled_gradients,
    double_updates,
    swapped_microbatches,
]


def is_caught(folder, lines):
    (folder / "mistake.mlir").write_text("\n".join(lines))
    command = ["tandem-interpret", folder / "mistake.mlir", "--data", folder / "step.safetensors"]
    done = subprocess.run(
        command + ["--compare", folder / "step.mlir"], capture_output=True, text=True
    )
    return done.returncode == 1 and "error:" in done.stderr


def main(source, folder):
    folder.mkdir(parents=True, exist_ok=True)
    capture(source, folder, "mlp")
    if failure := check(folder, PLAN):
        print(failure)
        return 1
    lines = (folder / "duplex.mlir").read_text().splitlines()
    status = 0
    for mistake in MISTAKES:
        planted = list(mistake(lines))
        missed = [what for what, changed in planted if not is_caught(folder, changed)]
        name = mistake.__name__.replace("_", " ")
        print(f"{name}: {len(planted) - len(missed)} of {len(planted)} caught", *missed, sep="\n  ")
        status |= bool(missed) or not planted
    return int(status)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
