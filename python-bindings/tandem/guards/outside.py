"""Values that a user's function reads beside its arguments: closure variables, globals and their attributes.

Entries under constant keys count, and attributes of a method's object, and what functions called by such names read.
Reads are found in compiled code. So reads by `getattr` or in a package's function are not seen. Values that the function
itself writes are left out, since they differ in each step.
"""

import dis
import functools
import types
from dataclasses import dataclass
from itertools import chain

import torch
from torch.nn.modules import module as of_modules

from ..tracing.locations import is_of_library, is_of_user, place_of

_VARIABLES = {
    "LOAD_GLOBAL": "global",
    "LOAD_NAME": "global",
    "LOAD_DEREF": "cell",
    "LOAD_FAST": "local",
}
_WRITES = ("STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR")
_CALLED = (types.FunctionType, types.MethodType, functools.partial, torch.nn.Module)
_NOTHING = ("CACHE", "COPY", "EXTENDED_ARG", "NOP", "PRECALL", "RESUME")


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
    return [_Called(f, owner) for f in unwrapped(function)]


def unwrapped(function):
    """A function, and those that it wraps, if it is a decorator's."""
    found = []
    while isinstance(function, types.FunctionType) and function not in found:
        found.append(function)
        function = vars(function).get("__wrapped__")
    return found


@dataclass(frozen=True)
class Entry:
    """Where a value is: `get()` gives it, None for none. `owner` is the dict or the class that has it under `key`, if one has."""

    value: object
    owner: dict | type | None = None
    key: object = None
    read: object = None

    @property
    def cell(self):
        """The one of a closure that it is in, or None."""
        of_cell = self.owner is None and self.read.func is _contents
        return self.read.args[0] if of_cell else None

    @property
    def is_variable(self):
        return self.owner is not None or self.cell is not None

    @property
    def holder(self):
        """The list, or the object with slots, that it is in, or None."""
        if self.owner is None and self.read.func is _item:
            return self.read.args[0]
        return self.read.args[1] if self.owner is None and self.read.func is _of_slot else None

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
    for part in PARTS_OF_MODULES if isinstance(value, torch.nn.Module) else ():
        if name in held.get(part, ()):
            return [_of_dict(held[part], name)]
    kinds = value.__mro__ if isinstance(value, type) else type(value).__mro__
    kind = next((kind for kind in kinds if name in vars(kind)), None)
    if kind is None:
        return entries
    found = vars(kind)[name]
    if isinstance(found, types.MemberDescriptorType) and not isinstance(value, type):
        return [_of_others(functools.partial(_of_slot, found, value))]
    return [*entries, Entry(found, kind, name)]


def _of_slot(member, value):
    """None where it has no value yet."""
    try:
        return member.__get__(value)
    except AttributeError:
        return None


def _of_instance(value, found):
    """What an attribute of the class is as one of an instance."""
    is_method = isinstance(found, types.FunctionType) and not isinstance(value, (type, dict))
    return types.MethodType(found, value) if is_method else found


def _follow(variables, kind, name, steps):
    """(entries, values) of a variable, and of what is found in it by attributes and keys, as far as these are there."""
    if name not in variables:
        return [], []
    value, entries = variables[name], []
    if kind == "cell":
        entries = [_of_others(functools.partial(_contents, value))]
    elif kind == "global":
        entries = [_of_dict(variables, name)]
    values = [entries[-1].value if entries else value]
    for is_key, step in steps:
        found = (_of_key if is_key else _of_attribute)(values[-1], step)
        if not found:
            break
        entries += found
        last, value = found[-1], values[-1]
        values.append(
            _of_instance(value, last.value) if isinstance(last.owner, type) else last.value
        )
    return entries, values


def _getter(value):
    """The function behind an attribute that is computed, or None."""
    if isinstance(value, property):
        return value.fget
    return value.func if isinstance(value, functools.cached_property) else None


def _is_method_of_others(value):
    """Whether it runs code that is not followed, on the object that it was found in."""
    function = getattr(value, "__func__", value)
    if isinstance(function, types.FunctionType):
        return isinstance(value, types.MethodType) and not is_of_user(function)
    return isinstance(value, (types.MethodDescriptorType, types.WrapperDescriptorType))


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


