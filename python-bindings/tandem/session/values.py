"""Values of a step by key, which is `role/name`: in the store, or beside it."""

import torch

from ..base.types import DTYPES
from ..errors import StateError
from ..optimizers.optimizers import is_fresh_state
from .programs import read

# Roles of values that no Program may use, and that outlive a step all the same.
_KEPT = ("parameter", "buffer", "seed")
_COUNT, _SEED = "step/step", "seed/seed"


def keys_in(store):
    """Keys of the values that a store has, which may be None."""
    return {f"{t.role}/{t.name}" for t in store.tensors} if store is not None else set()


class Values:
    """Reads and writes whole values. Of several processes, process 0 gives a value, and all call `set`.

    `programs` have the sessions of the store. This part owns the values beside it: `missing` ones of a
    model on the meta device, and `kept` ones that no Program uses.
    """

    def __init__(self, programs, model_names):
        """`model_names` are those of the model's state dict."""
        self._programs, self._model_names = programs, frozenset(model_names)
        self._session = session = programs.main.session
        self._root = 0 if len(session.ranks) < session.program.num_ranks else None
        self._missing, self._kept = {}, {}

    @property
    def store(self):
        return self._session.store

    @property
    def ranks(self):
        """The ranks of this process."""
        return self._session.ranks

    @property
    def sessions(self):
        """The sessions of all Programs, the first one's first."""
        return self._programs.sessions

    @property
    def arguments(self):
        """{key: argument} of all Programs."""
        return self._programs.arguments

    @property
    def updated(self):
        """The names of the parameters that some Program updates."""
        return self._programs.updated

    @property
    def kept(self):
        """{key: tensor} of values that no Program uses and that differ from the torch model's."""
        return dict(self._kept)

    @property
    def damaged(self):
        """Keys of values that a failed step may have updated in part."""
        return [f"{t.role}/{t.name}" for t in self.store.tensors if t.damaged]

    def start(self, arguments, held, seed):
        """Sets the arguments and the seed to what they start from, unless their key is in `held`."""
        for argument in arguments:
            if argument.key not in held:
                self._start(argument)
        if _SEED not in held:
            self.set(_SEED, torch.tensor(seed))

    def _start(self, argument):
        is_state, value = argument.role == "state", argument.value
        is_fresh = is_state and (value is None or is_fresh_state(value))
        if is_fresh and self._root is None:
            return  # A store begins with zeros. In a job it is process 0 that says what is fresh.
        if value is not None:
            if self._is_stored(argument.key):
                self.set(argument.key, value)
        elif is_state:
            self.set(argument.key, torch.zeros(argument.shape, dtype=argument.dtype))
        elif argument.role in ("parameter", "buffer") and self._is_stored(argument.key):
            self._missing[argument.key] = argument

    def _is_stored(self, key):
        """Whether the first Program has the argument."""
        return self._programs.main.index_of(key) >= 0

    def set(self, key, value):
        """Gives an argument a value; a value that no Program uses is kept."""
        holder = self._programs.holder(key)
        if holder.index_of(key) >= 0:
            holder.set(key, value, self._root)
        elif key.partition("/")[0] in _KEPT:
            self.keep(key, value.detach().cpu().clone())

    def set_all(self, values):
        """Gives arguments values by key. They are no longer missing."""
        for key, value in values.items():
            self.set(key, value)
            self._missing.pop(key, None)

    def keep(self, key, value):
        """Keeps a value that no Program uses."""
        self._kept[key] = value

    def read(self, key, rank=None):
        """What `Step.value` says."""
        if key in self._missing:
            self.check_missing()
        holder = self._programs.holder(key)
        session, index = holder.session, holder.index_of(key)
        if index < 0:
            return self._kept.get(key, self.arguments[key].value)
        return read(session.arguments[index], session.get_argument, index, rank)

    def is_here(self, rank):
        """Whether this process gets the values that are read with `rank`."""
        return rank is None or rank in self._session.ranks

    def check_missing(self):
        """Raises StateError if a value is missing."""
        for argument in self._missing.values():
            what = f"{argument.role} {argument.name!r} is on the meta device and has no value, expected"
            if argument.name in self._model_names:
                raise StateError(f"{what} load_state_dict() before the first step")
            raise StateError(f"{what} one made on the CPU: it is not part of the state dict")

    def forget_missing(self):
        """All values have been loaded."""
        self._missing.clear()

    @property
    def count(self):
        """What `Step.count` says."""
        index = self._programs.main.index_of(_COUNT)
        if index < 0:
            return int(self._kept.get(_COUNT, self.arguments[_COUNT].value))
        own = self._session.ranks[0]
        member = next(s.member for s in self._session.slices(index) if s.rank == own)
        value = torch.empty((), dtype=DTYPES[self._session.arguments[index].type])
        self._session.read_slice(member, own, 0, value)
        return int(value)
