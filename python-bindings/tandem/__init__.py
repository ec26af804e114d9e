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
    TimelineError,
    UnsupportedOperatorError,
)
from .export import StepModule, export
from .pins import Pin, pin
from .step import Step
from .timeline import Report, picture, report

__all__ = [
    "BatchError",
    "CaptureError",
    "CompileError",
    "ModelFileError",
    "NonFiniteLossError",
    "Pin",
    "ProgramError",
    "ReplayError",
    "Report",
    "RunError",
    "StateError",
    "Step",
    "StepModule",
    "StepRefusedError",
    "TandemError",
    "TimelineError",
    "UnsupportedOperatorError",
    "compile",
    "export",
    "picture",
    "pin",
    "random",
    "report",
]
