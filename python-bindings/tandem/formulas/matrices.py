"""Functions of small matrices: determinants, solutions, products of reflections, exponentials.

PyTorch has no formulas for them. During capture they replace PyTorch's functions (definitions.py).
"""

import torch

from ..tracing.reads import require
from .elimination import eliminate, limited, sign_of, solve_by
from .reflections import multiplied

MOST_ROTATED = 64  # columns of a matrix whose singular values or eigenvalues are asked for


def _no(operator):
    """What an error names: the operator of PyTorch's."""
    return getattr(torch.ops.aten, operator).default


def _unit(matrix):
    return torch.eye(matrix.shape[-1], dtype=matrix.dtype).expand(matrix.shape)


def _pivots(factors):
    """Their product is the determinant but for `sign_of` their order."""
    return factors[2].diagonal(dim1=-2, dim2=-1)


class _LogDeterminant(torch.autograd.Function):
    """(sign, logarithm of the size) of the determinant; its gradient is the inverse, transposed."""

    @staticmethod
    def forward(ctx, matrix):
        factors = eliminate(matrix)
        pivots = _pivots(factors)
        ctx.save_for_backward(matrix, *factors)
        sign = pivots.sign().prod(-1) * sign_of(factors[0])
        ctx.mark_non_differentiable(sign)
        return sign, pivots.abs().log().sum(-1)

    @staticmethod
    def backward(ctx, _, grad):
        matrix, *factors = ctx.saved_tensors
        if torch.is_grad_enabled():  # of which gradients may be asked for
            inverse = _Solution.apply(matrix, _unit(matrix))
        else:
            inverse = solve_by(factors, _unit(matrix))
        return grad[..., None, None] * inverse.transpose(-1, -2)


def slogdet(A):  # noqa: N803 - PyTorch's name
    limited(_no("linalg_slogdet"), A.shape[-1])
    return torch.return_types.linalg_slogdet(_LogDeterminant.apply(A))


def logdet(A):  # noqa: N803
    sign, size = slogdet(A)
    return torch.where(sign < 0, torch.nan, size)


class _Determinant(torch.autograd.Function):
    """Its gradient is it times the inverse, transposed."""

    @staticmethod
    def forward(ctx, matrix):
        factors = eliminate(matrix)
        determinant = _pivots(factors).prod(-1) * sign_of(factors[0])
        ctx.save_for_backward(matrix, determinant)
        return determinant

    @staticmethod
    def backward(ctx, grad):
        matrix, determinant = ctx.saved_tensors
        unit = _unit(matrix)
        is_regular = (determinant != 0)[..., None, None]
        inverse = _Solution.apply(torch.where(is_regular, matrix, unit), unit)
        scaled = (grad * determinant)[..., None, None] * inverse.transpose(-1, -2)
        return torch.where(is_regular, scaled, 0.0)


def det(A):  # noqa: N803
    """Where it is 0, so is its gradient, as in PyTorch."""
    limited(_no("linalg_det"), A.shape[-1])
    return _Determinant.apply(A)


class _Solution(torch.autograd.Function):
    @staticmethod
    def forward(ctx, matrix, right):
        factors = eliminate(matrix)
        pivots = _pivots(factors)
        require("a pivot", pivots, pivots != 0, "none that is 0: the matrix has no inverse")
        solution = solve_by(factors, right)
        ctx.save_for_backward(matrix, solution, *factors)
        return solution

    @staticmethod
    def backward(ctx, grad):
        matrix, solution, *factors = ctx.saved_tensors
        if torch.is_grad_enabled():
            of_right = _Solution.apply(matrix.transpose(-1, -2), grad)
        else:
            of_right = solve_by(factors, grad, adjoint=True)
        return -of_right @ solution.transpose(-1, -2), of_right


def solve(A, B, *, left=True):  # noqa: N803
    """`torch.linalg.solve`: of a vector, or a batch of them, where the right side has a dimension less."""
    limited(_no("linalg_solve_ex"), A.shape[-1])
    is_vector = B.dim() == 1 or (A.dim() - 1 == B.dim() and B.shape == A.shape[:-1])
    right = B[..., None] if is_vector else B
    if not left:
        A, right = A.transpose(-1, -2), right if is_vector else right.transpose(-1, -2)
    batch = torch.broadcast_shapes(A.shape[:-2], right.shape[:-2])
    A, right = A.expand(*batch, *A.shape[-2:]), right.expand(*batch, *right.shape[-2:])
    solution = _Solution.apply(A, right)
    if is_vector:
        return solution.squeeze(-1)
    return solution if left else solution.transpose(-1, -2)


def solve_ex(A, B, *, left=True, check_errors=False):  # noqa: N803
    return torch.return_types.linalg_solve_ex(
        (solve(A, B, left=left), torch.zeros(A.shape[:-2], dtype=torch.int32))
    )


def tensorsolve(A, B, dims=None):  # noqa: N803
    """The dimensions `dims` of A, by default none, go to its end."""
    if dims is not None:
        kept = [d for d in range(A.dim()) if d not in {dim % A.dim() for dim in dims}]
        A = A.permute(*kept, *(dim % A.dim() for dim in dims))
    shape = A.shape[B.dim() :]
    return solve(A.reshape(B.numel(), -1), B.reshape(-1)).reshape(shape)


