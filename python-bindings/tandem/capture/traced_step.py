"""A training step as a function of flat lists of tensors: its arguments, its forward and its backward pass."""

import contextlib
from unittest import mock

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.nn.utils.stateless import _reparametrize_module

from ..base import tree
from ..base.types import as_complex
from ..errors import CaptureError
from ..formulas.definitions import by_definition
from ..guards import left_behind, probes
from ..guards.identity import BatchMemory, Identity, Overlaid
from ..guards.python_state import (
    changed,
    detects_anomalies,
    makers,
    numbers_of,
    set_numbers,
    tensors_of,
)
from ..guards.rebound import Rebound, storages_written
from ..optimizers.optimizers import FunctionalOptimizer
from ..tracing import attributes, positions
from ..tracing.arguments import Argument, buffers_of, inputs_of, parameters_of, scalar_arguments
from ..tracing.draws import is_random
from ..tracing.precision import casting, check_parameters
from ..tracing.reads import storages_of
from ..tracing.unregistered import modules_of, places_of
from .returned import Returned


class Written(Exception):
    """The model writes to a parameter that is not copied."""


class TracedStep:
    """The training step as a function of flat lists of tensors, and the table of its arguments."""

    def __init__(self, model, loss_fn, optimizer, batch, wanted):
        self.model, self.loss_fn, self.wanted = model, loss_fn, wanted
        self.refuses_nan = detects_anomalies()
        pairs = parameters_of(model, optimizer)
        self.parameters = [argument for argument, _ in pairs]
        check_parameters(wanted.precision, self.parameters)
        self.trained = [i for i, (_, tensor) in enumerate(pairs) if tensor.requires_grad]
        self.parameter_hooks = [
            list((tensor._backward_hooks or {}).values()) for _, tensor in pairs
        ]
        # Whether a hook of the user's runs in the backward pass.
        self.hooked = any(self.parameter_hooks)
        named = [(a.name, tensor) for a, tensor in pairs]
        self.optimizer = FunctionalOptimizer(optimizer, named, wanted.varying, wanted.starts)
        self.numbers_read = self.optimizer.arguments()
        self._all_buffers = buffers_of(model, optimizer)
        # Tensors that attributes have, and no module knows as its own.
        self._unregistered = {place.name: place for place in places_of(model, optimizer)}
        self.inputs, self.batch_spec, self.batch_leaves = inputs_of(batch)
        # Which of them are traced as views of others, once the step is known to write to them.
        self.batch_memory = None
        # Which parameters have gradients, thus state, is known after the trace; the lowering
        # forgets the rest.
        candidates = [i for i in self.trained if wanted.trains and i in self.optimizer.group_of]
        started = self.optimizer.started(candidates)
        self.state_names = {i: list(values) for i, values in started.items()}
        self.states = [
            self._state(i, name, value)
            for i, values in started.items()
            for name, value in values.items()
        ]
        self._tensors = [t for _, t in pairs]
        # Buffers that begin in the memory of others, and are values of their own, as the step puts other tensors in their place.
        self.parted = set(wanted.parted or ())
        self.identify()
        self.looked_at = set()  # keys of parameters of which buffers are views behind the step
        self.identity.check_apart({a.name: a.value for a in self.inputs if a.value is not None})
        self.held = {}  # {name: each buffer as the model has it}
        self.scalars = scalar_arguments(self.numbers_read, 0)
        self.updated, self.updates = [], None
        self.results = []
        # Attributes that are numbers: those that a step begins with, and what the last one made of them.
        self.numbers, self.changed = wanted.numbers or {}, {}
        # The modules that the last one has left other tensors in.
        self.makers = set()
        # Whether a trace computes with copies of the parameters, to which the model may write: they are a tenth of its operators.
        self.copies = False
        # Tensors that a step begins with in attributes, and what the last one left there that the next would not.
        self.kept, self.left = {}, {}
        # What it begins with in other Python objects, and what the last one left there.
        self.outside = left_behind.Outside(model, loss_fn)
        self.begin, self.others, self.stays = {}, {}, True

    def identify(self):
        """Finds which buffers are views of others, but for those of `parted`."""
        held = self.optimizer.optimizer.state
        states = [
            (a, held.get(self._tensors[i], {}).get(name))
            for a, (i, name) in zip(self.states, self._names_of_states(), strict=True)
        ]
        self.identity = Identity(
            list(zip(self.parameters, self._tensors, strict=True)),
            [(a, tensor) for a, tensor in states if isinstance(tensor, torch.Tensor)],
            self._all_buffers,
            self.parted,
        )
        self.parameters, self.states, self.buffers = map(
            self.identity.own, (self.parameters, self.states, [a for a, _ in self._all_buffers])
        )

    def part(self, names):
        """These buffers are no views of others any more. CaptureError where they have to be."""
        if self.wanted.parted is not None:
            raise CaptureError(
                f"buffer {min(names)!r}: the step puts another tensor in its place, as it did not with the first batch, where it"
                " was a view of another tensor; expected the same in all steps"
            )
        self.parted |= names
        self.identify()

    def _names_of_states(self):
        return [(i, name) for i, names in self.state_names.items() for name in names]

    @property
    def arguments(self):
        return [*self.parameters, *self.states, *self.buffers, *self.scalars, *self.inputs]

    def _state(self, parameter, name, value):
        of = self.parameters[parameter]
        known = None if value.is_meta else value
        return Argument(
            "state", f"{name}.{of.name}", tuple(value.shape), value.dtype, known, of=of.name
        )

    def unpack(self, tensors):
        lists, position = [], 0
        rates = len(self.numbers_read)
        for count in (
            len(self.parameters),
            len(self.states),
            len(self.buffers),
            1,
            1,
            rates,
            len(self.inputs),
        ):
            lists.append(tensors[position : position + count])
            position += count
        return lists

    def make_leaves(self, tensors):
        """The parameters, of which the trained ones are leaves with their hooks."""
        if self.copies:
            tensors = [t.clone().detach() for t in tensors]
        for i, tensor in enumerate(tensors):
            tensor.requires_grad_(i in self.trained)
            for hook in self.parameter_hooks[i]:
                tensor.register_hook(hook)
        return tensors

    def written(self, parameters):
        """The indices of those that the model has written to, also through `.data`, which counts no version. Raises Written."""
        storages = storages_written()
        written = (
            [i for i, p in enumerate(parameters) if storages_of(p) & storages] if storages else []
        )
        if written and not self.copies:
            raise Written
        return written

    @contextlib.contextmanager
    def holding(self, parameters, states, buffers):
        """Within it the model has these tensors: for the forward pass, and for what the backward pass
        runs again (`torch.utils.checkpoint`).
        """
        arguments = (*self.parameters, *self.states, *self.buffers)
        self.others = {}
        fakes = zip(arguments, (*parameters, *states, *buffers), strict=True)
        self.identity.begin({a.key: tensor for a, tensor in fakes})
        own = zip(self.buffers, buffers, strict=True)
        self.held = {a.name: as_complex(tensor, a.is_complex) for a, tensor in own}
        self.held = {n: self.identity.as_computed(n, held) for n, held in self.held.items()}
        self.held |= self.identity.buffers()
        named = {a.name: tensor for a, tensor in zip(self.parameters, parameters, strict=True)}
        named |= self.held
        named = {n: tensor for n, tensor in named.items() if n not in self._unregistered}
        with (
            left_behind.kept(self.model, self.outside, self.begin, self.others, self.stays),
            _reparametrize_module(self.model, named, tie_weights=True),
            self.identity.in_attributes(self.model),
            attributes.flat_weights(
                [*self.model.modules(), *modules_of(self._unregistered.values())]
            ),
            by_definition(),
        ):
            probes.begin()
            set_numbers(self.model, self.numbers)
            attributes.put(self.model, self.kept)
            before, tensors = numbers_of(self.model), tensors_of(self.model)
            held = attributes.held_tensors(self.model)
            yield
            self.left = self._left(held)
            self.changed = changed(before, numbers_of(self.model))
            self.makers = makers(tensors, tensors_of(self.model))

    def _left(self, held):
        """What the step leaves in attributes, where they held `held`, as far as batches, training or random numbers decide it."""
        tracer = get_proxy_mode().tracer
        names = {name for a, _ in self._all_buffers for name in (a.name, *a.aliases)}
        trained = {self.parameters[i].key for i in self.trained}
        stay = {a.key for a in (*self.parameters, *self.buffers)} - trained
        places = [node for node in tracer.graph.nodes if node.op == "placeholder"]
        fixed = {n for n, a in zip(places, self.arguments, strict=False) if a.key in stay}

        def changing(node):
            if node.op == "placeholder":
                return node not in fixed
            return node.op == "call_function" and is_random(node.target)

        left = attributes.left(self.model, held, names)
        return attributes.that_change(left, tracer, changing)

    def forward(self, inputs):
        """The loss, if there is one."""
        tensors = iter(self._as_overlaid(inputs))
        leaves = [
            next(tensors) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.batch_leaves
        ]
        with casting(self.wanted.precision), self._noting_hooks():
            returned = self.loss_fn(self.model, tree.unflatten(leaves, self.batch_spec))
        self.returned = Returned(returned, self.wanted.has_loss)
        loss = self.returned.loss
        if self.wanted.trains and not loss.requires_grad:
            raise CaptureError("loss: does not depend on any parameter that requires a gradient")
        return loss

    def _as_overlaid(self, inputs):
        """The tensors of the batch, where they share memory as the example's do, if that is looked at."""
        views = self.batch_memory.views if self.batch_memory is not None else {}
        storages = {a.name: storages_of(t) for a, t in zip(self.inputs, inputs, strict=True)}
        own = {a.key: tensor for a, tensor in zip(self.inputs, inputs, strict=True)}
        own = {key: tensor.clone() if views else tensor for key, tensor in own.items()}
        for argument in self.inputs:
            storages[argument.name] |= storages_of(own[argument.key])
        self._input_storages = storages
        for key, (owner, view) in views.items():
            own[key] = view.of(own[owner])
        return list(own.values())

    def check_writes(self):
        """Raises Overlaid where the forward pass has written to a batch whose tensors share memory, and CaptureError where it has
        written to the optimizer's state.
        """
        written = storages_written()
        positions.check()
        for state in self.states if written else ():
            if storages_of(self.identity.fakes[state.key]) & written:
                raise CaptureError(
                    f"state {state.name!r} of the optimizer: the forward pass writes to it, expected a buffer with memory of its own"
                    " (clone())"
                )
        names = frozenset(name for name, own in self._input_storages.items() if own & written)
        if self.batch_memory is None and names:
            self.batch_memory = BatchMemory({a.name: a.value for a in self.inputs}, names)
            if self.batch_memory.views:
                raise Overlaid

    def check_fixed(self, fixed, after):
        """CaptureError where the step writes to one of the buffers `fixed`, {key: where its values decide what is computed}; `after` are
        those of `buffers_now`.
        """
        written = storages_written() if fixed else ()
        for key, location in fixed.items():
            held = self.identity.fakes[key]
            if after.get(key, held) is not held or storages_of(held) & written:
                raise CaptureError(
                    f"{location}: control flow or a shape depends on data: Python needs a number that follows from buffer"
                    f" {key.partition('/')[2]!r}, to which the step writes; expected one that stays: run the model once in eager, if"
                    " it is the length of a cache"
                )

    @contextlib.contextmanager
    def _noting_hooks(self):
        register = torch.Tensor.register_hook

        def noting(tensor, hook):
            self.hooked = True
            return register(tensor, hook)

        with mock.patch.object(torch.Tensor, "register_hook", noting):
            yield

    def _buffer(self, name):
        place = self._unregistered.get(name)
        return self.model.get_buffer(name) if place is None else place.get()

    def buffers_now(self):
        """{key: tensor, or `Placed`}. Also the backward pass may change them, where it runs a normalisation again."""
        now = {name: self._buffer(name) for name in self.held}
        rebound = Rebound(self.identity, self.held, now, self.identity.fakes)
        rebound.check(self.buffers)
        return {
            a.key: rebound.value(a) if a.name in rebound.names else self.identity.fakes[a.key]
            for a in self.buffers
        }

    def backward(self, loss, parameters, nodes):
        """{index of parameter: gradient}; parameters that the loss does not use are left out. `nodes` are those of autograd.

        By `grad` rather than `backward`, which detaches each gradient, but where a function of the user's or a hook runs in it:
        it may look at what the parameters hold, or add to it by a backward pass of its own, as a checkpoint with
        `use_reentrant=True` does. So may the loss function, by a backward pass of its own.
        """
        trained = [parameters[i] for i in self.trained]
        began = any(parameter.grad is not None for parameter in trained)
        if began or self.hooked or any(map(_is_of_user, nodes)):
            loss.backward()
            found = [parameter.grad for parameter in trained]
        else:
            found = torch.autograd.grad(loss, trained, allow_unused=True) if trained else ()
        if self.optimizer.traced is not None:
            found = _as_held(found)
        gradients = dict(zip(self.trained, found, strict=True))
        for i, gradient in gradients.items():
            if gradient is not None and gradient.layout != torch.strided:
                raise CaptureError(
                    f"gradient of {self.parameters[i].name!r}: found layout {gradient.layout},"
                    f" expected torch.strided: an embedding has sparse=True, which sparse=False replaces"
                )
        # Parameters without elements are no part of a step, as nothing is computed of them.
        return {i: g for i, g in gradients.items() if g is not None and g.numel()}


def _as_held(gradients):
    """Each contiguous and in memory of its own, as parameters hold them: an update that is traced may look at it by `view`, or
    write to it.
    """
    held, storages = [], set()
    for gradient in gradients:
        if gradient is not None and gradient.layout == torch.strided:
            if not gradient.is_contiguous() or storages_of(gradient) & storages:
                gradient = gradient.clone(memory_format=torch.contiguous_format)
            storages |= storages_of(gradient)
        held.append(gradient)
    return held


def _is_of_user(node):
    """Whether a node of autograd's runs Python code that is not ours."""
    of = getattr(type(node), "_forward_cls", None)
    return of is not None and not of.__module__.startswith("tandem.")
