"""Rows chosen by a mask, during capture.

Their number is data. So all rows go on, with the mask beside them, through operators that treat each row alike. A sum or
a mean over the rows counts the chosen ones. The others hold an ordinary number, so their gradients are never NaN. Any
other use is an error.
"""

import math

import torch

from ..errors import CaptureError
from .locations import current_location
from .reads import is_same

# What a row that is not chosen holds: no logarithm, root or quotient of it is infinite.
_ORDINARY = 0.5

_ELEMENTWISE = frozenset(
    """
    abs add bool clamp clamp_max clamp_min clone contiguous cos detach div double eq erf exp expm1 float floor full_like ge gelu gt half int
    isfinite isinf isnan le leaky_relu log log1p logical_and logical_not logical_or logsigmoid long lt maximum minimum mul ne neg ones_like pow reciprocal relu
    round rsqrt sigmoid sign silu sin softplus sqrt square sub tan tanh to true_divide type_as where
    zeros_like linear layer_norm rms_norm
    """.split()  # noqa: SIM905 - a list of words is easier to read
)
# What they take beside the rows is no row.
_OF_PARAMETERS = ("linear", "layer_norm", "rms_norm")
# Those whose dimension is an argument, which must not be that of the rows.
_ALONG = frozenset(
    """
    softmax log_softmax logsumexp argmax argmin amax amin norm cumsum gather squeeze unsqueeze sum mean max min var std one_hot
    """.split()  # noqa: SIM905 - a list of words is easier to read
)
_LOSSES = frozenset(
    """
    mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div soft_margin_loss
    gaussian_nll_loss poisson_nll_loss cross_entropy nll_loss
    """.split()  # noqa: SIM905 - a list of words is easier to read
)
_SAME = {"view", "reshape", "flatten"}
_OPERATORS = {
    "__add__": torch.Tensor.add,
    "__radd__": torch.Tensor.add,
    "__sub__": torch.Tensor.sub,
    "__rsub__": lambda x, y: torch.sub(y, x) if isinstance(y, torch.Tensor) else torch.neg(x - y),
    "__mul__": torch.Tensor.mul,
    "__rmul__": torch.Tensor.mul,
    "__truediv__": torch.Tensor.div,
    "__rtruediv__": lambda x, y: torch.reciprocal(x) * y,
    "__pow__": torch.Tensor.pow,
    "__neg__": torch.Tensor.neg,
    "__eq__": torch.Tensor.eq,
    "__ne__": torch.Tensor.ne,
    "__lt__": torch.Tensor.lt,
    "__le__": torch.Tensor.le,
    "__gt__": torch.Tensor.gt,
    "__ge__": torch.Tensor.ge,
    "__and__": torch.Tensor.logical_and,
    "__or__": torch.Tensor.logical_or,
    "__invert__": torch.Tensor.logical_not,
}


# What to write, where a mask has one value per row, and where it has several, as of the experts that each token takes.
_OF_ROWS = "write it for all rows, as torch.where(mask, x, 0).sum() / mask.sum()"
_OF_SEVERAL = (
    "of experts chosen[token, place] == k let mask = (chosen == k).any(-1), and use x[mask], (weights * (chosen == k)).sum(-1)[mask]"
    " and y[mask] += ..."
)


def refuse(what, mask=None):
    advice = _OF_ROWS if mask is None or mask.dim() == 1 else _OF_SEVERAL
    return CaptureError(
        f"{current_location()}: {what} rows that a mask chooses, and how many these are depends on data; expected what does the same to"
        f" each row, and then a sum or a mean: {advice}"
    )


class Masked:
    """`rows[mask]`: `mask` has one dimension, the first one of `rows`."""

    def __init__(self, rows, mask):
        self.rows, self.mask = rows, mask

    @property
    def count(self):
        return self.mask.sum()

    @property
    def shape(self):
        return (self.count, *self.rows.shape[1:])

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def numel(self):
        return self.count * math.prod(self.rows.shape[1:])

    def dim(self):
        return self.rows.dim()

    def __len__(self):
        raise refuse("Python is to count the")

    def __bool__(self):
        raise refuse("a branch looks at")

    def __iter__(self):
        raise refuse("a loop runs over the")

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        if index and index[0] in (slice(None), Ellipsis):
            return Masked(self.rows[index], self.mask)
        raise refuse("an index is taken of")

    def __getattr__(self, name):
        if name in ("dtype", "device", "requires_grad", "is_cuda", "layout", "ndim"):
            return getattr(self.rows, name)
        method = getattr(torch.Tensor, name, None)
        if not callable(method):
            raise AttributeError(name)
        return lambda *args, **kwargs: _apply(method, (self, *args), kwargs)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return _apply(function, args, kwargs or {})

    __hash__ = object.__hash__


def _operator(function):
    return lambda self, *args: _apply(function, (self, *args), {})


for _name, _function in _OPERATORS.items():
    setattr(Masked, _name, _operator(_function))


