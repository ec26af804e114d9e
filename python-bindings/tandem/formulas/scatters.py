"""Scatter reductions: several values per element (formulas.py)."""

import math

import torch

from .formulas import rule

aten = torch.ops.aten


def _neutral(reduce, dtype):
    if reduce == "prod":
        return 1
    if dtype.is_floating_point:
        return -math.inf if reduce == "amax" else math.inf
    bounds = torch.iinfo(dtype)
    return bounds.min if reduce == "amax" else bounds.max


def _by_hits(x, dim, index, src, reduce, include_self):
    """Compares every place with every index: [..., place, index]."""
    base, index, src = (t.movedim(dim, -1) for t in (x, index, src))
    base = base[tuple(slice(size) for size in index.shape[:-1])]
    hits = index[..., None, :] == torch.arange(x.shape[dim])[:, None]
    values = torch.where(hits, src[..., None, :], _neutral(reduce, x.dtype))
    if include_self:
        values = torch.cat([values, base[..., None]], -1)
    found = getattr(values, reduce)(-1)
    return (found if include_self else torch.where(hits.any(-1), found, base)).movedim(-1, dim)


def _within(x, part):
    """x with `part` at the places from 0 on, which an index of fewer elements reaches."""
    if part.shape == x.shape:
        return part
    return x.slice_scatter(part, 0, 0, part.shape[0]) if x.dim() == 1 else _put(x, part)


def _put(x, part):
    inside = torch.ones(part.shape, dtype=torch.bool)
    pads = [n for a, b in zip(x.shape[::-1], part.shape[::-1], strict=True) for n in (0, a - b)]
    inside, part = (torch.nn.functional.pad(t, pads) for t in (inside, part))
    return torch.where(inside, part, x)


def _by_sums(x, dim, index, src, reduce, include_self):
    counts = torch.zeros_like(x).scatter_add(dim, index, torch.ones_like(src))
    if not include_self:
        x = torch.where(counts > 0, torch.zeros_like(x), x)
    total = x.scatter_add(dim, index, src)
    if reduce == "sum":
        return total
    counts = counts + 1 if include_self else counts.clamp(min=1)
    if x.dtype.is_floating_point:
        return total / counts
    return total.div(counts, rounding_mode="floor")


@rule(aten.scatter_reduce.two)
def scatter_reduce(x, dim, index, src, reduce, *, include_self=True):
    """Sums and means, by counting what falls onto each element; extrema and products, by comparing all with each."""
    if not x.dim():
        one = scatter_reduce(
            *(t if isinstance(t, int) else t.reshape(1) for t in (x, 0, index, src)),
            reduce,
            include_self=include_self,
        )
        return one.reshape(())
    dim %= x.dim()
    index = index.reshape(-1) if not index.dim() else index
    src = src.reshape(-1) if not src.dim() else src
    if not index.numel():
        return x.clone()
    src = src[tuple(slice(size) for size in index.shape)]
    if reduce in ("sum", "mean"):
        return _by_sums(x, dim, index, src, reduce, include_self)
    return _within(x, _by_hits(x, dim, index, src, reduce, include_self))


_REDUCES = {"add": "sum", "multiply": "prod"}


@rule(aten.scatter.reduce)
def _scatter_with(x, dim, index, src, *, reduce):
    return scatter_reduce(x, dim, index, src, _REDUCES[reduce])


@rule(aten.scatter.value_reduce)
def _scatter_value_with(x, dim, index, value, *, reduce):
    src = torch.full_like(index, value, dtype=x.dtype)
    return scatter_reduce(x, dim, index, src, _REDUCES[reduce])


@rule(aten.index_reduce.default)
def _index_reduce(x, dim, index, source, reduce, *, include_self=True):
    if not x.dim():
        x, source = x.reshape(1), source.reshape(1)
        return _index_reduce(x, 0, index, source, reduce, include_self=include_self).reshape(())
    shape = [1] * x.dim()
    shape[dim] = -1
    index = index.reshape(shape).expand(source.shape)
    return scatter_reduce(x, dim, index, source, reduce, include_self=include_self)


@rule(aten.nonzero_static.default)
def _nonzero_static(x, *, size, fill_value=-1):
    """The first `size` places of what is not 0, the rest filled: [size, dimensions]."""
    if not x.dim() or not x.numel():
        return torch.full((size, x.dim()), fill_value, dtype=torch.int64)
    mask = (x != 0).reshape(-1)
    order = torch.argsort((~mask).to(torch.int64), stable=True)[:size]
    order = torch.nn.functional.pad(order, (0, size - order.shape[0]))
    columns = []
    for extent in reversed(x.shape):
        columns.append(order % extent)
        order = torch.div(order, extent, rounding_mode="floor")
    places = torch.stack(columns[::-1], 1)
    return torch.where((torch.arange(size) < mask.sum())[:, None], places, fill_value)
