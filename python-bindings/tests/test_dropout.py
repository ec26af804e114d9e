"""A dropout mask is the same however the batch and the model are split, and is eager's."""

import pytest
import tandem
import torch
import torch.nn.functional as F
from tandem.random import bernoulli
from torch import nn

P = 0.4
SHAPE = (8, 16)


class Masks(nn.Module):
    """Counts, per element, how often it was kept: the gradient of `seen` is the mask."""

    def __init__(self):
        super().__init__()
        self.seen = nn.Parameter(torch.ones(SHAPE, dtype=torch.float64))

    def forward(self, x):
        return F.dropout(self.seen * x, P)


def loss_fn(model, batch):
    return model(batch).sum()


@pytest.mark.parametrize("micro", [1, 2, 4])
@pytest.mark.parametrize("mesh", ["", "data=2", "data=2,model=2"])
def test_mask_is_the_same(mesh, micro):
    model, batch = Masks(), torch.ones(SHAPE, dtype=torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    step = tandem.compile(
        model, loss_fn, optimizer, batch, mesh=mesh, micro=micro, gradients=True, seed=11
    )
    for number in range(2):
        step(batch)
        kept = bernoulli(SHAPE, 1 - P, 11, 0, number)
        torch.testing.assert_close(step.gradients()["seen"], kept.double() / (1 - P))
