"""Batches: trained or evaluated by the Program for their shapes."""

from ..errors import TandemError
from ..optimizers.clipping import NORM


def _settings(reports):
    """Those of all processes, or none: who has them compiles together with the others."""
    settings = [report["settings"] for report in reports]
    return settings if any(settings) else ()


class Runner:
    """Runs batches. All processes of a job call `train` and `evaluate`. Owns which Program trained last.

    `programs` finds the Program, `watching` is asked before, `counting` has the steps of parameters.
    """

    def __init__(self, programs, watching, counting, optimizer, has_gradients):
        """`has_gradients`: the step was compiled to return them. There may be none, of a loss that no parameter decides."""
        self._programs, self._watching, self._counting = programs, watching, counting
        self._optimizer, self._has_gradients = optimizer, has_gradients
        self._last = programs.main

    def train(self, batch):
        """What `Step.__call__` says. None for a batch that is left out."""
        programs, watching = self._programs, self._watching
        reports = programs.check_alike(batch, watching.ready)
        numbers = watching.numbers()
        batch = programs.take(batch)
        if batch is None:
            return None
        self._last = programs.training(
            batch,
            watching.hyperparameters(),
            numbers,
            watching.trained,
            self._counting.starts,
            _settings(reports),
        )
        inputs = programs.inputs(self._last, batch)
        watching.check_changes(reports)
        watching.trains()
        returned = self._last.run(inputs, numbers)
        programs.follow(self._last)
        # What schedulers want to come before them; they look whether it has.
        self._optimizer._opt_called = True
        return returned

    def evaluate(self, batch):
        """What `Step.evaluate` says."""
        reports = self._programs.check_alike(batch, self._watching.report)
        self._watching.check_changes(reports)
        program, inputs = self._programs.evaluation(batch, _settings(reports))
        return program.run(inputs)

    def result(self, role, name):
        """What `Step.result` says."""
        return self._last.result(role, name)

    def gradients(self):
        """What `Step.gradients` says."""
        names = [r.name for r in self._last.module.results if r.role == "gradient"]
        if not names and not self._has_gradients:
            raise TandemError(
                "gradients: the step was compiled without them, expected compile(..., gradients=True)"
            )
        return {name: self.result("gradient", name) for name in names}

    def grad_norm(self):
        """What `Step.grad_norm` says."""
        if self._programs.main.session.find_result("output", NORM) < 0:
            raise TandemError(
                "grad_norm: the step was compiled without it, expected compile(..., clip_grad_norm=...)"
            )
        if self._last.norm is None:
            raise TandemError("grad_norm: no step has been trained, expected one before")
        return self._last.norm
