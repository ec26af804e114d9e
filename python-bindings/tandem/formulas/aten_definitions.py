"""ATen operators in graphs of `torch.export`, by definitions of the functions that a model calls."""

import functools

import torch

_aten = torch.ops.aten
_REDUCTIONS = ("none", "mean", "sum")

# Of one order of arguments in both.
_SAME = {
    _aten.scaled_dot_product_attention.default: "scaled_dot_product_attention",
    _aten.softshrink.default: "softshrink",
    _aten.hardshrink.default: "hardshrink",
    _aten.cdist.default: "cdist",
    _aten.pdist.default: "pdist",
    _aten.cov.default: "cov",
    _aten.corrcoef.default: "corrcoef",
    _aten.histc.default: "histc",
    _aten.segment_reduce.default: "segment_reduce",
    _aten.combinations.default: "combinations",
    _aten.bincount.default: "bincount",
    _aten.allclose.default: "allclose",
    _aten.index_reduce.default: "index_reduce",
    _aten.scatter_reduce.two: "scatter_reduce",
    _aten.fill_diagonal_.default: "fill_diagonal_",
    _aten.pad.default: "pad",
}
# Whose reduction is a number.
_REDUCED = {
    _aten.multi_margin_loss.default: ("multi_margin_loss", 5),
    _aten.multilabel_margin_loss.default: ("multilabel_margin_loss", 2),
    _aten.ctc_loss.IntList: ("ctc_loss", 5),
    _aten.ctc_loss.Tensor: ("ctc_loss", 5),
}


# Which torch._C._nn has as well, by formulas while a step is captured.
_RESIZING = [
    f"{kind}{rank}d"
    for kind in (
        "upsample_nearest",
        "_upsample_nearest_exact",
        "upsample_linear",
        "upsample_bilinear",
    )
    + ("upsample_bicubic", "upsample_trilinear")
    for rank in (1, 2, 3)
]
_SMOOTHED = ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")


def _by_name(name, *args, **kwargs):
    return getattr(torch._C._nn, name)(*args, **kwargs)


def _smoothed(
    name,
    input,
    output_size,
    align_corners,
    scale_factors=None,
    scales_w=None,
    *,
    scales_h=None,  # noqa: A002
):
    """Of either overload: factors are a list, or a number per dimension."""
    if not isinstance(scale_factors, (list, tuple)):
        of_rows = scale_factors if scales_h is None else scales_h
        scale_factors = None if of_rows is None else (of_rows, scales_w)
    return _by_name(name, input, output_size, align_corners, scale_factors)


def _with_reduction(definition, place, *args, reduction=1, **kwargs):
    before, number, after = args[:place], args[place : place + 1], args[place + 1 :]
    chosen = _REDUCTIONS[number[0] if number else reduction]
    if after:  # zero_infinity of a CTC loss
        kwargs["zero_infinity"] = after[0]
    return definition(*before, reduction=chosen, **kwargs)


def of(definitions):
    """{operator: definition}. `definitions` are those of functions of PyTorch."""
    by_name = {getattr(function, "__name__", ""): made for function, made in definitions.items()}
    found = {operator: by_name[name] for operator, name in _SAME.items() if name in by_name}
    for operator, (name, place) in _REDUCED.items():
        if name in by_name:
            found[operator] = functools.partial(_with_reduction, by_name[name], place)
    for name in _SMOOTHED:
        packet = getattr(_aten, name)
        for operator in (packet, packet.default, packet.vec):
            found[operator] = functools.partial(_smoothed, name)
    for name in _RESIZING:
        operator = getattr(getattr(_aten, name, None), "vec", None)
        if operator is not None:
            found[operator] = functools.partial(_by_name, name)
    return found
