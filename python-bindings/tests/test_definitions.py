"""Definitions of Tandem's own beside PyTorch's, in float64 with gradients: at edge values, and on PyTorch's samples."""

import math

import pytest
import tandem
import torch
import torch.nn.functional as F
from definitions import DOUBLE, compare, same, samples, with_value
from evaluator import run_step

NAN, INF = math.nan, math.inf


def of(*values):
    return torch.tensor(values, dtype=DOUBLE)


ROWS = of([0.0, 1.0, 2.0], [1.0, 1.0, 0.0])


def ctc(targets, inputs, lengths):
    def loss(x):
        sizes = torch.tensor([inputs]), torch.tensor([lengths])
        return F.ctc_loss(x.log_softmax(-1), torch.tensor([targets]), *sizes, reduction="none")

    return loss


def reduce(how, include_self=False):
    def scatter(x):
        base = torch.zeros(3, dtype=DOUBLE)
        return base.scatter_reduce(0, torch.tensor([0, 1, 1]), x, how, include_self=include_self)

    return scatter


# At corners, at the edge, in the middle and outside.
PLACES = of([[0.0, 0.0], [1.0, 1.0], [-1.0, 0.3], [2.0, 0.1], [-1.7, -1.0]])
PIXELS = of([[[1.0, 2.0, 7.0], [3.0, 4.0, 1.0]]])
CHUNKS = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2)

