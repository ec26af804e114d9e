"""Values that wait in the host's memory for the backward pass: the numbers are eager's, and the device holds less."""

import re

import pytest
import tandem
import torch
from conftest import ROOT
from tandem.errors import CompileError
from tandem.session.compile import compile_module
from test_checkpointed import Gpt, adam, batches, check_training, loss_fn, plain
from test_recomputed import compiled, gpt

ON_HOST = [tandem.pin("blocks.*", "host")]


def sent_by(step):
    """The choices of the plan that take what waited on the host."""
    return len(re.findall(r"nn\.either: host", step.compiled.plan))


WAYS = {
    "preset": dict(mesh="data=1", plan="data-parallel"),
    "search": dict(mesh="data=1", search="tandem"),
    "strands": dict(mesh="data=2", plan="zero", micro=2),
    "tensor-parallel": dict(mesh="data=2,model=2", plan="tensor-parallel"),
    "accumulate": dict(mesh="data=1", plan="data-parallel", accumulate=2),
}


@pytest.mark.parametrize("way", WAYS)
def test_pins_send_values_to_the_host(way):
    free = compiled(**WAYS[way])
    step = check_training(gpt(), loss_fn, batches(3), pins=ON_HOST, **WAYS[way])
    assert sent_by(step) > 0 and sent_by(free) == 0
    assert step.program.pinned_bytes(0) > 0 == free.program.pinned_bytes(0)
    assert step.program.held_bytes(0) < free.program.held_bytes(0)


class Experts(torch.nn.Module):
    """Four experts that see every token, behind a norm and a residual."""

    def __init__(self):
        super().__init__()
        self.before, self.norm = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)
        self.gate = torch.nn.Linear(8, 4)
        self.up = torch.nn.Parameter(torch.randn(4, 8, 16))
        self.down = torch.nn.Parameter(torch.randn(4, 16, 8))

    def forward(self, x):
        x = self.before(x)
        hidden = self.norm(x)
        shares = self.gate(hidden).softmax(-1)
        hidden = torch.nn.functional.silu(torch.einsum("btw,ewf->btef", hidden, self.up))
        return x + (torch.einsum("btef,efw->btew", hidden, self.down) * shares[..., None]).sum(2)


def squares(model, x):
    return model(x).square().mean()


def test_a_form_changes_on_the_device_not_on_the_host():
    torch.manual_seed(0)
    several = [torch.randn(8, 4, 8, dtype=torch.float64) for _ in range(3)]
    check_training(
        Experts().double(),
        squares,
        several,
        mesh="data=2",
        plan="expert-parallel",
        pins=[tandem.pin("*", "host")],
    )


def test_copies_are_on_queues_of_their_own():
    step = compiled(pins=ON_HOST, **WAYS["preset"])
    lines = [line for line in str(step.program).splitlines() if "_host'" in line]
    assert {line.split()[1] for line in lines if "'from_host'" in line} == {"copy"}
    assert {line.split()[1] for line in lines if "'to_host'" in line} == {"copy[1]"}


def sgd(model):
    """Without states, which may lie on the host in place of values."""
    return torch.optim.SGD(model.parameters(), lr=0.1)


def near_host(folder, cores, overhead="10 ns"):
    """A laptop of so many cores whose copies to the host take next to nothing, and kernels that they cut little: so a plan
    sends values, and its Program is the faster one.
    """
    text = (ROOT / "examples/clusters/laptop.yaml").read_text()
    text = re.sub(
        r"(?m)^  host: .*", "  host: {latency: 100 ns, bandwidth: 1 TB/s, per: device}", text
    )
    text = text.replace("bandwidth: 10 GB/s}", "bandwidth: 1 TB/s}")
    text = re.sub(r"overhead: .*", f"overhead: {overhead}", text)
    path = folder / "near.yaml"
    path.write_text(text.replace("core: 4", f"core: {cores}"))
    return str(path)


def test_a_limit_sends_values_to_the_host(tmp_path):
    """Without memory of the host, values are made again."""
    options = dict(mesh="data=1", search="tandem", cluster=near_host(tmp_path, 1))
    free = compiled(sgd, **options)
    memory = int(0.8 * free.program.held_bytes(0))
    again = compiled(sgd, memory=memory, host_memory=0, **options)
    options |= dict(memory=memory, host_memory="1GB")
    step = check_training(gpt(), loss_fn, batches(3), sgd, **options)
    assert sent_by(again) == 0 < sent_by(step)
    assert step.program.held_bytes(0) <= memory


def cost_of(step):
    return float(re.search(r"(?m)^cost (\S+) s$", step.compiled.plan)[1])


