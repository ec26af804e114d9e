"""Bessel functions of the second kind, plain and modified, and Airy's function Ai.

Small arguments use power series. Others use one integral, by the trapezoidal rule to rounding (L. N. Trefethen and
J. A. C. Weideman, 2014): in e^z K(z) = integral of e^(-z (cosh t - 1)) cosh(n t) over t > 0, let
v^2 = z (cosh t - 1). Computed in float64 for every type. Formulas: NIST's Handbook of Mathematical Functions.
"""

import math

import torch

from .formulas import polynomial, rule
from .special_functions import in_float64, order_0, order_1, scaled_i

aten = torch.ops.aten
_EULER = 0.57721566490153286061
_TERMS = 22  # of power series, up to the arguments below
_SMALL_K, _SMALL_Y, _SMALL_AIRY = 1.0, 4.0, 1.0
# Where Ai oscillates the integral needs more distance.
_SMALL_AIRY_LEFT = 2.0
_STEP = 0.16
_NODES = 42  # e^-v^2 is below rounding at the last one


def _nodes():
    """(v, weights with e^-v^2)."""
    v = torch.arange(_NODES, dtype=torch.float64) * _STEP
    weights = torch.exp(-v * v) * _STEP
    return v, torch.where(v == 0, weights / 2, weights)


def _harmonic(k):
    return sum(1 / j for j in range(1, k + 1))


def _series(y, coefficient):
    """The sum of coefficient(k) y^k."""
    return polynomial(y, [coefficient(k) for k in range(_TERMS)][::-1])


def _with_ends(x, value):
    """`value`, and what PyTorch gives at infinity below 0."""
    return torch.where(x >= 0, value, torch.nan)


# ---- Modified: K


def _far_k(order, x):
    """e^x K(x) for x from 1 on."""
    v, weights = _nodes()
    x = x[..., None]
    square = v * v
    numerator = 1 + square / x if order else 1.0
    return (weights * numerator * 2 / torch.sqrt(2 * x + square)).sum(-1)


def _near_k(order, x):
    """10.31.1 and 10.31.2, of x > 0."""
    y, log = x * x / 4, torch.log(x / 2)
    if order == 0:
        rest = _series(y, lambda k: _harmonic(k) / math.factorial(k) ** 2)
        return rest - (log + _EULER) * scaled_i(0, x) * torch.exp(x)

    def psi(k):
        both = _harmonic(k) + _harmonic(k + 1) - 2 * _EULER
        return both / (math.factorial(k) * math.factorial(k + 1))

    return 1 / x + log * scaled_i(1, x) * torch.exp(x) - x / 4 * _series(y, psi)


def _k(order, is_scaled):
    def evaluate(x):
        near = torch.where((x > 0) & (x < _SMALL_K), x, _SMALL_K)
        far = x.clamp(min=_SMALL_K)
        small, large = _near_k(order, near), _far_k(order, far)
        if is_scaled:
            small = small * torch.exp(near)
        else:
            large = large * torch.exp(-far)
        value = torch.where(x < _SMALL_K, small, large)
        return _with_ends(x, torch.where(x == 0, math.inf, value))

    return in_float64(evaluate)


for _order in (0, 1):
    rule(getattr(aten, f"special_modified_bessel_k{_order}").default)(_k(_order, False))
    rule(getattr(aten, f"special_scaled_modified_bessel_k{_order}").default)(_k(_order, True))

# ---- Plain: Y


def _turned(order, x):
    """(a, b): K(-i x) e^(-i x) is e^(i pi/4) sqrt(2/x) (a + i b), for x from about 2 on (10.27.8 makes Hankel's function of it)."""
    v, weights = _nodes()
    q = v / torch.sqrt(2 * x[..., None])  # sinh(t/2) is q e^(i pi/4)
    square = q * q
    root, angle = (1 + square * square) ** 0.25, torch.atan2(square, torch.ones_like(q)) / 2
    share = q * math.sqrt(0.5)
    re, im = share + root * torch.cos(angle), share + root * torch.sin(angle)  # e^(t/2)
    size = order * torch.log(re * re + im * im)
    turn = 2 * order * torch.atan2(im, re)
    even = torch.cosh(size) * torch.cos(turn)
    odd = torch.sinh(size) * torch.sin(turn)
    weights = weights / root
    cos, sin = torch.cos(angle), torch.sin(angle)
    return (weights * (even * cos + odd * sin)).sum(-1), (weights * (odd * cos - even * sin)).sum(
        -1
    )


