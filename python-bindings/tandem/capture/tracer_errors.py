"""Errors of the tracer, as one line: the value found, the value expected, the place."""

import contextlib

from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from ..errors import CaptureError, TandemError, UnsupportedOperatorError
from ..tracing.draws import DrawError
from ..tracing.locations import UNKNOWN, location_of_traceback
from ..tracing.origins import name_of

# Of the shape of their results, which is static, these say that it depends on data: a loss with a recursion over lengths.
# With what to write instead, if there is something.
_STATIC = {
    "_ctc_loss": "",
}

# What PyTorch's words mean here.
_MEANINGS = {
    "FakeTensor.__format__": "a value is made text here, and there is none while a step is captured; expected it to be"
    " returned with the loss, and printed behind the step",
    "backward through the graph a second time": "the loss function runs the backward pass itself, expected it to return"
    " the loss alone, of which the step computes gradients and updates",
}


def _explain(error, location):
    """An exception of the tracer as one line."""
    if isinstance(error, DrawError):
        return CaptureError(f"{location}: {error}")
    dynamic = (DataDependentOutputException, DynamicOutputShapeException)
    if isinstance(error, dynamic) and name_of(error.func) in _STATIC:
        return UnsupportedOperatorError(error.func, location, _STATIC[name_of(error.func)])
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if isinstance(error, dynamic) or "data-dependent" in text or "guard on data" in text:
        operator = getattr(error, "func", "")
        return CaptureError(
            f"{location}: control flow or a shape depends on data ({operator or text});"
            f" expected a static graph"
        )
    for words, meaning in _MEANINGS.items():
        if words in text:
            return CaptureError(f"{location}: {meaning}")
    cause = f"the step cannot be captured: {type(error).__name__}: {text}"
    if location == UNKNOWN:  # No line of the user's: PyTorch's own function is the loss function.
        return CaptureError(f"loss_fn: {cause}; it is called as loss_fn(model, batch)")
    return CaptureError(f"{location}: {cause}")


@contextlib.contextmanager
def explained(whereabouts):
    def place(error):
        own = location_of_traceback(error.__traceback__)
        return own if own.place is not None else whereabouts.location

    try:
        yield
    except TandemError:
        raise
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise _explain(error, place(error)) from error
    except Exception as error:
        if isinstance(error, NotImplementedError) and hasattr(error, "func"):
            reason = str(error).splitlines()[0]
            raise UnsupportedOperatorError(error.func, place(error), reason) from error
        raise _explain(error, place(error)) from error
