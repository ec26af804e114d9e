"""Sums, extrema, softmax, normalisation. A divisor is a constant, never read from a shape later."""

import math

import torch

from .registry import Unsupported, lowers, normalize_dim, normalize_dims


@lowers("sum")
def _sum(b, x, dims=None, keepdim=False, dtype=None):
    return b.sum(b.convert(x, b.out.dtype), normalize_dims(dims, len(x.shape)), keepdim)


def _mean_over(b, x, dims, keepdim, correction=0):
    count = math.prod(x.shape[dim] for dim in dims)
    return b.binary("div", b.sum(x, dims, keepdim), max(count - correction, 0))


@lowers("mean")
def _mean(b, x, dims=None, keepdim=False, dtype=None):
    return _mean_over(b, b.convert(x, b.out.dtype), normalize_dims(dims, len(x.shape)), keepdim)


def _moments(b, x, dims, correction, keepdim):
    """Variance and mean."""
    dims = normalize_dims(dims, len(x.shape))
    mean = _mean_over(b, x, dims, True)
    centred = b.binary("sub", x, mean)
    variance = _mean_over(b, b.binary("mul", centred, centred), dims, keepdim, correction)
    return variance, mean if keepdim else b.reshape(mean, variance.shape)


def _arguments_of_variance(dims, correction, unbiased):
    """The overloads: (), (unbiased), (dims, unbiased), and correction by keyword."""
    if isinstance(dims, bool):
        dims, unbiased = None, dims
    return dims, correction if correction is not None else (0 if unbiased is False else 1)


@lowers("var")
def _var(b, x, dims=None, unbiased=None, keepdim=False, correction=None):
    dims, correction = _arguments_of_variance(dims, correction, unbiased)
    return _moments(b, x, dims, correction, keepdim)[0]


@lowers("std")
def _std(b, x, dims=None, unbiased=None, keepdim=False, correction=None):
    return b.unary("sqrt", _var(b, x, dims, unbiased, keepdim, correction))


@lowers("var_mean")
def _var_mean(b, x, dims=None, unbiased=None, keepdim=False, correction=None):
    dims, correction = _arguments_of_variance(dims, correction, unbiased)
    return list(_moments(b, x, dims, correction, keepdim))


@lowers("std_mean")
def _std_mean(b, x, dims=None, unbiased=None, keepdim=False, correction=None):
    variance, mean = _var_mean(b, x, dims, unbiased, keepdim, correction)
    return [b.unary("sqrt", variance), mean]


@lowers("prod")
def _prod(b, x, dim=None, keepdim=False, dtype=None):
    return b.reduce("prod", b.convert(x, b.out.dtype), normalize_dims(dim, len(x.shape)), keepdim)


@lowers("amax")
def _amax(b, x, dims=None, keepdim=False):
    return b.reduce("max", x, normalize_dims(dims, len(x.shape)), keepdim)


@lowers("amin")
def _amin(b, x, dims=None, keepdim=False):
    return b.reduce("min", x, normalize_dims(dims, len(x.shape)), keepdim)


def _in_reverse(b, x):
    """Ordered the other way. The least integer has no negative."""
    if x.dtype == torch.bool:
        return b.unary("logical_not", x)
    return b.unary("neg", x) if x.dtype.is_floating_point else b.binary("sub", -1, x)


def _extremum(b, x, dim, keepdim, name):
    if dim is None:
        return b.reduce(name, x, range(len(x.shape)))
    dim = normalize_dim(dim, len(x.shape))
    indices = b.argmax(x if name == "max" else _in_reverse(b, x), dim, keepdim)
    return [b.reduce(name, x, [dim], keepdim), indices]


@lowers("max")
def _max(b, x, dim=None, keepdim=False):
    return _extremum(b, x, dim, keepdim, "max")


@lowers("min")
def _min(b, x, dim=None, keepdim=False):
    return _extremum(b, x, dim, keepdim, "min")


