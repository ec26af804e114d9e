"""Options that all commands on model files share."""

from ..errors import ModelFileError
from ..model_file import DTYPES, load_model_file


def add_model_arguments(parser, dtype):
    parser.add_argument("file", help="a model file (Python)")
    parser.add_argument("--preset", help="named sizes of the model file; default: its first ones")
    parser.add_argument(
        "--set", dest="sizes", default="", metavar="NAME=VALUE,...", help="sizes to change"
    )
    parser.add_argument(
        "--dtype", choices=list(DTYPES), default=dtype, help=f"of parameters (default: {dtype})"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of initial weights and random numbers (default: 0)"
    )


def load(options):
    if not -(2**63) <= options.seed < 2**63:
        raise ModelFileError(f"--seed is {options.seed}, expected an integer of 64 bits")
    return load_model_file(options.file, options.preset, options.sizes, options.dtype)
