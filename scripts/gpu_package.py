"""Packs what shows on a machine with a GPU, and without MLIR, whether the CUDA device is right and quick.

usage: gpu-package [-o FILE] [--arch ARCH] [--only NAME ...]    (make, and -DTANDEM_CUDA=ON, come first)

The package has the runtime's sources with what flatc and clang make of them, headers that they need, a Program per case
with its values and what the CPU device and PyTorch make of them, the models' files, and gpu-check, which builds and runs all of it:

    tar xf gpu-package.tar.xz && gpu-package/gpu-check
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("TANDEM_BUILD", ROOT / "build"))
LARGEST, STEPS = 60e6, 3
# Headers, sources and a library that a bare machine lacks: (where they are on Debian, where they go).
THIRD_PARTY = {
    "/usr/include/flatbuffers": "third_party/include/flatbuffers",
    "/usr/include/sodium": "third_party/include/sodium",
    "/usr/include/sodium.h": "third_party/include/sodium.h",
    "/usr/lib/x86_64-linux-gnu/libsodium.a": "third_party/lib/libsodium.a",
    "/usr/include/nlohmann": "third_party/include/nlohmann",
    "/usr/src/googletest/googletest": "third_party/googletest",
}
CONFIGS = {
    "nlohmann_json": """add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
""",
    "GTest": """if(NOT TARGET gtest)
  add_subdirectory(${CMAKE_CURRENT_LIST_DIR}/../googletest googletest EXCLUDE_FROM_ALL)
  foreach(name gtest gtest_main)
    if(NOT TARGET GTest::${name})
      add_library(GTest::${name} ALIAS ${name})
    endif()
  endforeach()
endif()
""",
}


@dataclass
class Case:
    """A model of verify's matrix with its plan; what is compared after STEPS steps."""

    name: str
    variant: str
    dtype: str
    options: list


def make_cases():
    """Every model on one rank and on four, each plan in turn, in float64; some in the types of training."""
    sys.path[:0] = [str(BUILD / "python"), str(ROOT / "python-bindings/tests")]
    import matrix

    four = {
        "zero": ["--mesh", "data=4", "--plan", "zero", "--micro", "2"],
        "tensor-parallel": ["--mesh", "data=2,model=2", "--plan", "tensor-parallel"],
        "expert-parallel": ["--mesh", "data=4", "--plan", "expert-parallel", "--micro", "2"],
    }
    cases = []
    for variant in matrix.VARIANTS:
        plan = (
            "expert-parallel"
            if "moe" in variant
            else "tensor-parallel"
            if variant in ("llama", "hf bert")
            else "zero"
        )
        cases.append(Case(f"{variant} alone", variant, "float64", []))
        cases.append(Case(f"{variant} {plan}", variant, "float64", four[plan]))
    for variant, plan in (("gpt", "zero"), ("bert_moe sgmoe", "expert-parallel")):
        cases.append(Case(f"{variant} {plan} f32", variant, "float32", four[plan]))
    for variant in ("gpt", "llama", "bert_moe sgmoe"):
        cases.append(Case(f"{variant} alone bf16", variant, "bf16", []))
    return cases, matrix


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["no output"]
        sys.exit(f"gpu-package: error: {Path(command[0]).name}: {lines[-1]}")
    return done.stdout


def losses_of(text):
    return [float(line.split()[-1]) for line in text.splitlines() if line.startswith("step ")]


def add_case(case, matrix, folder, architecture):
    """step.tdm, values.safetensors and expected.safetensors of a case; its line of cases.json."""
    from tandem import export
    from tandem.model_file import load_model_file

    source, preset, settings = matrix.VARIANTS[case.variant]
    place = folder / "cases" / case.name.replace(" ", "-")
    place.mkdir(parents=True)
    dtype = "float32" if case.dtype == "bf16" else case.dtype
    file = load_model_file(ROOT / "examples" / f"{source}.py", preset, settings, dtype)
    model = file.make_model()
    batches = file.batches(STEPS)
    options = {"precision": "bf16"} if case.dtype == "bf16" else {}
    module = export(model, file.loss, file.make_optimizer(model), batches[0], **options)
    step = place / "step.mlir"
    step.write_text(module.mlir)
    module.save_values(place / "values.safetensors", batches, 0)
    on_cpu = place / "cpu.tdm"
    tool = [BUILD / "bin/tandem-compile", step, *case.options]
    run(*tool, "-o", on_cpu)
    run(*tool, "--device", "cuda", "--arch", architecture, "-o", place / "step.tdm")
    data = ["--data", place / "values.safetensors", "--steps", STEPS]
    saved = place / "expected.safetensors"
    losses = losses_of(run(BUILD / "bin/tandem-run", on_cpu, *data, "--save", saved))
    step.unlink()
    on_cpu.unlink()
    precision = str(module.precision).removeprefix("torch.")
    return asdict(case) | {"folder": place.name, "losses": losses, "precision": precision}


