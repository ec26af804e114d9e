"""Snapshots of Python objects: entries of containers, attributes of objects with classes in Python.

Parts are read and written by methods of built-in types, so no overridden method of a user runs.
"""

import enum
import numbers
import threading
import types
from collections import OrderedDict, deque
from itertools import chain

import torch

from .python_state import name_of_place

# Elements that one snapshot reads beside the attributes of modules and the containers in these: some 10 ms.
_MOST = 100_000
# Their attributes are no part of a model: the tracer has tensors of its own, and the others are the program.
_OTHERS = (torch.Tensor, type, types.ModuleType, types.FunctionType, types.MethodType)
_CODE = (types.FunctionType, staticmethod, classmethod, property, types.MemberDescriptorType)
_IS_HEAP_TYPE = 1 << 9
_LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Condition, threading.Thread)
# Modules hold objects, these hold containers, and these what a forward pass has left.
_DEEPEST = 5
_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))
# Entries of what is read as a whole, and of one container in it: more are data.
_MOST_READ, _LONGEST = 2000, 1000
_NAMED = (numbers.Number, str, bytes, type(None), enum.Enum, range, slice)
_NAMED += (torch.dtype, torch.device, torch.layout, torch.memory_format)


def is_plain(value):
    """Whether its text says all of it: numbers, texts, and what names one way of several."""
    if type(value) in (tuple, torch.Size):
        return len(value) <= _LONGEST and all(map(is_plain, value))
    return type(value) in _PLAIN or isinstance(value, _NAMED)


def are_same(now, before):
    """By identity: an equal value of another type is another one."""
    return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))


class _Part:
    """What an object holds, as `before`; `now()` is what it holds now, as a list, and `put` writes such a list."""

    # Whether these are the attributes of a module, or a container that one holds by containers alone.
    is_of_module = is_near = False

    @property
    def identity(self):
        return id(self.owner), type(self)

    def restore(self):
        if not are_same(self.now(), self.before):
            self.put(self.before)


class _Dict(_Part):
    """Of dicts and what is derived from them."""

    def __init__(self, owner):
        self.owner = owner
        self._base = OrderedDict if isinstance(owner, OrderedDict) else dict
        self.before = self.now()

    def now(self):
        return list(chain.from_iterable(self._base.items(self.owner)))

    def entries(self):
        """[(how it is named behind the owner, entry)]."""
        pairs = zip(self.before[::2], self.before[1::2], strict=True)
        return [(f"[{_named(key)}]", entry) for key, entry in pairs]

    def put(self, values):
        self._base.clear(self.owner)
        for key, value in zip(values[::2], values[1::2], strict=True):
            self._base.__setitem__(self.owner, key, value)


def _named(key):
    return repr(key) if is_plain(key) else f"a {type(key).__qualname__}"


class _Attributes(_Dict):
    def entries(self):
        pairs = zip(self.before[::2], self.before[1::2], strict=True)
        return [(f".{key}", entry) for key, entry in pairs]


class _Sequence(_Part):
    """Of lists and deques."""

    def __init__(self, owner):
        self.owner, self._base = owner, list if isinstance(owner, list) else deque
        self.before = self.now()

    def now(self):
        return list(self._base.__iter__(self.owner))

    def entries(self):
        return [(f"[{i}]", entry) for i, entry in enumerate(self.before)]

    def put(self, values):
        self._base.clear(self.owner)
        self._base.extend(self.owner, values)


class _Set(_Part):
    def __init__(self, owner):
        self.owner, self.before = owner, list(set.__iter__(owner))

    def now(self):
        now = list(set.__iter__(self.owner))
        same = set(map(id, now)) == set(map(id, self.before))
        return self.before if same else now

    def entries(self):
        return [(f"{{{entry!r}}}", entry) for entry in self.before if is_plain(entry)]

    def put(self, values):
        set.clear(self.owner)
        set.update(self.owner, values)


class _Tuple(_Part):
    """Which cannot change; what it holds can."""

    def __init__(self, owner):
        self.owner, self.before = owner, list(tuple.__iter__(owner))

    def now(self):
        return self.before

    def entries(self):
        return [(f"[{i}]", entry) for i, entry in enumerate(self.before)]


_MISSING = object()


class _Slots(_Part):
    """Of objects whose class names their attributes."""

    def __init__(self, owner, members):
        self.owner, self._members = owner, members
        self.before = self.now()

    def now(self):
        return [self._get(member) for member in self._members]

    def _get(self, member):
        try:
            return member.__get__(self.owner)
        except AttributeError:
            return _MISSING

    def entries(self):
        pairs = zip(self._members, self.before, strict=True)
        return [(f".{m.__name__}", entry) for m, entry in pairs if entry is not _MISSING]

    def put(self, values):
        for member, value in zip(self._members, values, strict=True):
            if value is not _MISSING:
                member.__set__(self.owner, value)
            elif self._get(member) is not _MISSING:
                member.__delete__(self.owner)


