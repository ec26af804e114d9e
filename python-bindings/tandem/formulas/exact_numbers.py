"""Operators with exact results: divisors of integers, exponents and neighbours of floating-point numbers."""

import math

import torch

from .formulas import rule

aten = torch.ops.aten

# ---- Integers


def _rounds(dtype):
    """So many has Euclid's algorithm at most: consecutive numbers of Fibonacci take longest (Lame)."""
    return math.ceil(torch.iinfo(dtype).bits * math.log(2) / math.log((1 + math.sqrt(5)) / 2))


@rule(aten.gcd.default)
def gcd(x, y):
    """In PyTorch's order, which is seen where the least number, of which there is no absolute value, gives a sign."""
    dtype = torch.promote_types(x.dtype, y.dtype)
    y, x = torch.broadcast_tensors(x.to(dtype).abs(), y.to(dtype).abs())
    for _ in range(_rounds(dtype)):
        rest = torch.fmod(x, torch.where(y == 0, 1, y))
        x, y = torch.where(y == 0, x, y), torch.where(y == 0, 0, rest)
    return x


@rule(aten.lcm.default)
def _lcm(x, y):
    """Of narrow types as if these were wider, and then cut."""
    divisor, dtype = gcd(x, y), torch.promote_types(x.dtype, y.dtype)
    wide = torch.promote_types(dtype, torch.int32)
    x, y, divisor = (t.to(wide) for t in (x, y, torch.where(divisor == 0, 1, divisor)))
    return (torch.div(x, divisor, rounding_mode="trunc") * y).abs().to(dtype)


# ---- Floating-point numbers, in float64, which has those of all other types

_LEAST, _LARGEST = -1074, 1023  # exponents of the powers of two in float64
_LOG_2 = math.log(2)


def _power(exponent):
    """2^exponent, exactly."""
    powers = torch.tensor([2.0**k for k in range(_LEAST, _LARGEST + 1)], dtype=torch.float64)
    place = (exponent - _LEAST).clamp(0, _LARGEST - _LEAST)
    return powers.index_select(0, place.reshape(-1)).reshape(exponent.shape)


def _scaled(x, exponent):
    """x 2^exponent in three steps, as a product of all may not be a number."""
    third = torch.div(exponent, 3, rounding_mode="trunc")
    return x * _power(third) * _power(third) * _power(exponent - 2 * third)


def _split(x):
    """(m, e): x = m 2^e with |m| in [1/2, 1), of float64; (x, 0) of zeros and of what is not finite."""
    plain = x.isfinite() & (x != 0)
    safe = torch.where(plain, x, 1.0)
    exponent = (torch.log(safe.abs()) / _LOG_2).floor().to(torch.int64) + 1
    share = _scaled(safe, -exponent)
    for _ in range(2):  # as the logarithm is rounded
        change = (share.abs() >= 1).to(torch.int64) - (share.abs() < 0.5).to(torch.int64)
        exponent, share = exponent + change, share * _power(-change)
    return torch.where(plain, share, x), torch.where(plain, exponent, 0)


@rule(aten.frexp.Tensor)
def _frexp(x):
    share, exponent = _split(x.to(torch.float64))
    return share.to(x.dtype), exponent.to(torch.int32)


@rule(aten.nextafter.default)
def _nextafter(x, y):
    dtype = torch.promote_types(x.dtype, y.dtype)
    info = torch.finfo(dtype)
    digits = 1 - round(math.log2(info.eps))
    least = round(math.log2(info.tiny)) + 1 - digits
    x, y = torch.broadcast_tensors(x.to(torch.float64), y.to(torch.float64))
    largest = torch.copysign(torch.full_like(x, info.max), x)
    share, exponent = _split(x)
    inwards = (y < x) == (x > 0)
    # Below a power of two numbers are closer.
    exponent = exponent - (inwards & (share.abs() == 0.5)).to(torch.int64)
    gap = _power((exponent - digits).clamp(min=least))
    moved = torch.where(y > x, x + gap, x - gap)
    # What becomes zero keeps its sign.
    moved = torch.where(moved == 0, torch.copysign(moved, x), moved)
    end = torch.full_like(x, 2.0**least)
    moved = torch.where(x == 0, torch.copysign(end, y), moved)
    moved = torch.where(x.isinf(), largest, moved)
    moved = torch.where(x == y, y, moved)
    return torch.where(x.isnan() | y.isnan(), torch.nan, moved).to(dtype)
