"""Packed projections: taken apart inside of the compiler, whole under the model's own names outside."""

import functools
import subprocess
from pathlib import Path

import pytest
import tandem
import torch
from matrix import judge_program
from safetensors.torch import load_file
from tandem import _tandem
from tandem.capture.model_file import load_model_file
from tandem.errors import ProgramError
from tandem.session.compile import compile_module
from tandem.verify.reference import find_tool
from tandem.verify.verify import make_subject
from test_plans import bytes_of, collectives, local_share

MODEL = Path(__file__).parent / "models" / "packed.py"
WAYS = {
    "chunk": "how=chunk",
    "split": "how=split,bias=0",
    "unbind": "how=unbind",
    "slices": "how=slices",
    "uneven": "how=split,groups=2",
    "uneven slices": "how=slices,groups=2",
}


def load(way="chunk", dtype="float64"):
    return load_model_file(MODEL, None, WAYS[way], dtype)


@functools.cache
def subject(way):
    return make_subject(load(way), 3)


def captured(way, **options):
    file = load(way)
    model = file.make_model()
    optimizer = file.make_optimizer(model)
    step = tandem.compile(model, file.loss, optimizer, file.batches(1)[0], **options)
    return step, model, optimizer, file


@pytest.mark.parametrize("way", WAYS)
def test_parts_are_parameters_with_state(way):
    step, model, _, _ = captured(way)
    parts = {}
    for argument in step.program.arguments:
        if argument.part:
            key = f"{argument.role}/{argument.part.whole}"
            parts.setdefault(key, []).append(list(argument.global_shape))
            assert list(argument.part.shape)[1:] == list(argument.global_shape)[1:]
    names = [name for name, _ in model.named_parameters() if "qkv" in name or "gate_up" in name]
    assert names
    for name in names:
        count = 3 if "qkv" in name else 2
        for key in (f"parameter/{name}", f"state/exp_avg.{name}", f"state/exp_avg_sq.{name}"):
            assert len(parts.pop(key)) == count
    assert not parts


@pytest.mark.parametrize(
    "plan,mesh,micro", [("tensor-parallel", "model=2", 2), ("zero", "data=2", 1)]
)
@pytest.mark.parametrize("way", WAYS)
def test_equals_eager(way, plan, mesh, micro):
    one = subject(way)
    compiled = compile_module(one.module, way, mesh=mesh, plan=plan, micro=micro)
    rows = judge_program(one, compiled.bytes)
    assert any(row.name.endswith("qkv.weight") for row in rows)
    assert rows and all(row.passed for row in rows)


@pytest.mark.parametrize("way", WAYS)
def test_tensor_parallel_sums_twice_per_block_and_pass(way):
    """As for projections that are not packed: Megatron's split."""
    step, _, _, file = captured(way, mesh={"model": 2}, plan="tensor-parallel")
    sizes = file.sizes
    activation = 8 * sizes["batch"] * sizes["seq"] * sizes["width"]
    sums = [size for _, _, size in collectives(step.program)]
    assert sums.count(activation) == 2 * 2 * sizes["layers"]
    assert {kind for kind, _, _ in collectives(step.program)} == {"all_reduce"}
    packed = [a for a in step.program.arguments if a.part and a.role == "parameter"]
    assert packed and all(local_share(a) == 0.5 for a in packed)


def test_state_dicts_are_the_models_own():
    step, model, optimizer, file = captured("uneven", mesh={"model": 2}, plan="tensor-parallel")
    before = model.state_dict()
    state = step.state_dict()
    assert list(state) == list(before)
    assert all(torch.equal(state[name], before[name]) for name in before)
    step(file.batches(1)[0])
    after, moments = step.state_dict(), step.optimizer_state_dict()
    model.load_state_dict(after)
    optimizer.load_state_dict(moments)
    assert not torch.equal(
        after["layers.0.attention.qkv.weight"], state["layers.0.attention.qkv.weight"]
    )

    other = captured("uneven", mesh={"data": 2}, plan="zero")[0]
    other.load_state_dict(after, moments)
    assert all(torch.equal(other.state_dict()[name], after[name]) for name in after)
    again = other.optimizer_state_dict()["state"]
    assert all(
        torch.equal(again[i][name], moments["state"][i][name]) for i in again for name in again[i]
    )


def test_gradients_are_whole():
    step, model, _, file = captured(
        "unbind", mesh={"model": 2}, plan="tensor-parallel", gradients=True
    )
    step(file.batches(1)[0])
    gradients = step.gradients()
    for name, parameter in model.named_parameters():
        assert gradients[name].shape == parameter.shape


def test_pins_may_name_the_whole():
    glob = "layers.*.qkv.weight"
    step, *_ = captured("chunk", mesh={"data": 2}, pins=[tandem.pin(glob, data="gather(1)")])
    packed = [a for a in step.program.arguments if a.part and "qkv.weight" in a.name]
    assert {local_share(a) for a in packed if a.role == "parameter"} == {0.5}


def test_files_have_whole_tensors(tmp_path):
    """Export, tandem-run --save and the interpreter know nothing of parts."""
    one = subject("uneven")
    one.module.save_values(tmp_path / "step.safetensors", one.batches[:1], 0)
    (tmp_path / "step.mlir").write_text(one.module.mlir)
    compiled = compile_module(one.module, mesh="model=2", plan="tensor-parallel")
    (tmp_path / "step.tdm").write_bytes(compiled.bytes)
    data, run, meant = (tmp_path / f"{n}.safetensors" for n in ("step", "run", "meant"))

    def call(tool, *arguments):
        subprocess.run([find_tool(tool), *map(str, arguments)], check=True, capture_output=True)

    call("tandem-run", tmp_path / "step.tdm", "--data", data, "--steps", 1, "--save", run)
    call("tandem-opt", tmp_path / "step.mlir", "--tandem-import", "-o", tmp_path / "import.mlir")
    call("tandem-interpret", tmp_path / "import.mlir", "--data", data, "--save", meant)
    before, ran, expected = load_file(data), load_file(run), load_file(meant)
    assert set(ran) == set(before)
    for key in expected:
        assert ran[key].shape == expected[key].shape == before[key].shape
        if ran[key].is_floating_point():
            torch.testing.assert_close(ran[key], expected[key], rtol=1e-6, atol=1e-9)


def test_a_broken_part_is_refused():
    step, *_ = captured("chunk")
    program = _tandem.Program.load(step.bytes)
    argument = next(a for a in program.arguments if a.part and a.part.offset)
    argument.part.offset += 1
    with pytest.raises(ProgramError, match="parts of 'parameter/.*': one begins at"):
        program.verify()


def test_bytes_of_parts_add_up():
    step, model, *_ = captured("uneven")
    parts = [a for a in step.program.arguments if a.role == "parameter" and "qkv.weight" in a.name]
    whole = sum(p.numel() for n, p in model.named_parameters() if "qkv.weight" in n)
    assert sum(bytes_of(a, a.global_shape) for a in parts) == 8 * whole
