"""Attributes of modules during capture.

A forward pass may store tensors there. If the next one reads them, eager uses those of the step before, but a captured
step would compute them anew.
"""

import contextlib
from collections import OrderedDict

import torch
import torch.utils._pytree as pytree
from torch.fx.experimental.proxy_tensor import get_proxy_slot

from ..errors import CaptureError
from .unregistered import REGISTERED

_CONTAINERS = (list, tuple, dict)


class _Replacing:
    """Puts other tensors into attributes of modules, into lists, tuples and dicts there, and into modules in these, and takes them
    back: by the methods of the built-in types, so that none of a user's runs.
    """

    def __init__(self, model, stand_in):
        self._stand_in, self._undone = stand_in, []
        self._seen = set(map(id, model.modules()))

    def run_module(self, name, module):
        for key in set(module.__dict__) - REGISTERED:
            value = module.__dict__[key]
            what = f"{name}.{key}" if name else key
            new = self.run(value, f"attribute {what!r}")
            if new is not value:
                self.put(module.__dict__, key, value, new)

    def _run_unregistered(self, outer, what):
        for name, module in outer.named_modules():
            if id(module) not in self._seen and not isinstance(module, torch.jit.ScriptModule):
                self._seen.add(id(module))
                for tensors in (module._parameters, module._buffers):
                    self._into(tensors, list(tensors.items()), what, dict.__setitem__)
                self.run_module(name, module)

    def run(self, value, what):
        """What stands for a value; lists and dicts are the same ones."""
        if isinstance(value, torch.Tensor):
            stands = self._stand_in(value, what)
            return value if stands is None else stands
        if isinstance(value, tuple):
            old = list(tuple.__iter__(value))
            items = [self.run(item, what) for item in old]
            same = all(a is b for a, b in zip(items, old, strict=True))
            return value if same else _like(value, items)
        if isinstance(value, dict):
            base = OrderedDict if isinstance(value, OrderedDict) else dict
            self._into(value, list(base.items(value)), what, base.__setitem__)
        elif isinstance(value, torch.nn.Module):
            self._run_unregistered(value, what)
        elif isinstance(value, list):
            self._into(value, list(enumerate(list.__iter__(value))), what, list.__setitem__)
        return value

    def _into(self, container, pairs, what, put):
        if id(container) in self._seen:
            return
        self._seen.add(id(container))
        for key, value in pairs:
            if (new := self.run(value, what)) is not value:
                self.put(container, key, value, new, put)

    def put(self, container, key, old, new, put=dict.__setitem__):
        self._undone.append((container, key, old, put))
        put(container, key, new)

    def undo(self):
        for container, key, value, put in reversed(self._undone):
            put(container, key, value)


def _like(value, items):
    """A tuple, perhaps of names, with other items."""
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


@contextlib.contextmanager
def replaced(model, stand_in):
    """Within it attributes have what `stand_in(tensor, name)` gives in the place of a tensor, where it is not None."""
    replacing = _Replacing(model, stand_in)
    try:
        for name, module in model.named_modules():
            replacing.run_module(name, module)
        yield
    finally:
        replacing.undo()


@contextlib.contextmanager
def flat_weights(modules):
    """Recurrent layers among these keep a second list of their weights; let it hold the traced ones."""
    layers = [module for module in modules if isinstance(module, torch.nn.RNNBase)]
    saved = [(layer._flat_weights, layer._flat_weight_refs) for layer in layers]
    for layer in layers:
        layer._flat_weights = [getattr(layer, name, None) for name in layer._flat_weights_names]
    try:
        yield
    finally:
        for layer, weights in zip(layers, saved, strict=True):
            layer._flat_weights, layer._flat_weight_refs = weights


def check_parameters(model, arguments, tensors):
    """CaptureError unless the model has these under the names of the arguments: the optimizer would go on with them."""
    for argument, tensor in zip(arguments, tensors, strict=True):
        path, _, name = argument.name.rpartition(".")
        with contextlib.suppress(AttributeError):
            if model.get_submodule(path)._parameters.get(name, tensor) is not tensor:
                raise CaptureError(
                    f"parameter {argument.name!r}: the forward pass puts another tensor in its place, expected a write to"
                    " it, such as copy_ under torch.no_grad()"
                )


def _leaves(value):
    if isinstance(value, _CONTAINERS):
        return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    return [value] if isinstance(value, torch.Tensor) else []


def _attributes(model):
    """[(module's name, attributes, their names)] of what may hold tensors, but for parameters and modules."""
    for name, module in model.named_modules():
        own = [key for key in module.__dict__ if key not in REGISTERED]
        yield name, module.__dict__, own
        yield name, module._buffers, list(module._buffers)


def held_tensors(model):
    """{(module, attribute): tensors} of attributes that hold some."""
    return {
        (name, key): leaves
        for name, attributes, keys in _attributes(model)
        for key in keys
        if (leaves := _leaves(attributes[key]))
    }


def left(model, before, buffers):
    """{(module, attribute): value}: what holds other tensors than `before`, but for the `buffers` of the step, which are its state.
    Containers are copies.
    """
    new = {
        key
        for key, tensors in held_tensors(model).items()
        if list(map(id, tensors)) != list(map(id, before.get(key, ())))
    }
    return {
        (name, key): pytree.tree_map(lambda leaf: leaf, attributes[key])
        for name, attributes, keys in _attributes(model)
        for key in keys
        if (name, key) in new and (f"{name}.{key}" if name else key) not in buffers
    }


def _depends(node, changing):
    """Whether a node is computed from one of which `changing` is true."""
    open_, seen = [node], {node}
    while open_:
        node = open_.pop()
        if changing(node):
            return True
        new = set(node.all_input_nodes) - seen
        seen |= new
        open_.extend(new)
    return False


def that_change(left, tracer, changing):
    """Those with a tensor of which some step makes another: `changing(node)` says it of placeholders and operators."""

    def changes(tensor):
        node = get_proxy_slot(tensor, tracer, None, lambda slot: slot.proxy.node)
        return node is not None and _depends(node, changing)

    return {key: value for key, value in left.items() if any(map(changes, _leaves(value)))}


def stand_ins(left):
    """As many tensors of the same kinds, which are in no graph yet."""

    def stand_in(tensor):
        return torch.zeros(tensor.shape, dtype=tensor.dtype)

    return {key: pytree.tree_map_only(torch.Tensor, stand_in, value) for key, value in left.items()}


def put(model, left):
    """Containers are copies, as the forward pass may put other tensors into them."""
    modules = dict(model.named_modules())
    for (name, key), value in left.items():
        module, value = modules[name], pytree.tree_map(lambda leaf: leaf, value)
        if key in module._buffers:
            module._buffers[key] = value
        else:
            module.__dict__[key] = value


def used(left, graph):
    """The first key of `left`, trees of tensors, with one that the graph computes with, or None."""
    constants = [
        getattr(graph, node.target)
        for node in graph.graph.nodes
        if node.op == "get_attr" and node.users
    ]
    ids = set(map(id, constants))
    return next((key for key, value in left.items() if ids & set(map(id, _leaves(value)))), None)
