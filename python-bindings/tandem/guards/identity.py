"""Identity of tensors during capture: a value of the step, or a view of one, by the bytes that they cover.

So the model finds its buffers and attributes as in eager, and the loss its other tensors. A view of a parameter has the
optimizer's last values, and a write to it is a write to the parameter.
"""

import contextlib
from dataclasses import replace

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..base.memory import Memory, Owners, title
from ..base.types import as_complex, as_real
from ..errors import BatchError, CaptureError
from ..tracing import attributes
from ..tracing.arguments import Viewed


class Overlaid(Exception):
    """The step writes to a batch whose tensors share memory, and are traced as if they did not."""


class BatchMemory:
    """Which tensors of a batch are views of others: `views` are {key: (key of the owner, View)}; and the names of those that are `written`."""

    def __init__(self, tensors, written=frozenset()):
        """`tensors` are {name: tensor}. Raises CaptureError where they share memory otherwise."""
        self.written = written
        members = sorted(tensors.items(), key=lambda member: -member[1].numel())
        self.views = Owners([(f"input/{name}", tensor) for name, tensor in members]).views

    def check(self, tensors):
        """BatchError unless these share memory as those do."""
        try:
            same = BatchMemory(tensors).views == self.views
        except CaptureError:
            same = False
        if not same:
            raise BatchError(
                "batch: its tensors share memory otherwise than those of the example batch, and the loss writes to one in place,"
                " expected the same, or tensors of their own (clone())"
            )


