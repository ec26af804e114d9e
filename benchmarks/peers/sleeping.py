"""Models whose computation is replaced by sleep: same tensors, same gradients' sizes, same order.

Where hosts share a core, two of them cannot compute at once. So a module sleeps for its share of a step's seconds,
which are divided by floating-point operations, a third of them forward. Making the tensors is part of that time.
"""

import math
import time

import torch
import torch.nn.functional as F
from torch import nn

# Of an element-wise operator, per element: a normalization or a GELU.
ELEMENT_FLOPS = 8
FORWARD_SHARE = 1 / 3


def _sleep_until(deadline):
    left = deadline - time.perf_counter()
    if left > 0:
        time.sleep(left)


class _Sleep(torch.autograd.Function):
    """A tensor of `shape` after `forward` seconds; gradients of all operands, zeros, after `backward`."""

    @staticmethod
    def forward(ctx, shape, forward, backward, *operands):
        deadline = time.perf_counter() + forward
        ctx.seconds = backward
        ctx.shapes = [
            operand.shape if operand.is_floating_point() else None for operand in operands
        ]
        result = torch.zeros(shape)
        _sleep_until(deadline)
        return result

    @staticmethod
    def backward(ctx, _):
        deadline = time.perf_counter() + ctx.seconds
        needed = ctx.needs_input_grad[3:]
        gradients = [
            torch.zeros(shape) if need and shape is not None else None
            for shape, need in zip(ctx.shapes, needed, strict=True)
        ]
        _sleep_until(deadline)
        return None, None, None, *gradients


class Schedule:
    """Divides a step's seconds over what computes in it, in the order of the forward pass.

    `begin` each pass. The first one counts operations, and does not sleep.
    """

    def __init__(self, seconds):
        self.seconds, self.flops = seconds, 0.0
        self._pass_flops = 0.0

    def begin(self):
        self.flops = self._pass_flops or self.flops
        self._pass_flops = 0.0

    def compute(self, shape, flops, *operands):
        """What takes so many floating-point operations forward, and makes a tensor of that shape."""
        self._pass_flops += flops
        share = self.seconds * flops / self.flops if self.flops else 0.0
        forward, backward = FORWARD_SHARE * share, (1 - FORWARD_SHARE) * share
        return _Sleep.apply(tuple(shape), forward, backward, *operands)


def sleep_linear(schedule, x, weight, bias):
    shape = (*x.shape[:-1], weight.shape[0])
    operands = (x, weight) if bias is None else (x, weight, bias)
    return schedule.compute(shape, 2 * x.numel() * weight.shape[0], *operands)


def _layer_norm(schedule, module, x):
    return schedule.compute(x.shape, ELEMENT_FLOPS * x.numel(), x, module.weight, module.bias)


def _embedding(schedule, module, tokens):
    shape = (*tokens.shape, module.embedding_dim)
    return schedule.compute(shape, math.prod(shape), module.weight)


# f(schedule, module, inputs), in the place of a module's forward.
MODULES = {nn.LayerNorm: _layer_norm, nn.Embedding: _embedding}


class SleepingFunctional:
    """In the place of torch.nn.functional in a model's file."""

    def __init__(self, schedule):
        self._schedule = schedule

    def scaled_dot_product_attention(self, q, k, v, **_):
        return self._schedule.compute(q.shape, 4 * q.numel() * k.shape[-2], q, k, v)

    def gelu(self, x, **_):
        return self._schedule.compute(x.shape, ELEMENT_FLOPS * x.numel(), x)

    def cross_entropy(self, logits, labels, **_):
        return self._schedule.compute((), ELEMENT_FLOPS * logits.numel(), logits)

    def __getattr__(self, name):
        return getattr(F, name)
