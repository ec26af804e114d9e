"""States of the optimizer in the host's memory: the step is the same to the bit, and the device holds them not."""

import copy
import re

import pytest
import tandem
import torch
from test_models import mse, normal
from test_training import train_both
from torch import nn

ON_HOST = dict(pins=[tandem.pin("exp_avg*", "host")])
HOW = {
    "zero": dict(mesh="data=2", plan="zero", micro=2),
    "search": dict(mesh="data=2", search="tandem", accumulate=2),
    "pipeline": dict(mesh="pipe=2,data=2", plan="zero", accumulate=2, sections=2),
}


def make(width=16):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, width), nn.Tanh(), nn.Linear(width, 4)).double()
    batches = [(normal(8, 8), normal(8, 4)) for _ in range(4)]
    return model, torch.optim.AdamW(model.parameters(), lr=0.01), batches


def compiled(**how):
    model, optimizer, batches = make()
    return tandem.compile(model, mse, optimizer, batches[0], **how), batches


def values_of(step):
    states = step.optimizer_state_dict()["state"]
    moments = {f"{i}.{name}": v for i, state in states.items() for name, v in state.items()}
    return step.state_dict() | moments


def assert_same(step, other):
    found, expected = values_of(step), values_of(other)
    assert set(found) == set(expected) and any("exp_avg_sq" in name for name in found)
    for name, value in expected.items():
        assert torch.equal(torch.as_tensor(found[name]), torch.as_tensor(value)), name


@pytest.mark.parametrize("how", HOW)
def test_the_step_is_the_same_to_the_bit(how):
    step, batches = compiled(**HOW[how], **ON_HOST)
    plain, _ = compiled(**HOW[how])
    assert [step(batch) for batch in batches] == [plain(batch) for batch in batches]
    assert_same(step, plain)
    model, optimizer, batches = make()
    train_both(model, mse, optimizer, batches, **HOW[how], **ON_HOST)


def test_the_device_holds_no_state():
    """Nothing but copies, on queues of their own, touches what lies on the host."""
    step, _ = compiled(**ON_HOST)
    plain, _ = compiled()
    program, moments = step.program, 2 * 8 * sum(p.numel() for p in make()[0].parameters())
    own = [a for a in program.arguments if program.is_on_host(a)]
    assert {a.name.split(".")[0] for a in own} == {"exp_avg", "exp_avg_sq"}
    assert program.pinned_bytes(0) == moments and plain.program.pinned_bytes(0) == 0
    numbers = [i for i, a in enumerate(program.arguments) if program.is_on_host(a)]
    touched = re.compile(r"argument\[(" + "|".join(map(str, numbers)) + r")\]")
    lines = [line for line in str(program).splitlines() if re.match(r"  +\d+ ", line)]
    uses = [line for line in lines if touched.search(line)]
    assert len(uses) == 2 * len(own)
    assert all(re.match(r" +\d+ copy(\[1\])? copy '(from|to)_host'", line) for line in uses)


def test_a_refused_step_changes_nothing():
    step, batches = compiled(**HOW["zero"], **ON_HOST)
    step(batches[0])
    before = copy.deepcopy(values_of(step))
    bad = (batches[1][0], batches[1][1] * float("nan"))
    with pytest.raises(tandem.NonFiniteLossError):
        step(bad)
    for name, value in values_of(step).items():
        assert torch.equal(torch.as_tensor(value), torch.as_tensor(before[name])), name
    step(batches[1])


def test_resumes_elsewhere_and_with_other_batches(tmp_path):
    """The states go on on the device, and the other way round; a smaller batch has a Program of its own."""
    first, batches = compiled(**HOW["zero"], **ON_HOST)
    plain, _ = compiled(**HOW["zero"])
    for step in (first, plain):
        step(batches[0])
        step(tuple(part[:4] for part in batches[1]))
    assert_same(first, plain)
    second, _ = compiled(**HOW["zero"])
    second.load_state_dict(first.state_dict(), first.optimizer_state_dict())
    third, _ = compiled(**HOW["zero"], **ON_HOST)
    third.load_state_dict(plain.state_dict(), plain.optimizer_state_dict())
    assert second(batches[2]) == third(batches[2]) == first(batches[2])
    assert_same(second, third)


def test_what_does_not_work_is_said():
    with pytest.raises(
        tandem.CompileError, match=r"matches no state of the optimizer and no parameter; close"
    ):
        compiled(pins=[tandem.pin("exp_average*", "host")])
