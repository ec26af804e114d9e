"""Capture of a model on a GPU.

The step is traced with fake tensors on the host, like every step. Tensors that the model's code creates on, moves to or
casts for the GPU are created here. The model's own tensors on the GPU are copied.
"""

import contextlib
import itertools
import re
from unittest import mock

import torch
import torch.utils._pytree as pytree
from torch.amp.autocast_mode import autocast
from torch.overrides import TorchFunctionMode

# PyTorch's word for a GPU, not the name of one of the compiler's devices.
_TORCH_GPU = "cuda"
_GPU = re.compile(rf"{_TORCH_GPU}(:\d+)?")
_HOST = torch.device("cpu")


def is_on_gpu(model):
    """Whether a parameter or buffer is."""
    tensors = itertools.chain(model.parameters(), model.buffers())
    return any(tensor.is_cuda for tensor in tensors)


def _moved(value):
    if isinstance(value, torch.Tensor):
        return value.cpu() if value.is_cuda else value
    if isinstance(value, torch.device):
        return _HOST if value.type == _TORCH_GPU else value
    return "cpu" if isinstance(value, str) and _GPU.fullmatch(value) else value


class _OnHost(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.cuda:
            return args[0]
        args, kwargs = pytree.tree_map(_moved, (args, kwargs or {}))
        return function(*args, **kwargs)


_init = autocast.__init__


def _init_on_host(self, device_type, *args, **kwargs):
    # A step that casts on a GPU alone, and is there.
    _init(self, "cpu" if device_type == _TORCH_GPU else device_type, *args, **kwargs)


@contextlib.contextmanager
def on_host(model):
    """Within it the code of a model on a GPU runs on tensors of the host; of another model all is as it is."""
    if not is_on_gpu(model):
        yield
        return
    with mock.patch.object(autocast, "__init__", _init_on_host), _OnHost():
        yield
