"""File operations of checkpoints: a named file is always whole."""

import contextlib
import ctypes
import errno
import os
import stat

# Begins to write what is dirty, and waits for nothing (sync_file_range(2)).
_SYNC_FILE_RANGE_WRITE = 2
_libc = ctypes.CDLL(None)


def sync(file):
    """Waits until what was written to it is on the disk."""
    os.fsync(file)


def send(file, offset, count):
    """Lets the disk begin with what was written there; only a hint, which some file systems do not take."""
    _libc.sync_file_range(
        file, ctypes.c_int64(offset), ctypes.c_int64(count), _SYNC_FILE_RANGE_WRITE
    )


def sync_folder(folder):
    """That a name in it outlives the machine's next moment."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(handle)
    finally:
        os.close(handle)


def make_folder(path):
    """With those above it, all for good, whoever else makes them at the same time."""
    missing = []
    while not os.path.exists(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        try:
            os.mkdir(folder)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise
        sync_folder(os.path.dirname(folder))


def create(path):
    """A new file, open for writing. Raises OSError if there is one."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


_KINDS = {stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a FIFO", stat.S_ISSOCK: "a socket"}


def open_regular(path):
    """A regular file, open for reading. Raises OSError, also for what would never end, such as a FIFO or a device."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(file).st_mode
    if stat.S_ISREG(mode):
        return file
    os.close(file)
    kind = next((name for is_one, name in _KINDS.items() if is_one(mode)), "a device")
    raise OSError(errno.EINVAL, f"found {kind}, expected a regular file", path)


def read_whole(path, largest):
    """The bytes of a regular file; of a larger one, `largest` + 1 of them. Raises OSError."""
    with open(open_regular(path), "rb") as file:
        return file.read(largest + 1)


def write_at(file, data, offset):
    """All of a buffer of bytes."""
    view = memoryview(data)
    while view:
        count = os.pwrite(file, view, offset)
        view, offset = view[count:], offset + count


def read_at(file, offset, count):
    """As many bytes as there are, at most `count`."""
    data = os.pread(file, count, offset)
    while data and len(data) < count:
        more = os.pread(file, count - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def rename(old, new):
    """In one folder, in place of what has the new name."""
    os.replace(old, new)
    sync_folder(os.path.dirname(new))


def write_whole(path, data, part):
    """A small file in the place of another; it is written as `part`, which is new, in the same folder."""
    file = create(part)
    try:
        write_at(file, data, 0)
        sync(file)
    finally:
        os.close(file)
    rename(part, path)


def remove(path):
    """If it is there, and can be."""
    with contextlib.suppress(OSError):
        os.unlink(path)
