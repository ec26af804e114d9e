"""Reflections (A. S. Householder, 1958): QR, and products of reflections with matrices; rules of the second trace.

They use blocks of columns, like Gauss's factors (elimination.py). Reflections H_1 ... H_k of one block are I - V T V^T,
where column i of V is the vector of H_i (R. Schreiber, C. Van Loan, A Storage-Efficient WY Representation, 1989).
"""

import torch

from .elimination import blocks_of, limited
from .formulas import aten, rule, triangle_inverse


def _reflected(work):
    """(R in the columns, V, taus of the columns): column j becomes 0 below row j, by I - tau v v^T, where v is 0 above row j and 1 in it. As
    in LAPACK, a column that is 0 there stays, with tau = 0.
    """
    shape = work.shape[-2:]
    is_below = torch.ones(shape, dtype=torch.bool).tril(-1)
    unit = torch.eye(*shape, dtype=work.dtype)
    vectors, taus = [], []
    for j in range(min(shape)):
        column = work[..., j : j + 1]
        below = torch.where(is_below[:, j : j + 1], column, 0.0)
        alpha, rest = column[..., j : j + 1, :], (below * below).sum(-2, keepdim=True)
        is_done = rest == 0
        beta = -torch.copysign(torch.sqrt(alpha * alpha + rest), alpha)
        tau = torch.where(is_done, 0.0, (beta - alpha) / torch.where(is_done, 1.0, beta))
        vector = below / torch.where(is_done, 1.0, alpha - beta) + unit[:, j : j + 1]
        work = work - tau * vector * (vector * work).sum(-2, keepdim=True)
        vectors.append(vector)
        taus.append(tau)
    return work, torch.cat(vectors, -1), torch.cat(taus, -1)


def _together(vectors, taus):
    """T of a block: D (I + S D)^-1, where D has the taus, and S is V^T V above its diagonal."""
    upper = (vectors.mT @ vectors).triu(1) * taus
    inverse = triangle_inverse(upper.mT, True).mT
    return taus.mT * inverse


def _turned(vectors, taus, other, transpose=False):
    """H_1 ... H_k other, or H_k ... H_1 other."""
    together = _together(vectors, taus)
    return other - vectors @ ((together.mT if transpose else together) @ (vectors.mT @ other))


@rule(aten.geqrf.default)
def reflections(matrix, *, operator=aten.geqrf.default):
    """(R, with the vectors v below its diagonal, and tau)"""
    rows, columns = matrix.shape[-2:]
    count = min(rows, columns)
    limited(operator, count)
    if not count:
        return matrix.clone(), matrix.new_zeros(*matrix.shape[:-2], 0)
    pad = torch.nn.functional.pad
    packed, taus, rest = [], [], matrix
    above = matrix[..., :0, :]  # the finished rows of what is left
    for first, last in blocks_of(count):
        size = last - first
        work, vectors, own = _reflected(rest[..., :size])
        block = work.triu() + vectors.tril(-1)
        packed.append(torch.cat([above[..., :size], block[..., : rows - first, :]], -2))
        turned = _turned(vectors, own, rest[..., size:], transpose=True)
        above = torch.cat([above[..., size:], turned[..., :size, :]], -2)
        # Zeros below keep the height, so that blocks have equal kernels.
        rest = pad(turned[..., size:, :], (0, 0, 0, size))
        taus.append(own.squeeze(-2))
    if columns > count:
        packed.append(above)
    return torch.cat(packed, -1), torch.cat(taus, -1)


def multiplied(vectors, taus, other, transpose=False):
    """Q other, of the Q whose reflections `geqrf` gives, or its transpose's."""
    count = taus.shape[-1]
    unit = torch.eye(vectors.shape[-2], count, dtype=vectors.dtype)
    vectors = vectors[..., :count].tril(-1) + unit
    blocks = blocks_of(count)
    for first, last in blocks if transpose else reversed(blocks):
        own = taus[..., None, first:last]
        other = _turned(vectors[..., first:last], own, other, transpose)
    return other


@rule(aten.linalg_qr.default)
def qr(matrix, mode="reduced"):
    rows, columns = matrix.shape[-2:]
    packed, taus = reflections(matrix, operator=aten.linalg_qr.default)
    count = rows if mode == "complete" else min(rows, columns)
    upper = packed[..., :count, :].triu()
    if mode == "r":
        return matrix.new_empty((0,)), upper
    unit = torch.eye(rows, count, dtype=matrix.dtype).expand(*matrix.shape[:-2], rows, count)
    return multiplied(packed, taus, unit), upper


@rule(aten.ormqr.default)
def _ormqr(vectors, taus, other, left=True, transpose=False):
    limited(aten.ormqr.default, taus.shape[-1])
    if left:
        return multiplied(vectors, taus, other, transpose)
    return multiplied(vectors, taus, other.mT, not transpose).mT
