"""Values copied between a step and PyTorch: `step.load(model=..., optimizer=...)` and `step.sync_to`."""

import copy
import os
import warnings

import pytest
import tandem
import torch
from forked import Forks
from test_saving import Net, Run, batch_of, loss_fn
from torch import nn
from torch.optim import swa_utils

KINDS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, dampening=0.5),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-2),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=1e-2, amsgrad=True),
}


def make(kind, seed=1, dtype=torch.float64):
    torch.manual_seed(seed)
    model = Net().to(dtype)
    return model, KINDS[kind](model.parameters())


def train_eager(model, optimizer, numbers, seed):
    """A plain loop of PyTorch, with the random numbers of the steps of these numbers."""
    losses = []
    for number in numbers:
        batch = batch_of(number)
        optimizer.zero_grad()
        with tandem.random.replay(seed, number):
            loss = loss_fn(model, batch)
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_loop_goes_on_from_the_step_and_back(kind):
    """Three steps each: Tandem, PyTorch, Tandem; the truth is PyTorch alone."""
    model, optimizer = make(kind)
    twin, twin_optimizer = make(kind)
    expected = train_eager(twin, twin_optimizer, range(9), 5)
    step = tandem.compile(
        model, loss_fn, optimizer, batch_of(0), mesh="data=2", plan="zero", seed=5
    )
    losses = [step(batch_of(number)).item() for number in range(3)]
    step.sync_to(model, optimizer)
    losses += train_eager(model, optimizer, range(3, 6), 5)
    with pytest.raises(tandem.StateError, match=r"expected step.load\(model=model\)"):
        step(batch_of(6))
    step.load(model=model, optimizer=optimizer)
    if kind in ("SGD", "momentum"):  # which do not count their steps
        assert step.count == 3
        step._state.values.set("step/step", torch.tensor(6))
    losses += [step(batch_of(number)).item() for number in range(6, 9)]
    assert losses == pytest.approx(expected, rel=1e-9)
    step.sync_to(model, optimizer)
    for name, value in twin.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [0, 2])
def test_the_state_is_in_pytorchs_layout(kind, steps):
    model, optimizer = make(kind)
    twin, twin_optimizer = make(kind)
    step = tandem.compile(model, loss_fn, optimizer, batch_of(0), mesh="data=2", seed=5)
    for number in range(steps):
        step(batch_of(number))
    train_eager(twin, twin_optimizer, range(steps), 5)
    step.sync_to(model, optimizer)
    found, expected = optimizer.state_dict(), twin_optimizer.state_dict()
    assert found["param_groups"] == expected["param_groups"]
    expected = {
        i: {k: v for k, v in e.items() if v is not None} for i, e in expected["state"].items()
    }
    expected = {i: entries for i, entries in expected.items() if entries}
    assert found["state"].keys() == expected.keys()
    for index, entries in expected.items():
        assert found["state"][index].keys() == entries.keys()
        for key, value in entries.items():
            torch.testing.assert_close(found["state"][index][key], value, rtol=1e-9, atol=1e-12)
    step(batch_of(steps))  # the copies are not taken for changes


def test_copies_go_into_the_tensors_that_are_there():
    model, optimizer = make("Adam")
    step = tandem.compile(model, loss_fn, optimizer, batch_of(0))
    step(batch_of(0))
    step.sync_to(model, optimizer)
    tensors = [*model.parameters(), *model.buffers()]
    states = [t for entries in optimizer.state.values() for t in entries.values()]
    places = [t.data_ptr() for t in (*tensors, *states)]
    assert len(states) == 3 * 8  # step and two averages of what has a gradient
    step(batch_of(1))
    step.sync_to(model, optimizer)
    assert [t.data_ptr() for t in (*tensors, *states)] == places
    assert model.head.weight is model.table.weight
    for name, value in step.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name


def test_into_another_model_and_optimizer():
    model, optimizer = make("AdamW")
    step = tandem.compile(model, loss_fn, optimizer, batch_of(0), mesh="data=2", seed=5)
    losses = [step(batch_of(number)).item() for number in range(2)]
    optimizer.param_groups[0]["lr"] = 0.005
    other, other_optimizer = make("AdamW", seed=2)
    step.sync_to(other, other_optimizer)
    assert other_optimizer.param_groups[0]["lr"] == 0.005
    assert torch.equal(other.scale, model.scale)
    expected = [step(batch_of(number)).item() for number in range(2, 4)]
    assert train_eager(other, other_optimizer, range(2, 4), 5) == pytest.approx(expected, rel=1e-9)
    assert losses != expected


