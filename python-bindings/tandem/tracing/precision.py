"""bfloat16: PyTorch's autocast, applied during capture and in eager, its reference.

So `precision="bf16"` gives the same step as a loss under `torch.autocast("cpu", torch.bfloat16)`. PyTorch's list
decides which operators compute in bfloat16, and every cast is an operator of the step. Parameters, the optimizer and
unlisted operators stay in float32.
"""

import contextlib
from unittest import mock

import torch
from torch.amp.autocast_mode import autocast

from ..errors import CaptureError, shown
from .locations import current_location
from .origins import BACKWARD

PRECISIONS = {"bf16": torch.bfloat16}
# In which type gradients are summed over strands and ranks: of the parameter, or that of the product.
GRADIENT_SUMS = ("f32", "bf16")


def check_precision(precision, gradient_sums):
    if precision not in (None, *PRECISIONS):
        expected = ", ".join(map(repr, PRECISIONS))
        raise CaptureError(
            f"precision is {shown(precision)}, expected {expected}, or None for the model's own"
        )
    if gradient_sums not in GRADIENT_SUMS:
        expected = " or ".join(map(repr, GRADIENT_SUMS))
        raise CaptureError(f"gradient_sums is {shown(gradient_sums)}, expected {expected}")


def check_parameters(precision, parameters):
    """Autocast casts float32 alone; of other parameters it makes nothing, or a mixture."""
    for argument in parameters if precision else ():
        if argument.dtype.is_floating_point and argument.dtype != torch.float32:
            raise CaptureError(
                f"parameter {argument.name!r} has type {argument.dtype}, expected torch.float32 with"
                f" precision={precision!r}, which casts to bfloat16 what products read"
            )


def casting(precision):
    """Within it operators compute as `precision` says."""
    if precision is None:
        return contextlib.nullcontext()
    return torch.autocast("cpu", PRECISIONS[precision])


def _check_type(dtype):
    if dtype not in PRECISIONS.values():
        raise CaptureError(f"{current_location()}: autocast to {dtype}, expected torch.bfloat16")


def check_autocast():
    """Autocast to another type is an error, in place of products that nothing computes; however it was switched on."""
    if torch.is_autocast_enabled("cpu"):
        _check_type(torch.get_autocast_dtype("cpu"))


_enter = autocast.__enter__


def _enter_supported(self):
    if self._enabled and self.device == "cpu":
        _check_type(self.fast_dtype)
    return _enter(self)


def refusing_others():
    """Within it autocast to another type is an error at its `with`."""
    return mock.patch.object(autocast, "__enter__", _enter_supported)


def sum_first(step):
    """Says of gradients that are converted to a wider type that they are summed before."""
    for operator in step.operators:
        if operator.name != "convert" or operator.phase != BACKWARD:
            continue
        if (operator.operands[0].dtype, operator.results[0].dtype) == (
            torch.bfloat16,
            torch.float32,
        ):
            operator.attributes["sums_first"] = None