class Identity:
    """Of the tensors of one model and optimizer. `arguments` are those of parameters, states and buffers that have values of
    their own.
    """

    def __init__(self, parameters, states, buffers, parted=()):
        """Lists of (argument, tensor). Buffers whose names are in `parted` are no views."""
        self._buffers = {a.name: t for a, t in buffers}
        together = [(a.key, t) for a, t in (*parameters, *states)]
        self._memory = Memory(together + [(a.key, as_real(t)) for a, t in buffers])
        buffers = [(a, t) for a, t in buffers if a.name not in parted]
        self._tensors = {a.key: t for a, t in (*parameters, *states, *buffers)}
        stored = [(a.key, as_real(t)) for a, t in buffers]
        stored.sort(key=lambda member: -member[1].numel())
        members = [(a.key, t) for a, t in (*parameters, *states)] + stored
        self._owners = Owners(members)
        self._check_states(states)
        self._viewed = [
            (owner, Viewed(a.name, a.aliases, a.dtype, a.is_complex, view))
            for a, _ in buffers
            if a.key in self._owners.views
            for owner, view in [self._owners.views[a.key]]
        ]
        for a, t in buffers:
            if t.is_conj() or t.is_neg():
                self._find(title(a.key), t)
        self.fakes = {}  # the arguments in a trace, by key, as they are stored
        self._followed, self.places = {}, {}

    def _check_states(self, states):
        """CaptureError for one that is a view: the optimizer would write to both."""
        for argument, _ in states:
            if argument.key in self._owners.views:
                other = title(self._owners.views[argument.key][0])
                raise CaptureError(
                    f"{title(argument.key)} of the optimizer: shares memory with {other}, expected memory of its own (clone())"
                )

    @property
    def owner_of(self):
        """{name of a buffer: key of the owner} of those that are views."""
        return {viewed.name: owner for owner, viewed in self._viewed}

    def together(self, name):
        """The keys of the arguments that share memory with a buffer of the user's."""
        sharing = self._memory.sharing(as_real(self._buffers[name]))
        keys = {key for key, _ in sharing} - {f"buffer/{name}"}
        return keys & self.fakes.keys()

    def own(self, arguments):
        """Those that are no views, with their views."""
        views = {}
        for owner, viewed in self._viewed:
            views.setdefault(owner, []).append(viewed)
        return [
            replace(a, views=tuple(views.get(a.key, ())))
            for a in arguments
            if a.key not in self._owners.views
        ]

    def begin(self, fakes):
        """A trace in which the arguments, by key, are the tensors `fakes`, as they are stored."""
        self.fakes, self._followed, self.places = fakes, {}, {}

    def buffers(self):
        """{name: tensor} of the buffers that are views."""
        return {
            viewed.name: as_complex(
                self._see(self._tensors[f"buffer/{viewed.name}"], owner, viewed.view),
                viewed.is_complex,
            )
            for owner, viewed in self._viewed
        }

    def _see(self, tensor, owner, view):
        """What stands for a tensor of the user's: as differentiable as it is."""
        fake, own = self.fakes[owner], self._tensors[owner]
        if tensor is own:
            return fake
        if tensor.requires_grad and tensor._base is own:
            return view.of(fake)
        with torch.no_grad():
            return view.of(fake.detach())

    def _find(self, what, tensor):
        """As `Owners.find`. A conjugate that PyTorch has not computed yet is no view of the pairs that are stored."""
        if tensor.layout == torch.strided and (tensor.is_conj() or tensor.is_neg()):
            plain = tensor.conj() if tensor.is_conj() else torch._neg_view(tensor)
            found = self._owners.find(what, as_real(plain))
            if found is None:
                return None
            raise CaptureError(
                f"{what}: is the conjugate of {title(found[0])}, in its memory, expected memory of its own (resolve_conj())"
            )
        return self._owners.find(what, as_real(tensor))

    def stand_in(self, tensor, what):
        """The traced tensor for one of the user's, or None for one that shares no byte with the step's values."""
        if not self.fakes:
            return None
        if id(tensor) not in self._followed:
            found = self._find(what, tensor)
            stands = found and as_complex(self._see(tensor, *found), tensor.is_complex())
            self._followed[id(tensor)] = tensor, stands
        return self._followed[id(tensor)][1]

    def check_apart(self, batch):
        """CaptureError for a tensor of the batch, {name: tensor}, in the memory of the model or optimizer."""
        for name, tensor in batch.items():
            found = self._find(f"batch tensor {name!r}", tensor)
            if found is not None:
                raise CaptureError(
                    f"example batch: tensor {name!r} shares memory with {title(found[0])}, expected tensors of its own (clone())"
                )

    @contextlib.contextmanager
    def in_attributes(self, model):
        """Within it attributes of the model's modules, and what is in lists, tuples and dicts there, are the traced tensors."""

        def stand_in(tensor, what):
            try:
                return self.stand_in(tensor, what)
            except CaptureError:
                return None  # It is one where the step reads it.

        with attributes.replaced(model, stand_in):
            yield

    def follow(self, args, kwargs, location):
        """The arguments of an operator, with traced tensors in the place of the user's own that are the step's values."""

        def followed(value):
            if type(value) in (list, tuple):
                return type(value)(map(followed, value))
            if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
                return value
            stands = self.stand_in(value, f"{location}: a tensor {list(value.shape)} that is read")
            if stands is None:
                return value
            self.places.setdefault(id(value), location)
            return stands

        return followed(args), {name: followed(value) for name, value in kwargs.items()}

    def as_computed(self, name, held):
        """A buffer in a trace; a leaf with gradient where the user's is computed from parameters that have some."""
        tensor = self._buffers[name]
        if tensor.grad_fn is None or f"buffer/{name}" in self._owners.views:
            return held
        parameters = {id(t) for key, t in self._tensors.items() if key.startswith("parameter/")}
        pending, seen = [tensor.grad_fn], set()
        while pending:
            node = pending.pop()
            if id(getattr(node, "variable", None)) in parameters:
                return held.detach().requires_grad_()
            new = {each for each, _ in node.next_functions if each is not None} - seen
            seen |= new
            pending.extend(new)
        return held

    def check_gradients(self, nodes, held):
        """CaptureError for a parameter that the loss reads past the model, as `nodes` of autograd say: its gradient would be lost.
        So would that of a buffer, `held` by name, which is computed from some.
        """
        read = {id(getattr(node, "variable", None)) for node in nodes}
        for name in held.keys() - self.owner_of.keys():
            if id(held[name]) in read:
                raise CaptureError(
                    f"buffer {name!r}: is computed from parameters, to which eager has gradients for one step, expected a buffer"
                    " without gradient (detach()), or one that the forward pass computes"
                )
        for key, tensor in self._tensors.items():
            if id(tensor) in read:
                name = key.partition("/")[2]
                raise CaptureError(
                    f"{self._place(tensor)}: parameter {name!r} is read past the model, where it has no gradient, expected"
                    f" model.get_parameter({name!r}), or an attribute, of the model that the function gets"
                )

    def _place(self, parameter):
        """Where it, or a view of it, was read."""
        read = (pair[0] for key, pair in self._followed.items() if key in self.places)
        of = (t for t in read if t is parameter or t._base is parameter)
        return next((str(self.places[id(t)]) for t in of), "the loss")
