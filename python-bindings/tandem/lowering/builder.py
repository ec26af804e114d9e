"""Builder of `nn` operators.

It gives operators right shapes and element types, folds trivial operators, and gives equal operators one value. The
dialect's verifier does the checks.
"""

import torch

from ..errors import Unsupported
from ..tracing.origins import name_of
from .records import Operator, TensorType, Value

# What operators give of no elements: sums, and others by name and whether they are of booleans.
_SUMS = frozenset(
    """
    conv conv_input_grad conv_weight_grad embedding_backward layer_norm_backward matmul pad scatter_add sum
    """.split()  # noqa: SIM905 - a list of words is easier to read
)
_NEUTRAL = {("prod", False): 1, ("prod", True): True, ("max", True): False, ("min", True): True}
# Operators that move no element.
_VIEWS = frozenset({"expand", "permute", "reshape"})


def broadcast_shape(*shapes):
    if len(set(shapes)) == 1:
        return tuple(shapes[0])
    return tuple(torch.broadcast_shapes(*shapes))


class Builder:
    """Appends operators to `operators`. The lowering sets `phase`, `location` and the facts of the
    ATen node at hand: `operator` (its overload), `out` (its result type, or a list of them),
    `ordinal`, `region` (the number of the run that makes it again)."""

    def __init__(self):
        self.operators = []
        self.phase, self.location, self.region = "forward", None, None
        self.operator, self.out, self.ordinal = None, None, None
        self.seed, self.step = None, None
        self._known = {}
        # Values that all passes share: what depends on no argument, and views of arguments.
        self._sources, self._views = set(), set()

    def emit(self, name, operands, types, **attributes):
        """One operator; returns its value, or the list of its values if `types` is a list. Tensors without elements are
        values that no operator makes or reads.
        """
        many = isinstance(types, list)
        types = types if many else [types]
        if any(0 in each.shape for each in (*types, *operands)):
            results = self._of_nothing(name, operands, types, attributes)
            return results if many else results[0]
        shared = self._shared(name, operands)
        region = self.region if shared is None else None
        key = (region, *self._key(name, operands, types, attributes))
        if key not in self._known:
            operator = Operator(name, list(operands), attributes, self.phase, self.location)
            operator.source, operator.region = name_of(self.operator), region
            operator.results = [Value(type, operator, i) for i, type in enumerate(types)]
            if shared is not None:
                shared.update(map(id, operator.results))
            self.operators.append(operator)
            self._known[key] = operator.results
        results = self._known[key]
        return list(results) if many else results[0]

    def _shared(self, name, operands):
        """The set of shared values that the results belong to, or None."""
        if all(id(operand) in self._sources for operand in operands):
            return self._sources
        is_view = name in _VIEWS and (operands[0].owner is None or id(operands[0]) in self._views)
        return self._views if is_view else None

    def _of_nothing(self, name, operands, types, attributes):
        """The results of an operator that gives or reads tensors without elements."""
        if all(0 in each.shape for each in types):
            return [Value(each) for each in types]
        if name == "cat":
            return [self.cat([x for x in operands if 0 not in x.shape], attributes["dim"])]
        neutral = 0 if name in _SUMS else _NEUTRAL.get((name, types[0].dtype == torch.bool))
        if neutral is None:
            raise Unsupported(f"found no elements, of which there is no {name}, expected some")
        return [self.full(each.shape, neutral, each.dtype) for each in types]

    @staticmethod
    def _key(name, operands, types, attributes):
        def plain(value):
            if isinstance(value, torch.Tensor):
                return (str(value.dtype), tuple(value.shape), _bytes(value))
            return (type(value).__name__, repr(value))

        values = tuple(sorted((key, plain(value)) for key, value in attributes.items()))
        return name, tuple(id(operand) for operand in operands), tuple(types), values

    # Constants and positions

    def constant(self, value, dtype):
        """A rank-0 constant."""
        tensor = torch.tensor(value, dtype=dtype)
        return self.emit("constant", [], TensorType((), dtype), value=tensor)

    def tensor(self, tensor):
        """A constant tensor of any rank."""
        tensor = tensor.detach().cpu().contiguous()
        return self.emit(
            "constant", [], TensorType(tuple(tensor.shape), tensor.dtype), value=tensor
        )

    def full(self, shape, value, dtype):
        return self.expand(self.constant(value, dtype), shape)

    def iota(self, shape, dim):
        """Positions along `dim`, shaped to broadcast against `shape`."""
        positions = self.emit("iota", [], TensorType((shape[dim],), torch.int64))
        return self.reshape(positions, (1,) * dim + (shape[dim],) + (1,) * (len(shape) - dim - 1))

    def linear_index(self, shape):
        """The linear index of every element of a tensor of `shape`."""
        if not shape:
            return self.constant(0, torch.int64)
        total, stride = None, 1
        for dim in reversed(range(len(shape))):
            term = self.iota(shape, dim)
            term = (
                self.binary("mul", term, self.constant(stride, torch.int64))
                if stride != 1
                else term
            )
            total = term if total is None else self.binary("add", term, total)
            stride *= shape[dim]
        return self.expand(total, shape)

    # Elementwise operators

    def as_value(self, operand, dtype):
        """A value of element type `dtype` from a value or a Python number."""
        if isinstance(operand, Value):
            return self.convert(operand, dtype)
        return self.constant(operand, dtype)

    def elementwise(self, name, operands, dtype, **attributes):
        """Broadcasts; operands must have the element types that the operator wants."""
        shape = broadcast_shape(*(operand.shape for operand in operands))
        return self.emit(name, self._peel(operands, shape), TensorType(shape, dtype), **attributes)

    def _peel(self, operands, shape):
        """Takes operands without their expansion where the others still give the result's shape."""
        operands = list(operands)
        for i, operand in enumerate(operands):
            if operand.owner is None or operand.owner.name != "expand":
                continue
            inner = operand.owner.operands[0]
            others = [other.shape for j, other in enumerate(operands) if j != i]
            if others and broadcast_shape(inner.shape, *others) == shape:
                operands[i] = inner
        return operands

    def unary(self, name, x, dtype=None, **attributes):
        return self.elementwise(name, [x], dtype or x.dtype, **attributes)

    def binary(self, name, x, y, dtype=None, **attributes):
        """`x` and `y` are values or numbers; numbers take the element type of the other one."""
        dtype = dtype or (x if isinstance(x, Value) else y).dtype
        return self.elementwise(
            name, [self.as_value(x, dtype), self.as_value(y, dtype)], dtype, **attributes
        )

    def compare(self, predicate, x, y):
        """Of equal element types, or with a number."""
        dtype = (x if isinstance(x, Value) else y).dtype
        operands = [self.as_value(x, dtype), self.as_value(y, dtype)]
        return self.elementwise("compare", operands, torch.bool, predicate=predicate)

    def select(self, condition, x, y, dtype):
        return self.elementwise(
            "select", [condition, self.as_value(x, dtype), self.as_value(y, dtype)], dtype
        )

    def convert(self, x, dtype):
        if x.dtype == dtype:
            return x
        if x.owner is not None and x.owner.name == "constant":
            return self.tensor(x.owner.attributes["value"].to(dtype))
        if x.owner is not None and x.owner.name == "expand":
            return self.expand(self.convert(x.owner.operands[0], dtype), x.shape)
        return self.unary("convert", x, dtype)

    # Shapes

    def reshape(self, x, shape):
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if x.owner is not None and x.owner.name == "reshape":
            return self.reshape(x.owner.operands[0], shape)
        if self.splat(x) is not None:
            return self.expand(self.splat(x), shape)
        return self._reduced_to(x, shape) or self.emit("reshape", [x], TensorType(shape, x.dtype))

    def _reduced_to(self, x, shape):
        """A reduction that kept its dimensions only to lose them now."""
        owner = x.owner
        if (
            owner is None
            or owner.name not in ("sum", "max", "min", "prod")
            or not owner.attributes["keepdim"]
        ):
            return None
        dims, source = owner.attributes["dims"], owner.operands[0]
        dropped = tuple(size for dim, size in enumerate(source.shape) if dim not in dims)
        return self.reduce(owner.name, source, dims) if dropped == shape else None

    def permute(self, x, permutation):
        permutation = tuple(permutation)
        if permutation == tuple(range(len(x.shape))):
            return x
        shape = tuple(x.shape[dim] for dim in permutation)
        if x.owner is not None and x.owner.name == "permute":
            inner = x.owner.attributes["permutation"]
            return self.permute(x.owner.operands[0], [inner[dim] for dim in permutation])
        if self.splat(x) is not None:
            return self.expand(self.splat(x), shape)
        return self.emit("permute", [x], TensorType(shape, x.dtype), permutation=permutation)

    def move_dim(self, x, source, target):
        order = [dim for dim in range(len(x.shape)) if dim != source]
        order.insert(target, source)
        return self.permute(x, order)

    def expand(self, x, shape):
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if x.owner is not None and x.owner.name == "expand":
            return self.expand(x.owner.operands[0], shape)
        return self.emit("expand", [x], TensorType(shape, x.dtype))

    def splat(self, x):
        """The rank-0 value of which `x` is an expansion, or None."""
        if not x.shape:
            return x
        if x.owner is not None and x.owner.name == "expand" and not x.owner.operands[0].shape:
            return x.owner.operands[0]
        return None

    def splat_number(self, x):
        """The Python number that every element of `x` is, or None if that is not known."""
        scalar = self.splat(x)
        if scalar is not None and scalar.owner is not None and scalar.owner.name == "constant":
            return scalar.owner.attributes["value"].item()
        return None

    def slice(self, x, dim, start, stop, step=1):
        size = len(range(start, stop, step))
        if size == x.shape[dim]:
            return x
        shape = x.shape[:dim] + (size,) + x.shape[dim + 1 :]
        if self.splat(x) is not None:
            return self.expand(self.splat(x), shape)
        return self.emit(
            "slice", [x], TensorType(shape, x.dtype), dim=dim, start=start, stop=stop, step=step
        )

    def pad(self, x, dim, low, high, step=1):
        """Zeros before, after and, with `step` > 1, between the elements."""
        if not (low or high) and (step == 1 or x.shape[dim] == 1):
            return x
        size = low + high + max((x.shape[dim] - 1) * step + 1, 0)
        shape = x.shape[:dim] + (size,) + x.shape[dim + 1 :]
        return self.emit(
            "pad", [x], TensorType(shape, x.dtype), dim=dim, low=low, high=high, step=step
        )

    def cat(self, tensors, dim):
        if len(tensors) == 1:
            return tensors[0]
        first = tensors[0]
        size = sum(tensor.shape[dim] for tensor in tensors)
        shape = first.shape[:dim] + (size,) + first.shape[dim + 1 :]
        return self.emit("cat", tensors, TensorType(shape, first.dtype), dim=dim)

    # Reductions and products

    def reduce(self, name, x, dims, keepdim=False):
        """`dims` are not negative."""
        dims = tuple(sorted(dims))
        if not dims:
            return x
        kept = [1 if dim in dims else size for dim, size in enumerate(x.shape)]
        shape = (
            tuple(kept) if keepdim else tuple(s for dim, s in enumerate(x.shape) if dim not in dims)
        )
        return self.emit(name, [x], TensorType(shape, x.dtype), dims=dims, keepdim=keepdim)

    def sum(self, x, dims, keepdim=False):
        return self.reduce("sum", x, dims, keepdim)

    def argmax(self, x, dim, keepdim):
        shape = tuple(1 if d == dim else s for d, s in enumerate(x.shape) if keepdim or d != dim)
        return self.emit("argmax", [x], TensorType(shape, torch.int64), dim=dim, keepdim=keepdim)

    def matmul(self, x, y):
        shape = x.shape[:-1] + y.shape[-1:]
        return self.emit("matmul", [x, y], TensorType(shape, x.dtype))

    def embedding(self, weight, indices):
        shape = indices.shape + weight.shape[1:]
        return self.emit("embedding", [weight, indices], TensorType(shape, weight.dtype))

    def embedding_backward(self, gradient, indices, rows):
        shape = (rows,) + gradient.shape[len(indices.shape) :]
        return self.emit(
            "embedding_backward", [gradient, indices], TensorType(shape, gradient.dtype)
        )

    def gather(self, x, index, dim):
        return self.emit("gather", [x, index], TensorType(index.shape, x.dtype), dim=dim)

    def scatter_add(self, source, index, dim, size):
        """Adds `source` into zeros; the result has `size` elements on `dim`."""
        shape = source.shape[:dim] + (size,) + source.shape[dim + 1 :]
        return self.emit("scatter_add", [source, index], TensorType(shape, source.dtype), dim=dim)


def _bytes(tensor):
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
