"""Definitions for capture of functions that PyTorch computes in one piece or from values.

Such functions have no operator in the `nn` dialect, and no decomposition that autograd could follow. Values and
gradients equal eager's up to rounding.
"""

import contextlib
import functools
import inspect
import itertools
from unittest import mock

import torch
import torch.nn.functional as F
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from ..tracing import masks, reads
from ..tracing.attention import attention
from ..tracing.experts import token_by_token
from ..tracing.precision import check_autocast
from . import (
    aten_definitions,
    lists,
    losses,
    matrices,
    packed,
    recurrent,
    requirements,
    sampling,
    segments,
)


class _WithZeros(torch.autograd.Function):
    """A result, and operands whose gradient is zeros, where the definition has none by them."""

    @staticmethod
    def forward(ctx, result, *operands):
        ctx.save_for_backward(*operands)
        return result.view_as(result)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, *map(torch.zeros_like, ctx.saved_tensors)


def with_zeros(result, *operands):
    """The result, whose gradient by the operands is there as in PyTorch: an optimizer decays what has one."""
    return _WithZeros.apply(result, *operands)


@torch.no_grad()
def _shorten_used(weight, places, max_norm, norm_type):
    """With `max_norm` rows that are looked up are made shorter, in the parameter itself."""
    is_used = (places.reshape(-1, 1) == torch.arange(weight.shape[0])).any(0)
    norms = torch.linalg.vector_norm(weight, norm_type, dim=-1)
    factor = torch.where(is_used & (norms > max_norm), max_norm / (norms + 1e-7), 1.0)
    weight.mul_(factor[:, None].to(weight.dtype))


