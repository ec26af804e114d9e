"""Gradients that are clipped within the step, against `torch.nn.utils`."""

from collections import Counter

import pytest
import tandem
import torch
import torch.nn.functional as F
from test_models import mse, normal, regression, small
from test_training import HOW, train_both
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

PLANS = HOW | {
    "both axes": dict(mesh="data=2,model=2", plan="zero", micro=2),
    "tensors": dict(mesh="model=2", plan="tensor-parallel", micro=2),
    "searched": dict(mesh="data=2", search="tandem", micro=2),
}


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)


def several():
    """Of sizes that divide over the ranks, and that do not: parts of gradients and whole ones."""
    layers = nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 3)
    return nn.Sequential(*layers).double()


def check_norm(limit):
    """Clips in eager, and compares the norm of before."""

    def check(step, twin):
        expected = clip_grad_norm_(twin.parameters(), limit)
        torch.testing.assert_close(step.grad_norm(), expected, rtol=1e-9, atol=0)

    return check


@pytest.mark.parametrize("how", PLANS)
@pytest.mark.parametrize("limit", [1e-3, 1e3], ids=["clipped", "not clipped"])
def test_by_norm(limit, how):
    model = several()
    batches = [(normal(8, 6), normal(8, 3)) for _ in range(3)]
    how = PLANS[how] | {"clip_grad_norm": limit}
    train_both(model, mse, sgd(model), batches, before_update=check_norm(limit), **how)


def collectives(model, batch, **how):
    step = tandem.compile(model, mse, sgd(model), batch, **how)
    commands = step.program.rank_programs[0].commands
    return Counter(
        (c.kind, tuple(c.operation.axes), c.bytes) for c in commands if hasattr(c.operation, "axes")
    )


# Axes and bytes sent of the sum of 8 bytes that the norm takes; what else is sent is as without clipping.
NORMS = {
    "zero": (dict(mesh="data=2", plan="zero", micro=2), [((0,), 8)]),
    "data-parallel": (dict(mesh="data=2", micro=2), []),
    "four": (dict(mesh="data=4", plan="zero", micro=2), [((0,), 12)]),
}


@pytest.mark.parametrize("how", NORMS)
def test_the_norm_is_one_sum(how):
    """Of gradients in parts, and of those of sizes that do not divide, which are whole."""
    model = several()
    batch, (options, norms) = (normal(8, 6), normal(8, 3)), NORMS[how]
    plain = collectives(model, batch, **options)
    clipped = collectives(model, batch, clip_grad_norm=1.0, **options)
    assert sorted((clipped - plain).elements()) == [("all_reduce", *each) for each in norms]
    assert not plain - clipped


@pytest.mark.parametrize("how", HOW)
def test_by_value(how):
    model = small(nn.Tanh())

    def clip(_, twin):
        clip_grad_value_(twin.parameters(), 0.01)
        assert max(p.grad.abs().max() for p in twin.parameters()) == 0.01

    how = HOW[how] | {"clip_grad_value": 0.01}
    train_both(model, mse, sgd(model), regression(3), before_update=clip, **how)


class Tied(nn.Module):
    """A tied weight, one that no optimizer has, one without gradient."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 6), nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight
        self.scale, self.unused = nn.Parameter(torch.ones(6)), nn.Parameter(torch.ones(4))

    def forward(self, x):
        return self.head(self.embedding(x) * self.scale)


@pytest.mark.parametrize("how", HOW)
def test_each_parameter_counts_once(how):
    model = Tied().double()
    optimizer = torch.optim.AdamW([model.embedding.weight], lr=0.1)
    batches = [torch.randint(0, 11, (8, 5)) for _ in range(3)]

    def loss(model, batch):
        return F.cross_entropy(model(batch).flatten(0, 1), batch.roll(1, 1).flatten())

    how = HOW[how] | {"clip_grad_norm": 0.1}
    train_both(model, loss, optimizer, batches, before_update=check_norm(0.1), **how)


def test_gradients_of_small_types_are_summed_in_float32():
    model = small(nn.Tanh()).bfloat16()
    batch = tuple(t.bfloat16() for t in regression(1)[0])
    step = tandem.compile(model, mse, sgd(model), batch, clip_grad_norm=0.1, gradients=True)
    step(batch)
    mse(model, batch).backward()
    squares = [p.grad.double().square().sum() for p in model.parameters()]
    torch.testing.assert_close(
        step.grad_norm().double(), torch.stack(squares).sum().sqrt(), rtol=1e-2, atol=0
    )
    assert step.grad_norm().dtype == torch.float32
    assert step.gradients()["0.weight"].dtype == torch.bfloat16


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(clip_grad_norm=-1), "clip_grad_norm is -1, expected a positive number"),
        (dict(clip_grad_value=float("nan")), "clip_grad_value is nan, expected a positive"),
        (dict(clip_grad_norm=True), "clip_grad_norm is True"),
        (dict(clip_grad_norm=1, clip_grad_value=1), "expected one of them"),
    ],
)
def test_bad_limits(options, words):
    model = small(nn.Tanh())
    with pytest.raises(tandem.CompileError, match=words):
        tandem.compile(model, mse, sgd(model), regression(1)[0], **options)


def test_a_norm_that_nobody_asked_for():
    model = small(nn.Tanh())
    step = tandem.compile(model, mse, sgd(model), regression(1)[0])
    with pytest.raises(tandem.TandemError, match=r"compile\(..., clip_grad_norm="):
        step.grad_norm()


def test_clipping_behind_the_step_is_an_error():
    model, other = small(nn.Tanh()), small(nn.Tanh())
    step = tandem.compile(model, mse, sgd(model), regression(1)[0])
    step(regression(1)[0])
    with pytest.raises(tandem.StateError, match=r"clip_grad_norm_: .* clip_grad_norm=\.\.\."):
        clip_grad_norm_(model.parameters(), 1.0)
    with pytest.raises(tandem.StateError, match=r"clip_grad_value_: .* clip_grad_value=\.\.\."):
        nn.utils.clip_grad_value_(model.parameters(), 1.0)
    # In eager both are as they were: of this model as well, if it is trained there.
    for each in (model, other):
        clip_grad_norm_(other[0].weight, 1.0)
        mse(each, regression(1)[0]).backward()
        assert clip_grad_norm_(each.parameters(), 1e-3) > 1e-3
        clip_grad_value_(each.parameters(), 1e-6)
        assert max(p.grad.abs().max() for p in each.parameters()) <= 1e-6


def test_a_scaled_loss_is_an_error():
    model, batch = small(nn.Tanh()), regression(1)[0]

    def loss(model, batch):
        return scaler.scale(mse(model, batch))  # here

    scaler = torch.amp.GradScaler("cpu")
    with pytest.raises(
        tandem.CaptureError, match=r"clipping\.py:\d+: .* GradScaler.* clip_grad_norm"
    ):
        tandem.compile(model, loss, sgd(model), batch)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    tandem.compile(model, loss, sgd(model), batch)
