"""A mixture of experts divided over the processes, as in GShard: all-to-all sends tokens and returns them."""

import functools
import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from .sleeping import ELEMENT_FLOPS

# A layer's parameters whose first dimension is that of the experts.
PARTS = ("w1", "b1", "w2", "b2")


class _AllToAll(torch.autograd.Function):
    """Exchanges equal blocks of the first dimension, one per process."""

    @staticmethod
    def forward(ctx, x):
        result = torch.empty_like(x)
        dist.all_to_all_single(result, x)
        return result

    @staticmethod
    def backward(ctx, gradient):
        return _AllToAll.apply(gradient.contiguous())


def exchange(x, size):
    """(size * e, g, ...) of this process's groups -> (e, size * g, ...) of this process's experts."""
    blocks = _AllToAll.apply(x.reshape(size, -1, *x.shape[1:]).contiguous())
    return blocks.transpose(0, 1).flatten(1, 2)


def exchange_back(x, size):
    blocks = x.unflatten(1, (size, -1)).transpose(0, 1).contiguous()
    return _AllToAll.apply(blocks).flatten(0, 1)


def divide_experts(moe):
    """Leaves a MoE layer of the examples this process's experts, and the exchange of tokens."""
    moe.size, rank = dist.get_world_size(), dist.get_rank()
    if moe.experts % moe.size:
        raise ValueError(f"experts = {moe.experts}, expected a multiple of {moe.size}")
    own = slice(rank * moe.experts // moe.size, (rank + 1) * moe.experts // moe.size)
    for name in PARTS:
        part = nn.Parameter(getattr(moe, name).detach()[own].clone())
        # The loss is the mean over processes of what each has computed.
        part.register_hook(lambda gradient: gradient / moe.size)
        setattr(moe, name, part)
    moe.forward = functools.partial(_forward, moe)


def _forward(moe, x):
    tokens = x.reshape(-1, moe.group * x.shape[1], x.shape[2])
    dispatch, combine, balance = moe.route(tokens)
    y = exchange(torch.einsum("gtec,gtm->egcm", dispatch, tokens), moe.size)
    y = F.gelu(torch.einsum("egcm,emh->egch", y, moe.w1) + moe.b1[:, None])
    y = torch.einsum("egch,ehm->egcm", y, moe.w2) + moe.b2[:, None]
    y = torch.einsum("gtec,egcm->gtm", combine, exchange_back(y, moe.size))
    return y.reshape(x.shape), balance


class Counts:
    """Operations of a MoE layer's forward pass on `x`, with the experts that this process has."""

    def __init__(self, moe, x):
        batch, sequence, self.width = x.shape
        self.groups, tokens = batch // moe.group, moe.group * sequence
        self.capacity = max(1, math.ceil(moe.capacity * moe.k * tokens / moe.experts))
        local, _, hidden = moe.w1.shape
        places = moe.experts * self.groups * self.capacity
        self.combine = 2 * places * tokens * self.width
        self.route = 2 * x.numel() * moe.experts + self.combine
        seen = local * self.groups * (moe.experts // local) * self.capacity
        self.compute = seen * hidden * (4 * self.width + ELEMENT_FLOPS)


def sleep_moe(schedule, moe, x):
    """All experts on each process, or those that `divide_experts` has left."""
    counts, weights = Counts(moe, x), [getattr(moe, name) for name in PARTS]
    if not hasattr(moe, "size"):
        flops = counts.route + counts.compute + counts.combine
        return schedule.compute(x.shape, flops, x, moe.gate.weight, *weights), torch.zeros(())
    shape = (moe.experts, counts.groups, counts.capacity, counts.width)
    y = schedule.compute(shape, counts.route, x, moe.gate.weight)
    y = exchange(y, moe.size)
    y = schedule.compute(y.shape, counts.compute, y, *weights)
    y = exchange_back(y, moe.size)
    return schedule.compute(x.shape, counts.combine, y), torch.zeros(())
