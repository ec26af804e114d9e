"""Device `cuda` on the emulated GPU, beside the CPU: the same losses, and clear errors."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from tandem.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TANDEM_BUILD", ROOT / "build"))
EMULATOR = BUILD / "emulator"

pytestmark = pytest.mark.skipif(
    not (EMULATOR / "libcuda.so.1").exists(), reason="built without TANDEM_CUDA"
)


def tool(name, *arguments, **variables):
    environment = os.environ | {"TANDEM_CUDA_LIBRARIES": str(EMULATOR)} | variables
    command = [str(BUILD / "bin" / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def compiled(step, *arguments, device="cuda", architecture="emulated", **variables):
    program = step.with_name(f"{device}-{architecture}.tdm")
    chosen = ["--device", device] + (["--arch", architecture] if device == "cuda" else [])
    done = tool("tandem-compile", step, *chosen, *arguments, "-o", program, **variables)
    assert done.returncode == 0, done.stderr
    return program


def losses(program, step, steps=3, **variables):
    values = step.with_suffix(".safetensors")
    done = tool("tandem-run", program, "--data", values, "--steps", steps, **variables)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("step ")]
    assert len(lines) == steps
    return [float(line[-1]) for line in lines]


def exported(tmp_path, model, *arguments):
    step = tmp_path / "step.mlir"
    source = ROOT / "examples" / f"{model}.py"
    assert main(["export", str(source), *arguments, "--batches", "3", "-o", str(step)]) == 0
    return step


CASES = {
    "mlp": ("mlp", []),
    "mlp-4": ("mlp", ["--mesh", "data=4"]),
    "gpt": ("gpt", []),
    "gpt-4": ("gpt", ["--mesh", "data=4"]),
    "gpt-4-zero-duplex": ("gpt", ["--mesh", "data=4", "--plan", "zero", "--micro", "2"]),
    "gpt-2x2-tensor-parallel": ("gpt", ["--mesh", "data=2,model=2", "--plan", "tensor-parallel"]),
}


@pytest.mark.parametrize("case", CASES)
def test_losses_are_those_of_the_cpu(case, tmp_path):
    model, arguments = CASES[case]
    step = exported(tmp_path, model, "--dtype", "float64")
    expected = losses(compiled(step, *arguments, device="cpu"), step)
    program = compiled(step, *arguments)
    for seed in ("0", "1"):
        found = losses(program, step, TANDEM_EMULATED_SEED=seed)
        assert found == pytest.approx(expected, rel=1e-9), seed


def test_compile_and_step_from_python(tmp_path):
    """In this process the libraries are chosen once: in one of its own."""
    script = tmp_path / "train.py"
    script.write_text(
        f"""
import sys
sys.path[:0] = {[str(BUILD / "python"), str(ROOT / "examples")]!r}
import copy, tandem, torch, mlp
torch.manual_seed(0)
sizes = mlp.PRESETS["tiny"]
model = mlp.model(**sizes, dropout=0.0)
batches = [b for b, _ in zip(mlp.batches(**sizes), range(3))]
step = tandem.compile(
    model, mlp.loss, mlp.optimizer(model), batches[0], mesh={{"data": 4}}, device="cuda"
)
eager = copy.deepcopy(model)
optimizer = mlp.optimizer(eager)
for batch in batches:
    optimizer.zero_grad()
    loss = mlp.loss(eager, batch)
    loss.backward()
    optimizer.step()
    found = step(batch)
    assert abs(float(found) - loss.item()) < 1e-5, (found, loss)
for name, value in step.state_dict().items():
    assert torch.allclose(value, eager.state_dict()[name], atol=1e-6), name
