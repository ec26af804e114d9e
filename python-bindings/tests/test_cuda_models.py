"""Models on the emulated GPU, by one rank and by four: losses, gradients and parameters equal eager's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from matrix import VARIANTS, Case

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TANDEM_BUILD", ROOT / "build"))
EMULATOR = BUILD / "emulator"

pytestmark = pytest.mark.skipif(
    not (EMULATOR / "libcuda.so.1").exists(), reason="built without TANDEM_CUDA"
)

# Beside the matrix's: packed sequences, and experts that choose within a batch.
MORE = {
    "gpt packed": ("gpt", None, "packed=True"),
    "bert_moe batch": ("bert_moe", None, "group=batch"),
}
# Plan and mesh of four ranks, of a model of each kind; `make verify DEVICE=cuda` has the others.
FOUR = {
    "gpt": ("tensor-parallel", "data=2,model=2"),
    "gpt packed": ("data-parallel", "data=4"),
    "bert_moe switch": ("expert-parallel", "data=2,expert=2"),
    "bert_moe batch": ("data-parallel", "data=4"),
    "vit_moe sgmoe": ("zero", "data=4"),
    "resnet": ("data-parallel", "data=4"),
    "hf llama": ("tensor-parallel", "data=2,model=2"),
}
MODELS = [(variant, "float64") for variant in FOUR] + [("gpt", "bf16")]


def work(variant, dtype):
    """In a process of its own, as libraries are chosen once: a line of JSON per case."""
    import matrix

    matrix.VARIANTS |= MORE
    plan, mesh = FOUR[variant]
    subject = None
    for case in (Case(variant, dtype=dtype), Case(variant, plan, mesh, 2, dtype)):
        subject = subject or matrix.subject_of(case)
        compiled = matrix.compile_case(case, subject, device="cuda")
        rows = matrix.judge_program(subject, compiled.bytes)
        kinds = sorted({row.kind for row in rows})
        failed = [f"{row.kind} {row.name}" for row in rows if not row.passed]
        print(json.dumps({"ranks": case.ranks, "kinds": kinds, "failed": failed}), flush=True)


def test_all_kinds_are_here():
    assert set(FOUR) <= set(VARIANTS | MORE)


@pytest.mark.sample(3)
@pytest.mark.parametrize("variant,dtype", MODELS)
def test_equals_eager(variant, dtype):
    path = os.pathsep.join([*map(str, sys.path)])
    environment = os.environ | {
        "TANDEM_CUDA_LIBRARIES": str(EMULATOR),
        "TANDEM_SHARE_GPU": "1",
        "PYTHONPATH": path,
    }
    command = [sys.executable, __file__, variant, dtype]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    cases = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [case["ranks"] for case in cases] == [1, 4]
    for case in cases:
        assert case["failed"] == [], case["ranks"]
        assert len(case["kinds"]) >= 3, case["kinds"]


if __name__ == "__main__":
    work(*sys.argv[1:])
