"""Special functions: Bessel functions, orthogonal polynomials, normal quantiles, Hurwitz's zeta function.

Bessel functions use their integrals, by the trapezoidal rule to rounding (L. N. Trefethen and J. A. C. Weideman, 2014),
and asymptotic series for large arguments. Polynomials use their recurrences. Computed in float64 for every type.
Formulas: NIST's Handbook of Mathematical Functions.
"""

import math

import torch

from .formulas import polynomial, rule

aten = torch.ops.aten


def in_float64(function):
    def computed(*arguments):
        types = [x.dtype for x in arguments if isinstance(x, torch.Tensor)]
        dtype = torch.result_type(*arguments) if len(arguments) > 1 else types[0]
        dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
        wide = [x.to(torch.float64) if isinstance(x, torch.Tensor) else x for x in arguments]
        return function(*wide).to(dtype)

    return computed


# ---- Bessel functions

_NODES = 48
# Beyond these the rule has too few nodes, and the series is exact to rounding (10.17, 10.40).
_FAR_J, _FAR_I, _TERMS = 45.0, 100.0, 16


def _coefficients(order):
    """Of the asymptotic series, 10.17.1."""
    found = [1.0]
    for k in range(1, _TERMS):
        found.append(found[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
    return found


def _angles():
    return (torch.arange(_NODES, dtype=torch.float64) + 0.5) * (math.pi / _NODES)


def scaled_i(order, x):
    """e^-|x| I(|x|)."""
    size = x.abs()
    near, far = size.clamp(max=_FAR_I), size.clamp(min=_FAR_I)
    cosines = torch.cos(_angles())
    waves = torch.exp(near[..., None] * (cosines - 1)) * torch.cos(order * _angles())
    terms = [c * (-1) ** k for k, c in enumerate(_coefficients(order))]
    series = polynomial(1 / far, terms[::-1]) / torch.sqrt(2 * math.pi * far)
    return torch.where(size > _FAR_I, series, waves.mean(-1))


def _signed(x, value):
    return torch.where(x < 0, -value, value)


@rule(aten.special_i0e.default)
@in_float64
def _i0e(x):
    return scaled_i(0, x)


@rule(aten.special_i1e.default)
@in_float64
def _i1e(x):
    return _signed(x, scaled_i(1, x))


@rule(aten.i0.default, aten.special_modified_bessel_i0.default)
@in_float64
def _i0(x):
    return scaled_i(0, x) * torch.exp(x.abs())


@rule(aten.special_i1.default, aten.special_modified_bessel_i1.default)
@in_float64
def _i1(x):
    return _signed(x, scaled_i(1, x) * torch.exp(x.abs()))


def _j(order, x):
    """J(|x|)."""
    size = x.abs()
    near, far = size.clamp(max=_FAR_J), size.clamp(min=_FAR_J)
    waves = torch.cos(order * _angles() - near[..., None] * torch.sin(_angles()))
    even = [c * (-1) ** k for k, c in enumerate(_coefficients(order)[::2])]
    odd = [c * (-1) ** k for k, c in enumerate(_coefficients(order)[1::2])]
    phase = far - (order / 2 + 0.25) * math.pi
    inverse = 1 / (far * far)
    p, q = polynomial(inverse, even[::-1]), polynomial(inverse, odd[::-1]) / far
    series = torch.sqrt(2 / (math.pi * far)) * (p * torch.cos(phase) - q * torch.sin(phase))
    return torch.where(size > _FAR_J, series, waves.mean(-1))


@rule(aten.special_bessel_j0.default)
@in_float64
def order_0(x):
    return _j(0, x)


@rule(aten.special_bessel_j1.default)
@in_float64
def order_1(x):
    return _signed(x, _j(1, x))


@rule(aten.special_spherical_bessel_j0.default)
@in_float64
def _spherical_j0(x):
    value = torch.sin(x) / torch.where(x == 0, 1.0, x)
    return torch.where(x == 0, 1.0, torch.where(x.isinf(), 0.0, value))


# ---- Quantiles, zeta

_STEPS = 8  # of Newton's method for a concave function, from its left


@rule(aten.special_ndtri.default)
@in_float64
def _ndtri(p):
    tail = torch.minimum(p, 1 - p)
    inside = (tail > 0) & (p <= 1)
    safe = torch.where(inside, tail, 0.25)
    x = -torch.sqrt(-2 * torch.log(safe))
    for _ in range(_STEPS):
        below = 0.5 * torch.erfc(-x / math.sqrt(2))
        density = torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        x = x - (torch.log(below) - torch.log(safe)) * below / density
    x = torch.where(p > 0.5, -x, x)
    ends = torch.where(p == 0, -math.inf, torch.where(p == 1, math.inf, torch.nan))
    return torch.where(inside, x, ends)


_SUMMED = 80
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def zeta(s, q):
    """Hurwitz's, by Euler and Maclaurin's formula (25.11.28); `s` is a number or a tensor. Not a number for q below -64."""
    s = torch.as_tensor(s, dtype=torch.float64)
    s, q = torch.broadcast_tensors(s, q)
    total = ((q[..., None] + torch.arange(_SUMMED)) ** -s[..., None]).sum(-1)
    end = q + _SUMMED
    total = total + end ** (1 - s) / (s - 1) + 0.5 * end**-s
    factor = s * end ** (-s - 1)
    for k, number in enumerate(_BERNOULLI, 1):
        total = total + number / math.factorial(2 * k) * factor
        factor = factor * (s + 2 * k - 1) * (s + 2 * k) / (end * end)
    is_pole = (s > 1) & (q <= 0) & (q == q.floor())
    is_nan = (s < 1) | (q < -64) | ((q <= 0) & (s != s.floor()))
    total = torch.where(is_nan, torch.nan, total)
    return torch.where(is_pole | (s == 1), math.inf, total)


rule(aten.special_zeta.default)(in_float64(zeta))

# ---- Orthogonal polynomials

LARGEST_ORDER = 32


def _by_recurrence(first, following):
    """A rule for a polynomial of x and its order n: `first` gives that of order 1, `following(k, x, now, before)` the one of order
    k + 1. The order is data: beyond the largest the value is not a number.
    """

    def evaluate(x, n):
        n = torch.as_tensor(n, dtype=torch.float64).trunc()
        x, n = torch.broadcast_tensors(x, n)
        before, now = torch.ones_like(x), first(x)
        value = torch.where(n == 0, before, torch.where(n < 0, 0.0, now))
        for k in range(1, LARGEST_ORDER):
            before, now = now, following(k, x, now, before)
            value = torch.where(n > k, now, value)
        return torch.where(n > LARGEST_ORDER, torch.nan, value)

    return evaluate


def _chebyshev(k, x, now, before):
    return 2 * x * now - before


_POLYNOMIALS = {
    "chebyshev_polynomial_t": (lambda x: x, _chebyshev),
    "chebyshev_polynomial_u": (lambda x: 2 * x, _chebyshev),
    "chebyshev_polynomial_v": (lambda x: 2 * x - 1, _chebyshev),
    "chebyshev_polynomial_w": (lambda x: 2 * x + 1, _chebyshev),
    "hermite_polynomial_h": (lambda x: 2 * x, lambda k, x, y, z: 2 * x * y - 2 * k * z),
    "hermite_polynomial_he": (lambda x: x, lambda k, x, y, z: x * y - k * z),
    "laguerre_polynomial_l": (
        lambda x: 1 - x,
        lambda k, x, y, z: ((2 * k + 1 - x) * y - k * z) / (k + 1),
    ),
    "legendre_polynomial_p": (
        lambda x: x,
        lambda k, x, y, z: ((2 * k + 1) * x * y - k * z) / (k + 1),
    ),
}


def _shifted(evaluate):
    return lambda x, n: evaluate(2 * x - 1, n)


def _operators(name):
    """The overloads for tensors, and for a number in place of either."""
    packet = getattr(aten, name)
    wanted = ("default", "n_scalar", "x_scalar")
    return [getattr(packet, overload) for overload in wanted if overload in packet.overloads()]


def _of_numbers(function):
    return lambda x, n: function(torch.as_tensor(x, dtype=torch.float64), n)


POLYNOMIALS = [f"special_{_name}" for _name in _POLYNOMIALS]
POLYNOMIALS += [
    f"special_shifted_{_name}" for _name in _POLYNOMIALS if _name.startswith("chebyshev")
]

for _name, _recurrence in _POLYNOMIALS.items():
    _function = _of_numbers(_by_recurrence(*_recurrence))
    rule(*_operators(f"special_{_name}"))(in_float64(_function))
    if _name.startswith("chebyshev"):
        rule(*_operators(f"special_shifted_{_name}"))(in_float64(_shifted(_function)))
