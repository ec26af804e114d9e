"""Eager PyTorch as the reference, with Tandem's random numbers and, if imposed, its choices.

It does not share capture's code (model_file.py's conversion, definitions.py), since both sides would share its
mistakes.
"""

import contextlib
import itertools

import torch
import torch.utils._pytree as pytree
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from .. import random
from ..base.types import is_number
from ..capture.model_file import explained
from ..capture.returned import find_loss
from ..errors import ModelFileError
from ..optimizers.state_dicts import OF_GROUP, is_own, plain_number
from ..tracing.precision import casting
from .compare import History

_GROUPED_MM = [
    getattr(module, name)
    for module, name in ((torch.nn.functional, "grouped_mm"), (torch, "_grouped_mm"))
    if hasattr(module, name)
]


def _group_by_group(x, weight, *, offs, **_):
    """`grouped_mm` of rows, which PyTorch does not have in float64: group e ends before row offs[e]."""
    parts, start = [], 0
    for matrix, end in zip(weight, offs.tolist(), strict=True):
        parts.append(x[start:end] @ matrix)
        start = end
    return torch.cat([*parts, x.new_zeros(x.shape[0] - start, weight.shape[-1])])


_WIDER = {torch.float32: torch.float64, torch.complex64: torch.complex128}
_WIDER_METHODS = {
    torch.Tensor.float: torch.Tensor.double,
    torch.Tensor.cfloat: torch.Tensor.cdouble,
}


class _Widen(TorchFunctionMode):
    """What a model asks to have in float32 is in float64.

    Rotary embeddings and some losses compute in float32 whatever the type of the model; rounding there
    would hide everything below 1e-7, which is what a float64 run is to show.
    """

    def __torch_function__(self, function, types, args=(), kwargs=None):
        function = _WIDER_METHODS.get(function, function)
        if function in _GROUPED_MM:
            function = _group_by_group
        args = [self._widen(value) for value in args]
        return function(*args, **{key: self._widen(value) for key, value in (kwargs or {}).items()})

    @staticmethod
    def _widen(value):
        return _WIDER.get(value, value) if isinstance(value, torch.dtype) else value


@contextlib.contextmanager
def computing_in(dtype):
    """Float64 throughout, if that is the model's type, in eager and in the capture alike."""
    if dtype != torch.float64:
        yield
        return
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Widen():
            yield
    finally:
        torch.set_default_dtype(default)


# ATen operators that choose among the values along a dimension.
CHOOSING = ("argmax", "argmin", "max", "min", "sort", "topk")


def _bind(operator, args, kwargs):
    """The arguments by name, with their defaults."""
    names = [argument.name for argument in operator._schema.arguments]
    defaults = {a.name: a.default_value for a in operator._schema.arguments}
    return defaults | dict(zip(names, args, strict=False)) | kwargs


def _choice_of(operator, args, kwargs):
    """The arguments of a call that chooses along the last dimension, or None."""
    if operator._overloadpacket.__name__ not in CHOOSING:
        return None
    bound = _bind(operator, args, kwargs)
    if "dim" not in bound:
        return None
    rank, dim = bound["self"].dim(), bound["dim"]
    # Without a dimension it is one among all values.
    return bound if dim is None or dim % max(rank, 1) == max(rank, 1) - 1 else None


def _topk(x, k, dim=-1, largest=True, **_):
    """In Tandem's order, which PyTorch leaves open: sorted, and of equal values the lowest index first."""
    values, indices = x.sort(dim=dim, descending=largest, stable=True)
    if not x.dim():
        return values, indices
    return values.narrow(dim, 0, k), indices.narrow(dim, 0, k)


class Choices(TorchDispatchMode):
    """Notes which indices argmax, topk and the like choose along the last dimension, and from which
    values.

    With `imposed`, one index per call, the model goes on with those instead of its own: whatever
    follows is then comparable, though another expert was the best by a rounding error.
    """

    def __init__(self, imposed=None):
        super().__init__()
        self.indices, self.values, self.imposed = [], [], imposed
        # Whether what runs is a part that `torch.utils.checkpoint` runs again.
        self.again = False

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if operator is torch.ops.aten.topk.default:
            bound = _bind(operator, args, kwargs)
            result = _topk(bound.pop("self"), **bound)
        else:
            result = operator(*args, **kwargs)
        bound = _choice_of(operator, args, kwargs)
        if bound is None:
            return result
        values = bound["self"].detach()
        values = values.flatten() if bound["dim"] is None else values
        index = result[1] if isinstance(result, tuple) else result
        place = self._place(values, index)
        if self.imposed is None or place is None:
            return result
        return self._impose(values, result, self.imposed[place].reshape(index.shape))

    def _place(self, values, index):
        """Which of the calls this is; the second run of a call is known by its values."""
        if self.again:
            same = [i for i, noted in enumerate(self.values) if torch.equal(noted, values)]
            return same[0] if same else None
        self.values.append(values.clone())
        self.indices.append((index if index.dim() == values.dim() else index.unsqueeze(-1)).clone())
        return len(self.values) - 1

    @staticmethod
    def _impose(values, result, index):
        if not isinstance(result, tuple):
            return index
        wide = index if index.dim() == values.dim() else index.unsqueeze(-1)
        return values.gather(-1, wide).reshape(index.shape), index


