"""Optimizer groups and learning-rate schedules in a checkpoint."""

from ..errors import CheckpointError, StateError, shown
from ..guards.watch import schedulers_of
from ..optimizers import hyperparameters
from . import plain


def choose_schedulers(given, optimizer):
    """Those given, or those in use, by kind; where that is not clear, an error."""
    if given is None:
        chosen = schedulers_of(optimizer)
        kinds = [_kind(scheduler) for scheduler in chosen]
        for kind in kinds:
            if kinds.count(kind) > 1:
                raise CheckpointError(
                    f"scheduler: found {kinds.count(kind)} {kind} of the optimizer, expected to be told which, as"
                    " scheduler=[first, second]"
                )
    else:
        chosen = list(given) if isinstance(given, (list, tuple)) else [given]
    for scheduler in chosen:
        if not hasattr(scheduler, "state_dict") or not hasattr(scheduler, "load_state_dict"):
            raise CheckpointError(
                f"scheduler is {_kind(scheduler)}, expected one of torch.optim.lr_scheduler, or a list of them"
            )
    return sorted(chosen, key=_kind)


def _kind(scheduler):
    return type(scheduler).__qualname__


def _checked_name(value):
    """That of a class. ValueError for what is none."""
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"{value!r} is no class")
    return value


class Training:
    """Of one step. `names` are those of the optimizer's parameters, in its order."""

    def __init__(self, optimizer, names, scheduler, check_groups):
        """`scheduler`: what the user gives, None if nothing. `check_groups(groups, what)` raises where groups of a
        state dict are not the captured ones.
        """
        self.optimizer, self.names, self.check_groups = optimizer, names, check_groups
        self.schedulers = choose_schedulers(scheduler, optimizer)
        self.leaves_schedules = scheduler is not None and not self.schedulers

    def _groups(self):
        """As in a state dict, with names in place of numbers."""
        groups = self.optimizer.state_dict()["param_groups"]
        return [g | {"params": [self.names[i] for i in g["params"]]} for g in groups]

    def save(self):
        return {
            "optimizer": _kind(self.optimizer),
            "groups": plain.encode(self._groups(), "optimizer.param_groups"),
            "schedulers": [
                {"kind": _kind(s), "state": plain.encode(s.state_dict(), f"scheduler {_kind(s)}")}
                for s in self.schedulers
            ],
        }

    def check(self, saved, what, names, counted):
        """That `saved` fits; returns what `restore` needs. `names` are {name there: that of the parameter}, `counted` parameters
        that it has trained. Changes nothing.
        """
        kind = _checked_name(saved["optimizer"])
        if kind != _kind(self.optimizer):
            raise CheckpointError(
                f"{what}: is of another optimizer: {kind[:100]}, expected {_kind(self.optimizer)}"
            )
        theirs = _groups_of(saved, names)
        for name in counted - {name for group in theirs for name in group["params"]}:
            raise ValueError(f"parameter {name!r} is trained, and in no group")
        groups, own = self._fit(theirs, what), self._groups()
        for index, (group, mine) in enumerate(zip(groups, own, strict=True)):
            place = f"{what}: optimizer parameter group {index}"
            for key in group.keys() & mine.keys() - {"params"}:
                hyperparameters.check_alike(place, key, group[key], mine[key])
                hyperparameters.check_finite(place, key, group[key], mine[key])
            hyperparameters.check_numbers(place, group, self.optimizer)
        try:
            self.check_groups(groups, f"{what}: optimizer")
        except StateError as error:
            raise CheckpointError(str(error)) from error
        return groups, self._check_schedulers(saved["schedulers"], what)

    def _fit(self, saved, what):
        """The saved groups as the optimizer has them. Parameters that were frozen may be in none of them: then they are in the
        optimizer's, which has its own hyperparameters where it has a group of none but them.
        """
        own = self._groups()
        fitted, at = list(own), 0
        for group in saved:
            names = set(group["params"])
            while at < len(own) and not names <= set(own[at]["params"]):
                at += 1
            if at == len(own):
                raise CheckpointError(
                    f"{what}: is of another optimizer: {_first_other_group(saved, own)}"
                )
            fitted[at] = group | {"params": own[at]["params"]}
            at += 1
        return fitted

    def _check_schedulers(self, saved, what):
        if self.leaves_schedules:
            return []
        kinds = [_checked_name(s["kind"]) for s in saved]
        own = [_kind(s) for s in self.schedulers]
        if kinds != own:
            raise CheckpointError(
                f"{what}: its schedulers are {' and '.join(kinds) or 'none'}, the optimizer has"
                f" {' and '.join(own) or 'none'}; expected the same, made before step.load, or scheduler=() to"
                " load no schedule"
            )
        states = [plain.decode(s["state"]) for s in saved]
        for kind, state, scheduler in zip(kinds, states, self.schedulers, strict=True):
            _check_state(f"{what}: scheduler {kind}", state, scheduler.state_dict())
        return states

    def restore(self, checked):
        groups, states = checked
        hyperparameters.restore(self.optimizer, groups)
        for scheduler, state in zip(self.schedulers, states, strict=True):
            scheduler.load_state_dict(state)


def _groups_of(saved, names):
    groups = plain.decode(saved["groups"])
    for key in (key for group in groups for key in group):
        if not isinstance(key, str):
            raise ValueError(f"{key!r} is no name of a hyperparameter")
    return [
        group | {"params": [names.get(name, name) for name in group["params"]]} for group in groups
    ]


def _first_other(found, expected):
    for mine, theirs in zip(found, expected, strict=False):
        if mine != theirs:
            return f"{shown(mine)} where {shown(theirs)} is expected"
    return f"{len(found)} parameters, expected {len(expected)}"


def _first_other_group(saved, own):
    for index, (group, expected) in enumerate(zip(saved, own, strict=False)):
        if group["params"] != expected["params"]:
            other = _first_other(group["params"], expected["params"])
            return f"its parameter group {index} has {other}"
    return f"it has {len(saved)} parameter groups, expected {len(own)}"


def _check_state(what, state, own):
    """The entries of a schedule's state are those of the scheduler, also of schedulers inside."""
    for key in state.keys() ^ own.keys():
        raise CheckpointError(
            f"{what}: {'has' if key in state else 'lacks'} {key!r}, expected the entries of this scheduler's state"
        )
    inner, own_inner = state.get("_schedulers", []), own.get("_schedulers", [])
    if len(inner) != len(own_inner):
        raise CheckpointError(
            f"{what}: has {len(inner)} schedulers inside, expected {len(own_inner)}"
        )
    for key in own.keys() - {"_schedulers"}:
        hyperparameters.check_alike(what, key, state[key], own[key])
    for number, pair in enumerate(zip(inner, own_inner, strict=True)):
        _check_state(f"{what}, scheduler {number} inside", *pair)
