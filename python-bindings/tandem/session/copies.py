"""Values of a step copied into a torch model and optimizer, and back."""

import torch

from ..base.memory import Memory, view_in
from ..base.types import as_real
from ..errors import StateError
from ..guards.outdated import warn_of_others
from ..guards.watch import is_equal
from ..optimizers import hyperparameters
from ..optimizers.state_dicts import checked
from ..tracing.unregistered import tensors_under
from ..tracing.wrappers import plain_name, renamed


def _names(state, model):
    """{plain name in the model: that in the step}, which differ by what wraps one of the two."""
    if not isinstance(model, torch.nn.Module):
        raise StateError(f"model is {type(model).__name__}, expected a torch.nn.Module")
    names = [plain_name(name) for name, _ in _named(state, model)]
    return renamed(names, [plain_name(name) for name in state.model_dict.by_name()])


def _named(state, model):
    """[(name, tensor)] of parameters and buffers, tied names too, and of what the step's model has not registered."""
    own = (model.named_parameters, model.named_buffers)
    named = [pair for list_all in own for pair in list_all(remove_duplicate=False)]
    return [*named, *tensors_under(model, state.model_dict.unregistered).items()]


def _tensors_of(state, model):
    """{name in the step: tensor as it is stored} of parameters and buffers, tied names and those of no state dict too."""
    names = _names(state, model)
    return {names[plain_name(n)]: as_real(tensor) for n, tensor in _named(state, model)}


def _pairs(state, model):
    """[(argument, [(Named, tensors of the model)])]: what both have, each once; an error where they differ."""
    named = _tensors_of(state, model)
    own = {plain_name(n): value for n, value in state.model_dict.by_name().items()}
    for name in (*own, *named):
        if name not in own or name not in named:
            raise StateError(
                f"model: {'has' if name in named else 'has no'} {name!r}, expected the names of the step's model"
            )
        _check(name, own[name].kind, named[name])
    pairs, seen = {}, set()
    for what in own.values():
        if id(what) not in seen:
            seen.add(id(what))
            names = (what.kind.name, *what.kind.aliases)
            held = [named[plain_name(n)] for n in names]
            pairs.setdefault(what.argument.key, (what.argument, []))[1].append((what, held))
    return list(pairs.values())


def _part(state, model):
    """Gives buffers memory of their own that lie in that of another tensor, and do not in the step: eager has put other tensors
    in their place since. So it does with those that are expanded, which have no memory for all of their elements.
    """
    named = {plain_name(n): v for n, v in state.model_dict.by_name().items()}
    tensors, names = _tensors_of(state, model), _names(state, model)
    memory, new = Memory(tensors.items()), {}
    for prefix, module in model.named_modules():
        for key, tensor in module._buffers.items():
            name = names.get(plain_name(f"{prefix}.{key}" if prefix else key))
            if name in named and not _fits(name, named, tensors, memory):
                own = torch.empty_like(tensor, memory_format=torch.contiguous_format)
                module._buffers[key] = new.setdefault(id(tensor), own)


def _fits(name, named, tensors, memory):
    """Whether a tensor shares memory with those that it shares it with in the step."""
    what, tensor = named[name], tensors[name]
    if any(n > 1 and not s for n, s in zip(tensor.shape, tensor.stride(), strict=True)):
        return False
    others = [other for other, _ in memory.sharing(tensor) if named[other] is not what]
    if any(named[other].argument is not what.argument for other in others):
        return False
    owner = tensors.get(plain_name(what.argument.name))
    return not others or what.viewed is None or view_in(owner, tensor) == what.viewed.view


def _check(name, kind, tensor):
    if tuple(tensor.shape) != tuple(kind.shape):
        raise StateError(
            f"model: {name!r} has shape {list(tensor.shape)}, expected {list(kind.shape)}"
        )
    if tensor.is_meta:
        raise StateError(
            f"model: {name!r} is on the meta device, expected values (model.to_empty(device='cpu')"
            " makes room for them)"
        )


