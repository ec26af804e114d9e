"""Operators without a decomposition of PyTorch's, with their gradients, and random ones by their definition."""

import pytest
import tandem
import tandem.formulas.elimination
import torch
import torch.nn.functional as F
from comparing import compare
from torch import nn


def spectrum(x):
    y = torch.fft.rfft(x, norm="ortho")
    return torch.fft.irfft(y * y.abs(), n=x.shape[-1]) + y.real.sum(-1, keepdim=True)


def triangular(x):
    a = x[:, None] * x[:, :, None] + 7 * torch.eye(x.shape[1], dtype=x.dtype)
    unit = {"upper": False, "unitriangular": True}
    y = torch.linalg.solve_triangular(a, x[..., None], upper=True)
    return torch.linalg.solve_triangular(a / 9, a, **unit) @ y


TURNS = torch.polar(torch.ones(6).double(), torch.arange(6.0).double())


def ragged(x):
    words, starts = torch.arange(40) % 8, torch.tensor([0, 3, 3, 20])
    padded = F.embedding_bag(words, x, starts, padding_idx=-5)
    largest = F.embedding_bag(words, x, starts, mode="max")
    return largest + F.embedding_bag(words, x, starts) + padded


def ctc(x):
    scores = x.reshape(8, 4, 3).transpose(0, 1).contiguous().log_softmax(-1)
    lengths, targets = torch.tensor([4, 3, 4, 2, 4, 4, 1, 4]), torch.tensor([[1, 2], [1, 1]] * 4)
    sizes = torch.tensor([2, 2, 0, 1, 2, 1, 1, 2])
    of_one = F.ctc_loss(scores[:, 1], targets[1], lengths[1], sizes[1], blank=2)
    return F.ctc_loss(scores, targets, lengths, sizes, zero_infinity=True) + of_one


def determinants(x):
    a = (x[:, None] * x[:, :, None])[..., :3, :3] + torch.eye(3, dtype=x.dtype).flip(0) * 2
    return torch.linalg.det(a) + torch.logdet(a @ a.mT) + torch.slogdet(a).logabsdet + a[0].det()


def solutions(x):
    a = (x[:, None] * x[:, :, None])[..., :3, :3] + torch.eye(3, dtype=x.dtype).flip(0) * 2
    left, right = (
        torch.linalg.solve(a, x[0, :3]),
        torch.linalg.solve(a, x[0, :6].view(2, 3), left=False),
    )
    return (
        left
        + right.sum(1)
        + torch.linalg.solve(a, x[:, :3, None]).squeeze(-1)
        + torch.linalg.solve(a[0], x[:3]).t()[:8]
    )


def eigenvalues(x):
    a = x[:4, :4] + x[:4, :4].t()
    values, vectors = torch.linalg.eigh(a)
    return values + (vectors * torch.arange(4) @ vectors.t()) + torch.linalg.eigvalsh(a, UPLO="U")


def singular_values(x):
    left, values, right = torch.linalg.svd(x[:, :3].reshape(2, 4, 3), full_matrices=False)
    whole = (left * values.square()[:, None]) @ right
    return whole.sum() + torch.linalg.pinv(x[:3, :5]).sum() + torch.linalg.matrix_norm(x[:3], "nuc")


def orthogonal(x):
    q, r = torch.linalg.qr(x[:, :4])
    return q[:4] @ r + torch.linalg.qr(x[:4, :4].t(), "complete")[0]


def eliminated(x):
    factors, pivots = torch.linalg.lu_factor(x[:4, :8].reshape(2, 4, 4))
    p, lower, upper = torch.linalg.lu(x[:6, :4])
    solution = torch.linalg.lu_solve(factors, pivots, x[None, 4:, :4])
    return (p @ lower)[:4] * upper + solution + torch.lu_unpack(factors, pivots)[2]


def least_squares(x):
    """Of independent columns by each driver, of more columns than rows, and of a matrix of rank 2."""
    a, b = x.reshape(2, 6, 8)[:, :, :3], x.reshape(2, 6, 8)[:, :, 4:7]
    full, svd = (torch.linalg.lstsq(a, b, driver=driver) for driver in ("gels", "gelsd"))
    wide = torch.linalg.lstsq(a[0].mT, b[0].mT[:, :2], driver="gels").solution
    low = torch.linalg.lstsq(a[0, :, :2] @ a[1, :2], b[0], rcond=1e-9)
    vector = torch.linalg.lstsq(a[0], b[0, :, 0], driver="gels").solution
    solutions = full.solution.square().sum() + svd.solution[0] + low.solution * low.rank
    rest = (full.residuals * svd.residuals).sum() + svd.singular_values.sum()
    return solutions * 0.1 + rest + wide.square().sum() + vector


