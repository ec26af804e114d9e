"""Contents of a model's Python objects before a capture, and what puts them back.

A snapshot has the attributes of all modules, and of the objects and containers that these hold: dicts, lists, sets, deques,
classes of the user's derived from them, and objects with attributes. It reads and writes them by the methods of the built-in
types, so that no method that a user has overridden runs, and writes only to those that have changed.
"""

import threading
import types
from collections import OrderedDict, deque
from itertools import chain

import torch

# Elements that one snapshot reads beside the attributes of modules and the containers in these: some 10 ms.
_MOST = 100_000
# Their attributes are no part of a model: the tracer has tensors of its own, and the others are the program.
_OTHERS = (torch.Tensor, type, types.ModuleType, types.FunctionType, types.MethodType)
_IS_HEAP_TYPE = 1 << 9
_LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Condition, threading.Thread)
# Modules hold objects, these hold containers, and these what a forward pass has left.
_DEEPEST = 5
_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))


def _are_same(now, before):
    """By identity: an equal value of another type is another one."""
    return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))


class _Dict:
    """Of dicts and what is derived from them."""

    def __init__(self, owner):
        self._owner = owner
        self._base = OrderedDict if isinstance(owner, OrderedDict) else dict
        self.before = self._now()

    def _now(self):
        return [part for pair in self._base.items(self._owner) for part in pair]

    def restore(self):
        if _are_same(self._now(), self.before):
            return
        self._base.clear(self._owner)
        for key, value in zip(self.before[::2], self.before[1::2], strict=True):
            self._base.__setitem__(self._owner, key, value)


class _Sequence:
    """Of lists and deques."""

    def __init__(self, owner):
        self._owner, self._base = owner, list if isinstance(owner, list) else deque
        self.before = self._now()

    def _now(self):
        return list(self._base.__iter__(self._owner))

    def restore(self):
        if not _are_same(self._now(), self.before):
            self._base.clear(self._owner)
            self._base.extend(self._owner, self.before)


class _Set:
    def __init__(self, owner):
        self._owner, self.before = owner, list(set.__iter__(owner))

    def restore(self):
        now = set(map(id, set.__iter__(self._owner)))
        if now != set(map(id, self.before)):
            set.clear(self._owner)
            set.update(self._owner, self.before)


class _Tuple:
    """Which cannot change; what it holds can."""

    def __init__(self, owner):
        self.before = list(tuple.__iter__(owner))

    def restore(self):
        pass


_MISSING = object()


class _Slots:
    """Of objects whose class names their attributes."""

    def __init__(self, owner, members):
        self._owner, self._members = owner, members
        self.before = self._now()

    def _now(self):
        return [self._get(member) for member in self._members]

    def _get(self, member):
        try:
            return member.__get__(self._owner)
        except AttributeError:
            return _MISSING

    def restore(self):
        for member, value in zip(self._members, self.before, strict=True):
            now = self._get(member)
            if now is value:
                continue
            if value is _MISSING:
                member.__delete__(self._owner)
            else:
                member.__set__(self._owner, value)


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
        yield _Dict(attributes)
    slots = _slots_of(kind)
    if slots:
        yield _Slots(value, slots)


def _parts_of(value):
    """What a snapshot keeps of an object: contents and attributes. Nothing of one that has a lock: other threads may write to it."""
    parts = [make(value) for base, make in _KINDS if issubclass(type(value), base)]
    parts += _attributes_of(value)
    shared = any(issubclass(type(each), _LOCKS) for part in parts for each in part.before)
    return [] if shared else parts


class Snapshot:
    def __init__(self, model):
        self._parts, seen, level = [], set(), list(model.modules())
        self._left = _MOST
        for depth in range(_DEEPEST):
            level = [v for v in level if type(v) not in _PLAIN and id(v) not in seen]
            level = list({id(v): v for v in level}.values())
            seen.update(map(id, level))
            level = list(chain.from_iterable(self._take(value, depth < 2) for value in level))

    def _take(self, value, is_near):
        """Notes a value, and returns what it holds. Those of the modules themselves, which are near, always."""
        found = []
        for part in _parts_of(value) if is_near or self._left > 0 else ():
            self._left -= 0 if is_near else len(part.before)
            self._parts.append(part)
            found += part.before
        return found

    def restore(self):
        for part in self._parts:
            part.restore()