def test_from_another_model_and_optimizer():
    model, optimizer = make("AdamW")
    other, other_optimizer = make("AdamW", seed=2)
    train_eager(other, other_optimizer, range(3), 5)
    other_optimizer.param_groups[0]["lr"] = 0.5
    step = tandem.compile(
        model, loss_fn, optimizer, batch_of(0), mesh="data=2", plan="zero", seed=5
    )
    step.load(model=other, optimizer=other_optimizer)
    assert optimizer.param_groups[0]["lr"] == 0.5 and step.count == 3
    found = [step(batch_of(number)).item() for number in range(3, 5)]
    assert found == pytest.approx(train_eager(other, other_optimizer, range(3, 5), 5), rel=1e-9)


def test_a_model_alone_keeps_the_state():
    model, optimizer = make("AdamW")
    step = tandem.compile(model, loss_fn, optimizer, batch_of(0))
    step(batch_of(0))
    average = step.value("state/exp_avg.hidden.weight")
    with torch.no_grad():
        model.scale.mul_(2)  # of no state dict
    with pytest.raises(tandem.StateError, match="the values of 'scale' were changed"):
        step(batch_of(1))
    step.load(model=model)
    assert torch.equal(step.value("buffer/scale"), model.scale)
    assert torch.equal(step.value("state/exp_avg.hidden.weight"), average)
    assert step.count == 1


def test_an_unused_parameter_is_loaded_as_well():
    """It is not in the Program; it was forgotten."""
    model, optimizer = make("AdamW")
    step = tandem.compile(model, loss_fn, optimizer, batch_of(0))
    other, _ = make("AdamW", seed=2)
    step.load_state_dict(other.state_dict())
    assert torch.equal(step.state_dict()["unused"], other.unused)
    step.load(model=model)
    assert torch.equal(step.state_dict()["unused"], model.unused)


# A schedule that goes on


def test_load_state_dict_and_a_scheduler_go_on_with_the_restored_rate():
    """Without a word to the optimizer: its rates come with its state."""
    run = Run()
    run.train(0, 3)
    state, optimizer_state = run.step.state_dict(), run.step.optimizer_state_dict()
    saved = copy.deepcopy((state, optimizer_state, run.scheduler.state_dict()))
    expected = run.train(3, 6)
    for order in (0, 1):
        other = Run(seed=2)
        calls = [
            lambda other=other: other.step.load_state_dict(saved[0], saved[1]),
            lambda other=other: other.scheduler.load_state_dict(saved[2]),
        ]
        for call in calls[::-1] if order else calls:
            call()
        assert other.optimizer.param_groups[0]["lr"] == 0.005
        other.step._state.values.set("buffer/scale", run.model.scale)  # of no state dict
        assert other.train(3, 6) == expected


def test_a_schedule_without_its_scheduler_is_an_error():
    run = Run()
    run.train(0, 3)
    other = Run(seed=2)
    other.step.load_state_dict(run.step.state_dict(), run.step.optimizer_state_dict())
    with pytest.raises(
        tandem.StateError,
        match=r"scheduler StepLR: its last rates are \[0.01\].*param_groups have \[0.005\]",
    ):
        other.step(batch_of(3))


# Errors


class Other(Net):
    def __init__(self):
        super().__init__()
        self.more = nn.Linear(2, 2)


class Longer(Net):
    def __init__(self):
        super().__init__()
        self.unused = nn.Parameter(torch.randn(5))


WRONG = {
    "another model": (
        lambda m, o: (Other(), None),
        "model: has 'more.[a-z]+', expected the names of the step",
    ),
    "fewer names": (
        lambda m, o: (nn.Linear(2, 2), None),
        "model: has (no )?'.*', expected the names",
    ),
    "another shape": (
        lambda m, o: (Longer(), None),
        r"model: 'unused' has shape \[5\], expected \[3\]",
    ),
    "no model": (lambda m, o: (3, None), "model is int, expected a torch.nn.Module"),
    "another optimizer": (
        lambda m, o: (m, torch.optim.SGD(m.parameters(), lr=0.1)),
        "optimizer is SGD, expected AdamW",
    ),
    "no optimizer": (lambda m, o: (None, 3), "optimizer is int, expected AdamW"),
    "other options": (
        lambda m, o: (None, torch.optim.AdamW(m.parameters(), amsgrad=True, maximize=True)),
        "parameter group 0: maximize is True, expected False",
    ),
}


