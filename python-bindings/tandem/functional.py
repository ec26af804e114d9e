"""The traced step without views and writes in place, and of operators that the `nn` dialect has: the second trace.

Where nothing is written in place, a view is as good as a copy, and an operator's decomposition depends on the shapes,
strides and types of its operands alone. So only the different calls of the graph are traced, all at once, and
what each became stands wherever it is made: 32 equal layers cost little more than one.
"""

import operator as python_operator
from dataclasses import dataclass

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx._lazy_graph_module import _make_graph_module
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.fx.node import map_arg

from . import (  # noqa: F401 - their rules
    complex_numbers,
    distances,
    factorizations,
    gamma,
    losses,
    scatters,
    special_functions,
)
from .builder import name_of
from .empties import remove_empty
from .formulas import FORMULAS, has_own_memory, strided_in
from .origins import Origin, tag_new_nodes
from .reads import storages_of, written_by


def without_rules(kept):
    """PyTorch's decompositions but of the operators for which `kept` holds, and formulas.py's."""
    rules = {
        operator: rule
        for operator, rule in decomposition_table.items()
        if not (isinstance(operator, torch._ops.OpOverload) and kept(operator))
    }
    return rules | FORMULAS


def fake_tensors(tensors):
    """Contiguous ones of these shapes and types, without memory."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        return [torch.empty(t.shape, dtype=t.dtype, device="cpu") for t in tensors]


def make_functional(graph, arguments, kept, whereabouts):
    """The graph again. `kept(operator)` says what is not decomposed; `whereabouts` follows the nodes."""
    table = without_rules(kept)
    remove_empty(graph)
    if all(map(_stands_alone, graph.graph.nodes)) and not _complex(graph):
        return _CallByCall(graph, table, whereabouts).run()

    def run(*tensors):
        return _Replay(graph, whereabouts).run(*tensors)

    return _trace(run, table, fake_tensors(arguments))


def _trace(function, table, tensors):
    functional = torch.func.functionalize(function, remove="mutations_and_views")
    return make_fx(
        functional, decomposition_table=table, tracing_mode="fake", _allow_non_fake_inputs=True
    )(*tensors)


# ---- The whole graph again


class _Replay(torch.fx.Interpreter):
    """Runs the first graph under the second tracer; new nodes inherit the origins of old ones."""

    def __init__(self, graph, whereabouts):
        super().__init__(graph)
        self.whereabouts, self.constants = whereabouts, complex_numbers.constants_of(graph)
        self.place = {node: place for place, node in enumerate(graph.graph.nodes)}
        self.last_write = {s: self.place[n] for n in graph.graph.nodes for s in written_by(n)}

    def get_attr(self, target, args, kwargs):
        pair = self.constants.get(target)
        if pair is not None:
            return pair
        value = super().get_attr(target, args, kwargs)
        # What comes of it may be written to, as if the step had made it.
        is_tensor = isinstance(value, torch.Tensor)
        return torch.ops.aten.lift_fresh.default(value) if is_tensor else value

    def run_node(self, node):
        origin = _origin(node, self.whereabouts)
        if self._is_strided(node):
            result = self._strided(node)
        elif self._is_complex(node):
            args, kwargs = self.fetch_args_kwargs_from_env(node)
            result = complex_numbers.call(node.target, args, kwargs, node.meta["val"])
        else:
            result = super().run_node(node)
        if node.op != "output":
            tag_new_nodes(get_proxy_mode().tracer.graph, origin)
        return result

    def _is_complex(self, node):
        if node.op != "call_function" or node.target is python_operator.getitem:
            return False
        return complex_numbers.is_complex_call(node.target, self.fetch_args_kwargs_from_env(node))

    @staticmethod
    def _is_strided(node):
        """Whether the node looks at memory in which its operand does not lie as here: a transposed view has no strides here."""
        return name_of(node.target) in _STRIDED and not has_own_memory(node.args[0].meta["val"])

    def _strided(self, node):
        layout = node.args[0].meta["val"]
        if any(self.last_write.get(s, -1) > self.place[node] for s in storages_of(layout)):
            error = NotImplementedError(
                f"found strides {tuple(layout.stride())} below it, and a later write to it, expected a contiguous tensor"
            )
            error.func = node.target
            raise error
        (x, *others), kwargs = self.fetch_args_kwargs_from_env(node)
        return strided_in(x, layout, *others, **kwargs)


def _origin(node, whereabouts):
    origin = node.meta.get("tandem", Origin(location=whereabouts.location))
    whereabouts.location = origin.location
    return origin


# ---- Call by call

# They look at the memory below their operand, which other operators made.
_STRIDED = ("as_strided", "as_strided_copy")
_OF_MEMORY = (*_STRIDED, "as_strided_scatter", "set_", "resize_")


def _stands_alone(node):
    """Whether what the node computes follows from its operands' shapes, strides, types and values."""
    if node.op != "call_function" or node.target is python_operator.getitem:
        return True
    return (
        isinstance(node.target, torch._ops.OpOverload)
        and not node.target._schema.is_mutable
        and name_of(node.target) not in _OF_MEMORY
    )


