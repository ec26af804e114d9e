"""Random operators as draws of counter-based random bits. `tandem.random` draws the same for eager.

`nn.philox` gives 32 bits per linear index. `rand` uses as many of the high bits as the element type
has digits; `randn` is Box and Muller's method on the bits at 2 i and 2 i + 1.
"""

import math

import torch

from ..random import MANTISSA_BITS, keep_threshold
from .reductions import _sort
from .registry import Unsupported, lowers

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
    "exponential",
    "cauchy",
    "geometric",
    "log_normal",
    "randint",
    "randint_like",
    "random",
    "randperm",
    "multinomial",
    "rrelu_with_noise_functional",
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


def _exponential_of(b, shape):
    """In double precision; (bits + 1) / 2^32 lies in (0, 1]."""
    bits = b.convert(_element_bits(b, shape), torch.float64)
    return b.unary("neg", b.unary("log", b.binary("mul", b.binary("add", bits, 1.0), 2.0**-32)))


@lowers("exponential")
def _exponential(b, x, rate=1.0, generator=None):
    return b.convert(b.binary("mul", _exponential_of(b, x.shape), 1.0 / rate), x.dtype)


@lowers("cauchy")
def _cauchy(b, x, median=0.0, sigma=1.0, generator=None):
    bits = b.convert(_element_bits(b, x.shape), torch.float64)
    places = b.binary("mul", b.binary("add", bits, 0.5), 2.0**-32)
    angle = b.binary("mul", b.binary("sub", places, 0.5), math.pi)
    slope = b.binary("div", b.unary("sin", angle), b.unary("cos", angle))
    return b.convert(b.binary("add", b.binary("mul", slope, sigma), median), x.dtype)


@lowers("geometric")
def _geometric(b, x, p, generator=None):
    rate = -math.log1p(-p) if p < 1 else math.inf
    tries = b.unary("ceil", b.binary("div", _exponential_of(b, x.shape), rate))
    return b.convert(b.binary("maximum", tries, 1.0), x.dtype)


@lowers("log_normal")
def _log_normal(b, x, mean=1.0, std=2.0, generator=None):
    drawn = _normal(b, x.shape, torch.float64)
    drawn = b.binary("add", b.binary("mul", drawn, std), mean)
    return b.convert(b.unary("exp", drawn), x.dtype)


def _integers(b, low, high):
    """Of the result's shape and type, from `low` on below `high`."""
    if not 0 < high - low <= 2**31:
        raise Unsupported(f"found integers from {low} on below {high}, expected at most 2^31")
    product = b.binary("mul", _element_bits(b, b.out.shape), high - low)
    drawn = b.binary("floor_divide", product, 2**32)
    return b.convert(b.binary("add", drawn, low), b.out.dtype)


@lowers("randint")
def _randint(b, *bounds_and_size, **_):
    *bounds, _ = bounds_and_size
    return _integers(b, *([0] * (2 - len(bounds))), *bounds)


@lowers("randint_like")
def _randint_like(b, x, *bounds, **_):
    return _integers(b, *([0] * (2 - len(bounds))), *bounds)


@lowers("random")
def _random(b, x, *bounds, generator=None):
    if not bounds or bounds[-1] is None:
        raise Unsupported("found no bounds, expected random_(from, to)")
    return _integers(b, *([0] * (2 - len(bounds))), *bounds)


@lowers("randperm")
def _randperm(b, count, **_):
    places = _sort(b, _element_bits(b, (count,)), 0, False)[1]
    return b.convert(places, b.out.dtype)


@lowers("multinomial")
def _multinomial(b, weights, count, replacement=False, generator=None):
    """The largest of weights over exponential numbers; with replacement by the sums of weights."""
    dim, weights = len(weights.shape) - 1, b.convert(weights, torch.float64)
    if not replacement or count == 1:
        ratio = b.binary("div", weights, _exponential_of(b, weights.shape))
        return b.slice(_sort(b, ratio, dim, True)[1], dim, 0, count)
    sums = b.emit("cumsum", [weights], weights.type, dim=dim)
    size = weights.shape[dim]
    total = b.slice(sums, dim, size - 1, size)
    drawn = b.binary("mul", _uniform(b, b.out.shape, torch.float64), total)
    shape = (*b.out.shape, size)
    sums = b.expand(b.reshape(sums, (*sums.shape[:-1], 1, size)), shape)
    below = b.compare("le", sums, b.expand(b.reshape(drawn, (*b.out.shape, 1)), shape))
    places = b.sum(b.convert(below, torch.int64), [len(shape) - 1])
    used = b.select(b.compare("gt", weights, 0.0), b.iota(weights.shape, dim), -1, torch.int64)
    last = b.reduce("max", used, [dim], True)
    return b.binary("minimum", places, last)


@lowers("rrelu_with_noise_functional")
def _rrelu(b, x, noise, lower=1 / 8, upper=1 / 3, training=False, generator=None):
    if not training:
        scaled = b.binary("mul", x, (lower + upper) / 2)
        return [b.select(b.compare("le", x, 0.0), scaled, x, x.dtype), noise]
    drawn = b.binary("add", b.binary("mul", _uniform(b, x.shape, x.dtype), upper - lower), lower)
    noise = b.select(b.compare("le", x, 0.0), drawn, 1.0, x.dtype)
    return [b.binary("mul", x, noise), noise]
