"""`python -m tandem export`: a model file's training step as text, with its values."""

import sys
from pathlib import Path

from ..base import outputs
from ..capture.export import export
from ..capture.exported_file import forward
from ..capture.wanted import Wanted
from ..errors import ModelFileError
from ._model import add_model_arguments, check_number, load

HELP = (
    "capture the training step of a model file, or the forward pass of a .pt2 file; write step.mlir,"
    " and step.safetensors with values and batches"
)

# Above this share of the machine's memory, a model is exported without values.
_MEMORY_SHARE = 0.5
# Parameters, gradients and two states.
_COPIES = 4
_BATCHES = 4
_MOST_BATCHES = 2**20


def add_arguments(parser):
    add_model_arguments(parser, dtype="float32")
    parser.add_argument(
        "-o", "--output", default="step.mlir", help="output file (default: step.mlir)"
    )
    parser.add_argument("--gradients", action="store_true", help="return gradients as results")
    parser.add_argument(
        "--meta", action="store_true", help="capture on the meta device, without weights and values"
    )
    parser.add_argument(
        "--batches",
        type=int,
        help=f"number of batches to write (default: {_BATCHES}, or as many as batches() yields)",
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


def _check_outputs(options):
    """The two files; both are checked before anything is captured. Beside a FIFO or a device there are no values: None."""
    output = Path(options.output)
    if not output.name:
        raise ModelFileError(
            f"-o {options.output!r}: names no file, expected one such as step.mlir"
        )
    values = output.with_suffix(".safetensors")
    if values == output:
        raise ModelFileError(
            f"-o {output}: is where the values go, expected another suffix, such as {output.with_suffix('.mlir')}"
        )
    inputs = [options.file, options.loss.rpartition(":")[0]]
    outputs.check_place(output, outputs.STEP, inputs)
    if output.exists() and not output.is_file():
        return output, None
    if not options.meta:
        outputs.check_place(values, outputs.VALUES, inputs)
    return output, values


def _capture(file, model, optimizer, batch, options):
    if file.loss is not None:
        return export(
            model,
            file.loss,
            optimizer,
            batch,
            options.gradients,
            file.precision,
            options.gradient_sums,
        )
    if options.gradients:
        raise ModelFileError("--gradients without a loss, expected --loss FILE.py:function")
    wanted = Wanted(trains=False, has_loss=False, precision=file.precision)
    return export(model, forward, optimizer, batch, wanted=wanted)


def run(options):
    if options.batches is not None:
        check_number("--batches", options.batches, _MOST_BATCHES)
    file = load(options)
    output, place_of_values = _check_outputs(options)
    meta = options.meta
    if not meta:
        meta, size = _is_too_large(file)
        if meta:
            print(
                f"note: {size / 2**30:.1f} GiB of parameters: exporting without values, as --meta",
                file=sys.stderr,
            )
    model = file.make_model(options.seed, meta)
    batches = file.batches(options.batches or _BATCHES, least=options.batches or 1)
    module = _capture(file, model, file.make_optimizer(model), batches[0], options)
    outputs.write(output, lambda part: part.write_text(module.mlir))
    print(f"{output}: {len(module.arguments)} arguments, {len(module.step.operators)} operators")
    if not meta and place_of_values is None:
        print(f"note: {output} is no regular file: exported without values", file=sys.stderr)
    elif not meta:
        outputs.write(place_of_values, lambda part: module.save_values(part, batches, options.seed))
        print(f"{place_of_values}: {len(module.values())} values, {len(batches)} batches")