def _complex(graph):
    """Whether the graph has complex numbers, or constants that are no tensors."""
    for node in graph.graph.nodes:
        value = getattr(graph, node.target, None) if node.op == "get_attr" else None
        if node.op == "get_attr" and not isinstance(value, torch.Tensor):
            return True
        values = node.meta.get("val", value)
        for tensor in values if isinstance(values, (list, tuple)) else [values]:
            if isinstance(tensor, torch.Tensor) and tensor.is_complex():
                return True
        if node.op == "call_function" and complex_numbers.is_complex_call(
            node.target, (node.args, node.kwargs)
        ):
            return True
    return False


@dataclass(frozen=True)
class _Operand:
    """Stands for an operand in a call's arguments."""

    index: int


@dataclass
class _Call:
    """A call with its operands taken out. `section` are the nodes that it became, `operands` what stands for its
    own in them, `result` the node or nodes of what it returns.
    """

    target: object
    arguments: tuple
    origin: Origin
    inputs: list
    operands: tuple = ()
    section: tuple = ()
    result: object = None


class _CallByCall:
    def __init__(self, graph, table, whereabouts):
        self.graph, self.table, self.whereabouts = graph, table, whereabouts
        self.calls, self.call_of = {}, {}
        self.new = torch.fx.Graph()
        self.constants = {}

    def run(self):
        for node in self.graph.graph.nodes:
            if node.op == "call_function" and node.target is not python_operator.getitem:
                self.call_of[node] = self._find_call(node)
        traced = self._trace_calls()
        made = {}
        for node in self.graph.graph.nodes:
            made[node] = self._copy(node, made, traced)
        return _make_graph_module(self.constants, self.new)

    def _find_call(self, node):
        place = {operand: _Operand(i) for i, operand in enumerate(node.all_input_nodes)}
        arguments = map_arg((node.args, node.kwargs), place.__getitem__)
        inputs = [self._tensor(operand) for operand in place]
        kinds = tuple((tuple(t.shape), t.stride(), t.dtype) for t in inputs)
        origin = _origin(node, self.whereabouts)
        call = _Call(node.target, arguments, origin, inputs)
        return self.calls.setdefault((node.target, repr(arguments), kinds), call)

    def _tensor(self, node):
        return getattr(self.graph, node.target) if node.op == "get_attr" else node.meta["val"]

    def _trace_calls(self):
        """Traces each different call once, on operands of its own."""
        calls = list(self.calls.values())

        def run(*tensors):
            tensors = iter(tensors)
            return [self._run_call(call, [next(tensors) for _ in call.inputs]) for call in calls]

        # In their types, which a mode that is on may widen where they are asked for by name.
        with FakeTensorMode(allow_non_fake_inputs=True), torch._C.DisableTorchFunction():
            fakes = [
                torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cpu")
                for call in calls
                for t in call.inputs
            ]
        traced = _trace(run, self.table, fakes)
        nodes = list(traced.graph.nodes)
        placeholders = iter(node for node in nodes if node.op == "placeholder")
        for call, result in zip(calls, nodes[-1].args[0], strict=True):
            call.operands = [next(placeholders) for _ in call.inputs]
            call.result = result
        return traced

    def _run_call(self, call, operands):
        self.whereabouts.location = call.origin.location
        args, kwargs = torch.fx.node.map_aggregate(
            call.arguments,
            lambda leaf: operands[leaf.index] if isinstance(leaf, _Operand) else leaf,
        )
        graph = get_proxy_mode().tracer.graph
        last = graph._root.prev
        result = call.target(*args, **kwargs)
        section = []
        while last.next is not graph._root:
            last = last.next
            section.append(last)
        call.section = section
        return result

    def _copy(self, node, made, traced):
        """What stands for a node in the new graph: a node, or a list of them for several results."""
        if node.op == "placeholder":
            return self.new.node_copy(node)
        if node.op == "get_attr":
            return self._copy_constant(node, self.graph)
        if node.op == "output":
            return self.new.output(map_arg(node.args[0], made.__getitem__))
        if node.target is python_operator.getitem:
            return made[node.args[0]][node.args[1]]
        return self._copy_call(node, made, traced)

    def _copy_call(self, node, made, traced):
        call, origin = self.call_of[node], _origin(node, self.whereabouts)
        operands = [made[operand] for operand in node.all_input_nodes]
        stands_for = dict(zip(call.operands, operands, strict=True))

        def copy(old):
            # A constant that an earlier call of the trace had as well stands there only.
            if old not in stands_for:
                is_constant = old.op == "get_attr"
                new = (
                    self._copy_constant(old, traced)
                    if is_constant
                    else self.new.node_copy(old, copy)
                )
                new.meta["tandem"] = origin
                stands_for[old] = new
            return stands_for[old]

        for old in call.section:
            copy(old)
        return torch.fx.node.map_aggregate(
            call.result, lambda leaf: copy(leaf) if isinstance(leaf, torch.fx.Node) else leaf
        )

    def _copy_constant(self, node, module):
        name = f"_tensor_constant{len(self.constants)}"
        self.constants[name] = getattr(module, node.target)
        new = self.new.get_attr(name)
        new.meta.update(node.meta)
        return new
