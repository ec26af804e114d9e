"""Joins equal computations of several paths of an optimizer's step (`paths.py`).

Each path is a trace from the beginning, and a selection of two equal values is that value. Updates do not write in
place.
"""

import torch

from ..tracing.draws import is_random
from ..tracing.origins import UPDATE

_WHERE = torch.ops.aten.where.self


def join(module):
    """Of a first trace; nodes that stand for no result any more stay, and are not lowered."""
    known, is_update = {}, False
    for node in list(module.graph.nodes):
        is_update = is_update or getattr(node.meta.get("tandem"), "phase", None) == UPDATE
        if not is_update:
            continue
        if node.target is _WHERE and node.args[1] is node.args[2]:
            node.replace_all_uses_with(node.args[1])
            continue
        key = _key(module, node)
        same = known.setdefault(key, node) if key is not None else node
        if same is not node:
            node.replace_all_uses_with(same)


def _key(module, node):
    """The same for nodes that give the same; None for what may not."""
    if node.op == "get_attr":
        value = getattr(module, node.target, None)
        scalar = isinstance(value, torch.Tensor) and not value.dim()
        return ("constant", value.dtype, repr(value.item())) if scalar else None
    operator = node.target
    if node.op != "call_function" or not isinstance(operator, torch._ops.OpOverload):
        return None
    if operator._schema.is_mutable or is_random(operator):
        return None
    return operator, repr(node.args), repr(node.kwargs)
