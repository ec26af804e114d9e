"""What a function of the user's reads past its arguments: variables of a closure, globals, and what is an
attribute of one or an entry under a constant key, also of the object whose method it is. So do functions that it calls by such a name.

Read from its code, as it is compiled: what it reads by `getattr`, or in a function of a package, is not seen, nor is what it
writes itself, which is another in each step.
"""

import dis
import functools
import types
from dataclasses import dataclass

import torch

from .locations import is_of_user

_VARIABLES = {
    "LOAD_GLOBAL": "global",
    "LOAD_NAME": "global",
    "LOAD_DEREF": "cell",
    "LOAD_FAST": "local",
}
_WRITES = ("STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR")
_CALLED = (types.FunctionType, types.MethodType, functools.partial, torch.nn.Module)
_NOTHING = ("CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "RESUME")


@dataclass(frozen=True)
class _Called:
    """A function, and the object whose method it is."""

    function: types.FunctionType
    owner: object = None


def _called(value):
    """What runs when `value` is called, as far as a user wrote it."""
    if isinstance(value, functools.partial):
        return [
            c for each in (value.func, *value.args, *value.keywords.values()) for c in _called(each)
        ]
    owner = getattr(value, "__self__", None)
    function = getattr(value, "__func__", value)
    if not isinstance(function, types.FunctionType):
        name = "forward" if isinstance(value, torch.nn.Module) else "__call__"
        owner, function = value, getattr(type(value), name, None)
    return [_Called(function, owner)] if isinstance(function, types.FunctionType) else []


@dataclass(frozen=True)
class Entry:
    """Where a value is: `get()` gives it, None for none. `owner` is the dict or the class that has it under `key`, if one has."""

    value: object
    owner: dict | type | None = None
    key: object = None
    read: object = None

    def get(self):
        if self.owner is None:
            return self.read()
        return (vars(self.owner) if isinstance(self.owner, type) else self.owner).get(self.key)


def _of_dict(owner, key):
    return Entry(dict.get(owner, key), owner, key)


def _of_others(read):
    return Entry(read(), read=read)


def _contents(cell):
    try:
        return cell.cell_contents
    except ValueError:  # It has no value yet.
        return None


def _item(sequence, index):
    """Of a list or tuple; None where there is none."""
    return sequence[index] if -len(sequence) <= index < len(sequence) else None


def _of_key(value, key):
    """The entry under a constant key."""
    if type(value) is dict:
        return [_of_dict(value, key)]
    if type(value) in (list, tuple) and type(key) is int:
        return [_of_others(functools.partial(_item, value, key))]
    return []


def _of_attribute(value, name):
    """The entries that an attribute may be in, the last of them with its value. No code of a class runs."""
    held = getattr(value, "__dict__", None)
    entries = [_of_dict(held, name)] if type(held) is dict else []
    if entries and name in held:
        return entries
    if isinstance(value, torch.nn.Module) and name in held.get("_modules", ()):
        return [_of_dict(held["_modules"], name)]
    kinds = value.__mro__ if isinstance(value, type) else type(value).__mro__
    kind = next((kind for kind in kinds if name in vars(kind)), None)
    return entries if kind is None else [*entries, Entry(vars(kind)[name], kind, name)]


def _of_instance(value, found):
    """What an attribute of the class is as one of an instance."""
    is_method = isinstance(found, types.FunctionType) and not isinstance(value, (type, dict))
    return types.MethodType(found, value) if is_method else found


def _entries(variables, kind, name, steps):
    """(entries, value) of what is found by attributes and keys in a variable; ([], None) where it is not there."""
    if name not in variables:
        return [], None
    value, entries = variables[name], []
    if kind == "cell":
        entries = [_of_others(functools.partial(_contents, value))]
    elif kind == "global":
        entries = [_of_dict(variables, name)]
    value = entries[-1].value if entries else value
    for is_key, step in steps:
        found = (_of_key if is_key else _of_attribute)(value, step)
        if not found:
            return [], None
        entries += found
        last = found[-1]
        value = _of_instance(value, last.value) if isinstance(last.owner, type) else last.value
    return entries, value


def _instructions(code):
    found = [i for i in dis.get_instructions(code) if i.opname not in _NOTHING]
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return [(code, found), *(pair for each in inner for pair in _instructions(each))]


def _steps(instructions):
    """[(is a key, name)] that these begin with."""
    steps, at = [], 0
    while at < len(instructions):
        this, after = instructions[at], instructions[at + 1 : at + 2]
        if this.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            steps.append((False, this.argval))
            at += 1
        elif this.opname == "LOAD_CONST" and after and after[0].opname == "BINARY_SUBSCR":
            steps.append((True, this.argval))
            at += 2
        else:
            break
    return steps


@functools.lru_cache(maxsize=4096)
def _paths(code):
    """{(kind of variable, name, steps)} that it reads and does not write."""
    paths, written = set(), set()
    for own, instructions in _instructions(code):
        for i, instruction in enumerate(instructions):
            kind = _VARIABLES.get(instruction.opname)
            is_self = own is code and code.co_argcount and instruction.argval == code.co_varnames[0]
            if kind and (kind != "local" or is_self):
                steps = _steps(instructions[i + 1 :])
                paths |= {
                    (kind, instruction.argval, tuple(steps[:n])) for n in range(len(steps) + 1)
                }
            if instruction.opname in _WRITES:
                written.add(instruction.argval)
            if (
                instruction.opname == "STORE_SUBSCR"
                and i
                and instructions[i - 1].opname == "LOAD_CONST"
            ):
                written.add(instructions[i - 1].argval)
    return {path for path in paths if (path[2][-1][1] if path[2] else path[1]) not in written}


def _variables_of(called):
    """{kind: {name: value, or its cell}, for each kind of variables}."""
    code, closure = called.function.__code__, called.function.__closure__ or ()
    own = {code.co_varnames[0]: called.owner} if called.owner is not None else {}
    cells = dict(zip(code.co_freevars, closure, strict=True))
    return {"global": called.function.__globals__, "cell": cells, "local": own}


def _is_forward(called, modules):
    return isinstance(called.owner, torch.nn.Module) and id(called.owner) in modules


def reads_of(functions, modules=()):
    """{name: (entries, value)} of what functions read past their arguments; of methods of `modules`, a dict by id, without the
    attributes of these themselves.
    """
    found, seen = {}, set()
    pending = [called for function in functions for called in _called(function)]
    while pending:
        called = pending.pop()
        if (called.function, id(called.owner)) in seen:
            continue
        seen.add((called.function, id(called.owner)))
        variables, where = _variables_of(called), called.function.__qualname__
        least = 2 if id(called.owner) in modules else 1
        for kind, name, steps in sorted(_paths(called.function.__code__), key=str):
            entries, value = _entries(variables[kind], kind, name, steps)
            if entries and (kind != "local" or len(steps) >= least):
                text = name + "".join(f"[{n!r}]" if key else f".{n}" for key, n in steps)
                of = modules[id(called.owner)] if kind == "local" and least == 2 else where
                found[f"{text!r}, which {of} reads"] = entries, value
            if isinstance(value, _CALLED):
                pending += [c for c in _called(value) if kind == "cell" or is_of_user(c.function)]
    return found


def read_outside(function, kinds):
    """{name: value} of all that has one of these types now."""
    found = reads_of([function])
    return {name: value for name, (_, value) in found.items() if type(value) in kinds}
