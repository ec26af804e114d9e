"""Attention masks that follow from positions alone, as bands: causal masks, sliding windows.

A band needs no matrix of positions by positions in memory, and skips blocks of keys that no query of a block sees. With
padding masked as well, the rest of the mask has the size of the padding.
"""

import contextlib
import functools

import torch

from ..tracing.attention import ATTENTION
from ..tracing.draws import is_random

_MASK, _BEFORE, _AFTER = 3, 5, 6
# More is no mask that somebody wrote by positions.
_MOST_NODES, _MOST_ELEMENTS = 256, 2**28


class _Unknown(Exception):
    """A value that follows from the step's arguments, or is too large to look at."""


def _check(node):
    value = node.meta.get("val")
    is_known = node.op == "get_attr" or (node.op == "call_function" and not is_random(node.target))
    if not is_known or (isinstance(value, torch.Tensor) and value.numel() > _MOST_ELEMENTS):
        raise _Unknown


class _Constants:
    """Values of a graph's nodes that depend on no argument."""

    def __init__(self, graph):
        self.graph, self.values = graph, {}

    def of(self, node):
        for each in self._ancestors(node):
            self.values[each] = self._run(each)
        return self.values[node]

    def _ancestors(self, node):
        """Those without a value, each behind what it reads."""
        pending, found = [node], {}
        while pending:
            each = pending.pop()
            if each in self.values:
                continue
            found.pop(each, None)
            found[each] = None
            _check(each)
            if len(found) > _MOST_NODES:
                raise _Unknown
            pending += each.all_input_nodes
        return list(reversed(found))

    def _run(self, node):
        if node.op == "get_attr":
            return getattr(self.graph, node.target)
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), self.values.__getitem__)
        return node.target(*args, **kwargs)


def _seen(mask):
    """Which keys each query sees, if that is all that the mask says."""
    if mask.dtype == torch.bool:
        return mask
    lowest = torch.finfo(torch.float32).min
    hidden = (mask == -torch.inf) | (mask == torch.finfo(mask.dtype).min) | (mask == lowest)
    return ~hidden if bool((hidden | (mask == 0)).all()) else None


def find_band(mask, queries, keys):
    """(before, after) of a mask that is a band round the diagonal; None for any other."""
    seen = _seen(mask)
    if seen is None:
        return None
    seen = seen.expand(*mask.shape[:2], queries, keys)
    first = seen[0, 0]
    if not bool((seen == first).all()) or not bool(first.any(1).all()):
        return None
    distance = torch.arange(keys) - torch.arange(queries)[:, None]
    least, most = int(distance[first].min()), int(distance[first].max())
    if not torch.equal(first, (distance >= least) & (distance <= most)):
        return None
    before = None if least <= 1 - queries else -least
    after = None if most >= keys - 1 else most
    is_band = all(end is None or end >= 0 for end in (before, after))
    return (before, after) if is_band else None


_AND = (torch.ops.aten.bitwise_and.Tensor, torch.ops.aten.logical_and.default)
_SAME = (torch.ops.aten.alias_copy.default, torch.ops.aten.clone.default)
_BROADCAST = (torch.ops.aten.expand_copy.default,)
_RESHAPED = (torch.ops.aten.view_copy.default,)


def _shape(node):
    return node.meta["val"].shape


def _without_views(node):
    """What `node` is a broadcast copy of."""
    while node.target in _SAME + _BROADCAST or (
        node.target in _RESHAPED and _shape(node) == _shape(node.args[0])
    ):
        node = node.args[0]
    return node


def _terms(node):
    """The masks that all have to be true, for a mask of truth values."""
    node = _without_views(node)
    if node.target not in _AND or node.meta["val"].dtype != torch.bool:
        return [node]
    return [term for operand in node.args for term in _terms(operand)]


def _split(mask, constants, queries, keys):
    """The band in the mask and the terms that are none; (None, None) and all terms if there is none."""
    terms = _terms(mask)
    known = {}
    for term in terms:
        with contextlib.suppress(_Unknown):
            known[term] = constants.of(term)
    if not known:
        return (None, None), terms
    if any(tensor.dtype != torch.bool for tensor in known.values()):
        positions = known[terms[0]]
    else:
        positions = functools.reduce(torch.logical_and, known.values())
    band = find_band(positions[(None,) * (4 - positions.dim())], queries, keys)
    return ((None, None), terms) if band is None else (band, [t for t in terms if t not in known])


def _join(graph, node, terms):
    """One mask of them, in front of `node`."""
    with graph.inserting_before(node):
        joined = terms[0]
        for term in terms[1:]:
            shape = torch.broadcast_shapes(_shape(joined), _shape(term))
            joined = graph.call_function(_AND[0], (joined, term))
            joined.meta["val"] = torch.empty(shape, dtype=torch.bool, device="meta")
            joined.meta["tandem"] = node.meta["tandem"]
    return joined


def find_bands(graph):
    """Takes out of the masks of attention in `graph` what is a band."""
    constants = _Constants(graph)
    for node in list(graph.graph.nodes):
        if node.target is not ATTENTION or node.args[_MASK] is None:
            continue
        mask = node.args[_MASK]
        with torch.no_grad():
            band, terms = _split(
                mask, constants, _shape(node.args[0])[-2], _shape(node.args[1])[-2]
            )
        if len(terms) == len(_terms(mask)):
            continue
        arguments = list(node.args)
        arguments[_BEFORE], arguments[_AFTER] = band
        arguments[_MASK] = _join(graph.graph, node, terms) if terms else None
        node.args = tuple(arguments)
