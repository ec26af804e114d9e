"""Hooks of the nodes that accumulate gradients into parameters.

PyTorch does not list them, but it asks a Python function for the dict of a new hook. That function counts and reads
them.
"""

from collections import OrderedDict
from unittest import mock

import torch
from torch.autograd.function import _HookMixin

from ..errors import CaptureError

ON_NODE = "hooks on the node that accumulates its gradient"
_KINDS = ("register_hook", "register_prehook")


def _count_hooks():
    """From now on hooks of autograd's nodes are counted. Returns a function that gives their number."""
    register = _HookMixin._register_hook
    if not hasattr(register, "count"):

        def counting(hooks, hook):
            counting.count += 1
            return register(hooks, hook)

        counting.count = 0
        _HookMixin._register_hook = staticmethod(counting)
    return lambda: _HookMixin._register_hook.count


def _dicts_of(parameter):
    """The dicts of hooks that are not empty, of a parameter that requires a gradient."""
    with torch.inference_mode(False), torch.enable_grad():
        node = parameter.view_as(parameter).grad_fn.next_functions[0][0]
    found = []

    def look(hooks, _):
        if hooks:
            found.append(hooks)
        return OrderedDict() if hooks is None else hooks, None

    with mock.patch.object(_HookMixin, "_register_hook", staticmethod(look)):
        for kind in _KINDS:
            getattr(node, kind)(None)
    return found


class Accumulators:
    """Of parameters, by name, the hooks that they have now."""

    def __init__(self, named):
        self._named, self._count = list(named), _count_hooks()
        self._read()

    def _read(self):
        self._counted = self._count()
        trained = [
            (n, p) for n, p in self._named if p.requires_grad and p.is_leaf and not p.is_inference()
        ]
        self._dicts = {name: dicts for name, p in trained if (dicts := _dicts_of(p))}
        self.hooks = self._now()

    def _now(self):
        return {name: [h for d in ds for h in d.values()] for name, ds in self._dicts.items()}

    def are_same(self):
        """Whether none was added or removed. Microseconds, unless some node of autograd's got a hook."""
        if self._count() != self._counted:
            before = self.hooks
            self._read()
            return self.hooks == before
        return not self._dicts or self._now() == self.hooks


def check_accumulators(named):
    """CaptureError for a parameter with such a hook."""
    for name in Accumulators(named).hooks:
        raise CaptureError(
            f"parameter {name!r}: found {ON_NODE}, expected register_hook, which is captured"
        )
