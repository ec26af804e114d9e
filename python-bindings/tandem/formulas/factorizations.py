"""Factorisations of matrices: LU, eigenvalues of symmetric matrices, singular values; rules of the second trace.

So gradients are autograd's own formulas. Signs and orders are LAPACK's where it defines them (LU). It leaves signs of
eigenvectors and singular vectors open. A matrix is factored column by column, or rotated pair by pair, so its size is
limited.
"""

import torch

from .elimination import cholesky, eliminate, exchanges, first_zero, limited, solve_by
from .formulas import rule
from .matrices import MOST_ROTATED
from .reflections import qr

aten = torch.ops.aten


def _none(matrix):
    """What stands for a result that was not asked for."""
    return matrix.new_empty((0,))


# ---- LU


def _order_of(pivots, size):
    """Which row of the matrix is row i of L U, where row j was exchanged with row pivots[j], counted from 1."""
    rows = torch.arange(size)
    order = rows.expand(*pivots.shape[:-1], size)
    for j in range(pivots.shape[-1]):
        other = pivots[..., j : j + 1].to(torch.int64) - 1
        source = torch.where(rows == j, other, torch.where(rows == other, j, rows))
        order = order.gather(-1, source)
    return order


def _permutation(order, dtype):
    """P with A = P L U, where row i of L U is row order[i] of A."""
    return (torch.arange(order.shape[-1])[:, None] == order[..., None, :]).to(dtype)


def _packed(lower, upper):
    """U, with L below its diagonal."""
    rows, columns = lower.shape[-2], upper.shape[-1]
    pad = torch.nn.functional.pad
    return pad(lower, (0, columns - lower.shape[-1])) + pad(
        upper, (0, 0, 0, rows - upper.shape[-2])
    )


@rule(aten.linalg_lu_factor_ex.default)
def _lu_factor(matrix, *, pivot=True, check_errors=False):
    count = min(matrix.shape[-2:])
    limited(aten.linalg_lu_factor_ex.default, count)
    order, lower, upper = eliminate(matrix, pivot)
    return (
        _packed(lower, upper),
        exchanges(order[..., :count], matrix.shape[-2])[0],
        first_zero(upper),
    )


@rule(aten.lu_unpack.default)
def _lu_unpack(factors, pivots, unpack_data=True, unpack_pivots=True):
    rows, columns = factors.shape[-2:]
    count = min(rows, columns)
    permutation, lower, upper = (_none(factors) for _ in range(3))
    if unpack_data:
        unit = torch.eye(rows, count, dtype=factors.dtype)
        lower = factors[..., :count].tril(-1) + unit
        upper = factors[..., :count, :].triu()
    if unpack_pivots:
        permutation = _permutation(_order_of(pivots, rows), factors.dtype)
    return permutation, lower, upper


@rule(aten.linalg_lu.default)
def _lu(matrix, *, pivot=True):
    count = min(matrix.shape[-2:])
    limited(aten.linalg_lu.default, count)
    order, lower, upper = eliminate(matrix, pivot)
    unit = torch.eye(matrix.shape[-2], count, dtype=matrix.dtype)
    permutation = _permutation(order, matrix.dtype) if pivot else _none(matrix)
    return permutation, lower + unit, upper


@rule(aten.linalg_lu_solve.default)
def _lu_solve(factors, pivots, right, *, left=True, adjoint=False):
    if not left:
        return _lu_solve(factors, pivots, right.mT, adjoint=not adjoint).mT
    limited(aten.linalg_lu_solve.default, factors.shape[-1])
    order = _order_of(pivots, factors.shape[-1])
    return solve_by((order, factors, factors), right, adjoint)


# ---- Eigenvalues and singular values, by rotations of two columns at a time (C. G. J. Jacobi, 1846; M. R. Hestenes, 1958)

# Columns whose cosine is below this are orthogonal.
_ORTHOGONAL = 1e-11


def _sweeps(columns):
    """So many that all pairs are orthogonal to rounding: convergence is quadratic at the end."""
    return 0 if columns < 2 else 5 + columns.bit_length()


def _rotated(work, rows, total):
    """Makes columns i and total - i (modulo the size) orthogonal in their first `rows` rows."""
    columns = work.shape[-1]
    other = [(total - i) % columns for i in range(columns)]
    partner = work.index_select(-1, torch.tensor(other))
    mine, theirs = work[..., :rows, :], partner[..., :rows, :]
    own = (mine * mine).sum(-2, keepdim=True)
    product = (mine * theirs).sum(-2, keepdim=True)
    apart = (theirs * theirs).sum(-2, keepdim=True) - own
    # Of equal columns one turns one way, the other the other.
    way = torch.tensor([(i < j) - (i > j) for i, j in enumerate(other)], dtype=work.dtype)
    is_idle = (product == 0) | (way == 0)
    ratio = apart / (2 * torch.where(is_idle, 1.0, product))
    sign = torch.where(ratio == 0, way, ratio.sign())
    tangent = torch.where(is_idle, 0.0, sign / (ratio.abs() + torch.sqrt(1 + ratio * ratio)))
    cosine = torch.rsqrt(1 + tangent * tangent)
    return cosine * (work - tangent * partner)


