"""`threads=N`: the cores of a rank share its commands, and compute what one does."""

import copy
import re

import pytest
import tandem
import torch
import torch.nn.functional as F
from torch import nn

RATE = 1e-3


class Block(nn.Module):
    """Kernels of rows, of one loop over all elements, and attention, each of more bytes than wake a thread."""

    def __init__(self, width=128, heads=4):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        batch, positions, width = x.shape
        q, k, v = (
            t.view(batch, positions, self.heads, -1).transpose(1, 2)
            for t in self.qkv(self.norm(x)).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(y.transpose(1, 2).reshape(x.shape))
        return x + self.dropout(self.down(F.gelu(self.up(x))))


def train(model, precision, threads):
    twin = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(twin.parameters(), lr=RATE)
    torch.manual_seed(1)
    batch = torch.randn(8, 160, 128)
    step = tandem.compile(
        twin,
        lambda m, x: m(x).square().mean(),
        optimizer,
        batch,
        precision=precision,
        threads=threads,
    )
    losses = [step(batch) for _ in range(3)]
    return losses, step.state_dict(), step


@pytest.mark.parametrize("precision", [None, "bf16"])
def test_cores_share_kernels(precision):
    """Products of several threads may be others, which sum in another order; kernels are the same to the bit, which
    the tests of kernels show.
    """
    torch.manual_seed(0)
    model = Block()
    losses, state, step = train(model, precision, threads=1)
    kernels = set(re.findall(rb"tandem_[0-9a-f]+\b", step.bytes))
    shared = set(re.findall(rb"(tandem_[0-9a-f]+)_part\b", step.bytes))
    assert shared <= kernels and len(shared) > len(kernels) / 2
    rounding = 2e-2 if precision else 1e-5
    for threads in (2, 3):
        theirs, others, _ = train(model, precision, threads)
        torch.testing.assert_close(theirs, losses, rtol=rounding, atol=0.0)
        for name, value in state.items():
            # An element whose gradient is rounding moves by twice the learning rate a step.
            apart = (others[name] - value).abs()
            assert apart.max() <= 6 * RATE, name
            assert apart.mean() <= 0.1 * RATE, name
