"""Cholesky's and Gauss's factors of matrices and their uses: rules of the second trace (formulas.py).

A matrix is factored in blocks of columns: column by column within a block, by matrix products behind it. The number of
operators grows with the columns, so these are limited (`limited`). Within a block no operator names a row of the
matrix, so all blocks share kernels.
"""

import torch

from .formulas import aten, rule, triangle_inverse

_LARGEST = 512  # columns of a matrix that is taken apart in blocks
_BLOCK = 32


def limited(operator, columns, most=_LARGEST):
    """Raises NotImplementedError for a matrix of more columns than `most`."""
    if columns > most:
        error = NotImplementedError(f"found a matrix of {columns} columns, expected at most {most}")
        error.func = operator
        raise error


def blocks_of(count):
    return [(first, min(first + _BLOCK, count)) for first in range(0, count, _BLOCK)]


# ---- Cholesky


def _small_cholesky(matrix):
    """Column by column; each is taken out of what is left."""
    size = matrix.shape[-1]
    is_below = torch.ones(size, size, dtype=torch.bool).tril()
    columns = []
    for j in range(size):
        column = matrix[..., j : j + 1]
        column = column / column[..., j : j + 1, :].sqrt()
        column = torch.where(is_below[:, j : j + 1], column, 0.0)
        matrix = matrix - column * column.mT
        columns.append(column)
    return torch.cat(columns, -1)


def _block_columns(matrix):
    """The columns of the factor, each block with the rows from its diagonal on."""
    while matrix.shape[-1] > _BLOCK:
        corner = _small_cholesky(matrix[..., :_BLOCK, :_BLOCK])
        below = matrix[..., _BLOCK:, :_BLOCK] @ triangle_inverse(corner, False).mT
        yield torch.cat([corner, below], -2)
        matrix = matrix[..., _BLOCK:, _BLOCK:] - below @ below.mT
    yield _small_cholesky(matrix)


@rule(aten.linalg_cholesky_ex.default)
def cholesky(matrix, *, upper=False, check_errors=False):
    size = matrix.shape[-1]
    limited(aten.linalg_cholesky_ex.default, size)
    if not size:
        return matrix.clone(), torch.zeros(matrix.shape[:-2], dtype=torch.int32)
    columns = _block_columns(matrix.mT if upper else matrix)
    pad = torch.nn.functional.pad
    factor = torch.cat([pad(c, (0, 0, size - c.shape[-2], 0)) for c in columns], -1)
    fails = ~(factor.diagonal(dim1=-2, dim2=-1) > 0)
    order = torch.where(fails, torch.arange(1, size + 1), size + 1).amin(-1)
    info = torch.where(order > size, 0, order).to(torch.int32)
    return (factor.mT if upper else factor), info


# ---- Gauss


def _small_elimination(work, free, first, pivot):
    """(places of pivots, L in the columns, what is left of them, rows that are free still), where rows keep their places; a row is free until
    it has given a pivot.
    """
    rows = torch.arange(work.shape[-2])[:, None]
    places, factors, count = [], [], work.shape[-1]
    for j in range(count):
        column = work[..., j : j + 1]
        if pivot:
            place = torch.where(free, column.abs(), -1.0).argmax(-2, keepdim=True)
        else:
            place = torch.full((*work.shape[:-2], 1, 1), first + j)
        row = work.gather(-2, place.expand(*place.shape[:-1], count))
        free = free & (rows != place)
        largest = row[..., j : j + 1]
        factor = torch.where(free, column / torch.where(largest == 0, 1.0, largest), 0.0)
        work = work - factor * row
        places.append(place)
        factors.append(factor)
    return torch.cat(places, -2), torch.cat(factors, -1), work, free


def taken(matrix, order):
    """Rows `order` of each matrix."""
    batch = torch.broadcast_shapes(order.shape[:-1], matrix.shape[:-2])
    index = order[..., None].expand(*batch, order.shape[-1], matrix.shape[-1])
    return matrix.expand(*batch, *matrix.shape[-2:]).gather(-2, index)


