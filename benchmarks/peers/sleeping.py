"""Models whose computation is replaced by sleep: same tensors, same gradient sizes, same order.

Hosts that share a core cannot compute at once. So a module sleeps for its share of a step's seconds, divided by
floating-point operations, a third of them forward. Python and PyTorch between modules take no time, and late sleeps do
not add up, as with Tandem's commands (runtime/cpu/timed.h). Only waiting counts.
"""

import math
import time

import torch
import torch.nn.functional as F
from torch import nn

# Of an element-wise operator, per element: a normalization or a GELU.
ELEMENT_FLOPS = 8
FORWARD_SHARE = 1 / 3


class Clock:
    """When the device has done what it was given. A module begins when the one before it ended, however late the
    thread comes to it, unless the thread has waited in between, for a collective or a CPU.
    """

    # Of time in which the thread had no CPU: what a lock or the kernel may take without anyone waiting.
    LEAST_WAIT = 1e-4

    def start(self):
        self._free = self._left = time.perf_counter()
        self._cpu = time.thread_time()

    def sleep(self, seconds):
        now = time.perf_counter()
        waited = now - self._left - (time.thread_time() - self._cpu)
        if waited > self.LEAST_WAIT:
            # Not before the wait is over, which began at the earliest when the last module ended.
            self._free = max(self._free, self._left + waited)
        self._free += seconds
        if self._free > now:
            time.sleep(self._free - now)
        self._left, self._cpu = time.perf_counter(), time.thread_time()


class Sleep(torch.autograd.Function):
    """A tensor of `shape` after `forward` seconds; gradients of all operands, zeros, after `backward`."""

    @staticmethod
    def forward(ctx, clock, shape, forward, backward, *operands):
        ctx.clock, ctx.seconds = clock, backward
        ctx.shapes = [
            operand.shape if operand.is_floating_point() else None for operand in operands
        ]
        result = torch.zeros(shape)
        clock.sleep(forward)
        return result

    @staticmethod
    def backward(ctx, _):
        needed = ctx.needs_input_grad[4:]
        gradients = [
            torch.zeros(shape) if need and shape is not None else None
            for shape, need in zip(ctx.shapes, needed, strict=True)
        ]
        ctx.clock.sleep(ctx.seconds)
        return None, None, None, None, *gradients


class Schedule:
    """Divides a step's seconds over what computes in it, in the order of the forward pass.

    `begin` each pass. The first one counts operations, and does not sleep.
    """

    def __init__(self, seconds):
        self.seconds, self.flops = seconds, 0.0
        self._pass_flops = 0.0
        self.clock = Clock()

    def begin(self):
        self.clock.start()
        self.flops = self._pass_flops or self.flops
        self._pass_flops = 0.0

    def compute(self, shape, flops, *operands):
        """What takes so many floating-point operations forward, and makes a tensor of that shape."""
        self._pass_flops += flops
        share = self.seconds * flops / self.flops if self.flops else 0.0
        forward, backward = FORWARD_SHARE * share, (1 - FORWARD_SHARE) * share
        return Sleep.apply(self.clock, tuple(shape), forward, backward, *operands)


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
