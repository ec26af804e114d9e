"""ptx-table: registers, spills and access widths of every kernel of the models, as reported by `ptxas`.

Starts with the runtime's own kernels (attention by tiles has its standard widths). Then compiles every model of the
matrix for `--arch` (sm_80 and sm_90). Prints per model, or with `--kernels` per kernel, the registers, the bytes
spilled, and the number of kernels whose widest access has 16 bytes. Exits with 1 if a kernel spills more than allowed,
calls a function outside of its Program, or is refused. Needs `ptxas` of the CUDA toolkit or of the Python package
nvidia-cuda-nvcc (13.0), named by TANDEM_PTXAS. `--only TEXT` selects models by a part of their name.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("TANDEM_BUILD", ROOT / "build"))
sys.path.insert(0, str(ROOT / "python-bindings" / "tests"))

Kernel = namedtuple("Kernel", "name registers spilled access")
ENTRY = re.compile(r"Compiling entry function '(\S+)' for")
USED = re.compile(r"Used (\d+) registers")
# An address, stored before its loop: with registers for all, two blocks would fit in place of three.
MAY_SPILL = {"tandem_attention_keys_bf16_64": 24}
SPILLED = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
ACCESS = re.compile(r"(?:ld|st)\.global(?:\.nc)?(?:\.v(\d))?\.[a-z](\d+)")


def find_ptxas():
    for path in (
        os.environ.get("TANDEM_PTXAS"),
        "/usr/local/cuda/bin/ptxas",
        shutil.which("ptxas"),
    ):
        if path and Path(path).exists():
            return path
    sys.exit("ptx-table: no ptxas found, expected the CUDA toolkit or TANDEM_PTXAS")


def ptx_of(program):
    """The text that lies in a Program: what can be printed, up to its last brace."""
    begin = program.find(b".version")
    text = re.match(rb"[\t\n -~]*", program[begin:]).group().decode()
    return text[: text.rindex("}") + 1] + "\n"


def widest_accesses(text):
    """By kernel, the most bytes that one instruction reads or writes."""
    widest = {}
    for part in text.split(".visible .entry ")[1:]:
        name = re.match(r"\w+", part).group()
        sizes = [int(count or 1) * int(bits) // 8 for count, bits in ACCESS.findall(part)]
        widest[name] = max(sizes, default=0)
    return widest


def assemble(ptxas, text, architecture):
    """The kernels of a text, and what is wrong with it."""
    if ".extern .func" in text:
        return [], ["calls a function that is not there"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.ptx"
        path.write_text(text)
        command = [ptxas, f"-arch={architecture}", "-v", str(path), "-o", "/dev/null"]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return [], [done.stderr.strip().splitlines()[0]]
    widest, kernels, name, spilled = widest_accesses(text), [], None, 0
    for line in done.stderr.splitlines():
        if found := ENTRY.search(line):
            name, spilled = found.group(1), 0
        elif found := SPILLED.search(line):
            spilled = int(found.group(1)) + int(found.group(2))
        elif (found := USED.search(line)) and name:
            kernels.append(Kernel(name, int(found.group(1)), spilled, widest.get(name, 0)))
            name = None
    return kernels, [
        f"{k.name} spills {k.spilled} bytes"
        for k in kernels
        if k.spilled > MAY_SPILL.get(k.name, 0)
    ]


def describe(variant, architecture, kernels):
    registers = max((k.registers for k in kernels), default=0)
    wide = sum(k.access >= 16 for k in kernels)
    spilled = sum(k.spilled for k in kernels)
    return f"{variant:16} {architecture:6} {len(kernels):5} kernels {registers:4} registers {spilled:5} bytes spilled {wide:5} wide"


def main():
    parser = argparse.ArgumentParser(prog="ptx-table", description=__doc__)
    parser.add_argument("--arch", default="sm_80,sm_90")
    parser.add_argument("--only", default="")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64", "bf16"])
    parser.add_argument("--kernels", action="store_true")
    options = parser.parse_args()
    ptxas, failed = find_ptxas(), False

    def report(name, architecture, text):
        kernels, wrong = assemble(ptxas, text, architecture)
        print(describe(name, architecture, kernels), flush=True)
        for kernel in kernels if options.kernels else []:
            print(
                f"    {kernel.name} {kernel.registers} registers {kernel.access} bytes per access"
            )
        for line in wrong:
            print(f"    {line}", flush=True)
        return bool(wrong)

    for path in sorted((BUILD / "runtime" / "cuda").glob("*.ptx")):
        for architecture in options.arch.split(","):
            if options.only in path.stem:
                failed |= report(path.stem, architecture, path.read_text())
    import matrix

    for variant in matrix.VARIANTS:
        if options.only not in variant:
            continue
        case = matrix.Case(variant, dtype=options.dtype)
        subject = matrix.subject_of(case, steps=1)
        for architecture in options.arch.split(","):
            compiled = matrix.compile_case(case, subject, device="cuda", architecture=architecture)
            failed |= report(variant, architecture, ptx_of(compiled.bytes))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
