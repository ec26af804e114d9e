"""Probes: numbers that answer comparisons differently, to find counts that decide something in later steps.

The first two steps may be alike although a count in Python decides something later. A comparison of a probe has the
other truth, once for each place in the code. Rounding, such as `//`, gives one more. If a step traced with probes has
the same graph, the number decides nothing, such as one that says when to log.
"""

import sys


class _Probe:
    """Of what a kind of number computes exactly, another one of these; what it asks, each place in the code once otherwise."""

    asked = frozenset()  # of the trace that runs

    def __bool__(self):
        return _otherwise(bool(self._kind(self)))

    def __hash__(self):
        return hash(self._kind(self))


def _otherwise(truth):
    frame = sys._getframe(2)
    place = frame.f_code, frame.f_lasti
    if place in _Probe.asked:
        return truth
    _Probe.asked |= {place}
    return not truth


def _exact(name):
    def computed(self, *others):
        result = getattr(self._kind, name)(self, *others)
        return result if result is NotImplemented else probe(result)

    return computed


def _rounding(name):
    def computed(self, *others):
        result = getattr(self._kind, name)(self, *others)
        return result if result is NotImplemented else probe(result + 1)

    return computed


def _asking(name):
    def asked(self, *others):
        result = getattr(self._kind, name)(self, *others)
        return result if result is NotImplemented else _otherwise(result)

    return asked


_EXACT = "add radd sub rsub mul rmul neg pos abs pow truediv rtruediv"
_ROUNDING = "floordiv mod"
_ASKING = "lt le gt ge eq ne"


def _kind_of(kind):
    made = {"_kind": kind}
    for names, make in ((_EXACT, _exact), (_ROUNDING, _rounding), (_ASKING, _asking)):
        made |= {f"__{n}__": make(f"__{n}__") for n in names.split() if hasattr(kind, f"__{n}__")}
    # A class with an `__eq__` of its own has no hash.
    return type(f"{kind.__name__}_probe", (_Probe, kind), made | {"__hash__": _Probe.__hash__})


_KINDS = {kind: _kind_of(kind) for kind in (int, float)}


def probe(number):
    """One that answers otherwise; what is none is itself."""
    kind = _KINDS.get(type(number))
    return number if kind is None else kind(number)


def begin():
    """A trace begins, in which nothing was asked yet."""
    _Probe.asked = frozenset()
