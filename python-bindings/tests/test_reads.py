"""Values that Python looks at: the captured step goes the example's way, and refuses a step that would go another."""

import re

import numpy as np
import pytest
import tandem
import torch
import torch.nn.functional as F
from comparing import train_beside
from forked import Forks
from tandem import BatchError, CaptureError, StepRefusedError
from torch import nn


def line_of(marker):
    with open(__file__) as file:
        (number,) = [i for i, text in enumerate(file, 1) if text.rstrip().endswith(f"# {marker}")]
    return rf"test_reads\.py:{number}\b"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.norm(self.body(x)))


def made(seed=0, kind=Model):
    torch.manual_seed(seed)
    model = kind().double()
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def batch_of(seed, rows=8):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 6, generator=generator, dtype=torch.float64)
    return {"x": x, "y": torch.randint(0, 5, (rows,), generator=generator)}


def looks_at_batch(model, batch):
    assert (batch["y"] < 5).all(), "a label is too large"  # here: labels
    count = (batch["y"] >= 0).sum().item()
    if max(count, 1) < 2:
        raise ValueError("no labels")
    return F.cross_entropy(model(batch["x"]), batch["y"], reduction="sum") / count


def looks_at_model(model, batch):
    x = batch["x"].clone()
    x.mul_(2.0)
    scores = model(x)
    if scores.abs().max() > 50:  # here: scores
        scores = scores * 0
    return F.cross_entropy(scores, batch["y"])


def values(step):
    return step.state_dict() | {
        f"{i}.{name}": torch.as_tensor(value)
        for i, state in step.optimizer_state_dict()["state"].items()
        for name, value in state.items()
    }


def same(found, expected):
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("loss_fn", [looks_at_batch, looks_at_model])
@pytest.mark.parametrize("options", [dict(micro=2), dict(mesh={"data": 2}, micro=2, plan="zero")])
def test_trains_as_eager(loss_fn, options):
    model, optimizer = made()
    step = tandem.compile(model, loss_fn, optimizer, batch_of(0), **options)
    twin, its_optimizer = made()
    for number in range(3):
        found = step(batch_of(number))
        its_optimizer.zero_grad()
        expected = loss_fn(twin, batch_of(number))
        expected.backward()
        its_optimizer.step()
        torch.testing.assert_close(found, expected.detach(), rtol=1e-9, atol=0)
    for name, value in twin.state_dict().items():
        torch.testing.assert_close(step.state_dict()[name], value, rtol=1e-9, atol=1e-12)


def refused(step, batch, kind, pattern):
    """The step leaves all values as they were, and training goes on."""
    before = values(step)
    with pytest.raises(kind, match=pattern) as caught:
        step(batch)
    assert "\n" not in str(caught.value)
    same(values(step), before)


def test_a_batch_that_goes_another_way_is_refused_before_the_step():
    model, optimizer = made()
    step = tandem.compile(model, looks_at_batch, optimizer, batch_of(0), mesh={"data": 2}, micro=2)
    assert not any(r.role == "check" for r in step.module.results)
    step(batch_of(1))
    bad = batch_of(2)
    bad["y"][3] = 7
    pattern = "batch: .*" + line_of("here: labels") + ".* was True .* is False now, expected True"
    refused(step, bad, BatchError, pattern)
    step(batch_of(3))


@pytest.mark.parametrize(
    "options", [dict(micro=2), dict(mesh={"data": 2, "model": 2}, plan="zero", micro=2)]
)
def test_a_step_that_goes_another_way_is_refused_before_it_writes(options):
    model, optimizer = made()
    step = tandem.compile(model, looks_at_model, optimizer, batch_of(0), **options)
    assert [r.role for r in step.module.results].count("check") == 1
    step(batch_of(1))
    bad = batch_of(2)
    bad["x"][5] *= 1e9
    pattern = line_of("here: scores") + ".* was False .* is True now, expected False"
    with torch.no_grad():
        heavy = {n: p * 1e4 if n.startswith("head") else p for n, p in step.state_dict().items()}
    before = step.state_dict()
    step.load_state_dict(heavy)
    refused(step, bad, StepRefusedError, pattern)
    step.load_state_dict(before)
    step(batch_of(3))


def test_an_exported_step_checks_its_batches_itself():
    model, optimizer = made()
    module = tandem.export(model, looks_at_batch, optimizer, batch_of(0))
    assert [r.role for r in module.results].count("check") == 3
    assert "nn.role = #nn.role<check>" in module.mlir


class Dropping(Model):
    layerdrop = 0.1

    def forward(self, x):
        skipped = torch.rand([]) < self.layerdrop  # here: drawn
        if not skipped:  # here: decided
            x = x * 2
        return super().forward(x)


