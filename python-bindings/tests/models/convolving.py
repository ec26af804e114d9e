"""Small networks of the kinds that convolve: each is a preset, on random images or sequences."""

import torch
import torch.nn.functional as F
from torch import nn


class ConvNeXtBlock(nn.Module):
    """Depthwise, then a layer norm and a feed-forward network with the channels last."""

    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 5, padding=2, groups=width)
        self.norm = nn.LayerNorm(width)
        self.w1, self.w2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.w2(F.gelu(self.w1(y)))
        return x + y.permute(0, 3, 1, 2)


def convnext(width=8):
    return nn.Sequential(
        nn.Conv2d(3, width, 4, 4), ConvNeXtBlock(width), nn.Conv2d(width, 2 * width, 2, 2)
    )


class UNet(nn.Module):
    """Group norm, max pooling down, a transposed convolution and nearest upsampling up, skips."""

    def __init__(self, width=4):
        super().__init__()
        self.down1 = self._two(3, width)
        self.down2 = self._two(width, 2 * width)
        self.middle = self._two(2 * width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, 2 * width, 2, 2)
        self.up2 = self._two(4 * width, width)
        self.up1 = self._two(2 * width, width)
        self.out = nn.Conv2d(width, 3, 1)

    @staticmethod
    def _two(before, width):
        return nn.Sequential(
            nn.Conv2d(before, width, 3, padding=1, padding_mode="reflect"),
            nn.GroupNorm(2, width),
            nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.SiLU(),
        )

    def forward(self, x):
        one = self.down1(x)
        two = self.down2(F.max_pool2d(one, 2))
        middle = self.middle(F.max_pool2d(two, 2))
        x = self.up2(torch.cat([self.up(middle), two], 1))
        x = self.up1(torch.cat([F.interpolate(x, scale_factor=2.0), one], 1))
        return self.out(x)


class Inverted(nn.Module):
    """MobileNet's block, with squeeze and excitation."""

    def __init__(self, width, stride):
        super().__init__()
        wide = 3 * width
        self.expand = nn.Sequential(
            nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()
        )
        self.depthwise = nn.Sequential(
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.Hardswish(),
        )
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, 4, 1), nn.ReLU(), nn.Conv2d(4, wide, 1)
        )
        self.project = nn.Sequential(nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width))
        self.stride = stride

    def forward(self, x):
        y = self.depthwise(self.expand(x))
        y = self.project(y * F.hardsigmoid(self.gate(y)))
        return x + y if self.stride == 1 else y


def mobilenet(width=4):
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 2, 1, bias=False),
        nn.BatchNorm2d(width),
        Inverted(width, 1),
        Inverted(width, 2),
        nn.AvgPool2d(3, 1, 1, count_include_pad=False),
    )


class WaveNet(nn.Module):
    """Causal convolutions of growing dilation, gated, with skips."""

    def __init__(self, width=6, layers=3):
        super().__init__()
        self.begin = nn.Conv1d(3, width, 1)
        self.gates = nn.ModuleList(
            nn.Conv1d(width, 2 * width, 2, dilation=2**i) for i in range(layers)
        )
        self.outs = nn.ModuleList(nn.Conv1d(width, 2 * width, 1) for _ in range(layers))
        self.end = nn.Conv1d(width, 3, 1)

    def forward(self, x):
        x, total = self.begin(x), 0.0
        for gate, out in zip(self.gates, self.outs, strict=True):
            a, b = gate(F.pad(x, (gate.dilation[0], 0))).chunk(2, 1)
            more, skip = out(a.tanh() * b.sigmoid()).chunk(2, 1)
            x, total = x + more, total + skip
        return self.end(F.relu(total))


class Mamba(nn.Module):
    """The convolution of a state-space layer: depthwise, causal by padding both ends and cutting one."""

    def __init__(self, width=6):
        super().__init__()
        self.inside, self.out = nn.Linear(3, 2 * width), nn.Linear(width, 3)
        self.conv = nn.Conv1d(width, width, 4, padding=3, groups=width)

    def forward(self, x):
        x, gate = self.inside(x.transpose(1, 2)).chunk(2, -1)
        y = self.conv(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        return self.out(F.silu(y) * F.silu(gate)).transpose(1, 2)


class Volumes(nn.Module):
    """Three dimensions, instance norm and pooling of all kinds."""

    def __init__(self, width=4):
        super().__init__()
        self.conv = nn.Conv3d(3, width, (3, 3, 2), (1, 2, 1), (1, 1, 0))
        self.norm = nn.InstanceNorm3d(width, affine=True)
        self.up = nn.ConvTranspose3d(width, width, 3, 2, 1, output_padding=1)

    def forward(self, x):
        x = self.up(F.max_pool3d(self.norm(self.conv(x)), (2, 1, 1)))
        return F.adaptive_avg_pool3d(F.avg_pool3d(x, 3, 2, 1), (2, 2, 3))


class Pixels(nn.Module):
    """Super-resolution: replicated padding, PReLU, sub-pixel convolution."""

    def __init__(self, width=4):
        super().__init__()
        self.begin = nn.Conv2d(3, width, 3, padding=1, padding_mode="replicate")
        self.act = nn.PReLU()
        self.end = nn.Conv2d(width, 12, 3, padding="same", dilation=2)

    def forward(self, x):
        return F.pixel_shuffle(self.end(self.act(self.begin(x))), 2)


IMAGE, SEQUENCE, VOLUME = (16, 16), (24,), (4, 6, 5)
NETWORKS = {
    "convnext": (convnext, IMAGE),
    "unet": (UNet, IMAGE),
    "mobilenet": (mobilenet, IMAGE),
    "wavenet": (WaveNet, SEQUENCE),
    "mamba": (Mamba, SEQUENCE),
    "volumes": (Volumes, VOLUME),
    "pixels": (Pixels, IMAGE),
}
PRESETS = {kind: dict(kind=kind, batch=8) for kind in NETWORKS}


def model(kind, **_):
    torch.manual_seed(0)
    return NETWORKS[kind][0]()


def loss(model, batch):
    return model(batch).square().mean()


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def batches(batch, kind, **_):
    generator = torch.Generator().manual_seed(0)
    while True:
        yield torch.randn(batch, 3, *NETWORKS[kind][1], generator=generator)
