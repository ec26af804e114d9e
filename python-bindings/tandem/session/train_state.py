"""State of training: values, and their names in torch objects."""

from dataclasses import dataclass

from ..optimizers import hyperparameters
from .model_dict import ModelDict
from .optimizer_dict import OptimizerDict
from .values import Values
from .watching import Watching


@dataclass
class TrainState:
    """The parts of a step that checkpoints and copies read and write. All processes of a job call `take`."""

    values: Values
    model_dict: ModelDict
    optimizer_dict: OptimizerDict
    watching: Watching

    def load(self, state, optimizer_state=None):
        """What `Step.load_state_dict` says."""
        self.take(self.model_dict.values_of(state), optimizer_state)

    def take(self, values, optimizer_state=None):
        """Takes over values by key, and an optimizer's state dict. After a StateError nothing has changed."""
        with_model, with_optimizer = bool(values), optimizer_state is not None
        if with_optimizer:
            own, counted = self.optimizer_dict.values_of(optimizer_state)
            values = values | own
            self.optimizer_dict.counting.load(*counted)
        self.values.set_all(values)
        if with_optimizer:
            hyperparameters.restore(self.optimizer_dict.optimizer, optimizer_state["param_groups"])
        self.watching.took_over(with_model, with_optimizer)
