"""Meshes as users write them: `{"data": 4, "model": 2}`, `"data=4,model=2"` or `"auto"`."""

import math
import numbers
import re
from collections.abc import Mapping

from ..errors import CompileError, shown

_AXIS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIZE = re.compile(r"[0-9]{1,20}")
_MOST_POINTS = 2**20  # ranks of a Program


def check_axis(name, what):
    """CompileError unless it is an identifier; `what` names who has it."""
    if not isinstance(name, str) or not _AXIS.fullmatch(name):
        raise CompileError(
            f"{what}: found axis {shown(name)}, expected an identifier of letters, digits and _"
        )


def _pairs_of_text(text):
    """[(axis, size as text)] of `data=4,model=2`."""
    pairs = []
    for part in text.split(",") if text.strip() else ():
        name, equals, size = (word.strip() for word in part.partition("="))
        if not equals or not _SIZE.fullmatch(size):
            raise CompileError(
                f"mesh {shown(text)}: found {shown(part.strip())}, expected axis=size, as in 'data=4,model=2'"
            )
        pairs.append((name, int(size)))
    return pairs


def axes_of(mesh):
    """[(axis, size)] of a mesh, checked; none of one that is found later ("auto"), or of one rank."""
    if mesh is None or mesh == "auto":
        return []
    if isinstance(mesh, str):
        pairs = _pairs_of_text(mesh)
    elif isinstance(mesh, Mapping):
        pairs = list(mesh.items())
    else:
        raise CompileError(f"mesh: found {shown(mesh)}, expected a dict such as {{'data': 4}}")
    for axis, size in pairs:
        check_axis(axis, "mesh")
        is_count = isinstance(size, numbers.Integral) and not isinstance(size, bool)
        if not is_count or not 1 <= size <= _MOST_POINTS:
            raise CompileError(
                f"mesh: axis {shown(axis)} has size {shown(size)}, expected an integer from 1 to {_MOST_POINTS}"
            )
    _check_whole(pairs)
    return [(axis, int(size)) for axis, size in pairs]


def _check_whole(pairs):
    names = [axis for axis, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise CompileError(f"mesh: axis {name!r} is there twice, expected each axis once")
    points = math.prod(size for _, size in pairs)
    if points > _MOST_POINTS:
        raise CompileError(f"mesh: has {points} points, expected at most {_MOST_POINTS}")


def mesh_text(mesh):
    """`data=4,model=2`; "auto" stays."""
    return mesh if mesh == "auto" else ",".join(f"{axis}={size}" for axis, size in axes_of(mesh))