# Of `torch.linalg.lstsq`: what each driver gives beside the solution, and whether it finds solutions of matrices of any rank.
_DRIVERS = {
    "gels": (),
    "gelsy": ("rank",),
    "gelsd": ("rank", "values"),
    "gelss": ("rank", "values"),
}


def _by_triangle(matrix, right):
    """The solution of least squares where rows or columns are independent, as many as there are of the fewer ones."""
    wide = matrix.shape[-2] < matrix.shape[-1]
    orthogonal, upper = torch.linalg.qr(matrix.mT if wide else matrix)
    sizes = upper.detach().diagonal(dim1=-2, dim2=-1).abs()
    if sizes.shape[-1]:
        limit = torch.finfo(matrix.dtype).eps * max(matrix.shape[-2:])
        share = sizes.amin(-1) / sizes.amax(-1)
        require(
            "the smallest pivot of lstsq beside the largest",
            share,
            share > limit,
            f"above {limit:.1e}",
        )
    if wide:
        return orthogonal @ torch.linalg.solve_triangular(upper.mT, right, upper=False)
    return torch.linalg.solve_triangular(upper, orthogonal.mT @ right, upper=True)


def _residuals(matrix, right, solution, rank):
    """Squares of what is left, per column; of a matrix of lower rank eager has none, which nobody knows before the step: NaN."""
    if matrix.shape[-2] <= matrix.shape[-1]:
        return matrix.new_zeros((0,))
    left = (matrix @ solution - right).square().sum(-2)
    return (
        left
        if rank is None
        else torch.where((rank == matrix.shape[-1])[..., None], left, torch.nan)
    )


def lstsq(A, B, rcond=None, *, driver=None):  # noqa: N803
    """`torch.linalg.lstsq`: by singular values, or, without ranks to tell or of large matrices, by a triangle, whose rank is full."""
    driver = driver or "gelsy"
    if driver not in _DRIVERS:
        raise RuntimeError(f"found the driver {driver!r}, expected one of {', '.join(_DRIVERS)}")
    is_vector = A.dim() - 1 == B.dim() and B.shape == A.shape[:-1]
    right = B[..., None] if is_vector else B
    smaller, rank, values = min(A.shape[-2:]), None, A.new_zeros((0,))
    if driver == "gels" or smaller > MOST_ROTATED:
        solution = _by_triangle(A, right)
        rank = None if driver == "gels" else torch.full(A.shape[:-2], smaller)
    else:
        limit = torch.finfo(A.dtype).eps * max(A.shape[-2:]) if rcond is None else rcond
        values = torch.linalg.svdvals(A.detach())
        largest = values.amax(-1, keepdim=True) if smaller else values
        rank = (values > limit * largest).sum(-1)
        solution = torch.linalg.pinv(A, rtol=limit) @ right
    residuals = A.new_zeros((0,)) if driver == "gelsy" else _residuals(A, right, solution, rank)
    kept = _DRIVERS[driver]
    return torch.return_types.linalg_lstsq(
        (
            solution.squeeze(-1) if is_vector else solution,
            residuals,
            rank if "rank" in kept else torch.zeros(0, dtype=torch.int64),
            values if "values" in kept else A.new_zeros((0,)),
        )
    )


def householder_product(input, tau):  # noqa: A002
    """The first columns of H_1 H_2 ... H_k, where H_i = I - tau_i v_i v_i^T and v_i is column i from 1 on its diagonal."""
    limited(_no("linalg_householder_product"), tau.shape[-1])
    unit = torch.eye(*input.shape[-2:], dtype=input.dtype)
    return multiplied(input, tau, unit.expand(input.shape))


_TERMS = (
    18  # of the series, for matrices of norm 1/2 at most: 2^-18 / 18! is below float64's rounding
)
_SQUARES = 24  # at most


def matrix_exp(A):  # noqa: N803
    """By its series for A / 2^s, squared s times. `s` follows from the norm, which is data: each square is taken where it is
    due. Beyond norms of 2^23 the result is not a number.
    """
    limited(_no("linalg_matrix_exp"), A.shape[-1])
    norm = A.detach().abs().sum(-1).amax(-1)
    due = (norm.clamp(min=0.5).log2() + 1).ceil()[..., None, None]
    scaled = A * torch.exp2(-due)
    unit = torch.eye(A.shape[-1], dtype=A.dtype).expand(A.shape)
    total = unit
    for k in reversed(range(1, _TERMS)):
        total = unit + scaled @ total / k
    for k in range(_SQUARES):
        total = torch.where(due > k, total @ total, total)
    return torch.where(due > _SQUARES, torch.nan, total)


DEFINITIONS = {
    **dict.fromkeys((torch.det, torch.linalg.det, torch.Tensor.det), det),
    **dict.fromkeys((torch.logdet, torch.Tensor.logdet), logdet),
    **dict.fromkeys((torch.slogdet, torch.linalg.slogdet, torch.Tensor.slogdet), slogdet),
    torch.linalg.solve: solve,
    torch.linalg.solve_ex: solve_ex,
    torch.linalg.tensorsolve: tensorsolve,
    torch.linalg.lstsq: lstsq,
    **dict.fromkeys(
        (torch.linalg.householder_product, torch.orgqr, torch.Tensor.orgqr), householder_product
    ),
    **dict.fromkeys(
        (torch.matrix_exp, torch.linalg.matrix_exp, torch.Tensor.matrix_exp), matrix_exp
    ),
}