EDGES = {
    "softshrink": (F.softshrink, of(NAN, 1.0, 0.5, -0.5, INF, -INF)),
    "hardshrink": (F.hardshrink, of(NAN, 1.0, 0.5, -0.5, INF, -INF)),
    "median": (torch.median, of(1.0, NAN, 2.0)),
    "median of equal ones": (torch.median, of(1.0, 1.0, 2.0, 1.0)),
    "median, dim": (lambda x: x.median(1), of([1.0, NAN, NAN, 0.0], [3.0, 2.0, 2.0, 1.0])),
    "amax of -inf": (reduce("amax"), of(-INF, 1.0, 1.0)),
    "amin of inf": (reduce("amin"), of(INF, 1.0, NAN)),
    "amax, itself": (reduce("amax", True), of(0.0, -1.0, 2.0)),
    "prod of zeros": (reduce("prod", True), of(0.0, 0.0, 2.0)),
    "multi_margin": (lambda x: F.multi_margin_loss(x, torch.tensor(0)), of(1.0, 0.0, 0.0)),
    "multi_margin, rows": (
        lambda x: F.multi_margin_loss(
            x, torch.tensor([0, 2]), 2, 1.0, of(1.0, 2.0, 3.0), reduction="none"
        ),
        ROWS,
    ),
    "multi_margin of no numbers": (
        lambda x: [
            F.multi_margin_loss(x, torch.tensor([0, 1]), size_average=False),
            F.multi_margin_loss(x[0], torch.tensor(1), 2, reduction="none"),
            F.multi_margin_loss(x[1], torch.tensor([1]), reduction="none"),
        ],
        of([0.5, NAN, 0.7], [INF, 0.0, -INF]),
    ),
    "multilabel_margin": (
        lambda x: F.multilabel_margin_loss(x, torch.tensor([[0, -1, 1], [2, 0, -1]])),
        of([1.0, 0.0, 0.0], [1.0, 0.0, 2.0]),
    ),
    "multilabel_margin, padded": (
        lambda x: [
            F.multilabel_margin_loss(x, torch.tensor([[1, 2, -1, 0], [-1, 3, 1, 2]]), reduction=how)
            for how in ("mean", "sum", "none")
        ],
        of([0.1, 0.7, -1.2, 0.4], [1.0, 0.3, NAN, 0.0]),
    ),
    "multilabel_margin of a row": (
        lambda x: F.multilabel_margin_loss(x, torch.tensor([2, 2, -1, -1]), reduction="none"),
        of(0.1, 0.7, -1.2, 0.4),
    ),
    "cdist of largest": (
        lambda x: torch.cdist(x, of([3.0, 3.0]), p=INF),
        of([0.0, 0.0], [3.0, 3.0]),
    ),
    "cdist at p = 0": (lambda x: torch.cdist(x, of([3.0, 0.0]), p=0), of([0.0, 0.0], [3.0, NAN])),
    "cdist at p = 1": (lambda x: torch.cdist(x, of([3.0, 0.0]), p=1), of([0.0, 0.0], [3.0, NAN])),
    "cdist at p = 0.5": (lambda x: torch.cdist(x, x[:1], p=0.5), of([0.0, 0.0], [3.0, 0.0])),
    "cdist at p = 1.5": (lambda x: torch.cdist(x, x[:1], p=1.5), of([0.0, 0.0], [3.0, 0.0])),
    "cdist of itself": (lambda x: torch.cdist(x, x), of([0.0, 0.0], [3.0, 4.0])),
    "pdist of largest": (lambda x: F.pdist(x, p=INF), of([0.0, 0.0], [1.0, 1.0])),
    "pdist of equal rows": (lambda x: F.pdist(x), of([0.0, 0.0], [0.0, 0.0], [1.0, 1.0])),
    "ctc without inputs": (ctc([2, 1], 0, 0), ROWS[:, None]),
    "ctc of nothing": (ctc([2, 1], 2, 0), ROWS[:, None]),
    "ctc of too much": (ctc([2, 2], 0, 1), ROWS[:, None]),
    "cov": (lambda x: torch.cov(x, correction=5), ROWS),
    "var": (lambda x: x.var(1, correction=5), ROWS),
    "var_mean of one": (lambda x: torch.var_mean(x[:, :1], 1), ROWS),
    "det": (torch.det, of([1.0, 2.0], [2.0, 4.0])),
    "digamma": (torch.digamma, of(-1.0, 0.5, 0.0, -0.0, -2.0, INF, NAN)),
    "lgamma": (torch.lgamma, of(-1.0, 0.5, 1.0, 2.0, INF, -INF, NAN)),
    "signs of zeros": (lambda x: (x / of(0.0, -0.0), x / of(-0.0, -0.0)), of(1.0, 1.0)),
    "hypot": (lambda x: torch.hypot(x, of(NAN, -INF, 4.0)), of(INF, INF, 3.0)),
    "lerp": (
        lambda x: (x.lerp(x.flip(0), 0.5), x.lerp(x.flip(0), 1.0), x.lerp(x.flip(0), x.detach())),
        of(INF, 0.75, 0.25, 1.0),
    ),
    "losses of nothing": (
        lambda x: [
            x,
            F.mse_loss(x[:0], x[:0]),
            F.huber_loss(x[:0], x[:0], "mean"),
            F.smooth_l1_loss(x[:, :0], x[:, :0], reduction="sum"),
        ],
        ROWS,
    ),
    "smooth_l1": (
        lambda x: F.smooth_l1_loss(x, torch.zeros(6, dtype=DOUBLE), reduction="none"),
        of(NAN, INF, 1.0, -1.0, 0.5, 0.0),
    ),
    "soft_margin": (lambda x: F.soft_margin_loss(x, -torch.ones(3)), of(-50.0, 1e4, NAN)),
    "zeta": (lambda x: x * torch.special.zeta(of(0.5, 1.0, 2.0), of(-1.0, 0.0, -3.0)), of(1.0)),
    "lu_factor_ex": (
        lambda x: [
            torch.linalg.lu_factor_ex(x)[2],
            torch.linalg.inv_ex(x[:2])[1],
            torch.linalg.lu_factor_ex(x.sin())[2],
        ],
        of([[1.0, 2.0], [2.0, 4.0]], [[0.0, 2.0], [0.0, 1.0]], [[1.0, 2.0], [3.0, 4.0]]),
    ),
    "cholesky_ex": (
        lambda x: [torch.linalg.cholesky_ex(x)[1], torch.linalg.cholesky_ex(x.square())[0]],
        of([1.0, 0.0], [0.0, -1.0]),
    ),
    "bincount": (
        lambda x: torch.bincount((x.detach() * 2).to(torch.int64), x.detach() / 0, minlength=5) + x,
        of(0.0, 1.0, 1.0, 0.5, 0.5),
    ),
    "histogram": (
        lambda x: [
            x,
            torch.histogram(x.detach()[:5], 4),
            torch.histogram(
                x.detach(), 3, range=(-1.0, 2.0), weight=x.detach().abs(), density=True
            ),
            torch.histogram(x.detach(), of(-1.0, 0.5, 1.0, 4.0), density=True),
            torch.histogramdd(x.detach()[:4].reshape(2, 2), [2, 3], range=[-1.0, 1.0, 0.0, 2.0]),
            torch.histogramdd(x.detach()[:4].reshape(2, 2), [of(-2.0, 1.0), of(0.0, 0.5, 1.0)]),
        ],
        of(-1.0, 0.5, 1.0, 0.0, 2.0, NAN),
    ),
    "nonzero_static": (
        lambda x: [x, x.nonzero_static(size=3), x.nonzero_static(size=9, fill_value=7)],
        of([0.0, 1.0, NAN], [-2.0, -0.0, 3.0]),
    ),
    "searchsorted by a sorter": (
        lambda x: [
            x,
            torch.searchsorted(x.detach(), x.detach().flip(0), sorter=x.detach().argsort()),
            torch.searchsorted(x[0].detach(), 1.0, side="right", sorter=x[0].detach().argsort()),
        ],
        of([3.0, 1.0, 2.0, 1.0], [0.0, -INF, -1.0, INF]),
    ),
    "segments": (
        lambda x: [
            torch.segment_reduce(x, how, offsets=torch.tensor([0, 1, 1, 4]), initial=initial)
            for how in ("sum", "mean", "max", "min", "prod")
            for initial in (None, 2.0)
        ],
        of([1.0, 0.0], [3.0, 4.0], [5.0, 2.0], [5.0, 7.0]),
    ),
    "segments by lengths": (
        lambda x: [
            torch.segment_reduce(x, how, lengths=torch.tensor([[1, 2], [3, 0], [2, 1]]), axis=1)
            for how in ("sum", "mean", "max")
        ],
        of([1.0, 0.0, 3.0], [-INF, NAN, INF], [-INF, -INF, -INF]),
    ),
    "combinations": (
        lambda x: [torch.combinations(input=x, r=3), torch.combinations(x, 2, True)],
        of(1.0, 2.0, 4.0, NAN),
    ),
    "least integers": (
        lambda x: [
            x,
            x.detach().to(torch.int8).argmin(),
            x.detach().to(torch.int8).min(0),
            (x.detach() < 0).min(0),
        ],
        of(3.0, -128.0, 0.0),
    ),
    "products of complex numbers": (
        lambda x: [torch.complex(x, x[:1]).cumprod(1), torch.complex(x, 0 * x).prod(0)],
        of([1.0, 2.0, 0.0, 3.0, 1.0], [1.5, 0.0, 0.0, 2.0, -1.0], [2.0, 1.0, 0.0, 2.0, 0.5]),
    ),
    "affine_grid of one": (
        lambda x: [F.affine_grid(x, (1, 1, 2, 1), align_corners=c) for c in (True, False)],
        of([[1.0, 0.0, 0.5], [0.0, 1.0, 0.2]]),
    ),
    "fractional_max_pool of an image": (
        lambda x: F.fractional_max_pool2d(
            x[None], 2, output_size=2, _random_samples=of([[0.3, 0.6]], [[0.9, 0.1]])
        ),
        of([0.0, 1.0, 2.0], [4.0, 3.0, 2.0], [1.0, 5.0, 0.0]),
    ),
    "places that are not finite": (
        lambda x: F.grid_sample(PIXELS, x.reshape(1, 1, 3, 2), align_corners=False),
        of(NAN, 0.0, INF, 0.0, 0.2, 0.3),
    ),
    "linear_cross_entropy in chunks": (
        lambda x: [
            F.linear_cross_entropy(
                x[:3], x[3:], torch.tensor([0, 1, -100]), options=CHUNKS, reduction=how
            )
            for how in ("mean", "none")
        ],
        of([0.1, 0.7], [1.0, 0.3], [2.0, -1.0], [0.5, -0.2], [0.3, 1.1]),
    ),
    "smoothed resizing, by ATen's names": (
        lambda x: [
            torch.ops.aten._upsample_bilinear2d_aa(x[None, None], [2, 2], False, None, None),
            torch.ops.aten._upsample_bicubic2d_aa.default(x[None, None], [4, 2], True),
            torch.ops.aten._upsample_bilinear2d_aa.vec(x[None, None], None, False, [0.5, 0.7]),
            torch.ops.aten._upsample_bilinear2d_aa.default(x[None, None], [2, 2], False, 0.7, 0.6),
        ],
        of([0.0, 1.0, 2.0, 0.5], [4.0, 3.0, 2.0, 1.0], [1.0, 5.0, 0.0, 1.0]),
    ),
    "linspace of one": (lambda x: x * torch.linspace(0.5, 1.5, 1, dtype=DOUBLE), of(1.0)),
}