def of_shape(model, batch):
    count = int((batch["y"] > 1).sum())  # here: count
    return model(batch["x"]).sum() * count


def of_a_slice(model, batch):
    return model(batch["x"])[: (batch["y"] > 1).sum().item()].sum()  # here: slice


def plain(model, batch):
    return model(batch["x"]).square().mean()


@pytest.mark.parametrize(
    "kind, loss_fn, pattern",
    [
        (Dropping, plain, line_of("here: decided") + r".*turn it off \(layerdrop = 0\)"),
        (Model, of_shape, line_of("here: count") + ".*depends on data: Python needs a number"),
        (Model, of_a_slice, line_of("here: slice") + ".*depends on data: Python needs a number"),
    ],
)
def test_what_cannot_be_checked_is_an_error_of_the_capture(kind, loss_fn, pattern):
    model, optimizer = made(kind=kind)
    with pytest.raises(CaptureError, match=pattern):
        tandem.export(model, loss_fn, optimizer, batch_of(0))


def test_a_value_of_a_model_without_values_is_an_error():
    with torch.device("meta"):
        model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = {name: t.float() if t.is_floating_point() else t for name, t in batch_of(0).items()}
    with pytest.raises(CaptureError, match="on the meta device, and the model looks at"):
        tandem.export(model, looks_at_model, optimizer, batch)


class Attending(nn.Module):
    """Looks behind attention, which is one operator."""

    def __init__(self):
        super().__init__()
        self.layer = nn.MultiheadAttention(6, 2, batch_first=True)
        self.head = nn.Linear(6, 5)

    def forward(self, x):
        x = x.reshape(2, -1, 6)
        mask = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        y = self.layer(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)[0]
        self.seen = y.detach().sum()
        assert torch.isfinite(y).all()
        return self.head(y).reshape(-1, 5)


def test_a_read_behind_attention_sees_its_values():
    model, optimizer = made(kind=Attending)
    with torch.no_grad():
        model(batch_of(0)["x"])
    total = model.seen.item()

    def looks(model, batch):
        loss = F.cross_entropy(model(batch["x"]), batch["y"])
        close = (model.seen - total).abs() < 1e-9
        return loss if close else loss * 0

    step = tandem.compile(model, looks, optimizer, batch_of(0))
    assert step(batch_of(0)) > 0


@pytest.mark.parametrize("how", [{}, dict(mesh="data=2", plan="zero", micro=2)])
def test_gradients_in_anomaly_mode(how):
    """As PyTorch refuses a backward pass that makes NaN, so does the step, before it writes."""
    model, optimizer = made()

    def loss(model, batch):
        y = model(batch["x"])
        return y.square().mean() + (y * batch["z"]).abs().sqrt().sum()

    good, bad = batch_of(0) | {"z": torch.ones(8, 5)}, batch_of(0) | {"z": torch.zeros(8, 5)}
    with torch.autograd.set_detect_anomaly(True):
        step = tandem.compile(model, loss, optimizer, good, **how)
        assert torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled()
        step(good)
        before = step.state_dict()
        with pytest.raises(StepRefusedError, match=r"gradient of '\S+' has NaN values, expected"):
            step(bad)
    after = step.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


TWO_PROCESSES = """
import os, torch, tandem
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
def loss(model, batch):
    assert (batch["x"] < 100).all()
    return model(batch["x"]).square().mean() + batch["x"].mean()
rank = int(os.environ["RANK"])
batch = lambda scale: {"x": (1 + rank) * scale * torch.arange(16.0).reshape(4, 4) / 16}
step = tandem.compile(model, loss, optimizer, batch(1.0), mesh="data=2", micro=2, plan="zero")
print(step(batch(1.0)).item() > 0)
before = step.state_dict()
try:
    step(batch(80.0))  # too large in process 1 only
except tandem.StepRefusedError as error:
    print(error)
after = step.state_dict()
print(all(torch.equal(before[name], after[name]) for name in before))
print(step(batch(1.0)).item() > 0)
"""


