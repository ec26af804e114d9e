"""Checks of a batch against the batch that a Program was compiled for."""

from ..base.tree import outline
from ..errors import BatchError
from ..tracing.arguments import batch_constants, batch_tensors, kind_of, name_of_type


def _names_of(batch, tensors):
    if tensors:
        return f"tensors {', '.join(tensors)}"
    return f"no tensor but {type(batch).__module__}.{type(batch).__qualname__}".replace(
        "builtins.", ""
    )


def _expected_names(names):
    """A batch that is one tensor has no names; `0` stands for it."""
    return "a tensor" if names == ["0"] else f"tensors {', '.join(names)}"


def inputs_for(module, batch):
    """[(key, tensor)]: the inputs, like the example's of `module`."""
    tensors = batch_tensors(batch)
    wanted = [a for a in module.arguments if a.role == "input"]
    names = [a.name for a in wanted]
    for name, value in batch_constants(batch).items():
        if name in names and names != ["0"]:
            raise BatchError(
                f"batch: {name!r} is a {name_of_type(value)}, expected a tensor as in the example batch"
            )
    if list(tensors) != names and set(tensors) != set(names):
        raise BatchError(
            f"batch: found {_names_of(batch, tensors)}, expected {_expected_names(names)} as in"
            " the example batch"
        )
    _check_constants(module, batch)
    _check_outline(module, batch)
    for argument in wanted:
        _check_tensor(argument, tensors[argument.name])
    for guard in module.guards:
        guard.check(tensors)
    return [(argument.key, tensors[argument.name]) for argument in wanted]


_MOST_LETTERS = 200  # of an outline in an error


def _check_outline(module, batch):
    """Tensors have the example's names, but these may be those of another structure, which the loss function would see."""
    found, expected = outline(batch), module.outline
    if expected is not None and found != expected:
        raise BatchError(
            f"batch: is {found:.{_MOST_LETTERS}}, expected {expected:.{_MOST_LETTERS}} as the example batch"
        )


def _check_tensor(argument, tensor):
    if tensor.is_meta:
        raise BatchError(
            f"batch: tensor {argument.name!r} is on the meta device, expected one with values"
        )
    if tuple(tensor.shape) != tuple(argument.shape) or tensor.dtype != argument.dtype:
        raise BatchError(
            f"batch: tensor {argument.name!r} is {kind_of(tensor)}, expected {kind_of(argument)} as in the example"
            " batch"
        )


def _check_constants(module, batch):
    """What is no tensor was a constant of the captured step."""
    expected, found = module.constants, batch_constants(batch)
    for name in expected.keys() | found.keys():
        a, b = (repr(values.get(name, "nothing")) for values in (found, expected))
        if a != b:
            raise BatchError(
                f"batch: {name!r} is {a}, expected {b} as in the example batch; what changes from"
                " batch to batch has to be a tensor"
            )
