"""Formulas for operators that PyTorch does not decompose, or not well: rules of the second trace.

They stand beside PyTorch's own decompositions. Gradients are autograd's, which are operators again.
"""

import functools
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch._decomp import decomposition_table

aten = torch.ops.aten
FORMULAS = {}


def rule(*operators):
    def register(function):
        FORMULAS.update(dict.fromkeys(operators, function))
        return function

    return register


def polynomial(x, coefficients):
    """The first coefficient is that of the highest power."""
    total = torch.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


@rule(aten.erfinv.default)
def _erfinv(y):
    """A rational approximation (as in PyTorch: P. J. Acklam's form), and two of Newton's steps."""
    wide = y.to(torch.promote_types(y.dtype, torch.float32))
    size = wide.abs()
    z = wide * wide
    middle = wide * polynomial(z, [-0.140543331, 0.914624893, -1.645349621, 0.886226899])
    middle = middle / polynomial(z, [0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0])
    z = torch.sqrt(-torch.log((1.0 - size) / 2.0))
    outer = polynomial(z, [1.641345311, 3.429567803, -1.624906493, -1.970840454])
    outer = torch.copysign(outer / polynomial(z, [1.637067800, 3.543889200, 1.0]), wide)
    x = torch.where(size <= 0.7, middle, outer)
    for _ in range(2):
        x = x - (torch.erf(x) - wide) / (2 / math.sqrt(math.pi) * torch.exp(-x * x))
    ends = torch.copysign(torch.full_like(wide, math.inf), wide)
    return torch.where(size == 1, ends, x).to(y.dtype)


@rule(aten.hypot.default)
def _hypot(x, y):
    """Without overflow of the squares."""
    x, y = x.abs(), y.abs()
    large, small = torch.maximum(x, y), torch.minimum(x, y)
    share = small / torch.where(large == 0, 1.0, large)
    is_infinite = (x == math.inf) | (y == math.inf)
    return torch.where(is_infinite, math.inf, large * torch.sqrt(1 + share * share))


# From here on so many terms of the asymptotic series are exact to float64's rounding.
_FROM, _TERMS = 7, 20


@rule(aten.special_erfcx.default)
def _erfcx(x):
    """e^(x^2) erfc(x), by an asymptotic series where x is large (NIST's Handbook of Mathematical Functions, 7.12)."""
    wide = x.to(torch.float64)
    far = wide.clamp(min=_FROM)
    terms = [1.0]
    for k in range(1, _TERMS):
        terms.append(terms[-1] * -(2 * k - 1) / 2)
    series = polynomial(1 / (far * far), terms[::-1]) / (far * math.sqrt(math.pi))
    near = wide.clamp(max=_FROM)
    return torch.where(wide > _FROM, series, torch.exp(near * near) * torch.erfc(near)).to(x.dtype)


@rule(aten.softshrink_backward.default, aten.hardshrink_backward.default)
def _shrink_backward(grad, x, lambd):
    return torch.where((x >= -lambd) & (x <= lambd), 0.0, grad)


@rule(aten.addbmm.default)
def _addbmm(x, left, right, *, beta=1, alpha=1):
    """A product whose sum goes over the batch as well."""
    left = left.transpose(0, 1).flatten(1)
    return torch.addmm(x, left, right.flatten(0, 1), beta=beta, alpha=alpha)


@rule(aten._efficientzerotensor.default)
def _zeros(size, **options):
    return torch.zeros(size, dtype=options.get("dtype"))


@rule(aten._neg_view.default, aten._neg_view_copy.default)
def _negative(x):
    return -x


