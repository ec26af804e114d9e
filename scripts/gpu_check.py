"""Builds the runtime of a package on a machine with a GPU, and tests its correctness and speed there.

usage: gpu-check [--json FILE] [--emulated] [--minutes M] [--compiled]

Needs CMake, ninja, a C++20 compiler and, for comparisons, PyTorch; no MLIR and no network. A failed part does not end
the run: the table and the JSON report it. Exit status 1 if a part failed.

First it tests properties that the emulated GPU cannot show:
  the driver and its version; PTX of the runtime's and of the Programs' kernels as the driver compiles it (ptxas,
  registers, shared memory); cuBLASLt's answers; memory order between blocks and streams (each case twice, equal to the
  bit); a primary context, memory and streams of another library.
NCCL is not tested, since it needs several GPUs.
"""

import argparse
import ctypes
import json
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE / "build"
# Of |expected| and of the largest of a tensor, by the coarsest type that a step computes in: sums have another order.
TOLERANCE = {"float64": 1e-9, "float32": 2e-4, "bfloat16": 2e-2}
# Of the bytes that a copy moves in a second, by what a kernel does; those that move fewer bytes are not judged.
LEAST_SHARES, JUDGED_BYTES = {"update": 0.9, "column": 0.8, "row": 0.85}, 60e6
# Tests of the conformance suite that launch none of the tests' own kernels, which exist for the CPU and the emulated GPU.
WITHOUT_KERNELS = (
    "*GemmTest*:*AttentionTest*:*ConvolutionTest*:*CheckTest*:Check.FindsWhatIsNotFinite"
    ":Direct.Slices*:Direct.Parts*:Direct.WhatTheCaller*:Direct.Terms*"
    ":TransferProgram.RunsOnThreads:CheckStages.ReachAllPoints"
)


class Check:
    """Rows of the table: what, whether it is as it should be, and a word."""

    def __init__(self, seconds):
        self.rows, self.numbers, self.end = [], {}, time.monotonic() + seconds

    def add(self, name, passed, text=""):
        self.rows.append({"what": name, "passed": passed, "text": text})
        word = "ok" if passed else "FAILED"
        print(f"{name:44} {word:7} {text}", flush=True)

    def attempt(self, name, action):
        """A row of what `action` says; nothing that it raises ends the check."""
        if time.monotonic() > self.end:
            return self.add(name, False, "not run: the time is over")
        begin = time.monotonic()
        try:
            text = action() or ""
        except subprocess.TimeoutExpired:
            return self.add(name, False, "did not end in its time")
        except Exception as error:  # noqa: BLE001
            return self.add(
                name,
                False,
                str(error).strip().splitlines()[-1][:300] if str(error).strip() else repr(error),
            )
        self.add(name, True, f"{text} ({time.monotonic() - begin:.1f} s)".strip())


def run(*command, timeout=240, **variables):
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=timeout,
        env=os.environ | variables,
    )
    if done.returncode:
        text = done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}"
        raise RuntimeError(text[-2000:])
    return done.stdout


def read_safetensors(path):
    """{name: array}; bfloat16 as the upper halves of float32."""
    import numpy as np

    types = {
        "F64": "f8",
        "F32": "f4",
        "I64": "i8",
        "I32": "i4",
        "BOOL": "?",
        "U8": "u1",
        "F16": "f2",
    }
    data = Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + at for at in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            upper = np.frombuffer(data[begin:end], "<u2").astype("<u4") << 16
            tensors[name] = upper.view("<f4").reshape(entry["shape"])
        else:
            kind = types[entry["dtype"]]
            tensors[name] = np.frombuffer(data[begin:end], kind).reshape(entry["shape"])
    return tensors


def difference(found, expected):
    """The largest difference of two tensors, of what the largest element of `expected` is; inf if one is not finite."""
    import numpy as np

    if found.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(found, expected) else float("inf")
    apart = np.abs(found.astype("f8") - expected.astype("f8")).max()
    return float(apart / max(1.0, np.abs(expected).max())) if np.isfinite(apart) else float("inf")