def copy_in(state, model, optimizer):
    """What `Step.load` says."""
    values = {}
    if model is not None:
        pairs = [pair for pair in _pairs(state, model) if pair[0].role != "state"]
        warn_of_others(model, state.watching)
        values = {argument.key: _taken(whats) for argument, whats in pairs}
    optimizer_state = None
    if optimizer is not None:
        _check_optimizer(state, optimizer)
        optimizer_state = optimizer.state_dict()
    state.take(values, optimizer_state)
    if state.watching.is_model(model):
        state.watching.is_ahead = False


def _taken(whats):
    """The value of an argument; what lies in its memory in the step has to agree with it."""
    whats = [(named, checked(named.kind, tensors[0])) for named, tensors in whats]
    value = next(value for named, value in whats if named.viewed is None)
    for named, other in whats:
        if named.viewed is not None and not is_equal(named.of(value), other):
            raise StateError(
                f"model: {named.kind.name!r} has other values than {named.argument.name!r}, expected the same where it has,"
                " in the step's model, the same memory"
            )
    return value


def _check_optimizer(state, optimizer):
    found, expected = type(optimizer), type(state.optimizer_dict.optimizer)
    if found is not expected:
        raise StateError(f"optimizer is {found.__qualname__}, expected {expected.__qualname__}")


def copy_out(state, model, optimizer, rank):
    """What `Step.sync_to` says."""
    if model is None and optimizer is None:
        raise StateError("sync_to: expected a model, an optimizer, or both")
    is_here, own = state.values.is_here(rank), state.optimizer_dict.optimizer
    pairs = _pairs(state, model) if model is not None else ()
    if model is not None and is_here:
        _part(state, model)
        pairs = _pairs(state, model)
    parameters = _parameters(state, optimizer) if optimizer is not None else ()
    state.values.check_missing()
    _copy_values(state, pairs, rank)
    _copy_entries(state, optimizer, parameters, rank)
    if optimizer is not None:
        _copy_groups(state, optimizer, rank)
    is_own = state.watching.is_model(model)
    state.watching.took_over(is_own, optimizer is own)
    if is_own and is_here:
        state.watching.is_ahead = False


@torch.no_grad()
def _copy_values(state, pairs, rank):
    """Into the tensors of a model, one value at a time."""
    for argument, whats in pairs:
        value = state.values.read(argument.key, rank)
        for named, tensors in whats if state.values.is_here(rank) else ():
            for tensor in {id(t): t for t in tensors}.values():
                tensor.copy_(named.of(value))


def _copy_entries(state, optimizer, parameters, rank):
    """Into the state of an optimizer, of its `parameters` with their names in the step."""
    own = state.optimizer_dict
    count = state.values.read("step/step") if parameters else None
    entries_of = {i: e for i, _, e in own.entries(count, rank)} if parameters else {}
    # What the step does not train, its optimizer has, and goes on with when that thaws.
    kept = own.untrained() if optimizer not in (None, own.optimizer) else {}
    for index, (parameter, name) in enumerate(parameters):
        if state.values.is_here(rank) and (name in state.values.updated or index in kept):
            _give(optimizer.state, parameter, kept.get(index) or entries_of.get(index, {}))


def _copy_groups(state, optimizer, rank):
    """Into the parameter groups of an optimizer."""
    own = state.optimizer_dict
    if optimizer is not own.optimizer:
        hyperparameters.restore(optimizer, own.optimizer.state_dict()["param_groups"])
    groups = own.groups(optimizer.state_dict()["param_groups"], rank)
    if state.values.is_here(rank):
        hyperparameters.restore(optimizer, groups)


def _parameters(state, optimizer):
    """[(parameter of the optimizer, its name in the step)]."""
    _check_optimizer(state, optimizer)
    own, arguments = state.optimizer_dict, state.values.arguments
    own.check_groups(optimizer.state_dict()["param_groups"], "optimizer")
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    pairs = [(parameters[index], name) for index, name in own.parameters()]
    for parameter, name in pairs:
        shape = arguments[f"parameter/{name}"].shape
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
