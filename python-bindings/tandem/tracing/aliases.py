"""Aliases in a traced graph: values that change with a write in place.

A write in place gives its operand a new value. Other values in the same memory, read after it, change too: they become
that value, views of it in another shape, or views made of it again. `Overwritten` finds the case of each.
"""

import operator as python_operator
from dataclasses import dataclass

import torch

from .reads import storages_of
from .writes import operands_written

_ITEM = python_operator.getitem


class NotFollowed(Exception):
    """A write to a part of memory that is read as a whole, or in another order."""


@dataclass(frozen=True)
class Follower:
    """A node that has another value behind a write: that of `like`, or, if `is_made_again`, what the node makes of its operands then."""

    node: torch.fx.Node
    like: torch.fx.Node | None = None
    is_made_again: bool = False


def gives_view(operator):
    """Whether what an operator gives lies in the memory of its operand."""
    returns = operator._schema.returns if isinstance(operator, torch._ops.OpOverload) else ()
    return any(each.alias_info is not None for each in returns)


def _layout(tensor):
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset()


def _same_elements(x, y):
    """Whether two tensors of one storage have the same elements in the same order."""
    if _layout(x) == _layout(y):
        return True
    whole = x.is_contiguous() and y.is_contiguous() and x.numel() == y.numel()
    return whole and x.dtype == y.dtype and x.storage_offset() == y.storage_offset()


class Overwritten:
    """`followers[node]` are, for each operand that a node writes to, (the operand, the nodes that follow). Raises NotFollowed."""

    def __init__(self, graph):
        self._seen, self._sharing = set(), {}
        self.followers = {}
        for node in graph.nodes:
            self._seen.add(node)
            written = operands_written(node.target, node.args, node.kwargs)
            if written:
                self._check_apart(written)
                self.followers[node] = [(x, self._follow(x)) for x in written]
            for storage in storages_of(node.meta.get("val")):
                self._sharing.setdefault(storage, []).append(node)

    @staticmethod
    def _check_apart(written):
        storages = [storages_of(x.meta.get("val")) for x in written]
        if not all(storages) or len(set().union(*storages)) < len(written):
            raise NotFollowed

    def _follow(self, operand):
        (storage,) = storages_of(operand.meta["val"])
        found = {operand: None}
        for node in self._sharing.get(storage, ()):
            # The graph is looked at from its beginning: what was not seen yet is behind the write.
            if any(user not in self._seen for user in node.users):
                self._find(node, operand, found)
        return [follower for follower in found.values() if follower is not None]

    def _find(self, node, operand, found):
        """Adds how `node` follows, behind those that it is made of."""
        if node in found:
            return
        value, written = node.meta["val"], operand.meta["val"]
        if isinstance(value, torch.Tensor) and _same_elements(value, written):
            found[node] = Follower(node, like=operand)
            return
        of = node.args[0] if node.args else None
        if node.op != "call_function" or not isinstance(of, torch.fx.Node):
            raise NotFollowed
        if not (gives_view(node.target) or node.target is _ITEM) or not storages_of(
            of.meta.get("val")
        ) & storages_of(written):
            raise NotFollowed
        self._find(of, operand, found)
        is_write = bool(operands_written(node.target, node.args, node.kwargs))
        found[node] = Follower(node, like=of) if is_write else Follower(node, is_made_again=True)