# ---- The machine


def look_at_driver():
    driver = ctypes.CDLL(library("libcuda.so.1"))
    version, count = ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDriverGetVersion(ctypes.byref(version)):
        raise RuntimeError("the driver does not start")
    driver.cuDeviceGetCount(ctypes.byref(count))
    text = f"CUDA {version.value // 1000}.{version.value % 1000 // 10}, {count.value} GPU(s)"
    if version.value < 13000 or not count.value:
        raise RuntimeError(f"{text}, expected CUDA 13.0 or later and a GPU")
    return text


def library(name):
    folder = os.environ.get("TANDEM_CUDA_LIBRARIES")
    return str(Path(folder) / name) if folder else name


def look_at_libraries():
    """cuBLASLt is often PyTorch's; then its folder is told to the loader of what is started from here."""
    if os.environ.get("TANDEM_CUDA_LIBRARIES"):
        return "emulated"
    try:
        ctypes.CDLL("libcublasLt.so.13")
        return "of the system"
    except OSError:
        pass
    for folder in map(Path, sys.path):
        for found in folder.glob("nvidia/**/libcublasLt.so.13"):
            paths = [str(found.parent), os.environ.get("LD_LIBRARY_PATH", "")]
            os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, paths))
            return str(found)
    raise RuntimeError("no libcublasLt.so.13, neither of the system nor beside PyTorch")


def build(emulated, seconds):
    tools = [tool for tool in ("cmake", "ninja") if not shutil.which(tool)]
    if tools:
        raise RuntimeError(f"no {' and no '.join(tools)}, expected them on the PATH")
    configure = [
        *(
            "cmake",
            "-G",
            "Ninja",
            "-S",
            HERE / "runtime",
            "-B",
            BUILD,
            "-DCMAKE_BUILD_TYPE=Release",
        ),
        *("-DTANDEM_CPU=OFF", "-DTANDEM_GLOO=OFF", "-DTANDEM_CUDA=ON"),
        f"-DTANDEM_PREBUILT={HERE / 'prebuilt'}",
        f"-DCMAKE_PREFIX_PATH={HERE / 'third_party'}",
        f"-DTANDEM_SODIUM={HERE / 'third_party/lib/libsodium.a'}",
        *(f"-D{name}_DIR={HERE / 'third_party/cmake'}" for name in ("nlohmann_json", "GTest")),
        f"-DCMAKE_CXX_FLAGS=-isystem {HERE / 'third_party/include'}",
    ]
    run(*configure)
    targets = ["tandem-run", "tandem_rt_cts"] + (["tandem_emulator"] if emulated else [])
    run("cmake", "--build", BUILD, "--target", *targets, timeout=seconds)


# ---- Right


def run_suite(emulated):
    chosen = "*ExecutorTest*:*RepeatTest*:Random.*:Emulator*:" if emulated else ""
    variables = {"TANDEM_CTS_DEVICE": "cuda", "GTEST_BRIEF": "1"}
    text = run(
        find_built("tandem_rt_cts"), f"--gtest_filter={chosen}{WITHOUT_KERNELS}", **variables
    )
    return next((line[13:] for line in text.splitlines() if "PASSED" in line), "")


