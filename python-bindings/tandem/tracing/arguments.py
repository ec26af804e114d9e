"""The arguments and results of a training step, in the order of the exported function."""

import enum
import numbers
from dataclasses import dataclass

import torch

from ..base import tree
from ..base.memory import View
from ..base.types import WIDER, as_real
from ..errors import CaptureError
from .accumulators import check_accumulators
from .unregistered import named_buffers, named_parameters
from .wrappers import check_wrappers


@dataclass
class Argument:
    """One argument. `value` is the tensor to start from (None for models on the meta device); for a
    state, `of` names its parameter; for an input, `batch_dim` is the dimension that counts
    samples; where it `is_complex`, shape and type are those of its pairs (`as_real`). `views` are the buffers in its
    memory, which are no arguments."""

    role: str
    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    value: torch.Tensor | None = None
    aliases: tuple[str, ...] = ()
    of: str | None = None
    batch_dim: int | None = None
    range: tuple[int, int] | None = None
    is_complex: bool = False
    views: tuple["Viewed", ...] = ()

    @property
    def key(self):
        return f"{self.role}/{self.name}"


@dataclass(frozen=True)
class Viewed:
    """A buffer that lies in the memory of an argument, under all its names; `view` gives it, as it is stored, from that."""

    name: str
    aliases: tuple[str, ...]
    dtype: torch.dtype
    is_complex: bool
    view: View

    @property
    def shape(self):
        return self.view.shape


@dataclass
class Result:
    """One result; `updates` is the index of the argument that it replaces in the next step."""

    role: str
    name: str
    updates: int | None = None


_WITHOUT_KERNELS = (torch.uint8, torch.int16, torch.uint16, torch.uint32, torch.uint64)


def _tensor_argument(role, name, tensor, **rest):
    reads = WIDER if role == "input" else ()  # What is stored keeps its own type.
    if tensor.dtype in _WITHOUT_KERNELS and tensor.dtype not in reads:
        narrow = "".join(f"{dtype}, " for dtype in reads)
        raise CaptureError(
            f"{role} {name!r}: found {tensor.dtype}, expected a floating-point type, torch.int64,"
            f" torch.int32, {narrow}torch.int8 or torch.bool"
        )
    if tensor.is_complex():
        raise CaptureError(
            f"{role} {name!r}: element type {tensor.dtype}, expected two real tensors, of which torch.complex makes it, or a"
            " buffer where it is a constant"
        )
    value = None if tensor.is_meta else tensor.detach()
    return Argument(role, name, tuple(tensor.shape), tensor.dtype, value, **rest)


def _group_names(named):
    """(name, tensor) pairs with repetitions -> first name -> (tensor, the other names of it)."""
    first_of, groups = {}, {}
    for name, tensor in named:
        first = first_of.setdefault(id(tensor), name)
        if first == name:
            groups[name] = (tensor, [])
        else:
            groups[first][1].append(name)
    return groups


def parameters_of(model, optimizer=None):
    """[(argument, parameter)], each tensor once, under its first name; also those that an optimizer trains beside the model's own."""
    if not isinstance(model, torch.nn.Module):
        raise CaptureError(f"model: found {type(model).__name__}, expected a torch.nn.Module")
    check_wrappers(model)
    groups = _group_names(named_parameters(model, optimizer, remove_duplicate=False))
    for name, (tensor, _) in groups.items():
        if torch.nn.parameter.is_lazy(tensor):
            raise CaptureError(
                f"parameter {name!r}: found no shape yet, expected a model that has seen a batch"
            )
        if tensor._post_accumulate_grad_hooks:
            raise CaptureError(
                f"parameter {name!r}: found a hook that runs after its gradient is accumulated, expected"
                " register_hook, which is captured"
            )
    check_accumulators((name, tensor) for name, (tensor, _) in groups.items())
    pairs = [
        (_tensor_argument("parameter", name, tensor, aliases=tuple(others)), tensor)
        for name, (tensor, others) in groups.items()
    ]
    return pairs


