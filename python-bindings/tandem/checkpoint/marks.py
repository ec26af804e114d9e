"""Concurrent saves into one folder: their files, and finished saves.

All names of a save begin with its token. While it runs, process 0 holds a lock on `<token>.saving`, which ends with the
process. So a save never removes files of another running save, and removes those of a killed one. It looks for finished
saves first, and reads the names in the index afterwards: the index of a finished save is then complete.
"""

import contextlib
import fcntl
import os
import re

from . import files

_SHARD = r"-\d{5}-of-\d{5}\.safetensors"
SHARD = re.compile(r"[0-9a-f]{16}" + _SHARD)
PART = ".part"  # ends the name of what is being written
_MARK, _INDEX = ".saving", ".json" + PART
_OF_SAVE = re.compile(rf"([0-9a-f]{{16}})({_SHARD}({re.escape(PART)})?|\.saving|\.json\.part)")


def shard_name(token, number, count):
    return f"{token}-{number:05d}-of-{count:05d}.safetensors"


def path_of(folder, token):
    """Of the mark of a save."""
    return os.path.join(folder, token + _MARK)


def part_of_index(folder, token):
    """Where a save writes the index before that takes its place."""
    return os.path.join(folder, token + _INDEX)


@contextlib.contextmanager
def marked(folder, token):
    """Within it the save is known as one that runs. Raises OSError."""
    path = path_of(folder, token)
    file = _lock_new(path)
    try:
        try:
            yield
        finally:
            files.remove(path)
    finally:
        _unlock(file)


def _unlock(file):
    """Also of a child that has it open, too."""
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)
    os.close(file)


def _lock_new(path):
    """The mark, open and locked. Another save may have removed it before it was locked."""
    while True:
        file = files.create(path)
        with contextlib.suppress(OSError):  # there are file systems without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.exists(path):
            return file
        os.close(file)


def _is_over(folder, token):
    """Whether a save does not run any more; then its mark is gone. In doubt it runs."""
    path = path_of(folder, token)
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
        return True
    except OSError:
        return False
    finally:
        os.close(file)


def names_of_ended(folder):
    """The files of all saves that are over. Raises OSError."""
    by_token = {}
    for name in os.listdir(folder):
        if found := _OF_SAVE.fullmatch(name):
            by_token.setdefault(found[1], []).append(name)
    return [name for token, names in by_token.items() if _is_over(folder, token) for name in names]
