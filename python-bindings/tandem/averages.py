"""Moving averages of weights that would average what the torch model had when the step was compiled: PyTorch's own
`AveragedModel` says so.
"""

import functools
import weakref

from torch.optim.swa_utils import AveragedModel
from torch.utils.weak import WeakIdKeyDictionary

from .errors import StateError

# The step that trains a parameter.
_step_of = WeakIdKeyDictionary()


def expect_current_values(model, step):
    """From now on an AveragedModel takes parameters of `model` only while they are those of the step."""
    for parameter in model.parameters():
        _step_of[parameter] = weakref.ref(step)
    for name in ("__init__", "update_parameters"):
        function = getattr(AveragedModel, name)
        if not hasattr(function, "tandem"):
            setattr(AveragedModel, name, _checked(function))


def _checked(function):
    @functools.wraps(function)
    def checked(self, model, *args, **kwargs):
        for parameter in model.parameters():
            step = _step_of[parameter]() if parameter in _step_of else None
            if step is not None and step.is_ahead:
                raise StateError(
                    "AveragedModel: the model has the values that it had before the last steps, as a compiled step keeps"
                    " its own; expected step.sync_to(model) in front of it"
                )
        return function(self, model, *args, **kwargs)

    checked.tandem = True
    return checked
