"""Buffers that a step replaces by other tensors.

In eager they share memory with the new tensor, and no longer with the old one. A captured step is the same each time, so
this matters only for writes.
"""

from dataclasses import dataclass

from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot

from ..base.memory import View, title, view_in
from ..base.types import as_real
from ..errors import CaptureError
from ..tracing.arguments import kind_of
from ..tracing.reads import storages_of, written_by


class Parted(Exception):
    """Buffers that are traced as views, and are not behind the step: `names`."""

    def __init__(self, names):
        super().__init__(names)
        self.names = names


@dataclass
class Placed:
    """A buffer's value behind the step: a view of what the step makes of an argument."""

    key: str
    view: View


def storages_written():
    """Of the trace so far."""
    return set().union(*map(written_by, get_proxy_mode().tracer.graph.nodes))


class Rebound:
    """Of one trace. `held` are {name: buffer as the model had it}, `now` what it has; `fakes` the arguments by key."""

    def __init__(self, identity, held, now, fakes):
        self._identity, self._now, self._fakes = identity, now, fakes
        self.names = {name for name, tensor in now.items() if tensor is not held[name]}
        self._key_of = {s: key for key, fake in fakes.items() for s in storages_of(fake)}

    def check(self, arguments):
        """Raises Parted, or CaptureError. `arguments` are the buffers with a value of their own."""
        views = self._identity.owner_of
        gone = {f"buffer/{name}" for name in self.names}
        parted = {name for name, owner in views.items() if name in self.names or owner in gone}
        if parted:
            raise Parted(parted)
        for argument in arguments:
            if argument.name in self.names:
                self._check_kind(argument)
        written = storages_written() if self.names else ()
        for name in sorted(self.names) if written else ():
            others = self._sharing(name)
            own = {f"buffer/{name}"} if others else set()
            if any(storages_of(self._fakes[key]) & written for key in others | own):
                raise CaptureError(
                    f"buffer {name!r}: the step puts another tensor in its place, and writes to memory that it shares before or"
                    f" after with {title(min(others))}; expected one of the two: a write in place, such as copy_, or memory of"
                    " its own (clone())"
                )

    def _check_kind(self, argument):
        now = as_real(self._now[argument.name])
        if tuple(now.shape) != tuple(argument.shape) or now.dtype != argument.dtype:
            raise CaptureError(
                f"{_place(self._now[argument.name])}buffer {argument.name!r}: the step puts a tensor {kind_of(now)} in its place,"
                f" expected {kind_of(argument)}, as a step stores it, or an attribute that is no buffer"
            )

    def _sharing(self, name):
        """The keys of the other arguments that share memory with a buffer before the step, or behind it."""
        found = self._identity.together(name)
        storages = storages_of(self._now[name])
        found |= {self._key_of[s] for s in storages if s in self._key_of}
        found |= {
            f"buffer/{other}"
            for other in self.names - {name}
            if storages_of(self._now[other]) & storages
        }
        return found - {f"buffer/{name}"}

    def value(self, argument):
        """What is there behind the step: a tensor, or `Placed`."""
        now = as_real(self._now[argument.name])
        key = next((self._key_of[s] for s in storages_of(now) if s in self._key_of), None)
        if key is None:
            return now
        view = view_in(self._fakes[key], now)
        if view is None:
            raise CaptureError(
                f"buffer {argument.name!r}: the step leaves a part of {title(key)} there that is no view of it, expected"
                " memory of its own (clone())"
            )
        return Placed(key, view)


def _place(tensor):
    tracer = get_proxy_mode().tracer
    node = get_proxy_slot(tensor, tracer, None, lambda slot: slot.proxy.node)
    origin = node.meta.get("tandem") if node is not None else None
    return f"{origin.location}: " if origin is not None else ""
