"""Step counts of parameters: PyTorch counts per parameter, a step once.

A parameter's count is the step's count less its *start*, a constant of the Program. A start differs from 0 if the
parameter was frozen or had no gradient while others were trained, for example in batches of some sizes.
"""


class Counts:
    """Of the parameters by name. `starts` are those that are not 0, `trained` the names of those with gradients that count."""

    def __init__(self, starts, trained):
        self.starts, self.trained = dict(starts), frozenset(trained)
        self._frozen_at = {}

    def of(self, name, step):
        """The steps that the parameter has taken when the step has counted `step`."""
        return self._frozen_at.get(name, step) - self.starts.get(name, 0)

    def follow(self, trained, step, taken):
        """Before the step that counts `step` other parameters have gradients. `taken(name)` says what one that was never
        trained here had taken before.
        """
        for name in self.trained - trained:
            self._frozen_at[name] = step
        for name in trained - self.trained:
            frozen = self._frozen_at.pop(name, None)
            before = self.starts.get(name, 0) if frozen is not None else -taken(name)
            self._set(name, before + step - (frozen or 0))
        self.trained = frozenset(trained)

    def load(self, counts, step):
        """Takes over {name: steps taken} of parameters that have taken some."""
        self._frozen_at = {name: step for name in counts if name not in self.trained}
        self.starts = {}
        for name, count in counts.items():
            self._set(name, step - count)

    def _set(self, name, start):
        self.starts.pop(name, None)
        if start:
            self.starts[name] = start
