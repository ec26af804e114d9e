"""A recurrence, unrolled: one weight read in every step, whose gradient is a sum over all of them."""

import torch
from torch import nn

PRESETS = {"default": {"steps": 32, "width": 8, "batch": 8}}


class Recurrent(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.read = nn.Linear(width, width)
        self.keep = nn.Linear(width, width, bias=False)

    def forward(self, inputs):
        inputs = self.read(inputs)
        state = torch.zeros_like(inputs[:, 0])
        states = []
        for step in range(inputs.shape[1]):
            state = torch.tanh(inputs[:, step] + self.keep(state))
            states.append(state)
        return torch.stack(states, 1)


def model(width, **_):
    return Recurrent(width)


def loss(model, batch):
    return model(batch).square().mean()


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def batches(batch, steps, width, **_):
    generator = torch.Generator().manual_seed(0)
    while True:
        yield torch.randn(batch, steps, width, generator=generator)
