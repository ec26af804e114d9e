"""Lowering of the FX graph of a step to `nn` operators: a function per ATen operator, a file per kind."""

import functools
import inspect
import operator as python_operator
from dataclasses import replace

import torch

from ..base import progress
from ..base.types import WIDER, widened
from ..errors import CaptureError, UnsupportedOperatorError
from ..formulas.formulas import FORMULAS
from ..tracing.draws import is_random
from ..tracing.locations import UNKNOWN
from ..tracing.origins import Origin
from . import (  # noqa: F401
    attention,
    convolutions,
    elementwise,
    indexing,
    pooling,
    products,
    randoms,
    reductions,
    shapes,
)
from .bands import find_bands
from .builder import Builder
from .records import ELEMENT_TYPES, Step, TensorType, Value
from .registry import LOWERINGS, Unsupported, base_name, lowering_of
from .text import is_one_value

__all__ = ["LOWERINGS", "is_kept", "lower"]


def is_kept(operator):
    """Whether an operator is not decomposed by PyTorch's rules, as it has a lowering, and no formula beside."""
    return operator not in FORMULAS and lowering_of(operator) is not None


class _Lowering:
    def __init__(self, trace, graph):
        self.trace, self.graph = trace, graph
        self.builder = Builder()
        self.values = {}
        self.origin = Origin()

    def run(self):
        parameters = self._define_arguments()
        needed = _needed_for([self.graph.graph.output_node()])
        for node in self.graph.graph.nodes:
            if node not in needed:
                continue
            if node.op == "get_attr":
                self._at(node)
                self.values[node] = self._constant(node)
            elif node.op == "call_function":
                self.values[node] = self._call(node)
            elif node.op == "output":
                outputs = [self.values[result] for result in node.args[0]]
        results = [replace(result) for result in self.trace.results]
        step = Step(self.trace.arguments, parameters, self.builder.operators, results, outputs)
        step.remove_dead()
        return _empty_last(_without_unused_states(_without_unchanged(step)))

    def _define_arguments(self):
        nodes = [node for node in self.graph.graph.nodes if node.op == "placeholder"]
        for node, argument in zip(nodes, self.trace.arguments, strict=True):
            try:
                value = self.values[node] = Value(_type(argument))
            except Unsupported as error:
                raise CaptureError(f"{argument.role} {argument.name!r}: {error}") from error
            if argument.role in ("seed", "step"):
                setattr(self.builder, argument.role, value)
        return [self.values[node] for node in nodes]

    def _at(self, node):
        """Tells the builder where it is."""
        origin = node.meta.get("tandem", Origin())
        if origin.location == UNKNOWN:
            # A node that no line made, such as a decomposition's constant, belongs to what is before it.
            origin = replace(origin, location=self.origin.location)
        self.origin = origin
        self.builder.phase, self.builder.location = self.origin.phase, self.origin.location
        self.builder.ordinal, self.builder.operator = self.origin.ordinal, node.target
        self.builder.region = self.origin.region

    def _constant(self, node):
        tensor = self.graph
        for part in node.target.split("."):
            tensor = getattr(tensor, part)
        if not isinstance(tensor, torch.Tensor):
            raise CaptureError(
                f"{self.origin.location}: found a constant {type(tensor).__name__}, expected tensors"
                " only; random numbers follow the step's own seed, not a generator's"
            )
        if isinstance(tensor, torch._subclasses.FakeTensor) or tensor.is_meta:
            raise CaptureError(
                f"{self.origin.location}: a tensor of shape {tuple(tensor.shape)} that is"
                f" neither parameter, buffer"
                " nor input has no values; register it as a buffer"
            )
        return self._of_tensor(tensor)

    def _of_tensor(self, tensor):
        tensor = widened(tensor)
        if tensor.dim() and is_one_value(tensor):
            return self.builder.expand(self.builder.tensor(tensor.reshape(-1)[0]), tensor.shape)
        return self.builder.tensor(tensor)

    def _call(self, node):
        if node.target is python_operator.getitem:
            return self.values[node.args[0]][node.args[1]]
        self._at(node)
        lowering = (
            lowering_of(node.target) if isinstance(node.target, torch._ops.OpOverload) else None
        )
        if is_random(node.target) and self.origin.ordinal is None:
            raise CaptureError(
                f"{self.origin.location}: a layer or parameter is made in the step, with random values that no optimizer"
                " trains; expected it to be made before, in the model's __init__"
            )
        if lowering is None:
            return self._fold(node, "")
        try:
            self.builder.out = _types_of(node.meta["val"])
            result = _apply(
                lowering, self.builder, self._plain(node.args), self._plain(node.kwargs)
            )
        except Unsupported as error:
            return self._fold(node, str(error), error)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            given = ", ".join(
                str(self.values[n].type) for n in node.all_input_nodes if self._is_one(n)
            )
            raise self._unsupported(node, f"of {given}, in this way") from error
        self._check(node, result)
        return self._wrapped(node, result)

    def _fold(self, node, reason, cause=None):
        """What PyTorch makes of constants alone, in the place of an operator that has no equivalent."""
        behind = _needed_for([node])
        if any(n.op == "placeholder" or is_random(n.target) for n in behind):
            raise self._unsupported(node, reason) from cause
        known = {}
        with torch.no_grad():
            for n in filter(behind.__contains__, self.graph.graph.nodes):
                known[n] = self._compute(n, known)
        made = known[node]
        many = isinstance(made, (list, tuple))
        values = [None if t is None else self._of_tensor(t) for t in (made if many else [made])]
        return values if many else values[0]

    def _compute(self, node, known):
        if node.op == "get_attr":
            return functools.reduce(getattr, node.target.split("."), self.graph)
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
        return node.target(*args, **kwargs)

    def _is_one(self, node):
        return isinstance(self.values[node], Value)

    def _plain(self, tree):
        def plain(leaf):
            if isinstance(leaf, torch.fx.Node):
                return self.values[leaf]
            return WIDER.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf

        return torch.fx.node.map_aggregate(tree, plain)

    def _wrapped(self, node, result):
        """Numbers that stand for narrower ones overflow as these do."""
        if not isinstance(node.meta["val"], torch.Tensor) or base_name(node.target) in _MOVES:
            return result
        bounds = _RANGES.get(node.meta["val"].dtype)
        if bounds is None:
            return result
        (low, count), b = bounds, self.builder
        return b.binary("add", b.binary("remainder", b.binary("sub", result, low), count), low)

    def _unsupported(self, node, reason):
        name = self.origin.operator or str(node.target)
        inner = f"it needs {node.target}" if str(node.target) != name else ""
        return UnsupportedOperatorError(
            name, self.origin.location, ", ".join(filter(None, (inner, reason)))
        )

    def _check(self, node, result):
        """A lowering must give what the ATen operator gives; a mistake here would be a wrong
        number.
        """
        expected = self.builder.out
        pairs = (
            zip(result, expected, strict=False)
            if isinstance(expected, list)
            else [(result, expected)]
        )
        for value, type_ in pairs:
            if value is not None and type_ is not None and value.type != type_:
                raise CaptureError(self._explain_type(node, value.type, type_))

    def _explain_type(self, node, found, expected):
        """Fake tensors let pass what eager refuses: a product of float64 and float32."""
        types = [value.type for value in map(self.values.get, node.all_input_nodes) if value]
        if len({type_.dtype for type_ in types if type_.dtype.is_floating_point}) > 1:
            listed = ", ".join(map(str, types))
            return (
                f"{self.origin.location}: operator {node.target} is applied to {listed}, expected"
                " one floating-point type: are model and batch of the same?"
            )
        return (
            f"{self.origin.location}: lowering of {node.target} gives {found}, expected {expected}"
        )


