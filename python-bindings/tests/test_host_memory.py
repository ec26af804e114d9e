"""States of the optimizer and parameters in the host's memory: the step is the same to the bit, and the device holds them not."""

import copy
import math
import re

import pytest
import tandem
import torch
from test_checkpointed import batches as tokens
from test_checkpointed import check_training
from test_checkpointed import loss_fn as loss_of_tokens
from test_models import mse, normal
from test_pipeline_models import list_transfers
from test_pipelines import TIED_PINS, tied
from test_recomputed import gpt
from test_training import train_both
from torch import nn

ON_HOST = dict(pins=[tandem.pin("exp_avg*", "host")])
STORED = dict(
    pins=[tandem.pin("exp_avg*", "host"), tandem.pin("parameter:*", "host")],
)
BF16 = dict(precision="bf16", gradient_sums="bf16")
HOW = {
    "zero": dict(mesh="data=2", plan="zero", micro=2),
    "search": dict(mesh="data=2", search="tandem", accumulate=2),
    "pipeline": dict(mesh="pipe=2,data=2", plan="zero", accumulate=2, sections=2),
}


STORED_HOW = HOW | {
    "one": {},
    "accumulate bf16": dict(accumulate=2, **BF16),
    "zero bf16": dict(mesh="data=2", plan="zero", micro=2, precision="bf16"),
    "pipeline bf16": HOW["pipeline"] | BF16,
}


def make(width=16, dtype=torch.float64):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, width), nn.Tanh(), nn.Linear(width, 4)).to(dtype)
    batches = [(normal(8, 8).to(dtype), normal(8, 4).to(dtype)) for _ in range(4)]
    return model, torch.optim.AdamW(model.parameters(), lr=0.01), batches


def compiled(**how):
    model, optimizer, batches = make(dtype=torch.float32 if "precision" in how else torch.float64)
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


@pytest.mark.parametrize("how", STORED_HOW)
def test_parameters_on_the_host_are_the_same_to_the_bit(how):
    """Twenty steps, the last ten of them by a step that goes on with what the other one has stored."""
    steps = [compiled(**STORED_HOW[how], **pins)[0] for pins in (STORED, {})]
    others = [compiled(**STORED_HOW[how], **pins)[0] for pins in ({}, STORED)]
    _, batches = compiled(**STORED_HOW[how])
    for number in range(10):
        first, second = (step(batches[number % 4]) for step in steps)
        assert first == second
    for step, other in zip(steps, others, strict=True):
        other.load_state_dict(step.state_dict(), step.optimizer_state_dict())
    for number in range(10):
        first, second = (step(batches[number % 4]) for step in others)
        assert first == second
    assert_same(*others)
    first, second = (step.evaluate(batches[1]) for step in others)
    assert first == second
    own = [a for a in steps[0].program.arguments if a.role in ("parameter", "state")]
    device = [a.name for a in own if not steps[0].program.is_on_host(a)]
    assert own and not [name for name in device if "weight" in name]


def test_nothing_but_copies_touches_parameters_on_the_host():
    """The device holds casts of them, and the copies of two buckets, in place of what they were."""
    how = STORED_HOW["accumulate bf16"]
    step, batches = compiled(**how, **STORED)
    plain, _ = compiled(**how)
    program = step.program
    numbers = [i for i, a in enumerate(program.arguments) if program.is_on_host(a)]
    touched = re.compile(r"argument\[(" + "|".join(map(str, numbers)) + r")\]")
    lines = [line for line in str(program).splitlines() if re.match(r"  +\d+ ", line)]
    uses = [line for line in lines if touched.search(line)]
    assert all(re.match(r" +\d+ copy(\[1\])? copy '(from|to)_host'", line) for line in uses)
    assert program.held_bytes(0) < plain.program.held_bytes(0)
    model, optimizer, _ = make(dtype=torch.float32)
    step(batches[0])
    plain(batches[0])
    step.sync_to(model, optimizer)
    for name, value in plain.state_dict().items():
        assert torch.equal(dict(model.named_parameters())[name], value), name