def run_case(case, steps):
    """Losses and values beside the CPU device's; the second time to the bit as the first."""
    folder = HERE / "cases" / case["folder"]
    values, saved = [], folder / "found.safetensors"
    for _ in range(2):
        text = run(
            find_built("tandem-run"),
            *(folder / "step.tdm", "--data", folder / "values.safetensors"),
            *("--steps", steps, "--save", saved),
        )
        losses = [float(line.split()[-1]) for line in text.splitlines() if line.startswith("step ")]
        values.append(read_safetensors(saved))
    expected, bound = (
        read_safetensors(folder / "expected.safetensors"),
        TOLERANCE[case["precision"]],
    )
    worst = max(
        (difference(values[0][name], tensor), name)
        for name, tensor in expected.items()
        if not name.startswith("batch.")
    )
    apart = max(abs(a / b - 1) for a, b in zip(losses, case["losses"], strict=True))
    if apart > bound or worst[0] > bound:
        raise RuntimeError(
            f"losses differ by {apart:.1e}, '{worst[1]}' by {worst[0]:.1e}, expected at most {bound:.0e}"
        )
    for name, tensor in values[0].items():
        if tensor.tobytes() != values[1][name].tobytes():
            raise RuntimeError(f"'{name}' differs from run to run")
    return f"losses {apart:.0e}, values {worst[0]:.0e}"


def find_built(name):
    path = BUILD / "bin" / name
    if not path.is_file():
        raise RuntimeError(f"no {name}, which was not built")
    return path


# ---- Quick