# The ranges of integers that are wider ones within a step: lowest number, and how many.
_RANGES = {torch.uint8: (0, 2**8), torch.int16: (-(2**15), 2**16)}
# Operators whose numbers are those of their operands, which are in range.
_MOVES = frozenset(
    """
    alias cat clone constant_pad_nd detach expand flip full full_like gather index index_select ones
    ones_like permute repeat roll select slice squeeze stack t transpose tril triu unsqueeze view where
    zeros zeros_like
    """.split()  # noqa: SIM905 - a list of words is easier to read
)


def _needed_for(nodes):
    """The nodes that some follow from, and these; nothing is written in place."""
    needed, pending = set(), list(nodes)
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending.extend(node.all_input_nodes)
    return needed


_signature = functools.lru_cache(maxsize=None)(inspect.signature)


def _apply(lowering, builder, arguments, keywords):
    try:
        bound = _signature(lowering).bind(builder, *arguments, **keywords)
    except TypeError as error:
        raise Unsupported(f"this overload: {error}") from error
    if _names_dimension(bound) and _is_scalar(arguments[0]):
        return _apply_to_one(lowering, builder, arguments, keywords)
    return lowering(builder, *arguments, **keywords)


def _is_scalar(value):
    return isinstance(value, Value) and not value.shape


