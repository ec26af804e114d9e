"""Writes seeded values and two batches for mlp.mlir; with `nan`, bad ones."""

import sys

import torch
from safetensors.torch import save_file

torch.manual_seed(0)
values = {
    "parameter/w": torch.randn(4, 16),
    "learning_rate/0": torch.tensor(0.01),
}
for batch in range(2):
    values[f"batch.{batch}/x"] = torch.randn(8, 16)
    values[f"batch.{batch}/y"] = torch.randn(8, 4)
if "nan" in sys.argv[2:]:
    values["batch.0/x"][5, 3] = float("nan")
save_file(values, sys.argv[1])
