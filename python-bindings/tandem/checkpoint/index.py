"""The index of a checkpoint, `checkpoint.json`: places of tensors, and all other values.

It is written last, under another name, and renamed. So a visible index belongs to a whole checkpoint.
"""

import contextlib
import hashlib
import json
import math
import os
import zlib
from dataclasses import asdict, dataclass

from ..base.types import DTYPES
from ..errors import CheckpointError
from . import covers, files, marks

NAME = "checkpoint.json"
_FORMAT = "tandem checkpoint"
# Readers take exactly this version of the format and older ones; what is in a newer one they cannot know.
VERSION = 2
_LARGEST = 2**30  # bytes of an index
_LARGEST_CHUNK = 2**26  # bytes that are read at once
_MOST_DIMENSIONS = 64  # as many as a tensor of PyTorch has
_SHA256 = 64  # digits
# Roles of the tensors that are stored.
STORED = ("parameter", "state", "buffer", "step", "seed")


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


def write(folder, index, token):
    """Puts the index of the save `token` in the place of the one that is there. Raises OSError."""
    content = json.loads(json.dumps(asdict(index)))
    text = json.dumps(
        {"format": _FORMAT, "version": VERSION, "sha256": _hash(content), "content": content}
    )
    path, part = os.path.join(folder, NAME), marks.part_of_index(folder, token)
    files.write_whole(path, text.encode(), part)


def remove_unnamed(folder):
    """The files of saves that are over, if it is clear that no index names them. Raises OSError."""
    ended, named = marks.names_of_ended(folder), set()  # in this order: see marks.py
    if os.path.lexists(os.path.join(folder, NAME)):
        try:
            named = {shard.name for shard in read(folder)[0].shards}
        except CheckpointError:
            return
    for name in ended:
        if name not in named:
            files.remove(os.path.join(folder, name))


def read(folder):
    """(index, the hash of its content). Raises CheckpointError."""
    what = f"checkpoint {folder!r}"
    document = _read_document(folder, what)
    version = document.get("version")
    if document.get("format") != _FORMAT or type(version) is not int or version < 1:
        raise CheckpointError(f"{what}: {NAME} is none that step.save() wrote")
    if version > VERSION:
        raise CheckpointError(
            f"{what}: is of version {version}, expected at most {VERSION}: a newer Tandem has written it"
        )
    content, digest = document.get("content"), document.get("sha256")
    with none_that_was_saved(what):
        if _hash(content) != digest:
            raise CheckpointError(f"{what}: {NAME} is damaged: its hash is not that of its content")
        return _parse(content), digest


@contextlib.contextmanager
def none_that_was_saved(what):
    """What reads entries of an index stumbles over those that `save` does not write."""
    kinds = (LookupError, AttributeError, TypeError, ValueError, ArithmeticError, RuntimeError)
    try:
        yield
    except kinds as error:  # a RecursionError is a RuntimeError
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
        data = files.read_whole(path, _LARGEST)
        if len(data) > _LARGEST:
            raise CheckpointError(f"{what}: {NAME} has more than the {_LARGEST} bytes expected")
        document = json.loads(data)
    except OSError as error:
        raise CheckpointError(f"{what}: cannot read {NAME}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{what}: {NAME} is damaged: not JSON ({error})") from error
    return document if isinstance(document, dict) else {}


def _what_is_there(folder):
    names = sorted(os.listdir(folder))
    shards = [name for name in names if marks.SHARD.fullmatch(name.removesuffix(marks.PART))]
    if shards:
        return (
            f"half-written: has {shards[0]!r} and no {NAME}, which comes last: the save did not end"
        )
    return f"has no {NAME}, expected a folder that step.save() wrote"


def _parse(content):
    shards = [_shard_of(entry) for entry in content["shards"]]
    if len({shard.name for shard in shards}) < len(shards):
        raise ValueError("two shards of one name")
    tensors = {_key_of(key): _tensor_of(entry) for key, entry in content["tensors"].items()}
    for key, stored in tensors.items():
        boxes = [(piece.offsets, piece.extents) for piece in stored.pieces]
        if not covers.is_cover(boxes, stored.shape):
            raise ValueError(f"the pieces of {key!r} do not cover it once")
    _check_places(tensors, shards)
    return Index(tensors, shards, content["training"], content["extra"])


def _shard_of(entry):
    shard = Shard(**entry)
    chunks = -(-_count(shard.bytes) // max(_count(shard.chunk), 1))
    fits = shard.chunk <= _LARGEST_CHUNK and type(shard.hashes) is list
    fits = fits and len(shard.hashes) == chunks
    if not marks.SHARD.fullmatch(shard.name) or not fits:
        raise ValueError(f"shard {shard.name!r}")
    return shard


def _key_of(key):
    if key.partition("/")[0] not in STORED:
        raise ValueError(f"no role of {key!r}")
    return key


def _tensor_of(entry):
    pieces = [
        Piece(_count(p["shard"]), _count(p["begin"]), _counts(p["offsets"]), _counts(p["extents"]))
        for p in entry["pieces"]
    ]
    return Stored(entry["type"], _counts(entry["shape"]), pieces)


def _count(value):
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is no count")
    return value


def _counts(values):
    if len(values) > _MOST_DIMENSIONS:
        raise ValueError(f"{len(values)} dimensions")
    return tuple(_count(value) for value in values)


def _places(tensors, shards):
    """[[(first byte, bytes)]] of the pieces by shard, in order."""
    places = [[] for _ in shards]
    for stored in tensors.values():
        width = DTYPES[stored.type].itemsize
        for piece in stored.pieces:
            if size := math.prod(piece.extents) * width:
                places[piece.shard].append((piece.begin, size))
    return [sorted(own) for own in places]


def data_begins(index):
    """The byte of each shard where elements begin, behind its header."""
    pairs = zip(_places(index.tensors, index.shards), index.shards, strict=True)
    return [own[0][0] if own else shard.bytes for own, shard in pairs]


def _check_places(tensors, shards):
    """The pieces of a shard lie one behind the other up to its end: no two share bytes."""
    for shard, own in zip(shards, _places(tensors, shards), strict=True):
        end = own[0][0] if own else shard.bytes
        for begin, size in own:
            if begin != end:
                raise ValueError(f"a piece at byte {begin} of shard {shard.name!r}, not at {end}")
            end += size
        if end != shard.bytes:
            raise ValueError(f"shard {shard.name!r} has elements up to byte {end}")
