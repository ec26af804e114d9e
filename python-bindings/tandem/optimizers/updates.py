"""The optimizer's updates: traced once for parameters that are alike, and copied in the graph for the others.

A transformer has hundreds of parameters of some ten shapes, and an update of Adam has 17 operators, a third of all to
trace. Parameters are alike if their group, shapes and types are. If an update is elementwise, shapes may differ.
"""

from dataclasses import dataclass, replace

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from ..tracing.locations import Location


def location_of(name):
    """Of what updates a parameter, or what all updates of a group share: no line of the user's."""
    return Location(name=f"optimizer.{name}")


@dataclass
class Update:
    """Of one parameter. `keys` name the results, first the parameter's; `nodes` are what the trace made of it,
    none if it is a copy of the update `like`.
    """

    name: str
    keys: list
    operands: list
    nodes: list
    like: "Update | None" = None


class Updates:
    """Of one trace, in the parameters' order."""

    def __init__(self):
        self.updates, self.first = [], {}

    def run(self, name, keys, operands, group, function, is_elementwise):
        """New tensors by key. `operands` are the parameter, its gradient and its state; the operands themselves stand for
        the results, in the same order but for the gradient, if the update is to be copied.
        """
        # The same tensor twice, such as a parameter that is its own gradient, is another function.
        same = [[a is b for b in operands] for a in operands]
        shapes = [tuple(t.shape) for t in operands]
        # A tensor of one number cannot be told from the numbers that a group shares.
        if is_elementwise and len(set(shapes)) == 1 and shapes[0]:
            shapes = [None] * len(operands)
        kind = (group, str(same), *zip(shapes, (t.dtype for t in operands), strict=True))
        update = Update(name, keys, operands, [], self.first.get(kind))
        self.updates.append(update)
        if update.like:
            return dict(zip(keys, (operands[0], *operands[2:]), strict=True))
        self.first[kind] = update
        graph = get_proxy_mode().tracer.graph
        last = graph._root.prev
        results = function()
        while last.next is not graph._root:
            last = last.next
            update.nodes.append(last)
        return dict(zip(keys, results, strict=True))

    def shared(self):
        """Those that a copy needs."""
        firsts = {id(update.like) for update in self.updates if update.like}
        return [u for u in self.updates if u.like or id(u) in firsts]

    def extra_results(self):
        """What the trace has to return behind its results, so that `copy` finds it in the graph."""
        return [tensor for update in self.shared() for tensor in update.operands]

    def facts(self, graph):
        """All that `copy` makes of the graph, beside the graph itself."""
        number = {node: place for place, node in enumerate(graph.nodes)}
        index = {id(update): place for place, update in enumerate(self.updates)}
        return [
            (u.name, u.keys, [number.get(n) for n in u.nodes], index.get(id(u.like)))
            for u in self.updates
        ]

    def copy(self, graph, place_of):
        """Puts the copies where they would have been traced. `place_of` says where a key is among the results."""
        output = graph.output_node()
        results = list(output.args[0])
        count = len(results) - sum(len(update.operands) for update in self.shared())
        nodes, results = iter(results[count:]), results[:count]
        operands = {id(u): [next(nodes) for _ in u.operands] for u in self.shared()}
        last = None
        for update in self.updates:
            if update.like is None:
                last = update.nodes[-1] if update.nodes else last
                continue
            stands_for = dict(zip(operands[id(update.like)], operands[id(update)], strict=True))
            shaped = _Shaped(update)
            for node in update.like.nodes:
                with graph.inserting_after(last):
                    last = graph.node_copy(node, lambda old: stands_for.get(old, old))  # noqa: B023
                _name(last, update)
                shaped.change(last)
                stands_for[node] = last
            for key, first in zip(update.keys, update.like.keys, strict=True):
                made = results[place_of[first]]
                results[place_of[key]] = stands_for.get(made, made)
        output.args = (results,)


def _name(node, update):
    if "tandem" in node.meta:
        node.meta["tandem"] = replace(node.meta["tandem"], location=location_of(update.name))


class _Shaped:
    """Gives the nodes of a copy the shape of its own parameter."""

    def __init__(self, update):
        self._of, self._shape = (u.operands[0].shape for u in (update.like, update))
        self._made = {}

    def change(self, node):
        value = node.meta.get("val")
        if self._of == self._shape or not isinstance(value, torch.Tensor):
            return
        if value.shape == self._of:
            node.meta["val"] = self._empty(value)

    def _empty(self, like):
        if like.dtype not in self._made:
            with like.fake_mode:
                self._made[like.dtype] = torch.empty(self._shape, dtype=like.dtype)
        return self._made[like.dtype]
