"""A residual network (He et al., CVPR 2016) on scikit-learn's digits: convolutions, batch norm, SGD with momentum.

`bench` is ResNet-18 with 64×64 images.
"""

import torch
import torch.nn.functional as F
from example_data import digits
from torch import nn

PRESETS = {
    "tiny": dict(depths=1, width=8, stages=2, image=8, batch=16),
    "digits": dict(depths=2, width=32, stages=3, image=8, batch=64),
    "bench": dict(
        depths=2, width=64, stages=4, image=64, batch=32, channels=3, stem=7, classes=1000
    ),
}


class Block(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.shortcut = nn.Identity()
        if stride > 1 or channels != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """`stem` is the size of the first kernel; above 3 it halves the image twice, as for photographs."""

    def __init__(self, depths, width, stages, channels, stem, classes):
        super().__init__()
        self.stem = nn.Conv2d(
            channels, width, stem, 2 if stem > 3 else 1, padding=stem // 2, bias=False
        )
        self.norm = nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(3, 2, padding=1) if stem > 3 else nn.Identity()
        blocks, before = [], width
        for stage in range(stages):
            for i in range(depths):
                blocks.append(Block(before, width << stage, 2 if stage and not i else 1))
                before = width << stage
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, classes)

    def forward(self, images):
        x = self.pool(F.relu(self.norm(self.stem(images))))
        return self.head(F.adaptive_avg_pool2d(self.blocks(x), 1).flatten(1))


def model(depths, width, stages, channels=1, stem=3, classes=10, **_):
    return ResNet(depths, width, stages, channels, stem, classes)


def loss(model, batch):
    images, labels = batch
    return F.cross_entropy(model(images), labels)


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)


def batches(batch, image, channels=1, **_):
    yield from digits(batch, image, channels)