# GPT-2 medium, of 350 million parameters, in the batches that a step's time is asked of.
MEDIUM = "layers=24,width=1024,heads=16,seq=1024,batch=8,vocab=50304"
# Its kernels have 4096 x 4096 elements.
SQUARE = "layers=1,width=4096,heads=64,seq=1024,batch=4,vocab=4096"
# By name: preset, settings, precision, and what it is for.
BENCHMARKS = {
    "gpt-350m-bf16": ("bench", MEDIUM, "bf16", "step"),
    "gpt-4096-float32": ("bench", SQUARE, "float32", "kernels"),
    "gpt-4096-bf16": ("bench", SQUARE, "bf16", "kernels"),
    "gpt-float32": ("bench", "", "float32", "step"),
    "gpt-bf16": ("bench", "", "bf16", "step"),
}
# The emulated GPU's times say nothing: they show that times are taken.
UNTIMED = {"gpt-float32": ("tiny", "", "float32", "step")}


def add_benchmarks(folder, architecture):
    """Steps of gpt at sizes that a GPU is used for, beside PyTorch there."""
    from tandem import export
    from tandem.model_file import load_model_file

    rows = []
    benchmarks = UNTIMED if architecture == "emulated" else BENCHMARKS
    for name, (preset, settings, precision, purpose) in benchmarks.items():
        file = load_model_file(ROOT / "examples/gpt.py", preset, settings, "float32")
        model = file.make_model()
        options = {"precision": "bf16"} if precision == "bf16" else {}
        module = export(model, file.loss, file.make_optimizer(model), file.batches(1)[0], **options)
        step = folder / f"{name}.mlir"
        step.write_text(module.mlir)
        run(
            BUILD / "bin/tandem-compile",
            *[step, "--device", "cuda", "--arch", architecture, "-o", folder / f"{name}.tdm"],
        )
        step.unlink()
        rows.append(
            {"name": name, "model": "gpt", "sizes": file.sizes, "precision": precision}
            | {"purpose": purpose}
        )
    return rows


def copy_sources(folder):
    listed = run(
        "git", "ls-files", "runtime", "tools/tandem-run", "tools/tandem-trace", "tools/common",
        "examples/gpt.py", "examples/example_data.py", "LICENSE", cwd=ROOT,
    )  # fmt: skip
    for name in listed.split():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    for source, target in THIRD_PARTY.items():
        if not Path(source).exists():
            sys.exit(f"gpu-package: error: no {source}, expected what `make setup` installs")
        if Path(source).is_dir():
            shutil.copytree(source, folder / target)
        else:
            (folder / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / target)
    for name, text in CONFIGS.items():
        (folder / "third_party/cmake").mkdir(exist_ok=True)
        (folder / f"third_party/cmake/{name}Config.cmake").write_text(text)
    prebuilt = folder / "prebuilt"
    prebuilt.mkdir()
    made = [BUILD / "runtime/generated/program_generated.h", *BUILD.glob("runtime/cuda/*.ptx")]
    if len(made) < 2:
        sys.exit(f"gpu-package: error: no PTX in {BUILD}, expected a build with -DTANDEM_CUDA=ON")
    for file in made:
        shutil.copy2(file, prebuilt)
    for name in ("gpu-check", "gpu_check.py"):
        shutil.copy2(ROOT / "scripts" / name, folder)


def main():
    parser = argparse.ArgumentParser(prog="gpu-package", description=__doc__.splitlines()[0])
    parser.add_argument("-o", dest="output", type=Path, default=BUILD / "gpu-package.tar.xz")
    parser.add_argument("--arch", default="sm_80", help="sm_80 (the default), sm_90, or emulated")
    parser.add_argument("--only", nargs="+", default=[], help="cases whose names begin so")
    options = parser.parse_args()
    folder = options.output.parent / "gpu-package"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    copy_sources(folder)
    cases, matrix = make_cases()
    chosen = [c for c in cases if not options.only or c.name.startswith(tuple(options.only))]
    rows = []
    for case in chosen:
        rows.append(add_case(case, matrix, folder, options.arch))
        print(f"{case.name}: losses {rows[-1]['losses'][0]:.6f} ...", flush=True)
    contents = {"architecture": options.arch, "steps": STEPS, "cases": rows}
    contents["benchmarks"] = add_benchmarks(folder, options.arch)
    (folder / "contents.json").write_text(json.dumps(contents, indent=1))
    with tarfile.open(options.output, "w:xz") as file:
        file.add(folder, "gpu-package")
    size = options.output.stat().st_size
    print(f"{options.output}: {size / 1e6:.1f} MB, {len(rows)} cases for {options.arch}")
    if size > LARGEST:
        sys.exit(f"gpu-package: error: {size / 1e6:.0f} MB, expected at most {LARGEST / 1e6:.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
