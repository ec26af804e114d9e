"""Indices in range by construction, from `topk`, `sort` or `argmax`, such as the experts of a token."""

import operator as python_operator

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot

from .reads import storages_of, written_by

# What gives elements of its operand, where they are or elsewhere.
_MOVES = frozenset(
    """
    alias clone detach expand flatten permute reshape select slice split split_with_sizes squeeze t transpose
    unbind unsqueeze view _to_copy _unsafe_view
    """.split()  # noqa: SIM905 - a list of words is easier to read
)
# Operators whose second result has places along a dimension, with the number of that operand.
_SECOND = {"topk": 2, "sort": 1, "max": 1, "min": 1}


def _name(node):
    is_aten = isinstance(node.target, torch._ops.OpOverload)
    return node.target._overloadpacket.__name__ if is_aten else None


def _size(node, dim):
    shape = node.args[0].meta["val"].shape
    return shape.numel() if dim is None else shape[dim] if shape else 1


def _extent(node, written):
    """Below which number all elements are that a node gives, and none is negative; None if that is not known, as where the step
    writes to them: `written` are the storages that it does.
    """
    while not storages_of(node.meta.get("val")) & written:
        name, given = _name(node), node.args
        if node.target is python_operator.getitem:
            made = _name(given[0])
            if made in _SECOND and given[1] == 1:
                number = _SECOND[made]
                of = given[0]
                return _size(of, of.args[number] if len(of.args) > number else -1)
            if made not in _MOVES:
                return None
        elif name in ("argmax", "argmin"):
            return _size(node, given[1] if len(given) > 1 else None)
        elif name not in _MOVES:
            return None
        node = given[0]
    return None


def is_place_below(index, size):
    """Whether each element of a traced tensor is a place among `size` ones at most, whatever the step computes."""
    if not isinstance(index, FakeTensor):
        return False
    tracer = get_proxy_mode().tracer
    slot = get_proxy_slot(index, tracer, None)
    written = set().union(*map(written_by, tracer.graph.nodes))
    extent = _extent(slot.proxy.node, written) if slot is not None else None
    return extent is not None and extent <= size
