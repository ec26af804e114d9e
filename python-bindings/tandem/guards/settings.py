"""Comparison of the Python code behind a captured step: modules, classes, hooks, functions, numbers and texts.

If one of them differs, the step is captured again. A step compares in microseconds, so everything compared is in lists.
Only after a difference is everything described again, in texts that are equal in all processes with equal Python.
"""

import operator
import re
import types
import weakref
import zlib
from itertools import chain

import numpy as np
import torch
from torch.optim import optimizer as of_optimizers

from ..optimizers.optimizers import own_step_of
from ..tracing.accumulators import ON_NODE, Accumulators
from ..tracing.locations import is_of_library
from ..tracing.unregistered import named_parameters
from .outside import HOOKS, PARTS_OF_MODULES, code_of, global_hooks, reads_of, unwrapped
from .python_state import Modules, detects_anomalies, name_of_place
from .snapshots import are_same, contents, is_plain

# Of what an attribute can be set to: what Python computes with beside tensors.
_SETTINGS = (bool, int, float, str, type(None))
# Attributes that every module has, among them `training`, which `Flags` follows.
_OF_ALL_MODULES = frozenset(torch.nn.Module().__dict__)
_OTHER = "not there"
# Bytes of one of NumPy's arrays that is compared in each step.
_LARGEST_ARRAY = 16384
_TENSOR_HOOKS = {
    "_backward_hooks": "hooks",
    "_post_accumulate_grad_hooks": "hooks behind the accumulation of its gradient",
}
_OF_TENSORS = [operator.attrgetter(name) for name in _TENSOR_HOOKS]
_STEP_HOOKS = {
    "_optimizer_step_pre_hooks": "hooks before its step",
    "_optimizer_step_post_hooks": "hooks behind its step",
}
_DESCRIPTORS = (staticmethod, classmethod, property)


class _Names:
    """Names of functions, classes and objects; a number tells one from others of its name."""

    def __init__(self):
        self._known, self._counts = {}, {}

    def of(self, value):
        name = getattr(value, "__qualname__", None) or f"a {type(value).__qualname__}"
        parts = (value, *(p for p in [getattr(value, "__code__", None)] if p is not None))
        key = tuple(map(id, parts))
        references = self._known.get(key, (None, ()))[1]
        if not references or any(r() is not p for r, p in zip(references, parts, strict=True)):
            self._counts[name] = number = self._counts.get(name, 0) + 1
            self._known[key] = number, [_reference(part) for part in parts]
        number = self._known[key][0]
        return name if number == 1 else f"{name} ({number})"

    def of_all(self, values):
        return ", ".join(map(self.of, values)) or "none"


def _reference(value):
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _is_code(value):
    """Whether Python can call it, or find code through it."""
    return isinstance(value, _DESCRIPTORS) or (
        callable(value) and not isinstance(value, (torch.Tensor, torch.nn.Module))
    )


class _Compared:
    """What each step compares with what it was."""

    def __init__(self):
        self._owners, self._keys, self._values, self._seen = [], [], [], set()
        self._sized, self._empty, self._filled = [], [], []
        self._instances, self._kinds = [], []
        self._functions, self._codes = [], []
        self._parts, self._arrays = {}, {}
        self._others, self._classes = [], {}

    def add(self, owner, key, value):
        """An entry of a dict; None stands for none."""
        if (id(owner), key) not in self._seen:
            self._seen.add((id(owner), key))
            self._owners.append(owner)
            self._keys.append(key)
            self._values.append(value)
            self._add_code(value)

    def add_read(self, entry):
        """An `outside.Entry`."""
        if entry.owner is None:
            self._others.append(entry)
            self._add_code(entry.value)
        elif isinstance(entry.owner, type):
            self._classes.setdefault((id(entry.owner), entry.key), entry)
        else:
            self.add(entry.owner, entry.key, entry.value)

    def add_object(self, instance):
        """How many attributes it has, and its class."""
        self._sized.append((instance.__dict__, len(instance.__dict__)))
        self._instances.append(instance)
        self._kinds.append(type(instance))

    def add_whole(self, entries):
        """All values of a mapping or a list."""
        values = _values(entries)
        if values:
            self._filled.append((entries, values))
            for value in values:
                self._add_code(value)
        else:
            self._empty.append(entries)

    def add_contents(self, part):
        """Of `snapshots.contents`."""
        self._parts.setdefault((id(part.owner), type(part)), part)

    def add_array(self, value):
        """One of NumPy's. Returns a text of its values."""
        self._arrays[id(value)] = value, value.tobytes()
        return f"{value.dtype}{list(value.shape)} with CRC-32 {zlib.crc32(value.tobytes())}"

    def _add_code(self, value):
        if isinstance(value, types.FunctionType):
            self._functions.append(value)
            self._codes.append(value.__code__)

    def are_same(self):
        return (
            all(map(operator.is_, map(dict.get, self._owners, self._keys), self._values))
            and all([len(owner) == size for owner, size in self._sized])
            and all(map(operator.is_, map(type, self._instances), self._kinds))
            and not any(self._empty)
            and all([_are_same(_values(entries), values) for entries, values in self._filled])
            and all(map(operator.is_, map(_CODE, self._functions), self._codes))
            and all([entry.get() is entry.value for entry in self._classes.values()])
            and all([_is_same(entry.get(), entry.value) for entry in self._others])
            and all([are_same(part.now(), part.before) for part in self._parts.values()])
            and all([array.tobytes() == before for array, before in self._arrays.values()])
        )


