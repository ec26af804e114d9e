"""Shared memory of tensors: the bytes of a tensor identify its value.

A tensor whose elements all lie in one other tensor, its *owner*, is a `View` of it, and has no value of its own. Tensors
of one storage that share no byte are separate, such as the flat weights of a recurrent layer.
"""

import bisect
from dataclasses import dataclass

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..errors import CaptureError


@dataclass(frozen=True)
class View:
    """How to get a tensor from one with the shape of its owner. `index` takes elements along each dimension of the owner, `order`
    the dimensions left; or, where `index` is None, `strides` and `start` count elements of the owner in its own order.
    """

    shape: tuple
    index: tuple | None = None
    order: tuple = ()
    ones: tuple = ()
    strides: tuple = ()
    start: int = 0

    def of(self, owner):
        """The view of a tensor with the owner's shape, contiguous unless the view has an `index`."""
        if self.index is not None:
            taken = owner[self.index].permute(self.order)[self.ones]
            return taken.expand(self.shape) if taken.shape != self.shape else taken
        if self.strides == _contiguous(self.shape):
            count = int(np.prod(self.shape))
            return owner.view(-1)[self.start : self.start + count].view(self.shape)
        return owner.as_strided(self.shape, self.strides, owner.storage_offset() + self.start)


def _contiguous(shape):
    strides, count = [], 1
    for size in reversed(shape):
        strides.append(count)
        count *= size
    return tuple(reversed(strides))


