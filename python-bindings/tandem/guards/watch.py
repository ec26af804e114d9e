"""Detection of changes to the torch model or optimizer that their step would not use.

Detected are: another tensor under a name of the model (`load_state_dict(assign=True)`, `to_empty`), a write to one
(`load_state_dict`, `copy_`, `torch.optim`, a counting forward pass), other memory (`p.data = ...`), another state of the
optimizer (`optimizer.load_state_dict`), or a write to a tensor in it. PyTorch does not count writes through
`p.data.copy_(...)`, NumPy or a pointer. With `TANDEM_WATCH=N` every Nth step hashes all values.
"""

import gc
import operator
import os
import sys
import warnings
import zlib
from collections import defaultdict

import torch
from torch.optim.lr_scheduler import LRScheduler

from ..base.types import as_real
from ..errors import StateError
from ..tracing.unregistered import places_of


class _Tensors:
    """Tensors as they were. Asked at each step, so that all is in lists."""

    def __init__(self, tensors):
        self._tensors = tensors
        # PyTorch does not count the writes to tensors that were made in inference mode.
        self._counted = [t for t in tensors if not t.is_inference()]
        self._marks = self._now()

    def _now(self):
        return [t._version for t in self._counted], [t.data_ptr() for t in self._tensors]

    def are_changed(self):
        """Whether one may have other values now."""
        return self._now() != self._marks

    def changed(self):
        """Those that may."""
        versions, pointers = self._marks
        found = [t for t, mark in zip(self._counted, versions, strict=True) if t._version != mark]
        return found + [
            t for t, mark in zip(self._tensors, pointers, strict=True) if t.data_ptr() != mark
        ]


def watch_period():
    """Of how many steps each one hashes all values; 0 for none."""
    text = os.environ.get("TANDEM_WATCH", "0")
    if not text.isdecimal():
        raise StateError(f"TANDEM_WATCH is {text!r}, expected a number of steps, or 0 for none")
    return int(text)


def hash_of(tensor):
    """CRC-32 of the values."""
    if tensor.is_meta or tensor.layout != torch.strided:
        return 0
    bits = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return zlib.crc32(bits.numpy())


class _Hashes:
    """Of tensors as they were."""

    def __init__(self, tensors):
        self._tensors = tensors
        self._before = list(map(hash_of, tensors))

    def changed(self):
        """Those that have other values now."""
        pairs = zip(self._tensors, self._before, strict=True)
        return [tensor for tensor, before in pairs if hash_of(tensor) != before]


def _places(model, optimizer):
    """[(name, dict of its module, key)] of parameters and buffers, also under their other names."""
    beside = [(place.name, place, place.key) for place in places_of(model, optimizer)]
    return beside + [
        (f"{prefix}.{key}" if prefix else key, tensors, key)
        for prefix, module in model.named_modules(remove_duplicate=False)
        for tensors in (module._parameters, module._buffers)
        for key, tensor in tensors.items()
        if tensor is not None
    ]


def _modules(model):
    """[(module, those below it, how many parameters it has)] of the tree as it is."""
    return [(m, list(m._modules.values()), len(m._parameters)) for m in model.modules()]


class _Noting(defaultdict):
    """A state that counts how often it was cleared, as one without entries looks the same afterwards. Copies are plain."""

    clears = 0

    def clear(self):
        self.clears += 1
        super().clear()

    def __reduce__(self):
        return defaultdict, (self.default_factory,), None, None, iter(self.items())


def _note_clears(optimizer):
    """Where nothing else has the state of an optimizer, it is put into one that notes when it is cleared."""
    held = vars(optimizer)
    # The entry there and the argument.
    if type(held.get("state")) is defaultdict and sys.getrefcount(held["state"]) == 2:
        held["state"] = _Noting(held["state"].default_factory, held["state"])


def is_equal(a, b):
    """To the bit, so that a NaN is itself."""
    if not isinstance(a, torch.Tensor) or a.is_meta or a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = (t.detach().cpu().contiguous().reshape(-1).view(torch.uint8) for t in (a, b))
    return torch.equal(a, b)