def one_mask(arguments):
    """That of all, which have to be equal: what is not known to be is looked at."""
    masks = [a.mask for a in arguments if isinstance(a, Masked)]
    for mask in masks[1:]:
        if mask.shape != masks[0].shape or not (
            is_same(mask, masks[0]) or torch.equal(mask, masks[0])
        ):
            raise refuse("two masks choose the")
    return masks[0]


def _apply(function, args, kwargs):
    name = function.__name__.strip("_")
    values = (*args, *kwargs.values())
    if name in _SAME:
        return _reshaped(name, *args)
    known = name in _ELEMENTWISE | _ALONG | _LOSSES or function in _OPERATORS.values()
    if not known:
        raise refuse(f"{name} is computed of")
    mask = one_mask(values)
    if name in _LOSSES:
        return _loss(function, name, args, kwargs, mask)
    if name in ("sum", "mean") and isinstance(args[0], Masked):
        over = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if over in (None, 0, (0,), [0]) or args[0].dim() == 1:
            return _total(args[0], name, over, kwargs)
    rank = max(value.dim() for value in values if isinstance(value, Masked))
    if name in _ALONG and not _keeps_rows(args, kwargs, rank):
        raise refuse(f"{name} runs over the")
    takes_parameters = name in _OF_PARAMETERS
    if takes_parameters and rank < 2:
        raise refuse(f"{name} runs over the")
    if not takes_parameters and not all(_fits(value, rank) for value in values):
        raise refuse(f"{name} is computed of")
    args = [a.rows if isinstance(a, Masked) else a for a in args]
    result = function(
        *args, **{k: v.rows if isinstance(v, Masked) else v for k, v in kwargs.items()}
    )
    parts = result if isinstance(result, tuple) else (result,)
    if any(part.dim() == 0 or part.shape[0] != mask.shape[0] for part in parts):
        raise refuse(f"{name} moves the")
    parts = [Masked(part, mask) for part in parts]
    return type(result)(parts) if isinstance(result, tuple) else parts[0]


def _fits(value, rank):
    """Whether a tensor beside the rows has no row of its own for each."""
    return not isinstance(value, torch.Tensor) or value.dim() < rank or value.shape[0] == 1


def _keeps_rows(args, kwargs, rank):
    dims = kwargs.get("dim", args[1] if len(args) > 1 else None)
    dims = dims if isinstance(dims, (list, tuple)) else [dims]
    return all(isinstance(dim, int) and dim % rank != 0 for dim in dims) if rank > 1 else False


def _reshaped(name, x, *sizes):
    """Where the rows stay rows."""
    sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes
    rest = tuple(x.rows.shape[1:])
    if name == "flatten" and not sizes and x.dim() == 1:
        return x
    if name != "flatten" and sizes and isinstance(sizes[0], int) and sizes[0] == -1:
        known = all(isinstance(size, int) and size >= 0 for size in sizes[1:])
        if known and math.prod(sizes[1:]) == math.prod(rest):
            return Masked(x.rows.reshape(-1, *sizes[1:]), x.mask)
    raise refuse(f"{name} joins or divides the")


def _zeroed(x):
    shape = (-1,) + (1,) * (x.rows.dim() - 1)
    return torch.where(x.mask.reshape(shape), x.rows, 0)


def _total(x, name, over, kwargs):
    dims = list(range(x.rows.dim())) if over is None else [0]
    total = _zeroed(x).sum(dims, keepdim=kwargs.get("keepdim", False))
    if name == "sum":
        return total
    return total / (x.count * (math.prod(x.rows.shape[1:]) if over is None else 1))


def _loss(function, name, args, kwargs, mask):
    reduction = kwargs.get("reduction", "mean")
    rows = [a.rows if isinstance(a, Masked) else a for a in args]
    others = {k: v.rows if isinstance(v, Masked) else v for k, v in kwargs.items()}
    tensors = [a for a in args[:2] if not isinstance(a, Masked)]
    if tensors or len(args) < 2:
        raise refuse(f"{name} is computed of all rows and of")
    if name in ("cross_entropy", "nll_loss") and not rows[1].is_floating_point():
        ignored = kwargs.get("ignore_index", -100)
        shape = (-1,) + (1,) * (rows[1].dim() - 1)
        rows[1] = torch.where(mask.reshape(shape), rows[1], ignored)
        result = function(*rows, **others)
        return Masked(result, mask) if reduction == "none" else result
    result = Masked(function(*rows, **(others | {"reduction": "none"})), mask)
    if reduction == "none":
        return result
    if reduction == "batchmean":
        return result.sum() / result.count
    return result.mean() if reduction == "mean" else result.sum()


def choose(x, mask):
    """x[mask]. What is not chosen is replaced before dimensions are joined, so that a batch that is not the first of them can be split."""
    rest = x.shape[mask.dim() :]
    ordinary = _ORDINARY if x.is_floating_point() else 0
    chosen = mask.reshape(*mask.shape, *(1,) * len(rest))
    rows = torch.where(chosen, x, torch.full_like(x, ordinary)).reshape(-1, *rest)
    return Masked(rows, mask.reshape(-1))