@pytest.mark.parametrize("name", EDGES)
def test_edge_values(name):
    compare(*EDGES[name])


def sampled(image, grid):
    """By images, by an image of one pixel, and by a volume."""
    volume = torch.stack([image, image.flip(2) * 2], 2)
    places = torch.cat([grid, grid[..., :1]], -1)[:, None]
    return (
        F.grid_sample(image, grid, padding_mode="border", align_corners=True),
        F.grid_sample(image, grid, padding_mode="reflection", align_corners=True),
        F.grid_sample(image, grid, padding_mode="reflection", align_corners=False),
        F.grid_sample(image[..., :1, :1], grid, padding_mode="reflection", align_corners=True),
        F.grid_sample(volume, places, padding_mode="border", align_corners=True),
    )


def test_places_at_edges_of_a_grid():
    compare(sampled, PIXELS, PLACES[None])


X = of([0.3, -1.2, 2.0], [1.1, 0.4, -0.7], [-0.2, 0.9, 0.6], [0.8, -0.5, 1.3])
Z = torch.complex
COMPLEX = {
    "parts": lambda a: Z(a, a[0]).sum(0) + Z(a[0], a).mean(0) + Z(a, a[:, :1]).cumsum(1)[0],
    "sums": lambda a: (
        (Z(a[0], a[1]) + a).sum(0),
        (a - Z(a[0], a[1])).mean(0),
        (Z(a, a) - 1j).sum(0),
    ),
    "products": lambda a: (
        (Z(a[0], a[1]) * a).sum(0),
        (a / Z(a[0], a[1])).sum(0),
        (Z(a[0], a[1]) + a) @ Z(a, a).mT,
    ),
    "joint": lambda a: (
        torch.addcmul(Z(a[0], a[1]), Z(a, a), Z(a, a)).sum(0),
        torch.lerp(Z(a, a), Z(a, a) * 2, 0.3).sum(0),
        torch.where(a > 0.5, Z(a[0], a[1]), a.to(torch.complex128)).sum(0),
        torch.vdot(Z(a[0], a[1]), Z(a[2], a[3])),
    ),
    "moved": lambda a: (
        (Z(a[0], a[1]) + a).view(-1)[2:7],
        (a + Z(a[0], a[1]))[1],
        (Z(a, a[:1]) * 1).mul_(a).abs(),
    ),
    "numbers": lambda a: (a + torch.tensor(1 + 2j)).sum(0) * Z(a[0, 0], a[1, 1]),
    "silu": lambda a: F.silu(Z(a[0], a[1]).detach()) * torch.sigmoid(Z(a[2], a[3])),
    "types": lambda a: (Z(a[0], a[1]).to(torch.complex64) + a).sum(0),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_parts_of_complex_numbers_broadcast(name):
    compare(COMPLEX[name], X)


def every_mode(x):
    """Random functions that draw nothing outside of training, and slopes that do."""
    rows = x.reshape(2, 2, 3)
    functions = F.dropout, F.alpha_dropout, F.feature_alpha_dropout, F.dropout1d, F.dropout2d
    layer = torch.nn.RReLU(0.1, 0.3)
    still = [function(rows, 0.4, training=False) for function in functions]
    drawn = [function(rows, 0.4, training=True) for function in functions]
    slopes = [
        F.rrelu(x),
        F.rrelu(x, training=False),
        layer.eval()(x),
        F.rrelu(x * 1, 0.1, 0.3, False, True),
    ]
    return (
        still,
        drawn,
        slopes,
        layer.train()(x),
        F.rrelu(x, training=True),
        torch.native_dropout(x, 0.4, False),
    )


def test_random_functions_outside_of_training():
    compare(every_mode, X, replays=True)


def test_replayed_slopes_lie_where_they_are_asked_for():
    x = of(*[-1.0] * 50, *[2.0] * 50)
    with tandem.random.replay(1, 0):
        drawn = F.rrelu(x, 0.1, 0.3, training=True)
        torch.testing.assert_close(F.rrelu(x, 0.1, 0.3), F.leaky_relu(x, 0.2))
    assert torch.equal(drawn[50:], x[50:])
    assert -0.3 <= drawn[:50].min() < -0.25 and -0.15 < drawn[:50].max() <= -0.1


class Normalizing(torch.nn.Module):
    """Writes to running statistics, and to nothing else."""

    def __init__(self, normalize):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, dtype=DOUBLE))
        self.register_buffer("mean", torch.zeros(3, dtype=DOUBLE))
        self.register_buffer("variance", torch.ones(3, dtype=DOUBLE))
        self.normalize = normalize

    def forward(self, x):
        return self.normalize(x, self.mean, self.variance, self.weight)


