"""Shards: safetensors files with boxes of tensors, written and read in chunks on a few threads."""

import collections
import contextlib
import itertools
import json
import mmap
import os
from concurrent.futures import ThreadPoolExecutor, wait

import torch

from ..base.reading import guarded
from ..base.types import DTYPES, SAFETENSORS
from ..errors import CheckpointError
from . import files
from .index import Shard, data_begins, is_hash, make_hash
from .marks import PART

CHUNK = 16 << 20  # bytes that are written at once, and that a hash stands for
_BUFFERS = 4
_LENGTH_BYTES = 8  # of the header, in front of it

# Seconds between two questions whether to stop, while the disk is waited for.
_PAUSE = 0.1


class Stopped(Exception):
    """Another process has an error."""


@contextlib.contextmanager
def _workers(count, name):
    """A pool of threads; what an error, or Ctrl-C, ends does not wait for the disk."""
    pool = ThreadPoolExecutor(count, name)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


class _File:
    """A new file. Who uses its `number` holds the file itself: it is closed when nobody does."""

    def __init__(self, path):
        self.number = files.create(path)

    def __del__(self):
        if hasattr(self, "number"):
            os.close(self.number)

    def write(self, data, offset):
        files.write_at(self.number, data, offset)

    def send(self, offset, count):
        files.send(self.number, offset, count)

    def sync(self):
        files.sync(self.number)


def _header(boxes):
    """The bytes in front of the tensors; a multiple of 8, so that types lie at multiples of their size."""
    header, at = {}, 0
    for box in boxes:
        header[box.name] = {
            "dtype": SAFETENSORS[box.type],
            "shape": list(box.extents),
            "data_offsets": [at, at + box.bytes],
        }
        at += box.bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


class _Writer:
    """Hashes and writes chunks behind the back of who fills them; each is sent to the disk at once, so that the fsync at
    the end, which tells the disk's errors, has little to wait for.
    """

    def __init__(self, file, pool, stop):
        self.file, self.pool, self.stop = file, pool, stop
        self.free = [torch.empty(CHUNK, dtype=torch.uint8) for _ in range(_BUFFERS)]
        self.busy, self.hashes = collections.deque(), []

    def buffer(self):
        if not self.free:
            self._finish_one()
        return self.free.pop()

    def put(self, buffer, count):
        data = buffer.numpy()[:count]
        offset = CHUNK * (len(self.hashes) + len(self.busy))
        self.busy.append((buffer, self.pool.submit(self._write, data, offset)))

    def _write(self, data, offset):
        """One after the other: the chunk is in the cache for the second."""
        digest = make_hash(data)
        self.file.write(data, offset)
        self.file.send(offset, len(data))
        return digest

    def _finish_one(self):
        buffer, written = self.busy.popleft()
        self.hashes.append(self._wait(written))
        self.free.append(buffer)

    def _wait(self, future):
        while not wait([future], _PAUSE).done:
            if self.stop():
                raise Stopped
        return future.result()

    def finish(self):
        while self.busy:
            self._finish_one()
        self._wait(self.pool.submit(self.file.sync))


def _fill(writer, sources, stop):
    """Puts the bytes of all (count, read(offset, buffer)) into chunks; returns how many there were."""
    buffer, used, total = writer.buffer(), 0, 0
    for count, read in sources:
        at = 0
        while at < count:
            some = min(count - at, CHUNK - used)
            read(at, buffer[used : used + some])
            at, used = at + some, used + some
            if used == CHUNK:
                if stop():
                    raise Stopped
                writer.put(buffer, used)
                buffer, used = writer.buffer(), 0
        total += count
    if used:
        writer.put(buffer, used)
    return total


def write(folder, name, boxes, stop):
    """Writes the boxes, and says what the file is. Raises OSError, and Stopped once `stop()` says so: then there is no
    such file.
    """
    path = os.path.join(folder, name)
    header = _header(boxes)
    first = torch.frombuffer(bytearray(header), dtype=torch.uint8)
    sources = [(len(header), lambda at, out: out.copy_(first[at : at + len(out)]))]
    sources += [(box.bytes, box.read) for box in boxes]
    try:
        with _workers(3, "tandem-save") as pool:
            writer = _Writer(_File(path + PART), pool, stop)
            total = _fill(writer, sources, stop)
            writer.finish()
        hashes = writer.hashes
        del writer  # closes the file
        files.rename(path + PART, path)
    except BaseException:
        files.remove(path + PART)
        raise
    return Shard(name, total, CHUNK, hashes)