@rule(aten.fft_fftfreq.default)
def _frequencies(n, d=1.0, **options):
    places = torch.arange(n, dtype=options.get("dtype") or torch.get_default_dtype())
    return torch.where(places < (n + 1) // 2, places, places - n) * (1.0 / (n * d))


@rule(aten.fft_rfftfreq.default)
def _half_frequencies(n, d=1.0, **options):
    dtype = options.get("dtype") or torch.get_default_dtype()
    return torch.arange(n // 2 + 1, dtype=dtype) * (1.0 / (n * d))


@rule(aten.max_unpool2d.default, aten.max_unpool3d.default)
def _unpool(x, indices, output_size, *_):
    """PyTorch's formula puts the images of a batch behind one another, where all are one place to write to."""
    rank = len(output_size)
    zeros = x.new_zeros(*x.shape[:-rank], math.prod(output_size))
    written = zeros.scatter(-1, indices.flatten(-rank), x.flatten(-rank))
    return written.unflatten(-1, tuple(output_size))


def _scan(tensors, dim, combine, neutral):
    """Combines each position with all before it, in log2(n) rounds: behind round r a position has what the last 2^r are
    together. `combine(earlier, later)` takes and gives lists of tensors.
    """
    size = tensors[0].shape[dim]
    count = 1
    while count < size:
        earlier = []
        for tensor, value in zip(tensors, neutral, strict=True):
            before = torch.full_like(tensor.narrow(dim, 0, count), value)
            earlier.append(torch.cat([before, tensor.narrow(dim, 0, size - count)], dim))
        tensors = combine(earlier, tensors)
        count *= 2
    return tensors


@rule(aten.logcumsumexp.default)
def _logcumsumexp(x, dim):
    if not x.dim():
        return x.clone()

    def combine(earlier, later):
        return [torch.logaddexp(earlier[0], later[0])]

    return _scan([x], dim, combine, [-math.inf])[0]


def _extremum(x, dim, least, is_better):
    """Of equal elements the last one, as in PyTorch; NaN is taken, and stays."""
    if not x.dim():
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    shape = [1] * x.dim()
    shape[dim] = x.shape[dim]
    places = torch.arange(x.shape[dim]).reshape(shape).expand(x.shape)

    def combine(earlier, later):
        taken = is_better(later[0], earlier[0])
        if x.is_floating_point():
            taken = (taken & ~torch.isnan(earlier[0])) | torch.isnan(later[0])
        return [torch.where(taken, a, b) for a, b in zip(later, earlier, strict=True)]

    return tuple(_scan([x, places], dim, combine, [least(x.dtype), 0]))


def _lowest(dtype):
    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def _highest(dtype):
    return math.inf if dtype.is_floating_point else torch.iinfo(dtype).max


@rule(aten.cummax.default)
def _cummax(x, dim):
    return _extremum(x, dim, _lowest, torch.ge)


@rule(aten.cummin.default)
def _cummin(x, dim):
    return _extremum(x, dim, _highest, torch.le)


# ---- Where values are not numbers


@rule(aten.fmax.default)
def _fmax(x, y):
    return torch.where(x.isnan(), y, torch.where(y.isnan(), x, torch.maximum(x, y)))


@rule(aten.fmin.default)
def _fmin(x, y):
    return torch.where(x.isnan(), y, torch.where(y.isnan(), x, torch.minimum(x, y)))


@rule(aten.angle.default)
def _angle(x):
    wide = x if x.is_floating_point() else x.to(torch.get_default_dtype())
    return torch.where(wide < 0, math.pi, torch.where(wide.isnan(), wide, 0.0))


def _shifted(x, count):
    """(2^count, whether there is such a power: of the last one the sign is the bit that is left)"""
    bits, count = torch.iinfo(x.dtype).bits, torch.as_tensor(count)
    powers = [1 << k for k in range(63)] + [-(1 << 63)]
    inside = (count >= 0) & (count < bits)
    places = torch.where(inside, count, 0).to(torch.int64)
    power = torch.tensor(powers).index_select(0, places.reshape(-1))
    return power.reshape(places.shape), inside


@rule(
    aten.bitwise_left_shift.Tensor,
    aten.bitwise_left_shift.Tensor_Scalar,
    aten.__lshift__.Tensor,
    aten.__lshift__.Scalar,
)
def _shift_left(x, count):
    power, inside = _shifted(x, count)
    return torch.where(inside, x * power.to(x.dtype), 0).to(torch.result_type(x, count))


@rule(
    aten.bitwise_right_shift.Tensor,
    aten.bitwise_right_shift.Tensor_Scalar,
    aten.__rshift__.Tensor,
    aten.__rshift__.Scalar,
)
def _shift_right(x, count):
    power, inside = _shifted(x, count)
    whole = torch.div(x, torch.where(power > 0, power, 1), rounding_mode="floor")
    gone = torch.where(x < 0, -1, 0)
    return torch.where(inside & (power > 0), whole, gone).to(torch.result_type(x, count))


@rule(aten.mode.default)
def _mode(x, dim=-1, keepdim=False):
    """Of values that are equally frequent the least one, and the last place that has it."""
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64)
    rows = x.movedim(dim, -1)
    counts = (rows[..., :, None] == rows[..., None, :]).sum(-1)
    is_best = counts == counts.amax(-1, keepdim=True)
    least = torch.where(is_best, rows, _highest(x.dtype)).amin(-1, keepdim=True)
    places = torch.where(is_best & (rows == least), torch.arange(rows.shape[-1]), -1)
    place = places.amax(-1, keepdim=True)
    found = rows.gather(-1, place).movedim(-1, dim), place.movedim(-1, dim)
    return found if keepdim else tuple(t.squeeze(dim) for t in found)


@rule(aten.nanmedian.dim)
def _nanmedian_of(x, dim, keepdim=False):
    """The lower one of two in the middle; of no numbers, NaN."""
    values, order = x.sort(dim=dim, stable=True)  # what is not a number comes last
    count = (~x.isnan()).sum(dim, keepdim=True)
    place = ((count - 1) // 2).clamp(min=0)
    found = values.gather(dim, place), order.gather(dim, place)
    return found if keepdim else tuple(t.squeeze(dim) for t in found)


@rule(aten.nanmedian.default)
def _nanmedian(x):
    return _nanmedian_of(x.reshape(-1), 0)[0]


# ---- Matrices


def triangle_inverse(lower, is_unit):
    """The inverse of a lower triangle. Blocks of 1, 2, 4, ... rows on the diagonal, all of one size at once: the inverse of [[A, 0], [C, B]] is [[A', 0], [-B' C A', B']]."""
    size = lower.shape[-1]
    wide = 1 << (size - 1).bit_length()
    rest = wide - size
    lower = F.pad(lower.tril(-1 if is_unit else 0), (0, rest, 0, rest))
    ends = torch.arange(wide) >= (0 if is_unit else size)
    lower = lower + torch.diag_embed(ends.to(lower.dtype))
    batch = lower.shape[:-2]
    blocks = (1.0 / lower.diagonal(dim1=-2, dim2=-1))[..., None, None]
    rows = 1
    while rows < wide:
        count = wide // (2 * rows)
        pairs = lower.reshape(*batch, count, 2 * rows, count, 2 * rows)
        pairs = pairs.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)
        halves = blocks.reshape(*batch, count, 2, rows, rows)
        first, second = halves.select(-3, 0), halves.select(-3, 1)
        below = -(second @ pairs[..., rows:, :rows] @ first)
        top = torch.cat([first, torch.zeros_like(first)], -1)
        blocks = torch.cat([top, torch.cat([below, second], -1)], -2)
        rows *= 2
    return blocks.reshape(*batch, wide, wide)[..., :size, :size]


@rule(aten.linalg_solve_triangular.default)
def _solve_triangular(matrix, right, *, upper, left=True, unitriangular=False):
    """By the inverse. As stable as substitution up to the matrix's condition (N. J. Higham, Accuracy and Stability of Numerical
    Algorithms, section 14.2.2).
    """
    lower = matrix.transpose(-1, -2) if upper else matrix
    inverse = triangle_inverse(lower, unitriangular)
    inverse = inverse.transpose(-1, -2) if upper else inverse
    return inverse @ right if left else right @ inverse


@rule(aten.triangular_solve.default)
def _triangular_solve(right, matrix, upper=True, transpose=False, unitriangular=False):
    matrix, upper = (matrix.transpose(-1, -2), not upper) if transpose else (matrix, upper)
    return _solve_triangular(
        matrix, right, upper=upper, unitriangular=unitriangular
    ), matrix.clone()


@rule(aten.cholesky_solve.default)
def _cholesky_solve(right, factor, upper=False):
    lower = factor.transpose(-1, -2) if upper else factor
    inverse = triangle_inverse(lower, False)
    return inverse.transpose(-1, -2) @ (inverse @ right)


@rule(aten.cholesky_inverse.default)
def _cholesky_inverse(factor, upper=False):
    inverse = triangle_inverse(factor.transpose(-1, -2) if upper else factor, False)
    return inverse.transpose(-1, -2) @ inverse


@rule(aten._linalg_check_errors.default)
def _no_check(info, api_name, *, is_matrix):
    """A check of the step (requirements.py)."""


# ---- Losses

_NONE, _MEAN = 0, 1  # reductions


def _losses(operator, scores, target, weight, reduction, ignored):
    """PyTorch's formula, but for weights of classes: it multiplies the scores of all classes, of which it takes one."""
    formula = decomposition_table[operator]
    if weight is None:
        return formula(scores, target, None, reduction, ignored)
    counts = target != ignored
    places = torch.where(counts, target, 0).reshape(-1)
    weights = torch.where(counts, weight.index_select(0, places).reshape(target.shape), 0)
    losses = formula(scores, target, None, _NONE, ignored)[0] * weights
    total = weights.sum()
    if reduction == _NONE:
        return losses, total
    return losses.sum() / total if reduction == _MEAN else losses.sum(), total


for _operator in (aten.nll_loss_forward.default, aten.nll_loss2d_forward.default):
    FORMULAS[_operator] = functools.partial(_losses, _operator)


@rule(aten.smooth_l1_loss_backward.default)
def _smooth_l1_backward(grad, x, target, reduction, beta):
    """With the gradient nan at nan, which PyTorch's formula leaves out."""
    grad, difference = grad / x.numel() if reduction == _MEAN else grad, x - target
    middle = torch.where(difference >= beta, grad, difference * grad / beta if beta else 0 * grad)
    return torch.where(difference <= -beta, -grad, middle)


@rule(aten.soft_margin_loss_backward.default)
def _soft_margin_backward(grad, x, target, reduction):
    """PyTorch's formula takes 1 from a sigmoid, and so has no small gradients. As in its kernel, nan where the loss is infinite."""
    power = torch.exp(-target * x)
    slope = -target * grad * power / (1 + power)
    return slope / x.numel() if reduction == _MEAN else slope


# ---- Places in memory


def _in_order(operator, x):
    if not x.is_contiguous():
        error = NotImplementedError(
            f"found strides {tuple(x.stride())} below it, expected a contiguous tensor"
        )
        error.func = operator
        raise error


def _places(size, stride, offset):
    """Where the elements of a view lie in memory."""
    places = np.full((), offset or 0, dtype=np.int64)
    for extent, step in zip(size, stride, strict=True):
        places = places[..., None] + np.arange(extent, dtype=np.int64) * step
    return places


@rule(aten.as_strided.default, aten.as_strided_copy.default)
def _as_strided(x, size, stride, storage_offset=None):
    _in_order(aten.as_strided.default, x)
    places = _places(size, stride, storage_offset)
    if places.max(initial=0) >= max(x.numel(), 1):
        error = NotImplementedError(
            f"found place {places.max()} of a tensor of {x.numel()} elements, expected its own"
        )
        error.func = aten.as_strided.default
        raise error
    if np.array_equal(places.reshape(-1), np.arange(x.numel())):
        return x.reshape(size)
    return x.reshape(-1)[torch.tensor(places.tolist(), dtype=torch.int64)]


def has_own_memory(layout):
    """Whether a tensor's elements lie in order, from the start of its memory."""
    return layout.is_contiguous() and not layout.storage_offset()


def strided_in(x, layout, size, stride, storage_offset=None):
    """`as_strided` of an x whose elements lay as those of `layout` where strides were asked for. Raises NotImplementedError for
    places of others.
    """
    start = layout.storage_offset() if storage_offset is None else storage_offset
    places = _places(size, stride, start)
    own = _places(layout.shape, layout.stride(), layout.storage_offset()).reshape(-1)
    number = np.full(max(places.max(initial=0), own.max(initial=0)) + 1, -1, dtype=np.int64)
    number[own] = np.arange(own.size)
    found = number[places]
    if (found < 0).any():
        error = NotImplementedError(
            f"found places beside the tensor of strides {tuple(layout.stride())} below it, expected its own"
        )
        error.func = aten.as_strided.default
        raise error
    return x.reshape(-1)[torch.tensor(found.tolist(), dtype=torch.int64)]


@rule(aten.as_strided_scatter.default)
def _as_strided_scatter(x, source, size, stride, storage_offset=None):
    _in_order(aten.as_strided_scatter.default, x)
    origin = np.full(x.numel(), -1, dtype=np.int64)
    origin[_places(size, stride, storage_offset).reshape(-1)] = np.arange(math.prod(size))
    hit = torch.tensor((origin >= 0).tolist())
    taken = source.reshape(-1)[torch.tensor(origin.clip(0).tolist(), dtype=torch.int64)]
    return torch.where(hit, taken, x.reshape(-1)).reshape(x.shape)
