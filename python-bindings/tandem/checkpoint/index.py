"""The index of a checkpoint, `checkpoint.json`: which tensors lie where, and what is no tensor.

It is written last, under another name, and renamed: who sees it sees a whole checkpoint.
"""

import contextlib
import hashlib
import json
import math
import os
import re
import zlib
from dataclasses import asdict, dataclass

from ..errors import CheckpointError
from ..types import DTYPES
from . import files

NAME = "checkpoint.json"
_FORMAT = "tandem checkpoint"
# Readers take exactly this version of the format and older ones; what is in a newer one they cannot know.
VERSION = 2
_LARGEST = 2**30  # bytes of an index
_SHA256 = 64  # digits
_SHARD = re.compile(r"[0-9a-f]{16}-\d{5}-of-\d{5}\.safetensors")
PART = ".part"  # ends the name of what is being written


@dataclass(frozen=True)
class Piece:
    """A box of a tensor: elements from `offsets` on, contiguous from byte `begin` of a shard on."""

    shard: int
    begin: int
    offsets: tuple
    extents: tuple


@dataclass
class Stored:
    """A tensor: its type as Programs call it, shape, and the boxes that cover it."""

    type: str
    shape: tuple
    pieces: list


@dataclass
class Shard:
    """A file of `bytes` bytes; `hashes` are CRC-32 of `chunk` bytes each, in version 1 SHA-256; `make_hash` makes one."""

    name: str
    bytes: int
    chunk: int
    hashes: list


def make_hash(data):
    """Of a chunk. It tells a disk that returns other bytes, not somebody who writes a file to look like another."""
    return f"{zlib.crc32(data):08x}"


def is_hash(data, known):
    """Whether a chunk has this hash."""
    if isinstance(known, str) and len(known) == _SHA256:
        return hashlib.sha256(data).hexdigest() == known
    return make_hash(data) == known


@dataclass
class Index:
    """`tensors` by role and name; `training` and `extra` as `plain.encode` gives them."""

    tensors: dict
    shards: list
    training: dict
    extra: object


def _hash(content):
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def shard_name(token, number, count):
    return f"{token}-{number:05d}-of-{count:05d}.safetensors"


def write(folder, index):
    """Puts the index in the place of the one that is there. Raises OSError."""
    content = json.loads(json.dumps(asdict(index)))
    text = json.dumps(
        {"format": _FORMAT, "version": VERSION, "sha256": _hash(content), "content": content}
    )
    files.write_whole(os.path.join(folder, NAME), text.encode(), PART)


def remove_unnamed(folder):
    """The shards of saves that did not end, if it is clear that no index names them."""
    if not os.path.lexists(os.path.join(folder, NAME)):
        remove_others(folder, [])
        return
    with contextlib.suppress(CheckpointError):
        remove_others(folder, read(folder)[0].shards)


def remove_others(folder, shards):
    """All shards but these; what cannot be removed stays."""
    keep = {shard.name for shard in shards}
    for name in os.listdir(folder):
        if name not in keep and _SHARD.fullmatch(name.removesuffix(PART)):
            files.remove(os.path.join(folder, name))


def read(folder):
    """(index, the hash of its content). Raises CheckpointError."""
    what = f"checkpoint {folder!r}"
    document = _read_document(folder, what)
    if document.get("format") != _FORMAT or not isinstance(document.get("version"), int):
        raise CheckpointError(f"{what}: {NAME} is none that step.save() wrote")
    if document["version"] > VERSION:
        raise CheckpointError(
            f"{what}: is of version {document['version']}, expected at most {VERSION}: a newer Tandem has written it"
        )
    content, digest = document.get("content"), document.get("sha256")
    with none_that_was_saved(what):
        if _hash(content) != digest:
            raise CheckpointError(f"{what}: {NAME} is damaged: its hash is not that of its content")
        return _parse(content), digest


@contextlib.contextmanager
def none_that_was_saved(what):
    """What reads entries of an index stumbles over those that `save` does not write."""
    try:
        yield
    except (LookupError, AttributeError, TypeError, ValueError, RecursionError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise CheckpointError(
            f"{what}: {NAME} is none that step.save() wrote ({reason})"
        ) from error


def _read_document(folder, what):
    path = os.path.join(folder, NAME)
    try:
        if not os.path.isdir(folder):
            found = "a file" if os.path.exists(folder) else "nothing there"
            raise CheckpointError(
                f"{what}: found {found}, expected a folder that step.save() wrote"
            )
        if not os.path.lexists(path):
            raise CheckpointError(f"{what}: {_what_is_there(folder)}")
        if os.path.getsize(path) > _LARGEST:
            raise CheckpointError(
                f"{what}: {NAME} has {os.path.getsize(path)} bytes, expected at most {_LARGEST}"
            )
        with open(path, "rb") as file:
            document = json.loads(file.read())
    except OSError as error:
        raise CheckpointError(f"{what}: cannot read {NAME}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{what}: {NAME} is damaged: not JSON ({error})") from error
    return document if isinstance(document, dict) else {}


def _what_is_there(folder):
    shards = [n for n in sorted(os.listdir(folder)) if _SHARD.fullmatch(n.removesuffix(PART))]
    if shards:
        return (
            f"half-written: has {shards[0]!r} and no {NAME}, which comes last: the save did not end"
        )
    return f"has no {NAME}, expected a folder that step.save() wrote"


def _parse(content):
    shards = [Shard(**shard) for shard in content["shards"]]
    for shard in shards:
        chunks = -(-_count(shard.bytes) // max(_count(shard.chunk), 1))
        if not _SHARD.fullmatch(shard.name) or len(shard.hashes) != chunks:
            raise ValueError(f"shard {shard.name!r}")
    tensors = {}
    for key, entry in content["tensors"].items():
        pieces = [
            Piece(
                _count(p["shard"]), _count(p["begin"]), _counts(p["offsets"]), _counts(p["extents"])
            )
            for p in entry["pieces"]
        ]
        tensors[key] = Stored(str(entry["type"]), _counts(entry["shape"]), pieces)
        _check_cover(key, tensors[key], shards)
    return Index(tensors, shards, content["training"], content["extra"])


def _count(value):
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _counts(values):
    return tuple(_count(value) for value in values)


def _check_cover(key, stored, shards):
    """Boxes of one form: those inside of the tensor that have as many elements together cover it."""
    rank, covered, width = len(stored.shape), 0, DTYPES[stored.type].itemsize
    for piece in stored.pieces:
        ends = [o + e for o, e in zip(piece.offsets, piece.extents, strict=True)]
        inside = len(ends) == rank and all(e <= s for e, s in zip(ends, stored.shape, strict=True))
        count = math.prod(piece.extents)
        end = piece.begin + count * width
        if not inside or piece.shard >= len(shards) or end > shards[piece.shard].bytes:
            raise ValueError(f"a piece of {key!r}")
        covered += count
    if covered != math.prod(stored.shape):
        raise ValueError(f"{key!r} has {covered} elements, expected {math.prod(stored.shape)}")
