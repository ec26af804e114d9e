"""A model file whose layers all differ: residual feed-forward blocks of growing width.

A search cannot recognise any of them as repeated.
"""

import torch
import torch.nn.functional as F
from torch import nn

PRESETS = {"paper": dict(layers=8, width=1024, batch=4096)}


class Block(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.w1, self.w2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return x + self.w2(F.gelu(self.w1(self.norm(x))))


def model(layers, width, **_):
    return nn.Sequential(*(Block(width, 4 * width + 64 * i) for i in range(layers)))


def loss(model, batch):
    x, y = batch
    return (model(x) - y).square().mean()


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def batches(width, batch, **_):
    while True:
        yield torch.randn(batch, width), torch.randn(batch, width)
