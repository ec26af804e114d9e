"""Warnings about a torch model with older values than its step, on averages and saves."""

import functools
import warnings
import weakref

import torch
from torch.optim.swa_utils import AveragedModel
from torch.utils.weak import WeakIdKeyDictionary

from ..errors import StateError
from ..tracing.unregistered import named_buffers

# The `Watching` of the step that trains a parameter.
_watching_of = WeakIdKeyDictionary()


# What each step trains, as long as it is there.
_every = weakref.WeakSet()


class Trained:
    """What a step trains and reads of its model and its optimizer, and how often it has trained: another step of these has values
    of its own.
    """

    def __init__(self, watching, parameters, model, optimizer_dict, programs):
        """`watching` is the step's `Watching`, which owns this, `parameters` are (name, tensor)."""
        self._watching = weakref.ref(watching)
        self._optimizer_dict, self._programs = optimizer_dict, programs
        named = (*parameters, *named_buffers(model, optimizer_dict.optimizer))
        self._names = {id(tensor): name for name, tensor in named}
        # An id is that of one tensor as long as it is there.
        self._held = [tensor for _, tensor in named]
        self._common = weakref.WeakKeyDictionary()
        self.count = 0
        self.take_over()
        _every.add(self)

    def take_over(self, with_model=True, with_optimizer=True):
        """The values are those that all steps have now."""
        seen = {other: other.count for other in _every}
        if with_model:
            self._seen = weakref.WeakKeyDictionary(seen)
        if with_optimizer:
            self._seen_states = weakref.WeakKeyDictionary(seen)

    def _written(self):
        """The ids of what the step writes to."""
        written = self._programs.written
        return {key for key, name in self._names.items() if name in written}

    @property
    def _store(self):
        return self._programs.main.session.store

    def _shared(self, other):
        """What another step writes to of what this one has: (name of a tensor, of a parameter with a state of one optimizer), or None."""
        one, two = self._optimizer_dict, other._optimizer_dict
        if self._store is other._store:
            return None, None
        written = other._written()
        both = [name for key, name in self._names.items() if key in written]
        states = one.states() if one.optimizer is two.optimizer else ()
        return next(iter(both), None), next((name for name in both if name in states), None)

    def _known(self, other):
        if other._watching() is None or other is self:
            return None, None
        programs, shared = self._common.get(other, (0, None))
        count = other._programs.count
        if programs != count:
            programs, shared = self._common[other] = count, self._shared(other)
        return shared

    def check(self):
        """StateError where another step has trained since what this one has values of."""
        for other in _every:
            trained = other.count != self._seen.get(other, 0)
            if not trained and other.count == self._seen_states.get(other, 0):
                continue
            value, state = self._known(other)
            if trained and value is not None:
                raise StateError(
                    f"model: {value!r} was trained by another step since this one got its values, expected"
                    " other.sync_to(model) and step.load(model=model) between the two, or models of their own (copy.deepcopy)"
                )
            if state is not None:
                raise StateError(
                    f"optimizer: its state of {state!r} was updated by another step since this one got it, expected"
                    " other.sync_to(model, optimizer) and step.load(model=model, optimizer=optimizer) between the two"
                )


class OldValuesWarning(UserWarning):
    """A model is used whose step has trained on."""


def names_of_state(model):
    """Those in the model's state dict."""
    with warnings.catch_warnings(action="ignore", category=OldValuesWarning):
        return list(model.state_dict())


def expect_current_values(model, named, watching):
    """From now on an AveragedModel takes parameters of `model` only while they are those of the step that `watching` is of, and `state_dict` warns
    of others. So does this, if another step has trained them.
    """
    warn_of_old(model, "tandem.compile", 5)
    for _, parameter in named:
        _watching_of[parameter] = weakref.ref(watching)
    for name in ("__init__", "update_parameters"):
        function = getattr(AveragedModel, name)
        if not hasattr(function, "tandem"):
            setattr(AveragedModel, name, _refusing(function))
    if not hasattr(torch.nn.Module.state_dict, "tandem"):
        torch.nn.Module.state_dict = _warning(torch.nn.Module.state_dict)


def is_old(tensor):
    """Whether a step has trained a parameter on since the torch model had its values."""
    watching = _watching_of[tensor]() if tensor in _watching_of else None
    return watching is not None and watching.is_ahead


def _steps_ahead(model):
    """Those that have trained on since the model had their values."""
    every = {_watching_of[p]() for p in model.parameters() if p in _watching_of} - {None}
    return [watching for watching in every if watching.is_ahead]


def warn_of_old(model, what, level):
    """Not where the model was given values of its own: the next step will say so."""
    if any(not watching.sees_changes() for watching in _steps_ahead(model)):
        warnings.warn(
            f"{what}: the model has the values that it had before the last steps, as a compiled step keeps its own; expected"
            " step.sync_to(model) in front of it, or step.state_dict()",
            OldValuesWarning,
            stacklevel=level,
        )


def warn_of_others(model, watching):
    """Warns of steps that have trained on a model that the step of `watching` takes the values of."""
    parameters = {id(parameter) for parameter in model.parameters()}
    for other in _every:
        one = other._watching()
        if one in (None, watching) or not one.is_ahead or one.sees_changes():
            continue
        if parameters & other._written():
            warnings.warn(
                "load: the model has the values that it had before the last steps of another step; expected"
                " other.sync_to(model) in front of it",
                OldValuesWarning,
                stacklevel=4,
            )
            return


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
