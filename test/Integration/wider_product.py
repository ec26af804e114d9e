"""Writes a parameter and batches whose products need more bits than bf16 has."""

import sys

import torch
from safetensors.torch import save_file

torch.manual_seed(0)
save_file(
    {
        "parameter/w": torch.rand(4, 4) / 8,
        "batch.0/x": torch.rand(8, 4).bfloat16(),
        "batch.1/x": torch.rand(8, 4).bfloat16(),
    },
    sys.argv[1],
)
