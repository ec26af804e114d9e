"""Random operators as draws of counter-based random bits. `tandem.random` draws the same for eager.

`nn.philox` gives 32 bits per linear index. `rand` uses as many of the high bits as the element type
has digits; `randn` is Box and Muller's method on the bits at 2 i and 2 i + 1.
"""

import math

import torch

from ..random import MANTISSA_BITS, keep_threshold
from .registry import lowers

# Names of random operators that have a lowering.
SUPPORTED_RANDOM = (
    "bernoulli",
    "rand",
    "rand_like",
    "randn",
    "randn_like",
    "uniform",
    "normal_functional",
    "native_dropout",
)


def _bits(b, index):
    return b.emit("philox", [index, b.seed, b.step], index.type, ordinal=b.ordinal)


def _element_bits(b, shape):
    return _bits(b, b.linear_index(shape))


def _keep(b, shape, probability):
    """i1: true with `probability`, a number or a value of that shape."""
    if isinstance(probability, (int, float)):
        return b.compare("lt", _element_bits(b, shape), keep_threshold(probability))
    scaled = b.binary("mul", b.convert(probability, torch.float64), 2.0**32)
    return b.compare(
        "lt", _element_bits(b, shape), b.convert(b.unary("floor", scaled), torch.int64)
    )


@lowers("bernoulli")
def _bernoulli(b, x, p=None, generator=None):
    return b.convert(_keep(b, b.out.shape, x if p is None else p), b.out.dtype)


@lowers("native_dropout")
def _native_dropout(b, x, p, train):
    if train is False:
        return [x, b.full(x.shape, True, torch.bool)]
    kept = _keep(b, x.shape, 1 - p)
    scale = 1 / (1 - p) if p < 1 else 0.0
    return [b.binary("mul", b.binary("mul", x, b.convert(kept, x.dtype)), scale), kept]


def _uniform(b, shape, dtype):
    digits = MANTISSA_BITS[dtype]
    high = b.binary("floor_divide", _element_bits(b, shape), 2 ** (32 - digits))
    return b.binary("mul", b.convert(high, dtype), 2.0**-digits)


@lowers("rand", "rand_like")
def _rand(b, *_, **__):
    return _uniform(b, b.out.shape, b.out.dtype)


@lowers("uniform")
def _uniform_between(b, x, low=0.0, high=1.0, generator=None):
    return b.binary("add", b.binary("mul", _uniform(b, x.shape, x.dtype), high - low), low)


def _normal(b, shape, dtype):
    even = b.binary("mul", b.linear_index(shape), 2)
    first = b.convert(_bits(b, even), torch.float64)
    second = b.convert(_bits(b, b.binary("add", even, 1)), torch.float64)
    # (first + 1) / 2^32 lies in (0, 1], so that its logarithm is finite.
    radius = b.unary("log", b.binary("mul", b.binary("add", first, 1.0), 2.0**-32))
    radius = b.unary("sqrt", b.binary("mul", radius, -2.0))
    angle = b.unary("cos", b.binary("mul", second, 2 * math.pi * 2.0**-32))
    return b.convert(b.binary("mul", radius, angle), dtype)


@lowers("randn", "randn_like")
def _randn(b, *_, **__):
    return _normal(b, b.out.shape, b.out.dtype)


@lowers("normal_functional")
def _normal_with(b, x, mean=0.0, std=1.0, generator=None):
    return b.binary("add", b.binary("mul", _normal(b, x.shape, x.dtype), std), mean)
