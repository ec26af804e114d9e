"""Views, slices, joins and sources. Views are copies here: nothing aliases."""

import torch

from .records import Value
from .registry import Unsupported, lowers, normalize_dim


@lowers(
    "view",
    "reshape",
    "_unsafe_view",
    "_reshape_alias",
    "unsqueeze",
    "squeeze",
    "squeeze_",
    "flatten",
    "unflatten",
)
def _reshape(b, x, *arguments):
    if arguments and isinstance(arguments[0], torch.dtype):
        raise Unsupported("a view as another element type")
    return b.reshape(x, b.out.shape)


@lowers("permute")
def _permute(b, x, dims):
    return b.permute(x, [normalize_dim(dim, len(x.shape)) for dim in dims])


@lowers("transpose")
def _transpose(b, x, dim0, dim1=None):
    order = list(range(len(x.shape)))
    if isinstance(dim0, (list, tuple)):
        return b.permute(x, dim0)
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return b.permute(x, [dim % len(order) for dim in order])


@lowers("t", "numpy_T")
def _t(b, x):
    return b.permute(x, range(len(x.shape))[::-1])


@lowers("expand")
def _expand(b, x, sizes, implicit=False):
    return b.expand(x, b.out.shape)


@lowers("broadcast_in_dim")
def _broadcast_in_dim(b, x, shape, dims):
    kept = [1] * len(shape)
    for dim, size in zip(dims, x.shape, strict=False):
        kept[dim] = size
    return b.expand(b.reshape(x, kept), shape)


@lowers("repeat")
def _repeat(b, x, repeats):
    shape = (1,) * (len(repeats) - len(x.shape)) + x.shape
    apart = [part for size in shape for part in (1, size)]
    wide = [part for count, size in zip(repeats, shape, strict=False) for part in (count, size)]
    return b.reshape(b.expand(b.reshape(x, apart), wide), b.out.shape)


def _elements(shape):
    count = 1
    for size in shape:
        count *= size
    return count


def _bounds(start, stop, size):
    start = 0 if start is None else start + size if start < 0 else start
    stop = size if stop is None else stop + size if stop < 0 else stop
    start = min(max(start, 0), size)
    return start, min(max(stop, start), size)


@lowers("slice")
def _slice(b, x, dim=0, start=None, end=None, step=1):
    dim = normalize_dim(dim, len(x.shape))
    start, stop = _bounds(start, end, x.shape[dim])
    return b.slice(x, dim, start, stop, step)


@lowers("select")
def _select(b, x, dim, index):
    dim = normalize_dim(dim, len(x.shape))
    index = index % x.shape[dim]
    return b.reshape(b.slice(x, dim, index, index + 1), b.out.shape)


@lowers("narrow")
def _narrow(b, x, dim, start, length):
    return _slice(b, x, dim, start, start + length)


def _spread(b, x, dim, size, start, step):
    """Zeros of `size` on `dim`, with `x` at start, start + step, ..."""
    high = size - start - (x.shape[dim] - 1) * step - 1
    return b.pad(x, dim, start, high, step)


@lowers("slice_backward")
def _slice_backward(b, gradient, sizes, dim, start, end, step):
    dim = normalize_dim(dim, len(sizes))
    start, _ = _bounds(start, end, sizes[dim])
    return _spread(b, gradient, dim, sizes[dim], start, step)


@lowers("select_backward")
def _select_backward(b, gradient, sizes, dim, index):
    dim = normalize_dim(dim, len(sizes))
    thin = [1 if d == dim else size for d, size in enumerate(sizes)]
    return _spread(b, b.reshape(gradient, thin), dim, sizes[dim], index % sizes[dim], 1)


def _covers(b, shape, dim, start, stop, step):
    """True where a position on `dim` is one of start, start + step, ... below stop."""
    position = b.iota(shape, dim)
    inside = b.elementwise(
        "logical_and",
        [b.compare("ge", position, start), b.compare("lt", position, stop)],
        torch.bool,
    )
    if step == 1:
        return inside
    offset = b.binary("remainder", b.binary("sub", position, start), step)
    return b.elementwise("logical_and", [inside, b.compare("eq", offset, 0)], torch.bool)


@lowers("slice_scatter")
def _slice_scatter(b, x, source, dim=0, start=None, end=None, step=1):
    dim = normalize_dim(dim, len(x.shape))
    start, stop = _bounds(start, end, x.shape[dim])
    if source.shape[dim] == 0:
        return x
    source = b.convert(
        b.expand(source, x.shape[:dim] + (source.shape[dim],) + x.shape[dim + 1 :]), x.dtype
    )
    if source.shape == x.shape:
        return source
    spread = _spread(b, source, dim, x.shape[dim], start, step)
    if b.splat_number(x) == 0:
        return spread
    return b.select(_covers(b, x.shape, dim, start, stop, step), spread, x, x.dtype)


