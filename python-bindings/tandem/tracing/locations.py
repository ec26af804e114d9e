"""Locations of operators in the user's code.

A location is the innermost Python frame that is neither PyTorch's nor Tandem's. If that frame lies in an installed
package (for example `transformers`) and the user's own code called it, both are kept.
"""

import functools
import linecache
import os
import sys
import sysconfig
from dataclasses import dataclass

import torch

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_TANDEM = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_PACKAGES = tuple({sysconfig.get_paths()[key] + os.sep for key in ("purelib", "platlib")})


@dataclass(frozen=True)
class Place:
    file: str
    line: int
    column: int = 0

    def __str__(self):
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Location:
    """`place` is the innermost frame; `caller` the user's own one if `place` is in a package;
    `name` stands for operators that no line of the user's wrote (the optimizer's)."""

    place: Place | None = None
    caller: Place | None = None
    name: str = ""

    def __str__(self):
        if self.place is None:
            return self.name or "<unknown>"
        return f"{self.caller} (in {self.place})" if self.caller else str(self.place)


UNKNOWN = Location()


@functools.lru_cache(maxsize=4096)
def is_internal(path):
    """Whether a file is PyTorch's, Tandem's or of the standard library."""
    if path.startswith("<"):
        return True
    in_packages = path.startswith(_PACKAGES)
    return path.startswith((_TORCH, _TANDEM)) or (path.startswith(_STDLIB) and not in_packages)


def is_of_user(function):
    """Whether a function is neither PyTorch's nor Tandem's nor that of a package."""
    path = function.__code__.co_filename
    return not is_internal(path) and not path.startswith(_PACKAGES)


def place_of(function, line):
    """A line of a function's code."""
    return Place(_readable(function.__code__.co_filename), line)


def is_of_library(function):
    """Whether a function is PyTorch's, Tandem's or of the standard library."""
    return is_internal(function.__code__.co_filename)


@functools.lru_cache(maxsize=4096)
def _readable(path):
    """A path that does not depend on the machine: below the package folder or the current one."""
    for root in _PACKAGES:
        if path.startswith(root):
            return path[len(root) :]
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def source_line(place):
    """The text of a line, or ""."""
    lines = (linecache.getline(root + place.file, place.line) for root in ("", *_PACKAGES))
    return next(filter(None, lines), "")


@functools.lru_cache(maxsize=65536)
def _place(code, file, instruction, line):
    """`file` is in the key because equal code in two files is equal code to Python."""
    positions = list(code.co_positions())
    column = positions[instruction // 2][2] if instruction // 2 < len(positions) else None
    return Place(_readable(file), line, (column or 0) + 1)


def _place_of(frame):
    code, instruction, line = frame
    return _place(code, code.co_filename, instruction, line)


def _location_of(frames):
    """`frames` go from the innermost outwards: (code, instruction, line)."""
    place = None
    for frame in frames:
        path = frame[0].co_filename
        if is_internal(path):
            continue
        if not path.startswith(_PACKAGES):
            here = _place_of(frame)
            return Location(here) if place is None else Location(place, here)
        place = place or _place_of(frame)
    return Location(place) if place else None


def _frames(frame, last):
    while frame is not None and frame.f_code is not last:
        yield frame.f_code, frame.f_lasti, frame.f_lineno
        frame = frame.f_back


def current_location(outermost=None):
    """The location of the running code, looking no further out than the function `outermost`."""
    return _location_of(_frames(sys._getframe(1), getattr(outermost, "__code__", None)))


def location_of_traceback(traceback):
    """The user's line in which an exception was raised."""
    frames = []
    while traceback is not None:
        frame = traceback.tb_frame
        frames.append((frame.f_code, traceback.tb_lasti, traceback.tb_lineno))
        traceback = traceback.tb_next
    return _location_of(frames[::-1]) or UNKNOWN
