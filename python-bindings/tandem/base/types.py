"""Names of element types in Programs, PyTorch and safetensors."""

import numbers

import torch

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i8": torch.int8,
    "i1": torch.bool,
}
# Integers without kernels are wider ones of the same values in a Program.
WIDER = {torch.uint8: torch.int32, torch.int16: torch.int32}
SAFETENSORS = {name: name.upper() for name in DTYPES} | {"i1": "BOOL"}


def name_of(dtype):
    """The name in a Program."""
    return next(name for name, known in DTYPES.items() if known == dtype)


def widened(tensor):
    """A tensor as a Program takes it."""
    return tensor.to(WIDER[tensor.dtype]) if tensor.dtype in WIDER else tensor


def as_real(tensor):
    """A tensor as a step stores it: a complex one as a view of its pairs, with a dimension more."""
    return (
        torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor.resolve_neg()
    )


def as_complex(tensor, is_complex=True):
    """What `as_real` was made of."""
    return torch.view_as_complex(tensor) if is_complex else tensor


def is_number(value):
    """Of Python's; a truth is none."""
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, torch.Tensor))