@lowers("select_scatter")
def _select_scatter(b, x, source, dim, index):
    dim = normalize_dim(dim, len(x.shape))
    thin = [1 if d == dim else size for d, size in enumerate(x.shape)]
    index = index % x.shape[dim]
    return _slice_scatter(b, x, b.reshape(source, thin), dim, index, index + 1)


@lowers("split", "split_with_sizes", "chunk", "unsafe_split", "tensor_split")
def _split(b, x, sizes, dim=0):
    dim = normalize_dim(dim, len(x.shape))
    pieces, start = [], 0
    for out in b.out:
        pieces.append(b.slice(x, dim, start, start + out.shape[dim]))
        start += out.shape[dim]
    return pieces


@lowers("unbind")
def _unbind(b, x, dim=0):
    dim = normalize_dim(dim, len(x.shape))
    return [b.reshape(b.slice(x, dim, i, i + 1), out.shape) for i, out in enumerate(b.out)]


@lowers("cat")
def _cat(b, tensors, dim=0):
    if 0 in b.out.shape:
        return b.full(b.out.shape, 0, b.out.dtype)
    # Those without elements may have one dimension only.
    tensors = [tensor for tensor in tensors if 0 not in tensor.shape]
    dim = normalize_dim(dim, len(b.out.shape))
    return b.cat([b.convert(tensor, b.out.dtype) for tensor in tensors], dim)


@lowers("stack")
def _stack(b, tensors, dim=0):
    dim = normalize_dim(dim, len(b.out.shape))
    thin = b.out.shape[:dim] + (1,) + b.out.shape[dim + 1 :]
    return b.cat([b.reshape(b.convert(tensor, b.out.dtype), thin) for tensor in tensors], dim)


@lowers("constant_pad_nd")
def _constant_pad(b, x, pads, value=0):
    """`pads` goes from the last dimension: low, high, low, high, ...; negative ones cut off."""
    inside = b.full(x.shape, True, torch.bool) if value else None
    for i in range(0, len(pads), 2):
        dim = len(x.shape) - 1 - i // 2
        x = _pad_or_cut(b, x, dim, pads[i], pads[i + 1])
        inside = _pad_or_cut(b, inside, dim, pads[i], pads[i + 1]) if value else None
    return b.select(inside, x, value, x.dtype) if value else x


def _pad_or_cut(b, x, dim, low, high):
    size = x.shape[dim]
    x = b.slice(x, dim, max(-low, 0), size - max(-high, 0))
    return b.pad(x, dim, max(low, 0), max(high, 0))


@lowers("flip")
def _flip(b, x, dims):
    dims = tuple(sorted(normalize_dim(dim, len(x.shape)) for dim in dims))
    return b.emit("flip", [x], x.type, dims=dims) if dims else x


@lowers("roll")
def _roll(b, x, shifts, dims=()):
    if not dims:
        flat = b.reshape(x, (_elements(x.shape),))
        return b.reshape(_roll(b, flat, shifts, [0]), x.shape)
    by_dim = {}
    for shift, dim in zip(shifts, dims, strict=False):
        dim = normalize_dim(dim, len(x.shape))
        by_dim[dim] = (by_dim.get(dim, 0) + shift) % max(x.shape[dim], 1)
    moved = {dim: shift for dim, shift in sorted(by_dim.items()) if shift}
    if not moved:
        return x
    return b.emit("roll", [x], x.type, dims=tuple(moved), shifts=tuple(moved.values()))


@lowers("diagonal")
def _diagonal(b, x, offset=0, dim1=0, dim2=1):
    rank = len(x.shape)
    dim1, dim2 = normalize_dim(dim1, rank), normalize_dim(dim2, rank)
    order = [dim for dim in range(rank) if dim not in (dim1, dim2)]
    x = b.permute(x, [*order, dim1, dim2])
    rows, columns = x.shape[-2:]
    flat = b.reshape(x, x.shape[:-2] + (rows * columns,))
    start = offset if offset >= 0 else -offset * columns
    stop = start + (b.out.shape[-1] - 1) * (columns + 1) + 1
    return b.slice(flat, len(flat.shape) - 1, start, stop, columns + 1)


