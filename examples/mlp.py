"""A multilayer perceptron that reads scikit-learn's digits."""

import torch
import torch.nn.functional as F
from example_data import digits
from torch import nn

PRESETS = {
    "tiny": dict(layers=3, width=32, batch=16),
    "bench": dict(layers=6, width=1024, batch=256),
}


def model(layers, width, dropout=0.1, **_):
    blocks = [nn.Linear(64, width), nn.ReLU()]
    for _ in range(layers - 2):
        blocks += [nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(nn.Flatten(), *blocks, nn.Linear(width, 10))


def loss(model, batch):
    images, labels = batch
    return F.cross_entropy(model(images), labels)


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)


def batches(batch, **_):
    yield from digits(batch)