@contextlib.contextmanager
def _rounding_within_attention():
    """PyTorch's plain formula computes attention of bfloat16 in float32 throughout. Kernels, its own fused ones as
    well, multiply by weights that are rounded to the type of the operands.
    """
    before = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()  # of all devices
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
    try:
        yield
    finally:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(before)


@contextlib.contextmanager
def _as_captured(seed, step, calls):
    """Eager with Tandem's random numbers, and attention by its plain formula as in the capture."""
    with (
        sdpa_kernel(SDPBackend.MATH),
        _rounding_within_attention(),
        random.replay(seed, step, calls),
    ):
        yield


def values_of(model):
    """{name: a copy} of parameters and buffers."""
    named = itertools.chain(model.named_parameters(), model.named_buffers())
    return {name: tensor.detach().clone() for name, tensor in named}


def _kind(tensor):
    if tensor is None:
        return "none"
    return f"shape {tuple(tensor.shape)}{' of complex numbers' if tensor.is_complex() else ''}"


def make_again(file, model, values, seed):
    """Another model of a `ModelFile`, as it makes it, with the `values` that `model` had when it was made from the same seed.

    Not a copy: copies of tensors have no hooks, and eager without those of the user's is no reference. Raises ModelFileError if
    the file makes another model, or the same one, each time.
    """
    again, trained = build(file, seed), {id(parameter) for parameter in model.parameters()}
    own = dict(itertools.chain(again.named_parameters(), again.named_buffers()))
    for name in sorted(own.keys() | values.keys()):
        found, expected = _kind(own.get(name)), _kind(values.get(name))
        if found != expected:
            raise ModelFileError(
                f"{file.path}: model() gave {name!r} with {found} when called again, expected {expected} as at first:"
                " verify needs several equal models"
            )
    for name, parameter in again.named_parameters():
        if id(parameter) in trained:
            raise ModelFileError(
                f"{file.path}: model() gave the same parameter {name!r} when called again, expected a new"
                " one: verify needs several models that it can train apart"
            )
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(values[name])
    return again


def build(file, seed):
    """Cases of a benchmark make what needs no conversion."""
    return getattr(file, "build", file.make_model)(seed)


_COMPLEX = {torch.float64: torch.complex128, torch.float32: torch.complex64}


def _to_type(tensor, dtype):
    is_complex = tensor.is_complex()
    if not is_complex and not tensor.is_floating_point():
        return tensor
    return tensor.to(_COMPLEX.get(dtype, tensor.dtype) if is_complex else dtype)


def _convert(model, dtype):
    """In place; what modules share stays shared."""
    made = {}
    for module in model.modules():
        for parameter in module._parameters.values():
            if parameter is not None:
                parameter.data = _to_type(parameter.data, dtype)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = made.setdefault(id(buffer), _to_type(buffer, dtype))
    return model


