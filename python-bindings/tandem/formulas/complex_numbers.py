"""Complex numbers as pairs of real tensors, in the second trace.

The `nn` dialect has real numbers only. Complex ones occur within a step, as in rotary embeddings that multiply by
e^(i angle). This file writes each complex operator with real ones; other operators are an error.
"""

import functools
import math
from dataclasses import dataclass

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from ..tracing.origins import name_of

aten = torch.ops.aten
_CONTIGUOUS = torch.contiguous_format
REAL = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}


@dataclass(frozen=True)
class Pair:
    """re + i im: two tensors of one shape, that of both broadcast, or two numbers."""

    re: object
    im: object

    def __post_init__(self):
        if isinstance(self.re, torch.Tensor) and self.re.shape != self.im.shape:
            shape = torch.broadcast_shapes(self.re.shape, self.im.shape)
            for name in ("re", "im"):  # in memory of its own: it may be written to
                part = getattr(self, name).expand(shape).clone(memory_format=_CONTIGUOUS)
                object.__setattr__(self, name, part)


def _is_complex(value):
    return isinstance(value, (Pair, complex)) or (isinstance(value, torch.dtype) and value in REAL)


def constants_of(graph):
    """{name: pair} of the complex tensors that a traced graph holds."""
    nodes = (node for node in graph.graph.nodes if node.op == "get_attr")
    values = {node.target: getattr(graph, node.target) for node in nodes}
    # No operators of the trace.
    with _disable_current_modes():
        return {
            name: Pair(value.resolve_conj().real.clone(), value.resolve_conj().imag.clone())
            for name, value in values.items()
            if isinstance(value, torch.Tensor) and value.is_complex()
        }


def _pair(value):
    """A real tensor or number as a pair."""
    if isinstance(value, Pair):
        return value
    if isinstance(value, torch.Tensor):
        return Pair(value, aten.zeros_like.default(value))
    return Pair(complex(value).real, complex(value).imag)


def _multiply(op, x, y):
    """Any bilinear operator."""
    if not isinstance(x, Pair):
        return Pair(op(x, y.re), op(x, y.im))
    if not isinstance(y, Pair):
        return Pair(op(x.re, y), op(x.im, y))
    return Pair(op(x.re, y.re) - op(x.im, y.im), op(x.re, y.im) + op(x.im, y.re))


def _conjugate(x):
    return Pair(x.re, -x.im)


def _norm(x):
    """|x|^2"""
    return x.re * x.re + x.im * x.im


def _times(x, y):
    return _multiply(lambda a, b: a * b, x, y)


def _divide(x, y):
    if not isinstance(y, Pair):
        return Pair(x.re / y, x.im / y)
    numerator, size = _times(_pair(x), _conjugate(y)), _norm(y)
    return Pair(numerator.re / size, numerator.im / size)


def _add(x, y, alpha=1, sign=1):
    x, y = _pair(x), _pair(y)
    return Pair(x.re + sign * alpha * y.re, x.im + sign * alpha * y.im)


def _power(x, exponent):
    """By products, for small whole numbers."""
    count = exponent.re if isinstance(exponent, Pair) else exponent
    if not isinstance(count, (int, float)) or count not in range(1, 5):
        error = NotImplementedError("found a power of complex numbers, expected 1, 2, 3 or 4")
        error.func = aten.pow.Tensor_Scalar
        raise error
    return functools.reduce(_times, [x] * int(count))


def _sgn(x):
    """x / |x|, and 0 for 0."""
    size = _abs(x)
    size = torch.where(size == 0, torch.ones_like(size), size)
    return Pair(x.re / size, x.im / size)


def _abs(x):
    """Without overflow of the squares."""
    size = torch.maximum(x.re.abs(), x.im.abs())
    safe = torch.where(size == 0, torch.ones_like(size), size)
    return size * torch.sqrt((x.re / safe) ** 2 + (x.im / safe) ** 2)


def _addcmul(x, y, z, *, value=1):
    return _add(x, _times(_pair(y), z), value)


def _addcdiv(x, y, z, *, value=1):
    return _add(x, _divide(_pair(y), z), value)


def _add_product(op, x, y, z, *, beta=1, alpha=1):
    return _add(_times(_pair(beta), x), _multiply(op, y, z), alpha)


def _lerp(x, y, weight):
    """From the nearer end, as PyTorch."""
    difference = _add(y, x, sign=-1)
    size = _abs(_pair(weight)) if isinstance(weight, Pair) else abs(weight)
    start, end = _add(x, _times(difference, weight)), _add(y, _times(difference, _rest(weight)), -1)
    if isinstance(size, torch.Tensor):
        return _where(size < 0.5, start, end)
    return start if size < 0.5 else end


