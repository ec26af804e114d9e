"""Options that all commands on model files share."""

from ..base import options as table
from ..capture.exported_file import SUFFIX, load_exported_file
from ..capture.model_file import DTYPES, load_model_file
from ..errors import ModelFileError
from ..tracing.precision import GRADIENT_SUMS, PRECISIONS


def add_model_arguments(parser, dtype):
    parser.add_argument("file", help="a model file (Python), or a file of torch.export.save (.pt2)")
    parser.add_argument(
        "--loss",
        default="",
        metavar="FILE.py:FUNCTION",
        help="the loss of a .pt2 file, a function of model and batch; batches come from batches() in FILE.py,"
        " else they are the inputs in the .pt2 file",
    )
    parser.add_argument(
        "--optimizer",
        default="",
        metavar="NAME,OPTION=VALUE,...",
        help="the optimizer of a .pt2 file, from torch.optim: adamw,lr=1e-3 (default: optimizer() in the file of --loss)",
    )
    parser.add_argument("--preset", help="named sizes of the model file (default: the first)")
    parser.add_argument(
        "--set", dest="sizes", default="", metavar="NAME=VALUE,...", help="sizes to override"
    )
    parser.set_defaults(default_dtype=dtype)
    parser.add_argument(
        "--dtype",
        choices=list(DTYPES),
        help=f"type of parameters (default: {dtype}; with --precision float32; export keeps the types of a .pt2 file)",
    )
    table.add_arguments(
        parser,
        table.named_command_rows("precision", "gradient_sums", "seed"),
        choices={"precision": list(PRECISIONS), "gradient_sums": GRADIENT_SUMS},
        notes={"seed": "Also of the initial weights. Default: 0."},
    )


def load(options, exported_dtype=None):
    """The model file, or the .pt2 file, with values of its own types or of `exported_dtype`."""
    if not -(2**63) <= options.seed < 2**63:
        raise ModelFileError(f"--seed is {options.seed}, expected an integer of 64 bits")
    if is_exported(options):
        dtype = DTYPES.get(options.dtype or exported_dtype)
        return load_exported_file(
            options.file,
            options.loss,
            options.optimizer,
            options.preset,
            options.sizes,
            dtype,
            options.precision,
        )
    if options.loss or options.optimizer:
        raise ModelFileError(
            f"{options.file}: has a loss and an optimizer, expected --loss and --optimizer with a {SUFFIX} file only"
        )
    dtype = options.dtype or ("float32" if options.precision else options.default_dtype)
    return load_model_file(options.file, options.preset, options.sizes, dtype, options.precision)


def is_exported(options):
    return options.file.endswith(SUFFIX)


def check_number(option, number, most):
    """ModelFileError unless a number of the command line is from 1 to `most`."""
    if number < 1:
        raise ModelFileError(f"{option} is {number}, expected at least 1")
    if number > most:
        raise ModelFileError(f"{option} is {number}, expected at most {most}")
