"""Llama: RMSNorm, rotary position embedding, SwiGLU, grouped-query attention."""

import torch
import torch.nn.functional as F
from example_data import windows
from torch import nn

PRESETS = {
    "tiny": dict(layers=2, width=32, heads=4, kv_heads=2, hidden=64, seq=16, batch=16),
    "bench": dict(layers=6, width=384, heads=6, kv_heads=2, hidden=1024, seq=128, batch=8),
    "wide": dict(layers=2, width=768, heads=12, kv_heads=4, hidden=2048, seq=256, batch=4),
    "8b": dict(
        layers=32,
        width=4096,
        heads=32,
        kv_heads=8,
        hidden=14336,
        seq=8192,
        batch=16,
        vocab=128256,
    ),
}


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotary(seq, size, theta, dtype):
    """cos and sin of the angles, (seq, size)."""
    compute = torch.promote_types(dtype, torch.float32)
    frequencies = theta ** (-torch.arange(0, size, 2, dtype=compute) / size)
    angles = torch.outer(torch.arange(seq, dtype=compute), frequencies)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x, cos, sin):
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-high, low], dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.q = nn.Linear(width, heads * self.size, bias=False)
        self.k = nn.Linear(width, kv_heads * self.size, bias=False)
        self.v = nn.Linear(width, kv_heads * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, cos, sin):
        batch, seq, width = x.shape
        q = self.q(x).view(batch, seq, self.heads, self.size).transpose(1, 2)
        k = self.k(x).view(batch, seq, self.kv_heads, self.size).transpose(1, 2)
        v = self.v(x).view(batch, seq, self.kv_heads, self.size).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (t.repeat_interleave(self.heads // self.kv_heads, dim=1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, seq, width))


class MLP(nn.Module):
    """SwiGLU: w1 is the gate, w3 the value, w2 the way back."""

    def __init__(self, width, hidden):
        super().__init__()
        self.w1 = nn.Linear(width, hidden, bias=False)
        self.w3 = nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, width, heads, kv_heads, hidden):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.attention = Attention(width, heads, kv_heads)
        self.mlp = MLP(width, hidden)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.norm1(x), cos, sin)
        return x + self.mlp(self.norm2(x))


class Llama(nn.Module):
    def __init__(self, layers, width, heads, kv_heads, hidden, vocab, theta):
        super().__init__()
        self.size, self.theta = width // heads, theta
        self.tokens = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Block(width, heads, kv_heads, hidden) for _ in range(layers))
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens):
        x = self.tokens(tokens)
        cos, sin = rotary(tokens.shape[1], self.size, self.theta, x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


def model(layers, width, heads, kv_heads, hidden, vocab=256, theta=500000.0, **_):
    return Llama(layers, width, heads, kv_heads, hidden, vocab, theta)


def loss(model, batch):
    tokens, targets = batch
    return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)


def batches(batch, seq, vocab=256, text=None, **_):
    for window in windows(batch, seq + 1, min(vocab, 256), text):
        yield window[:, :-1].contiguous(), window[:, 1:].contiguous()