def test_one_process_refuses_for_all(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(TWO_PROCESSES)
    forks = Forks(tmp_path, {"OMP_NUM_THREADS": "1"})
    ends = [process.finish() for process in forks.start_job(2, [path])]
    assert [code for code, _, _ in ends] == [0, 0], ends
    assert ends[0][1] == ends[1][1]
    first, refusal, *others = ends[0][1].splitlines()
    assert [first, *others] == ["True"] * 3
    assert re.search(r"script\.py:7: a value .* was True .* is False now", refusal), refusal


def held(**buffers):
    """A loss function with buffers, called with a layer of 6 columns and rows."""

    class Held(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(6, 6)
            for name, tensor in buffers.items():
                self.register_buffer(name, tensor.clone())

    return Held


UPPER = torch.ones(6, 6, dtype=torch.bool).triu(1)
OF_BUFFERS = {
    "a length": (torch.tensor(4), lambda y, b: y[:, : b.item()]),
    "a range": (torch.tensor(3), lambda y, b: sum(y * i for i in range(b))),
    "a table": (torch.tensor(6), lambda y, b: y * torch.arange(b.item() * 1.0)),
    "sizes": (torch.tensor([2, 4]), lambda y, b: y.split(b.tolist(), 1)[1]),
    "a float": (torch.tensor([0.3, 0.7]), lambda y, b: y * float(b[1])),
    "a mask": (UPPER, lambda y, b: (y[:, :, None] * y[:, None])[:, b]),
    "places": (torch.tensor([0, 1, 2, 1, 0, 1]), lambda y, b: y[:, b == 1]),
    "an array": (torch.arange(6.0), lambda y, b: y * torch.as_tensor(b.numpy() + 1)),
}


@pytest.mark.parametrize("case", OF_BUFFERS)
def test_numbers_of_buffers_are_those_of_every_step(case):
    tensor, function = OF_BUFFERS[case]

    def loss(model, batch):
        return function(model.body(batch["x"]), model.b).square().mean()

    (model, optimizer), (twin, of_twin) = (made(kind=held(b=tensor)) for _ in range(2))
    step = tandem.compile(model, loss, optimizer, batch_of(0), mesh={"data": 2})
    train_beside(step, twin, loss, of_twin, [batch_of(0), batch_of(1)])
    changed = step.state_dict()
    step.load_state_dict(changed | {"b": ~changed["b"] if tensor is UPPER else changed["b"] - 1})
    with pytest.raises(StepRefusedError, match="what buffer 'b' had when the step was captured"):
        step(batch_of(0))


def test_a_length_that_the_step_changes():
    def loss(model, batch):
        if model.b.item() < batch["x"].shape[0]:
            model.b.fill_(batch["x"].shape[0])
        return (model.body(batch["x"]) * torch.ones(int(model.b), 1)).mean()

    model, optimizer = made(kind=held(b=torch.tensor(0)))
    with pytest.raises(CaptureError, match="follows from buffer 'b', to which the step writes"):
        tandem.compile(model, loss, optimizer, batch_of(0))


def test_a_float_of_the_loss_names_what_to_do():
    def loss(model, batch):
        value = model(batch["x"]).square().mean()
        print(f"{float(value.detach()):.3f}")  # here: float
        return value

    model, optimizer = made()
    pattern = line_of("here: float") + r".*by float\(\) or as text, .* expected item\(\)"
    with pytest.raises(CaptureError, match=pattern):
        tandem.compile(model, loss, optimizer, batch_of(0))


CONSTANTS = {
    "numpy": lambda y: y * torch.as_tensor(np.sin(torch.arange(6.0).numpy())),
    "asarray": lambda y: y * torch.from_numpy(np.asarray(torch.arange(6)) * 2),
    "tolist": lambda y: y * torch.tensor(torch.arange(6.0).tolist()),
    "booleans": lambda y: y[:, [True, False, True, False, True, True]],
    "rows": lambda y: y[[True, False] * 4],
    "an array of booleans": lambda y: y[:, np.array([True, False, True, False, True, True])],
    "a column": lambda y: y[:, torch.argwhere(torch.arange(6) > 2)[:, 0]],
    "combinations": lambda y: torch.combinations(y.mean(0), 3).prod(-1),
    "repeated": lambda y: torch.combinations(y.mean(0), with_replacement=True).prod(-1),
    "products": lambda y: (
        y * torch.ones(8, 6).scatter(1, torch.tensor([[0, 1, 0]] * 8), 3.0, reduce="multiply")
    ),
    "sums": lambda y: y.detach().scatter(1, (y > 0).long(), y.detach(), reduce="add") * y,
    "a write": lambda y: y.clone().index_fill_(1, torch.tensor([1]), 2.0) + _written(y),
}


def _written(y):
    y = y.clone()
    y[:, [True, False, True, False, True, True]] = 3.0
    return y


@pytest.mark.parametrize("case", CONSTANTS)
def test_constants_that_python_looks_at(case):
    def loss(model, batch):
        return CONSTANTS[case](model.body(batch["x"])).square().mean()

    (model, optimizer), (twin, of_twin) = (made(kind=held()) for _ in range(2))
    step = tandem.compile(model, loss, optimizer, batch_of(0), mesh={"data": 2})
    train_beside(step, twin, loss, of_twin, [batch_of(0), batch_of(1)])