def _is_for_super(instructions, i):
    """Whether it is the object that `super()` gets."""
    return i > 0 and instructions[i - 1].argval == "__class__"


def _key_before(instructions):
    """{the constant key under which what follows these stores}, also by `+=`, which has read it."""
    at = len(instructions) - 1
    if at > 0 and instructions[at].opname == "SWAP":
        reads = (i for i in range(at, 0, -1) if instructions[i].opname == "BINARY_SUBSCR")
        at = next(reads, 0) - 1
    is_constant = at >= 0 and instructions[at].opname == "LOAD_CONST"
    return {instructions[at].argval} if is_constant else set()


@functools.lru_cache(maxsize=4096)
def _paths(code):
    """({(kind of variable, name, steps): the first line} that it reads, those of them that it does not write, those that it uses as
    wholes).
    """
    paths, wholes, written = {}, set(), set()
    for own, instructions in _instructions(code):
        for i, instruction in enumerate(instructions):
            kind = _VARIABLES.get(instruction.opname)
            if kind in ("local", "cell"):
                # The object whose method it is, also within a comprehension.
                is_first = code.co_argcount and instruction.argval == code.co_varnames[0]
                is_self = is_first and (own is code or kind == "cell")
                kind = "local" if is_self else "cell" if kind == "cell" else None
            if kind and not _is_for_super(instructions, i):
                steps = _steps(instructions[i + 1 :])
                for n in range(len(steps) + 1):
                    path = (kind, instruction.argval, tuple(steps[:n]))
                    paths.setdefault(path, instruction.positions.lineno)
                wholes.add((kind, instruction.argval, tuple(steps)))
            if instruction.opname in _WRITES:
                written.add(instruction.argval)
            if instruction.opname == "STORE_SUBSCR":
                written |= _key_before(instructions[:i])
    unwritten = {p for p in paths if (p[2][-1][1] if p[2] else p[1]) not in written}
    return paths, unwritten, wholes


def _variables_of(called):
    """{kind: {name: value, or its cell}, for each kind of variables}."""
    code, closure = called.function.__code__, called.function.__closure__ or ()
    has_owner = called.owner is not None and code.co_argcount > 0
    own = {code.co_varnames[0]: called.owner} if has_owner else {}
    cells = dict(zip(code.co_freevars, closure, strict=True))
    return {"global": called.function.__globals__, "cell": cells, "local": own}


@dataclass
class Reads:
    """`found` are {name: (entries, value)} of what is read under a name, `wholes` {name: value} of what is handed on, looped over, or
    asked by a method that is not the user's: all that is in it may count. `touched` are as `found`, with what the functions write.
    `places` are {name: where it is read}.
    """

    found: dict
    wholes: dict
    touched: dict
    places: dict


def reads_of(functions, modules=()):
    """The `Reads` of functions past their arguments; of methods of `modules`, a dict by id, without what the attributes of these are
    themselves, but for tensors.
    """
    reads, seen = Reads({}, {}, {}, {}), set()
    pending = [called for function in functions for called in _called(function)]
    for function in functions:
        _add_arguments(reads, function, "the loss")
    while pending:
        called = pending.pop()
        if (called.function, id(called.owner)) in seen:
            continue
        seen.add((called.function, id(called.owner)))
        pending += _reads_of_one(reads, called, modules)
    return reads


