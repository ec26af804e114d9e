"""Assignment of boxes to the processes that write them.

A rank has a box of each stored tensor, and several ranks may have the same one. Of the processes that have a box, the
one with the fewest bytes so far writes it. All processes compute the same list, so nothing is sent.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch

from ..base.types import DTYPES, name_of


@dataclass
class Box:
    """A box of a value, which a process writes; `read(offset, buffer)` copies bytes of it, of one that is here."""

    key: str
    type: str
    shape: tuple  # of the value
    offsets: tuple
    extents: tuple
    read: Any = None

    @property
    def bytes(self):
        return math.prod(self.extents) * DTYPES[self.type].itemsize

    @property
    def name(self):
        if self.extents == self.shape:
            return self.key
        ranges = (f"{o}:{o + e}" for o, e in zip(self.offsets, self.extents, strict=True))
        return f"{self.key}[{', '.join(ranges)}]"


def boxes(session, index):
    """{(offsets, extents): [(argument of the Program, rank)]} of a stored tensor, of all ranks."""
    found = {}
    for s in session.slices(index):
        found.setdefault((tuple(s.offsets), tuple(s.extents)), []).append((s.member, s.rank))
    return found


def share_out(values, ranks):
    """[[Box]] by process. `ranks` are the lists of ranks of all processes; `values` is a step's `StoredValues`."""
    process_of = {rank: process for process, own in enumerate(ranks) for rank in own}
    shares, loads = [[] for _ in ranks], [0] * len(ranks)

    def give(box, candidates):
        process = min(candidates, key=lambda p: (loads[p], p))
        loads[process] += box.bytes
        shares[process].append(box)
        return process

    for key, (session, index) in values.places.items():
        argument = values.arguments[key]
        for (offsets, extents), places in boxes(session, index).items():
            if not math.prod(extents):
                continue
            box = Box(key, argument.type, tuple(argument.shape), offsets, extents)
            process = give(box, {process_of[rank] for _, rank in places})
            member, rank = next(p for p in places if process_of[p[1]] == process)
            box.read = _reader(session, member, rank)
    for key, tensor in values.unused.items():
        if tensor.numel():
            shape = tuple(tensor.shape)
            box = Box(key, name_of(tensor.dtype), shape, (0,) * len(shape), shape)
            box.read = _reader_of(tensor)
            give(box, [0])
    for share in shares:
        share.sort(key=lambda box: (-DTYPES[box.type].itemsize, box.key, box.offsets))
    return shares


def _reader(session, member, rank):
    return lambda offset, buffer: session.read_slice(member, rank, offset, buffer)


def as_bytes(tensor):
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def _reader_of(tensor):
    data = as_bytes(tensor)
    return lambda offset, buffer: buffer.copy_(data[offset : offset + len(buffer)])
