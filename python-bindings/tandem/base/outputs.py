"""Output files of commands and steps: written atomically, never over a file of another kind."""

import contextlib
import errno
import os
import re
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from ..errors import TandemError

_HEADER = 2**24  # bytes of what is looked at


@dataclass(frozen=True)
class Kind:
    """What an output is for people, and whether bytes at the begin of a file are those of one."""

    name: str
    is_one: object


def _has_values(head):
    """A safetensors file that has the seed of a step."""
    length = int.from_bytes(head[:8], "little")
    return head[8:9] == b"{" and b'"seed/seed"' in head[8 : 8 + length]


# As MLIR is printed, and not a heading or a comment of another text.
_MODULE = re.compile(rb"module (\{|@|attributes)|[#!][\w.]+ = ")

STEP = Kind("a step as text", _MODULE.match)
VALUES = Kind("the values of a step", _has_values)
CHECKPOINT = Kind(
    "the index of a checkpoint", lambda head: head.startswith(b'{"format": "tandem checkpoint"')
)
EXPLANATION = Kind("an explanation", lambda head: head.startswith(b'{\n  "mesh": '))
PAGE_HEAD = "<!DOCTYPE html>\n<!-- A report of Tandem -->\n"
PAGE = Kind("a page of a report", lambda head: head.startswith(PAGE_HEAD.encode()))
SWEEP = Kind("a table of a sweep", lambda head: head.startswith(b'{\n "sweep": '))
TIMELINE = Kind("a timeline", lambda head: head.startswith(b'{"displayTimeUnit":"ms","tandem":'))


def check_place(path, kind, inputs=()):
    """TandemError where `reason_against` has one. Raises OSError."""
    if reason := reason_against(path, kind, inputs):
        raise TandemError(f"cannot write {str(path)!r}: {reason}")


def reason_against(path, kind, inputs=()):
    """Why an output may not be written there, or "". It may where nothing is, an empty file, or one of its kind that is none
    of the `inputs`; a FIFO or a terminal has no place, and is written to. Raises OSError.
    """
    path = Path(path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if path.parent.is_dir():
            return ""
        raise
    for other in filter(None, map(str, inputs)):
        if os.path.exists(other) and os.path.samefile(path, other):
            return "it is the input, expected another file"
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        return ""
    if not stat.S_ISREG(mode):
        return "expected a regular file"
    with open(path, "rb") as file:
        head = file.read(_HEADER)
    if head and not kind.is_one(head):
        return f"found a file that is not {kind.name}, expected none, or one to replace"
    return ""


def write(path, make):
    """Has `make(part)` write a file beside its place, which it then takes; of a link, what that names. Raises OSError, which
    names `path`.
    """
    try:
        _write(Path(path), make)
    except OSError as error:
        error.filename = str(path)  # a full disk names none, and nobody knows the part
        raise


def _write(path, make):
    if path.exists() and not path.is_file():
        make(path)
        return
    place = path.resolve()
    if place.exists() and not os.access(place, os.W_OK):
        raise PermissionError(13, os.strerror(13), str(path))
    part = place.with_name(f"{place.name}.{secrets.token_hex(8)}.part")
    try:
        make(part)
        os.replace(part, place)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def write_tensors(path, tensors):
    """Writes {key: tensor} as safetensors. Raises OSError, as Python's own files do, and not SafetensorError."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    if os.path.exists(path) and not os.path.isfile(path):  # which it would replace
        raise OSError(errno.EINVAL, "expected a regular file", str(path))
    whole = {key: tensor.detach().clone().contiguous() for key, tensor in tensors.items()}
    try:
        save_file(whole, path)
    except SafetensorError as error:
        found = re.search(r"\(os error (\d+)\)", str(error))
        number = int(found[1]) if found else errno.EIO
        raise OSError(number, os.strerror(number) if found else str(error), str(path)) from error
