"""Elementwise functions at the ends of their range, against float64 on the same numbers: overflow,
tails, exact powers; and sums whose order is their meaning. A loss sees none of this, because its tolerance
is that of its largest term."""

import pytest
import tandem
import torch
import torch.nn.functional as F

POINTS = torch.tensor(
    [
        0.0,
        1e-30,
        1e-6,
        0.3,
        1.0,
        1.5,
        2.0,
        3.9,
        5.0,
        8.0,
        9.5,
        1e2,
        1e5,
        1e9,
        1e10,
        2e19,
        1e30,
        3e38,
    ],
    dtype=torch.float64,
)
BOTH = torch.cat([POINTS, -POINTS])
POWERS = torch.tensor([-30.0, -2.0, 0.0, 1.0, 10.0, 29.0])
# The largest error per function, in units in the last place of the result.
CASES = {
    "erfc": (BOTH, 2),
    "asinh": (BOTH, 4),
    "acosh": (POINTS[POINTS > 1], 4),
    "sinh": (torch.tensor([1e-6, 0.5, 1.0, 30.0, 50.0, 80.0, 88.9, 89.3, -89.3]), 6),
    "cosh": (torch.tensor([0.0, 0.5, 1.0, 30.0, 50.0, 80.0, 88.9, 89.3, -89.3]), 6),
    "exp": (torch.tensor([-104.0, -103.0, -95.5, -88.0, -87.0, 0.0, 1.0, 88.5]), 2),
    "log": (torch.tensor([1e-45, 1e-42, 1e-39, 1.2e-38, 0.5, 1.0, 3e38]), 2),
    "log2": (2 ** POWERS.double(), 0.5),
    "log10": (torch.tensor([1e-5, 1e-2, 1.0, 10.0, 1e5, 1e9], dtype=torch.float64), 1),
    "exp2": (POWERS, 0.5),
    "rsqrt": (torch.tensor([0.0, 1e-40, 1e-30, 0.25, 3.0, 3e38, torch.inf]), 2),
    "third": (torch.tensor([1e-310, 1e-40, 1e-30, 1.0, 1e38], dtype=torch.float64), 1),
}


def third(x):
    """Not x (1 / (3 x)), which overflows for numbers without exponent."""
    return x / (3 * x)


class Keeper(torch.nn.Module):
    """Keeps the function's values in a buffer."""

    def __init__(self, function, points):
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.ones(1, dtype=points.dtype))
        self.register_buffer("kept", torch.zeros_like(points))

    def forward(self, x):
        self.kept.copy_(self.function(x[0].detach()))
        return (self.weight * x[0, 0]).sum()


def in_last_places(actual, exact):
    """|actual - exact| in units in the last place of `exact`, which is float64."""
    info = torch.finfo(actual.dtype)
    size = exact.abs().clamp(min=info.smallest_normal)
    unit = 2.0 ** (torch.floor(torch.log2(size)) + torch.log2(torch.tensor(info.eps).double()))
    return ((actual.double() - exact).abs() / unit).nan_to_num(nan=0.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_function_to_the_end_of_its_range(name, dtype):
    points, bound = CASES[name]
    points = points.to(dtype)
    function = third if name == "third" else getattr(torch, name)
    model = Keeper(function, points)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = points[None]
    step = tandem.compile(model, lambda model, batch: model(batch), optimizer, batch)
    step(batch)
    kept = step.state_dict()["kept"]
    exact = function(points.double())
    rounded = exact.to(dtype)
    finite = rounded.isfinite()
    torch.testing.assert_close(kept[~finite], rounded[~finite], rtol=0, atol=0, equal_nan=True)
    # eager's float64 is the measure of itself: it may be off by as much.
    error = in_last_places(kept[finite], exact[finite])
    assert error.max() <= bound, dict(zip(points[finite].tolist(), error.tolist(), strict=True))


def masked(x):
    """Nothing is masked: x, which `x - m C + C` would round to the last place of C."""
    return x + (1 - (x == x).to(x.dtype)) * -1e9


def rounded(x):
    """To a multiple of the last place of C."""
    return (x + 1.5 * 2.0**23) - 1.5 * 2.0**23


def masked_row(x):
    """A softmax of one row, in whose loop the mask is computed: sums over the row may have any order, its terms not."""
    return masked(x).softmax(0) + masked(x).exp().mean()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("function", [masked, rounded, masked_row])
def test_order_of_operations_is_kept(function, dtype):
    points = torch.linspace(-3, 3, 37, dtype=dtype)
    model = Keeper(function, points)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = tandem.compile(model, lambda model, batch: model(batch), optimizer, points[None])
    step(points[None])
    limits = {torch.float32: 1e-6, torch.float64: 1e-14}
    kept = step.state_dict()["kept"]
    torch.testing.assert_close(kept, function(points), rtol=limits[dtype], atol=0)


def test_what_two_kernels_compute_is_one_value():
    """Resizing by 3 takes pixels at the floor of a place and weights by what is left, each in a kernel that computes the place."""
    torch.manual_seed(0)
    images = torch.randn(8, 1, 3, 3, dtype=torch.float64)
    scale = torch.nn.Parameter(torch.rand(3, 3, dtype=torch.float64))
    model = torch.nn.ParameterList([scale])

    def loss_fn(model, x):
        large = F.interpolate(x * model[0], size=(9, 3), mode="bilinear", align_corners=False)
        return (large.tanh() * torch.arange(27).reshape(9, 3)).mean()

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = tandem.compile(model, loss_fn, optimizer, images, micro=2, gradients=True)
    found = step(images)
    expected = loss_fn(model, images)
    expected.backward()
    torch.testing.assert_close(found, expected.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(step.gradients()["0"], scale.grad, rtol=1e-12, atol=1e-12)