def tensor_solved(x):
    a = x[:, :8] + 5 * torch.eye(8, dtype=x.dtype)
    return (
        torch.linalg.tensorsolve(a.reshape(2, 4, 8), x[:2, :4])
        + torch.linalg.solve_ex(a, x[:, 8])[0]
    )


def shifted(x):
    k = torch.tensor([2**62 + 1, -(2**62) - 1, 7, -7, 5, 1, -1, 3, 2**40, -9, 0, 6]) + (x > 9)
    n = torch.tensor([1, 1, 0, 2, 62, 63, 63, 64, -1, 70, 3, 8])
    shifts = torch.stack([k << n, k >> n, k << 3, torch.bitwise_right_shift(k, 2)])
    mode = x.round().mode(0)
    return x * (shifts % 1009).double().sum(0) + mode.values * mode.indices


def quantiles(x):
    x = x.tanh()
    p, n = x.sigmoid(), torch.arange(12)
    bessel = torch.special.i0(x) + torch.special.i1e(x) + torch.special.i1(x)
    orders = torch.special.legendre_polynomial_p(p.detach(), n) * p
    return torch.special.ndtri(p) + bessel + torch.polygamma(2, p + 1) + orders


def second_kind(x):
    y, z = x.abs() * 4 + 0.1, x * 3
    modified = [
        getattr(torch.special, f"{scaled}modified_bessel_k{n}")(y)
        for n in (0, 1)
        for scaled in ("", "scaled_")
    ]
    plain = (
        torch.special.bessel_y0(y / 8)
        + torch.special.bessel_y1(y / 8)
        + torch.special.airy_ai(z.clamp(min=-1))
    )
    return (
        torch.igamma(y.detach(), z.abs())
        + torch.igammac(y.detach(), y)
        + x * (sum(modified) + plain).detach()
    )


def exact_numbers(x):
    n = (x.detach() * 1000).long()
    share, exponent = torch.frexp(x * 7)
    up = torch.nextafter(x.detach(), x.detach().flip(1)) - x.detach()
    divisors = torch.gcd(n, n.flip(1)) + torch.lcm(n, n.flip(0)) % 1009
    return share * exponent + up * 2**50 * x + divisors * x


def where_not_numbers(x):
    y = torch.where(x > 1, torch.nan, x)
    least = torch.fmax(y, x.flip(0)) * torch.fmin(x.flip(1), y)
    return least.nan_to_num() + y.nanmedian() + y.nanmedian(0).values + x.angle()


def reflections(x):
    a = x.t().tril(-1)
    return torch.linalg.householder_product(a, 2 / (1 + (a * a).sum(0))) @ x


def antialias(x):
    images = x.reshape(1, 2, 6, 8)
    small = F.interpolate(images, (3, 5), mode="bilinear", antialias=True)
    cubic = F.interpolate(images, (3, 5), mode="bicubic", antialias=True, align_corners=True)
    scaled = F.interpolate(images, scale_factor=0.45, mode="bicubic", antialias=True)
    return (
        small
        + cubic
        + scaled.mean()
        + F.interpolate(images, (7, 9), mode="bilinear", antialias=True).sum()
    )


def volumes(x):
    volume, grid = x.reshape(2, 2, 2, 3, 4), 1.7 * x[:, :6].reshape(2, 2, 2, 2, 3).tanh()
    near = F.grid_sample(
        volume, grid, mode="nearest", padding_mode="reflection", align_corners=True
    )
    return near + F.grid_sample(volume, grid, padding_mode="reflection", align_corners=False)


def gamma(x):
    """Right of the poles, far right of them, and between them."""
    between = x.sigmoid() * 0.6 + 0.2
    right = (x.abs() + 0.3).lgamma() + (9 * x.abs() + 1).lgamma() + (x.abs() + 0.4).digamma()
    return right + (-between).lgamma() + (-between - 3).digamma()


