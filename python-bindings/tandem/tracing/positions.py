"""x[i] and x[i] = y for a position i that is a rank-0 value of the step.

PyTorch reads i as a number. A read gives a copy in place of a view, which is equal while neither is written.
"""

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from ..errors import CaptureError
from .locations import current_location
from .reads import constant_of, storages_of, written_by

_RECORDS = "tandem_rows_read"


def _is_position(part):
    if not isinstance(part, FakeTensor) or part.dim() or part.dtype == torch.bool:
        return False
    is_integer = not part.dtype.is_floating_point and not part.dtype.is_complex
    return is_integer and constant_of(part) is None


def _width(part):
    """How many dimensions it takes of the tensor; None for the rest."""
    if part is Ellipsis:
        return None
    is_mask = isinstance(part, torch.Tensor) and part.dtype in (torch.bool, torch.uint8)
    return 0 if part is None or isinstance(part, bool) else part.dim() if is_mask else 1


def _places(x, parts):
    """[(dimension, position from 0 on)] of those that are values of the step."""
    widths = [_width(part) for part in parts]
    rest = x.dim() - sum(width or 0 for width in widths)
    widths = [rest if width is None else width for width in widths]
    return [
        (dim := sum(widths[:i]), _from_0(part, x.shape[dim]))
        for i, part in enumerate(parts)
        if _is_position(part)
    ]


def _from_0(position, size):
    position = position.to(torch.int64)
    return torch.where(position < 0, position + size, position).reshape(1)


def _without(parts):
    return tuple(0 if _is_position(part) else part for part in parts)


def getitem(x, parts):
    """None for every other index."""
    if not any(map(_is_position, parts)):
        return None
    row = x
    for dim, position in _places(x, parts):
        row = row.index_select(dim, position)
    row = row[_without(parts)]
    graph = get_proxy_mode().tracer.graph
    record = (x, row, len(graph.nodes), current_location())
    graph.__dict__.setdefault(_RECORDS, []).append(record)
    return row


def setitem(x, parts, value):
    """None for every other index. `x[i] += y` writes to what it has read before."""
    if not any(map(_is_position, parts)):
        return None
    records = get_proxy_mode().tracer.graph.__dict__.get(_RECORDS, [])
    records[:] = [record for record in records if record[1] is not value]
    _write(x, _places(x, parts), _without(parts), value)
    return x


def _write(x, places, parts, value):
    if not places:
        x[parts] = value
        return
    (dim, position), *more = places
    rows = x.index_select(dim, position)
    _write(rows, more, parts, value)
    x.index_copy_(dim, position, rows)


def check():
    """CaptureError where a copy was read, and it or what it is of was written to: eager has one memory for both."""
    graph = get_proxy_mode().tracer.graph
    for x, row, count, location in graph.__dict__.get(_RECORDS, ()):
        later = list(graph.nodes)[count:]
        written = set().union(*map(written_by, later)) if later else set()
        if written & (storages_of(x) | storages_of(row)):
            raise CaptureError(
                f"{location}: a row is read at a position that each step has anew, and it or its tensor is written to later on,"
                " expected x.index_select(dim, position.reshape(1)), which has memory of its own"
            )
