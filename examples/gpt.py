"""GPT-2: tied embedding, pre-norm blocks, causal attention, GELU, dropout. Trains on the bytes of
a text.
"""

import torch
import torch.nn.functional as F
from example_data import windows
from torch import nn

PRESETS = {
    "tiny": dict(layers=2, width=32, heads=4, seq=16, batch=16),
    "bench": dict(layers=6, width=384, heads=6, seq=128, batch=8),
    "wide": dict(layers=2, width=768, heads=12, seq=256, batch=4),
    "12layers": dict(layers=12, width=768, heads=12, seq=256, batch=8),
    "175b": dict(layers=96, width=12288, heads=96, seq=2048, batch=32, vocab=50304),
}


class Attention(nn.Module):
    """`packed` makes query, key and value by one projection."""

    def __init__(self, width, heads, dropout, packed):
        super().__init__()
        self.heads, self.packed, self.p = heads, packed, dropout
        if packed:
            self.qkv = nn.Linear(width, 3 * width)
        else:
            self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        batch, seq, width = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1) if self.packed else (self.q(x), self.k(x), self.v(x))
        q, k, v = (t.view(batch, seq, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        p = self.p if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=p)
        return self.dropout(self.out(y.transpose(1, 2).reshape(batch, seq, width)))


class MLP(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.w1 = nn.Linear(width, 4 * width)
        self.w2 = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.w2(F.gelu(self.w1(x), approximate="tanh")))


class Block(nn.Module):
    def __init__(self, width, heads, dropout, packed):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout, packed)
        self.mlp = MLP(width, dropout)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, layers, width, heads, seq, vocab, dropout, packed, tied):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(seq, width)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(Block(width, heads, dropout, packed) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.apply(self._initialise)
        self.head.weight = self.tokens.weight if tied else self.head.weight

    @staticmethod
    def _initialise(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.positions(positions))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def model(layers, width, heads, seq, vocab=256, dropout=0.1, packed=False, tied=True, **_):
    return GPT(layers, width, heads, seq, vocab, dropout, packed, tied)


def loss(model, batch):
    logits = model(batch["tokens"])
    return F.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten())


def optimizer(model):
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [dict(params=decayed, weight_decay=0.1), dict(params=others, weight_decay=0.0)]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))


def batches(batch, seq, vocab=256, text=None, **_):
    for window in windows(batch, seq + 1, min(vocab, 256), text):
        yield {"tokens": window[:, :-1].contiguous(), "targets": window[:, 1:].contiguous()}