def strided_below(x):
    """Views of memory whose order is another, or which begins further on."""
    heads = (x * 2).reshape(8, 3, 4).transpose(0, 1)
    heads /= 3.0  # before it is looked at
    overlapping = heads.as_strided((3, 3, 4, 4), (4, 24, 12, 1))
    later = x[2:].as_strided((3, 5), (12, 2)) + x[2:].as_strided((3, 5), (12, 2), 24)
    return (overlapping * overlapping.cumsum(1)).sum((2, 3)).mean() + later * x.t().as_strided(
        (3, 5), (12, 1)
    )


def factored(x):
    a = x @ x.t() / 9 + torch.eye(8, dtype=x.dtype)
    lower, upper = torch.linalg.cholesky(a), torch.linalg.cholesky(a, upper=True)
    return (
        torch.cholesky_solve(x, lower).sum(1)
        + torch.cholesky_solve(x, upper, upper=True).square().sum(1)
        + torch.cholesky_inverse(lower).diagonal()
        + torch.cholesky_inverse(upper, upper=True)[0]
    )


def special(x):
    return (
        torch.hypot(x, x.flip(1) * 2)
        + torch.special.erfcx(x.abs() * 9 - 1)
        + torch.special.log_ndtr(x * 5)
        + x.round(decimals=1) * x
        + x.signbit() * x
        + x.sgn() * x.flip(0)
    )


def scattered(x):
    index = torch.arange(12) % 5
    rows = torch.ones(8, 5, dtype=x.dtype)
    return (
        rows.scatter_reduce(1, index.expand(8, 12), x, "prod")
        + rows.scatter_reduce(1, index.expand(8, 12), x, "prod", include_self=False)
        + rows.index_reduce(1, index, x, "amax")
        + rows.index_reduce(1, index, x, "mean", include_self=False)
        + x.take(torch.tensor([[3, -1, 3, 40, 7]]))
        + x.put(torch.tensor([9, 17]), x[0, :2] * 2)[:, 7:]
    )


def written_twice(x):
    """Of what is written to one place the last stays."""
    places, rows = torch.tensor([3, 1, 3, 0, 1, 3, 2, 7]), torch.arange(8)[:, None]
    flags = torch.zeros_like(x)
    flags[:, [1, 1, 2]] = 1.0
    columns = (torch.arange(12) * 7 % 5).expand(8, 12)
    ones = torch.zeros(8, 5, dtype=x.dtype).scatter(1, columns, torch.ones_like(x))
    return (
        torch.zeros_like(x).index_put((places,), x)
        + torch.zeros_like(x).index_put((rows, places.expand(8, 8)), x[:, :8] * 2)
        + torch.zeros_like(x).index_copy(1, places[:3], x[:, :3].exp())
        + torch.zeros_like(x).scatter(1, columns, x.sin())
        + torch.zeros_like(x).scatter(1, x.argsort(1), x.cos())
        + flags * x
        + ones.sum(1, keepdim=True)
    )


def unpooled(x):
    """Windows overlap, and share their largest element."""
    images = x.reshape(4, 2, 3, 4)
    pooled, places = F.max_pool2d(images, 2, 1, return_indices=True)
    lines, at = F.max_pool1d(x, 3, 1, return_indices=True)
    whole = F.max_unpool2d(pooled * 2, places, 2, 1, output_size=(3, 4))
    return whole.reshape(8, 12) + F.max_unpool1d(lines * lines, at, 3, 1, output_size=(12,))


def counted(x):
    """Constants, of which shapes may follow; data, where a length is given."""
    values, places = torch.unique(torch.arange(12) % 5 * 2, return_inverse=True)
    labels = x.detach()[:, 0].gt(0) * 3 + x.detach()[:, 1].gt(0)
    every = torch.bincount(labels, minlength=6)
    share = torch.bincount(labels, weights=x.detach()[:, 2].abs(), minlength=6)
    scale = 2.0 if torch.allclose(x, x) else 1.0
    return (x * values[places]).sum(1) * scale + (every / every.sum() * share).sum()


def looked_up(x):
    words = torch.arange(20).reshape(4, 5) % 7
    rare = F.embedding(words, x, scale_grad_by_freq=True)
    sorted_rows = x.detach().sort(1).values
    return rare.square().sum() + (torch.searchsorted(sorted_rows, x.detach()) * x).mean()