def test_a_plan_that_was_made_without_the_host_is_explained(tmp_path):
    """Kernels that copies cut cost more than what they save, so the plan is of a step without that offer."""
    options = dict(mesh="data=1", search="tandem", cluster=near_host(tmp_path, 1, "10 us"))
    memory = int(0.6 * compiled(**options).program.held_bytes(0))
    step = compiled(memory=memory, host_memory="1GB", **options)
    assert "offer host" not in step.compiled.plan
    assert step.explain()["memory"]["held"]


@pytest.mark.parametrize("share", [0.9, 0.8, 0.7, 0.6])
def test_host_memory_makes_nothing_worse(share):
    """What fits without fits with it, and is not slower."""
    options = dict(mesh="data=1", search="tandem")
    options["memory"] = int(share * compiled(**options).program.held_bytes(0))
    try:
        without = compiled(**options)
    except CompileError:
        without = None
    try:
        step = compiled(host_memory="1GB", **options)
    except CompileError:
        step = None
    assert step or not without
    assert not step or step.program.held_bytes(0) <= options["memory"]
    assert not without or cost_of(step) <= cost_of(without)


def test_states_on_the_host_compete_at_each_limit(tmp_path):
    """Where they are not all that fits, they may yet be what is fastest."""
    options = dict(mesh="data=1", search="tandem", cluster=near_host(tmp_path, 1))
    limits = dict(memory=int(0.6 * compiled(**options).program.held_bytes(0)), **options)
    model = gpt()
    module = tandem.export(model, loss_fn, adam(model), batches(1)[0])

    def predict(**more):
        remarks = compile_module(module, timeline=True, **more, **limits).remarks
        return float(re.search(r"timeline (\S+) s", "\n".join(remarks))[1])

    again, states = predict(host_memory=0), predict(pins=["exp_avg*:host"])
    assert predict() <= min(states, again) and states < again


def test_explanations_price_the_host(tmp_path):
    options = dict(mesh="data=1", search="tandem", cluster=near_host(tmp_path, 1))
    memory = int(0.8 * compiled(sgd, **options).program.held_bytes(0))
    step = compiled(sgd, memory=memory, host_memory="1GB", **options)
    held = step.explain()["memory"]["held"]
    assert any("on_host" in entry for entry in held)
    fetched = {e["why_held"] for e in held if e["tensor"].startswith("nn.from_host")}
    assert "copied from the host already" in fetched
    assert fetched <= {"copied from the host already", "scratch of the operator", "not asked"}


def test_explanations_name_what_lies_on_the_host():
    pins = [tandem.pin("exp_avg*", "host"), tandem.pin("parameter:head.*", "host"), *ON_HOST]
    step = compiled(pins=pins, **WAYS["preset"])
    entries = step.explain()["memory"]["on_host"]
    sent = [entry for entry in entries if entry["kind"] == "sent"]
    stored = {entry["tensor"] for entry in entries if entry["kind"] == "stored"}
    assert "head.weight" in stored and any(name.startswith("exp_avg") for name in stored)
    assert sent and all(entry["location"] and "seconds" in entry for entry in sent)
    assert sum(entry["bytes"] for entry in entries) == pytest.approx(
        step.program.pinned_bytes(0), rel=0.1
    )


def test_the_plan_sends_no_more_than_the_host_holds(tmp_path):
    """What does not wait there is made again: the limit of the device holds, too."""
    options = dict(mesh="data=1", search="tandem", cluster=near_host(tmp_path, 1))
    held = compiled(sgd, **options).program.held_bytes(0)
    limits = dict(memory=int(0.65 * held), **options)
    free = compiled(sgd, host_memory="1GB", **limits)
    room = free.program.pinned_bytes(0) // 2
    step = check_training(gpt(), loss_fn, batches(3), sgd, host_memory=room, **limits)
    assert 0 < step.program.pinned_bytes(0) <= room < free.program.pinned_bytes(0)
    assert step.program.held_bytes(0) <= limits["memory"]
    assert sent_by(step) < sent_by(free)


def test_what_the_host_lacks_is_said():
    with pytest.raises(
        CompileError,
        match=r"on the host of a rank, .* more than the limit of 1 kB: expected --host-memory of "
        r"at least .*, or pins ':host' on less",
    ):
        compiled(pins=ON_HOST, host_memory="1kB", **WAYS["preset"])
    with pytest.raises(CompileError, match=r"but the host memory is limited to 0: expected more"):
        compiled(pins=ON_HOST, host_memory=0, **WAYS["preset"])
    with pytest.raises(CompileError, match=r"matches no state of the optimizer and no parameter"):
        compiled(pins=[tandem.pin("none.*", "host")], **WAYS["preset"])


