"""The table from ATen operators to functions that emit `nn` operators.

A lowering is `f(builder, *arguments)` with the ATen operator's own arguments, tensors being
`Value`s. It returns a value, or a list of values for an operator with several results (None for
those without an equivalent). It serves every overload of the operator, and its functional `_copy`
form.
"""

from ..errors import Unsupported  # noqa: F401 - for those that are registered

LOWERINGS = {}


def lowers(*names):
    def register(function):
        for name in names:
            LOWERINGS[name] = function
        return function

    return register


_NOT_VIEWS = ("_to_copy", "lift_fresh_copy", "index_copy")


def base_name(operator):
    """`aten.slice_copy.Tensor` -> `slice`."""
    name = operator._overloadpacket.__name__
    return name if name in _NOT_VIEWS else name.removesuffix("_copy")


def lowering_of(operator):
    if operator.namespace not in ("aten", "prims", "tandem"):
        return None
    return LOWERINGS.get(base_name(operator))


def normalize_dim(dim, rank):
    return dim % max(rank, 1)


def normalize_dims(dims, rank):
    """A list of dimensions, a single one, or None or [] for all of them."""
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return tuple(range(rank))
    dims = dims if isinstance(dims, (list, tuple)) else [dims]
    return tuple(sorted({normalize_dim(dim, rank) for dim in dims if rank}))
