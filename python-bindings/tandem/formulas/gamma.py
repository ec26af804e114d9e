"""The logarithm of the gamma function and its derivatives, by Stirling's series.

Source: NIST's Handbook of Mathematical Functions, 5.11. Arguments below 8 are raised to 8 by the recurrence, those below
1/2 are reflected. Computed in float64 for every type, since terms cancel.
"""

import math

import torch

from .formulas import polynomial, rule
from .special_functions import zeta

aten = torch.ops.aten
_FROM = 8  # from here on the series is exact to float64's rounding
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def _series(z, coefficients):
    """The sum of coefficient k times z^(-2 k), from k = 0."""
    return polynomial(1 / (z * z), coefficients[::-1])


def _raised(x, combine):
    """(z, what the recurrence adds up to): x + 8 where x is below it."""
    is_low = x < _FROM
    steps = combine([x + k for k in range(_FROM)])
    return torch.where(is_low, x + _FROM, x), is_low, steps


def stirling(z):
    """What the logarithm of gamma(z) has beside (z - 1/2) log z - z + log(2 pi) / 2, for z from 8 on."""
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)]
    return _series(z, terms) / z


def _log_gamma(x):
    z, is_low, product = _raised(x, math.prod)
    # So that infinity gives infinity.
    whole = (z - 0.5) * (torch.log(z) - 1) - 0.5 + 0.5 * math.log(2 * math.pi)
    return whole + stirling(z) - torch.log(torch.where(is_low, product, 1.0))


def _digamma(x):
    z, is_low, total = _raised(x, lambda steps: sum(1 / step for step in steps))
    terms = [b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)]
    whole = torch.log(z) - 0.5 / z - _series(z, terms) / (z * z)
    return whole - torch.where(is_low, total, 0.0)


def _trigamma(x):
    z, is_low, total = _raised(x, lambda steps: sum(1 / (step * step) for step in steps))
    whole = 1 / z + 0.5 / (z * z) + _series(z, list(_BERNOULLI)) / (z * z * z)
    return whole + torch.where(is_low, total, 0.0)


def _from_integer(x):
    return x - torch.round(x)


def _from_integer_or_zero(x):
    """PyTorch's trigamma is finite at its poles but 0, by what pi is rounded to."""
    return torch.where(x == torch.round(x), x, _from_integer(x))


def _reflected(function, join, distance=_from_integer):
    """`join(angle, value at 1 - x)` below 1/2; the angle is pi times the distance to the next integer."""

    def lower(x):
        wide = x.to(torch.float64)
        is_left = wide < 0.5
        value = function(torch.where(is_left, 1 - wide, wide))
        angle = math.pi * distance(wide)
        return torch.where(is_left, join(angle, value), value).to(x.dtype)

    return lower


_lgamma_of_all = _reflected(
    _log_gamma, lambda angle, value: torch.log(math.pi / torch.sin(angle).abs()) - value
)


@rule(aten.lgamma.default)
def lgamma(x):
    return torch.where(x == -math.inf, math.inf, _lgamma_of_all(x))


_digamma_of_all = _reflected(
    _digamma, lambda angle, value: value - math.pi * torch.cos(angle) / torch.sin(angle)
)


@rule(aten.digamma.default)
def digamma(x):
    """At its poles not a number, but on either side of 0."""
    is_pole = (x <= 0) & (x == torch.floor(x))
    side = torch.where(x == 0, torch.copysign(torch.full_like(x, math.inf), -x), math.nan)
    return torch.where(is_pole, side, _digamma_of_all(x))


_trigamma_of_all = _reflected(
    _trigamma,
    lambda angle, value: (math.pi / torch.sin(angle)).square() - value,
    _from_integer_or_zero,
)


@rule(aten.polygamma.default)
def polygamma(n, x):
    if n == 0:
        return digamma(x)
    if n > 1:
        value = zeta(n + 1, x.to(torch.float64)) * (math.factorial(n) * (-1) ** (n + 1))
        return value.to(x.dtype)
    return _trigamma_of_all(x)
