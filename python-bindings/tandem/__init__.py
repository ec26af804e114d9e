"""Tandem: a graph compiler for distributed training."""

from . import random
from .compile import compile
from .errors import (
    BatchError,
    CaptureError,
    CheckpointError,
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
from .function_optimizer import FunctionOptimizer
from .pins import Pin, pin
from .step import Step
from .timeline import Report, picture, report
from .version import __version__

__all__ = [
    "BatchError",
    "CaptureError",
    "CheckpointError",
    "CompileError",
    "FunctionOptimizer",
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
    "__version__",
    "compile",
    "export",
    "picture",
    "pin",
    "random",
    "report",
]