def exchanges(order, size):
    """(pivots, order of all `size` rows), where the row that comes in place j is exchanged with the one that is there, for one place
    after the other: with which row, counted from 1.
    """
    rows, pivots = torch.arange(size), []
    present = rows.expand(*order.shape[:-1], size)
    for j in range(order.shape[-1]):
        chosen = order[..., j : j + 1]
        is_chosen = present == chosen
        present = torch.where(is_chosen, present[..., j : j + 1], present)
        present = torch.where(rows == j, chosen, present)
        pivots.append(is_chosen.to(torch.int32).argmax(-1, keepdim=True))
    none = torch.zeros(*order.shape[:-1], 0, dtype=torch.int64)
    return (torch.cat([none, *pivots], -1) + 1).to(torch.int32), present


def eliminate(matrix, pivot=True):
    """(order, L, U): rows `order` of the matrix are L U, where L has ones on its diagonal, which are left out. With `pivot` each
    pivot is the largest element of its column among the rows that are left.
    """
    rows, columns = matrix.shape[-2:]
    count = min(rows, columns)
    free = torch.ones(*matrix.shape[:-1], 1, dtype=torch.bool)
    orders, lowers, uppers, right = [], [], [], matrix
    for first, last in blocks_of(count):
        size = last - first
        places, lower, work, free = _small_elimination(right[..., :size], free, first, pivot)
        order, right = places.squeeze(-1), right[..., size:]
        inverse = triangle_inverse(taken(lower, order), True)
        solved = inverse @ taken(right, order)
        upper = torch.cat([taken(work, order).triu(), solved], -1)
        uppers.append(torch.nn.functional.pad(upper, (first, 0)))
        right = right - torch.where(free, lower, 0.0) @ solved
        orders.append(order)
        lowers.append(lower)
    if not count:
        order = torch.arange(rows).expand(matrix.shape[:-1])
        return order, matrix[..., :0], matrix[..., :0, :]
    order = torch.cat(orders, -1)
    if rows > count:
        order = exchanges(order, rows)[1]
    return order, taken(torch.cat(lowers, -1), order), torch.cat(uppers, -2)


def first_zero(upper):
    """The first column, counted from 1, whose pivot is 0, or 0: what LAPACK says of a factorisation."""
    pivots = upper.diagonal(dim1=-2, dim2=-1)
    if not pivots.shape[-1]:
        return torch.zeros(pivots.shape[:-1], dtype=torch.int32)
    none = pivots.shape[-1] + 1
    column = torch.where(pivots == 0, torch.arange(1, none), none).amin(-1)
    return torch.where(column == none, 0, column).to(torch.int32)


def sign_of(order):
    """Of a permutation: -1 for an odd number of pairs out of order."""
    size = order.shape[-1]
    is_before = torch.ones(size, size, dtype=torch.bool).triu(1)
    count = ((order[..., :, None] > order[..., None, :]) & is_before).sum((-2, -1))
    return 1 - 2 * (count % 2)


def solve_by(factors, right, adjoint=False):
    """The solution of A x = right, or of A^T x = right, by what `eliminate` gives of A."""
    order, lower, upper = factors
    lower, upper = triangle_inverse(lower, True), triangle_inverse(upper.mT, False).mT
    if not adjoint:
        return upper @ (lower @ taken(right, order))
    return taken(lower.mT @ (upper.mT @ right), order.argsort(-1))


@rule(aten.linalg_inv_ex.default)
def _inverse(matrix, *, check_errors=False):
    size = matrix.shape[-1]
    limited(aten.linalg_inv_ex.default, size)
    factors = eliminate(matrix)
    unit = torch.eye(size, dtype=matrix.dtype).expand(matrix.shape)
    return solve_by(factors, unit), first_zero(factors[2])
