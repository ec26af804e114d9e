"""Writes seeded values and two batches for conv.mlir."""

import sys

import torch
from safetensors.torch import save_file

torch.manual_seed(0)
values = {
    "parameter/w1": torch.randn(4, 2, 3),
    "parameter/w2": torch.randn(2, 4, 1),
    "learning_rate/0": torch.tensor(0.001),
}
for batch in range(2):
    values[f"batch.{batch}/x"] = torch.randn(8, 2, 6)
save_file(values, sys.argv[1])
