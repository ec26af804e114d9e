"""The optimizer's state dict: given by a step, and taken over."""

import math
import numbers
from collections import defaultdict

import torch

from ..base.types import is_number
from ..errors import StateError
from ..guards.watch import is_same_state
from ..optimizers.state_dicts import (
    as_tensor,
    check_dict,
    checked,
    count_of,
    is_own,
    plain_number,
)

# Key of a Tandem step's own values in an optimizer's state dict; torch.optim ignores it.
_OWN_STATE = "tandem"
_WHAT = "optimizer state dict"


def _rate(index, rate, what="optimizer"):
    """A group's learning rate as an argument of the step."""
    one = isinstance(rate, torch.Tensor) and rate.numel() == 1 and not rate.is_meta
    if not one and not isinstance(rate, numbers.Real):
        raise StateError(
            f"{what} parameter group {index}: lr is {rate!r}, expected a number or a tensor of one"
        )
    if not math.isfinite(rate):
        raise StateError(
            f"{what} parameter group {index}: lr is {rate!r}, expected a finite number"
        )
    return torch.as_tensor(rate, dtype=torch.float64).reshape(())


class OptimizerDict:
    """Translates between the state of a torch optimizer and `values`. Changes none of the two.

    `captured` is the `FunctionalOptimizer` of `optimizer`, `names` are {id of a parameter: its name}.
    `watch` sees other parameters in the optimizer's groups, and `counting` has their steps.
    """

    def __init__(self, optimizer, captured, names, values, watch, counting):
        self.optimizer, self.captured, self.counting = optimizer, captured, counting
        self._names, self._values, self._watch = names, values, watch

    def parameters(self):
        """[(index in the state dict, parameter name)]."""
        self._watch.check_groups()
        return [(i, self._names[id(p)]) for i, p in enumerate(self._tensors())]

    def _tensors(self):
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def states(self):
        """{parameter name: [(name of the state, argument)]}; a parameter may have none."""
        states = defaultdict(list)
        for a in self._values.arguments.values():
            if a.role == "state":
                states[a.of].append((a.name.removesuffix(f".{a.of}"), a))
        return states

    def rates(self, groups, what="optimizer"):
        """Rates of the parameter groups that have one. Raises StateError."""
        rated = self.captured.rated()
        return [_rate(i, group.get("lr"), what) for i, group in enumerate(groups) if i in rated]

    def check_groups(self, groups, what):
        """Raises StateError if parameter groups are not the captured ones, but for what may change, which they have."""
        self.captured.check_options(groups, what)
        self.rates(groups, what)

    # Given

    def give(self, rank=None):
        """What `Step.optimizer_state_dict` says."""
        count = self._values.read("step/step")
        state = {i: entries for i, _, entries in self.entries(count, rank) if entries}
        groups = self.groups(self.optimizer.state_dict()["param_groups"], rank)
        own = {"step": int(count), "seed": int(self._values.read("seed/seed"))}
        if not self._values.is_here(rank):
            return {}
        return {"state": self.untrained() | state, "param_groups": groups, _OWN_STATE: own}

    def untrained(self):
        """{index: entries} of parameters that no Program updates, such as frozen ones: the optimizer object keeps them, as PyTorch does."""
        parameters = self._tensors()
        updated, state = self._values.updated, self.optimizer.state
        return {
            index: {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in held.items()}
            for index, name in self.parameters()
            if name not in updated and (held := state.get(parameters[index]))
        }

    def entries(self, count, rank=None):
        """[(index, name, entries)] of the parameters, as torch.optim has them after `count` steps: nothing before the first."""
        updated, states = self._values.updated, self.states()
        for index, name in self.parameters() if int(count) else ():
            entries = {s: self._values.read(a.key, rank) for s, a in states[name] if is_own(s)}
            if name in updated and self.captured.counts_steps(name):
                own = torch.tensor(float(self.counting.of(name, int(count))))
                entries = {"step": own, **entries}
            for number in self.captured.numbers_in(name) & entries.keys():
                entries[number] = plain_number(entries[number])
            if name in updated:
                entries |= self.captured.constants_in(name)
            yield index, name, entries

    def groups(self, groups, rank=None):
        """Parameter groups with the numbers that steps have changed in them."""
        made = []
        for own, group in zip(self.captured.groups, groups, strict=True):
            keys = self.captured.shared_keys(own)
            values = {n: self._values.read(f"state/{key}", rank) for n, key in keys.items()}
            made.append(group | {n: plain_number(v) for n, v in values.items()})
        return made

    # Taken over

    def values_of(self, state):
        """({key: value} of what a state dict gives, what `Counting.load` takes). Raises StateError."""
        check_dict(_WHAT, state, ("state", "param_groups"))
        check_dict(f"{_WHAT}: 'state'", state["state"])
        self.check_groups(state["param_groups"], _WHAT)
        values, counts = self._state_values(state["state"])
        values |= self._group_values(state["param_groups"])
        own, counted = self._own_values(state, counts)
        return values | own, counted

    def _state_values(self, given):
        """({key: value}, {name: count of steps or None}) of the parameters that have a state."""
        values, counts, states = {}, {}, self.states()
        untrained = self.untrained()
        for index, name in self.parameters():
            entries = given.get(index, {})
            check_dict(f"{_WHAT}: state {index}", entries)
            if entries:
                counted = "step" in entries and self._counts_in_state(name)
                counts[name] = count_of(_WHAT, entries["step"]) if counted else None
            if not states[name]:
                self._check_nothing_lost(name, entries, untrained.get(index, {}))
            for state_name, argument in filter(lambda s: is_own(s[0]), states[name]):
                value = entries.get(state_name)
                if value is None:
                    value = self.captured.states(name, fresh=True)[state_name]
                values[argument.key] = checked(argument, as_tensor(value))
        return values, counts

    def _check_nothing_lost(self, name, entries, own):
        """Raises StateError if a parameter without a state here has another one than the optimizer's `own`."""
        known = {"step", *self.captured.constants_in(name)}
        lost = [s for s, value in entries.items() if s not in known and value is not None]
        if lost and not is_same_state(entries, own):
            raise StateError(
                f"{_WHAT}: has state {lost[0]!r} of parameter {name!r}, which has no gradient in the step; thaw it before"
                " tandem.compile, or give an example batch that trains it"
            )

    def _counts_in_state(self, name):
        """Whether a state's `step` is the count of steps, and no state that may stay what it is."""
        return all(f"step.{name}" != argument.name for _, argument in self.states()[name])

    def _group_values(self, groups):
        """{key: value} of the numbers that steps change in parameter groups."""
        values = {}
        for own, group in zip(self.captured.groups, groups, strict=True):
            for name, key in self.captured.shared_keys(own).items():
                if not is_number(group.get(name)):
                    raise StateError(
                        f"{_WHAT} parameter group {own.index}: {name} is {group.get(name)!r}, expected a number"
                    )
                values[f"state/{key}"] = as_tensor(group[name])
        return values

    def _own_values(self, state, counts):
        """({key: value} of step count and seed, what `Counting.load` takes)."""
        own = state.get(_OWN_STATE, {})
        check_dict(f"{_WHAT}: {_OWN_STATE!r}", own)
        counted = [count for count in counts.values() if count is not None]
        count = own.get("step", max(counted, default=self._uncounted(state["state"])))
        count = count_of(_WHAT, count)
        values = {"step/step": torch.tensor(count)}
        if "seed" in own:
            values["seed/seed"] = torch.tensor(count_of(_WHAT, own["seed"]))
        return values, (self._taken_steps(counts, count), count)

    def _taken_steps(self, counts, count):
        """{name: steps taken} of the parameters that have a state; those without a count of their own have the step's."""
        known = self._values.updated & self.states().keys()
        taken = {name: counts.get(name, 0) for name in known}
        return {name: count if own is None else own for name, own in taken.items()}

    def _uncounted(self, state):
        """The step count where the optimizer, such as SGD, has none: the step's own goes on, so that no random number
        comes again; but a momentum that is there is not the first one, and one that is not there is.
        """
        arguments = self._values.arguments.values()
        if not any(argument.role == "state" for argument in arguments):
            return self._values.count
        return max(self._values.count, 1) if state else 0
