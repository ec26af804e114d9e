"""Numbers and texts that a function of the user's reads past its arguments: variables of a closure, globals, and what is an
attribute of one or an entry under a constant key, also of the object whose method it is. So do functions that it calls by such a name.

Read from its code, as it is compiled: what it reads by `getattr`, or in a function of a package, is not seen, nor is what it
writes itself, which is another in each step.
"""

import dis
import functools
import inspect
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


class _Cell:
    """A variable of a closure, as what has attributes in a dict."""

    def __init__(self, cell):
        self._cell = cell

    def get(self, _, otherwise=None):
        try:
            return self._cell.cell_contents
        except ValueError:  # It has no value yet.
            return otherwise


class _Inside:
    """What is found by attributes and keys in a variable, as a dict of one entry."""

    def __init__(self, variables, name, steps):
        self._variables, self._name, self._steps = variables, name, steps

    def get(self, _, otherwise=None):
        value = self._variables.get(self._name, otherwise)
        for step in self._steps:
            value = _take(value, *step)
        return value


def _take(value, is_key, name):
    """An entry or an attribute, without running code of a class; None for none."""
    if is_key:
        return value.get(name) if type(value) is dict else None
    if name in getattr(value, "__dict__", ()):
        return value.__dict__[name]
    found = inspect.getattr_static(value, name, None)
    is_method = isinstance(found, types.FunctionType) and not isinstance(value, type)
    return types.MethodType(found, value) if is_method else found


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
    """{kind: {name: value}, for each kind of variables}."""
    code, closure = called.function.__code__, called.function.__closure__ or ()
    own = {code.co_varnames[0]: called.owner} if called.owner is not None else {}
    cells = {n: _Cell(c) for n, c in zip(code.co_freevars, closure, strict=True)}
    return {"global": called.function.__globals__, "cell": cells, "local": own}


def read_outside(function, kinds):
    """{name: (what has `get(key)`, key)} of all that has one of these types now."""
    found, pending, seen = {}, _called(function), set()
    while pending:
        called = pending.pop()
        if (called.function, id(called.owner)) in seen:
            continue
        seen.add((called.function, id(called.owner)))
        variables = _variables_of(called)
        for kind, name, steps in sorted(_paths(called.function.__code__), key=str):
            of = variables[kind]
            if name not in of:
                continue
            of = of[name] if kind == "cell" else of
            place = _Inside(of, name, steps)
            value = place.get(None)
            if type(value) in kinds and (kind != "local" or steps):
                text = name + "".join(f"[{n!r}]" if key else f".{n}" for key, n in steps)
                found[text, called.function.__qualname__] = place
            elif isinstance(value, _CALLED):
                inner = _called(value)
                pending += [c for c in inner if kind == "cell" or is_of_user(c.function)]
    return {f"{text!r}, which {where} reads": place for (text, where), place in found.items()}
