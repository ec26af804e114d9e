"""Operators that choose rows by a mask or write them back (masked_rows.py), during capture.

Examples: `x[labels != -100]`, `masked_select`, `nonzero`, `x[mask] = rows`.
"""

import math

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor

from . import positions
from .masked_rows import Masked, choose, one_mask, refuse
from .reads import constant_of, mask_of, places_of, value_of


def _is_mask(value):
    return isinstance(value, FakeTensor) and value.dtype == torch.bool and value.dim() > 0


class Places:
    """`mask.nonzero()`: of a mask of one dimension, as a column or flat, or one of the parts of several dimensions. With a
    `width` each place stands that many times in its row, as `gather` wants it.
    """

    def __init__(self, mask, part=0, width=None):
        self.mask, self.part, self.width = mask, part, width

    def _flat(self, *_, **__):
        if self.mask.dim() != 1:
            raise refuse("nonzero lists the", self.mask)
        return self

    squeeze = view = reshape = flatten = ravel = _flat

    def expand(self, *sizes):
        sizes = sizes[0] if len(sizes) == 1 else sizes
        if self.mask.dim() != 1 or len(sizes) != 2 or not isinstance(sizes[1], int):
            raise refuse("expand is computed of the places of", self.mask)
        return Places(self.mask, self.part, sizes[1])

    def numel(self):
        return self.mask.sum()

    def size(self, dim=0):
        return self.mask.sum()

    @property
    def shape(self):
        return (self.mask.sum(),)

    def __len__(self):
        raise refuse("Python is to count the", self.mask)

    def __iter__(self):
        raise refuse("a loop runs over the", self.mask)

    def __getitem__(self, index):
        raise refuse("an index is taken of the places of", self.mask)

    def __getattr__(self, name):
        raise refuse(f"{name} is computed of the places of", self.mask)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        given = dict(zip(("input", "dim", "index"), args, strict=False)) | (kwargs or {})
        x, index = given.get("input"), given.get("index")
        if isinstance(x, FakeTensor) and isinstance(index, Places) and given.get("dim") == 0:
            widths = {"index_select": (None,), "gather": tuple(x.shape[1:]) or (None,)}
            if (index.width,) == widths.get(function.__name__):
                return getitem(x, index)
        places = (leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, Places))
        raise refuse(f"{function.__name__} is computed of the places of", next(places).mask)


def nonzero(x, *, as_tuple=False):
    if not isinstance(x, FakeTensor) or x.dim() == 0:
        return None
    mask = x if x.dtype == torch.bool else x != 0
    constant = constant_of(mask)
    if constant is not None:
        places = places_of(constant)
        return places if as_tuple else torch.stack(places, -1)
    return tuple(Places(mask, part) for part in range(mask.dim())) if as_tuple else Places(mask)


def where(condition, *values):
    return nonzero(condition, as_tuple=True) if not values else None


def masked_select(x, mask):
    if not _is_mask(mask):
        return None
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    return getitem(x.expand(shape), mask.expand(shape))


def _values_of(part, known):
    """Of a part of an index that is a mask which is `known`, by this function, its values; else None."""
    if not isinstance(part, torch.Tensor):
        return mask_of(part)
    if not part.dim() or part.dtype not in (torch.bool, torch.uint8):
        return None
    return known(part) if isinstance(part, FakeTensor) else part


def _numbered(parts, known=constant_of):
    """An index with the places of known masks in place of these; None where there is none."""
    known = [_values_of(part, known) for part in parts]
    if all(mask is None for mask in known):
        return None
    pieces = [
        (part,) if mask is None else places_of(mask)
        for part, mask in zip(parts, known, strict=True)
    ]
    return tuple(part for piece in pieces for part in piece)


