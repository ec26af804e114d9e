"""Tensors of PyTorch in memory of a GPU, which a session copies within it (docs/rationale/cuda.md, *Tensors of PyTorch*)."""

import torch

from ..base.types import DTYPES, name_of


def device_of(tensors):
    """The GPU that the first of them that is on one is on; None if there is none."""
    return next((tensor.device for tensor in tensors if tensor.is_cuda), None)


def stream_of(device):
    """PyTorch's present stream there, as a number; what it has comes before what the session reads."""
    return torch.cuda.current_stream(device).cuda_stream


def put(session, index, value):
    """Whether the argument has got its value from memory of the GPU that runs the Program."""
    if not value.is_cuda or not session.is_direct_argument(index):
        return False
    value = value.detach().contiguous()
    session.set_argument_directly(
        index,
        name_of(value.dtype),
        list(value.shape),
        value.data_ptr(),
        stream_of(value.device),
    )
    return True


def take(session, index, device):
    """A result as a new tensor on `device`."""
    kind = session.results[index]
    if session.is_direct_result(index):
        tensor = empty(tuple(kind.shape), DTYPES[kind.type], device)
        session.get_result_directly(
            index, kind.type, list(kind.shape), tensor.data_ptr(), stream_of(device)
        )
        return tensor
    tensor = torch.empty(tuple(kind.shape), dtype=DTYPES[kind.type])
    session.get_result(index, tensor)
    return tensor.to(device)


def empty(shape, dtype, device):
    return torch.empty(shape, dtype=dtype, device=device)