def _far_y(order, x):
    a, b = _turned(order, x)
    phase = x - (order / 2 + 0.25) * math.pi
    return 2 / math.pi * torch.sqrt(2 / x) * (a * torch.sin(phase) + b * torch.cos(phase))


def _near_y(order, x):
    """10.8.1 and 10.8.2, of x > 0."""
    y, log = -x * x / 4, torch.log(x / 2)
    if order == 0:
        rest = _series(y, lambda k: -_harmonic(k) / math.factorial(k) ** 2)
        return 2 / math.pi * ((log + _EULER) * order_0(x) + rest)

    def psi(k):
        both = _harmonic(k) + _harmonic(k + 1) - 2 * _EULER
        return both / (math.factorial(k) * math.factorial(k + 1))

    rest = -2 / x + 2 * log * order_1(x) - x / 2 * _series(y, psi)
    return rest / math.pi


def _y(order):
    def evaluate(x):
        near = torch.where((x > 0) & (x < _SMALL_Y), x, _SMALL_Y)
        far = x.clamp(min=_SMALL_Y)
        value = torch.where(x < _SMALL_Y, _near_y(order, near), _far_y(order, far))
        return _with_ends(x, torch.where(x == 0, -math.inf, value))

    return in_float64(evaluate)


for _order in (0, 1):
    rule(getattr(aten, f"special_bessel_y{_order}").default)(_y(_order))

# ---- Airy


def _near_airy(x):
    """9.4.1"""
    cube = x * x * x

    def coefficients(shift):
        value, found = 1.0, []
        for k in range(_TERMS):
            found.append(value)
            value = value / ((3 * k + 2 + shift) * (3 * k + 3 + shift))
        return found[::-1]

    at_0 = 3 ** (-2 / 3) / math.gamma(2 / 3), 3 ** (-1 / 3) / math.gamma(1 / 3)
    return at_0[0] * polynomial(cube, coefficients(0)) - at_0[1] * x * polynomial(
        cube, coefficients(1)
    )


def _right_airy(x):
    """9.6.2, for x from about 1 on."""
    z = 2 / 3 * x * torch.sqrt(x)
    v, weights = _nodes()
    s = v / torch.sqrt(2 * z[..., None])
    waves = torch.cosh(2 / 3 * torch.log(s + torch.sqrt(1 + s * s)))
    scaled = (weights * 2 * waves / torch.sqrt(2 * z[..., None] + v * v)).sum(-1)
    return torch.sqrt(x / 3) / math.pi * scaled * torch.exp(-z)


def _left_airy(x):
    """9.6.6, of -x for x from about 2 on."""
    z = 2 / 3 * x * torch.sqrt(x)
    a, b = _turned(1 / 3, z)
    phase = z - math.pi / 4
    factor = torch.sqrt(x / 3) * (2 / math.pi) * torch.sqrt(2 / z)
    return factor * (a * torch.cos(phase) - b * torch.sin(phase))


@rule(aten.special_airy_ai.default)
@in_float64
def _airy(x):
    near = x.clamp(-_SMALL_AIRY_LEFT, _SMALL_AIRY)
    right, left = x.clamp(min=_SMALL_AIRY), (-x).clamp(min=_SMALL_AIRY_LEFT)
    value = torch.where(x > _SMALL_AIRY, _right_airy(right), _near_airy(near))
    value = torch.where(x < -_SMALL_AIRY_LEFT, _left_airy(left), value)
    return torch.where(x.isinf(), torch.nan, value)