def measure_copies():
    """Bytes that a second of copies within the GPU reads and writes, by the library that the runtime takes."""
    driver = ctypes.CDLL(library("libcuda.so.1"))
    context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    places = ctypes.c_uint64(), ctypes.c_uint64()

    def call(name, *arguments):
        if result := getattr(driver, name)(*arguments):
            raise RuntimeError(f"{name}: CUDA error {result}")

    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    most = 1 << 22 if os.environ.get("TANDEM_CUDA_LIBRARIES") else 1 << 29
    size = ctypes.c_size_t(min(most, free.value // 4))
    for place in places:
        call("cuMemAlloc_v2", ctypes.byref(place), size)
        call("cuMemsetD8Async", place, 0, size, None)
    call("cuCtxSynchronize")
    taken = []
    for _ in range(7):
        begin = time.perf_counter()
        call("cuMemcpyDtoDAsync_v2", *places, size, None)
        call("cuCtxSynchronize")
        taken.append(time.perf_counter() - begin)
    for place in places:
        call("cuMemFree_v2", place)
    call("cuCtxSetCurrent", None)
    call("cuDevicePrimaryCtxRelease_v2", 0)
    return 2 * size.value / statistics.median(taken)


LISTED = re.compile(
    r"^ +(?P<number>\d+) \S+ (?P<kind>\w+) '(?P<name>[^']*)' .*?"
    r"(?: flops (?P<flops>\d+) bytes (?P<bytes>\d+))?(?: at (?P<place>.+))?$"
)


def read_commands(text, seconds):
    """What each command of a Program's first rank took, beside its bytes and operations. A kernel's later
    launches, which have none, count to its first."""
    commands = []
    for line in text.partition("\nrank program 1 ")[0].splitlines():
        found = LISTED.match(line)
        if not found or found["number"] not in seconds:
            continue
        row = {key: found[key] for key in ("kind", "name", "place")}
        row |= {key: int(found[key] or 0) for key in ("bytes", "flops")}
        row |= {"seconds": seconds[found["number"]], "launches": 1}
        if commands and not found["bytes"] and commands[-1]["name"] == row["name"]:
            commands[-1]["seconds"] += row["seconds"]
            commands[-1]["launches"] += 1
        else:
            commands.append(row)
    return commands


def time_program(name, copies, steps=12):
    """Milliseconds of a step, and its commands, the longest first: `of a copy` is the share of the bytes
    that a copy moves in a second."""
    stats, times = HERE / f"{name}.stats.json", HERE / f"{name}.times.json"
    command = [find_built("tandem-run"), HERE / f"{name}.tdm", "--steps", steps]
    run(*command, "--stats", stats, timeout=300)
    taken = [row["seconds"] for row in json.loads(stats.read_text())["steps"]][2:]
    run(*command, "--save-times", times, timeout=300)
    text = run(*command[:2], "--print")
    commands = read_commands(text, json.loads(times.read_text())["seconds"][0])
    for row in commands:
        row["of a copy"] = row["bytes"] / row["seconds"] / copies
    return {
        "milliseconds": 1e3 * statistics.median(taken),
        "milliseconds of commands": 1e3 * sum(row["seconds"] for row in commands),
        "commands": sorted(commands, key=lambda row: -row["seconds"]),
    }


def tell_kernels(commands, shown=10):
    """A line for each kernel that takes longest, and the share of a copy's bandwidth that all have together."""
    launches = [row for row in commands if row["kind"] == "launch"]
    for row in launches[:shown]:
        print(
            f"  {1e6 * row['seconds']:9.1f} us  {row['bytes'] / row['seconds'] / 1e9:7.0f} GB/s"
            f"  {row['of a copy']:4.0%} of a copy  {row['name'][:60]} {row['place'] or ''}".rstrip()
        )
    seconds = sum(row["seconds"] for row in launches)
    share = sum(row["seconds"] * row["of a copy"] for row in launches) / seconds
    return f"{len(launches)} kernels take {1e3 * seconds:.2f} ms, at {share:.0%} of a copy's bytes a second"


def judge_kernels(commands):
    """Pointwise and row kernels, sums over rows, which have two launches, and updates, which have no source line."""
    slow, worst = [], 9.0
    for row in commands:
        if row["kind"] != "launch" or row["bytes"] < JUDGED_BYTES:
            continue
        kind = "update" if not row["place"] else "column" if row["launches"] > 1 else "row"
        worst = min(worst, row["of a copy"] / LEAST_SHARES[kind])
        if row["of a copy"] < LEAST_SHARES[kind]:
            slow.append(
                f"{row['name'][:40]} {row['of a copy']:.0%} ({kind}: {LEAST_SHARES[kind]:.0%})"
            )
    if slow or worst == 9.0:
        raise RuntimeError("; ".join(slow) or "no kernel that moves enough bytes to be judged")
    return f"at least {worst:.2f} of what they should reach"


def time_attention(sizes, dropout=0.1, times=20):
    """Microseconds of PyTorch's attention and of its gradients, causal, in bfloat16, in the layout that gpt has."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    shape = (sizes["batch"], sizes["seq"], sizes["heads"], sizes["width"] // sizes["heads"])
    q, k, v, gradient = (
        torch.randn(shape, device="cuda", dtype=torch.bfloat16).transpose(1, 2) for _ in range(4)
    )
    inputs = [x.requires_grad_() for x in (q, k, v)]

    def forward():
        return scaled_dot_product_attention(*inputs, is_causal=True, dropout_p=dropout)

    output = forward()

    def backward():
        torch.autograd.grad(output, inputs, gradient, retain_graph=True)

    medians = []
    for call in (forward, backward):
        taken = []
        for _ in range(times):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            end.synchronize()
            taken.append(1e3 * begin.elapsed_time(end))
        medians.append(statistics.median(taken))
    return medians


def compare_attention(numbers, row):
    theirs = dict(
        zip(("attention", "attention_backward"), time_attention(row["sizes"]), strict=True)
    )
    numbers["attention"] = {}
    texts = []
    for kind, microseconds in theirs.items():
        own = 1e6 * statistics.median(
            command["seconds"] for command in numbers["commands"] if command["kind"] == kind
        )
        numbers["attention"][kind] = {"ours": own, "theirs": microseconds}
        texts.append(
            f"{kind} {own:.0f} us, {own / microseconds:.2f} of PyTorch's {microseconds:.0f}"
        )
    return "; ".join(texts)


def time_torch(row, compiled, steps=12):
    """The same step in PyTorch, eager or compiled."""
    import importlib

    import torch

    sys.path.insert(0, str(HERE / "examples"))
    module = importlib.import_module(row["model"])
    sizes = row["sizes"]
    torch.manual_seed(0)
    model = module.model(**sizes).cuda()
    optimizer = module.optimizer(model)
    batch = next(iter(module.batches(**sizes)))
    batch = torch.utils._pytree.tree_map(
        lambda x: x.cuda() if isinstance(x, torch.Tensor) else x, batch
    )
    call = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=row["precision"] == "bf16"):
            loss = module.loss(call, batch)
        loss.backward()
        optimizer.step()

    taken = []
    for _ in range(steps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(taken[3:])


def compare_speed(check, row, with_torch, compiled):
    numbers = check.numbers.setdefault(row["name"], {})

    def ours():
        numbers.update(time_program(row["name"], check.numbers.get("copies", float("nan"))))
        return f"{numbers['milliseconds']:.2f} ms a step, {len(numbers['commands'])} commands"

    def theirs(key, is_compiled):
        numbers[key] = time_torch(row, is_compiled)
        ratio = numbers.get("milliseconds", float("nan")) / numbers[key]
        return f"{numbers[key]:.2f} ms a step; Tandem takes {ratio:.2f} times as long"

    check.attempt(f"step of {row['name']}", ours)
    check.attempt(f"kernels of {row['name']}", lambda: tell_kernels(numbers["commands"]))
    if row["purpose"] == "kernels":
        if with_torch:
            check.attempt(f"bandwidth of {row['name']}", lambda: judge_kernels(numbers["commands"]))
        return
    if with_torch and row["precision"] == "bf16":
        check.attempt(f"attention of {row['name']}", lambda: compare_attention(numbers, row))
    if with_torch:
        check.attempt(f"step of {row['name']}, PyTorch eager", lambda: theirs("eager", False))
        if compiled or row["precision"] == "bf16":
            check.attempt(f"step of {row['name']}, torch.compile", lambda: theirs("compiled", True))


def main():
    parser = argparse.ArgumentParser(prog="gpu-check", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, default=HERE / "gpu-check.json")
    parser.add_argument(
        "--emulated", action="store_true", help="on the emulated GPU, whose times say nothing"
    )
    parser.add_argument("--minutes", type=float, default=8.5, help="nothing begins after (8.5)")
    parser.add_argument("--compiled", action="store_true", help="every step by torch.compile, too")
    options = parser.parse_args()
    if not (HERE / "contents.json").exists():
        sys.exit(
            "gpu-check: not in a package, expected one that scripts/gpu-package made: unpack it and run gpu-check there"
        )
    contents = json.loads((HERE / "contents.json").read_text())
    if options.emulated != (contents["architecture"] == "emulated"):
        sys.exit(
            f"gpu-check: error: the package is for {contents['architecture']}, which"
            f" --emulated {'does not go' if options.emulated else 'goes'} with"
        )
    check = Check(60 * options.minutes)
    # Most of the time that there is: without it nothing else can be.
    check.attempt("builds without MLIR", lambda: build(options.emulated, 50 * options.minutes))
    os.environ["TANDEM_SHARE_GPU"] = "1"
    if options.emulated:
        os.environ["TANDEM_CUDA_LIBRARIES"] = str(BUILD / "emulator")
    check.attempt("driver", look_at_driver)
    check.attempt("cuBLASLt", look_at_libraries)
    check.attempt("conformance suite", lambda: run_suite(options.emulated))
    for case in contents["cases"]:
        check.attempt(case["name"], lambda case=case: run_case(case, contents["steps"]))

    def copies():
        check.numbers["copies"] = measure_copies()
        return f"{check.numbers['copies'] / 1e9:.0f} GB/s read and written"

    check.attempt("copies within the GPU", copies)
    for row in contents["benchmarks"]:
        compare_speed(check, row, not options.emulated, options.compiled)
    failed = sum(not row["passed"] for row in check.rows)
    result = {"architecture": contents["architecture"], "failed": failed, "numbers": check.numbers}
    options.json.write_text(json.dumps(result | {"rows": check.rows}, indent=1))
    print(f"{len(check.rows) - failed} of {len(check.rows)} as they should be; {options.json}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