class Watch:
    def __init__(self, model, optimizer):
        self.model, self._optimizer = model, optimizer
        self._period, self._steps = watch_period(), 0
        self._rewritten, self._is_state_rewritten = [], False
        self._grouped = self._parameters()
        # Those that are there before the first step are what is left of other work.
        self._knows_gradients = any(p.grad is not None for p in self._grouped)
        self._names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        self.begin()

    def _parameters(self):
        return [p for group in self._optimizer.param_groups for p in group["params"]]

    def check_groups(self):
        """StateError unless the groups have the tensors that the step was compiled with."""
        now = self._parameters()
        if not self._knows_gradients and any([p.grad is not None for p in now]):
            self._knows_gradients = True
            warnings.warn(
                "step: parameters have gradients, which eager adds its own to, and a step does not; expected"
                " optimizer.zero_grad() before the step",
                stacklevel=2,
            )
        if len(now) != len(self._grouped) or not all(map(operator.is_, now, self._grouped)):
            raise StateError(
                "optimizer: its parameter groups hold other tensors than when the step was compiled, expected the"
                " same, or another call of tandem.compile"
            )

    def begin(self, with_model=True, with_optimizer=True):
        """What is there now is what the step has."""
        if with_model:
            self._places, self._modules = _places(self.model, self._optimizer), _modules(self.model)
            self._held = [tensors.get(key) for _, tensors, key in self._places]
            self._tensors, self._rewritten = _Tensors(self._held), []
            self._hashes = _Hashes(self._held if self._period else [])
        if with_optimizer:
            _note_clears(self._optimizer)
            self._state = self._optimizer.state
            self._clears = getattr(self._state, "clears", 0)
            self._entries, self._is_state_rewritten = len(self._state), False
            entries = [t for e in self._state.values() for t in e.values()]
            entries = [t for t in entries if isinstance(t, torch.Tensor)]
            self._state_tensors = _Tensors(entries)
            self._state_hashes = _Hashes(entries if self._period else [])

    def count(self):
        """A step begins: of `TANDEM_WATCH` steps one looks at all values, which is returned."""
        self._steps += 1
        looks = self._period > 0 and self._steps % self._period == 0
        if looks:
            self._rewritten = self._hashes.changed()
            self._is_state_rewritten = bool(self._state_hashes.changed())
        return looks

    def _changed(self):
        """The places where there may be other values now."""
        written = {id(tensor) for tensor in [*self._tensors.changed(), *self._rewritten]}
        return [
            place
            for place, held in zip(self._places, self._held, strict=True)
            if place[1].get(place[2]) is not held or id(held) in written
        ]

    def _exchanged(self):
        """The places with other tensors than before, in modules that were put into the model."""
        if self._has_same_modules():
            return []
        held = {name: tensor for (name, *_), tensor in zip(self._places, self._held, strict=True)}
        return [
            place
            for place in _places(self.model, self._optimizer)
            if place[1].get(place[2]) is not held.get(place[0])
        ]

    def _has_same_modules(self):
        return all(
            len(m._parameters) == count
            and len(m._modules) == len(children)
            and all(map(operator.is_, m._modules.values(), children))
            for m, children, count in self._modules
        )

    def other_names(self):
        """A StateError unless the model has the parameters that were captured."""
        now = {name for name, _ in self.model.named_parameters(remove_duplicate=False)}
        for name in sorted(now ^ self._names):
            return StateError(
                f"model: parameter {name!r} is {'new' if name in now else 'gone'} since tandem.compile captured it, expected"
                " the same parameters, or another call of tandem.compile"
            )
        return None

    def _suspected(self):
        """Those, and the buffers beside them: PyTorch counts the batches of a normalisation, not the
        writes to its statistics.
        """
        changed = self._changed() + self._exchanged()
        modules = {id(tensors) for _, tensors, _ in changed}
        beside = [p for p in self._places if id(p[1]) in modules and p not in changed]
        return changed + [p for p in beside if not isinstance(p[1].get(p[2]), torch.nn.Parameter)]

    def has_other_state(self):
        """Whether the optimizer's may be."""
        state = self._optimizer.state
        return (
            state is not self._state
            or len(state) != self._entries
            or getattr(state, "clears", 0) != self._clears
            or self._state_tensors.are_changed()
            or self._is_state_rewritten
        )

    def changed(self):
        """Whether anything may have other values now: a microsecond for four tensors."""
        current = (tensors.get(key) for _, tensors, key in self._places)
        same = all(map(operator.is_, current, self._held))
        return (
            not same
            or not self._has_same_modules()
            or self._tensors.are_changed()
            or bool(self._rewritten)
            or self.has_other_state()
        )

    def suspected(self):
        """The names of parameters and buffers that may have other values now."""
        return sorted({name for name, *_ in self._suspected()})

    def difference(self, name, argument, value):
        """A StateError unless the tensor of that name, if it is suspected, is `value`, the step's."""
        for own, tensors, key in self._suspected():
            now = tensors.get(key)
            now = now if now is None else as_real(now)
            if own != name or is_equal(now, value):
                continue
            if now is not None and now.dtype != argument.dtype:
                return StateError(
                    f"model: {name!r} is of {now.dtype} now and was of {argument.dtype} when tandem.compile captured it,"
                    " expected the same type, or another call of tandem.compile (precision='bf16' computes in bfloat16)"
                )
            return StateError(
                f"model: the values of {name!r} were changed after tandem.compile, and the step has its own,"
                " expected step.load(model=model) to take them over, or step.sync_to(model) to take them back"
            )
        return None

    def other_state(self, own_state):
        """A StateError unless the optimizer's state is the step's, a state dict."""
        if not self.has_other_state() or _same_state(self._optimizer.state_dict(), own_state):
            return None
        return StateError(
            "optimizer: its state was changed after tandem.compile, and the step has its own, expected"
            " step.load(model=model, optimizer=optimizer) to take both over, or step.sync_to(model, optimizer)"
            " to take them back"
        )


