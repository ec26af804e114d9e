"""Gather, scatter and advanced indexing, in terms of embedding, gather and their adjoints."""

import math

import torch

from .reductions import _sort
from .registry import Unsupported, lowers, normalize_dim

_NEVER_NEGATIVE = ("iota", "argmax", "topk")


def _wrapped(b, index, size):
    """Negative positions count from the end. None are where the index is made of positions."""
    index = b.convert(index, torch.int64)
    owner = index.owner
    while owner is not None and owner.name in ("reshape", "permute", "expand", "slice"):
        owner = owner.operands[0].owner
    if owner is not None and owner.name in _NEVER_NEGATIVE:
        return index
    shifted = b.binary("add", index, size)
    return b.select(b.compare("lt", index, 0), shifted, index, torch.int64)


@lowers("embedding")
def _embedding(b, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    if sparse:
        raise Unsupported("sparse = True, expected dense gradients")
    return b.embedding(weight, b.convert(indices, torch.int64))


@lowers("embedding_dense_backward")
def _embedding_backward(b, gradient, indices, rows, padding_idx, scale_grad_by_freq):
    indices = b.convert(indices, torch.int64)
    if scale_grad_by_freq:
        ones = b.full(indices.shape + (1,), 1, gradient.dtype)
        counts = b.embedding(b.embedding_backward(ones, indices, rows), indices)
        gradient = b.binary("div", gradient, counts)
    if padding_idx >= 0:
        padding = b.reshape(b.compare("eq", indices, padding_idx), indices.shape + (1,))
        gradient = b.select(padding, 0, gradient, gradient.dtype)
    return b.embedding_backward(gradient, indices, rows)


def _cut_to(b, x, index, dim):
    """torch's gather and scatter look only at the part of `x` that the index covers."""
    for d, size in enumerate(index.shape):
        x = b.slice(x, d, 0, size) if d != dim else x
    return x


@lowers("gather")
def _gather(b, x, dim, index, sparse_grad=False):
    dim = normalize_dim(dim, len(x.shape))
    return b.gather(_cut_to(b, x, index, dim), b.convert(index, torch.int64), dim)


def _is_single(shape, dim, index):
    """One index per line of `dim`: scattering is a comparison of positions, an elementwise
    operator.
    """
    return index.shape == tuple(1 if d == dim else size for d, size in enumerate(shape))


def _hits(b, shape, dim, index):
    return b.compare("eq", b.iota(shape, dim), b.convert(index, torch.int64))


def _scatter_into_zeros(b, shape, dim, index, source):
    """Adds `source` at `index` into zeros of `shape`."""
    if 0 in index.shape:
        return b.full(shape, 0, source.dtype)
    if _is_single(shape, dim, index):
        return b.expand(b.select(_hits(b, shape, dim, index), source, 0, source.dtype), shape)
    total = b.scatter_add(source, index, dim, shape[dim])
    for d, size in enumerate(shape):
        total = b.pad(total, d, 0, size - total.shape[d]) if d != dim else total
    return total


@lowers("scatter_add")
def _scatter_add(b, x, dim, index, source):
    dim = normalize_dim(dim, len(x.shape))
    total = _scatter_into_zeros(b, x.shape, dim, index, _cut_source(b, source, index))
    return total if b.splat_number(x) == 0 else b.binary("add", x, total)


def _cut_source(b, source, index):
    for d, size in enumerate(index.shape):
        source = b.slice(source, d, 0, size)
    return source


def _counts_along(b, index, dim):
    """Whether `index` is 0, 1, ... along a dimension, the same at all places of the others."""
    size, behind = index.shape[dim], len(index.shape) - dim
    if index.owner is not None and index.owner.name == "expand":
        index = index.owner.operands[0]
    is_along = len(index.shape) >= behind and index.shape[-behind] == size
    return is_along and _batched_positions(b, index, size)


def _is_distinct(b, index, dim):
    """Whether no position comes twice along `dim`, by what the index is made of."""
    is_order = index.owner is not None and index.owner.name == "topk" and index.index == 1
    return (is_order and index.owner.attributes["dim"] == dim) or _counts_along(b, index, dim)


def _is_last(b, index, dim):
    """Where a position is the last one of its kind along `dim`: what is written there stays, as in eager."""
    count = index.shape[dim]
    ordered, order = _sort(b, index, dim)
    first, second = b.slice(ordered, dim, 0, count - 1), b.slice(ordered, dim, 1, count)
    followed = b.pad(b.convert(b.compare("eq", first, second), torch.int64), dim, 0, 1)
    return b.compare("eq", b.scatter_add(followed, order, dim, count), 0)


@lowers("scatter")
def _scatter(b, x, dim, index, source):
    dim = normalize_dim(dim, len(x.shape))
    if _is_single(x.shape, dim, index):
        return b.select(_hits(b, x.shape, dim, index), source, x, x.dtype)
    ones = b.full(index.shape, 1, torch.int64)
    hit = b.compare("gt", _scatter_into_zeros(b, x.shape, dim, index, ones), 0)
    if not hasattr(source, "shape"):
        return b.select(hit, source, x, x.dtype)
    if b.splat(source) is not None:
        return b.select(hit, b.splat(source), x, x.dtype)
    index, source = b.convert(index, torch.int64), _cut_source(b, source, index)
    if not _is_distinct(b, index, dim):
        source = b.select(_is_last(b, index, dim), source, 0, source.dtype)
    total = _scatter_into_zeros(b, x.shape, dim, index, source)
    return total if b.splat_number(x) == 0 else b.select(hit, total, x, x.dtype)


@lowers("index_select")
def _index_select(b, x, dim, index):
    return _rows(b, x, normalize_dim(dim, len(x.shape)), _wrapped(b, index, x.shape[dim]))


def _rows(b, x, dim, index):
    """x[..., index, ...] with the dimensions of the index in the place of `dim`."""
    taken = b.embedding(b.move_dim(x, dim, 0), index)
    rank = len(index.shape)
    order = [*range(rank, rank + dim), *range(rank), *range(rank + dim, len(taken.shape))]
    return b.permute(taken, order)


@lowers("unfold")
def _unfold(b, x, dim, size, step):
    """Windows of `size` along `dim`, as a new last dimension."""
    dim = normalize_dim(dim, len(x.shape))
    shape = (b.out.shape[dim], size)
    starts = b.iota(shape, 0) if step == 1 else b.binary("mul", b.iota(shape, 0), step)
    positions = b.binary("add", starts, b.iota(shape, 1))
    taken = _rows(b, x, dim, positions)
    return b.move_dim(taken, dim + 1, len(taken.shape) - 1)


class _Advanced:
    """x[indices] with tensors at some dimensions: `dims` of them, all broadcast to `shape`.

    The indexed dimensions are moved to the front and merged, so that one linear index takes rows
    of them.
    """

    def __init__(self, b, x, indices):
        if any(index is not None and index.dtype == torch.bool for index in indices):
            raise Unsupported(
                "a mask as index: the shape depends on data; multiply by the mask, or use"
                " torch.where"
            )
        self.dims = [dim for dim, index in enumerate(indices) if index is not None]
        self.rest = [dim for dim in range(len(x.shape)) if dim not in self.dims]
        self.sizes = [x.shape[dim] for dim in self.dims]
        self.shape = tuple(torch.broadcast_shapes(*(indices[dim].shape for dim in self.dims)))
        self.order = [*self.dims, *self.rest]
        self.x_shape = x.shape
        self.linear = self._linear(b, [indices[dim] for dim in self.dims])

        self.indices = [indices[dim] for dim in self.dims]

    def _linear(self, b, indices):
        linear = None
        for index, size in zip(indices, self.sizes, strict=False):
            index = _wrapped(b, index, size)
            if linear is not None:
                index = b.binary("add", b.binary("mul", linear, size), index)
            linear = index
        return b.expand(linear, self.shape)

    def merged(self, b, x):
        """The indexed dimensions first, merged."""
        tail = tuple(self.x_shape[dim] for dim in self.rest)
        return b.reshape(b.permute(x, self.order), (math.prod(self.sizes),) + tail)

    def separated(self, b, merged):
        shape = [self.x_shape[dim] for dim in self.order]
        return b.permute(
            b.reshape(merged, shape), [self.order.index(dim) for dim in range(len(shape))]
        )

    def sums(self, b, rows):
        """Zeros of x's shape, and `rows` added at their places."""
        count = math.prod(self.sizes)
        return self.separated(b, b.embedding_backward(rows, self.linear, count))

    def _is_counted(self, b, dim):
        """Whether an index counts along a dimension of `shape`, so that places differ which differ there."""
        for index in self.indices:
            own = dim - len(self.shape) + len(index.shape)
            if own >= 0 and index.shape[own] == self.shape[dim] and _counts_along(b, index, own):
                return True
        return False

    def last_of_each(self, b, rows):
        """Those of `rows` that are the last ones at their place; zeros for the others."""
        counted, others = [], []
        for dim, size in enumerate(self.shape):
            (counted if size == 1 or self._is_counted(b, dim) else others).append(dim)
        if not others:
            return rows
        order = counted + others
        shape = [self.shape[dim] for dim in order]
        apart = (*shape[: len(counted)], math.prod(shape[len(counted) :]))
        last = _is_last(b, b.reshape(b.permute(self.linear, order), apart), len(counted))
        last = b.permute(b.reshape(last, shape), [order.index(dim) for dim in range(len(order))])
        last = b.reshape(last, self.shape + (1,) * len(self.rest))
        return b.select(last, rows, 0, rows.dtype)

    def _result_order(self):
        """Where the index's dimensions stand in the result: in place if adjacent, else in front."""
        rank = len(self.shape)
        adjacent = self.dims == list(range(self.dims[0], self.dims[-1] + 1))
        before = self.dims[0] if adjacent else 0
        return [
            *range(rank, rank + before),
            *range(rank),
            *range(rank + before, rank + len(self.rest)),
        ]

    def to_result(self, b, rows):
        return b.permute(rows, self._result_order())

    def from_result(self, b, values):
        order = self._result_order()
        shape = self.shape + tuple(self.x_shape[dim] for dim in self.rest)
        values = b.expand(values, [shape[dim] for dim in order])
        return b.permute(values, [order.index(dim) for dim in range(len(order))])


def _batched_positions(b, index, size):
    """Whether `index` is 0, 1, ..., size - 1 along its only dimension larger than one."""
    if index is None or math.prod(index.shape) != size:
        return False
    owner = index.owner
    while owner is not None and owner.name == "reshape":
        owner = owner.operands[0].owner
    return owner is not None and owner.name == "iota"


def _along_batch(b, x, indices):
    """Positions in the rows of x[arange(n), i] and x[arange(n)[:, None], i], (n, how many of a row): of a gather, which can be
    split over n. None where the pattern does not match.
    """
    if (
        len(indices) < 2
        or any(index is None for index in indices[:2])
        or any(i is not None for i in indices[2:])
    ):
        return None
    rows, columns = indices[:2]
    count = x.shape[0]
    if (
        columns.dtype == torch.bool
        or rows.shape[:1] != (count,)
        or not _batched_positions(b, rows, count)
    ):
        return None
    shape = _shape_along(indices)
    if len(rows.shape) < len(shape):
        return None
    columns = b.expand(_wrapped(b, columns, x.shape[1]), shape)
    return b.reshape(columns, (count, math.prod(shape[1:])))


def _shape_along(indices):
    """Of the positions, as they are given."""
    return tuple(torch.broadcast_shapes(*(index.shape for index in indices[:2])))


def _for_each(b, positions, x):
    """For all that is behind them in x."""
    tail = x.shape[2:]
    return b.expand(
        b.reshape(positions, positions.shape + (1,) * len(tail)), positions.shape + tail
    )


@lowers("index", "_unsafe_index")
def _index(b, x, indices):
    along = _along_batch(b, x, indices)
    if along is not None:
        return b.reshape(b.gather(x, _for_each(b, along, x), 1), b.out.shape)
    present = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(present) == 1 and present[0][1].dtype != torch.bool:
        dim, index = present[0]
        return _rows(b, x, dim, _wrapped(b, index, x.shape[dim]))
    advanced = _Advanced(b, x, indices)
    return advanced.to_result(b, b.embedding(advanced.merged(b, x), advanced.linear))


@lowers("index_put", "_unsafe_index_put", "index_put_")
def _index_put(b, x, indices, values, accumulate=False):
    if len(indices) == 1 and indices[0].dtype == torch.bool and not values.shape:
        mask = b.reshape(
            indices[0], indices[0].shape + (1,) * (len(x.shape) - len(indices[0].shape))
        )
        return b.select(mask, b.binary("add", x, values) if accumulate else values, x, x.dtype)
    along = _along_batch(b, x, indices)
    if along is not None:
        values = b.expand(b.convert(values, x.dtype), _shape_along(indices) + x.shape[2:])
        source = b.reshape(values, along.shape + x.shape[2:])
        if not accumulate:
            return _written_along(b, x, along, source)
        total = b.scatter_add(source, _for_each(b, along, x), 1, x.shape[1])
    else:
        advanced = _Advanced(b, x, indices)
        rows = advanced.from_result(b, b.convert(values, x.dtype))
        if not accumulate:
            return _written(b, x, advanced, rows)
        total = advanced.sums(b, rows)
    return total if b.splat_number(x) == 0 else b.binary("add", x, total)


def _written_along(b, x, positions, source):
    tail = (1,) * len(x.shape[2:])
    ones = b.full(positions.shape, 1, torch.int64)
    hit = b.compare("gt", b.scatter_add(ones, positions, 1, x.shape[1]), 0)
    hit = b.reshape(hit, hit.shape + tail)
    value = b.splat(source)
    if value is None:
        if positions.shape[1] > 1 and not _is_distinct(b, positions, 1):
            last = _is_last(b, positions, 1)
            source = b.select(b.reshape(last, last.shape + tail), source, 0, x.dtype)
        value = b.scatter_add(source, _for_each(b, positions, x), 1, x.shape[1])
    return b.select(hit, value, x, x.dtype)


def _written(b, x, advanced, rows):
    ones = b.full(rows.shape, 1, torch.int64)
    hit = b.compare("gt", advanced.sums(b, ones), 0)
    value = b.splat(rows)
    if value is None:
        value = advanced.sums(b, advanced.last_of_each(b, rows))
    return b.select(hit, value, x, x.dtype)


@lowers("take")
def _take(b, x, index):
    return _index(b, b.reshape(x, (math.prod(x.shape),)), [index])


@lowers("put")
def _put(b, x, index, source, accumulate=False):
    flat, places = ((math.prod(v.shape),) for v in (x, index))
    index, source = b.reshape(index, places), b.reshape(source, places)
    return b.reshape(_index_put(b, b.reshape(x, flat), [index], source, accumulate), x.shape)


@lowers("index_copy")
def _index_copy(b, x, dim, index, source):
    return _index_put(b, x, [None] * normalize_dim(dim, len(x.shape)) + [index], source)


@lowers("index_add")
def _index_add(b, x, dim, index, source, alpha=1):
    dim = normalize_dim(dim, len(x.shape))
    source = b.binary("mul", source, alpha) if alpha != 1 else source
    total = b.embedding_backward(
        b.move_dim(source, dim, 0), _wrapped(b, index, x.shape[dim]), x.shape[dim]
    )
    total = b.move_dim(total, 0, dim)
    return total if b.splat_number(x) == 0 else b.binary("add", x, total)
