"""A model file of steps for benchmarks/recompute.py: examples whose blocks are checkpointed as the size `regions` says.

The optimizer holds nothing: a step holds parameters, gradients and what it computes.
"""

import functools
import importlib
import sys
from pathlib import Path

import torch
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

# Small enough for PyTorch's partitioner, which takes seconds for each.
PRESETS = {
    "gpt": dict(layers=12, width=768, heads=12, seq=256, batch=8, dropout=0.0),
    "llama": dict(layers=12, width=768, heads=12, kv_heads=4, hidden=2048, seq=256, batch=8),
    "vit_moe": dict(
        layers=8,
        width=768,
        heads=12,
        hidden=3072,
        experts=8,
        image=32,
        patch=4,
        channels=3,
        batch=64,
        dropout=0.0,
    ),
}
PRESETS = {name: {"example": name, "regions": "none"} | sizes for name, sizes in PRESETS.items()}


def _attend(block, x, *angles):
    y = block.attention(block.norm1(x), *angles)
    return x + getattr(block, "dropout", torch.nn.Identity())(y)


def _feed(block, x):
    """As the block does; a mixture of experts has a term of the loss beside its result."""
    y, *balance = _as_tuple(block.mlp(block.norm2(x)))
    x = x + getattr(block, "dropout", torch.nn.Identity())(y)
    return (x, *balance) if balance else x


def _as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def _run_halves(block, returns_balance, x, *angles):
    x = checkpoint(_attend, block, x, *angles, use_reentrant=False)
    x = checkpoint(_feed, block, x, use_reentrant=False)
    return x if isinstance(x, tuple) or not returns_balance else (x, 0.0)


def model(example, regions, **sizes):
    module = importlib.import_module(example)
    made = module.model(**sizes)
    for block in made.layers:
        if regions == "block":
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
        elif regions == "half":
            block.forward = functools.partial(_run_halves, block, example == "vit_moe")
    return made


def loss(model, batch):
    return importlib.import_module(type(model).__module__).loss(model, batch)


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=1e-3)


def batches(example, **sizes):
    yield from importlib.import_module(example).batches(**sizes)
