"""Tandem: a graph compiler for distributed training.

`__all__` and `tandem.errors` are the public interface. The packages are internal (docs/rationale/rooms.md):

    base        shared parts
    tracing     handlers of the tracer
    lowering    `nn` operators from the traced graph
    formulas    PyTorch functions without a usable decomposition
    optimizers  optimizers as functions
    guards      detection of changes in Python code and values
    capture     a module from a model, a loss, an optimizer and a batch
    checkpoint  files of a step's values
    pages       pages of reports
    session     a compiled step with its values
    verify      comparison with eager PyTorch
    commands    `python -m tandem COMMAND`
"""

from .base import interrupts  # in front of what takes long

# isort: split
from . import random
from .base.pins import Pin, pin
from .capture.export import StepModule, export
from .errors import (
    BatchError,
    CaptureError,
    CheckpointError,
    CompileError,
    JobError,
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
from .optimizers.function_optimizer import FunctionOptimizer
from .session.compile import compile
from .session.step import Step
from .session.timeline import Report, page, picture, report
from .version import __version__

__all__ = [
    "BatchError",
    "CaptureError",
    "CheckpointError",
    "CompileError",
    "FunctionOptimizer",
    "JobError",
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
    "page",
    "picture",
    "pin",
    "random",
    "report",
]

interrupts.end()
