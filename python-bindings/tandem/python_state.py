"""Python runs once, when a step is captured: what it says then is part of every step. Here is looked for
what would have been different in the next one."""

import contextlib
import operator
import random
import sys

import torch

from .errors import CaptureError, StateError
from .outside import read_outside

_NUMBERS = (bool, int, float)
# Of what an attribute can be set to: what Python computes with beside tensors.
_SETTINGS = (*_NUMBERS, str, type(None))
# Attributes that every module has, among them `training`, which `Flags` follows.
_OF_ALL_MODULES = frozenset(torch.nn.Module().__dict__)


def detects_anomalies():
    """Whether PyTorch is told to refuse a backward pass that makes NaN."""
    return torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled()


def _name(kind, name):
    return f"{kind} {name!r}" if name else "the model"


def name_of_number(module, attribute):
    """Of an attribute, a module by its name."""
    return f"{_name('module', module)}: attribute {attribute!r}"


class Flags:
    """Which modules train and which parameters have gradients, as they were for the capture."""

    def __init__(self, model):
        self._modules = [(name, m, m.training) for name, m in model.named_modules()]
        self._parameters = [(name, p, p.requires_grad) for name, p in model.named_parameters()]

    @property
    def training(self):
        """{module: whether it trains}."""
        return {module: training for _, module, training in self._modules}

    @property
    def trained(self):
        """The names of the parameters that have gradients now."""
        return frozenset(name for name, parameter, _ in self._parameters if parameter.requires_grad)

    def texts(self):
        """{"parameter 'x': requires_grad": its text} of those that have frozen or thawed since the capture."""
        return {
            f"parameter {name!r}: requires_grad": str(parameter.requires_grad)
            for name, parameter, requires in self._parameters
            if parameter.requires_grad != requires
        }

    def check(self, may_thaw=False):
        """Raises StateError where one is another now, but for parameters that freeze and thaw. A model that was put into eval mode as a whole, to be evaluated,
        goes on training as it was captured.
        """
        modules = self._modules if any(m.training for _, m, _ in self._modules) else ()
        for name, module, training in modules:
            if module.training != training:
                raise StateError(
                    f"{_name('module', name)}: training is {module.training}, expected {training} as when the"
                    " step was captured; set it back with model.train() or model.eval(), or compile again"
                )
        for name, parameter, requires in () if may_thaw else self._parameters:
            if parameter.requires_grad != requires:
                raise StateError(
                    f"parameter {name!r}: requires_grad is {parameter.requires_grad}, expected {requires} as"
                    " when the step was captured; compile again after freezing or unfreezing parameters"
                )


class Settings:
    """Numbers and texts in attributes of modules, and what the loss reads elsewhere, as they were for the capture. Asked at each step,
    so that all is in lists.
    """

    def __init__(self, model, loss_fn):
        self._model = model
        self._outside = read_outside(loss_fn, _SETTINGS)
        self._captured = self._read()
        self._changes = {}

    def _read(self):
        """{what it is: text} as they are, which are looked at from now on."""
        modules = [(name, module.__dict__) for name, module in self._model.named_modules()]
        self._counts = [(attributes, len(attributes)) for _, attributes in modules]
        found = {
            name_of_number(name, key): (attributes, key, value)
            for name, attributes in modules
            for key, value in attributes.items()
            if type(value) in _SETTINGS and key not in _OF_ALL_MODULES
        }
        found |= {name: (place, None, place.get(None)) for name, place in self._outside.items()}
        self._places = [(attributes, key) for attributes, key, _ in found.values()]
        self._values = [value for *_, value in found.values()]
        return {
            name: repr(value) if type(value) in _SETTINGS else "no number or text"
            for name, (*_, value) in found.items()
        }

    def changes(self):
        """{"module 'x': attribute 'y'": text} of those that are others now: a microsecond for ten of modules."""
        values = [attributes.get(key) for attributes, key in self._places]
        counts = [len(attributes) == count for attributes, count in self._counts]
        if all(map(operator.is_, values, self._values)) and all(counts):
            return self._changes
        now = self._read()
        self._changes = {
            name: text
            for name in sorted(now.keys() | self._captured.keys())
            if (text := now.get(name, "no number or text")) != self._captured.get(name)
        }
        return self._changes


@contextlib.contextmanager
def modes(model, training):
    """Within it each module trains if `training` says so, one that it does not name not."""
    before = [(module, module.training) for module in model.modules()]
    try:
        for module, _ in before:
            module.training = training.get(module, False)
        yield
    finally:
        for module, mode in before:
            module.training = mode


class RandomWatch:
    """Sees when the model draws from the global generators of Python or NumPy."""

    def __init__(self):
        self._start = self._states()

    @staticmethod
    def _states():
        states = {"Python's random": random.getstate()}
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            kind, keys, *rest = numpy.random.get_state()
            states["numpy.random"] = (kind, keys.tobytes(), *rest)
        return states

    def moved(self):
        """The name of one that has moved since the start, or None."""
        now = self._states()
        return next((name for name, state in self._start.items() if now[name] != state), None)

    def check(self, location):
        """Raises CaptureError if one has moved since the start."""
        name = self.moved()
        if name is not None:
            raise CaptureError(
                f"{location}: here or before, a number is drawn from {name}, which would be the same in"
                " every step; expected torch's, such as torch.rand(())"
            )


def numbers_of(model):
    """{(module, attribute): value} of the attributes that are numbers, a module by its name."""
    return {
        (name, attribute): value
        for name, module in model.named_modules()
        for attribute, value in module.__dict__.items()
        if type(value) in _NUMBERS
    }


def tensors_of(model):
    """{(module, attribute): tensor} of the buffers, and of attributes that are tensors."""
    return {
        (name, attribute): value
        for name, module in model.named_modules()
        for attributes in (module.__dict__, module._buffers)
        for attribute, value in attributes.items()
        if isinstance(value, torch.Tensor)
    }


def makers(before, after):
    """The modules that have a tensor which they had not: a cache, if a number beside it says so."""
    return {key[0] for key, tensor in after.items() if before.get(key) is not tensor}


def set_numbers(model, numbers):
    modules = dict(model.named_modules())
    for (name, attribute), value in numbers.items():
        setattr(modules[name], attribute, value)


def changed(before, after):
    """What `after` has otherwise; NaN is itself."""
    return {
        key: value
        for key, value in after.items()
        if key in before and repr(before[key]) != repr(value)
    }


def refuse(first, second):
    """CaptureError for numbers that the first of two steps changed, and perhaps the second, and that made them different."""
    name, attribute = next(iter(second or first))
    again = (
        f" and {second[name, attribute]!r} after the second, which"
        if second
        else ", and the second"
    )
    return CaptureError(
        f"{_name('module', name)}: attribute {attribute!r} is {first[name, attribute]!r} after the first step"
        f"{again} computes something else; expected equal steps: keep it in a buffer, or run a step of eager, or compile"
        " again, when it changes"
    )


def refuse_left(name):
    """CaptureError for a tensor that a step leaves in an attribute, `name` as (module, attribute), for the next one."""
    module, attribute = name
    return CaptureError(
        f"{_name('module', module)}: attribute {attribute!r} holds a tensor of the first step, and the second computes"
        " with it; expected equal steps: keep it in a buffer, which is part of the step, or make it before, in a step of eager"
    )
