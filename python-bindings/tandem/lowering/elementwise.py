"""Elementwise operators. Type promotion is PyTorch's: the traced node knows the result type."""

import math

import torch

from .records import Value
from .registry import LOWERINGS, Unsupported, lowers

_FLOAT_UNARY = [
    "exp",
    "exp2",
    "log",
    "log2",
    "log10",
    "log1p",
    "expm1",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "erf",
    "erfc",
    "silu",
]
_ANY_UNARY = ["neg", "abs", "sign", "floor", "ceil", "relu"]


def _unary(name):
    def lower(b, x):
        return b.unary(name, b.convert(x, b.out.dtype))

    return lower


for _name in (*_FLOAT_UNARY, *_ANY_UNARY):
    LOWERINGS[_name] = _unary(_name)


@lowers("round")
def _round(b, x, decimals=0):
    if not decimals:
        return b.unary("round", x)
    power = 10.0 ** abs(decimals)
    there, back = ("mul", "div") if decimals > 0 else ("div", "mul")
    return b.binary(back, b.unary("round", b.binary(there, x, power)), power)


@lowers("trunc")
def _trunc(b, x):
    return b.select(b.compare("lt", x, 0), b.unary("ceil", x), b.unary("floor", x), x.dtype)


@lowers("square")
def _square(b, x):
    return b.binary("mul", x, x)


@lowers("tan")
def _tan(b, x):
    x = b.convert(x, b.out.dtype)
    return b.binary("div", b.unary("sin", x), b.unary("cos", x))


# Above this e^-x no longer counts beside e^x.
_LARGE_EXPONENT = 40.0


def _half_exp(b, x):
    """e^x / 2 without overflow where the result has none: x - 1 is exact for large x."""
    return b.binary("mul", b.unary("exp", b.binary("sub", x, 1.0)), math.e / 2)


@lowers("sinh")
def _sinh(b, x):
    x = b.convert(x, b.out.dtype)
    size = b.unary("abs", x)
    difference = b.binary("sub", b.unary("expm1", x), b.unary("expm1", b.unary("neg", x)))
    large = b.binary("mul", b.unary("sign", x), _half_exp(b, size))
    small = b.binary("mul", difference, 0.5)
    return b.select(b.compare("gt", size, _LARGE_EXPONENT), large, small, x.dtype)


@lowers("cosh")
def _cosh(b, x):
    x = b.convert(x, b.out.dtype)
    size = b.unary("abs", x)
    total = b.binary("add", b.unary("exp", x), b.unary("exp", b.unary("neg", x)))
    small = b.binary("mul", total, 0.5)
    return b.select(b.compare("gt", size, _LARGE_EXPONENT), _half_exp(b, size), small, x.dtype)


@lowers("atanh")
def _atanh(b, x):
    x = b.convert(x, b.out.dtype)
    difference = b.binary("sub", b.unary("log1p", x), b.unary("log1p", b.unary("neg", x)))
    return b.binary("mul", difference, 0.5)


@lowers("atan")
def _atan(b, x):
    return b.binary("atan2", b.convert(x, b.out.dtype), 1.0)


# From here on sqrt(x^2 + 1) is x in float64; x^2 is far from overflow, in float32 too.
_LARGE = 1e9


def _log_of_double(b, x):
    """ln(2 x) without overflow."""
    return b.binary("add", b.unary("log", x), math.log(2))


@lowers("asinh")
def _asinh(b, x):
    """sign(x) log1p(|x| + x^2 / (1 + sqrt(x^2 + 1))): exact near zero."""
    x = b.convert(x, b.out.dtype)
    size, square = b.unary("abs", x), b.binary("mul", x, x)
    root = b.unary("sqrt", b.binary("add", square, 1.0))
    inner = b.binary("add", size, b.binary("div", square, b.binary("add", root, 1.0)))
    small, large = b.unary("log1p", inner), _log_of_double(b, size)
    value = b.select(b.compare("gt", size, _LARGE), large, small, x.dtype)
    return b.binary("mul", b.unary("sign", x), value)


@lowers("acosh")
def _acosh(b, x):
    """log1p(t + sqrt(t (x + 1))) with t = x - 1: exact near one."""
    x = b.convert(x, b.out.dtype)
    rest = b.binary("sub", x, 1.0)
    root = b.unary("sqrt", b.binary("mul", rest, b.binary("add", x, 1.0)))
    small = b.unary("log1p", b.binary("add", rest, root))
    return b.select(b.compare("gt", x, _LARGE), _log_of_double(b, x), small, x.dtype)


def _complement(b, x):
    """sqrt(1 - x^2), exact near one."""
    less, more = b.binary("sub", 1.0, x), b.binary("add", 1.0, x)
    return b.unary("sqrt", b.binary("mul", less, more))


@lowers("asin")
def _asin(b, x):
    x = b.convert(x, b.out.dtype)
    return b.binary("atan2", x, _complement(b, x))


