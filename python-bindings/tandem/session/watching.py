"""Checks before each step: options, flags, other steps, and changed values of torch objects."""

from ..base import job as jobs
from ..errors import StateError
from ..guards.ambient import check_around, check_gradients
from ..guards.outdated import Trained
from ..guards.python_state import Flags
from ..guards.watch import check_schedulers
from ..optimizers import hyperparameters


def _raise_first(errors):
    for error in errors:
        if error is not None:
            raise error


class Watching:
    """Sees whether a step still fits its torch model and optimizer, and whether it has their values.

    Owns `is_ahead`: whether the step has trained since its values were the torch model's own. Reads
    `values`, `model_dict` and `optimizer_dict`. Only `check_changes` asks other processes.
    """

    def __init__(self, values, model_dict, optimizer_dict, watch, programs, recipe, named):
        """`named` are (name, parameter). `recipe` may be None, as in `Programs`."""
        self._values, self._model_dict, self._optimizer_dict = values, model_dict, optimizer_dict
        self._watch, self._programs = watch, programs
        self._optimizer, self._captured = optimizer_dict.optimizer, optimizer_dict.captured
        self._flags = Flags(watch.model, self._optimizer)
        self._may_thaw, self._job, self._varying = recipe is not None, None, frozenset()
        if recipe is not None:
            self._job, self._varying = recipe.job, recipe.wanted.varying
        self._rates_checked, self.is_ahead = False, False
        self._trained = Trained(self, named, watch.model, optimizer_dict, programs)

    def hyperparameters(self):
        """As a `Wanted` has them."""
        return dict(varying=self._varying, constants=self._captured.constants(self._varying))

    def numbers(self):
        """{name: number} of the optimizer's groups that the next step takes."""
        return self._captured.numbers(self._varying)

    @property
    def trained(self):
        """The names of the parameters that have gradients now."""
        return self._flags.trained

    def is_model(self, model):
        """Whether this is the torch model of the step."""
        return model is self._watch.model

    def ready(self):
        """Checks the torch model and optimizer, as far as a training step reads them. Returns the report."""
        check_gradients(StateError)
        self._varying |= self._captured.check_options()
        rates = self._optimizer_dict.rates(self._optimizer.param_groups)
        self._watch.check_groups()
        self._flags.check(self._may_thaw)
        if not self._rates_checked:
            check_schedulers(self._optimizer, [float(rate) for rate in rates])
            self._rates_checked = True
        return self.report()

    def report(self):
        """What the processes of a job tell each other before a step: what must be alike, and what was changed."""
        check_around("step", StateError)
        self._values.check_missing()
        self._trained.check()
        self._programs.check_constants(all_values=self._watch.count())
        changed, optimizer = self._watch.changed(), self._optimizer
        if changed:
            _raise_first([self._watch.other_names()])
        alike = hyperparameters.texts(optimizer) | self._flags.texts() if self._job else {}
        return {
            "alike": alike,
            "settings": self._programs.settings(),
            "changed": changed,
            "model": self._watch.suspected() if changed else [],
            "optimizer": changed and self._watch.has_other_state(),
        }

    def sees_changes(self):
        """What `Step.sees_changes` says."""
        return self._watch.changed()

    def check_changes(self, reports):
        """Raises StateError if the torch model and optimizer were given values that the step has not. All processes of a
        job put together what was changed in one of `reports`, and an error of one is that of all.
        """
        if not any(r["changed"] for r in reports):
            return
        errors = [self._watch.other_names(), *self._differences(reports)]
        if any(r["optimizer"] for r in reports):
            errors.append(self._watch.other_state(self._optimizer_dict.give()))
        jobs.together(self._job, "values", lambda: _raise_first(errors))
        self._watch.begin()

    def _differences(self, reports):
        """An error, or None, of each value of the model that may have changed."""
        arguments = self._model_dict.by_name()
        for name in sorted({n for r in reports for n in r["model"]} & arguments.keys()):
            named = arguments[name]
            value = named.of(self._values.read(named.argument.key))
            yield self._watch.difference(name, named.kind, value)

    def trains(self):
        """A training step begins."""
        self.is_ahead = True
        self._trained.count += 1

    def took_over(self, with_model=True, with_optimizer=True):
        """The step has the values that the torch model and optimizer have now."""
        self._watch.begin(with_model, with_optimizer)
        self._captured.note_shared()
        self._trained.take_over(with_model, with_optimizer)
        self.is_ahead |= with_model
        self._rates_checked = False
