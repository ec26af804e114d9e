"""Tensors in mapped files, which may shrink during a read."""

import contextlib

import torch

from .native import native


@contextlib.contextmanager
def guarded(name, tensor):
    """RunError, in place of a signal that ends the process, if what is read of the tensor meanwhile is not there any more."""
    if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.is_sparse:
        yield
        return
    storage = tensor.untyped_storage()
    guard = native().ReadGuard(storage.data_ptr(), storage.nbytes())
    try:
        yield
        guard.check(name)
    finally:
        guard.end()  # before the memory goes, whoever holds this frame
