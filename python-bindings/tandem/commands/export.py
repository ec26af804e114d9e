"""`python -m tandem export`: a model file's training step as text, with its values."""

import sys
from pathlib import Path

from ..errors import ModelFileError
from ..export import export
from ._model import add_model_arguments, load

HELP = (
    "capture the training step of a model file: step.mlir, and step.safetensors with values"
    " and batches"
)

# Above this share of the machine's memory, a model is exported without values.
_MEMORY_SHARE = 0.5
# Parameters, gradients and two states.
_COPIES = 4


def add_arguments(parser):
    add_model_arguments(parser, dtype="float32")
    parser.add_argument("-o", "--output", default="step.mlir", help="the text (default: step.mlir)")
    parser.add_argument("--gradients", action="store_true", help="make gradients results")
    parser.add_argument(
        "--meta", action="store_true", help="on the meta device: no weights, no values"
    )
    parser.add_argument(
        "--batches", type=int, default=4, help="how many batches to write (default: 4)"
    )


def _memory():
    try:
        import os

        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return float("inf")


def _is_too_large(file):
    """Whether values would not fit; counted on the meta device."""
    model = file.make_model(meta=True)
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    return _COPIES * size > _MEMORY_SHARE * _memory(), size


def run(options):
    if options.batches < 1:
        raise ModelFileError(f"--batches is {options.batches}, expected at least 1")
    file = load(options)
    meta = options.meta
    if not meta:
        meta, size = _is_too_large(file)
        if meta:
            print(
                f"note: {size / 2**30:.1f} GiB of parameters: exporting without values, as --meta",
                file=sys.stderr,
            )
    model = file.make_model(options.seed, meta)
    batches = file.batches(options.batches)
    optimizer = file.make_optimizer(model)
    module = export(
        model,
        file.loss,
        optimizer,
        batches[0],
        options.gradients,
        file.precision,
        options.gradient_sums,
    )
    output = Path(options.output)
    output.write_text(module.mlir)
    print(f"{output}: {len(module.arguments)} arguments, {len(module.step.operators)} operators")
    if not meta:
        values = output.with_suffix(".safetensors")
        module.save_values(values, batches, options.seed)
        print(f"{values}: {len(module.values())} values, {len(batches)} batches")
