"""Requirements on values, without which eager raises: indices in range, probabilities, regular matrices.

Each becomes a check of the step, or of the batch before it (`Reads.require`). Kernels check indices of `embedding` and
`gather` themselves, including labels.
"""

import torch

from ..tracing.places import is_place_below
from ..tracing.reads import require
from .special_functions import LARGEST_ORDER, POLYNOMIALS


def _in_range(what, index, size, low=0):
    if index.numel() and index.dtype != torch.bool and not is_place_below(index, size):
        mask = (index >= low) & (index < size)
        require(what, index, mask, f"{low} to {size - 1}")


def _along(x, dim, index, *_, **__):
    """Of one dimension."""
    _in_range("an index", index, x.shape[dim] if x.dim() else 1)


def _along_from_the_end(x, dim, index, *_, **__):
    size = x.shape[dim] if x.dim() else 1
    _in_range("an index", index, size, -size)


def _of_all(x, index, *_, **__):
    _in_range("an index", index, x.numel(), -x.numel())


def _advanced(x, indices, *_, **__):
    """Several are one index to the kernel, which may be in range where they are not."""
    dim = 0
    for index in indices:
        if index is not None and index.dtype == torch.bool:
            dim += index.dim()
            continue
        if index is not None and len(indices) > 1:
            _in_range("an index", index, x.shape[dim], -x.shape[dim])
        dim += 1


def _unpooled(x, indices, output_size, *_, **__):
    _in_range("an index", indices, torch.Size(output_size).numel())


def _probabilities(what, values):
    require(what, values, (values >= 0) & (values <= 1), "0 to 1")


def _bernoulli(x, p=None, *_, **__):
    values = x if p is None else p
    if isinstance(values, torch.Tensor):
        _probabilities("a probability", values)


def _multinomial(weights, *_, **__):
    require("a weight", weights, (weights >= 0) & weights.isfinite(), "a finite number from 0 on")
    total = weights.sum(-1)
    require("a sum of weights", total, ~(total <= 0), "one above 0")


def _cross_entropy(x, target, *_, **__):
    _probabilities("an input", x)
    _probabilities("a target", target)


def _is_whole(x):
    if isinstance(x, torch.Tensor):
        return not (x.is_floating_point() or x.is_complex())
    return isinstance(x, int)


def _divided(x, y, *_, rounding_mode="floor", **__):
    """Of integers there is no quotient by 0."""
    if rounding_mode is None or not (_is_whole(x) and _is_whole(y)):
        return
    is_tensor = isinstance(y, torch.Tensor)
    if is_tensor or y == 0:
        divisors = y if is_tensor else torch.zeros(1)
        require("a divisor", divisors, divisors != 0, "another number than 0")


def _quotient(x, y, *, rounding_mode=None, **__):
    _divided(x, y, rounding_mode=rounding_mode)


def _inverse_of_factor(factor, *_, **__):
    pivots = factor.diagonal(dim1=-2, dim2=-1)
    require("a pivot", pivots, pivots != 0, "none that is 0: the matrix has no inverse")


def _regular(info, name, **_):
    require(f"the state of {name}", info, info == 0, "0, of a matrix that has the result")


def _finite(x):
    require("an element of a histogram", x, x.isfinite(), "a finite number, as its range is theirs")


def _counted(x, bins=100, low=0, high=0, **_):
    if low == high:
        _finite(x)


def _histogram(x, bins=100, *, range=None, **_):  # noqa: A002
    if range is None and not isinstance(bins, torch.Tensor):
        _finite(x)


def _order(x, n, *_, **__):
    orders = torch.as_tensor(n)
    require(
        "an order of a polynomial", orders, ~(orders > LARGEST_ORDER), f"at most {LARGEST_ORDER}"
    )


_REQUIREMENTS = {
    **dict.fromkeys(("scatter", "scatter_add", "scatter_reduce"), _along),
    **dict.fromkeys(("index_select", "index_add", "index_copy", "index_reduce"), _along),
    "index_fill": _along_from_the_end,
    **dict.fromkeys(("take", "put"), _of_all),
    **dict.fromkeys(("index", "index_put"), _advanced),
    **dict.fromkeys(("max_unpool2d", "max_unpool3d"), _unpooled),
    "bernoulli": _bernoulli,
    "multinomial": _multinomial,
    "binary_cross_entropy": _cross_entropy,
    **dict.fromkeys(("floor_divide", "remainder", "fmod"), _divided),
    "div": _quotient,
    "cholesky_inverse": _inverse_of_factor,
    "_linalg_check_errors": _regular,
    "histc": _counted,
    **dict.fromkeys(("histogram", "_histogramdd_bin_edges"), _histogram),
    **dict.fromkeys(POLYNOMIALS, _order),
}


def require_of(operator, args, kwargs):
    """Notes what an operator of the forward pass wants of its operands."""
    if operator.namespace == "aten":
        requirement = _REQUIREMENTS.get(operator._overloadpacket.__name__.rstrip("_"))
        if requirement is not None:
            requirement(*args, **kwargs)


def one_hot(x, num_classes=-1):
    """None, for PyTorch's, which looks at no class while it is traced."""
    if num_classes > 0:
        _in_range("a class", x, num_classes)


def offsets_of(offsets, count):
    """Of `embedding_bag`: where its bags begin."""
    if offsets.numel():
        first, last = offsets[:1], offsets[-1:]
        require("the first of the offsets", first, first == 0, "0")
        require("the last of the offsets", last, last <= count, f"at most {count}")
