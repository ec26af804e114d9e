"""Detection of Python state that would change the next step.

Python runs once, when a step is captured, and its results are part of every step.
"""

import contextlib
import operator
import random
import sys
import warnings
from itertools import chain

import torch

from ..errors import CaptureError, StateError
from ..tracing.unregistered import named_parameters

_NUMBERS = (bool, int, float)
_PARAMETERS, _CHILDREN = map(operator.attrgetter, ("_parameters", "_modules"))


def detects_anomalies():
    """Whether PyTorch is told to refuse a backward pass that makes NaN."""
    return torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled()


def name_of_place(kind, name):
    return f"{kind} {name!r}" if name else "the model"


def name_of_number(module, attribute):
    """Of an attribute, a module by its name."""
    return f"{name_of_place('module', module)}: attribute {attribute!r}"


class Modules:
    """The modules of a model by name, as they were when this was made."""

    def __init__(self, model):
        self.named = list(model.named_modules())
        self._modules = [module for _, module in self.named]
        self.set = set(self._modules)
        self._held = self._now()

    def parameters(self):
        """Of all modules, one of several names as often."""
        held = chain.from_iterable(map(dict.values, map(_PARAMETERS, self._modules)))
        return [p for p in held if p is not None]

    def _now(self):
        children = list(map(_CHILDREN, self._modules))
        held = list(chain.from_iterable(map(dict.values, children)))
        return held, list(map(len, children)), list(chain.from_iterable(children))

    def are_same(self):
        """Also by their names."""
        (now, *names), (before, *others) = self._now(), self._held
        return names == others and all(map(operator.is_, now, before))


class Flags:
    """Which modules train and which parameters have gradients, as they were for the capture."""

    def __init__(self, model, optimizer):
        self._model, self._optimizer, self._modules, self._parameters = model, optimizer, [], []
        self._has_warned = False
        self._read()

    def _read(self):
        """A module that is new is as it is now, one in the place of another as that was."""
        training = {name: before for name, _, before in self._modules}
        requires = {name: before for name, _, before in self._parameters}
        self._tree = Modules(self._model)
        self._modules = [(n, m, training.get(n, m.training)) for n, m in self._tree.named]
        self._parameters = [
            (n, p, requires.get(n, p.requires_grad))
            for n, p in named_parameters(self._model, self._optimizer)
        ]

    def follow(self):
        """Where modules were put into the model, from now on these count."""
        if not self._tree.are_same():
            self._read()

    @property
    def training(self):
        """{module: whether it trains}."""
        self.follow()
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

    def _warn_of_eval(self):
        if not self._has_warned and any(training for *_, training in self._modules):
            self._has_warned = True
            warnings.warn(
                "the model is in eval mode, and the step trains in the mode in which it was captured; expected model.train() before"
                " the step, or tandem.compile in eval mode, to train without dropout and with running statistics",
                stacklevel=2,
            )

    def check(self, may_thaw=False):
        """Raises StateError where one is another now, but for parameters that freeze and thaw. A model that was put into eval mode as a whole, to be evaluated,
        goes on training as it was captured, and a warning says so once.
        """
        self.follow()
        modules = self._modules
        if not any(m.training for _, m, _ in modules):
            self._warn_of_eval()
            modules = ()
        for name, module, training in modules:
            if module.training != training:
                raise StateError(
                    f"{name_of_place('module', name)}: training is {module.training}, expected {training} as when the"
                    " step was captured; set it back with model.train() or model.eval(), or compile again"
                )
        for name, parameter, requires in () if may_thaw else self._parameters:
            if parameter.requires_grad != requires:
                raise StateError(
                    f"parameter {name!r}: requires_grad is {parameter.requires_grad}, expected {requires} as"
                    " when the step was captured; compile again after freezing or unfreezing parameters"
                )


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
    """Sees when the model draws from the global generators of Python or NumPy, or seeds PyTorch's itself."""

    def __init__(self):
        self._start = self._states()

    @staticmethod
    def _states():
        states = {"Python's random": random.getstate()}
        with torch._C._DisableTorchDispatch():
            states["torch.default_generator"] = bytes(torch.default_generator.get_state().numpy())
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
        if name == "torch.default_generator":
            raise CaptureError(
                f"{location}: here or before, {name} is set, which draws nothing for the step; expected a tensor that is"
                " drawn before, such as a buffer"
            )
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
        f"{name_of_place('module', name)}: attribute {attribute!r} is {first[name, attribute]!r} after the first step"
        f"{again} computes something else; expected equal steps: keep it in a buffer, or run a step of eager, or compile"
        " again, when it changes"
    )


def refuse_left(name):
    """CaptureError for a tensor that a step leaves in an attribute, `name` as (module, attribute), for the next one."""
    module, attribute = name
    return CaptureError(
        f"{name_of_place('module', module)}: attribute {attribute!r} holds a tensor of the first step, and the second computes"
        " with it; expected equal steps: keep it in a buffer, which is part of the step, or make it before, in a step of eager"
    )