def is_same_state(found, own):
    """Whether the states {name: value} of a parameter are equal to the bit."""
    return found.keys() == own.keys() and all(
        is_equal(found[k], own[k]) if isinstance(own[k], torch.Tensor) else found[k] == own[k]
        for k in own
    )


def _same_state(found, own):
    found, own = found["state"], own["state"]
    return found.keys() == own.keys() and all(is_same_state(found[i], own[i]) for i in own)


def schedulers_of(optimizer):
    """Those that are in use: of schedulers made of others the outer one."""
    every = gc.get_objects()
    kinds = {kind for kind in set(map(type, every)) if issubclass(kind, LRScheduler)}
    every = [o for o in every if type(o) in kinds] if kinds else []
    inner = {id(part) for o in every for part in getattr(o, "_schedulers", ())}
    return [o for o in every if getattr(o, "optimizer", None) is optimizer and id(o) not in inner]


def cycled(optimizer):
    """The hyperparameters beside the rate that schedulers of the optimizer change, as far as it has them."""
    # Where no scheduler has left a rate to begin with, none needs to be looked for among all objects: of PyTorch's
    # only ReduceLROnPlateau leaves none, which cycles nothing.
    if not any(
        "initial_lr" in group for group in getattr(optimizer, "param_groups", ())
    ) or not any(
        getattr(scheduler, "cycle_momentum", False) for scheduler in schedulers_of(optimizer)
    ):
        return frozenset()
    names = ("betas",) if "betas" in optimizer.defaults else ("momentum",)
    return frozenset(name for name in names if all(g.get(name) for g in optimizer.param_groups))


def check_schedulers(optimizer, rates):
    """StateError if a scheduler was restored, but not `rates`, those of the optimizer's groups, which PyTorch
    keeps in the optimizer's state dict. Where there are several schedulers, the last one to step knows them.
    """
    schedulers = [o for o in schedulers_of(optimizer) if getattr(o, "_last_lr", None)]
    if not schedulers or any([float(r) for r in o._last_lr] == rates for o in schedulers):
        return
    scheduler = schedulers[-1]
    raise StateError(
        f"scheduler {type(scheduler).__name__}: its last rates are {[float(r) for r in scheduler._last_lr]},"
        f" and optimizer.param_groups have {rates}, which the step reads; expected the same: load the scheduler's"
        " state and the optimizer's (step.load(folder) does both), or set the rates there"
    )
