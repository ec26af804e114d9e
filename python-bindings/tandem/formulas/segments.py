"""Segment reductions of rows, by lengths or by offsets.

Segments are data, so each one has all rows; rows of other segments are neutral.
"""

import math

import torch

from ..tracing.reads import require

_NEUTRAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


class _Extreme(torch.autograd.Function):
    """Of equal ones each has its share of the gradient; what is no number is one of the best, as in PyTorch."""

    @staticmethod
    def forward(ctx, rows, inside, reduce, dim):
        found = rows.amax(dim) if reduce == "max" else rows.amin(dim)
        is_best = inside & ((rows == found.unsqueeze(dim)) | rows.isnan())
        ctx.dim = dim
        ctx.save_for_backward(is_best.to(rows.dtype) / is_best.sum(dim, keepdim=True).clamp(min=1))
        return found

    @staticmethod
    def backward(ctx, grad):
        (share,) = ctx.saved_tensors
        return grad.unsqueeze(ctx.dim) * share, None, None, None


def _bounds(lengths, offsets, size, is_checked):
    """(first row, row behind the last one) of each segment."""
    if offsets is not None:
        return offsets[..., :-1], offsets[..., 1:]
    if is_checked:
        require("a length of a segment", lengths, lengths >= 0, "a number from 0 on")
        total = lengths.sum(-1)
        require("the sum of lengths of segments", total, total == size, f"{size}")
    ends = lengths.cumsum(-1)
    return ends - lengths, ends


def _with_initial(found, reduce, initial):
    if reduce in ("sum", "mean"):
        return found + initial
    if reduce == "prod":
        return found * initial
    is_better = found < initial if reduce == "max" else found > initial
    return torch.where(is_better, initial, found)


def _mean(total, counts, initial):
    mean = total / counts.clamp(min=1)
    return torch.where(counts > 0, mean, math.nan if initial is None else initial)


def segment_reduce(
    data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None
):
    """[..., rows, ...] to [..., segments, ...] in the dimension `axis`. None for what PyTorch refuses."""
    if reduce not in _NEUTRAL or (lengths is None) == (offsets is None) or indices is not None:
        return None
    axis %= data.dim()
    begins, ends = _bounds(lengths, offsets, data.shape[axis], not unsafe)
    places = torch.arange(data.shape[axis])
    inside = (places >= begins[..., None]) & (places < ends[..., None])
    inside = inside.reshape(inside.shape + (1,) * (data.dim() - axis - 1))
    rows = torch.where(inside, data.unsqueeze(axis), _NEUTRAL[reduce])
    if reduce in ("max", "min"):
        found = _Extreme.apply(rows, inside, reduce, axis + 1)
    else:
        found = rows.prod(axis + 1) if reduce == "prod" else rows.sum(axis + 1)
    if initial is not None:
        found = _with_initial(found, reduce, initial)
    return _mean(found, inside.sum(axis + 1), initial) if reduce == "mean" else found