def _reads_of_one(reads, called, modules):
    """Adds what one function reads. Returns those that it calls."""
    variables, where = _variables_of(called), called.function.__qualname__
    least = 2 if id(called.owner) in modules else 1
    of, calls = modules[id(called.owner)] if least == 2 else where, []
    _add_arguments(reads, called.function, where)
    paths, unwritten, wholes = _paths(called.function.__code__)
    # An object that is handed on whole may be the first argument of what is called.
    owners = [called.owner] if any(kind == "local" and not s for kind, _, s in wholes) else []
    for kind, name, steps in sorted(paths, key=str):
        entries, values = _follow(variables[kind], kind, name, steps)
        value, is_there = values[-1] if values else None, len(values) > len(steps)
        text, behind = (
            f"{_text(name, part)!r}, which {of if kind == 'local' else where} reads"
            for part in (steps, steps[:-1])
        )
        place = place_of(called.function, paths[kind, name, steps])
        reads.places = {text: place, behind: place} | reads.places
        enough = len(steps) >= (1 if isinstance(value, torch.Tensor) else least)
        if is_there and _is_registered(entries, values, modules):
            continue  # What the model has is followed as its values.
        if is_there and entries and (kind != "local" or enough):
            reads.touched[text] = entries, value
            if (kind, name, steps) in unwritten:
                reads.found[text] = entries, value
        if (kind, name, steps) in wholes and values and not (kind == "local" and len(values) == 1):
            is_method = _is_method_of_others(value) and values[1:]
            reads.wholes[behind if is_method else text] = values[-2] if is_method else value
        if is_there and (getter := _getter(value)) is not None and values[1:]:
            calls += _called(types.MethodType(getter, values[-2]))
        if is_there and isinstance(value, _CALLED):
            new = [c for c in _called(value) if kind == "cell" or is_of_user(c.function)]
            calls += new + [_Called(c.function, o) for c in new for o in owners if not c.owner]
            _add_arguments(reads, value, text)
    return calls


def _is_registered(entries, values, modules):
    """Whether it is a parameter or a buffer of one of `modules`."""
    if not entries or not values[1:] or id(values[-2]) not in modules:
        return False
    held = vars(values[-2])
    return any(entries[-1].owner is held[part] for part in ("_parameters", "_buffers"))


def _text(name, steps):
    return name + "".join(f"[{n!r}]" if key else f".{n}" for key, n in steps)


def _add_arguments(reads, function, what):
    """Those that come with it: of `functools.partial`, and defaults."""
    if isinstance(function, functools.partial):
        for name in ("args", "keywords"):
            reads.wholes[f"{what}: its {name}"] = getattr(function, name)
    elif isinstance(function, types.FunctionType):
        for name in ("__defaults__", "__kwdefaults__"):
            entry = _of_others(functools.partial(getattr, function, name))
            if entry.value:
                reads.found[f"{what}: its {name}"] = [entry], entry.value
                reads.wholes[f"{what}: its {name}"] = entry.value


def code_of(modules, loss_fn):
    """The functions of the user's that a forward pass runs: the loss, and those of `modules`, [(name, module)], with the classes that these
    are derived from, and hooks.
    """
    yield loss_fn
    for _, module in modules:
        own = [module.__dict__["forward"]] if "forward" in module.__dict__ else []
        kinds = [vars(k)["forward"] for k in type(module).__mro__ if "forward" in vars(k)]
        for forward in own + kinds:
            for function in unwrapped(getattr(forward, "__func__", forward)):
                if not is_of_library(function):
                    yield types.MethodType(function, module)
        hooks = chain.from_iterable(getattr(module, name).values() for name in HOOKS)
        yield from _of_user(hooks)
    yield from _of_user(chain.from_iterable(hooks.values() for hooks in global_hooks().values()))
    for _, module in modules:
        for parameter in module._parameters.values():
            yield from _of_user((getattr(parameter, "_backward_hooks", None) or {}).values())


def _of_user(hooks):
    return [h for h in hooks if not (isinstance(h, types.FunctionType) and is_of_library(h))]


# Attributes of a module that hold what it names.
PARTS_OF_MODULES = ("_parameters", "_buffers", "_modules")

# {attribute of a module: what it holds}.
HOOKS = {
    "_forward_pre_hooks": "forward pre-hooks",
    "_forward_hooks": "forward hooks",
    "_backward_pre_hooks": "backward pre-hooks",
    "_backward_hooks": "backward hooks",
}


def global_hooks():
    """{attribute of a module: the hooks of all modules}."""
    return {name: getattr(of_modules, f"_global{name}") for name in HOOKS}


def read_outside(function, kinds):
    """{name: value} of all that has one of these types now."""
    found = reads_of([function]).found
    return {name: value for name, (_, value) in found.items() if type(value) in kinds}