def buffers_of(model, optimizer=None):
    """[(argument, buffer)], each tensor once, under its first name; also those beside parameters that are not the model's own."""
    groups = _group_names(named_buffers(model, optimizer, remove_duplicate=False))
    return [
        (
            _tensor_argument(
                "buffer",
                name,
                as_real(tensor),
                aliases=tuple(others),
                is_complex=tensor.is_complex(),
            ),
            tensor,
        )
        for name, (tensor, others) in groups.items()
    ]


def _value_range(tensor):
    if (
        tensor.dtype.is_floating_point
        or tensor.dtype.is_complex
        or tensor.dtype == torch.bool
        or tensor.is_meta
        or not tensor.numel()
    ):
        return None
    # Negative values mark positions to ignore; seeded data does without them.
    values = tensor[tensor >= 0]
    return (int(values.min()), int(values.max())) if values.numel() else (0, 0)


# What may be a constant of the step: its text says what it is.
_PLAIN = (
    numbers.Number, str, bytes, type(None), torch.dtype, torch.device, enum.Enum, range, slice
)  # fmt: skip


def kind_of(tensor):
    """`float32[8, 6]`."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def text_of(constant):
    """What tells one constant from another, in another process as well."""
    if isinstance(constant, _PLAIN):
        return repr(constant)
    return getattr(constant, "__qualname__", f"a {name_of_type(constant)}")


def name_of_type(value):
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _check_constant(name, leaf):
    """CaptureError for what may hold data, which the step would compute with for good."""
    if not isinstance(leaf, _PLAIN) and not callable(leaf):
        raise CaptureError(
            f"example batch: {name!r} is a {name_of_type(leaf)}, expected a tensor (torch.as_tensor makes one of an array),"
            " a number, text or None, or dicts, lists, tuples or dataclasses of these"
        )


def inputs_of(batch):
    """(arguments, spec, leaves): the tensors of a batch and how to put it together again."""
    paths, spec = tree.flatten(batch)
    for path, leaf in paths:
        tree.check_dense(path, leaf, CaptureError, "example batch")
    leaves = [leaf for _, leaf in paths]
    sizes = [leaf.shape[0] for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim()]
    for path, leaf in paths:
        if not isinstance(leaf, torch.Tensor):
            _check_constant(tree.name_of_path(path), leaf)
    if not sizes:
        kinds = dict.fromkeys(type(leaf).__qualname__ for leaf in leaves)
        raise CaptureError(
            f"example batch: found no tensor with a batch dimension but {', '.join(kinds) or 'nothing'}, expected at least"
            " one: a tensor, or dicts, lists, tuples or dataclasses of tensors"
        )
    arguments = []
    for path, leaf in paths:
        if not isinstance(leaf, torch.Tensor):
            continue
        if 0 in leaf.shape[:1]:
            raise CaptureError(
                f"example batch: tensor {tree.name_of_path(path)!r} has shape {list(leaf.shape)}, expected a first"
                " dimension of at least 1"
            )
        batch_dim = 0 if leaf.dim() and leaf.shape[0] == sizes[0] else None
        argument = _tensor_argument("input", tree.name_of_path(path), leaf, batch_dim=batch_dim)
        argument.range = _value_range(leaf)
        arguments.append(argument)
    return arguments, spec, leaves


def batch_tensors(batch):
    """{input name: tensor} of one batch."""
    paths, _ = tree.flatten(batch)
    return {tree.name_of_path(path): leaf for path, leaf in paths if isinstance(leaf, torch.Tensor)}


def batch_constants(batch):
    """{name: value} of what is no tensor in one batch: constants of the captured step."""
    paths, _ = tree.flatten(batch)
    return {
        tree.name_of_path(path): leaf for path, leaf in paths if not isinstance(leaf, torch.Tensor)
    }


def scalar_arguments(numbers, step):
    """Step, seed, and what is read from the optimizer's groups at each step, {name: number}: their learning rates."""
    arguments = [
        Argument("step", "step", (), torch.int64, torch.tensor(step)),
        Argument("seed", "seed", (), torch.int64, torch.tensor(0)),
    ]
    for name, number in numbers.items():
        value = torch.tensor(number, dtype=torch.float64)
        arguments.append(Argument("learning_rate", name, (), torch.float64, value))
    return arguments