print("done")
"""
    )
    environment = os.environ | {"TANDEM_CUDA_LIBRARIES": str(EMULATOR)}
    done = subprocess.run(
        [os.sys.executable, str(script)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "done"


@pytest.mark.parametrize("model", ["gpt", "llama"])
def test_ptx_for_both_architectures(model, tmp_path):
    """A Program for a GPU is made where none is, and where nothing of CUDA is: no libdevice."""
    step = exported(tmp_path, model)
    variables = {"TANDEM_LIBDEVICE": "/nowhere", "TANDEM_CACHE_DIR": str(tmp_path)}
    for architecture in ("sm_80", "sm_90"):
        content = compiled(step, architecture=architecture, **variables).read_bytes()
        assert f".target {architecture}".encode() in content
        assert content.count(b".version") == 1
        assert content.count(b".visible .entry") > 20
        assert b".extern .func" not in content


@pytest.mark.parametrize(
    "variables,expected",
    [
        ({"TANDEM_EMULATED_GPUS": "0"}, "the driver finds no GPU"),
        ({"TANDEM_EMULATED_DRIVER": "12040"}, "the driver is of CUDA 12.4, expected 13.0 or later"),
        ({"TANDEM_EMULATED_MEMORY": "4000"}, "bytes on the emulated GPU: "),
        ({"TANDEM_CUDA_LIBRARIES": "/nowhere"}, "cannot load libcuda.so.1"),
        ({"LOCAL_RANK": "3"}, "GPU 3 is asked for, found 1"),
    ],
)
def test_what_is_missing_is_said(variables, expected, tmp_path):
    program = compiled(exported(tmp_path, "mlp"))
    done = tool("tandem-run", program, "--steps", "1", **variables)
    assert done.returncode == 1
    assert expected in done.stderr and done.stderr.count("\n") == 1


def test_what_libdevice_has_is_said(tmp_path):
    """Double precision is for proofs: its functions are the toolkit's."""
    step = exported(tmp_path, "gpt", "--dtype", "float64")
    chosen = ["--device", "cuda", "--arch", "sm_90", "-o", tmp_path / "step.tdm"]
    variables = {"TANDEM_LIBDEVICE": "/nowhere", "TANDEM_CACHE_DIR": str(tmp_path)}
    done = tool("tandem-compile", step, *chosen, **variables)
    assert done.returncode == 1
    assert "which is of libdevice, expected the CUDA toolkit" in done.stderr


def test_code_for_a_gpu_is_not_for_the_emulated_one(tmp_path):
    program = compiled(exported(tmp_path, "mlp"), architecture="sm_90")
    done = tool("tandem-run", program, "--steps", "1")
    assert done.returncode == 1
    assert "is for sm_90, expected the emulated GPU, which is here" in done.stderr


def test_an_index_out_of_range_names_its_line(tmp_path):
    from safetensors.torch import load_file, save_file

    step = exported(tmp_path, "gpt")
    values = step.with_suffix(".safetensors")
    tensors = load_file(values)
    tokens = next(name for name in tensors if name.startswith("batch.0/") and "target" not in name)
    tensors[tokens] = torch.full_like(tensors[tokens], 1000)
    save_file(tensors, values)
    program = compiled(step)
    done = tool("tandem-run", program, "--data", values, "--steps", "1")
    assert done.returncode == 1
    assert "index 1000 is out of range, expected 0 to 255" in done.stderr
    assert "embedding" in done.stderr and "gpt.py:" in done.stderr


@pytest.mark.parametrize(
    "arguments,expected",
    [
        (
            ["--device", "cuda", "--arch", "sm_20"],
            "unknown device 'cuda.sm_20', expected one of cpu",
        ),
        (["--device", "cpu", "--arch", "sm_90"], "unknown device 'cpu.sm_90', expected one of cpu"),
        (["--device", "tpu"], "unknown device 'tpu', expected one of cpu, cuda"),
    ],
)
def test_what_is_unknown_is_said(arguments, expected, tmp_path):
    step = exported(tmp_path, "mlp")
    done = tool("tandem-compile", step, *arguments)
    assert done.returncode == 1
    assert expected in done.stderr and done.stderr.count("\n") == 1


def test_a_package_is_checked_against_the_cpu(tmp_path, monkeypatch):
    """All but the package's own build, which takes minutes: here that of the tests stands for it."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import gpu_check
    import gpu_package
    from safetensors.torch import load_file, save_file

    output = tmp_path / "package.tar.xz"
    arguments = ["gpu-package", "-o", str(output), "--arch", "emulated", "--only", "mlp zero"]
    monkeypatch.setattr("sys.argv", arguments)
    assert gpu_package.main() == 0
    folder = tmp_path / "gpu-package"
    contents = json.loads((folder / "contents.json").read_text())
    assert [case["name"] for case in contents["cases"]] == ["mlp zero"]
    assert {path.name for path in (folder / "prebuilt").iterdir()} == {
        "program_generated.h",
        "attention.ptx",
        "attention_tiles.ptx",
        "kernels.ptx",
    }
    monkeypatch.setattr(gpu_check, "HERE", folder)
    monkeypatch.setattr(gpu_check, "BUILD", BUILD)
    monkeypatch.setenv("TANDEM_CUDA_LIBRARIES", str(EMULATOR))
    (case,) = contents["cases"]
    assert gpu_check.run_case(case, contents["steps"]).startswith("losses")
    expected = folder / "cases" / case["folder"] / "expected.safetensors"
    tensors = load_file(expected)
    name = next(name for name in tensors if name.startswith("parameter"))
    tensors[name] = tensors[name] + 1e-6
    save_file(tensors, expected)
    with pytest.raises(RuntimeError, match=f"'{name}' by 1.0e-06, expected at most 1e-09"):
        gpu_check.run_case(case, contents["steps"])