@pytest.mark.parametrize("pins", [ON_HOST, STORED], ids=["states", "parameters"])
def test_a_refused_step_changes_nothing(pins):
    step, batches = compiled(**HOW["zero"], **pins)
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
    with pytest.raises(
        tandem.CompileError, match=r"'parameter:none\*' matches no parameter; close names are '0"
    ):
        compiled(pins=[tandem.pin("parameter:none*", "host")])
    with pytest.raises(
        tandem.CompileError, match=r"bucket is 65536, but nothing that is updated lies on the host"
    ):
        compiled(bucket="64KiB")


def stages_of(step):
    """The copies from the host of each stage."""
    stages = {}
    for line in str(step.program).splitlines():
        if "copy 'from_host'" in line:
            stages.setdefault(re.search(r"stage (\d+)", line)[1], []).append(line)
    return stages


def test_the_predicted_step_chooses_the_bucket():
    step, batches = compiled(**HOW["zero"], **ON_HOST)
    said = "\n".join(step.compiled.remarks)
    assert re.search(r"walk over buckets of at most .*: a step is predicted to take", said)
    others = [compiled(**HOW["zero"], **ON_HOST, bucket=bucket)[0] for bucket in ("1GB", 1)]
    for batch in batches:
        loss = step(batch)
        assert [other(batch) for other in others] == [loss, loss]
    # Evaluations update nothing, and a batch of another size has the same bucket.
    half = tuple(value[:4] for value in batches[0])
    for run in (lambda each: each.evaluate(batches[0]), lambda each: each(half)):
        first, second, third = map(run, (step, *others))
        assert first == second == third
    for other in others:
        assert_same(step, other)


def test_a_bucket_has_what_its_bytes_let_in():
    """On one device, where updates wait for no sums of gradients and so are in one stage without buckets."""
    whole, small = (compiled(**ON_HOST, bucket=bucket)[0] for bucket in ("1GB", 1))
    assert len(stages_of(whole)) == 1 < len(stages_of(small))


