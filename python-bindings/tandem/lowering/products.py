"""Matrix products. `import` takes merged leading dimensions apart later."""

import torch

from .records import Value
from .registry import Unsupported, lowers

# Element types that libraries multiply; float16 would need its losses scaled as well.
_TYPES = (torch.float64, torch.float32, torch.bfloat16)


@lowers("mm", "bmm")
def _mm(b, x, y, **_):
    if x.dtype not in _TYPES:
        expected = ", ".join(map(str, _TYPES))
        raise Unsupported(f"found a product of {x.dtype}, expected one of {expected}")
    return b.matmul(x, y)


def _plus_scaled(b, addend, product, beta, alpha):
    if alpha != 1:
        product = b.binary("mul", product, alpha)
    if beta == 0:
        return product
    addend = addend if beta == 1 else b.binary("mul", addend, beta)
    return b.binary("add", product, addend)


@lowers("addmm", "baddbmm")
def _addmm(b, addend, x, y, beta=1, alpha=1, **_):
    return _plus_scaled(b, addend, _mm(b, x, y), beta, alpha)


def _times_vector(b, matrix, vector):
    column = b.reshape(vector, vector.shape + (1,))
    return b.reshape(_mm(b, matrix, column), matrix.shape[:-1])


@lowers("mv")
def _mv(b, matrix, vector):
    return _times_vector(b, matrix, vector)


@lowers("addmv")
def _addmv(b, addend, matrix, vector, beta=1, alpha=1):
    return _plus_scaled(b, addend, _times_vector(b, matrix, vector), beta, alpha)


@lowers("dot", "vdot")
def _dot(b, x: Value, y: Value):
    return b.sum(b.binary("mul", x, y), [0])


@lowers("_trilinear")
def _trilinear(b, x, y, z, expand_x, expand_y, expand_z, sum_dims, unroll_dim=1):
    product = None
    for tensor, dims in ((x, expand_x), (y, expand_y), (z, expand_z)):
        shape = list(tensor.shape)
        for dim in sorted(dims):
            shape.insert(dim, 1)
        tensor = b.reshape(tensor, shape)
        product = tensor if product is None else b.binary("mul", product, tensor)
    return b.sum(product, sum_dims)


@lowers("outer", "ger")
def _outer(b, x, y):
    return b.binary("mul", b.reshape(x, x.shape + (1,)), y)