@lowers("acos")
def _acos(b, x):
    x = b.convert(x, b.out.dtype)
    return b.binary("atan2", _complement(b, x), x)


@lowers("signbit")
def _signbit(b, x):
    if not x.dtype.is_floating_point:
        return b.compare("lt", b.convert(x, torch.int64), 0)
    return b.compare("lt", b.binary("copysign", b.full(x.shape, 1, x.dtype), x), 0)


@lowers("isnan")
def _isnan(b, x):
    return b.compare("ne", x, x)


@lowers("isinf")
def _isinf(b, x):
    return b.compare("eq", b.unary("abs", x), math.inf)


def _truth(b, x):
    return b.convert(x, torch.bool) if isinstance(x, Value) else b.constant(bool(x), torch.bool)


@lowers("logical_not")
def _logical_not(b, x):
    return b.unary("logical_not", _truth(b, x))


@lowers("bitwise_not")
def _bitwise_not(b, x):
    if x.dtype != torch.bool:
        return b.binary("sub", -1, x)
    return b.unary("logical_not", x)


def _logical(name, bitwise):
    def lower(b, x, y):
        if bitwise and b.out.dtype != torch.bool:
            return b.binary(name, x, y, b.out.dtype)
        return b.elementwise(name, [_truth(b, x), _truth(b, y)], torch.bool)

    return lower


for _name in ("and", "or", "xor"):
    LOWERINGS[f"logical_{_name}"] = _logical(f"logical_{_name}", False)
    LOWERINGS[f"bitwise_{_name}"] = LOWERINGS[f"__{_name}__"] = _logical(f"logical_{_name}", True)


@lowers("add")
def _add(b, x, y, alpha=1):
    if b.out.dtype == torch.bool:
        return b.elementwise("logical_or", [_truth(b, x), _truth(b, y)], torch.bool)
    return b.binary("add", x, _scaled(b, y, alpha), b.out.dtype)


@lowers("sub")
def _sub(b, x, y, alpha=1):
    return b.binary("sub", x, _scaled(b, y, alpha), b.out.dtype)


@lowers("rsub")
def _rsub(b, x, y, alpha=1):
    return b.binary("sub", y, _scaled(b, x, alpha), b.out.dtype)


def _scaled(b, x, alpha):
    if alpha == 1:
        return x
    return b.binary("mul", x, alpha, b.out.dtype) if isinstance(x, Value) else x * alpha


@lowers("mul")
def _mul(b, x, y):
    if b.out.dtype == torch.bool:
        return b.elementwise("logical_and", [_truth(b, x), _truth(b, y)], torch.bool)
    return b.binary("mul", x, y, b.out.dtype)


@lowers("div")
def _div(b, x, y, rounding_mode=None):
    dtype = b.out.dtype
    if rounding_mode == "floor":
        return b.binary("floor_divide", x, y, dtype)
    quotient = b.binary("div", x, y, dtype)
    return _trunc(b, quotient) if rounding_mode == "trunc" and dtype.is_floating_point else quotient


@lowers("floor_divide")
def _floor_divide(b, x, y):
    return b.binary("floor_divide", x, y, b.out.dtype)


@lowers("remainder")
def _remainder(b, x, y):
    return b.binary("remainder", x, y, b.out.dtype)


@lowers("fmod")
def _fmod(b, x, y):
    dtype = b.out.dtype
    if dtype.is_floating_point:
        # The remainder of the sizes is exact, x - trunc(x / y) y is not.
        x, y = b.as_value(x, dtype), b.as_value(y, dtype)
        rest = b.binary("remainder", b.unary("abs", x), b.unary("abs", y))
        return b.select(b.compare("lt", x, 0), b.unary("neg", rest), rest, dtype)
    quotient = b.binary("div", x, y, dtype)
    return b.binary("sub", x, b.binary("mul", quotient, y, dtype), dtype)


@lowers("maximum")
def _maximum(b, x, y):
    return b.binary("maximum", x, y, b.out.dtype)


@lowers("minimum")
def _minimum(b, x, y):
    return b.binary("minimum", x, y, b.out.dtype)


@lowers("atan2")
def _atan2(b, x, y):
    return b.binary("atan2", x, y, b.out.dtype)


@lowers("copysign")
def _copysign(b, x, y):
    return b.binary("copysign", x, y, b.out.dtype)


@lowers("clamp", "clip")
def _clamp(b, x, min=None, max=None):
    x = b.convert(x, b.out.dtype)
    x = b.binary("maximum", x, min) if min is not None else x
    return b.binary("minimum", x, max) if max is not None else x


@lowers("clamp_min")
def _clamp_min(b, x, min):
    return _clamp(b, x, min)


@lowers("clamp_max")
def _clamp_max(b, x, max):
    return _clamp(b, x, None, max)