def twice(x, mean, variance, weight):
    """Reads between and behind the writes what they write."""
    y = torch.native_batch_norm(x, weight, None, mean, variance, True, -1.2, 1e-5)[0]
    return (
        torch.native_batch_norm(y + mean, weight, None, mean, variance, True, 0.5, 1e-5)[0]
        * variance
    )


WRITES = {
    "functional": lambda x, m, v, w: F.batch_norm(x, m, v, w, None, True, 0.5),
    "in evaluation": lambda x, m, v, w: F.batch_norm(x, m, v, w, None, False, 0.5),
    "by name": lambda x, m, v, w: torch.ops.aten.native_batch_norm(
        x, w, None, running_mean=m, running_var=v, training=True, momentum=0.2, eps=1e-5
    )[0],
    "views": lambda x, m, v, w: (
        w * F.batch_norm(x[:, :2], m[1:], v.data[:2], w[:2], None, True).sum()
    ),
    "instances": lambda x, m, v, w: F.instance_norm(
        x.view(2, 4, 3).mT, m, v, w, None, True, 0.3
    ).mean(-1),
    "twice": twice,
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_that_a_schema_hides(name):
    model, x = Normalizing(WRITES[name]), torch.cat([X, X.flip(1) + 5])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss_fn(model, x):
        return (model(x) * torch.arange(3)).square().mean()

    module = tandem.export(model, loss_fn, optimizer, x)
    values = {key: t.clone() for key, t in module.values().items()} | module.inputs(x)
    results = {
        module.arguments[r.updates].key: t
        for r, t in run_step(module.step, values)
        if r.updates is not None
    }
    loss_fn(model, x).backward()
    optimizer.step()
    same(results["parameter/weight"], model.weight.detach(), "weight")
    for name, buffer in model.named_buffers():
        same(results.get(f"buffer/{name}", values[f"buffer/{name}"]), buffer, name)


# Those of PyTorch's operators that run by definitions of Tandem's own: their samples, and values that are put into these.
SAMPLED = {
    "nn.functional.softshrink": (),
    "nn.functional.hardshrink": (),
    "nn.functional.multi_margin_loss": (0.0,),
    "nn.functional.multilabel_margin_loss": (0.0,),
    "cdist": (0.0, INF),
    "nn.functional.pdist": (0.0,),
    "scatter_reduce.amax": (-INF, NAN),
    "scatter_reduce.amin": (INF,),
    "scatter_reduce.mean": (INF,),
    "scatter_reduce.prod": (0.0,),
    "index_reduce.amax": (NAN,),
    "index_reduce.prod": (),
    "median": (NAN, 0.0),
    "cov": (),
    "corrcoef": (),
    "linalg.det": (),
    "linalg.solve": (),
    "digamma": (),
    "lgamma": (),
    "special.erfcx": (INF, -INF),
    "histc": (0.0,),
    "logcumsumexp": (-INF, NAN),
    "cummax": (NAN,),
    "cummin": (0.0,),
    "var_mean": (),
    "kthvalue": (),  # of equal ones PyTorch leaves open which it is
    "nn.functional.pad.replicate": (),
    "nn.functional.max_unpool2d": (),
}


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", SAMPLED)
def test_samples(name):
    found = samples(name, count=1, largest=300)
    assert found
    for function, tensors in found:
        compare(function, *tensors)
        for value in SAMPLED[name]:
            compare(function, *with_value(tensors, value))


def largest_distances(model, x):
    distances = torch.cdist(x * model.weight, of([3.0, 3.0]), p=INF)
    return distances.sum(), distances


def test_a_distance_that_is_returned_compiles():
    """Of one pair of rows, whose largest difference the backward pass reads in another shape."""
    model, x = torch.nn.Linear(2, 1, bias=False).double(), of([0.0, 0.0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = tandem.compile(model, largest_distances, optimizer, x, gradients=True)
    assert step(x)[1].item() == 3.0