def test_a_bucket_that_is_larger_than_what_is_free_is_said():
    held = compiled(**ON_HOST, bucket=1)[0].program.held_bytes(0) + 256
    with pytest.raises(
        tandem.CompileError,
        match=r"buckets of updates on the host take .* are free .*: expected a bucket of at most",
    ):
        compiled(**ON_HOST, bucket="1GB", memory=held)
    with pytest.raises(
        tandem.CompileError,
        match=r"the bucket of 'exp_avg.*weight' on the host takes .* are free beside",
    ):
        compiled(**ON_HOST, memory=held // 2 - 512, mesh="data=2", search="tandem")


class Packed(nn.Module):
    """Query, key and value by one projection, which the compiler takes apart."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.out(torch.tanh(q * k) + v)


def test_packed_parameters_on_the_host_are_evaluated():
    batches = [(normal(8, 8), normal(8, 8)) for _ in range(3)]
    steps = []
    for pins in (STORED, {}):
        torch.manual_seed(0)
        model = Packed().double()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        steps.append(tandem.compile(model, mse, optimizer, batches[0], **pins))
    assert len([a for a in steps[0].program.arguments if a.part]) > 0
    for run in (
        lambda step: step(batches[0]),
        lambda step: step.evaluate(batches[1]),
        lambda step: step(tuple(part[:4] for part in batches[2])),
    ):
        first, second = map(run, steps)
        assert first == second
    assert_same(*steps)


PRESET_HOW = {
    "one": {},
    "zero": HOW["zero"],
    "pipeline": HOW["pipeline"],
}


@pytest.mark.parametrize("how", PRESET_HOW)
def test_plan_files_of_presets_keep_the_pins(how, tmp_path):
    file = tmp_path / "step.plan"
    step, batches = compiled(**PRESET_HOW[how], **STORED)
    file.write_text(step.compiled.plan)
    again, _ = compiled(plan=str(file))
    assert again.program.pinned_bytes(0) == step.program.pinned_bytes(0) > 0
    assert again(batches[0]) == step(batches[0])


@pytest.mark.parametrize(
    "pins, message",
    [
        (
            "parameter:*:hots;exp_avg*:host",
            r"correct line \d+: 'parameter:\*:hots' puts no parameter",
        ),
        ("parameter:none*:host", r"correct line \d+: 'parameter:none\*:host' puts no parameter"),
        ("parameter:*:host;exp_avg*:hots", r"line \d+: pin 'exp_avg\*' asks for 'hots', expected"),
        (
            "parameter:*:host;none*:host",
            r"line \d+: pin 'none\*' matches no state of the optimizer",
        ),
    ],
)
def test_edited_pins_of_a_plan_file_are_said_with_their_line(pins, message, tmp_path):
    file = tmp_path / "step.plan"
    step, _ = compiled(**HOW["zero"], **STORED)
    file.write_text(re.sub(r"(?m)^pins .*", f"pins {pins}", step.compiled.plan))
    with pytest.raises(tandem.CompileError, match=message) as error:
        compiled(plan=str(file))
    assert "\n" not in str(error.value) and str(file) in str(error.value)


def test_a_plan_to_start_from_says_what_it_stores(tmp_path):
    how = dict(mesh="data=2", search="tandem")
    step, _ = compiled(**how, **STORED)
    file = tmp_path / "start.plan"
    file.write_text(step.compiled.plan)
    with pytest.raises(
        tandem.CompileError, match=r"start.plan' has the pin 'parameter:\*:host', and this run"
    ):
        compiled(start=str(file), **how)


@pytest.mark.parametrize("mesh", ["pipe=2", "pipe=2,data=2"])
def test_tied_parameters_on_the_host_of_a_pipeline(mesh):
    """The last section reads the weight of the first one, and nothing sends the parameter itself."""
    model, batches = tied(), [(normal(8, 8), normal(8, 8)) for _ in range(4)]
    how = dict(mesh=mesh, plan="zero" if "data" in mesh else None, accumulate=4)
    how["pins"] = [*TIED_PINS, *STORED["pins"]]
    step, _ = train_both(model, mse, torch.optim.AdamW(model.parameters(), lr=0.01), batches, **how)
    assert step.program.pinned_bytes(0) > 0 and step.program.pinned_bytes(1) > 0


@pytest.mark.parametrize("mesh", ["pipe=2", "pipe=2,data=2"])
def test_a_pipeline_that_makes_values_again_of_parameters_on_the_host(mesh):
    """What a section has sent is held where it arrived: no parameter goes there to make it again."""
    pins = [tandem.pin("blocks.*", "again"), *STORED["pins"]]
    how = dict(mesh=mesh, plan="zero" if "data" in mesh else None, accumulate=2, sections=2)
    step = check_training(gpt(), loss_of_tokens, tokens(3), pins=pins, **how)
    assert "nn.either: again" in step.compiled.plan and step.program.pinned_bytes(0) > 0
    rows = 512 if mesh == "pipe=2" else 256  # no parameter has as many elements
    assert {math.prod(shape) for _, _, *shape in list_transfers(step)} == {rows}


@pytest.mark.parametrize(
    "ways", [("zero", "pipeline"), ("pipeline", "one"), ("search", "zero")], ids="-".join
)
@pytest.mark.parametrize(
    "stored", [(STORED, {}), ({}, STORED), (STORED, STORED)], ids=["back", "away", "stay"]
)
def test_resumes_under_another_layout(ways, stored, tmp_path):
    """Twenty steps, ten under each layout: with a checkpoint between, the values are those of steps without pins."""
    ends = []
    for number, pins in enumerate((stored, ({}, {}))):
        folder = str(tmp_path / str(number))
        for way, own in zip(ways, pins, strict=True):
            step, batches = compiled(**STORED_HOW[way], **own)
            if way is ways[1]:
                step.load(folder)
            losses = [step(batches[i % 4]) for i in range(10)]
            if way is ways[0]:
                step.save(folder)
        ends.append((losses, step))
    (found, step), (expected, plain) = ends
    assert found == expected
    assert_same(step, plain)
    assert (step.program.pinned_bytes(0) > 0) == bool(stored[1])