def test_plans_of_what_waits_on_the_host_are_read_again(tmp_path):
    step = compiled(pins=ON_HOST, **WAYS["preset"])
    path = tmp_path / "plan.txt"
    path.write_text(step.compiled.plan)
    model = gpt()
    same = tandem.compile(
        model, loss_fn, adam(model), batches(1)[0], plan=str(path), host_memory="1GB"
    )
    assert same.program.held_bytes(0) == step.program.held_bytes(0)
    path.write_text(step.compiled.plan.replace("nn.either: host", "nn.either: again", 1))
    with pytest.raises(CompileError, match=r"takes 'again \d', expected 'host \d'"):
        tandem.compile(
            model, loss_fn, adam(model), batches(1)[0], plan=str(path), host_memory="1GB"
        )


PIPELINES = {
    "1f1b": dict(mesh="pipe=2", sections=2, accumulate=4, order="1f1b"),
    "gpipe": dict(mesh="pipe=2", sections=2, accumulate=4, order="gpipe"),
    "interleaved": dict(mesh="pipe=2", sections=4, accumulate=4, order="interleaved"),
    "zb-h1": dict(mesh="pipe=2", sections=2, accumulate=4, order="zb-h1"),
    "aiao": dict(mesh="pipe=2", sections=4, accumulate=4, order="aiao"),
    "strands": dict(mesh="pipe=2,data=2", sections=2, accumulate=2, micro=2, plan="zero"),
    "tensor-parallel": dict(
        mesh="pipe=2,model=2", sections=2, accumulate=2, plan="tensor-parallel"
    ),
    "one microbatch": dict(mesh="pipe=2", sections=2),
}


def deep():
    return Gpt(plain, 4).double()


def pipeline(**options):
    model = deep()
    return tandem.compile(model, loss_fn, adam(model), batches(1)[0], **options)


@pytest.mark.sample(4)
@pytest.mark.parametrize("way", PIPELINES)
def test_values_of_a_pipeline_wait_on_the_host(way):
    """Between the passes of each microbatch; what a section was sent waits in the memory of its own host."""
    free = pipeline(**PIPELINES[way])
    step = check_training(deep(), loss_fn, batches(3), pins=ON_HOST, **PIPELINES[way])
    assert sent_by(step) > 0 == sent_by(free)
    assert all(step.program.pinned_bytes(rank) > 0 for rank in range(step.program.num_ranks))
    if way in ("gpipe", "aiao"):  # more is in flight than what copies need
        assert step.program.held_bytes(0) < free.program.held_bytes(0)


def test_copies_of_a_pipeline_are_beside_other_passes():
    """What a pass has made is sent beside the next one."""
    step = pipeline(pins=ON_HOST, **PIPELINES["gpipe"])
    commands = [line.split() for line in str(step.program).splitlines()]
    commands = [words for words in commands if words and words[0].isdigit()]
    sent = {words[-1] for words in commands if words[1:3] == ["copy[1]", "record_event"]}
    compute = [words for words in commands if words[1] == "compute"]
    waits = [words[2] == "wait_event" and words[-1] in sent for words in compute]
    of_next = [words[3] == "'0F1" for words in compute]
    assert True in waits and of_next.index(True) < waits.index(True)


def test_a_limit_sends_values_of_a_pipeline_to_the_host(tmp_path):
    options = dict(search="tandem", cluster=near_host(tmp_path, 2), **PIPELINES["gpipe"])
    held = max(pipeline(**options).program.held_bytes(rank) for rank in range(2))
    limits = dict(memory=int(0.5 * held), host_memory="1GB")
    step = check_training(deep(), loss_fn, batches(3), **limits, **options)
    assert sent_by(step) > 0
    assert all(step.program.held_bytes(rank) <= limits["memory"] for rank in range(2))


def test_a_pipeline_sends_no_more_than_the_host_holds():
    with pytest.raises(
        CompileError, match=r"on the host of a rank, .* more than the limit of 1 kB"
    ):
        pipeline(pins=ON_HOST, host_memory="1kB", **PIPELINES["1f1b"])


def test_plans_of_pipelines_that_send_values_are_read_again(tmp_path):
    step = pipeline(pins=ON_HOST, **PIPELINES["1f1b"])
    path = tmp_path / "plan.txt"
    path.write_text(step.compiled.plan)
    same = pipeline(plan=str(path))
    assert same.program.pinned_bytes(0) == step.program.pinned_bytes(0) > 0