def _embedding_bag(
    input,  # noqa: A002
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """Bags of equal size, or one behind the other with where each begins."""
    if sparse or scale_grad_by_freq:
        return None
    if max_norm is not None:
        _shorten_used(weight, input, max_norm, norm_type)
    rows = F.embedding(input, weight)
    if padding_idx is not None:
        padding_idx %= weight.shape[0]
    used = torch.ones_like(input, dtype=torch.bool) if padding_idx is None else input != padding_idx
    if offsets is not None:
        requirements.offsets_of(offsets, input.shape[0])
        bags = offsets[:-1] if include_last_offset else offsets
        places = torch.arange(input.shape[0])
        ends = torch.cat([bags[1:], torch.full_like(bags[:1], input.shape[0])])
        if include_last_offset:
            ends = offsets[1:]
        # Every bag has all rows, those of other bags unused.
        used = used & (places >= bags[:, None]) & (places < ends[:, None])
    if mode == "max":
        kept = torch.where(used[..., None], rows, -torch.inf)
        return torch.where(used.any(-1)[:, None], kept.max(-2).values, 0.0)
    share = used.to(rows.dtype)
    if per_sample_weights is not None:
        share = share * per_sample_weights
    total = (share @ rows) if offsets is not None else (rows * share[..., None]).sum(1)
    if mode == "sum":
        return total
    return total / used.sum(-1).clamp(min=1)[:, None]


def _fill_diagonal(x, value, wrap=False):
    """A write to the diagonal's view; None for tall matrices that wrap and for more dimensions."""
    if x.dim() != 2 or (wrap and x.shape[0] > x.shape[1]):
        return None
    x.diagonal().fill_(value)
    return x


def _embedding(
    input,  # noqa: A002
    weight,
    padding_idx=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    sparse=False,
):
    if max_norm is None:
        return None
    _shorten_used(weight, input, max_norm, norm_type)
    return F.embedding(input, weight, padding_idx, None, 2.0, scale_grad_by_freq, sparse)


def _normal(mean, std=1.0, size=None, *, dtype=None, **_):
    """The gradient by what it is drawn with is zeros, as in PyTorch."""
    tensors = [v for v in (mean, std) if isinstance(v, torch.Tensor)]
    mean, std = (v.detach() if isinstance(v, torch.Tensor) else v for v in (mean, std))
    if isinstance(std, torch.Tensor):
        reads.require("a standard deviation", std, std >= 0, "one from 0 on")
    if tensors:
        size, dtype = torch.broadcast_shapes(*(t.shape for t in tensors)), tensors[0].dtype
    return with_zeros(torch.empty(size, dtype=dtype).normal_() * std + mean, *tensors)


def _bincount(x, weights=None, minlength=0):
    """Of data, where `minlength` says how long it is, which is looked at (reads.py)."""
    known = not isinstance(x, FakeTensor) or reads.constant_of(x) is not None
    if known or not minlength or not (x < minlength).all():
        return None
    reads.require("what is counted", x, x >= 0, "a number from 0 on")
    hits = x[:, None] == torch.arange(minlength)
    return hits.sum(0) if weights is None else torch.where(hits, weights[:, None], 0).sum(0)


def _combinations(input, r=2, with_replacement=False):  # noqa: A002
    if input.dim() != 1 or r < 1:
        return None
    kind = "combinations_with_replacement" if with_replacement else "combinations"
    places = list(getattr(itertools, kind)(range(input.shape[0]), r))
    return input[torch.tensor(places, dtype=torch.int64).reshape(-1, r)]


def _allclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
    return bool(torch.isclose(x, y, rtol, atol, equal_nan).all())


def _of_some(loss):
    """The loss of no elements: PyTorch's formula of its gradient divides by their number."""
    signature = inspect.signature(loss)

    def definition(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        elements = given["input"] - given["target"] if _is_empty(given) else None
        how = given.get("reduction", "mean")
        return elements if elements is None or how == "none" else getattr(elements, how)()

    return definition


def _is_empty(given):
    """Not of rows that a mask chooses, whose number is known in each step only."""
    pair = given["input"], given["target"]
    return all(isinstance(x, torch.Tensor) for x in pair) and not all(x.numel() for x in pair)


def _affine_grid(theta, size, align_corners=None):
    """Of images: places in [-1, 1] of pixels or, unless corners are aligned, of their middles."""
    if len(size) != 4:
        return None

    def places(count):
        if count == 1:
            return torch.zeros(1, dtype=theta.dtype)
        return torch.linspace(-1, 1, count, dtype=theta.dtype) * (
            1 if align_corners else (count - 1) / count
        )

    rows, columns = size[-2:]
    x, y = places(columns).expand(rows, columns), places(rows)[:, None].expand(rows, columns)
    base = torch.stack([x, y, torch.ones_like(x)], -1).reshape(-1, 3)
    return (base @ theta.mT).reshape(size[0], rows, columns, 2)


GROUPED_MM = [
    getattr(module, name)
    for module, name in ((F, "grouped_mm"), (torch, "_grouped_mm"))
    if hasattr(module, name)
]


def grouped_mm(x, weight, offs=None, bias=None, out_dtype=None):
    """Rows by the matrix of their group; group e ends before row offs[e]. How many rows a group has is data,
    so each matrix gets all rows, those of the other groups as zeros.
    """
    if x.dim() != 2 or weight.dim() != 3 or bias is not None or out_dtype is not None:
        return None
    ends, rows = offs[:, None], torch.arange(x.shape[0])
    starts = torch.cat([torch.zeros_like(ends[:1]), ends[:-1]])
    inside = ((rows >= starts) & (rows < ends))[..., None]
    return (torch.where(inside, x, torch.zeros_like(x)) @ weight).sum(0)


def _pad(x, pad, mode="constant", value=None):
    """Rows at the edges again and again: an index per dimension."""
    if mode != "replicate":
        return None
    for i in range(len(pad) // 2):
        dim, (before, after) = x.dim() - 1 - i, pad[2 * i : 2 * i + 2]
        index = torch.arange(-before, x.shape[dim] + after).clamp(0, x.shape[dim] - 1)
        x = x.index_select(dim, index)
    return x


_SAMPLING = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_PADDING = {"zeros": 0, "border": 1, "reflection": 2}


def _grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):  # noqa: A002
    """Of images, by PyTorch's formula, which autograd can follow; of volumes, by ours."""
    if mode not in _SAMPLING or padding_mode not in _PADDING or input.dim() != grid.dim():
        return None
    if mode == "bilinear":
        sizes = input.shape[2:][::-1]
        grid = sampling.held_at_edges(grid, sizes, padding_mode, bool(align_corners))
    if input.dim() == 5 and mode != "bicubic":
        result = sampling.sample_volumes(input, grid, mode, padding_mode, bool(align_corners))
    elif input.dim() == 4:
        formula = decomposition_table[torch.ops.aten.grid_sampler_2d.default]
        result = formula(input, grid, _SAMPLING[mode], _PADDING[padding_mode], bool(align_corners))
        if (mode, padding_mode) == ("bilinear", "zeros"):  # nan where a place is not finite
            result = result + (grid.detach() * 0).sum(-1)[:, None]
    else:
        return None
    return with_zeros(result, grid) if mode == "nearest" else result


def _grid_sampler(input, grid, mode, padding_mode, align_corners):  # noqa: A002
    """As `F.grid_sample`, with numbers for names."""
    names = [{number: name for name, number in table.items()} for table in (_SAMPLING, _PADDING)]
    modes = (names[0][mode], names[1][padding_mode])
    return _grid_sample(input, grid, *modes, align_corners)


def _set_data(tensor, value):
    """A write: the tracer follows values, not whose memory a tensor has."""
    if value.shape != tensor.shape or value.dtype != tensor.dtype:
        raise RuntimeError(
            f"x.data = y with y of {value.dtype} and shape {list(value.shape)}, expected {tensor.dtype} and"
            f" {list(tensor.shape)}, those of x"
        )
    tensor.data.copy_(value)
    return tensor


def _lstm(*args, **kwargs):
    """(data, batch_sizes, ...) of packed sequences, or (input, states, ...)."""
    result = packed.DEFINITIONS[torch.lstm](*args, **kwargs)
    is_dense = isinstance(args[1], (list, tuple))
    if result is None and is_dense and torch.is_autocast_enabled("cpu"):
        return recurrent.lstm_under_autocast(*args, **kwargs)
    return result


def _linear_cross_entropy(*args, options=None, **kwargs):
    """Chunks, which save memory in eager, are for the plan to make."""
    return None if options is None else F.linear_cross_entropy(*args, **kwargs)


_DEFINITIONS = {
    F.scaled_dot_product_attention: attention,
    **dict.fromkeys((torch.allclose, torch.Tensor.allclose), _allclose),
    **dict.fromkeys((torch.bincount, torch.Tensor.bincount), _bincount),
    F.embedding: _embedding,
    F.one_hot: requirements.one_hot,
    torch.normal: _normal,
    F.pad: _pad,
    torch.Tensor.fill_diagonal_: _fill_diagonal,
    F.gaussian_nll_loss: losses.gaussian_nll_loss,
    F.ctc_loss: losses.ctc_loss,
    torch.segment_reduce: segments.segment_reduce,
    torch.combinations: _combinations,
    F.linear_cross_entropy: _linear_cross_entropy,
    F.multi_margin_loss: losses.multi_margin_loss,
    F.multilabel_margin_loss: losses.multilabel_margin_loss,
    F.grid_sample: _grid_sample,
    **dict.fromkeys((torch.grid_sampler_2d, torch.grid_sampler_3d), _grid_sampler),
    F.embedding_bag: _embedding_bag,
    F.affine_grid: _affine_grid,
    **{loss: _of_some(loss) for loss in (F.mse_loss, F.smooth_l1_loss, F.huber_loss)},
    torch.Tensor.__bool__: reads.truth,
    torch.Tensor.item: reads.item,
    torch.Tensor.__getitem__: masks.getitem,
    torch.Tensor.__setitem__: masks.setitem,
    torch.masked_select: masks.masked_select,
    torch.Tensor.masked_select: masks.masked_select,
    torch.masked_scatter: masks.masked_scatter,
    torch.Tensor.masked_scatter: masks.masked_scatter,
    torch.Tensor.masked_scatter_: masks.masked_scatter_,
    torch.nonzero: masks.nonzero,
    torch.Tensor.nonzero: masks.nonzero,
    torch.where: masks.where,
    torch.tensor_split: reads.tensor_split,
    torch.Tensor.tensor_split: reads.tensor_split,
    torch.Tensor.numpy: reads.array,
    torch.Tensor.__array__: reads.array,
    torch.Tensor.data.__set__: _set_data,
    **lists.DEFINITIONS,
    **matrices.DEFINITIONS,
    **packed.DEFINITIONS,
    torch.lstm: _lstm,
    **dict.fromkeys(GROUPED_MM, grouped_mm),
}
_DEFINITIONS |= aten_definitions.of(_DEFINITIONS)


# On autocast's list of what computes in float32, where an operator of PyTorch's stands for the definition.
_IN_FLOAT32 = {
    F.ctc_loss,
    F.grid_sample,
    F.multi_margin_loss,
    F.multilabel_margin_loss,
}


def _is_in_float32(function, args, kwargs):
    if not torch.is_autocast_enabled("cpu"):
        return False
    is_replication = function is F.pad and "replicate" in (*args[2:3], kwargs.get("mode"))
    return function in _IN_FLOAT32 or is_replication


def _to_float32(x):
    return x.float() if isinstance(x, torch.Tensor) and x.dtype == torch.bfloat16 else x


class _ByDefinition(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        check_autocast()
        if function in _DEFINITIONS:
            if _is_in_float32(function, args, kwargs):
                args, kwargs = tree_map(_to_float32, (args, kwargs))
            result = _DEFINITIONS[function](*args, **kwargs)
            if result is not None:
                return result
        return function(*args, **kwargs)


_batch_norm = torch.nn.modules.batchnorm._BatchNorm.forward


def _cumulative_batch_norm(self, x):
    """With `momentum=None` the running statistics are averages over all batches. PyTorch reads the
    count as a Python number, which would be frozen in the capture.
    """
    if self.momentum is not None or not (self.training and self.track_running_stats):
        return _batch_norm(self, x)
    self._check_input_dim(x)
    y = F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
    with torch.no_grad():
        self.num_batches_tracked.add_(1)
        factor = 1.0 / self.num_batches_tracked.to(self.running_mean.dtype)
        others = [0, *range(2, x.dim())]
        self.running_mean.add_(factor * (x.mean(others) - self.running_mean))
        self.running_var.add_(factor * (x.var(others) - self.running_var))
    return y


def _to_what_it_is(self, *args, **kwargs):
    """Routers ask for their type in the forward pass, which they have; traced weights cannot be swapped."""
    dtype = torch._C._nn._parse_to(*args, **kwargs)[1]
    tensors = (*self.parameters(), *self.buffers())
    if all(not t.is_floating_point() or t.to(dtype or t.dtype).dtype == t.dtype for t in tensors):
        return self
    raise RuntimeError(
        f"{type(self).__name__}.to({dtype}) converts parameters in the forward pass, expected the type that"
        " they have: convert the input instead"
    )


_adaptive_log_softmax = torch.nn.AdaptiveLogSoftmaxWithLoss.forward


def _adaptive_log_softmax_by_all(self, input_, target_):
    result = losses.adaptive_log_softmax_with_loss(self, input_, target_)
    return _adaptive_log_softmax(self, input_, target_) if result is None else result


# What F.interpolate calls, each with a formula of PyTorch's that autograd can follow.
_RESIZING = ("nearest", "_nearest_exact", "bilinear", "trilinear", "bicubic")


def _linear(x, size, align_corners, factors):
    """The one without a formula for both ways to say a size."""
    formula = decomposition_table[torch.ops.aten.upsample_linear1d.default]
    size = [int(x.shape[2] * factors[0])] if size is None else size
    return formula(x, size, align_corners, None if factors is None else factors[0])


def _fractional_starts(sample, size, outputs, kernel):
    """Where windows begin, for samples of each image and channel (B. Graham, 2014)."""
    if outputs == 1:
        return torch.full((*sample.shape, 1), size - kernel)
    step = (size - kernel) / (outputs - 1)
    places = torch.arange(outputs - 1)
    starts = ((places + sample[..., None]) * step).long() - (sample[..., None] * step).long()
    return torch.cat([starts, torch.full_like(starts[..., :1], size - kernel)], -1)


def _fractional_max_pool(order, x, kernel, outputs, samples):
    """`order`: which of the samples is that of each spatial dimension."""
    rank = len(order)
    if x.dim() == rank + 1:  # an image, not a batch of them
        found = _fractional_max_pool(order, x[None], kernel, outputs, samples[:1])
        return tuple(t.squeeze(0) for t in found)
    kernel, outputs = ((n,) * rank if isinstance(n, int) else n for n in (kernel, outputs))
    samples, places = samples[: x.shape[0]], 0  # PyTorch takes more than there are images
    for d, sample in enumerate(order):
        size = x.shape[d - rank]
        starts = _fractional_starts(samples[..., sample], size, outputs[d], kernel[d])
        shape = [1] * (2 * rank)
        shape[d], shape[rank + d] = outputs[d], kernel[d]
        at = starts[..., None] + torch.arange(kernel[d])
        places = places * size + at.reshape(*at.shape[:-2], *shape)
    windows = x.flatten(-rank).gather(-1, places.flatten(-2 * rank)).reshape(places.shape)
    values, best = windows.flatten(-rank).max(-1)
    return values, places.flatten(-rank).gather(-1, best[..., None]).squeeze(-1)


# As PyTorch counts the dimensions of samples.
_FRACTIONAL = {"fractional_max_pool2d": (1, 0), "fractional_max_pool3d": (0, 1, 2)}


def _attention(*args, **kwargs):
    result = attention(*args, **kwargs)
    return _plain_attention(*args, **kwargs) if result is None else result


_plain_attention = F.scaled_dot_product_attention


def _resizing_by_formula():
    for name, formula in sampling.RESIZING.items():
        yield mock.patch.object(torch._C._nn, name, formula)
    yield mock.patch.object(torch._C._nn, "upsample_linear1d", _linear)
    for kind in _RESIZING:
        for rank in ("1d", "2d", "3d"):
            name = f"_upsample{kind}{rank}" if kind[0] == "_" else f"upsample_{kind}{rank}"
            operator = getattr(torch.ops.aten, name, None)
            formula = operator and decomposition_table.get(getattr(operator, "vec", None))
            if formula:
                yield mock.patch.object(torch._C._nn, name, formula)


_engine = torch.autograd._engine_run_backward


def _run_backward(*args, **kwargs):
    """What the backward pass runs again (`torch.utils.checkpoint`) is the user's code as well, and out of sight of the mode that has
    seen the call.
    """
    with _ByDefinition():
        return _engine(*args, **kwargs)


@contextlib.contextmanager
def by_definition():
    """Within it, the functions above run by their definitions."""
    layer = torch.nn.modules.batchnorm._BatchNorm
    with contextlib.ExitStack() as stack:
        for patch in _resizing_by_formula():
            stack.enter_context(patch)
        stack.enter_context(mock.patch.object(layer, "forward", _cumulative_batch_norm))
        stack.enter_context(mock.patch.object(torch.nn.Module, "to", _to_what_it_is))
        stack.enter_context(mock.patch.object(FakeTensor, "tolist", reads.tolist))
        for name, order in _FRACTIONAL.items():
            pool = functools.partial(_fractional_max_pool, order)
            stack.enter_context(mock.patch.object(torch._C._nn, name, pool))
        adaptive = torch.nn.AdaptiveLogSoftmaxWithLoss
        stack.enter_context(mock.patch.object(adaptive, "forward", _adaptive_log_softmax_by_all))
        # Also by its name: within PyTorch's own functions no mode sees it.
        stack.enter_context(mock.patch.object(F, "scaled_dot_product_attention", _attention))
        stack.enter_context(
            mock.patch.object(torch.autograd, "_engine_run_backward", _run_backward)
        )
        stack.enter_context(token_by_token())
        stack.enter_context(packed.by_masks())
        stack.enter_context(_ByDefinition())
        yield
