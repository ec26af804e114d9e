"""Networks whose skips pass over several layers: a U-Net, and an encoder beside a decoder that reads all of it."""

import torch
import torch.nn.functional as F
from torch import nn

PRESETS = {
    "unet": dict(kind="unet", layers=3, width=4, size=8, batch=16),
    "encoder-decoder": dict(kind="encoder-decoder", layers=3, width=16, size=6, batch=16),
}


class UNet(nn.Module):
    def __init__(self, layers, width):
        super().__init__()
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.down = nn.ModuleList(nn.Conv2d(width, width, 3, 1, 1) for _ in range(layers - 1))
        self.up = nn.ModuleList(nn.Conv2d(2 * width, width, 3, 1, 1) for _ in range(layers - 1))
        self.last = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        x, skips = torch.tanh(self.first(x)), []
        for layer in self.down:
            skips.append(x)
            x = torch.tanh(layer(F.avg_pool2d(x, 2)))
        for layer in self.up:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = torch.tanh(layer(torch.cat([x, skips.pop()], 1)))
        return self.last(x)


class EncoderDecoder(nn.Module):
    """Layer i of the decoder reads layer i of the encoder."""

    def __init__(self, layers, width):
        super().__init__()
        self.encoder = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.decoder = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.keys = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        memory, y = [], x
        for layer in self.encoder:
            memory.append(torch.tanh(layer(memory[-1] if memory else x)))
        for layer, keys, read in zip(self.decoder, self.keys, memory, strict=True):
            seen = F.scaled_dot_product_attention(layer(y), keys(read), read)
            y = y + torch.tanh(seen)
        return y


def model(kind, layers, width, **_):
    return (UNet if kind == "unet" else EncoderDecoder)(layers, width)


def loss(model, batch):
    return F.mse_loss(model(batch["x"]), batch["y"])


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def batches(kind, width, size, batch, **_):
    torch.manual_seed(0)
    shape = (batch, 1, size, size) if kind == "unet" else (batch, size, width)
    while True:
        yield {"x": torch.randn(shape), "y": torch.randn(shape)}
