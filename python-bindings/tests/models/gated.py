"""A gated recurrence that sums what it saw: unrolled, some forms suit only if all steps have them."""

import torch
from torch import nn

PRESETS = {"default": {"steps": 14, "width": 2048, "hidden": 4096, "classes": 512, "batch": 512}}


class Gated(nn.Module):
    def __init__(self, width, hidden, classes):
        super().__init__()
        self.hidden = hidden
        self.read = nn.Linear(width, 3 * hidden)
        self.keep = nn.Linear(hidden, 3 * hidden)
        self.score = nn.Linear(hidden, 1)
        self.out = nn.Linear(hidden, classes)

    def forward(self, inputs):
        inputs = self.read(inputs)
        state = torch.zeros_like(inputs[:, 0, : self.hidden])
        states = []
        for step in range(inputs.shape[1]):
            reads = inputs[:, step].chunk(3, dim=1)
            keeps = self.keep(state).chunk(3, dim=1)
            reset, update = (torch.sigmoid(reads[i] + keeps[i]) for i in range(2))
            new = torch.tanh(reads[2] + reset * keeps[2])
            state = (1 - update) * new + update * state
            states.append(state)
        states = torch.stack(states, 1)
        weights = self.score(states).softmax(1)
        return self.out((weights * states).sum(1))


def model(width, hidden, classes, **_):
    return Gated(width, hidden, classes)


def loss(model, batch):
    return nn.functional.cross_entropy(model(batch["inputs"]), batch["labels"])


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def batches(batch, steps, width, classes, **_):
    generator = torch.Generator().manual_seed(0)
    while True:
        yield {
            "inputs": torch.randn(batch, steps, width, generator=generator),
            "labels": torch.randint(0, classes, (batch,), generator=generator),
        }