def _rest(weight):
    return _add(1.0, weight, sign=-1) if isinstance(weight, Pair) else 1 - weight


def _dot(x, y):
    product = _times(_pair(x), y)
    return Pair(product.re.sum(), product.im.sum())


def _product(x, dim=None, keepdim=False, dtype=None):
    """By halves, of one dimension or of all."""
    whole = dim is None
    x = _reshaped(x, -1) if whole else Pair(x.re.movedim(dim, -1), x.im.movedim(dim, -1))
    while x.re.shape[-1] > 1:
        half, count = x.re.shape[-1] // 2, x.re.shape[-1]
        first, second, last = (
            Pair(x.re[..., a:b], x.im[..., a:b])
            for a, b in ((0, half), (half, 2 * half), (2 * half, count))
        )
        both = _times(first, second)
        x = Pair(torch.cat([both.re, last.re], -1), torch.cat([both.im, last.im], -1))
    if not x.re.shape[-1]:
        ones = torch.ones_like(x.re.sum(-1))
        x = Pair(ones, torch.zeros_like(ones))
    else:
        x = Pair(x.re[..., 0], x.im[..., 0])
    return Pair(x.re.unsqueeze(dim), x.im.unsqueeze(dim)) if keepdim and not whole else x


def _products(x, dim, dtype=None):
    """Of the first elements, by steps of 1, 2, 4, ... elements."""
    x = Pair(x.re.movedim(dim, -1), x.im.movedim(dim, -1)) if x.re.dim() else x
    step, count = 1, x.re.shape[-1] if x.re.dim() else 1
    while step < count:
        before = Pair(x.re[..., :-step], x.im[..., :-step])
        both = _times(Pair(x.re[..., step:], x.im[..., step:]), before)
        first = Pair(x.re[..., :step], x.im[..., :step])
        x = Pair(torch.cat([first.re, both.re], -1), torch.cat([first.im, both.im], -1))
        step *= 2
    return Pair(x.re.movedim(-1, dim), x.im.movedim(-1, dim)) if x.re.dim() else x


def _number(value, *, dtype=None, **_):
    value = complex(value.re, value.im) if isinstance(value, Pair) else complex(value)
    return Pair(*(torch.scalar_tensor(v, dtype=REAL[dtype]) for v in (value.real, value.imag)))


def _full(size, value, *, dtype=None, **_):
    if dtype is None:
        dtype = torch.complex128 if torch.get_default_dtype() == torch.float64 else torch.complex64
    value = complex(value.re, value.im) if isinstance(value, Pair) else complex(value)
    return Pair(*(torch.full(size, v, dtype=REAL[dtype]) for v in (value.real, value.imag)))


def _exp(x):
    return Pair(torch.exp(x.re) * torch.cos(x.im), torch.exp(x.re) * torch.sin(x.im))


def _sigmoid(x):
    return _divide(_pair(1.0), _add(_exp(Pair(-x.re, -x.im)), 1.0))


def _sigmoid_backward(gradient, share):
    return _times(_pair(gradient), _conjugate(_times(share, _add(1.0, share, sign=-1))))


def _polar(size, angle):
    return Pair(size * torch.cos(angle), size * torch.sin(angle))


def _where(condition, x, y):
    x, y = _pair(x), _pair(y)
    return Pair(torch.where(condition, x.re, y.re), torch.where(condition, x.im, y.im))


def _equal(x, y):
    x, y = _pair(x), _pair(y)
    return (x.re == y.re) & (x.im == y.im)


# ---- Fourier transforms, as products with matrices of cosines and sines

# Sizes up to this are one product; larger ones that are products of two are transformed in two rounds.
_ONE_PRODUCT = 64
_FULL, _BY_ROOT, _BY_SIZE = 0, 1, 2


def _waves(rows, columns, size, sign, dtype):
    """e^(sign 2 pi i r c / size), exact angles: r c is taken modulo the size."""
    products = (torch.arange(rows)[:, None] * torch.arange(columns)) % size
    angle = products.to(torch.float64) * (2 * math.pi / size)
    return Pair(torch.cos(angle).to(dtype), (sign * torch.sin(angle)).to(dtype))


def _times_matrix(x, y):
    return _multiply(torch.matmul, x, y)


def _reshaped(x, *shape):
    return Pair(x.re.reshape(shape), x.im.reshape(shape))