@pytest.mark.parametrize("name", ["bilinear", "bicubic"])
def test_weights_of_other_sizes(name):
    """Without a step, as they are constants of it."""
    from tandem.formulas import sampling

    images = torch.randn(2, 3, 17, 23, dtype=torch.float64)
    for size in ((5, 5), (9, 30), (1, 23)):
        for corners in (False, True):
            found = sampling.resize(name, images, size, corners)
            expected = F.interpolate(images, size, mode=name, align_corners=corners, antialias=True)
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    expected = F.interpolate(images, scale_factor=(0.37, 0.61), mode=name, antialias=True)
    found = sampling.resize(name, images, None, False, (0.37, 0.61))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_volumes(padding, corners):
    from tandem.formulas import sampling

    volume = torch.randn(2, 3, 4, 5, 6, dtype=torch.float64, requires_grad=True)
    grid = torch.randn(2, 3, 4, 2, 3, dtype=torch.float64).mul(1.3).requires_grad_()
    for mode in ("bilinear", "nearest"):
        found = sampling.sample_volumes(volume, grid, mode, padding, corners)
        expected = F.grid_sample(volume, grid, mode, padding, corners)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    found, expected = (
        torch.autograd.grad(y.square().sum(), (volume, grid))
        for y in (
            sampling.sample_volumes(volume, grid, "bilinear", padding, corners),
            F.grid_sample(volume, grid, "bilinear", padding, corners),
        )
    )
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_rows_of_a_table_that_are_too_long(kind):
    """The parameter itself is made shorter where it is looked up."""
    torch.manual_seed(0)
    model = kind(9, 3, max_norm=1.0, norm_type=1.5).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [torch.tensor([[0, 3, 3], [5, 1, 0]]), torch.tensor([[8, 3, 1], [2, 2, 2]])]
    compare(model, lambda model, x: model(x).square().sum() * 9, optimizer, batches)


FORMULAS = {
    "erfinv": lambda x: (x / 2).tanh().erfinv(),
    "logcumsumexp": lambda x: (x * 30).logcumsumexp(1),
    "cummax": lambda x: x.cummax(1).values + x.cummin(0).values,
    "spectrum": spectrum,
    "spectrum of a prime": lambda x: torch.fft.fft(F.pad(x, (0, 1))).abs().sum(-1),
    "spectrum of a product": lambda x: torch.fft.ifft2(torch.fft.fft2(x.repeat(12, 8)) ** 2).real,
    "triangular": triangular,
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.t() + 9 * torch.eye(8, dtype=x.dtype)),
    "addbmm": lambda x: torch.addbmm(x[:4, :4], x.view(2, 4, 12), x.view(2, 12, 4), beta=0.5, alpha=3),
    "inverse": lambda x: torch.linalg.inv(x[:, :8].flip(0) + torch.eye(8, dtype=x.dtype).flip(0)),
    "bags": ragged,
    "ctc": ctc,
    "determinants": determinants,
    "solutions": solutions,
    "eigenvalues": eigenvalues,
    "singular values": singular_values,
    "orthogonal": orthogonal,
    "eliminated": eliminated,
    "tensor solved": tensor_solved,
    "least squares": least_squares,
    "quantiles": quantiles,
    "second kind": second_kind,
    "exact numbers": exact_numbers,
    "shifted": shifted,
    "where not numbers": where_not_numbers,
    "grid by numbers": lambda x: torch.grid_sampler_2d(x.reshape(2, 4, 4, 3), x.reshape(2, 4, 6, 2).tanh(), 0, 1, True),
    "reflections": reflections,
    "exponential of a matrix": lambda x: torch.matrix_exp(x[:, :8].tanh() * torch.tensor([0.1, 0.7]).double()[:, None, None]),
    "antialias": antialias,
    "gamma": gamma,
    "volumes": volumes,
    "grid": lambda x: F.grid_sample(x.reshape(2, 4, 4, 3), x.reshape(2, 4, 6, 2).tanh(), align_corners=False),
    "pdist": F.pdist,
    "strided": lambda x: x.as_strided((7, 5), (12, 2), 3) + x.t().contiguous().as_strided((7, 5), (1, 8)),
    "factored": factored,
    "special": special,
    "scattered": scattered,
    "written twice": written_twice,
    "unpooled": unpooled,
    "frequencies": lambda x: x * torch.fft.fftfreq(12, 0.3) + x * torch.fft.rfftfreq(22),
    "counted": counted,
    "looked up": looked_up,
    "conjugates": lambda x: (torch.complex(x, x * x) @ torch.complex(x, x.flip(1)).mH).abs() + 0.1,
    "turned by a constant": lambda x: torch.view_as_real(torch.view_as_complex(x.view(8, 6, 2)) * TURNS),
    "strided below": strided_below,
    "frames": lambda x: torch.stft(x, 6, 3, window=torch.ones(6, dtype=x.dtype), return_complex=True).abs(),
}  # fmt: skip


