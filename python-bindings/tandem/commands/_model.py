"""Options that all commands on model files share."""

from ..errors import ModelFileError
from ..model_file import DTYPES, load_model_file
from ..precision import GRADIENT_SUMS, PRECISIONS


def add_model_arguments(parser, dtype):
    parser.add_argument("file", help="a model file (Python)")
    parser.add_argument("--preset", help="named sizes of the model file; default: its first ones")
    parser.add_argument(
        "--set", dest="sizes", default="", metavar="NAME=VALUE,...", help="sizes to change"
    )
    parser.set_defaults(default_dtype=dtype)
    parser.add_argument(
        "--dtype",
        choices=list(DTYPES),
        help=f"of parameters (default: {dtype}; with --precision float32)",
    )
    parser.add_argument(
        "--precision",
        choices=list(PRECISIONS),
        help="of products, with parameters of float32: as under torch.autocast",
    )
    parser.add_argument(
        "--gradient-sums",
        choices=GRADIENT_SUMS,
        default=GRADIENT_SUMS[0],
        help="in which type gradients that are made in bf16 are summed over microbatches and ranks"
        f" (default: {GRADIENT_SUMS[0]})",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of initial weights and random numbers (default: 0)"
    )


def load(options):
    if not -(2**63) <= options.seed < 2**63:
        raise ModelFileError(f"--seed is {options.seed}, expected an integer of 64 bits")
    dtype = options.dtype or ("float32" if options.precision else options.default_dtype)
    return load_model_file(options.file, options.preset, options.sizes, dtype, options.precision)
