"""What `tandem.compare` allows beyond docs/rationale/verify.md's contract: each rule has a model that is right and
fails without it. A rule that no model here needs has to go.
"""

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from tandem.verify import compare
from tandem.verify.verify import judge, make_subject
from test_exactness import MODELS, Contrastive, Sequences, _InMemory, contrastive_loss, failed, run
from torch import nn


class NormOfNorm(nn.Module):
    """The mean before the second normalisation is zero in exact arithmetic."""

    def __init__(self):
        super().__init__()
        self.a, self.first = nn.Linear(6, 8), nn.BatchNorm1d(8, affine=False)
        self.second, self.b = nn.BatchNorm1d(8), nn.Linear(8, 1)

    def forward(self, x):
        return self.b(torch.relu(self.second(self.first(self.a(x))))).square().mean()


class ZeroLoss(nn.Module):
    """The mean over a layer normalisation."""

    def __init__(self):
        super().__init__()
        self.a, self.norm = nn.Linear(6, 8), nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(self.a(x)).mean()


class Momentum(nn.Module):
    """Writes to parameters that have no gradient."""

    def __init__(self):
        super().__init__()
        self.online, self.target = nn.Linear(6, 4), nn.Linear(6, 4).requires_grad_(False)

    def forward(self, x):
        with torch.no_grad():
            for a, b in zip(self.online.parameters(), self.target.parameters(), strict=True):
                b.mul_(0.9).add_(a, alpha=0.1)
        return (torch.tanh(self.online(x)) - self.target(x.flip(0))).square().mean()


class Masked(nn.Module):
    """A buffer with infinities."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 3)
        self.register_buffer("mask", torch.full((3, 3), -torch.inf).triu(1))

    def forward(self, x):
        return (self.a(x) @ (self.mask + 0).softmax(-1)).square().mean()


def own_loss(model, batch):
    return model(batch[0])


def large_sum(model, batch):
    """So large that what rounding leaves of a gradient is no longer below Adam's epsilon."""
    return 1e5 * F.l1_loss(model(batch[0]), batch[1], reduction="sum")


def adam(parameters):
    return torch.optim.Adam(parameters, lr=1e-2)


def decayed(parameters):
    return torch.optim.Adam(parameters, lr=1e-2, weight_decay=1e-2)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=1e-2)


@dataclass
class Case:
    """Without the rule, for which `without` stands, the row `needs` fails."""

    model: type
    loss: object
    optimizer: object
    needs: str
    without: dict  # names of tandem.compare
    dtype: torch.dtype = torch.float64
    shapes: tuple = ((8, 6),)


class Alike(Contrastive):
    """All similarities are alike, so that the gradient of the constant is nothing but rounding."""

    def __init__(self):
        super().__init__()
        self.scale.data.fill_(-6.0)


_judge_state = compare._judge_state
SEQUENCES, PAIRS = MODELS["sequences"][3], MODELS["contrastive"][3]
CASES = {
    "loss floor": Case(ZeroLoss, own_loss, adam, "loss step 0", {"LOSS_FLOOR": 0.0}),
    "buffer floor": Case(
        NormOfNorm,
        own_loss,
        sgd,
        "buffer second.running_mean",
        {"_largest_of_module": lambda *_: 0.0},
    ),
    "drift of exempt parameters": Case(
        Sequences,
        large_sum,
        adam,
        "buffer norm.running_mean",
        {"exempt_drift": lambda *_: 0.0},
        shapes=SEQUENCES,
    ),
    "state floor": Case(
        Sequences,
        MODELS["sequences"][1],
        adam,
        "state exp_avg.a.bias",
        {"_judge_state": lambda values, _, training: _judge_state(values, 0.0, training)},
        shapes=SEQUENCES,
    ),
    "decay of exempt parameters": Case(
        Contrastive,
        contrastive_loss,
        decayed,
        "state exp_avg.bias",
        {"_state_slack": lambda *_: 0.0},
        shapes=PAIRS,
    ),
    "written parameters": Case(
        Momentum,
        own_loss,
        adam,
        "parameter target.weight",
        {"_judge_close": lambda kind, values, *_: compare._equal_row(kind, values, "written")},
        torch.float32,
    ),
    "infinities": Case(
        Masked,
        own_loss,
        sgd,
        "buffer mask",
        {"_difference": lambda a, b: (a.double() - b.double()).abs()},
    ),
    "eager's error": Case(
        Alike,
        contrastive_loss,
        adam,
        "gradient bias",
        {"_as_eager": lambda *_: (0.0, "", False)},
        torch.float32,
        PAIRS,
    ),
}


class _File(_InMemory):
    """With the case's optimizer."""

    def make_optimizer(self, model):
        return self.rate(model.parameters())


@pytest.mark.parametrize("name", CASES)
def test_a_model_needs_the_rule(name, monkeypatch):
    case = CASES[name]
    subject = make_subject(
        _File(case.model, case.loss, case.optimizer, case.shapes, case.dtype, seed=0)
    )
    found = run(subject, mesh="data=2", micro=2)
    assert not failed(judge(subject, found))
    for attribute, value in case.without.items():
        monkeypatch.setattr(compare, attribute, value)
    assert case.needs in failed(judge(subject, found))
