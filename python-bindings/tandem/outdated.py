"""Uses of a torch model whose values are older than those of its step: what would average or save them says so."""

import functools
import warnings
import weakref

import torch
from torch.optim.swa_utils import AveragedModel
from torch.utils.weak import WeakIdKeyDictionary

from .errors import StateError

# The step that trains a parameter.
_step_of = WeakIdKeyDictionary()


# What each step trains, as long as it is there.
_every = weakref.WeakSet()


class Trained:
    """What a step trains of its model, and how often; and what it only reads, which other steps may train."""

    def __init__(self, model, updated):
        """`updated` are the names of the parameters that the step writes to."""
        named = [(name, id(parameter)) for name, parameter in model.named_parameters()]
        self._own = {key for name, key in named if name in updated}
        self._read = {key: name for name, key in named if name not in updated}
        self.count = 0
        self.take_over()
        _every.add(self)

    def take_over(self):
        """The values are those that all steps have now."""
        self._seen = weakref.WeakKeyDictionary((other, other.count) for other in _every)

    def check(self):
        """StateError where another step has trained since what this one only reads."""
        for other in _every if self._read else ():
            if other.count == self._seen.get(other, 0):
                continue
            for key in other._own & self._read.keys():
                raise StateError(
                    f"model: parameter {self._read[key]!r} was trained by another step since this one got its values, expected"
                    " other.sync_to(model) and step.load(model=model) between the two"
                )


class OldValuesWarning(UserWarning):
    """A model is used whose step has trained on."""


def names_of_state(model):
    """Those in the model's state dict."""
    with warnings.catch_warnings(action="ignore", category=OldValuesWarning):
        return list(model.state_dict())


def expect_current_values(model, step):
    """From now on an AveragedModel takes parameters of `model` only while they are those of the step, and `state_dict` warns
    of others. So does this, if another step has trained them.
    """
    warn_of_old(model, "tandem.compile", 5)
    for parameter in model.parameters():
        _step_of[parameter] = weakref.ref(step)
    for name in ("__init__", "update_parameters"):
        function = getattr(AveragedModel, name)
        if not hasattr(function, "tandem"):
            setattr(AveragedModel, name, _refusing(function))
    if not hasattr(torch.nn.Module.state_dict, "tandem"):
        torch.nn.Module.state_dict = _warning(torch.nn.Module.state_dict)


def is_old(tensor):
    """Whether a step has trained a parameter on since the torch model had its values."""
    step = _step_of[tensor]() if tensor in _step_of else None
    return step is not None and step.is_ahead


def _steps_ahead(model):
    """Those that have trained on since the model had their values."""
    steps = {_step_of[p]() for p in model.parameters() if p in _step_of} - {None}
    return [step for step in steps if step.is_ahead]


def warn_of_old(model, what, level):
    """Not where the model was given values of its own: the next step will say so."""
    if any(not step.sees_changes() for step in _steps_ahead(model)):
        warnings.warn(
            f"{what}: the model has the values that it had before the last steps, as a compiled step keeps its own; expected"
            " step.sync_to(model) in front of it, or step.state_dict()",
            OldValuesWarning,
            stacklevel=level,
        )


def _refusing(function):
    @functools.wraps(function)
    def checked(self, model, *args, **kwargs):
        if _steps_ahead(model):
            raise StateError(
                "AveragedModel: the model has the values that it had before the last steps, as a compiled step keeps"
                " its own; expected step.sync_to(model) in front of it"
            )
        return function(self, model, *args, **kwargs)

    checked.tandem = True
    return checked


def _warning(function):
    @functools.wraps(function)
    def checked(self, *args, **kwargs):
        if not args and "destination" not in kwargs:  # Modules ask those inside with it.
            warn_of_old(self, "state_dict", 3)
        return function(self, *args, **kwargs)

    checked.tandem = True
    return checked