def _names_dimension(bound):
    names = bound.signature.parameters.keys() & {"dim", "dim0"}
    given = (bound.arguments.get(n, bound.signature.parameters[n].default) for n in names)
    return any(isinstance(dim, int) and not isinstance(dim, bool) for dim in given)


def _apply_to_one(lowering, b, arguments, keywords):
    """An operator along a dimension takes a tensor that has none for one of a single element, as PyTorch does."""

    def longer(value):
        return b.reshape(value, (1,)) if _is_scalar(value) else value

    expected = b.out if isinstance(b.out, list) else [b.out]
    ones = [out and replace(out, shape=out.shape or (1,)) for out in expected]
    b.out = ones if isinstance(b.out, list) else ones[0]
    arguments, keywords = (
        torch.fx.node.map_aggregate(tree, longer) for tree in (arguments, keywords)
    )
    result = lowering(b, *arguments, **keywords)
    many = isinstance(result, (list, tuple))
    made = [
        b.reshape(value, out.shape) if value is not None and out is not None else value
        for value, out in zip(result if many else [result], expected, strict=False)
    ]
    b.out = expected if isinstance(b.out, list) else expected[0]
    return made if many else made[0]


def _type(tensor):
    dtype = WIDER.get(tensor.dtype, tensor.dtype)
    if dtype not in ELEMENT_TYPES:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in ELEMENT_TYPES)
        raise Unsupported(f"element type {tensor.dtype}, expected one of {known}")
    return TensorType(tuple(int(size) for size in tensor.shape), dtype)


def _types_of(value):
    if isinstance(value, (list, tuple)):
        return [_type(tensor) if isinstance(tensor, torch.Tensor) else None for tensor in value]
    return _type(value)


def _without_unchanged(step):
    """Drops results that are the argument which they update, such as a buffer that is only read."""
    kept = [
        (result, value)
        for result, value in zip(step.results, step.outputs, strict=True)
        if result.updates is None or value is not step.parameters[result.updates]
    ]
    step.results, step.outputs = [list(column) for column in zip(*kept, strict=True)]
    return step


def _without_unused_states(step):
    """Drops the state of parameters that have no gradient: the optimizer never makes it. One that is only read stays."""
    used = {result.updates for result in step.results if result.updates is not None}
    read = {id(operand) for operator in step.operators for operand in operator.operands}
    read |= {id(value) for value in step.outputs}
    used |= {i for i, value in enumerate(step.parameters) if id(value) in read}
    return _keep(step, [i for i, a in enumerate(step.arguments) if a.role != "state" or i in used])


def _empty_last(step):
    """Arguments without elements behind the others: the text of a step does not have them (`print_step`)."""
    every = range(len(step.arguments))
    empty = [i for i in every if step.is_empty(i)]
    return _keep(step, [i for i in every if i not in empty] + empty)


def _keep(step, kept):
    """The arguments of these numbers."""
    place = {old: new for new, old in enumerate(kept)}
    for result in step.results:
        result.updates = place.get(result.updates)
    step.arguments = [step.arguments[i] for i in kept]
    step.parameters = [step.parameters[i] for i in kept]
    return step


def lower(trace):
    """A `Step` of `nn` operators with the meaning of the trace."""
    graph = trace.make_graph()
    progress.tell("operators")
    find_bands(graph)
    # A mode that widens the types which a model asks for would widen those of our constants as well.
    with torch._C.DisableTorchFunction():
        return _Lowering(trace, graph).run()
