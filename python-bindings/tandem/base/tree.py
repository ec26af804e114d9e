"""Trees of tensors: batches and results of a loss function.

Supported are PyTorch's pytrees, dataclasses, and dicts with classes of their own, such as the `BatchEncoding` of
`transformers`. The user's classes are not registered with PyTorch, since that would affect the whole process.
"""

import contextlib
import copy
import dataclasses
from collections import UserDict
from collections.abc import Mapping

import torch
import torch.utils._pytree as pytree

from ..errors import BatchError


class _Opened:
    """An object whose parts are `parts`; `example` is one like it."""

    def __init__(self, example, parts):
        self.example, self.parts = example, parts

    def close(self):
        """Another object like the example, of these parts; what is no part it shares with it."""
        new = copy.copy(self.example)
        if isinstance(new, UserDict):
            new.data = dict(self.parts)
            return new
        for name, value in self.parts.items():
            object.__setattr__(new, name, value)  # also of a frozen one
        return new


pytree.register_pytree_node(
    _Opened,
    lambda opened: (list(opened.parts.values()), (opened.example, list(opened.parts))),
    lambda values, context: _Opened(context[0], dict(zip(context[1], values, strict=True))).close(),
    flatten_with_keys_fn=lambda opened: (
        [(pytree.MappingKey(name), value) for name, value in opened.parts.items()],
        (opened.example, list(opened.parts)),
    ),
)


def _parts_of(value):
    """{name: part} of an object that pytree takes for a leaf, or None."""
    if type(value) in pytree.SUPPORTED_NODES:
        return None
    if isinstance(value, UserDict):
        return dict(value.data)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def _open(value):
    parts = _parts_of(value)
    if parts is None:
        return value
    return _Opened(value, {name: _open_all(part) for name, part in parts.items()})


def _open_all(tree):
    return pytree.tree_map(_open, tree)


@contextlib.contextmanager
def _of_some_depth(what):
    try:
        yield
    except RecursionError:
        # Nobody asks for the thousand frames.
        raise BatchError(
            f"{what}: holds itself, or containers too deep in one another, expected a tree of tensors"
        ) from None


def flatten(tree, what="batch"):
    """([(path, leaf)], spec), for `unflatten`. BatchError for one without end."""
    with _of_some_depth(what):
        return pytree.tree_flatten_with_path(_open_all(tree))


def unflatten(leaves, spec):
    return pytree.tree_unflatten(leaves, spec)


def map_leaves(function, tree):
    """The tree with `function` of its leaves."""
    paths, spec = flatten(tree)
    return unflatten([function(leaf) for _, leaf in paths], spec)


def name_of_path(path):
    """`x.0.y`; `0` for a tree that is one leaf."""
    parts = [
        str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path
    ]
    return ".".join(parts) or "0"


def outline(tree):
    """What a tree is made of, as text: `{'x': tensor, 'y': [tensor, value]}`. Keys of dicts are in any order, and a list is
    as good as a tuple. BatchError for one without end.
    """
    with _of_some_depth("batch"):
        return _outline(tree)


def _outline(tree):
    if isinstance(tree, torch.Tensor):
        return "tensor"
    parts = tree if isinstance(tree, Mapping) else _parts_of(tree)
    if parts is not None:
        kind = type(tree).__qualname__ if dataclasses.is_dataclass(tree) else ""
        listed = sorted(f"{key!r}: {_outline(part)}" for key, part in parts.items())
        return f"{kind}{{{', '.join(listed)}}}"
    kind = type(tree)
    if kind in pytree.SUPPORTED_NODES:
        parts, _ = pytree.SUPPORTED_NODES[kind].flatten_fn(tree)
    elif pytree.is_namedtuple_instance(tree):
        parts = tree
    else:
        return "value"
    name = "" if kind in (list, tuple) else kind.__qualname__
    return f"{name}[{', '.join(map(_outline, parts))}]"


def check_dense(path, leaf, error, what="batch"):
    """Raises `error` for a tensor whose elements do not lie in one array, such as a sparse one."""
    if not isinstance(leaf, torch.Tensor):
        return
    if leaf.is_nested:
        kind, dense = "nested", "to_padded_tensor"
    elif leaf.is_quantized:
        kind, dense = "quantized", "dequantize"
    elif leaf.layout is not torch.strided:
        kind, dense = str(leaf.layout), "to_dense"
    else:
        return
    raise error(
        f"{what}: tensor {name_of_path(path)!r} is {kind.removeprefix('torch.')}, expected a dense one (Tensor.{dense}"
        " makes one)"
    )
