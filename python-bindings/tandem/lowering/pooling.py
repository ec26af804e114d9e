"""Pooling.

Max pooling is an operator; its gradient goes to the indices. Averages are linear: a convolution of each channel with
ones, divided by the number of elements in a window. If windows of an adaptive average differ, it is a product with a
matrix per dimension.
"""

import math

import torch

from .records import TensorType
from .registry import lowers


def _each(values, rank, otherwise=None):
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    values = values or list(otherwise)
    return tuple(values * rank if len(values) == 1 else values)


class _Windows:
    """The windows of a pooling operator of the last `rank` dimensions."""

    def __init__(self, rank, kernel, stride=(), padding=0, dilation=1):
        self.kernel = _each(kernel, rank)
        self.stride = _each(stride, rank, self.kernel)
        self.padding, self.dilation = _each(padding, rank), _each(dilation, rank)

    @property
    def attributes(self):
        return {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}


def _spatial(shape, rank):
    return shape[len(shape) - rank :]


# ---- The largest element


def _max_pool(b, x, windows, shape):
    types = [TensorType(shape, x.dtype), TensorType(shape, torch.int64)]
    return b.emit("max_pool", [x], types, kernel=windows.kernel, **windows.attributes)


def _max_pool_of(rank):
    def max_pool(b, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
        windows = _Windows(rank, kernel, stride, padding, dilation)
        return _max_pool(b, x, windows, b.out[0].shape)

    return max_pool


def _at_indices(b, gradient, x, indices, rank):
    """Adds up the gradient at the indices of the last dimensions."""
    leading = x.shape[: len(x.shape) - rank]
    flat = (*leading, math.prod(_spatial(gradient.shape, rank)))
    gradient, indices = b.reshape(gradient, flat), b.reshape(indices, flat)
    size = math.prod(_spatial(x.shape, rank))
    return b.reshape(b.scatter_add(gradient, indices, len(leading), size), x.shape)


def _max_pool_backward_of(rank):
    def max_pool_backward(b, gradient, x, *arguments):
        return _at_indices(b, gradient, x, arguments[-1], rank)

    return max_pool_backward


for _rank in (2, 3):
    lowers(f"max_pool{_rank}d_with_indices")(_max_pool_of(_rank))
    lowers(f"max_pool{_rank}d_with_indices_backward")(_max_pool_backward_of(_rank))
    lowers(f"adaptive_max_pool{_rank}d_backward")(_max_pool_backward_of(_rank))


@lowers("max_pool1d")
def _max_pool1d(b, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    return _max_pool(b, x, _Windows(1, kernel, stride, padding, dilation), b.out.shape)[0]


def _parts(size, count):
    """Begin and end of the windows of an adaptive operator."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _repeated_positions(size, count):
    """Those of windows of one width: the last element stands for what is missing."""
    parts = _parts(size, count)
    width = max(end - begin for begin, end in parts)
    return width, [min(begin + i, end - 1) for begin, end in parts for i in range(width)]


def _adaptive_max_pool_of(rank):
    def adaptive_max_pool(b, x, sizes):
        first = len(x.shape) - rank
        found = [
            _repeated_positions(size, count)
            for size, count in zip(x.shape[first:], sizes, strict=True)
        ]
        widths, positions = zip(*found, strict=True)
        windows, shape = _Windows(rank, widths), b.out[0].shape
        if all(listed == list(range(len(listed))) for listed in positions):
            return _max_pool(b, x, windows, shape)
        place = torch.zeros((), dtype=torch.int64)
        wide = x
        for dim, listed in enumerate(positions):
            index = torch.tensor(listed)
            rows = b.embedding(b.move_dim(wide, first + dim, 0), b.tensor(index))
            wide = b.move_dim(rows, 0, first + dim)
            place = place[..., None] * x.shape[first + dim] + index
        values, indices = _max_pool(b, wide, windows, shape)
        return [values, b.embedding(b.tensor(place.reshape(-1)), indices)]

    return adaptive_max_pool


for _rank in (2, 3):
    lowers(f"adaptive_max_pool{_rank}d")(_adaptive_max_pool_of(_rank))


# ---- Averages


def _exact(b, function, x):
    """Sums of bfloat16 are rounded once, at the end."""
    wide = torch.float32 if x.dtype in (torch.bfloat16, torch.float16) else x.dtype
    return b.convert(function(b.convert(x, wide)), x.dtype)


class _Average:
    """Of windows of `x_shape` that give `y_shape`."""

    def __init__(self, rank, x_shape, y_shape, windows, options):
        self.rank, self.windows = rank, windows
        self.x_shape, self.y_shape = x_shape, y_shape
        self.ceil_mode, self.count_include_pad, self.divisor = options

    def _counts(self, dim):
        """How many elements count in each window along one dimension."""
        w = self.windows
        size, pad = _spatial(self.x_shape, self.rank)[dim], w.padding[dim]
        counts = []
        for y in range(_spatial(self.y_shape, self.rank)[dim]):
            begin = y * w.stride[dim] - pad
            end = min(begin + w.kernel[dim], size + pad)
            if not self.count_include_pad:
                begin, end = max(begin, 0), min(end, size)
            counts.append(end - begin)
        return torch.tensor(counts)

    def scaled(self, b, y):
        if self.divisor is not None:
            return b.binary("div", y, self.divisor)
        counts = torch.ones((), dtype=torch.int64)
        for dim in range(self.rank):
            counts = counts[..., None] * self._counts(dim)
        if bool((counts == counts.reshape(-1)[0]).all()):
            return b.binary("div", y, counts.reshape(-1)[0].item())
        return b.binary("div", y, b.tensor(counts.to(y.dtype)))

    def _images(self, b, x):
        """As a convolution has them: one image less is a batch of one."""
        missing = self.rank + 2 - len(x.shape)
        return b.reshape(x, (1,) * missing + x.shape)

    def _ones(self, b, channels, dtype):
        return b.full((channels, 1, *self.windows.kernel), 1, dtype)

    def forward(self, b, x):
        images = self._images(b, x)
        shape = images.shape[:2] + _spatial(self.y_shape, self.rank)
        ones = self._ones(b, images.shape[1], x.dtype)
        y = b.emit("conv", [images, ones], TensorType(shape, x.dtype), **self.windows.attributes)
        return self.scaled(b, b.reshape(y, self.y_shape))

    def backward(self, b, gradient):
        images = self._images(b, self.scaled(b, gradient))
        shape = images.shape[:2] + _spatial(self.x_shape, self.rank)
        ones = self._ones(b, images.shape[1], gradient.dtype)
        type_ = TensorType(shape, gradient.dtype)
        x = b.emit("conv_input_grad", [images, ones], type_, **self.windows.attributes)
        return b.reshape(x, self.x_shape)


def _avg_pool_of(rank):
    def avg_pool(
        b,
        x,
        kernel,
        stride=(),
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    ):
        windows = _Windows(rank, kernel, stride, padding)
        options = ceil_mode, count_include_pad, divisor_override
        average = _Average(rank, x.shape, b.out.shape, windows, options)
        return _exact(b, lambda x: average.forward(b, x), x)

    return avg_pool


def _avg_pool_backward_of(rank):
    def avg_pool_backward(
        b,
        gradient,
        x,
        kernel,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override=None,
    ):
        windows = _Windows(rank, kernel, stride, padding)
        options = ceil_mode, count_include_pad, divisor_override
        average = _Average(rank, x.shape, gradient.shape, windows, options)
        return _exact(b, lambda gradient: average.backward(b, gradient), gradient)

    return avg_pool_backward


lowers("avg_pool1d")(_avg_pool_of(1))
for _rank in (2, 3):
    lowers(f"avg_pool{_rank}d")(_avg_pool_of(_rank))
    lowers(f"avg_pool{_rank}d_backward")(_avg_pool_backward_of(_rank))


def _averaging_matrix(size, count, dtype):
    """(size, count): a column is one over the width of a window in its rows."""
    matrix = torch.zeros(size, count, dtype=torch.float64)
    for column, (begin, end) in enumerate(_parts(size, count)):
        matrix[begin:end, column] = 1 / (end - begin)
    return matrix.to(dtype)


def _times_last(b, x, matrix):
    rows = b.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
    return b.reshape(b.matmul(rows, b.tensor(matrix)), x.shape[:-1] + (matrix.shape[1],))


def _along(b, x, dim, matrix):
    last = len(x.shape) - 1
    return b.move_dim(_times_last(b, b.move_dim(x, dim, last), matrix), last, dim)


def _blocks(shape, counts):
    """Each dimension of the last as (windows, width), and where the widths are."""
    first = len(shape) - len(counts)
    blocks, widths = list(shape[:first]), []
    for size, count in zip(shape[first:], counts, strict=True):
        widths.append(len(blocks) + 1)
        blocks += [count, size // count]
    return tuple(blocks), widths


def _adaptive_average(b, x, counts):
    rank, first = len(counts), len(x.shape) - len(counts)
    sizes = x.shape[first:]
    if all(size % count == 0 for size, count in zip(sizes, counts, strict=True)):
        blocks, widths = _blocks(x.shape, counts)
        total = b.sum(b.reshape(x, blocks), widths)
        return b.binary("div", total, math.prod(blocks[dim] for dim in widths))
    for dim in range(rank):
        matrix = _averaging_matrix(sizes[dim], counts[dim], x.dtype)
        x = _along(b, x, first + dim, matrix)
    return x


def _adaptive_average_backward(b, gradient, shape, rank):
    first = len(shape) - rank
    sizes, counts = shape[first:], gradient.shape[first:]
    if all(size % count == 0 for size, count in zip(sizes, counts, strict=True)):
        blocks, widths = _blocks(shape, counts)
        thin = [1 if dim in widths else size for dim, size in enumerate(blocks)]
        count = math.prod(blocks[dim] for dim in widths)
        spread = b.expand(b.reshape(b.binary("div", gradient, count), thin), blocks)
        return b.reshape(spread, shape)
    for dim in range(rank):
        matrix = _averaging_matrix(sizes[dim], counts[dim], gradient.dtype)
        gradient = _along(b, gradient, first + dim, matrix.t().contiguous())
    return gradient


@lowers("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def _adaptive_avg_pool(b, x, sizes):
    return _exact(b, lambda x: _adaptive_average(b, x, tuple(sizes)), x)


def _adaptive_avg_pool_backward_of(rank):
    def backward(b, gradient, x):
        def exact(gradient):
            return _adaptive_average_backward(b, gradient, x.shape, rank)

        return _exact(b, exact, gradient)

    return backward


for _rank in (2, 3):
    lowers(f"_adaptive_avg_pool{_rank}d_backward")(_adaptive_avg_pool_backward_of(_rank))
