"""A vision transformer with a mixture-of-experts layer in every second block, on scikit-learn's
digits.

Patches are made by reshaping and a linear layer. Section 6.1 of HiDup: two experts per device.
"""

import torch
import torch.nn.functional as F
from example_data import digits
from moe import MoE
from torch import nn

PRESETS = {
    "tiny": dict(layers=2, width=32, heads=4, hidden=64, experts=4, image=8, patch=2, batch=16),
    "bench": dict(
        layers=6,
        width=384,
        heads=6,
        hidden=1536,
        experts=8,
        image=32,
        patch=4,
        channels=3,
        batch=16,
    ),
    "wide": dict(
        layers=2,
        width=768,
        heads=12,
        hidden=3072,
        experts=4,
        image=32,
        patch=4,
        channels=3,
        batch=16,
    ),
    "paper": dict(
        layers=8,
        width=768,
        heads=12,
        hidden=3072,
        experts=16,
        image=32,
        patch=4,
        channels=3,
        batch=256,
    ),
}


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, sequence, width = x.shape
        qkv = self.qkv(x).view(batch, sequence, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(batch, sequence, width))


class MLP(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.w1, self.w2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.w2(F.gelu(self.w1(x)))


class Block(nn.Module):
    def __init__(self, width, heads, dropout, feed_forward):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.mlp = Attention(width, heads), feed_forward
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        y = self.norm2(x)
        y, balance = self.mlp(y) if isinstance(self.mlp, MoE) else (self.mlp(y), 0.0)
        return x + self.dropout(y), balance


class ViT(nn.Module):
    def __init__(self, layers, width, heads, hidden, image, patch, channels, classes, dropout, moe):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(channels * patch * patch, width)
        self.positions = nn.Parameter(torch.randn((image // patch) ** 2, width) * 0.02)
        self.layers = nn.ModuleList(
            Block(width, heads, dropout, MoE(width, hidden, **moe) if i % 2 else MLP(width, hidden))
            for i in range(layers)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def patches(self, images):
        batch, channels, height, width = images.shape
        p = self.patch
        tiles = images.view(batch, channels, height // p, p, width // p, p).permute(
            0, 2, 4, 1, 3, 5
        )
        return tiles.reshape(batch, -1, channels * p * p)

    def forward(self, images):
        x = self.embed(self.patches(images)) + self.positions
        balance = 0.0
        for layer in self.layers:
            x, more = layer(x)
            balance = balance + more
        return self.head(self.norm(x).mean(dim=1)), balance


def model(
    layers,
    width,
    heads,
    hidden,
    experts,
    image,
    patch,
    channels=1,
    classes=10,
    dropout=0.1,
    gate="sgmoe",
    capacity=1.25,
    group=1,
    **_,
):
    moe = dict(experts=experts, gate=gate, capacity=capacity, group=group)
    return ViT(layers, width, heads, hidden, image, patch, channels, classes, dropout, moe)


def loss(model, batch):
    images, labels = batch
    logits, balance = model(images)
    return F.cross_entropy(logits, labels) + 0.01 * balance


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)


def batches(batch, image, channels=1, **_):
    yield from digits(batch, image, channels)
