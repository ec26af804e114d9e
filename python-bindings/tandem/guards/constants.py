"""Tensors read by a loss or an optimizer that are neither model nor batch, such as a teacher's weights.

A captured step has them as constants, with the values of the capture.
"""

import torch
from torch.utils.weak import TensorWeakRef

from ..errors import StateError
from .outdated import is_old
from .watch import hash_of, watch_period

# Bytes of a constant whose values each step compares, and how many of these.
_SMALL, _MOST = 1024, 32


def _read(graph):
    """[(tensor, where it is read)] of a first trace, in which constants are the tensors themselves."""
    found = []
    for node in graph.graph.nodes:
        tensor = getattr(graph, node.target, None) if node.op == "get_attr" else None
        if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and node.users:
            origins = (user.meta.get("tandem") for user in node.users)
            found.append((tensor, next((str(o.location) for o in origins if o), "the loss")))
    return found


def _mark(tensor):
    """What differs where a tensor has been given other values; PyTorch does not count the writes to those of inference mode."""
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version


class Constants:
    """Those of a first trace, as long as somebody else has them too. Of small ones each step compares the values, as PyTorch counts
    no writes through `data` or NumPy; of the others those steps that `TANDEM_WATCH` names.
    """

    def __init__(self, graph):
        read = _read(graph)
        self._kept = [(TensorWeakRef(t), _mark(t), place) for t, place in read]
        small = [t.numel() * t.element_size() <= _SMALL for t, _ in read]
        self._small = {i for i, is_small in enumerate(small) if is_small}
        self._small = set(sorted(self._small)[:_MOST])
        rest = range(len(read)) if watch_period() else self._small
        self._hashes = {i: hash_of(read[i][0]) for i in rest}

    def check(self, all_values=False):
        """StateError where one has other values since, or another step has trained it."""
        hashed = self._hashes if all_values else self._small
        for i, (reference, mark, place) in enumerate(self._kept):
            tensor = reference()
            if tensor is None:
                continue
            same = _mark(tensor) == mark and (i not in hashed or hash_of(tensor) == self._hashes[i])
            if same and not is_old(tensor):
                continue
            changed = "trained by another step" if same else "changed"
            raise StateError(
                f"{place}: a tensor {list(tensor.shape)} that is read past the model and the batch was {changed} after"
                " tandem.compile, and is a constant of the step, expected one of the batch, or of one model with both"
                " (without gradient, or not among the optimizer's), and step.load(model=model) behind a change"
            )
