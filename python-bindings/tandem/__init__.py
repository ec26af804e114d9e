"""Tandem: a graph compiler for distributed training."""

from . import random
from .errors import CaptureError, ModelFileError, ReplayError, TandemError, UnsupportedOperatorError
from .export import StepModule, export

__all__ = [
    "CaptureError",
    "ModelFileError",
    "ReplayError",
    "StepModule",
    "TandemError",
    "UnsupportedOperatorError",
    "export",
    "random",
]