@lowers("diagonal_backward")
def _diagonal_backward(b, gradient, sizes, offset, dim1, dim2):
    rank = len(sizes)
    dim1, dim2 = normalize_dim(dim1, rank), normalize_dim(dim2, rank)
    order = [dim for dim in range(rank) if dim not in (dim1, dim2)] + [dim1, dim2]
    rows, columns = sizes[dim1], sizes[dim2]
    start = offset if offset >= 0 else -offset * columns
    flat = _spread(b, gradient, len(gradient.shape) - 1, rows * columns, start, columns + 1)
    square = b.reshape(flat, [sizes[dim] for dim in order])
    return b.permute(square, [order.index(dim) for dim in range(rank)])


@lowers("diagonal_scatter")
def _diagonal_scatter(b, x, diagonal, offset=0, dim1=0, dim2=1):
    """What an in-place write to `torch.diagonal` becomes."""
    dim1, dim2 = (normalize_dim(dim, len(x.shape)) for dim in (dim1, dim2))
    rows, columns = b.iota(x.shape, dim1), b.iota(x.shape, dim2)
    on = b.compare("eq", columns, b.binary("add", rows, offset) if offset else rows)
    spread = _diagonal_backward(b, diagonal, x.shape, offset, dim1, dim2)
    return b.select(on, spread, x, x.dtype)


def _triangle(b, x, predicate, diagonal):
    rows, columns = b.iota(x.shape, len(x.shape) - 2), b.iota(x.shape, len(x.shape) - 1)
    limit = b.binary("add", rows, diagonal) if diagonal else rows
    zero = False if x.dtype == torch.bool else 0
    return b.select(b.compare(predicate, columns, limit), x, zero, x.dtype)


@lowers("tril")
def _tril(b, x, diagonal=0):
    return _triangle(b, x, "le", diagonal)


@lowers("triu")
def _triu(b, x, diagonal=0):
    return _triangle(b, x, "ge", diagonal)


# Sources


@lowers("new_full")
def _new_full(b, x, size, value, **_):
    return _full(b, x, value)


@lowers("full", "full_like", "fill", "fill_")
def _full(b, _, value, *__, **___):
    if isinstance(value, Value):
        return b.expand(b.convert(value, b.out.dtype), b.out.shape)
    return b.full(b.out.shape, value, b.out.dtype)


@lowers("ones", "ones_like", "new_ones")
def _ones(b, *_, **__):
    return b.full(b.out.shape, 1, b.out.dtype)


@lowers(
    "zeros",
    "zeros_like",
    "new_zeros",
    "zero",
    "empty",
    "empty_like",
    "new_empty",
    "empty_strided",
    "new_empty_strided",
    "empty_permuted",
)
def _zeros(b, *_, **__):
    return b.full(b.out.shape, 0, b.out.dtype)


@lowers("scalar_tensor")
def _scalar_tensor(b, value, **_):
    return b.constant(value, b.out.dtype)


@lowers("arange")
def _arange(b, *bounds, **_):
    start, step = (bounds[0] if len(bounds) > 1 else 0), (bounds[2] if len(bounds) > 2 else 1)
    return _progression(b, start, step)


def _progression(b, start, step):
    positions = b.convert(b.iota(b.out.shape, 0), b.out.dtype)
    scaled = b.binary("mul", positions, step) if step != 1 else positions
    return b.binary("add", scaled, start) if start != 0 else scaled


@lowers("iota")
def _iota(b, length, *, start=0, step=1, **_):
    return _progression(b, start, step)


@lowers("linspace")
def _linspace(b, start, end, steps, **_):
    """From both ends to the middle, as PyTorch; integers are cut off from float64."""
    dtype = b.out.dtype
    computed = dtype if dtype in (torch.float32, torch.float64) else torch.float64
    if isinstance(start, Value) or isinstance(end, Value):
        if not dtype.is_floating_point:
            raise Unsupported("integers between ends that are tensors")
        start, end = b.as_value(start, computed), b.as_value(end, computed)
        step = b.binary("div", b.binary("sub", end, start), max(steps - 1, 1))
    else:
        start, end = (start, end) if dtype.is_floating_point else (int(start), int(end))
        step = (end - start) / max(steps - 1, 1)
    index = b.iota(b.out.shape, 0)
    position = b.convert(index, computed)
    left = b.binary("add", b.binary("mul", position, step), start)
    ahead = b.binary("sub", steps - 1, position)
    right = b.binary("sub", end, b.binary("mul", ahead, step))
    # A single one is the start.
    is_left = b.compare("lt", index, max(steps // 2, 1))
    return b.convert(b.select(is_left, left, right, computed), dtype)


@lowers("eye")
def _eye(b, *_, **__):
    same = b.compare("eq", b.iota(b.out.shape, 0), b.iota(b.out.shape, 1))
    return b.convert(same, b.out.dtype)