@lowers("argmax")
def _argmax(b, x, dim=None, keepdim=False):
    if dim is None:
        flat = b.argmax(b.reshape(x, (math.prod(x.shape),)), 0, False)
        return b.reshape(flat, b.out.shape)
    return b.argmax(x, normalize_dim(dim, len(x.shape)), keepdim)


@lowers("argmin")
def _argmin(b, x, dim=None, keepdim=False):
    return _argmax(b, _in_reverse(b, x), dim, keepdim)


def _truth(b, x):
    return b.convert(x, torch.bool)


def _count(b, x, dims, keepdim):
    """How many are true: a sum, which plans may split where an extremum is whole."""
    return b.sum(b.convert(x, torch.int32), normalize_dims(dims, len(x.shape)), keepdim)


@lowers("any")
def _any(b, x, dims=None, keepdim=False):
    return b.compare("gt", _count(b, _truth(b, x), dims, keepdim), 0)


@lowers("all")
def _all(b, x, dims=None, keepdim=False):
    return b.compare("eq", _count(b, b.unary("logical_not", _truth(b, x)), dims, keepdim), 0)


@lowers("cumsum")
def _cumsum(b, x, dim, dtype=None):
    x = b.convert(x, b.out.dtype)
    return b.emit("cumsum", [x], x.type, dim=normalize_dim(dim, len(x.shape)))


def _topk_types(b, x, dim, k):
    shape = x.shape[:dim] + (k,) + x.shape[dim + 1 :]
    return [type(x.type)(shape, x.dtype), type(x.type)(shape, torch.int64)]


@lowers("topk")
def _topk(b, x, k, dim=-1, largest=True, sorted=True):
    dim = normalize_dim(dim, len(x.shape))
    return b.emit("topk", [x], _topk_types(b, x, dim, k), k=k, dim=dim, largest=largest)


@lowers("sort")
def _sort(b, x, dim=-1, descending=False, stable=None):
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise Unsupported("arguments of this overload")
    return _topk(b, x, x.shape[dim], dim, bool(descending))


@lowers("argsort")
def _argsort(b, x, dim=-1, descending=False, stable=None):
    return _topk(b, x, x.shape[dim], dim, bool(descending))[1]


@lowers("kthvalue")
def _kthvalue(b, x, k, dim=-1, keepdim=False):
    dim = normalize_dim(dim, len(x.shape))
    pair = b.emit("topk", [x], _topk_types(b, x, dim, k), k=k, dim=dim, largest=False)
    return [
        b.reshape(b.slice(value, dim, k - 1, k), out.shape)
        for value, out in zip(pair, b.out, strict=True)
    ]


