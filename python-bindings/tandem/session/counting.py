"""Steps that each parameter has taken, where the optimizer depends on them."""

from ..optimizers.counts import Counts


class Counting:
    """Owns the `Counts` of a step. `captured` has the optimizer's rules, `values` the step's own count."""

    def __init__(self, captured, values, module):
        """`module` is the captured step of the first Program."""
        self._captured, self._values, self._counted_of = captured, values, {}
        self._counts = Counts(module.starts, self._counted(module.updated))

    def _counted(self, updated):
        """Those of the parameters whose steps count: asked once, as each step needs them and options are as captured."""
        if updated not in self._counted_of:
            counted = filter(self._captured.depends_on_steps, updated)
            self._counted_of[updated] = frozenset(counted)
        return self._counted_of[updated]

    def starts(self, updated):
        """Those of `Counts` for a step that updates the parameters `updated`."""
        counted = self._counted(updated)
        if counted != self._counts.trained:
            step = int(self._values.read("step/step"))
            self._counts.follow(counted, step, self._captured.steps_taken)
        return {n: start for n, start in sorted(self._counts.starts.items()) if n in updated}

    def of(self, name, step):
        """The steps that a parameter has taken when the step has counted `step`."""
        return self._counts.of(name, step)

    def load(self, counts, step):
        """Takes over {name: steps taken} of parameters."""
        self._counts.load(counts, step)
