"""Models wrapped by another library for training."""

import contextlib
import sys

import torch

from ..errors import CaptureError

# Those that split or sum what Tandem does. By name: importing them takes seconds.
_PARALLEL = {
    "DistributedDataParallel": "model.module",
    "DataParallel": "model.module",
    "FullyShardedDataParallel": "the model before it was wrapped",
    "FSDPModule": "the model before fully_shard",
}


def check_wrappers(model):
    """CaptureError for a model that is, or has in it, a module of TorchScript, or of another way to train on several devices."""
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            where = f"module {name!r}" if name else "model"
            raise CaptureError(
                f"{where}: found a ScriptModule, expected the torch.nn.Module behind it in its place, as it was before"
                " torch.jit.script or torch.jit.trace"
            )
        for kind in type(module).__mro__:
            if kind.__name__ in _PARALLEL and kind.__module__.startswith("torch."):
                where = f"module {name!r}" if name else "model"
                raise CaptureError(
                    f"{where}: found a {kind.__name__}, which has collectives of its own, expected"
                    f" {_PARALLEL[kind.__name__]}: a step splits it over the mesh by its plan"
                )
    for name, tensor in model.named_parameters():
        if type(tensor).__name__ == "DTensor":
            raise CaptureError(
                f"parameter {name!r}: found a DTensor, of which each process has a part, expected the model before it was"
                " split: a step splits it over the mesh by its plan"
            )


def plain_name(name):
    """That of a parameter or buffer without what `torch.compile` puts in front of what it wraps."""
    return name.replace("_orig_mod.", "")


_WRAPPING = {"module", "_orig_mod"}


def _unwrapped(name):
    return ".".join(part for part in name.split(".") if part not in _WRAPPING)


def renamed(names, own):
    """{name: the model's own} where names are those of the model (`own`) but for `module.` and `_orig_mod.`, which
    DistributedDataParallel and torch.compile put in front of what they wrap. What is no name of the model's is itself, and
    so is each where two would be one.
    """
    plain = {_unwrapped(name): name for name in own}
    own = set(own)
    found = {name: name if name in own else plain.get(_unwrapped(name), name) for name in names}
    if len(plain) == len(own) and len(set(found.values())) == len(found):
        return found
    return {name: name for name in names}


def without_dynamo():
    """Within it what `torch.compile` has wrapped runs as it was written, so that it is captured."""
    if "torch._dynamo" not in sys.modules:
        return contextlib.nullcontext()
    # Of a function that is called while a graph is traced, dynamo runs the original.
    return torch._dynamo.config.patch(error_on_nested_fx_trace=False)
