"""Python runs once: what would be another in the next step is refused, with its place, and what only
counts is not."""

import copy
import random

import numpy
import pytest
import tandem
import torch
import torch.nn.functional as F
from torch import nn

BATCHES = [torch.randn(8, 6, generator=torch.Generator().manual_seed(i)) for i in range(3)]


def mse(model, batch):
    return F.mse_loss(model(batch), batch)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def compile_step(model, loss=mse):
    return tandem.compile(model, loss, sgd(model), BATCHES[0])


class Counting(nn.Module):
    """Counts its calls; what it computes depends on it, or not."""

    def __init__(self, use):
        super().__init__()
        self.layer, self.use = nn.Linear(6, 6), use
        self.calls, self.longest, self.table = 0, 0, None

    def forward(self, x):
        self.calls += 1
        return self.layer(x) * self.use(self, x)


def cached(model, x):
    """A table that the first call makes, under a number that says how long it is."""
    if model.longest < len(x):
        model.longest, model.table = len(x), torch.arange(len(x), dtype=x.dtype)[:, None]
    return model.table


def test_a_number_that_changes_the_step_is_refused():
    model = Counting(lambda model, x: min(1.0, 0.25 * model.calls))
    with pytest.raises(
        tandem.CaptureError, match="the model: attribute 'calls' is 1 after the"
    ) as e:
        compile_step(model)
    assert "\n" not in str(e.value)
    assert model.calls == 0


@pytest.mark.parametrize("use", [lambda model, x: 1.0, cached], ids=["counts", "caches"])
def test_a_number_that_changes_nothing_is_not(use):
    model = Counting(use)
    step = compile_step(model)
    twin = copy.deepcopy(model)
    for batch in BATCHES:
        eager = mse(twin, batch)
        assert abs(step(batch).item() - eager.item()) < 1e-6
        sgd(twin).zero_grad()
        eager.backward()
        sgd(twin).step()
        twin.zero_grad()


@pytest.mark.parametrize(
    "draw, name",
    [(random.random, "Python's random"), (numpy.random.rand, "numpy.random")],
    ids=["python", "numpy"],
)
def test_random_numbers_of_others_are_refused(draw, name):
    def loss(model, batch):
        return mse(model, batch) * draw()  # here

    with pytest.raises(tandem.CaptureError, match=rf"test_python_state\.py:\d+: .* from {name},"):
        compile_step(nn.Linear(6, 6), loss)


def test_flags_that_are_no_longer_those_of_the_capture():
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6))
    step = compile_step(model)
    step(BATCHES[0])
    model[1].eval()
    with pytest.raises(tandem.StateError, match="module '1': training is False, expected True"):
        step(BATCHES[1])
    model.train()
    step(BATCHES[1])
