"""What the commands that compare with eager PyTorch train."""

from ..base import options as table
from ..errors import ModelFileError
from ..verify.verify import make_subject
from ._model import check_number, load


def load_subject(options, most_steps):
    """The model file, of float64 or of the type that is named, with --steps batches."""
    check_number("--steps", options.steps, most_steps)
    check_number("--threads", options.threads, table.named_command_rows("threads")[0].most)
    file = load(options, options.dtype or ("float32" if options.precision else "float64"))
    if file.loss is None:
        raise ModelFileError(
            f"{file.path}: has no loss, expected --loss FILE.py:function and --optimizer NAME,lr=..."
        )
    return make_subject(file, options.steps, options.seed, options.gradient_sums)