@pytest.mark.parametrize("way", ["load", "sync_to"])
@pytest.mark.parametrize("kind", WRONG)
def test_what_does_not_fit_is_an_error_and_changes_nothing(way, kind):
    model, optimizer = make("AdamW")
    step = tandem.compile(model, loss_fn, optimizer, batch_of(0))
    step(batch_of(0))
    before = copy.deepcopy((step.state_dict(), model.state_dict(), optimizer.state_dict()))
    other, match = WRONG[kind][0](model, optimizer), WRONG[kind][1]
    with pytest.raises(tandem.StateError, match=match):
        getattr(step, way)(**dict(zip(("model", "optimizer"), other, strict=True)))
    for found, expected in zip((step.state_dict(), model.state_dict()), before, strict=False):
        assert all(torch.equal(found[name], value) for name, value in expected.items())
    assert str(optimizer.state_dict()) == str(before[2])


def test_nothing_to_copy_is_an_error(tmp_path):
    model, optimizer = make("AdamW")
    step = tandem.compile(model, loss_fn, optimizer, batch_of(0))
    with pytest.raises(tandem.StateError, match="sync_to: expected a model, an optimizer, or both"):
        step.sync_to()
    for given in ({}, {"folder": tmp_path, "model": model}):
        with pytest.raises(
            tandem.StateError, match="load: expected a folder, or a model and an optimizer"
        ):
            step.load(**given)
    with torch.device("meta"):
        empty = Net()
    with pytest.raises(
        tandem.StateError, match="is on the meta device, expected values .*to_empty"
    ):
        step.sync_to(empty)


def test_other_tensors_in_the_groups_are_an_error():
    model, optimizer = make("AdamW")
    step = tandem.compile(model, loss_fn, optimizer, batch_of(0))
    parameters = optimizer.param_groups[0]["params"]
    optimizer.param_groups[0]["params"] = [nn.Parameter(p.detach().clone()) for p in parameters]
    with pytest.raises(
        tandem.StateError, match="its parameter groups hold other tensors than when"
    ):
        step(batch_of(0))
    optimizer.param_groups[0]["params"] = list(parameters)
    step(batch_of(0))


# Several processes


COPIES = """
import os, torch, tandem
from test_copies import *
process = int(os.environ.get("RANK", 0))
model, optimizer = make("AdamW", seed=1 + process)  # the values of process 0 count
step = tandem.compile(model, loss_fn, optimizer, batch_of(0), mesh="data=2", plan="zero", seed=5, batch="global")
step(batch_of(0))
step.sync_to(model, optimizer)
eager = train_eager(model, optimizer, range(1, 3), 5)
step.load(model=model, optimizer=optimizer)
print(eager, [step(batch_of(number)).item() for number in range(3, 5)])
before = model.hidden.weight.clone()
step.sync_to(model, rank=0)
print(torch.equal(before, model.hidden.weight) == (process != 0))
"""


def test_two_processes_copy_as_one(tmp_path):
    (tmp_path / "copies.py").write_text(COPIES)
    forks = Forks(tmp_path, {"OMP_NUM_THREADS": "1"})
    alone = forks.start([tmp_path / "copies.py"]).finish()
    assert alone[0] == 0, alone
    ends = [p.finish() for p in forks.start_job(2, [tmp_path / "copies.py"])]
    assert ends == [alone, alone]
    assert alone[1].endswith("True\n")


# Models of transformers


def test_from_and_to_pretrained(tmp_path):
    from transformers import GPT2Config, GPT2LMHeadModel

    def config():
        sizes = dict(n_layer=2, n_embd=32, n_head=4, n_positions=16, vocab_size=64)
        return GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, use_cache=False)

    def loss(model, batch):
        return model(input_ids=batch, labels=batch).loss

    torch.manual_seed(3)
    GPT2LMHeadModel(config()).save_pretrained(tmp_path / "first")
    model = GPT2LMHeadModel.from_pretrained(tmp_path / "first").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batches = [torch.randint(64, (4, 16)) for _ in range(4)]
    step = tandem.compile(model, loss, optimizer, batches[0], mesh="data=2", plan="zero", seed=5)
    losses = [step(batch).item() for batch in batches[:2]]
    step.sync_to(model, optimizer)
    model.save_pretrained(tmp_path / "second")

    again = GPT2LMHeadModel.from_pretrained(tmp_path / "second")
    assert again.lm_head.weight.data_ptr() == again.transformer.wte.weight.data_ptr()
    for name, value in step.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
    first = GPT2LMHeadModel.from_pretrained(tmp_path / "first").state_dict()
    assert not torch.equal(first["lm_head.weight"], again.lm_head.weight)
    # Into a step that was made of another one.
    fresh = GPT2LMHeadModel(config()).train()
    other = tandem.compile(
        fresh,
        loss,
        torch.optim.AdamW(fresh.parameters(), lr=1e-3),
        batches[0],
        mesh="data=4",
        seed=5,
    )
    other.load(model=again.train(), optimizer=optimizer)
    expected = [step(batch).item() for batch in batches[2:]]
    assert [other(batch).item() for batch in batches[2:]] == pytest.approx(expected, rel=1e-5)
    assert losses != expected


