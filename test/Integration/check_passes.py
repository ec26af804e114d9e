"""Runs every registered pass and pipeline of tandem-opt on IR of every stage, on an empty module, and
on modules that were edited to be no step at all: each either succeeds or reports, in lines that name a
place, and none crashes. What a pass writes is IR that parses.

usage: check_passes.py STEP FOLDER
"""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# One pass after the other, from the source to the machine's code, so that each sees the output of each.
STEPS = [
    "tandem-import",
    "tandem-plan=mesh=data=2,model=2 micro=2 preset=zero",
    "tandem-place-sources",
    "tandem-apply-signatures",
    "tandem-widen-sums",
    "tandem-split-reforms",
    "tandem-localize-space",
    "tandem-merge-collectives",
    "tandem-number-movements",
    "tandem-split-strands",
    "tandem-mark-joins",
    "tandem-assign-slots",
    "tandem-form-steps",
    "tandem-place-events",
    "tandem-select-products",
    "tandem-outline-kernels",
    "tandem-bufferize",
    "tandem-forward-destinations",
    "tandem-join-updates",
    "tandem-place-buffers",
]
KERNEL = [
    "tandem-decompose-nn",
    "tandem-nn-to-linalg",
    "tandem-kernels-to-loops",
    "tandem-fast-math",
    "tandem-approximate-math",
    "tandem-kernels-to-llvm",
]
SPLIT = "\n// -----\n"
EDITED = {
    "empty": "",
    "external": "func.func private @step(tensor<4xf32>) -> tensor<4xf32>",
    "blocks": """func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^end
^end:
  return %x : tensor<4xf32>
}""".replace("cf.br ^end", '"func.return"(%x) : (tensor<4xf32>) -> ()'),
    "dynamic": """func.func @step(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = nn.exp %x : (tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}""",
    "scalar": """func.func @step(%x: f32) -> f32 {
  return %x : f32
}""",
    "no-roles": """func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}""",
    "no-results": """func.func @step() {
  return
}""",
    "no-text": """module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.exp %x {spmd.plan = [1 : i64]} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}""",
    "calls": """func.func private @kernel_0(tensor<4xf32>) -> tensor<4xf32> attributes {sched.kernel}
func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0, %done = sched.step on compute stage 0 strand 0 {
    %1 = func.call @kernel_0(%x) : (tensor<4xf32>) -> tensor<4xf32>
    sched.yield %1 : tensor<4xf32>
  } : tensor<4xf32>
  return %0 : tensor<4xf32>
}""",
    "kernel": """func.func @kernel(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.softmax %x {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = nn.cumsum %0 {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}""",
}


def run(*arguments):
    return subprocess.run(["tandem-opt", *arguments], capture_output=True, text=True)


def write_stages(folder, source, flags):
    """The IR after each pass; fails if one of them fails on what it is meant for."""
    files = [source]
    for number, flag in enumerate(flags):
        name = flag.partition("=")[0].removeprefix("tandem-")
        target = folder / f"{source.stem}.{number:02}.{name}.mlir"
        # An error then names a line of what is joined.
        done = run(files[-1], f"--{flag}", "--mlir-print-debuginfo=false", "-o", target)
        if done.returncode:
            sys.exit(f"{flag} on {files[-1].name}: {done.stderr}")
        files.append(target)
    return files


def get_passes():
    flags = re.findall(r"^\s+--(tandem-[a-z-]+)", run("--help").stdout, re.MULTILINE)
    missing = {flag.partition("=")[0] for flag in STEPS + KERNEL} - set(flags)
    if missing:
        sys.exit(f"tandem-opt --help does not list {sorted(missing)}")
    return sorted(set(flags))


def check_one(flag, file):
    """What is wrong with the pass on one input, or None."""
    done = run(file, f"--{flag}")
    if done.returncode not in (0, 1):
        return f"{flag} on {file.name}: exit status {done.returncode}: {done.stderr[:300]}"
    return None


def find_part(files, joined, error):
    """The number of the input that an error is about, by its line in `joined`."""
    line = int(error.removeprefix(f"{joined}:").partition(":")[0])
    for number, file in enumerate(files):
        line -= file.read_text().count("\n") + SPLIT.count("\n")
        if line < 0:
            return number
    return len(files)


def check(flag, files, joined):
    """What is wrong with the pass, one line each. All inputs are parts of one file, `joined`, so that the
    tool starts once; where it does not end well, it is started for each.
    """
    done = run(joined, "--split-input-file", f"--{flag}")
    if done.returncode not in (0, 1):
        return list(filter(None, (check_one(flag, file) for file in files)))
    wrong = []
    errors = [line for line in done.stderr.splitlines() if " error: " in line]
    parts = [find_part(files, joined, line) for line in errors]
    for line, part in zip(errors, parts, strict=True):
        if parts.count(part) > 1:
            wrong.append(f"{flag} gives more than one error: {line}")
    modules = [text for text in done.stdout.split(SPLIT.strip()) if text.strip()]
    if len(modules) + len(set(parts)) != len(files):
        wrong.append(
            f"{flag}: {len(modules)} outputs, {len(set(parts))} errors on {len(files)} inputs"
        )
    again = subprocess.run(
        ["tandem-opt", "--split-input-file"],
        input=SPLIT.join(modules),
        capture_output=True,
        text=True,
    )
    if again.returncode:
        wrong.append(f"{flag} writes IR that does not parse: {again.stderr[:300]}")
    return wrong


def main(step, folder):
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, text in EDITED.items():
        file = folder / f"{name}.mlir"
        file.write_text(text)
        files.append(file)
    kernel = next(file for file in files if file.stem == "kernel")
    files += write_stages(folder, kernel, KERNEL)[1:]
    files += write_stages(folder, step, STEPS)
    joined = folder / "joined.mlir"
    joined.write_text(SPLIT.join(file.read_text() for file in files))
    passes = get_passes()
    with ThreadPoolExecutor(2) as pool:
        wrong = sum(pool.map(lambda flag: check(flag, files, joined), passes), [])
    print(*wrong, sep="\n")
    print(f"{len(passes)} passes on {len(files)} modules, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