def _transform_last(x, sign):
    """Of the last dimension (J. W. Cooley and J. W. Tukey, 1965, where it is a product)."""
    *batch, size = x.re.shape
    dtype = x.re.dtype
    root = max(d for d in range(1, math.isqrt(size) + 1) if size % d == 0)
    if size <= _ONE_PRODUCT or root == 1:
        return _times_matrix(x, _waves(size, size, size, sign, dtype))
    rest = size // root
    inner = _reshaped(x, *batch, root, rest)
    inner = Pair(inner.re.transpose(-1, -2), inner.im.transpose(-1, -2))
    inner = _transform_last(inner, sign)  # (rest, root): over positions rest apart
    inner = _times(inner, _waves(rest, root, size, sign, dtype))
    inner = Pair(inner.re.transpose(-1, -2), inner.im.transpose(-1, -2))
    outer = _transform_last(inner, sign)  # (root, rest)
    outer = Pair(outer.re.transpose(-1, -2), outer.im.transpose(-1, -2))
    return _reshaped(outer, *batch, size)


def _transform(x, dims, sign):
    for dim in dims:
        moved = Pair(x.re.movedim(dim, -1), x.im.movedim(dim, -1))
        moved = _transform_last(moved, sign)
        x = Pair(moved.re.movedim(-1, dim), moved.im.movedim(-1, dim))
    return x


def _normed(x, size, mode):
    factor = {_FULL: 1.0, _BY_ROOT: size**-0.5, _BY_SIZE: 1.0 / size}[mode]
    return x if factor == 1 else Pair(x.re * factor, x.im * factor)


def _size_of(x, dims):
    return math.prod(x.re.shape[dim] for dim in dims)


def _fft_c2c(x, dims, mode, forward):
    x = _pair(x)
    return _normed(_transform(x, dims, -1 if forward else 1), _size_of(x, dims), mode)


def _fft_r2c(x, dims, mode, onesided):
    y = _fft_c2c(x, dims, mode, True)
    if not onesided:
        return y
    count = x.shape[dims[-1]] // 2 + 1
    return Pair(y.re.narrow(dims[-1], 0, count), y.im.narrow(dims[-1], 0, count))


def _fft_c2r(x, dims, mode, size):
    """The other half of the last dimension is the conjugate of the first one."""
    x, last = _transform(_pair(x), dims[:-1], 1), dims[-1]
    half, count = x.re.shape[last], size - x.re.shape[last]
    mirrored = torch.arange(half - 1 - (size % 2 == 0), 0, -1)[:count]
    parts = [t.index_select(last, mirrored) for t in (x.re, x.im)]
    whole = Pair(torch.cat([x.re, parts[0]], last), torch.cat([x.im, -parts[1]], last))
    return _normed(_transform(whole, [last], 1), _size_of(whole, dims), mode).re


_RULES = {
    "_fft_r2c": _fft_r2c,
    "_fft_c2c": _fft_c2c,
    "_fft_c2r": _fft_c2r,
    "view_as_complex": lambda x: Pair(x.select(-1, 0), x.select(-1, 1)),
    "view_as_real": lambda x: torch.stack([x.re, x.im], -1),
    "complex": Pair,
    "polar": _polar,
    "real": lambda x: x.re,
    "imag": lambda x: x.im,
    "_conj": _conjugate,
    "_conj_physical": _conjugate,
    "conj_physical": _conjugate,
    "abs": _abs,
    "angle": lambda x: torch.atan2(x.im, x.re),
    "sgn": _sgn,
    "exp": _exp,
    "sigmoid": _sigmoid,
    "sigmoid_backward": _sigmoid_backward,
    "silu": lambda x: _times(x, _sigmoid(x)),
    "reciprocal": lambda x: _divide(_pair(1.0), x),
    "add": _add,
    "sub": lambda x, y, alpha=1: _add(x, y, alpha, -1),
    "mul": _times,
    "pow": _power,
    "div": _divide,
    "mm": lambda x, y: _multiply(torch.mm, x, y),
    "bmm": lambda x, y: _multiply(torch.bmm, x, y),
    "eq": _equal,
    "ne": lambda x, y: ~_equal(x, y),
    "where": _where,
    "rsub": lambda x, y, alpha=1: _add(y, x, alpha, -1),
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
    "addmm": functools.partial(_add_product, torch.mm),
    "baddbmm": functools.partial(_add_product, torch.bmm),
    "addmv": functools.partial(_add_product, torch.mv),
    "mv": lambda x, y: _multiply(torch.mv, x, y),
    "dot": _dot,
    "vdot": lambda x, y: _dot(_conjugate(_pair(x)), y),
    "lerp": _lerp,
    "prod": _product,
    "cumprod": _products,
    "square": lambda x: _times(x, x),
    "scalar_tensor": _number,
    "full": _full,
    "ones": lambda size, **options: _full(size, 1.0, **options),
    "ones_like": lambda x, **_: Pair(torch.ones_like(x.re), torch.zeros_like(x.im)),
    "isnan": lambda x: torch.isnan(x.re) | torch.isnan(x.im),
    "isinf": lambda x: torch.isinf(x.re) | torch.isinf(x.im),
    "isfinite": lambda x: torch.isfinite(x.re) & torch.isfinite(x.im),
    "masked_fill": lambda x, mask, value: _where(mask, value, x),
}
# What does the same to the real and to the imaginary parts.
_BY_PARTS = frozenset(
    """
    _to_copy _unsafe_view alias cat clone constant_pad_nd copy_ cumsum detach diagonal diagonal_backward empty empty_like
    expand flip
    gather index index_add index_put index_select lift_fresh_copy mean neg new_empty new_empty_strided new_zeros permute
    repeat reshape roll scatter scatter_add select select_backward slice slice_backward split split_with_sizes squeeze stack
    squeeze_ sum t transpose transpose_ tril triu unbind unsqueeze unsqueeze_ view zeros zeros_like
    """.split()  # noqa: SIM905 - a list of words is easier to read
)


