"""Options of a capture, beyond the plain training step."""

from dataclasses import dataclass

from ..optimizers.clipping import Clipping


@dataclass(frozen=True)
class Wanted:
    """With `gradients` they are results, as `clipping` leaves them. With `trains` false it is the forward pass alone, which
    updates nothing; with `has_loss` false as well, what it returns is no loss. `precision` and `gradient_sums` are those of `tandem.compile`. `varying` names hyperparameters (`momentum`, `betas`) that are arguments of the step, as rates are;
    `constants` says which others are not as they were when the step was compiled;
    `starts` are those of `Counts`, which without them follow from the optimizer. With `guards_batches`, what Python looks at in a
    batch is checked before the step, and else by the step. `parted` names buffers that have values of their own, though they begin in
    the memory of others; without, the capture finds them. `numbers` are {(module, attribute): number} that the steps before have left
    in attributes; None where no step goes on with what is left there.
    """

    gradients: bool = False
    clipping: Clipping = Clipping()
    trains: bool = True
    has_loss: bool = True
    precision: str | None = None
    gradient_sums: str = "f32"
    varying: frozenset = frozenset()
    constants: str | None = None
    starts: dict | None = None
    guards_batches: bool = False
    parted: frozenset | None = None
    numbers: dict | None = None
