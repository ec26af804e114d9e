"""The model's state dict: given by a step, and taken over."""

from ..errors import StateError
from ..optimizers.state_dicts import by_name, check_dict, checked, remedy, under_own_names


class ModelDict:
    """Translates between names of the model and keys of `values`. Changes no value.

    `names` are those of the model's state dict. `unregistered` are names of what the optimizer trains
    and the model holds without having registered it.
    """

    def __init__(self, module, names, unregistered, values):
        self._module, self._names, self._values = module, names, values
        self.unregistered = unregistered

    def by_name(self):
        """{name in the model: Named} of parameters and buffers."""
        return by_name(self._module.arguments)

    def _stored(self):
        """{name in the model's state dict: Named}, in its order."""
        named = self.by_name()
        return {name: named[name] for name in self._names if name in named}

    def give(self, rank=None):
        """What `Step.state_dict` says."""
        stored = self._stored()
        keys = dict.fromkeys(named.argument.key for named in stored.values())
        values = {key: self._values.read(key, rank) for key in keys}
        if not self._values.is_here(rank):
            return {}
        return {name: n.as_given(values[n.argument.key]) for name, n in stored.items()}

    def values_of(self, state):
        """{key: value} of what a state dict gives. Raises StateError."""
        check_dict("state dict", state, ())
        state = under_own_names(state, self._names)
        self._check_names(state)
        values = {}
        for name, named in self._stored().items():
            self._put(values, named, checked(named.kind, state[name]))
        return self._beyond_dicts() | values

    def _check_names(self, state):
        missing = [name for name in self._stored() if name not in state]
        if missing:
            raise StateError(
                f"state dict: has no {missing[0]!r}; expected every name of the model's state dict"
                + remedy(state, missing[0])
            )
        extra = [name for name in state if name not in self._names]
        if extra:
            raise StateError(
                f"state dict: has {extra[0]!r}, expected only names of the model's own"
            )

    def _put(self, values, named, value):
        """Puts a value into `values`. One that shares memory is copied into its place there, as PyTorch does."""
        key = named.argument.key
        if not named.argument.views:
            values.setdefault(key, value)
            return
        if key not in values:
            values[key] = self._values.read(key) if named.viewed else value.clone()
        named.of(values[key]).copy_(value)

    def _beyond_dicts(self):
        """{key: value to start from} of damaged buffers that no state dict has."""
        arguments = self._values.arguments
        keys = [key for key in self._values.damaged if key.startswith("buffer/")]
        lost = [arguments[key] for key in keys if key in arguments]
        return {a.key: a.value for a in lost if a.name not in self._names and a.value is not None}
