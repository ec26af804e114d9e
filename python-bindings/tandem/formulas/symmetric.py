"""L D L^T of symmetric matrices, with blocks of one or two rows in D, and its solutions; rules of the second trace.

They have no gradients in PyTorch either. Pivots are those of LAPACK's `sytrf` (J. R. Bunch, L. Kaufman, Some Stable
Methods for Calculating Inertia and Solving Symmetric Linear Systems, 1977). Row j of the lower triangle is exchanged
with row `pivots[j]`, counted from 1; two rows of a block have the same, negative.
"""

import math

import torch

from .elimination import limited
from .formulas import aten, rule

_ALPHA = (1 + math.sqrt(17)) / 8
_LARGEST = 64  # rows; they are taken one by one


def _row(matrix, index):
    """Row `index`, (..., 1), of each matrix: (..., columns)."""
    shape = (*matrix.shape[:-2], 1, matrix.shape[-1])
    return matrix.gather(-2, index[..., None].expand(shape)).squeeze(-2)


def _order(size, j, other):
    """All rows but that j and `other`, both (..., 1), are in each other's place."""
    rows = torch.arange(size)
    return torch.where(rows == j, other, torch.where(rows == other, j, rows))


def _reordered(matrix, order):
    return matrix.gather(-2, order[..., None].expand(matrix.shape))


def _pivot(matrix, k):
    """(the row that comes to the diagonal, whether it does so in the second row of a block, whether all is 0), each (..., 1)."""
    rows = torch.arange(matrix.shape[-1])
    column = matrix[..., k].abs()
    own = column[..., k : k + 1]
    largest, place = torch.where(rows > k, column, 0.0).max(-1, keepdim=True)
    place = torch.where(largest > 0, place, k)
    row = _row(matrix, place).abs()
    beside = torch.where((rows >= k) & (rows != place), row, 0.0).amax(-1, keepdim=True)
    beside = torch.where(beside == 0, 1.0, beside)
    stays = (own >= _ALPHA * largest) | (own >= _ALPHA * largest * (largest / beside))
    is_enough = row.gather(-1, place) >= _ALPHA * beside
    return torch.where(stays, k, place), ~stays & ~is_enough, (own == 0) & (largest == 0)


def _eliminated(matrix, k, is_two):
    """(columns k and k + 1 of L, what is left of the matrix), where a block of two rows is taken or one."""
    rows = torch.arange(matrix.shape[-1])
    after = min(k + 1, matrix.shape[-1] - 1)
    first, second = matrix[..., k], matrix[..., after]
    a, b, c = first[..., k : k + 1], first[..., after : after + 1], second[..., after : after + 1]
    divisor = torch.where(is_two, a * c - b * b, a)
    divisor = torch.where(divisor == 0, 1.0, divisor)
    one = torch.where(rows > k, first / divisor, 0.0)
    left = torch.where(rows > k + 1, (c * first - b * second) / divisor, 0.0)
    right = torch.where(is_two & (rows > k + 1), (a * second - b * first) / divisor, 0.0)
    left = torch.where(is_two, left, one)
    taken = left[..., :, None] * first[..., None, :] + right[..., :, None] * second[..., None, :]
    return left, right, matrix - taken


@rule(aten.linalg_ldl_factor_ex.default)
def _ldl_factor(matrix, *, hermitian=False, check_errors=False):
    size = matrix.shape[-1]
    limited(aten.linalg_ldl_factor_ex.default, size, _LARGEST)
    work = matrix.tril() + matrix.tril(-1).mT
    is_second = torch.zeros(*matrix.shape[:-2], 1, dtype=torch.bool)
    columns, pivots, zeros, rows = [], [], [], torch.arange(size)
    before, right = torch.zeros_like(is_second, dtype=torch.int64), None
    for k in range(size):
        place, is_two, is_zero = _pivot(work, k)
        is_two, place = is_two & ~is_second, torch.where(is_second, k, place)
        order = _order(size, torch.where(is_two, k + 1, k), place)
        work = _reordered(_reordered(work, order).mT, order)
        left, following, rest = _eliminated(work, k, is_two)
        left = left if right is None else torch.where(is_second, right, left)
        is_own = (rows == k) | (is_two & (rows == k + 1))
        columns.append(torch.where(is_own, work[..., k], left))
        before = torch.where(is_second, before, torch.where(is_two, -(place + 1), place + 1))
        pivots.append(before)
        zeros.append(torch.where(is_zero & ~is_second, k + 1, size + 1))
        work = torch.where(is_second[..., None], work, rest)
        right, is_second = following, is_two
    if not size:
        none = torch.zeros(matrix.shape[:-1], dtype=torch.int32)
        return matrix.clone(), none, none.sum(-1).to(torch.int32)
    info = torch.cat(zeros, -1).amin(-1)
    info = torch.where(info > size, 0, info).to(torch.int32)
    return torch.stack(columns, -1), torch.cat(pivots, -1).to(torch.int32), info


def _starts(pivots):
    """Whether each row is the first one of a block of two: (..., 1) for each."""
    starts, is_second = [], torch.zeros(*pivots.shape[:-1], 1, dtype=torch.bool)
    for k in range(pivots.shape[-1]):
        is_second = (pivots[..., k : k + 1] < 0) & ~is_second
        starts.append(is_second)
    return starts


def _by_blocks(factors, starts, right):
    """D^-1 right."""
    pad = torch.nn.functional.pad
    own = factors.diagonal(dim1=-2, dim2=-1)
    beside = pad(factors.diagonal(-1, -2, -1), (0, 1)) * starts
    following, below = pad(own[..., 1:], (0, 1)), pad(right[..., 1:, :], (0, 0, 0, 1))
    determinant = torch.where(starts, own * following - beside * beside, 1.0)
    first = (following[..., None] * right - beside[..., None] * below) / determinant[..., None]
    second = (own[..., None] * below - beside[..., None] * right) / determinant[..., None]
    second = pad(second[..., :-1, :], (0, 0, 1, 0))
    is_second = pad(starts[..., :-1], (1, 0))
    chosen = torch.where(is_second[..., None], second, right / own[..., None])
    return torch.where(starts[..., None], first, chosen)


@rule(aten.linalg_ldl_solve.default)
def _ldl_solve(factors, pivots, right, *, hermitian=False):
    size = factors.shape[-1]
    limited(aten.linalg_ldl_solve.default, size, _LARGEST)
    if not size:
        return right.clone()
    batch = torch.broadcast_shapes(factors.shape[:-2], right.shape[:-2])
    factors, pivots = factors.expand(*batch, size, size), pivots.expand(*batch, size)
    right, rows = right.expand(*batch, *right.shape[-2:]), torch.arange(size)
    starts, orders, columns = _starts(pivots), [], []
    for k, is_two in enumerate(starts):
        place, is_alone = (
            pivots[..., k : k + 1].to(torch.int64).abs() - 1,
            pivots[..., k : k + 1] > 0,
        )
        here = torch.where(is_two, k + 1, k)
        orders.append(_order(size, here, torch.where(is_two | is_alone, place, here)))
        columns.append(torch.where(rows > here, factors[..., k], 0.0)[..., None])
    for k in range(size):
        right = _reordered(right, orders[k])
        right = right - columns[k] * right[..., k : k + 1, :]
    right = _by_blocks(factors, torch.cat(starts, -1), right)
    for k in reversed(range(size)):
        part = (columns[k] * right).sum(-2, keepdim=True)
        right = _reordered(torch.where((rows == k)[:, None], right - part, right), orders[k])
    return right
