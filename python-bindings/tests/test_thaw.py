"""Parameters that freeze and thaw, and that have not all taken as many steps, against torch.optim, which counts per
parameter."""

import copy

import pytest
import tandem
import torch
from test_models import mse, regression, small
from test_optimizers import states_are_equal
from test_training import HOW
from torch import nn
from torch import optim as o

KINDS = {
    "adamw": lambda p: o.AdamW(p, lr=0.05),
    "dampening": lambda p: o.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    "rmsprop": lambda p: o.RMSprop(p, lr=0.01, momentum=0.9),
    "nadam": lambda p: o.NAdam(p, lr=0.05),
}


@pytest.fixture(autouse=True)
def scalars_in_float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


class Pair:
    def __init__(self, kind, frozen=(), stepped=(), **how):
        self.model = small(nn.Tanh(), nn.Linear(8, 8), nn.Tanh())
        self.twin = copy.deepcopy(self.model)
        self.optimizer, self.eager = (KINDS[kind](m.parameters()) for m in (self.model, self.twin))
        for layers in stepped:  # in eager, before there is a step
            for model, optimizer in ((self.model, self.optimizer), (self.twin, self.eager)):
                self.freeze(layers, model)
                self.train_eager(model, optimizer, (torch.ones(8, 6), torch.ones(8, 1)))
        for model in (self.model, self.twin):
            self.freeze(frozen, model)
        self.step = tandem.compile(self.model, mse, self.optimizer, regression(1)[0], **how)

    def freeze(self, layers, *models):
        for model in models or (self.model, self.twin):
            for index in (0, 2, 4):
                model[index].requires_grad_(index not in layers)

    @staticmethod
    def train_eager(model, optimizer, batch):
        optimizer.zero_grad()
        loss = mse(model, batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def train(self, count=2):
        for batch in regression(count):
            found = self.step(batch)
            torch.testing.assert_close(
                found, self.train_eager(self.twin, self.eager, batch), rtol=1e-9, atol=0
            )
            for name, value in self.twin.state_dict().items():
                torch.testing.assert_close(
                    self.step.state_dict()[name], value, rtol=1e-8, atol=1e-11
                )
        states_are_equal(self.step, self.eager)


@pytest.mark.parametrize("how", ["one", "zero"])
@pytest.mark.parametrize("kind", KINDS)
def test_freezing_and_thawing(kind, how):
    pair = Pair(kind, frozen=[0], **HOW[how])
    pair.train()
    for frozen in ([], [2], [0, 2], []):
        pair.freeze(frozen)
        pair.train()


@pytest.mark.parametrize("kind", KINDS)
def test_other_numbers_of_steps_at_the_begin(kind):
    pair = Pair(kind, stepped=[[0], [0, 2], []])
    pair.train()
    pair.freeze([4])
    pair.train()
    pair.freeze([])
    pair.train()


@pytest.mark.parametrize("kind", KINDS)
def test_loading_other_numbers_of_steps(kind):
    pair = Pair(kind, stepped=[[0], []])
    other = Pair(kind, frozen=[0])
    other.train(3)
    pair.twin.load_state_dict(other.step.state_dict())
    state = other.step.optimizer_state_dict()
    pair.eager.load_state_dict(state)
    pair.step.load_state_dict(other.step.state_dict(), state)
    pair.train()
