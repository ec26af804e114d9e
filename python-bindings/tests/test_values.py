"""Values of a step: its store, what becomes of them after an error, and values that come from elsewhere."""

import copy
import inspect
import re
import subprocess
import sys
import threading
import warnings
from collections import defaultdict

import pytest
import tandem
import torch
import torch.nn.functional as F
from tandem import _tandem
from tandem.session.step import Step
from torch import nn

VOCABULARY = 7


class Net(nn.Module):
    """Looks tokens up, and has a buffer that each step changes."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, 8)
        self.norm = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.norm(self.table(tokens)))


def loss_fn(model, batch):
    return F.cross_entropy(model(batch["x"]), batch["y"]) + 0 * batch["extra"].sum()


def batch_of(seed, size=8):
    generator = torch.Generator().manual_seed(seed)
    x, y, extra = torch.randint(VOCABULARY, (3, size), generator=generator)
    return {"x": x, "y": y, "extra": extra}


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=1e-2)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)


class Pair:
    """A compiled step, and the same model in eager."""

    def __init__(self, optimizer=adam, **how):
        torch.manual_seed(1)
        self.model = Net().double()
        self.optimizer = optimizer(self.model)
        self.how = {"mesh": "data=2"} | how
        self.twin = copy.deepcopy(self.model)
        self.twin_optimizer = optimizer(self.twin)
        self.step = self.compile(8)

    def compile(self, size):
        return tandem.compile(self.model, loss_fn, self.optimizer, batch_of(0, size), **self.how)

    def train_twin(self, batch):
        self.twin_optimizer.zero_grad()
        loss = loss_fn(self.twin, batch)
        loss.backward()
        self.twin_optimizer.step()
        return loss.detach()

    def check(self, seed=3, step=None, size=8):
        """One more step of both gives the same."""
        batch = batch_of(seed, size)
        loss = (step or self.step)(batch)
        torch.testing.assert_close(loss, self.train_twin(batch), rtol=1e-9, atol=1e-9)
        for name, value in self.twin.state_dict().items():
            found = (step or self.step).state_dict()[name]
            torch.testing.assert_close(found, value, rtol=1e-9, atol=1e-9, msg=name)


@pytest.fixture
def pair():
    return Pair()


# One store


@pytest.mark.parametrize("plan,micro", [("data-parallel", 1), ("zero", 2)])
def test_two_batch_sizes_train_on_one_store(plan, micro):
    pair = Pair(plan=plan, micro=micro)
    other = pair.compile(4)
    small = Step(other.module, other.bytes, pair.model, pair.optimizer, store=pair.step.store)
    for seed in range(3):
        pair.check(2 * seed)
        pair.check(2 * seed + 1, small, size=4)
    assert int(small.optimizer_state_dict()["tandem"]["step"]) == 6


def test_a_store_lists_what_it_holds(pair):
    tensors = {f"{t.role}/{t.name}": t for t in pair.step.store.tensors}
    assert tensors["parameter/head.weight"].shape == [VOCABULARY, 8]
    assert tensors["parameter/head.weight"].type == "f64"
    assert "buffer/norm.running_mean" in tensors and "state/exp_avg.head.weight" in tensors
    assert not any(key.startswith(("input/", "learning_rate/")) for key in tensors)


def test_other_forms_on_a_store_are_an_error(pair):
    zero = tandem.compile(
        pair.model, loss_fn, pair.optimizer, batch_of(0), mesh="data=2", plan="zero"
    )
    with pytest.raises(
        tandem.ProgramError,
        match=r"'\w+/\S+' is f64\[.*\] form .* in the store, expected f64\[.*\] form .*data.* as in",
    ):
        _tandem.Session(zero.bytes, 1, pair.step.store)
    alone = tandem.compile(pair.model, loss_fn, pair.optimizer, batch_of(0))
    with pytest.raises(tandem.ProgramError, match="expected the store's data=2"):
        _tandem.Session(alone.bytes, 1, pair.step.store)


# Errors of a step


def test_training_goes_on_after_an_error_before_the_first_update(pair):
    pair.check()
    bad = batch_of(4)
    bad["x"][3] = VOCABULARY
    with pytest.raises(tandem.RunError, match="out of range"):
        pair.step(bad)
    assert not any(tensor.damaged for tensor in pair.step.store.tensors)
    pair.check()


def failing_at_the_end(step):
    """The Program with one more lookup behind the updates, of the tokens `extra`."""
    program = _tandem.Program.load(step.bytes)
    numbers = {a.name: i for i, a in enumerate(program.arguments) if a.role == "input"}
    commands = program.rank_programs[0].commands

    def reads(command):
        return command.kind == "launch" and any(
            ref.space == _tandem.Space.argument and ref.index == numbers["x"]
            for ref in command.operation.inputs
        )

    again = _tandem.Command(next(command for command in commands if reads(command)))
    again.id = max(command.id for command in commands) + 1
    for ref in again.operation.inputs:
        if ref.space == _tandem.Space.argument and ref.index == numbers["x"]:
            ref.index = numbers["extra"]
    commands.append(again)
    return program.serialize()


def test_damaged_values_have_to_be_loaded_again():
    pair = Pair(gradients=True)
    pair.step = Step(pair.step.module, failing_at_the_end(pair.step), pair.model, pair.optimizer)
    pair.check()
    state, optimizer_state = pair.step.state_dict(), pair.step.optimizer_state_dict()
    bad = batch_of(4)
    bad["extra"][3] = VOCABULARY
    with pytest.raises(tandem.RunError, match="out of range"):
        pair.step(bad)
    damaged = {f"{t.role}/{t.name}" for t in pair.step.store.tensors if t.damaged}
    assert {"parameter/head.weight", "state/exp_avg.head.weight", "step/step"} <= damaged
    with pytest.raises(
        tandem.RunError, match=r"values are damaged: .* and \d+ more .*out of range"
    ):
        pair.step(batch_of(5))
    pair.step.load_state_dict(state)
    with pytest.raises(tandem.RunError, match="'state/exp_avg"):
        pair.step(batch_of(5))
    pair.step.load_state_dict(state, optimizer_state)
    pair.check()


def test_two_threads_in_one_step_are_an_error():
    torch.manual_seed(1)
    model = nn.Linear(256, 256)
    batch = torch.randn(2048, 256)
    step = tandem.compile(
        model, lambda m, x: m(x).square().mean(), torch.optim.SGD(model.parameters(), lr=0.1), batch
    )
    errors, losses = [], []

    def train():
        for _ in range(50):
            try:
                losses.append(step(batch))
            except tandem.RunError as error:
                errors.append(str(error))

    threads = [threading.Thread(target=train) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert errors and len(errors) + len(losses) == 100
    assert all("another thread" in error for error in errors)
    assert int(step.optimizer_state_dict()["tandem"]["step"]) == len(losses)


# Values from elsewhere


def zero_state(model):
    return {name: torch.zeros_like(value) for name, value in model.state_dict().items()}


def write_in_place(model):
    with torch.no_grad():
        model.head.weight.mul_(2)


def give_other_memory(model):
    model.head.weight.data = torch.zeros_like(model.head.weight)


def exchange_a_module(model):
    model.head = nn.Linear(8, VOCABULARY).double()


CHANGES = {
    "a module": exchange_a_module,
    "load_state_dict": lambda model: model.load_state_dict(zero_state(model)),
    "assign": lambda model: model.load_state_dict(zero_state(model), assign=True),
    "in place": write_in_place,
    "other memory": give_other_memory,
    "a buffer": lambda model: model.norm.running_mean.add_(1),
    "eager": lambda model: model(batch_of(5)["x"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_values_given_to_the_model_are_an_error_until_taken_over(pair, change):
    pair.check()
    CHANGES[change](pair.model)
    before = pair.step.state_dict()
    for _ in range(2):  # an error does not make it seen
        with pytest.raises(
            tandem.StateError,
            match=r"model: the values of '\S+' were changed after tandem.compile.*"
            r"expected step.load\(model=model\) .*step.sync_to\(model\)",
        ):
            pair.step(batch_of(5))
    assert all(torch.equal(a, before[n]) for n, a in pair.step.state_dict().items())
    pair.step.load(model=pair.model)
    pair.twin.load_state_dict(pair.model.state_dict())
    pair.check()
    CHANGES[change](pair.model)
    pair.step.sync_to(pair.model)
    pair.check()


def add(model):
    model.table.more = nn.Linear(2, 2)


def register(model):
    model.norm.scale = nn.Parameter(torch.ones(8))


def remove(model):
    del model.norm


@pytest.mark.parametrize(
    "change,words",
    [
        (add, "parameter 'table.more.bias' is new since"),
        (register, "parameter 'norm.scale' is new since"),
        (remove, "parameter 'norm.bias' is gone since"),
    ],
)
def test_other_parameters_are_an_error(pair, change, words):
    """Also where nothing else was changed: the step would train without them."""
    pair.check()
    change(pair.model)
    for _ in range(2):
        with pytest.raises(tandem.StateError, match=f"model: {words} tandem.compile captured it"):
            pair.step(batch_of(5))


def test_the_steps_own_values_may_be_given_to_the_model(pair):
    pair.check()
    pair.model.load_state_dict(pair.step.state_dict())
    pair.optimizer.load_state_dict(pair.step.optimizer_state_dict())
    pair.check()
    pair.check()


def test_values_that_pytorch_counts_no_write_to(monkeypatch):
    """Every second step hashes all values; the step itself is one of them."""
    monkeypatch.setenv("TANDEM_WATCH", "2")
    pair = Pair()
    pair.check(1)
    pair.check(2)
    pair.step.sync_to(pair.model, pair.optimizer)
    pair.model.head.weight.data.clamp_(-0.01, 0.01)
    pair.step(batch_of(3))
    words = "the values of 'head.weight' were changed after tandem.compile"
    for _ in range(2):
        with pytest.raises(tandem.StateError, match=words):
            pair.step(batch_of(4))
    pair.step.sync_to(pair.model, pair.optimizer)
    pair.step(batch_of(4))
    next(iter(pair.optimizer.state.values()))["exp_avg"].data.zero_()
    with pytest.raises(tandem.StateError, match="optimizer: its state was changed"):
        for seed in (5, 6):
            pair.step(batch_of(seed))
    monkeypatch.setenv("TANDEM_WATCH", "often")
    with pytest.raises(tandem.StateError, match="TANDEM_WATCH is 'often', expected a number of"):
        Pair()


@pytest.mark.parametrize("optimizer", [adam, sgd])
def test_state_given_to_the_optimizer_is_an_error_until_taken_over(optimizer):
    pair = Pair(optimizer)
    pair.check()
    pair.train_twin(batch_of(7))
    state, optimizer_state = pair.twin.state_dict(), pair.twin_optimizer.state_dict()
    pair.optimizer.load_state_dict(copy.deepcopy(optimizer_state))
    with pytest.raises(
        tandem.StateError,
        match=r"optimizer: its state was changed.*"
        r"expected step.load\(model=model, optimizer=optimizer\) .*step.sync_to\(model, optimizer\)",
    ):
        pair.step(batch_of(5))
    pair.model.load_state_dict(state)
    pair.step.load(model=pair.model, optimizer=pair.optimizer)
    pair.check()
    if optimizer is adam:
        entry = next(iter(pair.optimizer.state.values()))
        entry["exp_avg"].zero_()
        with pytest.raises(tandem.StateError, match="optimizer: its state was changed"):
            pair.step(batch_of(5))


# Rates


def halving(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)


def trained_with_schedule():
    """A checkpoint of three steps, each with half of the rate before: model, optimizer, scheduler, twin."""
    pair = Pair()
    schedulers = halving(pair.optimizer), halving(pair.twin_optimizer)
    for seed in range(3):
        pair.check(seed)
        for scheduler in schedulers:
            scheduler.step()
    saved = (pair.step.state_dict(), pair.step.optimizer_state_dict(), schedulers[0].state_dict())
    return pair, schedulers[1], copy.deepcopy(saved)


def resumed(trained):
    """A new step beside the twin of the old one, and its scheduler."""
    pair = Pair()
    pair.twin, pair.twin_optimizer = trained.twin, trained.twin_optimizer
    return pair, halving(pair.optimizer)


def test_the_rate_of_a_checkpoint_is_restored():
    trained, twin_scheduler, (state, optimizer_state, schedule) = trained_with_schedule()
    pair, scheduler = resumed(trained)
    pair.step.load_state_dict(state, optimizer_state)
    assert pair.optimizer.param_groups[0]["lr"] == 0.00125
    scheduler.load_state_dict(schedule)
    for seed in range(2):
        pair.check(seed)
        scheduler.step()
        twin_scheduler.step()


def of_two_rates(model):
    first, *others = model.parameters()
    return torch.optim.SGD([{"params": first, "lr": 1e-2}, {"params": others, "lr": 5e-3}])


def test_the_rates_of_a_checkpoint_are_those_of_their_groups():
    pair = Pair(of_two_rates)
    pair.check(1)
    state, optimizer_state = pair.step.state_dict(), pair.step.optimizer_state_dict()
    for group in pair.optimizer.param_groups:
        group["lr"] = 1.0
    pair.step.load_state_dict(state, optimizer_state)
    assert [group["lr"] for group in pair.optimizer.param_groups] == [1e-2, 5e-3]
    pair.check(2)
    optimizer_state["param_groups"][1]["lr"] = "fast"
    with pytest.raises(
        tandem.StateError, match="state dict parameter group 1: lr is 'fast', expected a"
    ):
        pair.step.load_state_dict(state, optimizer_state)


def test_a_restored_scheduler_without_its_rates_is_an_error():
    trained, twin_scheduler, (state, _, schedule) = trained_with_schedule()
    pair, scheduler = resumed(trained)
    pair.step.load_state_dict(state)
    scheduler.load_state_dict(schedule)
    with pytest.raises(
        tandem.StateError,
        match=r"scheduler StepLR: its last rates are \[0.00125\], and optimizer.param_groups have \[0.01\]"
        r".*load the scheduler's state and the optimizer's",
    ):
        pair.step(batch_of(3))
    pair.optimizer.param_groups[0]["lr"] = 0.00125
    pair.step(batch_of(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda o: torch.optim.lr_scheduler.LinearLR(o, 0.1),
        lambda o: torch.optim.lr_scheduler.SequentialLR(
            o,
            [
                torch.optim.lr_scheduler.LinearLR(o, 0.1),
                torch.optim.lr_scheduler.ExponentialLR(o, 0.9),
            ],
            [2],
        ),
        lambda o: (
            torch.optim.lr_scheduler.ExponentialLR(o, 0.9),
            torch.optim.lr_scheduler.LinearLR(o, 0.1),
        ),
        lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o),
        lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_schedulers_that_were_not_restored_are_none(pair, make):
    schedulers = make(pair.optimizer), make(pair.twin_optimizer)
    for seed in range(3):
        pair.check(seed)
        for scheduler in schedulers:
            for each in scheduler if isinstance(scheduler, tuple) else (scheduler,):
                plateau = isinstance(each, torch.optim.lr_scheduler.ReduceLROnPlateau)
                each.step(1.0) if plateau else each.step()


class TwoTables(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.kinds = nn.Embedding(7, 8), nn.Embedding(3, 8)

    def forward(self, words, kinds):
        a = self.words(words)  # words
        b = self.kinds(kinds)  # kinds
        return (a + b).square().mean()


def test_an_index_out_of_range_is_named_with_its_operator_line_and_bound():
    """Also where one kernel does both lookups."""
    model = TwoTables()
    batch = {"words": torch.zeros(4, dtype=torch.int64), "kinds": torch.zeros(4, dtype=torch.int64)}
    step = tandem.compile(
        model, lambda m, b: m(**b), torch.optim.SGD(model.parameters(), lr=0.1), batch
    )
    lines, first = inspect.getsourcelines(TwoTables.forward)
    for name, bad, last in [("words", 7, 6), ("kinds", -1, 2), ("kinds", 9, 2)]:
        line = first + next(i for i, text in enumerate(lines) if text.endswith(f"# {name}\n"))
        wrong = batch | {name: torch.tensor([0, 1, bad, 0])}
        with pytest.raises(
            tandem.RunError,
            match=rf"command \d+ '.*test_values.py:{line}\): (embedding: )?index {bad} is out of range,"
            rf" expected 0 to {last}$",
        ) as caught:
            step(wrong)
        assert len(re.findall(rf"test_values\.py:(?:\d+,)*{line}\)", str(caught.value))) == 1
    step(batch)


RECORDS = """
import resource, sys, tandem, torch
model = torch.nn.Linear(4, 4)
batch = torch.randn(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
step = tandem.compile(model, lambda m, x: m(x).square().mean(), optimizer, batch, mesh="data=2")
memory = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
with step.trace(sys.argv[1]):
    step(batch)
before = memory()
with step.trace(sys.argv[1]):
    for _ in range(4000):
        step(batch)
print(memory() - before)
"""


def test_a_timeline_takes_little_memory_per_event(tmp_path):
    path = tmp_path / "timeline.json"
    command = [sys.executable, "-c", RECORDS, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    events = path.read_text().count('"ph":"X"')
    assert events > 50_000
    assert int(done.stdout) <= 200 * events


def test_a_state_that_is_cleared_before_it_was_copied():
    model = nn.Linear(4, 2).double()
    twin = copy.deepcopy(model)
    optimizers = [torch.optim.Adam(m.parameters(), 0.1) for m in (model, twin)]
    batch = torch.ones(4, 4, dtype=torch.float64)

    def loss(model, batch):
        return model(batch).square().mean()

    step = tandem.compile(model, loss, optimizers[0], batch)
    assert type(copy.deepcopy(optimizers[0]).state) is defaultdict
    for _ in range(3):
        loss(twin, batch).backward()
        optimizers[1].step()
        optimizers[1].zero_grad()
        step(batch)
        for optimizer in optimizers:
            optimizer.state.clear()
        with pytest.raises(tandem.StateError, match="optimizer: its state was changed after"):
            step(batch)
        step.sync_to(model)
        step.load(model=model, optimizer=optimizers[0])
    torch.testing.assert_close(step.state_dict(), twin.state_dict(), rtol=1e-9, atol=0)


def test_gradients_that_parameters_have_are_not_added():
    model, batch = nn.Linear(4, 2), torch.ones(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step = tandem.compile(model, lambda m, x: m(x).square().mean(), optimizer, batch)
    step(batch)
    model.weight.grad = torch.ones(2, 4)
    with pytest.warns(
        UserWarning, match=r"step: parameters have gradients, .* optimizer.zero_grad"
    ):
        step(batch)
    with warnings.catch_warnings(action="error"):  # once
        step(batch)