def begins(boxes):
    """The byte of the shard where each begins."""
    sizes = (box.bytes for box in boxes)
    return list(itertools.accumulate(sizes, initial=len(_header(boxes))))[:-1]


# Reading


def check_sizes(folder, shards):
    """That all shards are there whole, as far as their sizes say. Raises CheckpointError."""
    for shard in shards:
        what = f"checkpoint {folder!r}: shard {shard.name!r}"
        with _open(folder, shard, what) as file:
            size = os.fstat(file.fileno()).st_size
        if size != shard.bytes:
            raise CheckpointError(
                f"{what} has {size} bytes, expected {shard.bytes}: it is truncated or another file"
            )


@contextlib.contextmanager
def _open(folder, shard, what):
    try:
        with open(files.open_regular(os.path.join(folder, shard.name)), "rb", 0) as file:
            yield file
    except OSError as error:
        raise CheckpointError(f"{what} cannot be read: {error.strerror}") from error


def check_hashes(folder, index, process, processes, stop):
    """This process' part of all chunks. Raises CheckpointError for one that is not what was saved."""
    pairs = zip(index.shards, data_begins(index), strict=True)
    chunks = [(s, begin, number) for s, begin in pairs for number in range(len(s.hashes))]
    with _workers(2, "tandem-load") as pool:
        for _ in pool.map(
            lambda chunk: _check_chunk(folder, *chunk, stop), chunks[process::processes]
        ):
            pass


def _check_chunk(folder, shard, data_begin, number, stop):
    if stop():
        raise Stopped
    what = f"checkpoint {folder!r}: shard {shard.name!r}"
    begin = number * shard.chunk
    count = min(shard.chunk, shard.bytes - begin)
    with _open(folder, shard, what) as file:
        data = files.read_at(file.fileno(), begin, count)
    if not is_hash(data, shard.hashes[number]):
        raise CheckpointError(
            f"{what} is damaged: bytes {begin} to {begin + count} are not those that were saved"
        )
    header = int.from_bytes(data[:_LENGTH_BYTES], "little") + _LENGTH_BYTES
    if number == 0 and header != data_begin:
        raise CheckpointError(
            f"{what} has a header of {header} bytes, expected {data_begin}: its index is that of another file"
        )


class Reader:
    """Boxes of tensors from shards that were checked. Holds one box at a time, and no shard."""

    def __init__(self, folder, shards):
        self.folder, self.shards, self.maps = folder, shards, {}

    def _map(self, number):
        if number not in self.maps:
            path = os.path.join(self.folder, self.shards[number].name)
            with open(path, "rb") as file:
                # A private map, as PyTorch takes no memory that cannot be written.
                self.maps[number] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        return self.maps[number]

    def _view(self, piece, dtype):
        count = 1
        for extent in piece.extents:
            count *= extent
        flat = torch.frombuffer(
            self._map(piece.shard), dtype=dtype, count=count, offset=piece.begin
        )
        return flat.view(piece.extents)

    def box(self, stored, offsets, extents):
        """A box of a tensor, whatever boxes it was written in."""
        dtype = DTYPES[stored.type]
        for piece in stored.pieces:
            if (piece.offsets, piece.extents) == (offsets, extents):
                return self._view(piece, dtype)
        result = torch.empty(extents, dtype=dtype)
        for piece in stored.pieces:
            common = _overlap(piece, offsets, extents)
            if common:
                there = tuple(
                    slice(b - o, e - o) for (b, e), o in zip(common, piece.offsets, strict=True)
                )
                here = tuple(slice(b - o, e - o) for (b, e), o in zip(common, offsets, strict=True))
                view = self._view(piece, dtype)
                what = f"checkpoint {self.folder!r}: shard {self.shards[piece.shard].name!r}"
                with guarded(what, view):
                    result[here] = view[there]
        return result


def _overlap(piece, offsets, extents):
    """[(begin, end)] by dimension of what two boxes have in common; None if that is nothing."""
    common = [
        (max(a, b), min(a + m, b + n))
        for a, m, b, n in zip(piece.offsets, piece.extents, offsets, extents, strict=True)
    ]
    return common if all(begin < end for begin, end in common) else None