_CODE = operator.attrgetter("__code__")


def _values(entries):
    return list(entries if isinstance(entries, (list, tuple)) else entries.values())


def _are_same(now, before):
    return len(now) == len(before) and all(map(operator.is_, now, before))


def _is_same(now, before):
    """Of numbers by their value: some that are read are made when they are asked for."""
    return now is before or (type(now) is type(before) and type(now) in _SETTINGS and now == before)


def unit_of(name):
    """What is let go at once: of lists all entries."""
    return re.sub(r"\[\d+\]", "[*]", name)


def _global_hooks():
    """[(a dict of hooks of all modules or optimizers, what it holds)]."""
    found = [(hooks, f"all modules: {HOOKS[name]}") for name, hooks in global_hooks().items()]
    return found + [
        (getattr(of_optimizers, f"_global_optimizer_{when}_hooks"), f"all optimizers: {when}-hooks")
        for when in ("pre", "post")
    ]


class Settings:
    """Of a model, a loss function and an optimizer, as they were for the capture."""

    def __init__(self, model, loss_fn, optimizer):
        self._model, self._loss_fn, self._optimizer = model, loss_fn, optimizer
        self._names, self._ignored = _Names(), set()
        own = {id(parameter) for parameter in model.parameters()}
        self._unregistered = [
            (n, p) for n, p in named_parameters(model, optimizer) if id(p) not in own
        ]
        self._captured, self._changes = self.texts(), {}

    def changes(self):
        """{what it is: text} of what is another now than for the capture."""
        if not self._are_same():
            now = self.texts()
            self._changes = {
                name: text
                for name in sorted(now.keys() | self._captured.keys())
                if (text := now.get(name, _OTHER)) != self._captured.get(name, _OTHER)
            }
        return self._changes

    def ignore(self, before):
        """From now on what is no longer in the texts `before`: a capture alone was between, so that it is what each one changes."""
        now = self.texts()
        changed = {n for n in now.keys() | before.keys() if now.get(n) != before.get(n)}
        self.forget(set(map(unit_of, changed)))

    def forget(self, names):
        """What was found to decide nothing, by `unit_of` its name, is no longer looked at."""
        self._ignored |= names
        for texts in (self._captured, self._changes):
            for name in [name for name in texts if unit_of(name) in names]:
                del texts[name]

    def _are_same(self):
        return (
            self._modules.are_same()
            and self._compared.are_same()
            and self._hooks_of_tensors() == self._tensor_hooks
            and self._accumulators.are_same()
            and detects_anomalies() == self._detects
            and torch.get_default_dtype() == self._dtype
        )

    def texts(self):
        """{what it is: text} as they are, which are compared from now on."""
        self._compared, self._modules = _Compared(), Modules(self._model)
        self.of_wholes, found = set(), {}
        for name, module in self._modules.named:
            found |= self._of_module(name_of_place("module", name), module)
        for kind in self._classes():
            found |= self._of_class(kind)
        for hooks, what in [*_global_hooks(), *self._step_hooks()]:
            self._compared.add_whole(hooks)
            found[what] = self._names.of_all(hooks.values())
        found["optimizer: step"] = self._of_step()
        found |= self._of_tensors()
        self._detects = detects_anomalies()
        found["torch.autograd.set_detect_anomaly"] = str(self._detects)
        self._dtype = torch.get_default_dtype()
        found["torch.get_default_dtype"] = str(self._dtype)
        found |= self._of_reads()
        return {name: text for name, text in found.items() if unit_of(name) not in self._ignored}

    def _of_module(self, where, module):
        found, attributes = {f"{where}: class": self._names.of(type(module))}, module.__dict__
        self._compared.add_object(module)
        is_of_torch = type(module).__module__.startswith("torch.")
        for key, value in attributes.items():
            what = f"{where}: attribute {key!r}"
            if key in HOOKS:
                self._compared.add_whole(value)
                found[f"{where}: {HOOKS[key]}"] = self._names.of_all(value.values())
            elif key in _OF_ALL_MODULES:
                continue
            elif is_plain(value) or _is_code(value):
                self._compared.add(attributes, key, value)
                found[what] = self._text(value)
            elif type(value) in (list, tuple, dict) and any(map(_is_code, _values(value))):
                self._compared.add(attributes, key, value)
                self._compared.add_whole(value)
                found[what] = self._names.of_all(filter(_is_code, _values(value)))
            elif type(value) is list and is_plain(tuple(value)) and is_of_torch:
                self._compared.add(attributes, key, value)
                self._compared.add_whole(value)
                found[what] = repr(value)
        return found

    def _classes(self):
        """Those of the modules, and those that they are derived from, but for what all are."""
        kinds = chain.from_iterable(type(module).__mro__ for _, module in self._modules.named)
        return [k for k in dict.fromkeys(kinds) if k not in (torch.nn.Module, object)]

    def _of_class(self, kind):
        self._compared.add_whole(vars(kind))
        where = f"class {self._names.of(kind)}"
        return {
            f"{where}: attribute {key!r}": self._text(value)
            for key, value in vars(kind).items()
            if _is_code(value) or (type(value) in _SETTINGS and not key.startswith("__"))
        }

    def _of_step(self):
        attributes = vars(self._optimizer)
        self._compared.add(attributes, "step", attributes.get("step"))
        step = own_step_of(self._optimizer)
        return "that of its class" if step is None else self._names.of(step)

    def _step_hooks(self):
        return [
            (getattr(self._optimizer, name), f"optimizer: {text}")
            for name, text in _STEP_HOOKS.items()
        ]

    def _of_tensors(self):
        self._tensor_hooks, found = self._hooks_of_tensors(), {}
        named = [*self._model.named_parameters(), *self._unregistered]
        for name, parameter in named if self._tensor_hooks else ():
            for attribute, text in _TENSOR_HOOKS.items():
                if hooks := getattr(parameter, attribute):
                    what = f"parameter {name!r}: {text}"
                    found[what] = self._names.of_all(hooks.values())
        self._accumulators = Accumulators(self._model.named_parameters())
        return found | {
            f"parameter {name!r}: {ON_NODE}": self._names.of_all(hooks)
            for name, hooks in self._accumulators.hooks.items()
        }

    def _hooks_of_tensors(self):
        """Those of parameters that have some."""
        parameters = self._modules.parameters() + [p for _, p in self._unregistered]
        hooks = list(chain.from_iterable(map(of, parameters) for of in _OF_TENSORS))
        return [list(each.values()) for each in hooks if each] if any(hooks) else []

    def _of_reads(self):
        """What the loss function, the forward passes of modules, hooks, and an optimizer of the user's read past their arguments and
        attributes.
        """
        modules = {
            id(module): name_of_place("module", name) for name, module in self._modules.named
        }
        found = {}
        functions = [*code_of(self._modules.named, self._loss_fn), *self._own_step()]
        reads = reads_of(functions, modules)
        for name, (entries, value) in reads.found.items():
            for entry in entries:
                self._compared.add_read(entry)
            if type(value) is not types.MethodType:  # Its function is an entry.
                found[name] = self._text(value)
            found |= self._of_module_outside(name, value)
        for name, value in reads.wholes.items():
            if not any(value is own for own in vars(self._optimizer).values()):
                of_whole = self._of_contents(name, value)
                self.of_wholes |= set(map(unit_of, of_whole))
                found |= of_whole
        return found

    def _of_module_outside(self, name, value):
        if not isinstance(value, torch.nn.Module) or value in self._modules.set:
            return {}
        found = {}
        for inner, module in value.named_modules():
            if module in self._modules.set:
                continue
            where = f"{name}{inner and f', module {inner!r}'}"
            found |= self._of_module(where, module) | self._of_parts(where, module)
        return found

    def _of_parts(self, where, module):
        """What those of the model have beside attributes is followed by `Flags` and `Watch`."""
        self._compared.add(module.__dict__, "training", module.training)
        found = {f"{where}: training": str(module.training)}
        for part in PARTS_OF_MODULES:
            entries = module.__dict__[part]
            self._compared.add_whole(entries)
            for key, value in entries.items():
                found[f"{where}: {key!r}"] = "None" if value is None else self._names.of(value)
        return found

    def _of_contents(self, name, value):
        """Of what is used as a whole."""
        found = {}
        if isinstance(value, np.ndarray) and value.nbytes <= _LARGEST_ARRAY:
            found[name] = self._compared.add_array(value)
        for place, part in contents(value):
            entries = [(f"{name}: {place}{key}", entry) for key, entry in part.entries()]
            entries = [each for each in entries if unit_of(each[0]) not in self._ignored]
            if entries or not part.before:
                self._compared.add_contents(part)
            for what, entry in entries:
                found[what] = self._text(entry)
                found |= self._of_module_outside(what, entry)
                if isinstance(entry, np.ndarray) and entry.nbytes <= _LARGEST_ARRAY:
                    found[what] = self._compared.add_array(entry)
        return found

    def _own_step(self):
        """The step of an optimizer whose class is the user's."""
        for kind in type(self._optimizer).__mro__:
            for step in unwrapped(vars(kind).get("step")):
                if not is_of_library(step):
                    yield types.MethodType(step, self._optimizer)

    def _text(self, value):
        return repr(value) if is_plain(value) else self._names.of(value)
