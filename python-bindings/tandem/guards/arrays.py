"""NumPy arrays in the memory of a model's tensors.

A step does not write to that memory. Python's results from an array are constants of the step; eager would use the
numbers of each step.
"""

import numpy as np

from ..errors import CaptureError
from .snapshots import Snapshot


def _of_memory(array, named):
    """The name of the tensor that an array begins in, or None."""
    place = array.__array_interface__["data"][0]
    for name, tensor in named:
        storage = tensor.untyped_storage()
        if storage.data_ptr() <= place < storage.data_ptr() + storage.nbytes():
            return name
    return None


def _held(model, outside):
    """[(where it is, array)] of those that can be written to."""
    values = list(outside.wholes)
    for name, part in (*Snapshot(model).parts, *outside.parts):
        entries = part.entries() if hasattr(part, "entries") else [("", v) for v in part.before]
        is_named = part.is_of_module
        values += [(f"{name}attribute {e[1:]!r}" if is_named else name + e, v) for e, v in entries]
    return [(n, v) for n, v in values if isinstance(v, np.ndarray) and v.size and v.flags.writeable]


def check_arrays(model, outside, written, trace, is_same):
    """CaptureError where `trace()`, of the step once more, is not the same with other numbers in arrays that share memory with a
    parameter that the step has `written`, by name.
    """
    named = [(n, p) for n, p in model.named_parameters() if n in written and p.device.type == "cpu"]
    found = [(n, v, p) for n, v in _held(model, outside) if (p := _of_memory(v, named))]
    for name, array, parameter in found:
        before = array.copy()
        array += np.ones((), dtype=array.dtype)
        try:
            again = trace()
        finally:
            array[...] = before
        if again is None or not is_same(again):
            raise CaptureError(
                f"{name.removesuffix(': ')}: holds an array of NumPy's in the memory of parameter {parameter!r}, and the step computes with its"
                " numbers, which it has as they were; expected the tensor itself, or torch.from_numpy of the array in each step"
            )
