"""Tandem: a graph compiler for distributed training."""

from . import random
from .compile import compile
from .errors import (
    BatchError,
    CaptureError,
    CompileError,
    ModelFileError,
    NonFiniteLossError,
    ProgramError,
    ReplayError,
    RunError,
    StateError,
    StepRefusedError,
    TandemError,
    UnsupportedOperatorError,
)
from .export import StepModule, export
from .pins import Pin, pin
from .step import Step

__all__ = [
    "BatchError",
    "CaptureError",
    "CompileError",
    "ModelFileError",
    "NonFiniteLossError",
    "Pin",
    "ProgramError",
    "ReplayError",
    "RunError",
    "StateError",
    "Step",
    "StepModule",
    "StepRefusedError",
    "TandemError",
    "UnsupportedOperatorError",
    "compile",
    "export",
    "pin",
    "random",
]
