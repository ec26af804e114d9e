"""Tandem: a graph compiler for distributed training.

The public names are those of `__all__`, and `tandem.errors`. The packages are the rooms of the front end, and no interface:

    base        what all of them use
    tracing     what the tracer meets in a step
    lowering    from the traced graph to `nn` operators
    formulas    what PyTorch computes in one piece, by operators of the `nn` dialect
    optimizers  optimizers as functions
    guards      whether the Python of a step is still the same
    capture     from a model, a loss, an optimizer and a batch to a module
    checkpoint  files of a step's values
    session     a compiled step with its values
    verify      runs that are compared with eager PyTorch
    commands    `python -m tandem COMMAND`
"""

from . import random
from .base.pins import Pin, pin
from .capture.export import StepModule, export
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
from .optimizers.function_optimizer import FunctionOptimizer
from .session.compile import compile
from .session.step import Step
from .session.timeline import Report, picture, report
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