def is_complex_call(operator, arguments):
    """Whether an operator takes or makes complex numbers; `arguments` are positional and by name."""
    return name_of(operator) in ("complex", "polar", "view_as_complex", "_fft_r2c") or any(
        _is_complex(leaf) for leaf in pytree.tree_leaves(arguments)
    )


def _by_parts(operator, arguments):
    def part(name):
        def take(leaf):
            if isinstance(leaf, torch.dtype):
                return REAL.get(leaf, leaf)
            return getattr(leaf, name) if isinstance(leaf, Pair) else leaf

        args, kwargs = pytree.tree_map(take, arguments)
        return operator(*args, **kwargs)

    re, im = part("re"), part("im")
    if isinstance(re, torch.Tensor):
        return Pair(re, im)
    return [Pair(a, b) for a, b in zip(re, im, strict=True)]


def _widened(name, arguments):
    """Real tensors among complex ones, where these are joined or converted."""
    args, kwargs = arguments
    if name in ("cat", "stack"):
        return ([_pair(value) for value in args[0]], *args[1:]), kwargs
    if name in ("_to_copy", "copy_"):
        return tuple(_pair(v) if isinstance(v, torch.Tensor) else v for v in args), kwargs
    return arguments


def call(operator, args, kwargs, expected):
    """The operator on pairs; NotImplementedError if there is no rule for it. `expected` is what PyTorch gives, or a list of that:
    the result has its shape and type.
    """
    found = _call(operator, args, kwargs)
    if isinstance(expected, (list, tuple)):
        return [_as(*pair, operator) for pair in zip(found, expected, strict=True)]
    return _as(found, expected, operator)


def _as(found, expected, operator):
    part = found.re if isinstance(found, Pair) else found
    if not isinstance(part, torch.Tensor):
        return found  # a number of Python's
    if part.shape != expected.shape or isinstance(found, Pair) != expected.is_complex():
        raise AssertionError(
            f"the rule for {operator} on complex numbers gives shape {tuple(part.shape)}, expected {tuple(expected.shape)}"
        )
    if not isinstance(found, Pair):
        return found.to(expected.dtype)
    dtype = REAL[expected.dtype]
    return found if part.dtype == dtype else Pair(found.re.to(dtype), found.im.to(dtype))


def _call(operator, args, kwargs):
    name = name_of(operator)
    if name.removesuffix("_") in _RULES:
        # Complex numbers of Python as well.
        args = pytree.tree_map(
            lambda leaf: _pair(leaf) if isinstance(leaf, complex) else leaf, args
        )
    if name.removesuffix("_") in _RULES and name not in _RULES:
        result = _RULES[name.removesuffix("_")](*args, **kwargs)
        return Pair(args[0].re.copy_(result.re), args[0].im.copy_(result.im))
    if name in _BY_PARTS:
        return _by_parts(operator, _widened(name, (args, kwargs)))
    if name not in _RULES:
        error = NotImplementedError("complex numbers are supported in a few operators only")
        error.func = operator
        raise error
    return _RULES[name](*args, **kwargs)
