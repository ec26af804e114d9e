"""`python -m tandem ops`: the supported ATen operators and their implementation."""

import inspect

import torch
from torch._decomp import decomposition_table

from ..formulas.formulas import FORMULAS
from ..lowering import LOWERINGS
from ..lowering.randoms import SUPPORTED_RANDOM

HELP = "list the supported ATen operators and their implementation"


def add_arguments(parser):
    parser.add_argument(
        "--decomposed", action="store_true", help="also list operators that PyTorch decomposes"
    )


def _kind(name):
    if name in SUPPORTED_RANDOM:
        return "random"
    return inspect.getmodule(LOWERINGS[name]).__name__.rpartition(".")[2]


def _full_name(name):
    """Attention is an operator of our own (`lowering/attention.py`)."""
    return ("tandem." if hasattr(torch.ops.tandem, name) else "aten.") + name


def _decomposed():
    names = {
        operator._overloadpacket.__name__
        for operator in decomposition_table
        if hasattr(operator, "_overloadpacket")
    }
    return sorted(names - set(LOWERINGS) - set(_formulas()))


def _formulas():
    return sorted({operator._overloadpacket.__name__ for operator in FORMULAS})


def run(options):
    decomposed = _decomposed()
    listed = [*LOWERINGS, *(decomposed if options.decomposed else ())]
    width = max(len(_full_name(name)) for name in listed) + 2
    print(f"{'ATen operator':{width}}how")
    for name in sorted(LOWERINGS):
        print(f"{_full_name(name):{width}}lowered to nn ({_kind(name)})")
    for name in _formulas():
        print(f"{'aten.' + name:{width}}by a formula of others")
    if options.decomposed:
        for name in decomposed:
            print(
                f"{'aten.' + name:{width}}decomposed by PyTorch, as far as the parts are supported"
            )
    print(
        f"{len(LOWERINGS)} lowered, {len(_formulas())} by formulas; {len(decomposed)} more are decomposed by PyTorch's own"
        f" rules (--decomposed)"
    )
    print("docs/adding-an-operator.md says how to add an operator")
