"""Histograms: counts of elements, or sums of their weights, between edges (formulas.py).

An element at the last edge is in the last bin. NaN is in no bin.
"""

import math

import torch

from .formulas import rule

aten = torch.ops.aten


def _by_hits(places, inside, weights, bins, dtype):
    """[bins]: the sum of the weights, or the count, of each place."""
    hits = (places[:, None] == torch.arange(bins)) & inside[:, None]
    if weights is None:
        return hits.sum(0).to(dtype)
    return torch.where(hits, weights[:, None], 0.0).sum(0)


@rule(aten.histc.default)
def histc(x, bins=100, min=0, max=0):  # noqa: A002
    """How many elements fall into each of `bins` equal parts of [min, max], of all elements if both are equal."""
    x, low, high = x.flatten(), min, max
    if low == high:
        low, high = x.min(), x.max()
        apart = torch.where(low == high, 1.0, 0.0)
        low, high = low - apart, high + apart
    place = ((x - low) * bins / (high - low)).floor().clamp(max=bins - 1)
    return _by_hits(place, (x >= low) & (x <= high), None, bins, x.dtype)


def _ends(values, given):
    """The first and the last edge: of all elements if none are given."""
    if given is not None:
        low, high = (torch.full((), value, dtype=values.dtype) for value in given)
    elif not values.numel():
        low, high = torch.zeros((), dtype=values.dtype), torch.ones((), dtype=values.dtype)
    else:
        low, high = values.min(), values.max()
    apart = torch.where(low == high, 0.5, 0.0)
    return low - apart, high + apart


def _equal_bins(values, count, given):
    """count + 1 edges, as torch.linspace rounds them: each from the nearer end."""
    low, high = _ends(values, given)
    places = torch.arange(count + 1)
    step = (high - low) / count
    from_end = high - step * (count - places)
    return torch.where(places < (count + 1) // 2, low + step * places, from_end)


def _counts(columns, edges, weights, density, dtype):
    """[bins of each column] of columns of one length."""
    sizes = [len(e) - 1 for e in edges]
    place = torch.zeros_like(columns[0], dtype=torch.int64)
    inside = torch.ones_like(columns[0], dtype=torch.bool)
    for x, ends, size in zip(columns, edges, sizes, strict=True):
        found = torch.searchsorted(ends.contiguous(), x.contiguous(), right=True) - 1
        place = place * size + found.clamp(max=size - 1)
        inside = inside & (x >= ends[0]) & (x <= ends[-1])
    found = _by_hits(place, inside, weights, math.prod(sizes), dtype).reshape(sizes)
    if not density:
        return found
    found = found / found.sum()
    for dim, ends in enumerate(edges):
        shape = [1] * len(sizes)
        shape[dim] = -1
        found = found / (ends[1:] - ends[:-1]).reshape(shape)
    return found


def _flat(weights):
    return None if weights is None else weights.reshape(-1)


@rule(aten.histogram.bins_tensor)
def _histogram_between(x, bins, *, weight=None, density=False):
    flat = x.reshape(-1)
    return _counts([flat], [bins], _flat(weight), density, x.dtype), bins.clone()


@rule(aten.histogram.bin_ct)
def _histogram(x, bins=100, *, range=None, weight=None, density=False):  # noqa: A002
    flat = x.reshape(-1)
    edges = _equal_bins(flat, bins, range)
    return _counts([flat], [edges], _flat(weight), density, x.dtype), edges


def _columns(x):
    return x.reshape(-1, x.shape[-1]).unbind(-1)


@rule(aten._histogramdd_bin_edges.default)
def _edges(x, bins, *, range=None, weight=None, density=False):  # noqa: A002
    columns = _columns(x)
    ends = [None] * len(columns)
    if range is not None:
        ends = [range[2 * i : 2 * i + 2] for i, _ in enumerate(columns)]
    return [_equal_bins(*each) for each in zip(columns, bins, ends, strict=True)]


@rule(aten._histogramdd_from_bin_cts.default)
def _histogramdd(x, bins, *, range=None, weight=None, density=False):  # noqa: A002
    edges = _edges(x, bins, range=range)
    return _counts(_columns(x), edges, _flat(weight), density, x.dtype)


@rule(aten._histogramdd_from_bin_tensors.default)
def _histogramdd_between(x, bins, *, weight=None, density=False):
    return _counts(_columns(x), bins, _flat(weight), density, x.dtype)
