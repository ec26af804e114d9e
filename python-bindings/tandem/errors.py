"""The exceptions of the package. Each has one line: the value found, the value expected, the place."""


class TandemError(Exception):
    """Base of every error that a user can cause; the command line prints it as one line."""


class CaptureError(TandemError):
    """The model, loss, optimizer or batch cannot be captured as one static training step."""


class Unsupported(Exception):
    """An operator whose arguments have no equivalent in the `nn` dialect; the text says which."""


class UnsupportedOperatorError(CaptureError):
    """An operator has no equivalent in the `nn` dialect and no decomposition into those that
    have.
    """

    def __init__(self, operator, location, reason=""):
        why = f" ({reason})" if reason else ""
        super().__init__(
            f"{location}: operator {operator} is not supported{why}; docs/adding-an-operator.md"
            f" says how to add one"
        )
        self.operator = operator
        self.location = location


_SHOWN = 100  # characters


def shown(value):
    """`repr` in one line, cut where it is long: of what a user gave."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - it is the user's code, or an integer that Python does not print
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


class ModelFileError(TandemError):
    """A model file or an option for it is not as the protocol in docs/model-files.md says."""


class ReplayError(TandemError):
    """The eager run drew other random numbers than the captured step."""


class CompileError(TandemError):
    """The compiler cannot make a Program of this step, mesh and plan."""


class JobError(TandemError):
    """The processes of a job do not find each other, or do not do the same."""


class ProgramError(TandemError):
    """A Program is corrupt, of another version, or not for this machine."""


class RunError(TandemError):
    """A step failed while it ran; values may be half updated."""


class StepRefusedError(RunError):
    """A check refused the step. Parameters and state are those before it, and training can go on."""


class NonFiniteLossError(StepRefusedError):
    """The loss is not finite."""


class TimelineError(TandemError):
    """A file is no timeline, or nothing can be said of it."""


class BatchError(TandemError):
    """A batch is not like the one that the step was compiled for."""


class StateError(TandemError):
    """A state dict does not fit the step."""


class CheckpointError(StateError):
    """A checkpoint cannot be written or read, is damaged, or is not one of this step."""
