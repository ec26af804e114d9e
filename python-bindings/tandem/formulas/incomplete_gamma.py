"""The incomplete gamma functions P (igamma) and Q (igammac), by integrals with one peak that begin at it.

Source: NIST's Handbook of Mathematical Functions, 8.2, with u = x e^r:

    Q(a, x) = D a integral of e^(a r - x (e^r - 1)) over r > 0, for x >= a,
    P(a, x) = D (1 + x integral of e^(-a r - r + x (1 - e^-r)) over r > 0), for x <= a,    D = x^a e^-x / Gamma(a + 1),

by Gauss and Legendre's rule on parts of the axis. Computed in float64 for every type.
"""

import math

import numpy as np
import torch

from .formulas import polynomial, rule
from .gamma import lgamma, stirling
from .special_functions import in_float64

aten = torch.ops.aten
# In units of the width of the hump: ends of parts, with as many nodes in each. Behind the last one it is below rounding.
_ENDS, _COUNT = (0.0, 2.0, 6.0, 14.0, 28.0, 50.0), 14
_SERIES = 3e-3  # up to here five terms are exact to rounding
_FROM = 8.0  # from here on Stirling's series is exact to rounding


def _nodes():
    nodes, weights = np.polynomial.legendre.leggauss(_COUNT)
    places, shares = [], []
    for start, end in zip(_ENDS, _ENDS[1:], strict=False):
        places += ((nodes + 1) / 2 * (end - start) + start).tolist()
        shares += (weights * (end - start) / 2).tolist()
    return torch.tensor(places, dtype=torch.float64), torch.tensor(shares, dtype=torch.float64)


def _beyond(r):
    """e^r - 1 - r"""
    near = r * r * polynomial(r, [1 / math.factorial(k) for k in range(6, 1, -1)])
    return torch.where(r.abs() < _SERIES, near, torch.expm1(r) - r)


def _factor(a, x):
    """x^a e^-x / Gamma(a + 1), of large a without a difference of large numbers."""
    large = a.clamp(min=_FROM)
    hump = torch.exp(-large * _beyond(torch.log1p((x - large) / large)) - stirling(large))
    hump = hump / torch.sqrt(2 * math.pi * large)
    small = a.clamp(max=_FROM)
    plain = torch.exp(small * torch.log(x) - x - lgamma(small + 1))
    return torch.where(a > _FROM, hump, plain)


def _integral(exponent, width):
    """Of e^exponent(r) over r > 0."""
    nodes, weights = _nodes()
    r = nodes * width[..., None]
    return (weights * torch.exp(exponent(r))).sum(-1) * width


def _upper(a, x):
    a, x = a[..., None], x[..., None]
    width = 1 / (x - a + torch.sqrt(a) + 1)
    return _integral(lambda r: (a - x) * r - x * _beyond(r), width.squeeze(-1))


def _lower(a, x):
    a, x = a[..., None], x[..., None]
    width = 1 / (a - x + torch.sqrt(x) + 1)
    return _integral(lambda r: (x - a - 1) * r - x * _beyond(-r), width.squeeze(-1))


def _both(a, x):
    """(P, Q) of positive finite numbers."""
    is_upper = x >= torch.maximum(a, torch.ones_like(a))
    factor = _factor(a, x)
    far = torch.where(is_upper, x, a + 1)
    near = torch.where(is_upper, torch.minimum(a, x), x)
    upper, lower = factor * a * _upper(a, far), factor * (1 + x * _lower(a, near))
    upper, lower = upper.clamp(max=1.0), lower.clamp(max=1.0)
    return torch.where(is_upper, 1 - upper, lower), torch.where(is_upper, upper, 1 - lower)


def _with_ends(a, x):
    a, x = torch.broadcast_tensors(a, x)
    fine = (a > 0) & (x > 0) & ~a.isinf() & ~x.isinf()
    lower, upper = _both(torch.where(fine, a, 1.0), torch.where(fine, x, 1.0))
    is_nan = (a < 0) | (x < 0) | ((a == 0) & ~(x > 0)) | (a.isinf() & x.isinf())
    at_0, at_1 = (x == 0) | a.isinf(), (a == 0) | x.isinf()
    ends = torch.where(at_0, 0.0, torch.where(at_1, 1.0, torch.nan))
    ends = torch.where(is_nan, torch.nan, ends)
    return torch.where(fine, lower, ends), torch.where(fine, upper, 1 - ends)


@rule(aten.igamma.default)
@in_float64
def _igamma(a, x):
    return _with_ends(a, x)[0]


@rule(aten.igammac.default)
@in_float64
def _igammac(a, x):
    return _with_ends(a, x)[1]
