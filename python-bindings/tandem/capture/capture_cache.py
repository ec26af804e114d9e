"""Cache of captured steps: results of the second trace and the lowering, on disk beside compiled Programs.

They are functions of the first graph with its places and constants, and take longer than it. The key holds all that they
read: the graph, the tables of arguments and results, the sources of this package, the versions of Python and PyTorch.
Cached files become code, so the rules of `Cache.h` about owners and modes hold here too.
"""

import functools
import hashlib
import json
import os
import platform
import secrets
import stat
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch._decomp import decomposition_table

from ..errors import CompileError
from ..tracing.arguments import Result

_LARGEST = 2**31  # bytes of a capture
_SUFFIX = ".capture"
# Whose operators and decompositions change with their versions alone.
_KNOWN, _KNOWN_MODULES = ("aten", "prims", "tandem"), ("torch.", "tandem.")


def _base():
    """As the compiler finds it (`Cache.h`); None for nowhere."""
    given = os.environ.get("TANDEM_CACHE_DIR")
    if given is not None:
        return Path(given) if given else None
    base, home = os.environ.get("XDG_CACHE_HOME"), os.environ.get("HOME")
    if base is None and home is None:
        return None
    return (Path(base) if base is not None else Path(home, ".cache")) / "tandem"


def _fault(info, is_base):
    """What is wrong with the owner or mode of a file or folder; empty if nobody else can have written it."""
    others = stat.S_IWOTH if is_base else stat.S_IWOTH | stat.S_IWGRP
    is_sticky = is_base and info.st_mode & stat.S_ISVTX
    if info.st_uid != os.geteuid() and not (is_base and info.st_uid == 0):
        return f"belongs to user {info.st_uid}, expected user {os.geteuid()}"
    if info.st_mode & others and not is_sticky:
        mode = stat.S_IMODE(info.st_mode)
        return f"can be written by other users (mode {mode:04o}), expected only by its owner"
    return ""


def _check(path, info, is_base):
    is_folder = stat.S_ISDIR(info.st_mode)
    fault = _fault(info, is_base) if is_folder else "" if is_base else "is no folder"
    if fault:
        raise CompileError(
            f"cache folder '{path}' {fault}: what lies there is run as code; name a folder of your own in"
            " TANDEM_CACHE_DIR"
        )


def folder(make=False):
    """The folder of the compiler's files, which only this user writes; None where there is none. Raises CompileError for
    one that others write.
    """
    base = _base()
    if base is None:
        return None
    path = base / "compiled"
    try:
        if make:
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
        _check(base, base.stat(), True)
        _check(path, path.lstat(), False)
    except OSError:
        return None
    return path


def _read(path):
    """The bytes of a file of this user, whom nobody else writes to. Raises OSError."""
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(number, "rb") as file:
        info = os.fstat(number)
        if not stat.S_ISREG(info.st_mode) or info.st_size > _LARGEST or _fault(info, False):
            raise PermissionError(path)
        return file.read()


@functools.cache
def _sources():
    """The hash of this package."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).resolve().parents[1].rglob("*.py")):
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


class _Unknown(Exception):
    """Something of which is not known what it depends on."""


class _Number:
    """Stands for a node."""

    def __init__(self, number):
        self.number = number

    def __repr__(self):
        return f"%{self.number}"


def _layout(value):
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.stride(), value.storage_offset()
    if isinstance(value, (list, tuple)):
        return [_layout(each) for each in value]
    return type(value).__name__


def _constant(value):
    plain = isinstance(value, torch.Tensor) and type(value) in (torch.Tensor, torch.nn.Parameter)
    if not plain or value.device.type != "cpu" or value.layout != torch.strided:
        raise _Unknown
    content = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return _layout(value), hashlib.sha256(content).hexdigest()


def _target(node):
    """What it calls, by name; the operators that a user has defined or decomposes are not known by theirs."""
    if isinstance(node.target, torch._ops.OpOverload):
        rule = decomposition_table.get(node.target)
        if node.target.namespace not in _KNOWN or (
            rule is not None and not rule.__module__.startswith(_KNOWN_MODULES)
        ):
            raise _Unknown
    elif node.op == "call_function" and getattr(node.target, "__module__", "") != "_operator":
        raise _Unknown
    return str(node.target)


def _lines(graph):
    numbers = {}
    for node in graph.graph.nodes:
        operands = torch.fx.node.map_arg((node.args, node.kwargs), numbers.__getitem__)
        facts = [node.op, _target(node), operands, _layout(node.meta.get("val"))]
        if node.op == "get_attr":
            facts.append(_constant(functools.reduce(getattr, node.target.split("."), graph)))
        numbers[node] = _Number(len(numbers))
        yield repr((facts, node.meta.get("tandem")))


def key_of(trace, gradient_sums):
    """A text that only equal captures have; None for one that cannot be told."""
    arguments = [replace(argument, value=None) for argument in trace.arguments]
    facts = [_sources(), platform.python_version(), torch.__version__, torch.get_default_dtype()]
    facts += [torch.are_deterministic_algorithms_enabled(), gradient_sums, arguments]
    facts += [trace.results, trace.updates.facts(trace.first.graph)]
    digest = hashlib.sha256(repr(facts).encode())
    try:
        for line in _lines(trace.first):
            digest.update(line.encode() + b"\n")
    except _Unknown:
        return None
    return digest.hexdigest()[:32]


def _digest(key, content):
    """Of a file and its name: whoever exchanges two has none of them."""
    return hashlib.sha256(key.encode() + content).hexdigest().encode()


def read(key):
    """(text, numbers of the arguments that are left, results, `Step.runs`) of a capture with this key; None if there is none."""
    base = folder() if key is not None else None
    if base is None:
        return None
    path = base / (key + _SUFFIX)
    try:
        head, _, content = _read(path).partition(b"\n")
        if _digest(key, content) != head:
            return None
        os.utime(path)
    except OSError:
        return None
    tables, _, text = content.decode().partition("\n")
    tables = json.loads(tables)
    results = [Result(**row) for row in tables["results"]]
    return text, tables["arguments"], results, tables["runs"]


def write(key, text, arguments, results, runs):
    """Where nothing can be written, nothing is kept."""
    base = folder(make=True) if key is not None else None
    if base is None:
        return
    rows = [asdict(result) for result in results]
    tables = {"arguments": arguments, "results": rows, "runs": runs}
    content = json.dumps(tables).encode() + b"\n" + text.encode()
    path = base / (key + _SUFFIX)
    part = f"{path}.{secrets.token_hex(4)}.part"
    try:
        number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(number, "wb") as file:
            file.write(_digest(key, content) + b"\n" + content)
        os.replace(part, path)
    except OSError:
        return
