"""Values of a step copied into a torch model and optimizer, and back."""

import torch

from . import hyperparameters
from .errors import StateError
from .state_dicts import checked
from .types import as_real
from .wrappers import plain_name

_STORED = ("parameter", "buffer")


def _tensors_of(model):
    """{plain name: tensor as it is stored} of parameters and buffers, tied names and those of no state dict too."""
    if not isinstance(model, torch.nn.Module):
        raise StateError(f"model is {type(model).__name__}, expected a torch.nn.Module")
    named = (model.named_parameters, model.named_buffers)
    pairs = (pair for list_all in named for pair in list_all(remove_duplicate=False))
    return {plain_name(name): as_real(tensor) for name, tensor in pairs}


def _pairs(step, model):
    """[(argument, tensor of the model)]: what both have, each argument once; an error where they differ."""
    own, named = set(map(plain_name, step._by_name())), _tensors_of(model)
    for name in (*own, *named):
        if name not in own or name not in named:
            raise StateError(
                f"model: {'has' if name in named else 'has no'} {name!r}, expected the names of the step's model"
            )
    arguments = [a for a in step.module.arguments if a.role in _STORED]
    for argument in arguments:
        tensor = named[plain_name(argument.name)]
        if tuple(tensor.shape) != tuple(argument.shape):
            raise StateError(
                f"model: {argument.name!r} has shape {list(tensor.shape)}, expected {list(argument.shape)}"
            )
        if tensor.is_meta:
            raise StateError(
                f"model: {argument.name!r} is on the meta device, expected values (model.to_empty(device='cpu')"
                " makes room for them)"
            )
    return [(a, [named[plain_name(n)] for n in (a.name, *a.aliases)]) for a in arguments]


def copy_in(step, model, optimizer):
    """What `Step.load` says."""
    values = {}
    if model is not None:
        values = {a.key: checked(a, tensors[0]) for a, tensors in _pairs(step, model)}
    state = None
    if optimizer is not None:
        _check_optimizer(step, optimizer)
        state = optimizer.state_dict()
    step._take(values, state)
    if model is step._watch.model:
        step.is_ahead = False


def _check_optimizer(step, optimizer):
    if type(optimizer) is not type(step._optimizer):
        raise StateError(
            f"optimizer is {type(optimizer).__qualname__}, expected {type(step._optimizer).__qualname__}"
        )


def copy_out(step, model, optimizer, rank):
    """What `Step.sync_to` says."""
    if model is None and optimizer is None:
        raise StateError("sync_to: expected a model, an optimizer, or both")
    pairs = _pairs(step, model) if model is not None else ()
    parameters = _parameters(step, optimizer) if optimizer is not None else ()
    step._check_values()
    with torch.no_grad():
        for argument, tensors in pairs:
            value = step.value(argument.key, rank)
            for tensor in {id(t): t for t in tensors}.values() if step._has(rank) else ():
                tensor.copy_(value)
    count = step.value("step/step") if parameters else None
    entries_of = {i: e for i, _, e in step._optimizer_state(count, rank)} if parameters else {}
    # What the step does not train, its optimizer has, and goes on with when that thaws.
    kept = step._untrained_state() if optimizer not in (None, step._optimizer) else {}
    for index, (parameter, name) in enumerate(parameters):
        if step._has(rank) and (name in step._programs.updated or index in kept):
            _give(optimizer.state, parameter, kept.get(index) or entries_of.get(index, {}))
    if optimizer is not None and optimizer is not step._optimizer:
        hyperparameters.restore(optimizer, step._optimizer.state_dict()["param_groups"])
    if optimizer is not None:
        groups = step._groups(optimizer.state_dict()["param_groups"], rank)
        if step._has(rank):
            hyperparameters.restore(optimizer, groups)
    own = model is step._watch.model
    step._took_over(own, optimizer is step._optimizer)
    if own and step._has(rank):
        step.is_ahead = False


def _parameters(step, optimizer):
    """[(parameter of the optimizer, its name in the step)]."""
    _check_optimizer(step, optimizer)
    step._check_groups(optimizer.state_dict()["param_groups"], "optimizer")
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    pairs = [(parameters[index], name) for index, name in step._parameters_in_order()]
    for parameter, name in pairs:
        shape = step._arguments[f"parameter/{name}"].shape
        if tuple(parameter.shape) != tuple(shape):
            raise StateError(
                f"optimizer: has shape {list(parameter.shape)} in place of {name!r}, expected {list(shape)}"
            )
    return pairs


def _give(state, parameter, entries):
    """Into the tensors that are there, where there are such."""
    old = state.get(parameter, {})
    for key, value in entries.items():
        there = old.get(key)
        if isinstance(there, torch.Tensor) and there.shape == value.shape:
            entries[key] = there.copy_(value)
    state.pop(parameter, None)
    if entries:
        state[parameter] = entries