@pytest.mark.parametrize("change", [nn.Module.half, nn.Module.double])
def test_another_type_of_parameters_is_refused(change):
    torch.manual_seed(0)
    model, batch = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 1)), torch.randn(8, 6)
    optimizer = torch.optim.AdamW(model.parameters())
    step = tandem.compile(model, lambda m, x: m(x).square().mean(), optimizer, batch)
    step(batch)
    before = step.state_dict()
    change(model[1])
    with pytest.raises(
        tandem.StateError, match=r"'1.bias' is of torch.* now and was of torch.float32 when"
    ):
        step(batch)
    model.float()
    step.sync_to(model)
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    step(batch)


class _WithNothing(nn.Module):
    """A parameter and a buffer without elements, as some models have them for sizes that are equal."""

    def __init__(self):
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(0, 8))
        self.register_buffer("none", torch.zeros(1, 0, 8))
        self.layer = nn.Linear(6, 8)

    def forward(self, x):
        return torch.cat([self.nothing, self.layer(x), self.none[0]])


def test_what_has_no_elements_is_kept(tmp_path):
    torch.manual_seed(0)
    model, batch = _WithNothing(), torch.randn(8, 6)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    step = tandem.compile(model, lambda m, x: m(x).square().mean(), optimizer, batch, mesh="data=2")
    torch.testing.assert_close(step(batch), model(batch).square().mean().detach())
    assert step.state_dict().keys() == model.state_dict().keys()
    assert step.state_dict()["none"].shape == (1, 0, 8)
    step.save(tmp_path)
    step.load(tmp_path)
    step.sync_to(model, optimizer)
    torch.testing.assert_close(step(batch), model(batch).square().mean().detach())


