"""Match of a checkpoint's tensors to the values of a step, by name, type and shape."""

from dataclasses import dataclass

from ..errors import CheckpointError
from ..optimizers.state_dicts import checked
from ..tracing.wrappers import renamed
from . import plain
from .index import none_that_was_saved


@dataclass
class Fit:
    """`tensors` are those of the index under the step's keys, `fresh` {key: value} the states that it does not have, of
    parameters that were `frozen` when it was saved; `counts` {parameter name: steps that it has taken}. `training` is what
    `Training.restore` needs.
    """

    tensors: dict
    fresh: dict
    frozen: list
    counts: dict
    training: tuple
    extra: object


def fit(state, values, index, training, what):
    """`state` is the `TrainState` of the step, `values` its `StoredValues`. Changes nothing. Raises CheckpointError."""
    names = _names(state, index.tensors)
    tensors = {_renamed_key(key, names): stored for key, stored in index.tensors.items()}
    for role in ("parameter", "buffer"):
        _check_tensors(what, tensors, values, role)
    with none_that_was_saved(what):
        counts = _counts(index.training["counts"], names)
        groups = training.check(index.training, what, names, counts.keys())
        extra = plain.decode(index.extra)
        _check_counted(state.values, tensors, counts)
    fresh = _fresh_states(state, values, tensors, counts)
    for role in ("state", "step", "seed"):
        _check_tensors(what, tensors, values, role, fresh)
    frozen = sorted(state.values.updated - counts.keys())
    return Fit(tensors, fresh, frozen, counts | dict.fromkeys(frozen, 0), groups, extra)


def _names(state, tensors):
    """{name of a parameter or buffer there: its name in the step}."""
    pairs = [key.split("/", 1) for key in tensors]
    saved = [name for role, name in pairs if role in ("parameter", "buffer")]
    arguments = state.values.arguments.values()
    return renamed(saved, state.model_dict.by_name().keys() | {a.name for a in arguments})


def _renamed_key(key, names):
    role, _, rest = key.partition("/")
    if role != "state":
        return f"{role}/{names.get(rest, rest)}"
    parts = rest.split(".")
    for at in range(1, len(parts)):
        name = ".".join(parts[at:])
        if name in names:
            return ".".join([f"{role}/{parts[0]}", *parts[1:at], names[name]])
    return key


def _counts(counts, names):
    for name, count in counts.items():
        if name not in names or type(count) is not int or not 0 <= count < 2**53:
            raise ValueError(f"{count!r} steps of parameter {name!r}")
    return {names[name]: count for name, count in counts.items()}


def _check_counted(values, tensors, counts):
    """What has a state has taken steps."""
    for argument in values.arguments.values():
        if argument.role == "state" and argument.key in tensors and argument.of not in counts:
            raise ValueError(f"no count of the steps of parameter {argument.of!r}")


def _fresh_states(state, values, tensors, counts):
    """{key: value} of the states of parameters that the checkpoint has not trained, as before their first step."""
    fresh = {}
    arguments = state.values.arguments
    for argument in (arguments[key] for key in values.arguments if key not in tensors):
        if argument.role == "state" and argument.of not in counts:
            states = state.optimizer_dict.captured.states(argument.of, fresh=True)
            name = argument.name.removesuffix(f".{argument.of}")
            fresh[argument.key] = checked(argument, states[name])
    return fresh


def _title(key):
    role, _, name = key.partition("/")
    return f"{role} {name!r}"


def _check_tensors(what, tensors, values, role, fresh=()):
    """That the checkpoint has the step's values of a role but for `fresh` ones. Those without a value there, or in the step,
    are no matter.
    """
    own = {k: v for k, v in values.describe().items() if k.startswith(f"{role}/")}
    other = f"{what}: is of another {'optimizer' if role == 'state' else 'model'}:"
    for key in own:
        # A seed is there only where something is drawn.
        if key not in tensors and key != "seed/seed" and key not in fresh:
            raise CheckpointError(f"{other} it has no {_title(key)}")
    for key, stored in tensors.items():
        if not key.startswith(f"{role}/"):
            continue
        if key not in own and key == "seed/seed":
            continue
        if key not in own and key not in values.missing:
            thaw = "; thaw its parameter before tandem.compile" if role == "state" else ""
            raise CheckpointError(f"{other} it has {_title(key)}, the step has not{thaw}")
        expected = own.get(key) or values.describe_missing(key)
        if (stored.type, stored.shape) != expected:
            raise CheckpointError(
                f"{other} {_title(key)} is {_typed(stored.type, stored.shape)}, expected {_typed(*expected)}"
            )


def _typed(type_name, shape):
    return f"{type_name}{list(shape)}"
