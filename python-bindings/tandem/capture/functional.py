"""The second trace: a functional graph of operators of the `nn` dialect, without views and writes in place.

aliases.py knows the effect of each write in place, so a view equals a copy. A decomposition then depends only on the
shapes, strides and types of its operands. So each distinct call is decomposed once, all in one trace, and the result is
used wherever the call occurs: 32 equal layers cost little more than one.
"""

import contextlib
import functools
import operator as python_operator
from dataclasses import dataclass

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx._lazy_graph_module import _make_graph_module
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.fx.node import map_arg

from ..formulas import (  # noqa: F401 - their rules
    bessel_second_kind,
    complex_numbers,
    distances,
    elimination,
    exact_numbers,
    factorizations,
    gamma,
    histograms,
    incomplete_gamma,
    reflections,
    scatters,
    special_functions,
    symmetric,
)
from ..formulas.formulas import FORMULAS, has_own_memory, strided_in
from ..tracing.aliases import NotFollowed, Overwritten, gives_view
from ..tracing.origins import Origin, name_of, tag_new_nodes
from ..tracing.reads import storages_of, written_by
from ..tracing.writes import operands_written
from .empties import remove_empty


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
        with contextlib.suppress(NotFollowed):
            return _CallByCall(graph, table, kept, whereabouts).run()

    def run(*tensors):
        return _Replay(graph, whereabouts).run(*tensors)

    return _trace(run, table, fake_tensors(arguments))


def _trace(function, table, tensors):
    """In the types that are named: a mode that is on may widen those which rules ask for."""
    functional = torch.func.functionalize(function, remove="mutations_and_views")
    with torch._C.DisableTorchFunction():
        return make_fx(
            functional,
            decomposition_table=table,
            tracing_mode="fake",
            _allow_non_fake_inputs=True,
            _disable_torch_fn_metadata_mode=True,
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

# They look at the memory below their operand, which other operators may have made.
_STRIDED = ("as_strided", "as_strided_copy")
_OF_MEMORY = ("as_strided_scatter", "set_", "resize_")


def _stands_alone(node):
    """Whether what the node computes follows from its operands' shapes, strides, types and values."""
    if node.op != "call_function" or node.target is python_operator.getitem:
        return True
    if name_of(node.target) in _STRIDED:
        layout = node.args[0].meta.get("val")
        return layout is not None and has_own_memory(layout)
    return isinstance(node.target, torch._ops.OpOverload) and name_of(node.target) not in _OF_MEMORY


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


def _is_plain(operator):
    """Whether a call of it is its own functional form."""
    schema = operator._schema
    return not (schema.is_mutable or gives_view(operator) or operator._can_decompose())


def _parts(graph, node):
    """The nodes of several results."""
    values = node.meta["val"]
    parts = [graph.call_function(python_operator.getitem, (node, i)) for i in range(len(values))]
    for part, value in zip(parts, values, strict=True):
        part.meta = node.meta | {"val": value}
    return parts


@dataclass(frozen=True)
class _Operand:
    """Stands for an operand in a call's arguments."""

    index: int


@dataclass
class _Call:
    """A call with its operands taken out. `section` are the nodes that it became, `operands` what stands for its
    own in them, `result` the node or nodes of what it returns, `written` those of the operands that it writes to.
    """

    target: object
    arguments: tuple
    origin: Origin
    inputs: list
    operands: tuple = ()
    section: tuple = ()
    result: object = None
    written: tuple = ()


class _CallByCall:
    """Raises NotFollowed."""

    def __init__(self, graph, table, kept, whereabouts):
        self.graph, self.table, self.whereabouts = graph, table, whereabouts
        self.kept = functools.cache(lambda operator: _is_plain(operator) and kept(operator))
        self.followers = Overwritten(graph.graph).followers
        self.calls, self.call_of = {}, {}
        self.new = torch.fx.Graph()
        self.constants = {}

    def run(self):
        for node in self.graph.graph.nodes:
            is_call = node.op == "call_function" and node.target is not python_operator.getitem
            if is_call and not self.kept(node.target):
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

        with FakeTensorMode(allow_non_fake_inputs=True), torch._C.DisableTorchFunction():
            fakes = [
                torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cpu")
                for call in calls
                for t in call.inputs
            ]
        traced = _trace(run, self.table, fakes)
        nodes = list(traced.graph.nodes)
        placeholders = iter(node for node in nodes if node.op == "placeholder")
        for call, (result, written) in zip(calls, nodes[-1].args[0], strict=True):
            call.operands = [next(placeholders) for _ in call.inputs]
            call.result, call.written = result, written
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
        written = operands_written(call.target, args, kwargs)
        section = []
        while last.next is not graph._root:
            last = last.next
            section.append(last)
        call.section = section
        return result, written

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
        if self.kept(node.target):
            return self._copy_plain(node, made)
        result, written = self._copy_call(node, made, traced)
        for (operand, followers), value in zip(self.followers.get(node, ()), written, strict=True):
            self._write(operand, value, made)
            for follower in followers:
                self._follow(follower, made, traced)
        return result

    def _write(self, node, value, made):
        """The value of a node behind a write, from that of one with the same elements."""
        shape = list(node.meta["val"].shape)
        if list(value.meta["val"].shape) != shape:
            meta = value.meta
            value = self.new.call_function(torch.ops.aten.view_copy.default, (value, shape))
            value.meta = meta | {"val": node.meta["val"]}
        made[node] = value

    def _follow(self, follower, made, traced):
        node = follower.node
        if follower.like is not None:
            self._write(node, made[follower.like], made)
        else:
            made[node] = self._copy(node, made, traced)

    def _copy_plain(self, node, made):
        """A call that is not decomposed."""
        new = self.new.node_copy(node, made.__getitem__)
        new.meta["tandem"] = _origin(node, self.whereabouts)
        values = node.meta["val"]
        return _parts(self.new, new) if isinstance(values, (list, tuple)) else new

    def _copy_call(self, node, made, traced):
        """(its result, the new values of what it writes to)."""
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
            (call.result, call.written),
            lambda leaf: copy(leaf) if isinstance(leaf, torch.fx.Node) else leaf,
        )

    def _copy_constant(self, node, module):
        name = f"_tensor_constant{len(self.constants)}"
        self.constants[name] = getattr(module, node.target)
        new = self.new.get_attr(name)
        new.meta.update(node.meta)
        return new