def _middle(b, x, dim):
    """The lower one of two middle elements and its place, or the first NaN and its: the dimension stays, of size 1."""
    size = x.shape[dim]
    if not x.dtype.is_floating_point:
        pair = _topk(b, x, size, dim, False)
        return [b.slice(value, dim, (size - 1) // 2, (size + 1) // 2) for value in pair]
    # They are sorted to the end.
    count = b.sum(b.convert(b.compare("ne", x, x), torch.int64), [dim], True)
    place = b.select(
        b.compare("gt", count, 0), b.binary("sub", size, count), (size - 1) // 2, torch.int64
    )
    return [b.gather(value, place, dim) for value in _topk(b, x, size, dim, False)]


@lowers("median")
def _median(b, x, dim=None, keepdim=False):
    if dim is None:
        flat = b.reshape(x, (math.prod(x.shape),))
        return b.reshape(_middle(b, flat, 0)[0], ())
    if not x.shape:
        return [x, b.constant(0, torch.int64)]
    pair = _middle(b, x, normalize_dim(dim, len(x.shape)))
    return [b.reshape(value, out.shape) for value, out in zip(pair, b.out, strict=True)]


@lowers("searchsorted", "bucketize")
def _searchsorted(b, first, second, out_int32=False, right=False, side=None, sorter=None):
    """How many of the sorted boundaries are not at or above (with `right`, not above) each value: all of them for NaN."""
    is_bucketize = "bucketize" in str(b.operator)
    values, boundaries = (first, second) if is_bucketize else (second, first)
    if sorter is not None:
        boundaries = b.gather(boundaries, sorter, len(boundaries.shape) - 1)
    values = b.as_value(values, boundaries.dtype)
    predicate = "gt" if right or side == "right" else "ge"
    if len(boundaries.shape) > 1:
        boundaries = b.reshape(boundaries, (*boundaries.shape[:-1], 1, boundaries.shape[-1]))
    above = b.compare(predicate, boundaries, b.reshape(values, values.shape + (1,)))
    below = b.unary("logical_not", above)
    return b.sum(b.convert(below, b.out.dtype), [len(values.shape)])


@lowers("_weight_norm_interface_backward")
def _weight_norm_backward(b, gradient, direction, magnitude, norms, dim):
    rank = len(direction.shape)
    others = [d for d in range(rank) if d != normalize_dim(dim, rank)]
    dot = b.sum(b.binary("mul", gradient, direction), others, keepdim=True)
    of_magnitude = b.binary("div", dot, norms)
    along = b.binary("mul", direction, b.binary("div", of_magnitude, norms))
    scale = b.binary("div", magnitude, norms)
    return [b.binary("mul", scale, b.binary("sub", gradient, along)), of_magnitude]


@lowers("_softmax", "_log_softmax")
def _softmax(b, x, dim, *_, **__):
    x = b.convert(x, b.out.dtype)
    name = "log_softmax" if "log" in str(b.operator) else "softmax"
    return b.emit(name, [x], x.type, dim=normalize_dim(dim, len(x.shape)))


@lowers("_safe_softmax")
def _safe_softmax(b, x, dim, *_, **__):
    """Zeros, not NaN, where all is masked: what scaled dot-product attention uses."""
    x = b.convert(x, b.out.dtype)
    return b.emit("softmax", [x], x.type, dim=normalize_dim(dim, len(x.shape)), safe=True)


@lowers("_softmax_backward_data", "_log_softmax_backward_data")
def _softmax_backward(b, gradient, output, dim, input_dtype):
    name = "log_softmax_backward" if "log" in str(b.operator) else "softmax_backward"
    result = b.emit(
        name, [gradient, output], output.type, dim=normalize_dim(dim, len(output.shape))
    )
    return b.convert(result, b.out.dtype)


@lowers("native_layer_norm")
def _layer_norm(b, x, shape, weight, bias, eps):
    if weight is None and bias is not None:
        weight = b.full(bias.shape, 1, bias.dtype)
    affine = [tensor for tensor in (weight, bias) if tensor is not None]
    types = list(b.out)
    rank = len(shape)
    kept = x.shape[: len(x.shape) - rank] + (1,) * rank
    is_mixed = bool(affine) and affine[0].dtype != x.dtype
    types[1], types[2] = (
        type(t)(kept, affine[0].dtype if is_mixed else t.dtype) for t in types[1:]
    )
    results = b.emit("layer_norm", [x, *affine], types, normalized_rank=rank, eps=float(eps))
    # Fake tensors round what eager's operator, given such a mixture, leaves in float32.
    results = [b.convert(value, out.dtype) for value, out in zip(results, b.out, strict=False)]
    return [b.reshape(value, out.shape) for value, out in zip(results, b.out, strict=False)]


def _statistic(value, weight):
    """As the forward pass has made it."""
    owner = value.owner
    is_rounded = weight is not None and owner is not None and owner.name == "convert"
    return owner.operands[0] if is_rounded and owner.operands[0].dtype == weight.dtype else value


@lowers("native_layer_norm_backward")
def _layer_norm_backward(b, gradient, x, shape, mean, rstd, weight, bias, wanted):
    mean, rstd = _statistic(mean, weight), _statistic(rstd, weight)
    operands = [gradient, x, mean, rstd] + ([weight] if weight is not None else [])
    types = [x.type] + ([weight.type, weight.type] if weight is not None else [])
    results = b.emit("layer_norm_backward", operands, types, normalized_rank=len(shape))
    if weight is None and bias is not None and wanted[2]:
        results = results + [None, b.sum(gradient, range(len(x.shape) - len(shape)))]
    return (results + [None, None])[:3]