def run(function):
    torch.manual_seed(0)
    model = nn.Linear(6, 12).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = [torch.randn(8, 6, dtype=torch.float64) for _ in range(2)]
    compare(model, lambda model, x: function(model(x)).square().mean(), optimizer, batches)


def logarithms(x):
    a = (x[:, None] * x[:, :, None])[..., :3, :3] + 9 * torch.eye(3, dtype=x.dtype)
    return torch.logdet(a) + torch.slogdet(a[0]).logabsdet + torch.linalg.inv(a).sum((1, 2))


def solved_from_both_sides(x):
    a = (x[:, None] * x[:, :, None])[..., :3, :3] + torch.eye(3, dtype=x.dtype).flip(0) * 2
    left = torch.linalg.solve(a, x[:, :3, None])
    return left.squeeze(-1) + torch.linalg.solve(a[0], x[:, 3:6], left=False)


@pytest.mark.parametrize("function", [logarithms, solved_from_both_sides])
def test_gradients_of_gradients(function):
    torch.manual_seed(0)
    model = nn.Linear(12, 12).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def loss(model, x):
        x = x.clone().requires_grad_()
        value = function(model(x)).square().mean()
        (gradient,) = torch.autograd.grad(value, x, create_graph=True)
        return gradient.square().mean()

    compare(model, loss, optimizer, [torch.randn(8, 12, dtype=torch.float64)])


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name):
    run(FORMULAS[name])