def getitem(x, index):
    """x[mask], x[mask.nonzero()...] and x[torch.where(mask)]; None for every other index."""
    parts = index if isinstance(index, tuple) else (index,)
    if (row := positions.getitem(x, parts)) is not None:
        return row
    if not parts or not isinstance(x, FakeTensor):
        return None
    numbered = _numbered(parts)
    if numbered is not None:
        return x[numbered]
    if isinstance(parts[0], Places):
        mask = parts[0].mask
        numbered = all(
            isinstance(p, Places) and p.mask is mask and p.part == i for i, p in enumerate(parts)
        )
        if numbered and len(parts) == mask.dim() and mask.shape == x.shape[: mask.dim()]:
            return choose(x, mask)
        raise refuse("an index takes other dimensions of", mask)
    mask = parts[0]
    if _is_mask(mask) and mask.shape == x.shape[: mask.dim()] and all(map(_is_whole, parts[1:])):
        return choose(x, mask)
    numbered = _numbered(parts, value_of)
    return None if numbered is None else x[numbered]


def _is_whole(part):
    return part is Ellipsis or (isinstance(part, slice) and part == slice(None))


def setitem(x, index, value):
    """x[mask] = value, where the value is a row for all, a row of each that the mask chose, or as many rows as it
    chooses; None for every other index, and for numbers where the first mask is a tensor.
    """
    parts = index if isinstance(index, tuple) else (index,)
    if positions.setitem(x, parts, value) is not None:
        return x
    if not parts or not isinstance(x, FakeTensor):
        return None
    if not isinstance(value, (torch.Tensor, Masked)) and _is_mask(parts[0]):
        return None
    numbered = _numbered(parts)
    if numbered is not None:
        x[numbered] = value
        return x
    mask = parts[0].mask if isinstance(parts[0], Places) and len(parts) == 1 else parts[0]
    if not isinstance(value, (torch.Tensor, Masked)):
        return None
    if not _is_mask(mask) or mask.shape != x.shape[: mask.dim()]:
        return None
    if not all(map(_is_whole, parts[1:])):
        return None
    x.copy_(_put(x, mask, value))
    return x


def _put(x, mask, value):
    beside = x.dim() - mask.dim()
    chooses = mask.reshape(*mask.shape, *(1,) * beside)
    if isinstance(value, Masked):
        one_mask([value, Masked(x, mask.reshape(-1))])
        rows = value.rows.reshape(*mask.shape, *value.rows.shape[1:])
        return torch.where(chooses, rows.to(x.dtype), x)
    value = value.to(x.dtype)
    if value.dim() == beside + 1 and value.shape[0] != 1:
        if not mask.sum() == value.shape[0]:
            raise RuntimeError(f"{value.shape[0]} rows are put where a mask chooses another number")
        rows = value.expand(value.shape[0], *x.shape[mask.dim() :])
        return torch.where(chooses, _in_turn(rows, mask), x)
    return torch.where(chooses, value.squeeze(0) if value.dim() > beside else value, x)


def _in_turn(rows, mask):
    """For each place that the mask chooses the next row, from the first on."""
    places = (mask.reshape(-1).cumsum(0) - 1).clamp(0, rows.shape[0] - 1)
    return rows[places].reshape(*mask.shape, *rows.shape[1:])


def masked_scatter(x, mask, source):
    if not isinstance(x, FakeTensor):
        return None
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    x, mask = x.expand(shape), mask.expand(shape)
    if mask.sum() > source.numel():
        raise RuntimeError(
            f"masked_scatter: the mask chooses more than the {source.numel()} elements of source"
        )
    beside = 0  # dimensions of a row, over which the mask is the same
    while beside < x.dim() and mask.stride()[x.dim() - 1 - beside] == 0:
        beside += 1
    row = x.shape[x.dim() - beside :]
    if source.numel() % math.prod(row):
        beside, row = 0, ()
    of_rows = mask[(..., *(0,) * beside)]
    return torch.where(mask, _in_turn(source.to(x.dtype).reshape(-1, *row), of_rows), x)


def masked_scatter_(x, mask, source):
    return x.copy_(masked_scatter(x, mask, source)) if isinstance(x, FakeTensor) else None
