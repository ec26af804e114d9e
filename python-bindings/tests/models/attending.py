"""One attention between projections, with what attention can have: groups of queries, masks, windows, dropout."""

import torch
import torch.nn.functional as F
from torch import nn

PRESETS = {"default": {"batch": 8, "rows": 16, "width": 32, "heads": 4}}


class Attending(nn.Module):
    def __init__(self, width, heads, key_heads, window, dropout, causal, lowest):
        super().__init__()
        self.heads, self.key_heads, self.size = heads, key_heads, width // heads
        self.q, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.k, self.v = (nn.Linear(width, key_heads * self.size) for _ in range(2))
        self.window, self.dropout, self.causal = window, dropout, causal
        self.lowest = lowest

    def mask(self, padding, rows):
        """Also of a row that sees nothing, or adds `lowest` to all of its scores."""
        if self.window:
            distance = torch.arange(rows) - torch.arange(rows)[:, None]
            return (distance > -self.window) & (distance <= 0)
        if padding is None:
            return None
        seen = padding[:, None, None, :]
        return torch.where(seen, 0.0, self.lowest).to(self.q.weight.dtype) if self.lowest else seen

    def forward(self, x, padding):
        batch, rows, _ = x.shape
        q, k, v = (
            layer(x).view(batch, rows, -1, self.size).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        y = F.scaled_dot_product_attention(
            q,
            k,
            v,
            self.mask(padding, rows),
            dropout_p=self.dropout,
            is_causal=bool(self.causal),
            enable_gqa=self.key_heads < self.heads,
        )
        return x + self.out(y.transpose(1, 2).reshape(x.shape))


def model(width, heads, key_heads=0, window=0, dropout=0.0, causal=0, lowest=0.0, **_):
    return Attending(width, heads, key_heads or heads, window, dropout, causal, lowest)


def loss(model, batch):
    x, padding = batch if isinstance(batch, tuple) else (batch, None)
    return model(x, padding).square().mean()


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def batches(batch, rows, width, padded=0, **_):
    generator = torch.Generator().manual_seed(0)
    while True:
        x = torch.randn(batch, rows, width, generator=generator)
        lengths = torch.randint(0, rows, (batch, 1), generator=generator)
        lengths[0] = 0
        yield (x, torch.arange(rows) < lengths) if padded else x
