"""Convolution, pooling and what stands behind them: captured with PyTorch's meaning, and computed with it."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from comparing import compare
from matrix import judge_program
from tandem.capture.model_file import load_model_file
from tandem.session.compile import compile_module
from tandem.verify.verify import make_subject
from test_batches import Steps
from torch import nn

MODEL = Path(__file__).parent / "models" / "convolving.py"


def _square(model, x):
    return model(x).square().mean()


class After(nn.Module):
    """A parameter in front, so that what follows has a gradient."""

    def __init__(self, function, channels):
        super().__init__()
        self.function = function
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, channels))

    def forward(self, x):
        return self.function(x * self.scale.reshape(-1, *[1] * (x.dim() - 2)))


def _captures(model, shape, dtype=torch.float64):
    """Equals eager for two steps of SGD; returns the operators."""
    model = model.to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [torch.randn(shape, dtype=dtype) for _ in range(2)]
    module = compare(model, _square, optimizer, batches)
    return [operator.name for operator in module.step.operators]


@pytest.mark.parametrize(
    "layer,shape",
    [
        (nn.Conv1d(4, 6, 3, 2, 1, 2), (2, 4, 9)),
        (nn.Conv1d(4, 6, 3, padding="same", bias=False), (2, 4, 9)),
        (nn.Conv1d(4, 6, 4, padding="same"), (2, 4, 9)),
        (nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2), groups=2), (2, 4, 8, 7)),
        (nn.Conv2d(4, 8, 3, padding=1, groups=4, padding_mode="circular"), (2, 4, 8, 7)),
        (nn.Conv2d(4, 4, 3, padding=2, padding_mode="reflect"), (2, 4, 8, 7)),
        (nn.Conv2d(4, 4, 3, padding=1, padding_mode="replicate"), (2, 4, 8, 7)),
        (nn.Conv2d(4, 6, 1, 2, 1), (2, 4, 7, 7)),
        (nn.Conv3d(3, 4, 3, 2, 1), (2, 3, 5, 4, 6)),
        (nn.ConvTranspose1d(4, 6, 3, 2, 1, 1), (2, 4, 7)),
        # Positions that no window reaches: as many as a stride.
        (nn.ConvTranspose1d(4, 6, 3, 2, 0, 2, dilation=3), (2, 4, 7)),
        (nn.ConvTranspose2d(4, 6, 3, (2, 1), 1, (1, 0), groups=2), (2, 4, 5, 4)),
        (nn.ConvTranspose3d(2, 3, 2, 2, bias=False), (1, 2, 3, 2, 4)),
        # One image without a batch.
        (After(nn.Conv2d(4, 6, 3), 1), (4, 5, 5)),
    ],
    ids=str,
)
def test_convolutions(layer, shape):
    names = _captures(layer, shape)
    assert {"conv", "conv_input_grad", "conv_weight_grad"} & set(names)


@pytest.mark.parametrize(
    "pool,shape",
    [
        (nn.MaxPool1d(3, 2, 1), (2, 3, 9)),
        (nn.MaxPool2d((3, 2), 2, (1, 0), (1, 2), ceil_mode=True), (2, 3, 8, 9)),
        (nn.MaxPool2d(2), (3, 8, 9)),
        (nn.MaxPool3d(2, 1), (2, 3, 4, 3, 5)),
        (nn.AdaptiveMaxPool1d(4), (2, 3, 9)),
        (nn.AdaptiveMaxPool2d((3, 2)), (2, 3, 7, 4)),
        (nn.AdaptiveMaxPool3d(2), (2, 3, 5, 4, 3)),
        (nn.AvgPool1d(3, 2, 1), (2, 3, 9)),
        (nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False), (2, 3, 8, 9)),
        (nn.AvgPool2d(3, 2, 1, ceil_mode=True), (2, 3, 8, 9)),
        (nn.AvgPool2d((2, 3), divisor_override=5), (3, 8, 9)),
        (nn.AvgPool3d(2, 1, 1), (2, 3, 4, 3, 5)),
        (nn.AdaptiveAvgPool1d(4), (2, 3, 9)),
        (nn.AdaptiveAvgPool2d((4, 3)), (2, 3, 8, 9)),
        (nn.AdaptiveAvgPool2d((None, 5)), (2, 3, 8, 9)),
        (nn.AdaptiveAvgPool2d(1), (2, 3, 8, 9)),
        (nn.AdaptiveAvgPool3d((2, 3, 7)), (2, 3, 4, 5, 3)),
        (nn.LPPool2d(2, 3, 2), (2, 3, 8, 9)),
    ],
    ids=str,
)
def test_pooling(pool, shape):
    is_single = len(shape) == 3 and not type(pool).__name__.endswith("1d")
    _captures(After(pool, 1 if is_single else shape[1]), shape)


def test_indices_of_equal_elements():
    """Are those of eager, and so is where the gradient goes."""

    def pool(x):
        rounded = (2 * x).round().detach() + x - x.detach()
        y, indices = F.max_pool2d(rounded, 3, 2, 1, return_indices=True)
        return y * indices.to(x.dtype)

    _captures(After(pool, 3), (2, 3, 8, 9))


def test_unpooling():
    def unpool(x):
        y, indices = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(y * 2, indices, 2) + x

    _captures(After(unpool, 3), (2, 3, 8, 8))


@pytest.mark.parametrize(
    "layer,shape",
    [
        (nn.BatchNorm1d(3), (4, 3, 5)),
        (nn.BatchNorm2d(3), (4, 3, 5, 4)),
        (nn.BatchNorm2d(3, momentum=None), (4, 3, 5, 4)),
        (nn.BatchNorm2d(3).eval(), (4, 3, 5, 4)),
        (nn.BatchNorm3d(3, affine=True, track_running_stats=False), (4, 3, 2, 5, 4)),
        (nn.GroupNorm(2, 4), (3, 4, 5, 4)),
        (nn.InstanceNorm1d(3, affine=True), (4, 3, 5)),
        (nn.InstanceNorm2d(3, affine=True, track_running_stats=True), (4, 3, 5, 4)),
        (After(nn.LocalResponseNorm(3), 4), (2, 4, 5, 4)),
        (After(nn.ReflectionPad1d(2), 3), (2, 3, 5)),
        (After(nn.ReflectionPad2d((1, 2, 0, 3)), 3), (2, 3, 5, 4)),
        (After(nn.ReflectionPad3d(1), 3), (2, 3, 3, 5, 4)),
        (After(nn.ReplicationPad2d((1, 2, 0, 3)), 3), (2, 3, 5, 4)),
        (After(nn.ZeroPad2d((1, -1, 0, 3)), 3), (2, 3, 5, 4)),
        (After(nn.ConstantPad1d(2, 1.5), 3), (2, 3, 5)),
        (After(nn.CircularPad2d((1, 2, 0, 3)), 3), (2, 3, 5, 4)),
        (After(nn.Upsample(scale_factor=2.0), 3), (2, 3, 5, 4)),
        (After(nn.Upsample(size=(7, 9)), 3), (2, 3, 5, 4)),
        (After(nn.Upsample(scale_factor=2.0, mode="bilinear"), 3), (2, 3, 5, 4)),
        (After(nn.PixelShuffle(2), 4), (2, 4, 5, 3)),
        (After(nn.PixelUnshuffle(2), 3), (2, 3, 4, 6)),
        (After(nn.ChannelShuffle(2), 4), (2, 4, 5, 3)),
        (After(nn.Unfold(3, 2, 1, 2), 3), (2, 3, 9, 8)),
        (After(nn.Fold((5, 4), 2), 8), (2, 8, 12)),
        (After(nn.Dropout2d(0.0), 3), (2, 3, 5, 4)),
        (After(nn.Hardsigmoid(), 3), (2, 3, 5, 4)),
    ],
    ids=str,
)
def test_around_convolutions(layer, shape):
    model = layer if list(layer.parameters()) else After(layer, shape[1])
    _captures(model, shape)


class Halves(nn.Module):
    """A gate from one convolution, whose weight the compiler takes apart unless groups forbid it."""

    def __init__(self, groups):
        super().__init__()
        self.before, self.both = nn.Linear(8, 8), nn.Conv1d(8, 16, 3, padding=1, groups=groups)

    def forward(self, x):
        value, gate = self.both(self.before(x).transpose(1, 2)).chunk(2, dim=1)
        return value * gate.sigmoid()


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_a_part_of_a_convolution_keeps_its_groups(groups):
    """Half of the rows with all of the input would be other groups, of the same shapes."""
    batches = [torch.randn(4, 6, 8, dtype=torch.float64) for _ in range(2)]
    steps = Steps(Halves(groups).double(), _square, batches[0], mesh="data=2")
    for batch in batches:
        steps.train(batch)
    parts = [a.name for a in steps.step.program.arguments if a.part]
    assert ("both.weight.part0" in parts) == (groups == 1)


def test_a_part_of_a_depthwise_convolution_is_one():
    class Parts(nn.Module):
        """Two inputs, behind one convolution of each channel, as state-space layers have them."""

        def __init__(self):
            super().__init__()
            self.before, self.each = nn.Linear(8, 8), nn.Conv1d(8, 8, 3, padding=1, groups=8)

        def forward(self, x):
            value, gate = self.each(self.before(x).transpose(1, 2)).split([6, 2], dim=1)
            return value * gate.sigmoid().sum(1, keepdim=True)

    batches = [torch.randn(4, 6, 8, dtype=torch.float64) for _ in range(2)]
    steps = Steps(Parts().double(), _square, batches[0], mesh="data=2")
    for batch in batches:
        steps.train(batch)


def test_gradient_of_a_gradient():
    """A gradient penalty: the gradients of a convolution's gradients are convolutions."""

    def loss(model, x):
        x = x.requires_grad_()
        (gradient,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
        return gradient.square().mean()

    model = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.Tanh(), nn.Conv2d(4, 2, 3)).double()
    batch = torch.randn(2, 3, 9, 8, dtype=torch.float64)
    compare(model, loss, torch.optim.SGD(model.parameters(), lr=0.1), [batch])


def _file(preset, dtype):
    return load_model_file(MODEL, preset, "", dtype)


KINDS = ["convnext", "unet", "mobilenet", "wavenet", "mamba", "volumes", "pixels"]


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "kind,dtype,micro",
    [(kind, "float64", 2) for kind in KINDS]
    + [(kind, "float32", 2) for kind in ("convnext", "unet", "wavenet", "volumes")]
    + [("convnext", "bfloat16", 1)],
)
def test_networks_equal_eager(kind, dtype, micro):
    subject = make_subject(_file(kind, dtype), 2)
    compiled = compile_module(subject.module, kind, mesh="data=2", plan="zero", micro=micro)
    failed = [row for row in judge_program(subject, compiled.bytes) if not row.passed]
    assert not failed, failed
