"""What an equal compilation has found is found again, on the disk, and by nothing that is not equal."""

import pytest
import tandem
import torch
from tandem.compile import compile_module

STAGES = ["parse", "import", "plan", "shard", "localize", "duplex", "schedule", "lower", "emit"]


def loss_fn(model, batch):
    return (model(batch) - batch).square().mean()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TANDEM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make_module(width=16):
    torch.manual_seed(0)
    model = torch.nn.Linear(width, width)
    return tandem.export(
        model, loss_fn, torch.optim.SGD(model.parameters(), 0.1), torch.ones(8, width)
    )


@pytest.fixture(scope="module")
def module():
    return make_module()


def compile_again(module, **options):
    """What was compiled, and whether it was found."""
    compiled = compile_module(module, cache=True, **options)
    stages = [stage for stage, _ in compiled.seconds]
    assert stages in (STAGES, ["cache"])
    return compiled, stages == ["cache"]


def test_is_what_was_compiled(module):
    options = dict(mesh="data=2", plan="zero", timeline=True)
    first, found = compile_again(module, **options)
    assert not found and first.remarks
    second, found = compile_again(module, **options)
    assert found
    for part in ("bytes", "plan", "plan_table", "remarks", "explanation"):
        assert getattr(second, part) == getattr(first, part), part
    assert second.bytes == compile_module(module, **options).bytes


def test_only_if_asked(module, folder):
    for _ in range(2):
        compiled = compile_module(module)
        assert [stage for stage, _ in compiled.seconds] == STAGES
    assert not list(folder.glob("*.program"))


@pytest.mark.parametrize(
    "other",
    [
        dict(mesh="data=4"),
        dict(mesh="data=2", micro=2),
        dict(mesh="data=2", plan="zero"),
        dict(mesh="data=2", pins=["weight:data=gather(0)"]),
        dict(mesh="data=2", recompute=True),
        dict(mesh="data=2", search="exhaustive"),
        dict(mesh="data=2", timeline=True),
        dict(mesh="data=2", fail_on_replicate=10**9),
    ],
)
def test_other_options_are_others(module, other):
    assert not compile_again(module, mesh="data=2")[1]
    assert not compile_again(module, **other)[1]
    assert compile_again(module, mesh="data=2")[1]


def test_another_step_is_another(module):
    assert not compile_again(module)[1]
    assert not compile_again(make_module(width=8))[1]


def test_files_count_by_what_is_in_them(module, tmp_path):
    plan = tmp_path / "plan.txt"
    zero, replicated = (
        compile_module(module, mesh="data=2", plan=p).plan for p in ("zero", "replicate")
    )
    plan.write_text(zero)
    assert not compile_again(module, plan=str(plan))[1]
    plan.write_text(replicated)
    compiled, found = compile_again(module, plan=str(plan))
    assert not found and compiled.plan == replicated
    plan.write_text(zero)
    compiled, found = compile_again(module, plan=str(plan))
    assert found and compiled.plan == zero
    plan.unlink()
    with pytest.raises(tandem.CompileError, match="plan.txt"):
        compile_again(module, plan=str(plan))


def test_an_error_is_not_kept(module):
    for _ in range(2):
        with pytest.raises(tandem.CompileError, match="nonsense"):
            compile_again(module, plan="nonsense")


def test_a_damaged_file_is_compiled_anew(module, folder):
    first, _ = compile_again(module)
    (file,) = folder.glob("*.program")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    again, found = compile_again(module)
    assert not found and again.bytes == first.bytes
    assert compile_again(module)[1]


def test_a_limit_that_is_no_number(module, monkeypatch):
    monkeypatch.setenv("TANDEM_CACHE_MB", "much")
    with pytest.raises(
        tandem.CompileError,
        match="^environment variable TANDEM_CACHE_MB is 'much', expected a whole number of megabytes$",
    ):
        compile_again(module)


def test_steps_use_it(folder):
    torch.manual_seed(0)
    losses = []
    for number in range(2):
        torch.manual_seed(0)
        model = torch.nn.Linear(16, 16)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        step = tandem.compile(model, loss_fn, optimizer, torch.ones(8, 16), mesh="data=2")
        losses.append([step(torch.ones(8, 16)).item() for _ in range(2)])
        assert ([stage for stage, _ in step.compiled.seconds] == ["cache"]) == (number == 1)
    assert losses[0] == losses[1] and len(list(folder.glob("*.program"))) == 1