class OfClass(_Part):
    """What a class holds, but for what Python and its functions are."""

    def __init__(self, owner):
        self.owner = owner
        self.before = self.now()

    def now(self):
        own = [
            (key, value)
            for key, value in vars(self.owner).items()
            if not key.startswith("__") and not isinstance(value, _CODE)
        ]
        return list(chain.from_iterable(own))

    def put(self, values):
        own = dict(zip(values[::2], values[1::2], strict=True))
        for key in set(self.now()[::2]) - own.keys():
            type.__delattr__(self.owner, key)
        for key, value in own.items():
            type.__setattr__(self.owner, key, value)


class Variable(_Part):
    """One entry of a dict or a class, or the content of a cell: an `outside.Entry`."""

    def __init__(self, entry):
        self._entry, self.before = entry, None
        self.before = self.now()

    @property
    def identity(self):
        owner = self._entry.cell if self._entry.owner is None else self._entry.owner
        return id(owner), self._entry.key

    def _mapping(self):
        owner = self._entry.owner
        return vars(owner) if isinstance(owner, type) else owner

    def now(self):
        if self._entry.owner is None:
            return [self._entry.get()]
        return [self._mapping().get(self._entry.key, _MISSING)]

    def put(self, values):
        owner, key, value = self._entry.owner, self._entry.key, values[0]
        is_class, is_gone = isinstance(owner, type), value is _MISSING
        if owner is None:
            self._entry.cell.cell_contents = value
        elif is_class and is_gone:
            type.__delattr__(owner, key)
        elif is_class:
            type.__setattr__(owner, key, value)
        elif is_gone:
            dict.pop(owner, key, None)
        else:
            dict.__setitem__(owner, key, value)


_KINDS = ((dict, _Dict), ((list, deque), _Sequence), (set, _Set), (tuple, _Tuple))


def _slots_of(kind):
    """Members of classes written in C are read only, and may be another object at each look."""
    bases = [vars(base) for base in kind.__mro__ if "__slots__" in vars(base)]
    members = chain.from_iterable(base.values() for base in bases)
    return [member for member in members if isinstance(member, types.MemberDescriptorType)]


def _attributes_of(value):
    """Those of an object whose class is written in Python."""
    kind = type(value)
    is_python = kind.__flags__ & _IS_HEAP_TYPE or kind is types.SimpleNamespace
    if not is_python or issubclass(kind, _OTHERS):
        return
    attributes = kind.__dictoffset__ and object.__getattribute__(value, "__dict__")
    if type(attributes) is dict:
        yield _Attributes(attributes)
    slots = _slots_of(kind)
    if slots:
        yield _Slots(value, slots)


def parts_of(value):
    """What a snapshot keeps of an object: contents and attributes. Nothing of one that has a lock: other threads may write to it."""
    parts = [make(value) for base, make in _KINDS if issubclass(type(value), base)]
    parts += _attributes_of(value)
    shared = any(issubclass(type(each), _LOCKS) for part in parts for each in part.before)
    return [] if shared else parts


def _is_whole(value):
    kind = type(value)
    return (
        is_plain(value)
        or issubclass(kind, (*_OTHERS, torch.nn.Module))
        or (kind.__module__.startswith(("torch.", "tandem.")) and kind.__module__ != "torch")
    )


def contents(value):
    """[(place, part)] of what is below a value that is read as a whole, a level behind the other. Tensors, modules, functions, and
    objects of PyTorch's are wholes.
    """
    pending, seen, left, found = deque([("", value)]), set(), _MOST_READ, []
    while pending and left > 0:
        place, value = pending.popleft()
        if id(value) in seen or _is_whole(value):
            continue
        seen.add(id(value))
        for part in parts_of(value):
            if len(part.before) <= _LONGEST:
                left -= len(part.before)
                found.append((place, part))
                pending.extend((place + name, entry) for name, entry in part.entries())
    return found


class Snapshot:
    """What a model's Python objects hold: the attributes of all modules, and of the objects and containers that these hold. `parts` are
    [(name, part)].
    """

    def __init__(self, model):
        self.parts, seen = [], set()
        level = [(f"{name_of_place('module', n)}: ", m, True) for n, m in model.named_modules()]
        self._left = _MOST
        for depth in range(_DEEPEST):
            level = [each for each in level if type(each[1]) not in _PLAIN]
            level = list({id(each[1]): each for each in reversed(level)}.values())[::-1]
            level = [each for each in level if id(each[1]) not in seen]
            seen.update(id(value) for _, value, _ in level)
            level = [found for each in level for found in self._take(*each, depth)]

    def _take(self, name, value, is_near, depth):
        """Notes a value, and returns what it holds. Those of the modules themselves, which are near, always."""
        found = []
        for part in parts_of(value) if depth < 2 or self._left > 0 else ():
            self._left -= 0 if depth < 2 else len(part.before)
            part.is_of_module = depth == 0 and isinstance(part, _Attributes)
            part.is_near = is_near and (depth == 0 or not isinstance(part, (_Attributes, _Slots)))
            self.parts.append((name, part))
            for entry, below in part.entries():
                entry = f"attribute {entry[1:]!r}" if part.is_of_module else entry
                found.append((name + entry, below, part.is_near))
        return found
