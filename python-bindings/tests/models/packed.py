"""A GPT whose projections are packed, as most code has them: query, key and value in one weight, gate and
up in another. `how` is how they are taken apart; with fewer `groups` than heads the parts of query, key and
value are uneven (grouped-query attention).
"""

import torch
import torch.nn.functional as F
from torch import nn

PRESETS = {"tiny": dict(layers=2, width=32, heads=4, groups=4, seq=8, batch=8, how="chunk")}
VOCABULARY = 64


class Attention(nn.Module):
    def __init__(self, width, heads, groups, how, bias):
        super().__init__()
        self.heads, self.groups, self.size, self.how = heads, groups, width // heads, how
        self.qkv = nn.Linear(width, width + 2 * groups * self.size, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def parts(self, x):
        """Query, key and value, (batch, heads or groups, sequence, size)."""
        batch, seq, _ = x.shape
        packed = self.qkv(x)
        if self.how == "unbind":
            packed = packed.reshape(batch, seq, 3, self.heads, self.size)
            return packed.permute(2, 0, 3, 1, 4).unbind(0)
        rows = [self.heads * self.size, self.groups * self.size, self.groups * self.size]
        if self.how == "chunk":
            parts = packed.chunk(3, dim=-1)
        elif self.how == "split":
            parts = packed.split(rows, dim=-1)
        else:
            ends = [rows[0], rows[0] + rows[1]]
            parts = packed[..., : ends[0]], packed[..., ends[0] : ends[1]], packed[..., ends[1] :]
        return (part.view(batch, seq, -1, self.size).transpose(1, 2) for part in parts)

    def forward(self, x):
        q, k, v = self.parts(x)
        if self.groups < self.heads:
            repeat = self.heads // self.groups
            k, v = (t.repeat_interleave(repeat, dim=1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class GatedMLP(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.gate_up = nn.Linear(width, 8 * width, bias=bias)
        self.down = nn.Linear(4 * width, width, bias=bias)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class Block(nn.Module):
    def __init__(self, width, heads, groups, how, bias):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, groups, how, bias)
        self.mlp = GatedMLP(width, bias)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, layers, **sizes):
        super().__init__()
        width = sizes["width"]
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(Block(**sizes) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def model(layers, width, heads, groups, how, bias=True, **_):
    return Model(layers, width=width, heads=heads, groups=groups, how=how, bias=bool(bias))


def loss(model, batch):
    return F.cross_entropy(model(batch["tokens"]).flatten(0, 1), batch["targets"].flatten())


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def batches(batch, seq, **_):
    generator = torch.Generator().manual_seed(1)
    while True:
        window = torch.randint(VOCABULARY, (batch, seq + 1), generator=generator)
        yield {"tokens": window[:, :-1].contiguous(), "targets": window[:, 1:].contiguous()}