class Eager:
    """A model of its own that eager trains step by step, in element type `dtype`."""

    def __init__(self, model, values, file, dtype, seed, random_calls, states=()):
        """`file` is a `ModelFile`, which made `model`, with these values, from `seed`, and makes another one. `states` are the
        names of those of the captured step, of which some are numbers here.
        """
        again = make_again(file, model, values, seed)
        self.model = _convert(_convert(again, file.dtype), dtype)
        self.optimizer = file.make_optimizer(self.model)
        self.loss_fn, self.dtype = file.loss, dtype
        # In float64 nothing is cast: that is what the casts are compared with.
        self.precision = None if dtype == torch.float64 else file.precision
        self.seed, self.random_calls = seed, random_calls
        self.moved, self.states = {}, states
        # What the first forward pass registers it makes from constants, and a captured step makes it anew.
        self._buffers = {name for name, _ in self.model.named_buffers()}

    def step(self, batch, number, imposed=None):
        """The history of one step. `imposed` are the choices, instead of the model's own."""
        # Not the optimizer's `zero_grad`: it leaves the gradients of parameters that it does not have.
        self.model.zero_grad(set_to_none=True)
        choices = Choices(imposed)
        with computing_in(self.dtype):
            loss = self._loss_and_gradients(_to(batch, self.dtype), number, choices)
            named = self.model.named_parameters()
            gradients = {n: p.grad.detach().clone() for n, p in named if p.grad is not None}
            with explained(f"step {number} in eager, optimizer.step()"):
                self.optimizer.step()
        history = History([loss], [gradients], [choices.indices], [choices.values])
        history.parameters = {n: self._moved_back(n, p) for n, p in self.model.named_parameters()}
        own = ((n, b) for n, b in self.model.named_buffers() if n in self._buffers)
        history.buffers = {n: _pairs(b.detach()).clone() for n, b in own}
        history.buffers["(step)"] = torch.tensor(number + 1)
        history.states = {name: value.detach().clone() for name, value in self._states().items()}
        for name, (holder, key) in self._numbers().items():
            history.states[name] = torch.tensor(float(holder[key]), dtype=torch.float64)
        return history

    def _loss_and_gradients(self, batch, number, choices):
        # The backward pass draws and chooses as well, where a checkpoint runs a part of the model again.
        with _as_captured(self.seed, number, self.random_calls), choices:
            with explained(f"step {number} in eager"), casting(self.precision):
                loss = find_loss(self.loss_fn(self.model, batch))
            choices.again = True
            with explained(f"step {number} in eager, backward"):
                loss.backward()
        return loss.item()

    def _states(self):
        """{`exp_avg.<parameter>`: tensor}, as the captured step names them, without numbers."""
        return {
            f"{state}.{name}": value
            for name, parameter in self.model.named_parameters()
            for state, value in self.optimizer.state.get(parameter, {}).items()
            if state != "step" and isinstance(value, torch.Tensor)
        }

    def _numbers(self):
        """{name of a state of the captured step: (dict that has it as a number, its key)}."""
        named, found = dict(self.model.named_parameters()), {}
        for full in self.states:
            state, _, name = full.partition(".")
            holder = self.optimizer.state.get(named.get(name), {})
            if not is_own(state):
                state = state.removeprefix(OF_GROUP)
                holder = self._group_of(named[name])
            if is_number(holder.get(state)):
                found[full] = holder, state
        return found

    def _group_of(self, parameter):
        return next(
            group
            for group in self.optimizer.param_groups
            if any(p is parameter for p in group["params"])
        )

    def load(self, values):
        """Goes on from the values that another run had after the same number of steps."""
        own = (
            dict(self.model.named_parameters()) | dict(self.model.named_buffers()) | self._states()
        )
        self.moved, numbers = {}, self._numbers()
        with torch.no_grad():
            for name, value in (values.parameters | values.buffers | values.states).items():
                if name in own:
                    _pairs(own[name]).copy_(value)
                elif name in numbers:
                    holder, key = numbers[name]
                    holder[key] = plain_number(value)

    def nudge(self, precision, seed):
        """Moves every parameter at random: by at most one unit in the last place of `precision`, or, if it has more
        places than that, by at most half a unit, as a cast does.
        """
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if not parameter.dtype.is_floating_point:
                    continue
                if torch.finfo(parameter.dtype).eps < torch.finfo(precision).eps:
                    share = torch.rand(parameter.shape, generator=generator, dtype=torch.float64)
                    up = torch.ones(parameter.shape, dtype=torch.int64)
                    move = (share - 0.5) * _last_place(parameter.to(precision), up)
                    self.moved[name] = -parameter.double()
                    parameter.add_(move.to(parameter.dtype))
                    self.moved[name] += parameter.double()
                else:
                    way = torch.randint(-1, 2, parameter.shape, generator=generator)
                    parameter.add_(_last_place(parameter.to(precision), way).to(parameter.dtype))

    def _moved_back(self, name, parameter):
        """What a step has made of a parameter, without what `nudge` has moved it: casts do not move what is kept."""
        value = parameter.detach().clone()
        return value.double() - self.moved[name] if name in self.moved else value


def _pairs(tensor):
    """Complex numbers as a step has them: real and imaginary parts, in a dimension more."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _last_place(values, way):
    """To the next number up, down or not at all, for `way` 1, -1 or 0; in float64."""
    ends = torch.where(way > 0, torch.inf, -torch.inf)
    target = torch.where(way == 0, values.double(), ends).to(values.dtype)
    return torch.nextafter(values, target).double() - values.double()


def _to(batch, dtype):
    def convert(leaf):
        return _to_type(leaf, dtype) if isinstance(leaf, torch.Tensor) else leaf

    return pytree.tree_map(convert, batch)