def _cosines(matrix):
    """The largest cosine between two columns; those that are tiny beside the largest are orthogonal to all."""
    gram = matrix.mT @ matrix
    norms = gram.diagonal(dim1=-2, dim2=-1).sqrt()
    floor = torch.finfo(matrix.dtype).eps * norms.amax(-1, keepdim=True)
    norms = torch.maximum(norms, floor)
    away = gram - torch.diag_embed(gram.diagonal(dim1=-2, dim2=-1))
    size = norms[..., :, None] * norms[..., None, :]
    return (away.abs() / torch.where(size == 0, 1.0, size)).amax((-2, -1))


def _orthogonalized(matrix):
    """(G, V, norms of G's columns) with matrix V = G, V orthogonal and G's columns orthogonal, the longest one first. Not numbers where
    the rotations have not got there.
    """
    rows, columns = matrix.shape[-2:]
    unit = torch.eye(columns, dtype=matrix.dtype).expand(*matrix.shape[:-2], columns, columns)
    work = torch.cat([matrix, unit], -2)
    for _ in range(_sweeps(columns)):
        for total in range(columns):
            work = _rotated(work, rows, total)
    norms = work[..., :rows, :].square().sum(-2).sqrt()
    if columns > 1:
        limit = max(_ORTHOGONAL, 1e3 * torch.finfo(matrix.dtype).eps)
        is_done = _cosines(work[..., :rows, :]) < limit
        norms = torch.where(is_done[..., None], norms, torch.nan)
    norms, order = norms.sort(-1, descending=True)
    work = work.gather(-1, order[..., None, :].expand(work.shape))
    return work[..., :rows, :], work[..., rows:, :], norms


@rule(aten._linalg_eigh.default)
def _eigh(matrix, UPLO="L", compute_v=True):  # noqa: N803 - PyTorch's name
    """Of A + c I, whose eigenvalues are none below 0 and its singular values."""
    limited(aten._linalg_eigh.default, matrix.shape[-1], MOST_ROTATED)
    half = matrix.tril() if UPLO.upper() == "L" else matrix.triu()
    whole = half + (half - torch.diag_embed(half.diagonal(dim1=-2, dim2=-1))).mT
    if not matrix.shape[-1]:
        return whole.sum(-1), whole
    bound = whole.abs().sum(-1).amax(-1)[..., None, None]
    moved = whole + bound * torch.eye(matrix.shape[-1], dtype=matrix.dtype)
    _, vectors, norms = _orthogonalized(moved)
    vectors = vectors.flip(-1)
    values = (vectors * (whole @ vectors)).sum(-2)
    return torch.where(norms.flip(-1).isnan(), torch.nan, values), vectors


def _svd_of_tall(matrix, full):
    """(U, S, V). U by reflections of the orthogonal columns: so it is complete also where singular values are 0."""
    turned, right, norms = _orthogonalized(matrix)
    rows, columns = matrix.shape[-2:]
    left, upper = qr(turned, "complete" if full else "reduced")
    sign = torch.where(upper.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).to(matrix.dtype)
    sign = torch.nn.functional.pad(sign, (0, left.shape[-1] - columns), value=1.0)
    return left * sign[..., None, :], norms, right


@rule(aten._linalg_svd.default)
def _svd(matrix, full_matrices=False, compute_uv=True, *, driver=None):
    rows, columns = matrix.shape[-2:]
    limited(aten._linalg_svd.default, min(rows, columns), MOST_ROTATED)
    if not compute_uv:
        norms = _orthogonalized(matrix if rows >= columns else matrix.mT)[2]
        return _none(matrix), norms, _none(matrix)
    if rows >= columns:
        left, norms, right = _svd_of_tall(matrix, full_matrices)
        return left, norms, right.mT
    right, norms, left = _svd_of_tall(matrix.mT, full_matrices)
    return left, norms, right.mT


@rule(aten.linalg_pinv.atol_rtol_tensor)
def _pinv(matrix, *, atol=None, rtol=None, hermitian=False):
    """Singular values up to the tolerance are taken for 0."""
    if hermitian:
        values, vectors = _eigh(matrix)
        sizes, left, right = values.abs(), vectors, vectors
    else:
        left, sizes, right = _svd(matrix)
        values, right = sizes, right.mT
    atol = torch.zeros(()) if atol is None else atol
    if rtol is None:
        share = torch.finfo(matrix.dtype).eps * max(matrix.shape[-2:])
        rtol = torch.where(atol > 0, 0.0, share)
    limit = torch.maximum(atol[..., None], rtol[..., None] * sizes.amax(-1, keepdim=True))
    kept = sizes > limit
    inverse = torch.where(kept, 1.0 / torch.where(kept, values, 1.0), 0.0)
    return (right * inverse[..., None, :]) @ left.mT


@rule(aten.cholesky.default)
def _cholesky(matrix, upper=False):
    return cholesky(matrix, upper=upper)[0]
