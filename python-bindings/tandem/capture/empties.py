"""Removal of tensors without elements from a traced step, before it is decomposed.

Nothing is computed of them, and results of them alone are constants. `Builder.emit` handles operators with other
operands too.
"""

import operator as python_operator

import torch
from torch.fx.node import map_arg

from ..tracing.draws import is_random

_zeros = torch.ops.aten.zeros.default
# They ask where memory lies.
_OF_MEMORY = ("set_", "resize_")


def remove_empty(graph):
    """In the graph of the first trace."""
    for node in list(graph.graph.nodes):
        if _computes(node) and _tensors(node.meta.get("val")):
            made = _made(graph, node)
            if made is not None:
                _replace(graph.graph, node, made)


def _computes(node):
    is_operator = isinstance(node.target, torch._ops.OpOverload)
    return is_operator and node.target._overloadpacket.__name__ not in _OF_MEMORY


def _tensors(value):
    values = value if isinstance(value, (list, tuple)) else [value]
    return [tensor for tensor in values if isinstance(tensor, torch.Tensor)]


def _is_empty(value):
    return all(0 in tensor.shape for tensor in _tensors(value))


def _made(graph, node):
    """What the node gives, or its results: shapes of tensors without elements, or real tensors; None where others decide it."""
    if _is_empty(node.meta["val"]):
        return node.meta["val"]
    values = [_value(graph, operand) for operand in node.all_input_nodes]
    tensors = all(isinstance(t, torch.Tensor) and not t.is_complex() for t in values)
    depends = not values or not tensors or not all(map(_is_empty, values))
    if depends or is_random(node.target) or node.target._schema.is_mutable:
        return None
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: _of_nothing(_value(graph, n)))
    try:
        with torch.no_grad():
            return node.target(*args, **kwargs)
    except RuntimeError:
        return None


def _value(graph, node):
    return getattr(graph, node.target) if node.op == "get_attr" else node.meta["val"]


def _of_nothing(tensor):
    return torch.zeros(tensor.shape, dtype=tensor.dtype)


def _replace(graph, node, made):
    if isinstance(made, torch.Tensor):
        node.replace_all_uses_with(_source(graph, node, made))
        graph.erase_node(node)
        return
    for item in list(node.users):
        if item.target is python_operator.getitem:
            _replace(graph, item, made[item.args[1]])
    if not node.users:
        graph.erase_node(node)


def _source(graph, node, made):
    """A node before `node` that gives the tensor."""
    with graph.inserting_before(node):
        if 0 in made.shape:
            new = graph.call_function(_zeros, (list(made.shape),), {"dtype": made.dtype})
        else:
            module, name = graph.owning_module, f"_of_nothing_{node.name}"
            setattr(module, name, made)
            new = graph.get_attr(name)
    new.meta = dict(node.meta)
    return new