class _Turned(nn.Module):
    """Rotary positions as the reference code of Llama has them, a state of complex numbers, and one that it exchanges."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 8)
        self.register_buffer("turns", torch.polar(torch.ones(4), torch.arange(4.0)))
        self.register_buffer("seen", torch.zeros(4, dtype=torch.complex128))
        self.register_buffer("last", torch.zeros(4, dtype=torch.complex128), persistent=False)
        self.register_buffer("unused", torch.ones(2, dtype=torch.complex64))

    def forward(self, x):
        y = torch.view_as_complex(self.layer(x).unflatten(-1, (4, 2))) * self.turns
        z = (y + self.seen - self.last).abs()
        self.seen.mul_(0.5).add_(y.detach().mean(0))
        self.last = y.detach().sum(0)
        return z


@pytest.mark.parametrize("how", [dict(mesh="data=2", micro=2), dict(mesh="data=4", plan="zero")])
def test_complex_buffers(tmp_path, how):
    def make():
        torch.manual_seed(0)
        model = _Turned().double()
        return model, torch.optim.Adam(model.parameters(), lr=1e-2)

    def loss(model, x):
        return model(x).square().mean()

    batches = torch.randn(6, 8, 6, dtype=torch.float64)
    model, optimizer = make()
    step = tandem.compile(model, loss, optimizer, batches[0], **how)
    (twin, twin_optimizer), (other, other_optimizer) = make(), make()
    for number, batch in enumerate(batches):
        if number == 2:
            step.save(tmp_path)
            step = tandem.compile(other, loss, other_optimizer, batch, mesh="data=2")
            step.load(tmp_path)
        if number == 4:
            step.sync_to(model, optimizer)
            step.load(model=model, optimizer=optimizer)
        twin_optimizer.zero_grad()
        expected = loss(twin, batch)
        expected.backward()
        twin_optimizer.step()
        torch.testing.assert_close(step(batch), expected.detach())
    torch.testing.assert_close(step.state_dict(), twin.state_dict())
    step.load_state_dict(twin.state_dict())
    step.sync_to(model)
    torch.testing.assert_close(dict(model.named_buffers())["last"], twin.last)
    other.seen += 1
    with pytest.raises(tandem.StateError, match="the values of '.*' were changed"):
        step(batches[0])


# ---- Moving averages of weights


def _averaged(use_buffers):
    """A loop as people write it, in eager or with a step in the place of backward() and optimizer.step()."""
    torch.manual_seed(0)
    layers = nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8), nn.Linear(8, 1)
    model = nn.Sequential(*layers).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    decay = swa_utils.get_ema_multi_avg_fn(0.9)
    return (
        model,
        optimizer,
        swa_utils.AveragedModel(model, multi_avg_fn=decay, use_buffers=use_buffers),
    )


@pytest.mark.parametrize("use_buffers", [False, True])
def test_an_average_of_weights_is_eagers(use_buffers):
    batches = [torch.randn(8, 6, dtype=torch.float64) for _ in range(4)]

    def loss(model, batch):
        return (model(batch) - batch.sum(1, keepdim=True)).square().mean()

    twin, twins_optimizer, expected = _averaged(use_buffers)
    for batch in batches:
        twins_optimizer.zero_grad()
        loss(twin, batch).backward()
        twins_optimizer.step()
        expected.update_parameters(twin)
    model, optimizer, average = _averaged(use_buffers)
    step = tandem.compile(model, loss, optimizer, batches[0], mesh="data=2", plan="zero")
    for batch in batches:
        step(batch)
        step.sync_to(model)
        average.update_parameters(model)
    for found, right in zip(
        average.state_dict().values(), expected.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(found, right, rtol=1e-9, atol=1e-12)


def test_an_average_of_old_weights_is_refused(tmp_path):
    model, optimizer, average = _averaged(False)
    batch = torch.randn(8, 6, dtype=torch.float64)
    step = tandem.compile(model, lambda m, x: m(x).square().mean(), optimizer, batch)
    average.update_parameters(model)  # what the step begins with
    for make_old in (
        lambda: step(batch),
        lambda: step.load_state_dict(step.state_dict()),
        lambda: step.load(tmp_path),
    ):
        make_old()
        with pytest.raises(
            tandem.StateError, match=r"AveragedModel: .* expected step.sync_to\(model\)"
        ):
            average.update_parameters(model)
        with pytest.raises(tandem.StateError, match=r"expected step.sync_to\(model\)"):
            swa_utils.AveragedModel(model)
        step.sync_to(model)
        average.update_parameters(model)
        step.save(tmp_path)
    model[0].weight.data = model[0].weight * 2
    step.load(model=model)
    average.update_parameters(model)
    other, _, _ = _averaged(False)  # which no step trains
    average.update_parameters(other)


def test_old_weights_that_are_saved_or_compiled_are_told():
    model, optimizer, _ = _averaged(False)
    batch = torch.randn(8, 6, dtype=torch.float64)

    def compile_it():
        return tandem.compile(model, lambda m, x: m(x).square().mean(), optimizer, batch)

    step = compile_it()
    uses = (model.state_dict, model[0].state_dict, compile_it)
    with warnings.catch_warnings(action="error"):
        for use in uses[:2]:
            use()
        step(batch)
        copy.deepcopy(model)
        step.state_dict()
    for use in uses:
        with pytest.warns(UserWarning, match=r"the last steps, .* step.sync_to\(model\)") as told:
            use()
        assert [os.path.basename(each.filename) for each in told] == ["test_copies.py"]
    step = compile_it()
    step(batch)
    with warnings.catch_warnings(action="error"):
        step.sync_to(model)
        for use in uses:
            use()


def test_what_compile_has_wrapped_is_copied_to_and_from_the_module_inside():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = tandem.compile(
        torch.compile(model), lambda m, x: m(x).square().mean(), optimizer, torch.ones(8, 4)
    )
    before = model[0].weight.detach().clone()
    step(torch.randn(8, 4))
    step.sync_to(model, optimizer)
    assert torch.equal(step.state_dict()["_orig_mod.0.weight"], model[0].weight)
    assert not torch.equal(before, model[0].weight)
    step.load(model=model, optimizer=optimizer)
    step(torch.randn(8, 4))


def test_an_optimizer_that_got_parameters_is_not_saved(tmp_path):
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = tandem.compile(model, lambda m, x: m(x).mean(), optimizer, torch.ones(8, 4))
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(2))]})
    with pytest.raises(tandem.StateError, match="its parameter groups hold other tensors"):
        step.save(tmp_path / "saved")


@pytest.mark.parametrize("optimizer", [None, "adam"])
def test_no_optimizer(optimizer):
    model = torch.nn.Linear(4, 3)
    with pytest.raises(
        tandem.CaptureError, match=f"optimizer {type(optimizer).__name__}: expected a torch.optim"
    ):
        tandem.compile(model, lambda m, x: m(x).mean(), optimizer, torch.ones(8, 4))
