"""BERT with a mixture-of-experts layer in every second block, trained on masked bytes of a text.

Section 6.1 of HiDup: the configuration of BERT-Base with 8 layers; one expert per device.
"""

import torch
import torch.nn.functional as F
from example_data import windows
from moe import MoE
from torch import nn

PRESETS = {
    "tiny": dict(layers=2, width=32, heads=4, hidden=64, experts=4, seq=16, batch=16),
    "bench": dict(layers=6, width=384, heads=6, hidden=1536, experts=4, seq=128, batch=8),
    "wide": dict(layers=2, width=768, heads=12, hidden=3072, experts=4, seq=256, batch=4),
    "paper": dict(
        layers=8, width=768, heads=12, hidden=3072, experts=8, seq=128, batch=256, vocab=30720
    ),
}

# Of the positions, 15 % are hidden behind this token and have to be guessed.
MASK_TOKEN, MASK_SHARE, IGNORED = 0, 0.15, -100


class Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.p = heads, dropout
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        batch, seq, width = x.shape
        q, k, v = (
            f(x).view(batch, seq, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0.0)
        return self.out(y.transpose(1, 2).reshape(batch, seq, width))


class MLP(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.w1, self.w2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.w2(F.gelu(self.w1(x)))


class Block(nn.Module):
    """Post-norm, as in BERT. `feed_forward` is an MLP or a MoE layer."""

    def __init__(self, width, heads, dropout, feed_forward):
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = feed_forward
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = self.norm1(x + self.dropout(self.attention(x)))
        y, balance = self.mlp(x) if isinstance(self.mlp, MoE) else (self.mlp(x), 0.0)
        return self.norm2(x + self.dropout(y)), balance


class Bert(nn.Module):
    def __init__(self, layers, width, heads, hidden, vocab, seq, dropout, moe):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(seq, width)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            Block(width, heads, dropout, MoE(width, hidden, **moe) if i % 2 else MLP(width, hidden))
            for i in range(layers)
        )
        self.transform, self.head_norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)
        self.apply(self._initialise)
        self.head.weight = self.tokens.weight

    @staticmethod
    def _initialise(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens):
        """Logits and the sum of the load-balancing losses."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.norm(self.tokens(tokens) + self.positions(positions)))
        balance = 0.0
        for layer in self.layers:
            x, more = layer(x)
            balance = balance + more
        return self.head(self.head_norm(F.gelu(self.transform(x)))), balance


def model(
    layers,
    width,
    heads,
    hidden,
    experts,
    seq,
    vocab=256,
    dropout=0.1,
    gate="sgmoe",
    capacity=1.25,
    group=1,
    **_,
):
    moe = dict(experts=experts, gate=gate, capacity=capacity, group=group)
    return Bert(layers, width, heads, hidden, vocab, seq, dropout, moe)


def loss(model, batch):
    logits, balance = model(batch["tokens"])
    guess = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=IGNORED)
    return guess + 0.01 * balance


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3)


def batches(batch, seq, vocab=256, text=None, **_):
    generator = torch.Generator().manual_seed(1)
    for window in windows(batch, seq, min(vocab, 256), text):
        hidden = torch.rand(window.shape, generator=generator) < MASK_SHARE
        hidden[:, 0] = True
        yield {
            "tokens": torch.where(hidden, MASK_TOKEN, window),
            "labels": torch.where(hidden, window, IGNORED),
        }
