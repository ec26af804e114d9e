"""Tensors that a loss or an optimizer reads past the model and the batch, such as the weights of a teacher: a captured step has
them as constants, with the values of the capture.
"""

import torch
from torch.utils.weak import TensorWeakRef

from .errors import StateError
from .outdated import is_old


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
    """Those of a first trace, as long as somebody else has them too."""

    def __init__(self, graph):
        self._kept = [(TensorWeakRef(t), _mark(t), place) for t, place in _read(graph)]

    def check(self):
        """StateError where one has other values since, or another step has trained it."""
        for reference, mark, place in self._kept:
            tensor = reference()
            if tensor is None or (_mark(tensor) == mark and not is_old(tensor)):
                continue
            changed = "changed" if _mark(tensor) != mark else "trained by another step"
            raise StateError(
                f"{place}: a tensor {list(tensor.shape)} that is read past the model and the batch was {changed} after"
                " tandem.compile, and is a constant of the step, expected one of the batch, or of one model with both"
                " (without gradient, or not among the optimizer's), and step.load(model=model) behind a change"
            )
