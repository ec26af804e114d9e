"""Isolation of a capture from its process: imported modules, and traces left in modules, classes and caches of others.

A traced tensor left there would break every later call in eager. An import runs as outside of a capture.
"""

import contextlib
import functools
import gc
import operator
import sys
import threading
import types

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from .locations import is_internal

# Longer containers are data.
_LONGEST = 10_000
_MAY_HOLD = (dict, list, staticmethod, classmethod)
_CACHED = type(functools.lru_cache(lambda: None))


class _Outside:
    """A finder in front of the others: what they find is executed with real tensors, and then added to `kept`."""

    def __init__(self, kept):
        self._thread, self._kept = threading.get_ident(), kept

    def find_spec(self, name, path=None, target=None):
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                if spec.has_location and not is_internal(spec.origin):
                    self._wrap(spec.loader)
                return spec
        return None

    def _wrap(self, loader):
        execute = getattr(loader, "exec_module", None)
        if execute is None or isinstance(loader, type) or not hasattr(loader, "__dict__"):
            return

        def exec_module(module):
            del loader.exec_module
            if threading.get_ident() != self._thread:
                return execute(module)
            with _disable_current_modes(), torch._C.DisableTorchFunction():
                execute(module)
            self._kept.extend(_kept(module))

        loader.exec_module = exec_module


def is_traced(value):
    """Whether it is a traced tensor, or a container that has one, however deep; containers may hold themselves."""
    waiting, seen = [value], set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, FakeTensor):
            return True
        parts = value.values() if type(value) is dict else value
        if type(value) not in (list, dict) and not issubclass(type(value), tuple):
            continue
        if id(value) not in seen:
            seen.add(id(value))
            waiting.extend(parts)
    return False


class _Namespace:
    """A dict, or the attributes of a class."""

    def __init__(self, owner):
        self._owner = owner
        self._entries = vars(owner) if isinstance(owner, type) else owner
        self.before = dict(self._entries)

    def restore(self):
        values = self._entries.values(), self.before.values()
        if len(values[0]) == len(values[1]) and all(map(operator.is_, *values)):
            return
        for key, value in list(self._entries.items()):
            if value is self.before.get(key) or not is_traced(value):
                continue
            if isinstance(self._owner, type):
                # Of a metaclass of the user's no code runs.
                if key in self.before:
                    type.__setattr__(self._owner, key, self.before[key])
                else:
                    type.__delattr__(self._owner, key)
            elif key in self.before:
                self._entries[key] = self.before[key]
            else:
                del self._entries[key]


class _List:
    def __init__(self, owner):
        self._owner, self._before = owner, list(owner)

    def restore(self):
        if any(map(is_traced, self._owner)):
            self._owner[:] = self._before


class _Cache:
    """Of `functools.lru_cache`."""

    def __init__(self, function):
        self._function, self._misses = function, function.cache_info().misses

    def restore(self):
        if self._function.cache_info().misses != self._misses and self._has_traced():
            self._function.cache_clear()

    def _has_traced(self):
        """Among its results, which are beside the dict of them, or in it."""
        held = gc.get_referents(self._function)
        return any(map(is_traced, held))


def _kept(module):
    """What restores a module, and what it has made."""
    space = _Namespace(vars(module))
    yield space
    for value in space.before.values():
        if type(value) is not types.FunctionType:
            yield from _kept_value(value, module.__name__)


def _kept_value(value, name):
    kind = type(value)
    if kind is dict and len(value) < _LONGEST:
        yield _Namespace(value)
    elif kind is list and len(value) < _LONGEST:
        yield _List(value)
    elif kind is _CACHED and value.__module__ == name:
        yield _Cache(value)
    elif isinstance(value, type) and value.__module__ == name:
        yield _Namespace(value)
        for inner in list(vars(value).values()):
            if type(inner) in _MAY_HOLD or type(inner) is _CACHED:
                yield from _kept_value(getattr(inner, "__func__", inner), name)
    elif kind.__module__ == name and type(getattr(value, "__dict__", None)) is dict:
        yield _Namespace(value.__dict__)
        for inner in list(value.__dict__.values()):
            if type(inner) in (dict, list):
                yield from _kept_value(inner, name)


def _modules():
    """Those of users and packages."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None) if type(module) is types.ModuleType else None
        if (file and not is_internal(file)) or getattr(module, "__name__", "") == "__main__":
            yield module


@contextlib.contextmanager
def surroundings_kept():
    """Behind it no module, class, or container in one has a traced tensor that was put there. Within it the body of a module that
    is imported computes as outside of a capture.
    """
    kept = [each for module in _modules() for each in _kept(module)]
    finder = _Outside(kept)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for each in kept:
            each.restore()
