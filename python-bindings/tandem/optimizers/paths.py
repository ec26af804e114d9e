"""Paths of an optimizer's step: Python takes one, the captured step has all.

If the step looks at a value that changes in each step (`if k < warmup_steps`), it is traced once for each answer. A
selection by the value joins the results. A path that raises becomes a check, which refuses the step for the values at
which eager raises.
"""

from dataclasses import dataclass, field

import torch

from ..errors import CaptureError, TandemError
from ..tracing.locations import current_location, location_of_traceback

# Ways of one step: each is a trace of its own.
MOST = 64


@dataclass
class Outcome:
    """Of one way or of several: new tensors, None where all end in an exception, and what has to be true for a step that
    went there, (tensor or False, message).
    """

    tensors: list | None
    checks: list = field(default_factory=list)

    def under(self, condition, agreed):
        """The checks where `condition` is `agreed`."""
        other = condition.logical_not() if agreed else condition
        return [(other if ok is False else ok | other, message) for ok, message in self.checks]


@dataclass
class _Decision:
    key: object
    condition: torch.Tensor
    answer: bool
    location: object
    raises: Exception | None = None


class Paths:
    """`name` is that of the optimizer's class, for errors. `values` are its hyperparameters, {name: number}: what follows from
    these alone goes one way, of which `guards` say for which values: pairs of a function of them and what it gives. Without
    `values` it goes both ways.
    """

    def __init__(self, name, values=None):
        self._name, self._count, self._values = name, 0, values
        self.guards = {}
        self._forced, self._taken, self._checks = [], [], []
        # Lines whose exceptions nothing catches: a check says the same, without a trace of that way.
        self._uncaught = set()

    def explore(self, run):
        """What `run()`, a list of tensors, gives on all ways together. It is called once for each way, and does the same."""
        return self._explore(run, [])

    def _explore(self, run, forced):
        outcome, taken = self._go(run, forced)
        for place in reversed(range(len(forced), len(taken))):
            decision = taken[place]
            if decision.raises is not None and decision.location in self._uncaught:
                other = Outcome(None, [(False, self._message(decision.location, decision.raises))])
            else:
                answers = [d.answer for d in taken[:place]] + [not decision.answer]
                other = self._explore(run, answers)
            outcome = _merge(decision, outcome, other)
        return outcome

    def _go(self, run, forced):
        self._count += 1
        self._forced, self._taken, self._checks = forced, [], []
        try:
            outcome = Outcome(run(), self._checks)
        except TandemError:
            raise
        except Exception as error:
            if not self._taken:
                raise
            location = location_of_traceback(error.__traceback__)
            if self._taken[-1].raises is error:
                location = self._taken[-1].location
                self._uncaught.add(location)
            outcome = Outcome(None, [*self._checks, (False, self._message(location, error))])
        return outcome, self._taken

    def _message(self, location, error):
        return (
            f"{location}: optimizer {self._name}: its step raises {type(error).__name__} for the values of this step, as in"
            f" eager: {error}"
        )

    def decide(self, number, raises=None):
        """The answer on this way to a Number that is a truth, the same for the same key."""
        if number.host is not None and self._values is not None:
            answer = bool(number.host(self._values))
            self.guards[number.key] = number.host, answer
            return answer
        return self._decide(number.key, number.tensor, raises)

    def _decide(self, key, condition, raises):
        known = next((d for d in self._taken if d.key == key), None)
        if known is not None:
            return known.answer
        location, place = current_location(), len(self._taken)
        if place >= len(self._forced) and self._count + self._pending() >= MOST:
            raise CaptureError(
                f"{location}: optimizer {self._name}: its step looks at values in more than {MOST} ways, as each `if` of each"
                " parameter doubles them, expected torch.where(condition, one, other), which chooses among tensors without a look"
                " at them"
            )
        answer = self._forced[place] if place < len(self._forced) else True
        self._taken.append(_Decision(key, condition, answer, location, raises))
        return answer

    def _pending(self):
        return sum(
            d.raises is None or d.location not in self._uncaught
            for d in self._taken[len(self._forced) :]
        )

    def expect(self, number, error):
        """Raises `error` on the way on which a Number that is a truth does not hold."""
        if number.host is None and current_location() in self._uncaught:
            self.check(number.tensor, self._message(current_location(), error))
        elif not self.decide(number, error):
            raise error

    def check(self, condition, message):
        """A step on this way is refused where the condition does not hold."""
        self._checks.append((condition, message))


def hold(guards, values):
    """Whether these hyperparameters go the way of the guards."""
    try:
        return all(bool(host(values)) == answer for host, answer in guards)
    except (ArithmeticError, ValueError, KeyError):
        return False


def _merge(decision, one, other):
    """By the decision's condition, which is `decision.answer` for `one`."""
    condition = decision.condition
    yes, no = (one, other) if decision.answer else (other, one)
    checks = yes.under(condition, True) + no.under(condition, False)
    if yes.tensors is None or no.tensors is None:
        return Outcome(no.tensors if yes.tensors is None else yes.tensors, checks)
    pairs = zip(yes.tensors, no.tensors, strict=True)
    return Outcome([a if a is b else torch.where(condition, a, b) for a, b in pairs], checks)
