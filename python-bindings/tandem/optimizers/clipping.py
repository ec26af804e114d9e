"""Gradient clipping as an option of the step, between `backward()` and `optimizer.step()`.

The norm is one sum over all gradients, and each rank has the terms of its parts. It takes one all-reduce per set of axes
that parameters are split over.
"""

import functools
import math
import numbers
from dataclasses import dataclass
from unittest import mock

import torch
from torch.nn.utils import clip_grad
from torch.utils.weak import WeakIdKeyDictionary

from ..errors import CaptureError, CompileError, StateError, shown
from ..tracing.locations import current_location
from .updates import location_of

# What torch.nn.utils.clip_grad_norm_ adds to the norm before it divides.
_EPSILON = 1e-6
# Name of the result that is the norm before clipping.
NORM = "grad_norm"


@dataclass(frozen=True)
class Clipping:
    """`norm` is what `torch.nn.utils.clip_grad_norm_` calls `max_norm`, of the 2-norm of all gradients of the model;
    `value` is `clip_value` of `clip_grad_value_`. At most one of them.
    """

    norm: float | None = None
    value: float | None = None

    def __post_init__(self):
        given = {"clip_grad_norm": self.norm, "clip_grad_value": self.value}
        for name, limit in given.items():
            is_number = isinstance(limit, numbers.Real) and not isinstance(limit, bool)
            if limit is not None and not (is_number and limit > 0 and not math.isnan(limit)):
                raise CompileError(
                    f"{name} is {shown(limit)}, expected a positive number, or None for no limit"
                )
        if None not in given.values():
            raise CompileError(
                f"clip_grad_norm is {self.norm} and clip_grad_value is {self.value}, expected one of them"
            )

    def apply(self, gradients, mode):
        """({parameter: gradient}, the norm or None) of gradients that are finished sums over the batch."""
        if self.norm is None and self.value is None or not gradients:
            return gradients, None
        mode.location = location_of("clip_grad_norm" if self.value is None else "clip_grad_value")
        with torch.no_grad():
            if self.value is not None:
                limit = float(self.value)
                return {i: g.clamp(-limit, limit) for i, g in gradients.items()}, None
            return self._by_norm(gradients)

    def _by_norm(self, gradients):
        squares = [_sum_of_squares(g) for g in gradients.values()]
        norm = torch.sqrt(functools.reduce(torch.add, squares))
        factor = torch.clamp(float(self.norm) / (norm + _EPSILON), max=1.0)
        return {i: g * factor.to(g.dtype) for i, g in gradients.items()}, norm


def _sum_of_squares(gradient):
    wide = gradient.detach().to(torch.promote_types(gradient.dtype, torch.float32))
    return (wide * wide).sum()


# ---- Clipping that would do nothing, and scaling that would do harm

# Parameters of the models that steps were compiled of.
_compiled = WeakIdKeyDictionary()


def expect_none_behind(model):
    """From now on `torch.nn.utils.clip_grad_norm_` and `clip_grad_value_` on parameters of `model`, which get no gradients
    from a step, are errors.
    """
    for parameter in model.parameters():
        _compiled[parameter] = True
    if not hasattr(clip_grad.clip_grad_value_, "tandem"):
        # The function that clip_grad_norm_ calls, as many have that one under a name of their own.
        inner = _refusing(clip_grad._clip_grads_with_norm_, "clip_grad_norm")
        clip_grad._clip_grads_with_norm_ = inner
        outer = _refusing(clip_grad.clip_grad_value_, "clip_grad_value")
        clip_grad.clip_grad_value_ = torch.nn.utils.clip_grad_value_ = outer


def _refusing(function, option):
    @functools.wraps(function)
    def checked(parameters, *args, **kwargs):
        single = isinstance(parameters, torch.Tensor)
        parameters = [parameters] if single else list(parameters)
        own = [p for p in parameters if p in _compiled]
        if own and all(p.grad is None for p in own):
            raise StateError(
                f"{option}_: the model's parameters have no gradients, as a compiled step keeps them, so that it"
                f" would do nothing; expected tandem.compile(..., {option}=...), which clips within the step"
            )
        return function(parameters, *args, **kwargs)

    checked.tandem = True
    return checked


def without_scaler():
    """Within it a GradScaler that scales is an error: the step's gradients would stay scaled."""
    scale = torch.amp.GradScaler.scale

    def refuse(scaler, outputs):
        if not scaler.is_enabled():
            return scale(scaler, outputs)
        raise CaptureError(
            f"{current_location()}: the loss is scaled by a GradScaler, and the optimizer of the step would get"
            " scaled gradients, expected the loss itself: of float32 and bfloat16 none vanishes; for"
            " unscale_ and clipping use clip_grad_norm of tandem.compile"
        )

    return mock.patch.object(torch.amp.GradScaler, "scale", refuse)
