"""Numbers, texts, lists, dicts and small tensors as JSON, equal to the bit and with their types.

Schedules, optimizer groups and the user's notes consist of them. No code is stored: any other value is an error.
"""

import base64
import math
from collections import Counter

import torch

from ..errors import CheckpointError

_LARGEST = 2**20  # elements of a tensor: what is larger is a value of the step, not a note


def encode(value, what):
    """As `json.dumps` takes it. `what` names the value in errors."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, torch.Tensor):
        return {"tensor": _encode_tensor(value, what)}
    if isinstance(value, (Counter, dict)):
        pairs = [
            [encode(k, f"a key of {what}"), encode(v, f"{what}[{k!r}]")] for k, v in value.items()
        ]
        return {"counter" if isinstance(value, Counter) else "dict": pairs}
    if isinstance(value, (list, tuple)):
        entries = [encode(v, f"{what}[{i}]") for i, v in enumerate(value)]
        return entries if isinstance(value, list) else {"tuple": entries}
    raise CheckpointError(
        f"{what} is {type(value).__module__}.{type(value).__qualname__}, expected numbers, texts, lists, tuples,"
        " dicts or tensors, which a checkpoint can hold"
    )


def _encode_tensor(tensor, what):
    if tensor.is_meta or tensor.numel() > _LARGEST:
        raise CheckpointError(
            f"{what} is a tensor of shape {list(tensor.shape)}{' on the meta device' * tensor.is_meta}, expected"
            f" values, at most {_LARGEST}"
        )
    values = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return {
        "type": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "bytes": base64.b64encode(values.numpy().tobytes()).decode(),
    }


def decode(value):
    """What was encoded. Raises ValueError, KeyError or TypeError for what was not."""
    if isinstance(value, list):
        return [decode(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "float":
        return float(content)
    if kind == "tensor":
        return _decode_tensor(**content)
    if kind == "tuple":
        return tuple(decode(entry) for entry in content)
    make = {"dict": dict, "counter": Counter}[kind]
    return make({decode(k): decode(v) for k, v in content})


def _decode_tensor(type, shape, bytes):  # noqa: A002 - the names in the file
    dtype = getattr(torch, type)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"no element type {type}")
    data = bytearray(base64.b64decode(bytes, validate=True))
    values = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return values.reshape(shape)