def _by_dimensions(owner, tensor, offset):
    """A view that takes elements along the dimensions of its owner, or None; `offset` counts elements from the first one."""
    own = [(s, n, d) for d, (n, s) in enumerate(zip(owner.shape, owner.stride(), strict=True))]
    own = sorted((each for each in own if each[0] and each[1] > 1), reverse=True)
    starts = {}
    for stride, size, dim in own:
        starts[dim], offset = divmod(offset, stride)
        if starts[dim] >= size:
            return None
    if offset:
        return None
    index = [starts.get(dim, 0) for dim in range(owner.dim())]
    taken = {}
    for place, (count, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if count == 1 or not stride:
            continue
        for own_stride, size, dim in own:
            step, rest = divmod(stride, own_stride)
            stop = starts[dim] + (count - 1) * step + 1
            if step and not rest and stop <= size and dim not in taken:
                taken[dim], index[dim] = place, slice(starts[dim], stop, step)
                break
        else:
            return None
    left = [taken[dim] for dim in sorted(taken)]  # places in the view, in the owner's order
    order = tuple(left.index(place) for place in sorted(left))
    ones = tuple(slice(None) if place in left else None for place in range(tensor.dim()))
    return View(tuple(tensor.shape), tuple(index), order, ones)


def view_in(owner, tensor):
    """The `View` that gives `tensor` from `owner`, of which it shares bytes; None if there is none."""
    apart = _begin(tensor) - _begin(owner)
    if tensor.dtype != owner.dtype or apart < 0 or apart % owner.element_size():
        return None
    offset = apart // owner.element_size()
    found = _by_dimensions(owner, tensor, offset)
    if found is None and owner.is_contiguous() and _end(tensor) <= _end(owner):
        found = View(tuple(tensor.shape), strides=tuple(tensor.stride()), start=offset)
    return found


def _has_values(tensor):
    return not (tensor.is_meta or isinstance(tensor, FakeTensor))


def _space(tensor):
    """Where addresses count. Tensors without values have no memory, but storages."""
    if _has_values(tensor):
        return str(tensor.device)
    return f"storage {tensor.untyped_storage()._cdata}"


def _begin(tensor):
    if not _has_values(tensor):
        return tensor.storage_offset() * tensor.element_size()
    return tensor.data_ptr()


def _end(tensor):
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return _begin(tensor) + (last + 1) * tensor.element_size()


def _bytes(tensor):
    """The addresses of all bytes."""
    places = np.full((), _begin(tensor), dtype=np.int64)
    width = tensor.element_size()
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        places = np.add.outer(places, np.arange(size if stride else 1) * stride * width)
    return np.add.outer(places, np.arange(width)).reshape(-1)


def overlap(a, b):
    """Whether two tensors with elements share a byte."""
    if _space(a) != _space(b) or _end(a) <= _begin(b) or _end(b) <= _begin(a):
        return False
    dense = all(t.numel() * t.element_size() == _end(t) - _begin(t) for t in (a, b))
    return dense or bool(np.intersect1d(_bytes(a), _bytes(b)).size)


def has_memory(tensor):
    """Whether it is a tensor of which the bytes are known, and has some."""
    plain = type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
    return (
        plain and tensor.layout == torch.strided and not tensor.is_quantized and tensor.numel() > 0
    )


class Memory:
    """Tensors by the bytes that they cover. `members` are [(what, tensor)], in the order in which they are preferred as owners."""

    def __init__(self, members):
        members = [(what, tensor) for what, tensor in members if has_memory(tensor)]
        self._clusters = {}  # per space, those of tensors whose addresses cross, by address
        for what, tensor in sorted(members, key=lambda member: _begin(member[1])):
            clusters = self._clusters.setdefault(_space(tensor), [])
            if not clusters or clusters[-1].end <= _begin(tensor):
                clusters.append(_Cluster(_begin(tensor), _end(tensor), []))
            clusters[-1].end = max(clusters[-1].end, _end(tensor))
            clusters[-1].members.append((what, tensor))

    def sharing(self, tensor):
        """[(what, tensor)] of the members that share a byte with the tensor."""
        if not has_memory(tensor):
            return []
        clusters = self._clusters.get(_space(tensor), [])
        place = bisect.bisect_left(clusters, _end(tensor), key=lambda cluster: cluster.begin)
        found = []
        while place and clusters[place - 1].end > _begin(tensor):
            place -= 1
            found += [member for member in clusters[place].members if overlap(member[1], tensor)]
        return found


@dataclass
class _Cluster:
    begin: int
    end: int
    members: list


def title(key):
    """`parameter 'x'` of `parameter/x`."""
    role, _, name = key.partition("/")
    return f"{'batch tensor' if role == 'input' else role} {name!r}"


class Owners:
    """Tensors by key (`role/name`), of which some are views of others: `views` are {key: (key of the owner, View)}."""

    def __init__(self, members):
        """`members` are [(key, tensor)]: parameters first, which are owners all, then who is preferred. Raises CaptureError."""
        self._memory, self._owners, self.views = Memory(members), set(), {}
        for key, tensor in members:
            if key.startswith("parameter/"):
                self._check_parameter(key, tensor)
            found = self.find(title(key), tensor)
            if found is None:
                self._owners.add(key)
            else:
                self.views[key] = found

    def _check_parameter(self, key, tensor):
        """CaptureError where it shares memory with one before it: an optimizer would update both."""
        for other in self._found(tensor)[:1]:
            names = [each.partition("/")[2] for each in (other[0], key)]
            raise CaptureError(
                f"parameters {names[0]!r} and {names[1]!r} are different tensors over one storage; expected one"
                " torch.nn.Parameter under both names"
            )

    def _found(self, tensor):
        return [member for member in self._memory.sharing(tensor) if member[0] in self._owners]

    def find(self, what, tensor):
        """(key of the owner in whose memory the tensor is, View), or None where it shares no byte with any. Raises CaptureError
        where it shares some and is no view; `what` names it there.
        """
        found = sorted(self._found(tensor), key=lambda member: member[0])
        if not found:
            return None
        key, owner = found[0]
        view = view_in(owner, tensor) if len(found) == 1 else None
        if view is None:
            others = " and ".join(title(key) for key, _ in found)
            raise CaptureError(
                f"{what}: shares memory with {others} and is no view of {'it' if len(found) == 1 else 'one of them'}, expected"
                " a view of one tensor, such as a slice, or memory of its own (clone())"
            )
        return key, view