@lowers("pow")
def _pow(b, x, exponent):
    dtype = b.out.dtype
    x = b.as_value(x, dtype)
    if not isinstance(exponent, Value):
        return _power_of_number(b, x, exponent)
    return b.binary("pow", x, exponent, dtype)


def _power_of_number(b, x, exponent):
    """The powers that PyTorch computes without `pow`."""
    if exponent == 0:
        return b.full(x.shape, 1, x.dtype)
    if exponent == 1:
        return x
    if exponent in (2, 3):
        square = b.binary("mul", x, x)
        return square if exponent == 2 else b.binary("mul", square, x)
    if exponent == 0.5:
        return b.unary("sqrt", x)
    if exponent == -0.5:
        return b.unary("rsqrt", x)
    if exponent in (-1, -2):
        return b.unary("reciprocal", x if exponent == -1 else b.binary("mul", x, x))
    return b.binary("pow", x, exponent)


def _comparison(predicate):
    def lower(b, x, y):
        dtype = _promoted(x, y)
        return b.compare(predicate, b.as_value(x, dtype), b.as_value(y, dtype))

    return lower


def _promoted(x, y):
    def sample(operand):
        return (
            torch.empty((1,) * min(len(operand.shape), 1), dtype=operand.dtype)
            if isinstance(operand, Value)
            else operand
        )

    return torch.result_type(sample(x), sample(y))


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    LOWERINGS[_name] = _comparison(_name)


@lowers("where")
def _where(b, condition, x=None, y=None):
    if x is None:
        raise Unsupported("the shape of its result depends on data")
    return b.select(_truth(b, condition), x, y, b.out.dtype)


@lowers("masked_fill")
def _masked_fill(b, x, mask, value):
    return b.select(mask, value, x, b.out.dtype)


@lowers("gelu")
def _gelu(b, x, approximate="none"):
    return b.unary("gelu", x, approximate=approximate)


@lowers("gelu_backward")
def _gelu_backward(b, gradient, x, approximate="none"):
    return b.binary("gelu_backward", gradient, x, approximate=approximate)


@lowers("silu_backward")
def _silu_backward(b, gradient, x):
    return b.binary("silu_backward", gradient, x)


@lowers("threshold_backward")
def _threshold_backward(b, gradient, x, threshold):
    return b.select(b.compare("le", x, threshold), 0, gradient, b.out.dtype)


# PyTorch's kernels have the slope as a float, also in float64.
_SIXTH = torch.tensor(1 / 6, dtype=torch.float32).item()


@lowers("hardsigmoid_backward")
def _hardsigmoid_backward(b, gradient, x):
    inside = b.binary(
        "logical_and", b.compare("gt", x, -3), b.compare("lt", x, 3), dtype=torch.bool
    )
    return b.select(inside, b.binary("mul", gradient, _SIXTH), 0, b.out.dtype)


@lowers("tanh_backward")
def _tanh_backward(b, gradient, y):
    return b.binary("mul", gradient, b.binary("sub", 1, b.binary("mul", y, y)))


@lowers("sigmoid_backward")
def _sigmoid_backward(b, gradient, y):
    return b.binary("mul", gradient, b.binary("mul", y, b.binary("sub", 1, y)))


@lowers("addcmul")
def _addcmul(b, x, y, z, value=1):
    product = b.binary("mul", y, z, b.out.dtype)
    return b.binary("add", x, _scaled(b, product, value), b.out.dtype)


@lowers("addcdiv")
def _addcdiv(b, x, y, z, value=1):
    quotient = b.binary("div", y, z, b.out.dtype)
    return b.binary("add", x, _scaled(b, quotient, value), b.out.dtype)


@lowers("lerp")
def _lerp(b, x, y, weight):
    """From the nearer end, as PyTorch."""
    difference, dtype = b.binary("sub", y, x), b.out.dtype
    known = b.splat_number(weight) if isinstance(weight, Value) else weight
    if known is None or abs(known) < 0.5:
        start = b.binary("add", x, b.binary("mul", difference, weight))
    if known is None or abs(known) >= 0.5:
        rest = 1 - weight if known is weight else b.binary("sub", 1, weight)
        end = b.binary("sub", y, b.binary("mul", difference, rest))
    if known is None:
        return b.select(b.compare("lt", b.unary("abs", weight), 0.5), start, end, dtype)
    return start if abs(known) < 0.5 else end


@lowers("_to_copy", "convert_element_type", "to")
def _to_copy(b, x, *_, **__):
    return b.convert(x, b.out.dtype)


@lowers("copy", "copy_")
def _copy(b, x, source, *_, **__):
    return b.expand(b.convert(source, x.dtype), x.shape)


@lowers(
    "clone",
    "alias",
    "detach",
    "detach_",
    "lift_fresh_copy",
    "lift",
    "lift_fresh",
    "contiguous",
    "_conj",
    "view_of",
)
def _identity(b, x, **_):
    return x
