"""Results of `loss_fn`: the loss, and a dict, tuple or dataclass of metrics and outputs.

A result is a value of the whole batch. A mean is one over all ranks and microbatches, and a result with a row per sample
has all rows.
"""

import numbers
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ..base import tree
from ..errors import CaptureError

_PREFIX = "returned."


@dataclass
class _Leaf:
    """A leaf of what was returned: a result, by role and name, whose type in PyTorch is `dtype`, or a tensor without elements
    of the shape `empty`, or a constant. The loss was returned in a `shape` of one element.
    """

    result: tuple[str, str] | None = None
    dtype: torch.dtype | None = None
    constant: object = None
    empty: tuple[int, ...] | None = None
    shape: tuple[int, ...] | None = None

    def build(self, result):
        if self.result is not None:
            value = result(*self.result).to(self.dtype)
            return value if self.shape is None else value.reshape(self.shape)
        return self.constant if self.empty is None else torch.empty(self.empty, dtype=self.dtype)


def find_loss(returned):
    """The scalar that is trained, of what `loss_fn` returned, or what stands in its place."""
    if isinstance(returned, Mapping):
        return returned.get("loss")
    if hasattr(returned, "loss"):
        return returned.loss
    if isinstance(returned, (tuple, list)) and returned:
        return returned[0]
    return returned


class Returned:
    """Of one trace."""

    def __init__(self, returned, has_loss=True):
        """Without a loss all tensors are results like others, and `loss` is None."""
        self._given = find_loss(returned) if has_loss else None
        self.loss = self._checked(self._given) if has_loss else None
        paths, self._spec = tree.flatten(returned, "what the loss function returns")
        self._leaves, self.tensors = [], {}
        for path, leaf in paths:
            self._leaves.append(self._leaf(tree.name_of_path(path), leaf))

    @staticmethod
    def _checked(loss):
        """The loss as a tensor without dimensions."""
        expected = "expected a tensor of one element, or a tuple that begins with it, or a dict with it as 'loss'"
        if not isinstance(loss, torch.Tensor):
            raise CaptureError(f"loss: found {type(loss).__name__}, {expected}")
        if loss.numel() != 1:
            raise CaptureError(f"loss: found a tensor of shape {tuple(loss.shape)}, {expected}")
        return loss.reshape(()) if loss.dim() else loss

    def _leaf(self, name, leaf):
        if leaf is not None and leaf is self._given:
            return _Leaf(("loss", "loss"), leaf.dtype, shape=tuple(leaf.shape))
        if isinstance(leaf, torch.Tensor):
            if leaf.is_complex() or leaf.layout != torch.strided:
                raise CaptureError(
                    f"loss_fn returns {name!r} as {leaf.dtype} in layout {leaf.layout}, expected real numbers in"
                    " torch.strided, such as torch.view_as_real gives"
                )
            if not leaf.numel():
                return _Leaf(dtype=leaf.dtype, empty=tuple(leaf.shape))
            self.tensors[_PREFIX + name] = leaf.detach()
            return _Leaf(("output", _PREFIX + name), leaf.dtype)
        if leaf is None or isinstance(leaf, (numbers.Number, str, bytes)):
            return _Leaf(constant=leaf)
        raise CaptureError(
            f"loss_fn returns {name!r} as {type(leaf).__name__}, expected tensors, numbers, text or None: return the loss"
            " alone, or with what is wanted of the rest (a cache of transformers: use_cache=False)"
        )

    def forget(self):
        """Lets go of the trace's tensors."""
        self.loss = self._given = None
        self.tensors = {}

    def build(self, result):
        """What `loss_fn` returned, of the values that `result(role, name)` gives."""
        return tree.unflatten([leaf.build(result) for leaf in self._leaves], self._spec)