def test_small_gradients_of_soft_margins():
    model, x = nn.Linear(1, 1, bias=False).double(), torch.tensor([[50.0]], dtype=torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    nn.init.ones_(model.weight)

    def loss(model, x):
        return F.soft_margin_loss(model(x), torch.ones_like(x))

    loss(model, x).backward()
    step = tandem.compile(model, loss, optimizer, x, gradients=True)
    step(x)
    torch.testing.assert_close(step.gradients()["weight"], model.weight.grad, rtol=1e-12, atol=0)


def process(x):
    """The likelihood of a Gaussian process, by its factor and by Gauss's; rows change places, and a factor is wider than high."""
    x = x.tanh()
    points = torch.linspace(-1, 1, 5, dtype=x.dtype) * x[0, :5].exp()
    covariance = torch.exp(-(points[:, None] - points).square())
    covariance = covariance + 0.5 * torch.eye(5, dtype=x.dtype)
    factor = torch.linalg.cholesky(covariance)
    fit = torch.cholesky_solve(x[1, :5, None], factor).sum() + factor.diagonal().log().sum()
    moved = torch.stack([covariance.roll(2, 0), covariance.flip(0)])
    solved = torch.linalg.solve(moved, x[:6, :5].reshape(2, 5, 3)).sum()
    inverse = torch.linalg.inv(moved[0]).square().sum() + torch.linalg.det(moved).sum()
    p, lower, upper = torch.linalg.lu(x[:, :5])
    tall = (p @ lower).cos().sum() + upper.tanh().sum()
    wide = torch.linalg.lu_factor(x[:5, :7]).LU.tanh().sum()
    again = torch.linalg.lu_solve(*torch.linalg.lu_factor(moved), covariance, adjoint=True)
    logarithm = torch.logdet(moved[0] @ moved[0].mT)
    return fit + solved + inverse + tall + wide + again.sum() + logarithm


def turned(x):
    """Of matrices higher than wide and wider than high, and what LAPACK leaves below the diagonal."""
    x = x.tanh()  # which has full rank
    tall = x[:6, :5]
    (q, r), wide = torch.linalg.qr(tall), torch.linalg.qr(tall.reshape(2, 3, 5))
    complete = torch.linalg.qr(x[:5, 6:11], "complete")
    packed, taus = torch.geqrf(tall.detach())
    left = torch.ormqr(packed, taus, tall.detach(), transpose=True)
    right = torch.ormqr(packed, taus, torch.ones(6, 6).double(), left=False)[:, :5]
    product = torch.linalg.householder_product(tall, 2 / (1 + (tall * tall).sum(0)))
    of_wide = (wide[0] * torch.arange(3)).sum() + wide[1].sin().sum()
    of_complete = complete[0].square().cos().sum() + complete[1].sin().sum()
    whole = of_wide + of_complete + (left + right + packed + taus).sum() * x.sum()
    return (q * torch.arange(5) + product.cos()).sum() + r.cos().sum() + whole


def indefinite(x):
    """Blocks of one row and of two: pivots, factors and solutions are LAPACK's."""
    a = x.detach().reshape(6, 16)[:, :16].reshape(6, 4, 4).tanh()
    a = a + a.mT
    a = torch.cat([a, a - torch.diag_embed(a.diagonal(dim1=-2, dim2=-1))])
    factors, pivots = torch.linalg.ldl_factor(a)
    solution = torch.linalg.ldl_solve(factors, pivots, a.flip(0)[..., :2])
    return x.sum() * (factors.sum() + (pivots * torch.arange(4)).sum() + solution.tanh().sum())


@pytest.mark.parametrize("function", [process, turned, indefinite])
def test_factors_in_blocks(monkeypatch, function):
    """Three blocks, the last one smaller."""
    monkeypatch.setattr(tandem.formulas.elimination, "_BLOCK", 2)
    run(lambda x: function(x) * 0.005)


def test_factors_of_many_columns():
    """As a Gaussian process of 34 points has them, in two blocks; larger ones than 512 are refused."""
    model, x = nn.Linear(2, 1).double(), torch.randn(34, 2).double()

    def loss(model, x):
        points = model(x)
        covariance = torch.exp(-torch.cdist(points, points).square()) + 0.1 * torch.eye(34).double()
        factor = torch.linalg.cholesky(covariance)
        return torch.linalg.solve(covariance, x).square().sum() + factor.diagonal().log().sum()

    compare(model, loss, torch.optim.SGD(model.parameters(), lr=1e-4), [x])
    with pytest.raises(
        tandem.UnsupportedOperatorError, match="found a matrix of 513 columns, expected at most 512"
    ):
        tandem.export(
            model,
            lambda m, x: torch.linalg.cholesky(m.weight.sum() * torch.eye(513).double()).sum(),
            torch.optim.SGD(model.parameters()),
            x,
        )


class OfNothing(nn.Module):
    """Matrices without elements, of the model and of the batch."""

    def __init__(self):
        super().__init__()
        self.columns = nn.Parameter(torch.ones(3, 5).double())
        self.register_buffer("rows", torch.ones(0, 4, 5).double())

    def forward(self, batch):
        scale, square = batch["x"].mean() * self.columns.sum(), batch["square"]
        products = (
            torch.linalg.det(square)
            + torch.slogdet(square)[1]
            + torch.linalg.cond(square[:, None]).sum()
        )
        factors = (
            square,
            torch.linalg.inv(square),
            torch.linalg.cholesky(square),
            *torch.linalg.qr(square),
        )
        factors += (
            *torch.linalg.svd(square),
            *torch.linalg.eigh(square),
            torch.linalg.solve(square, square),
            torch.linalg.pinv(square),
        )
        outer = (
            sum(factor.sum() for factor in factors)
            + (square.new_zeros(2, 3, 0) @ square.new_zeros(2, 0, 3) + 1).sum()
        )
        return scale * (products.sum() + outer) + torch.cdist(self.rows, self.columns).sum()


def test_matrices_without_elements():
    model = OfNothing()
    batches = [
        {"x": torch.randn(4).double(), "square": torch.zeros(4, 0, 0).double()} for _ in range(2)
    ]
    compare(
        model,
        lambda model, batch: model(batch),
        torch.optim.SGD(model.parameters(), lr=0.01),
        batches,
    )
    step = tandem.compile(
        model,
        lambda model, batch: model(batch),
        torch.optim.SGD(model.parameters(), lr=0.01),
        batches[0],
        mesh={"data": 2},
    )
    with torch.no_grad():
        expected = model(batches[1]).item()
    assert step(batches[1]).item() == pytest.approx(expected, rel=1e-12)


def test_sizes_of_what_is_rotated_are_limited():
    model = nn.Linear(70, 70)
    with pytest.raises(
        tandem.UnsupportedOperatorError, match="found a matrix of 70 columns, expected at most 64"
    ):
        tandem.export(
            model,
            lambda m, x: torch.linalg.eigvalsh(m(x)).sum(),
            torch.optim.SGD(model.parameters()),
            torch.eye(70),
        )


DRAWN = {
    "exponential": lambda x: x * torch.empty_like(x).exponential_(2.0),
    "randint": lambda x: x * torch.randint(-3, 5, x.shape) + torch.randint_like(x, 9),
    "random": lambda x: x * torch.empty(x.shape, dtype=torch.int64).random_(2, 7),
    "randperm": lambda x: x[:, torch.randperm(12)] * torch.arange(12),
    "multinomial": lambda x: x.gather(1, torch.multinomial(x.softmax(1), 5)),
    "with replacement": lambda x: x.gather(1, torch.multinomial((x.detach() > 0) * 1.0 + 1e-9, 20, replacement=True)),
    "tails": lambda x: (
        x + 1e-9 * torch.empty_like(x).cauchy_(0.5, 2.0) + torch.empty_like(x).geometric_(0.3) * x
        + torch.empty(x.shape, dtype=torch.int64).geometric_(0.9) + torch.empty_like(x).log_normal_(0.5, 0.7)
    ),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "fractional pooling": lambda x: F.fractional_max_pool2d(x.reshape(4, 2, 3, 4), 2, (2, 3)),
    "fractional pooling of an image": lambda x: F.fractional_max_pool2d(x[None], 2, (5, 7)),
    "fractional pooling of volumes": lambda x: F.fractional_max_pool3d(x.reshape(4, 1, 4, 3, 2), (2, 2, 1), (2, 1, 1)),
    "normal of tensors": lambda x: x * torch.normal(x, x.abs()) + torch.distributions.Normal(x[0], 2.0).sample((8,)),
    "normal of numbers": lambda x: x * torch.normal(0.5, 2.0, x.shape) + torch.normal(x, 0.1),
    "gumbel": lambda x: F.gumbel_softmax(x, tau=0.7, hard=True) * x,
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
def test_drawn(name):
    run(DRAWN[name])


def test_draws_have_their_distribution():
    """Of 2^14 numbers each: means and shares within five deviations."""
    from tandem import random as r

    key, count = (7, 3, 11), 2**14
    drawn = r.exponential((count,), *key)
    assert abs(drawn.mean() - 1) < 5 * count**-0.5 and drawn.min() >= 0 and drawn.isfinite().all()
    tails = r.cauchy((count,), 3.0, 2.0, *key)  # half of them within sigma of the median
    assert abs((tails > 3).double().mean() - 0.5) < 2.5 * count**-0.5
    assert abs(((tails - 3).abs() < 2).double().mean() - 0.5) < 2.5 * count**-0.5
    tries = r.geometric((count,), 0.3, *key)
    shares = torch.stack([(tries == k).double().mean() for k in (1, 2, 3)])
    assert (
        tries.min() == 1
        and (shares - torch.tensor([0.3, 0.21, 0.147])).abs().max() < 5 * (0.21 / count) ** 0.5
    )
    assert r.geometric((count,), 1.0, *key).eq(1).all()
    integers = r.integers(-2, 3, (count,), *key)
    shares = torch.bincount(integers + 2, minlength=5) / count
    assert integers.min() == -2 and (shares - 0.2).abs().max() < 5 * (0.16 / count) ** 0.5
    weights = torch.tensor([0.0, 1.0, 3.0, 0.0]).expand(count, 4)
    for replacement, columns in ((False, 1), (True, 3)):
        chosen = r.multinomial(weights, columns, replacement, *key)
        assert set(chosen.unique().tolist()) == {1, 2}
        assert abs((chosen == 2).double().mean() - 0.75) < 5 * (0.1875 / count) ** 0.5
    pairs = r.multinomial(weights, 2, False, *key)
    assert torch.equal(pairs.sort(-1).values, torch.tensor([1, 2]).expand(count, 2))
