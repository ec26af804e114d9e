"""`.pt2` files of `torch.export.save`, in place of model files.

Such a file has the model and the inputs of its export. The loss, the optimizer and batches with targets come from a
Python file and from options.
"""

import ast
import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch
import torch.utils._pytree as pytree

from ..errors import ModelFileError
from .model_file import as_dtype, check_count, convert, explained, import_file, sizes_of

SUFFIX = ".pt2"
# Between the options of an optimizer: commas that are in no parentheses.
_COMMA = re.compile(r",(?![^(]*\))")


def _one_line(error):
    return f"{type(error).__name__}: {' '.join(str(error).split()):.200}"


def _program_of(path):
    if not path.is_file():
        raise ModelFileError(f"{path}: no such file")
    try:
        return torch.export.load(path)
    except Exception as error:  # whatever is in the file
        raise ModelFileError(
            f"{path}: found no exported program, expected what torch.export.save writes ({_one_line(error)})"
        ) from error


def _tie(model):
    """Parameters over the same elements are one, as they were in the model that was exported."""
    first = {}
    for name, parameter in list(model.named_parameters(remove_duplicate=False)):
        place = (parameter.data_ptr(), parameter.shape, parameter.stride(), parameter.dtype)
        known = first.setdefault(place, parameter) if parameter.numel() else parameter
        if known is not parameter:
            owner, _, own = name.rpartition(".")
            setattr(model.get_submodule(owner), own, known)


@dataclass
class ExportedFile:
    """As a `ModelFile`. `script` is the Python file of the loss, or None; `loss` a function of model and batch, or None for
    the forward pass alone; `optimizer` a function of the model; `dtype` None for the types that the file has.
    """

    path: Path
    script: ModuleType | None
    sizes: dict
    loss: object
    optimizer: object
    dtype: torch.dtype | None = None
    precision: str | None = None

    def make_model(self, seed=0, meta=False):
        model = self.build(seed, meta)
        return as_dtype(model, self.dtype) if self.dtype else model

    def build(self, seed=0, meta=False):
        """The model as the file has it, before it is converted."""
        torch.manual_seed(seed)
        model = _program_of(self.path).module()
        _tie(model)
        return model.to("meta") if meta else model

    def make_optimizer(self, model):
        with explained("optimizer()"):
            return self.optimizer(model)

    def batches(self, count, least=None):
        """As of a `ModelFile`: batches of the script, or the inputs that the file has, again and again."""
        make = getattr(self.script, "batches", None)
        if make is None:
            found = [_example_of(_program_of(self.path), self.path)] * count
        else:
            with explained("batches()"):
                found = list(itertools.islice(make(**self.sizes), count))
            check_count(self.script.__file__, found, count if least is None else least)
        if self.dtype is None:
            return found
        return [pytree.tree_map(lambda leaf: convert(leaf, self.dtype), batch) for batch in found]


def _example_of(program, path):
    """The inputs as one batch: a tensor alone, a tuple of several, a dict of those by keyword."""
    args, kwargs = program.example_inputs or ((), {})
    if args and kwargs:
        return {"args": args, "kwargs": kwargs}
    if not args and not kwargs:
        raise ModelFileError(
            f"{path}: has no inputs, expected batches() in the file of --loss, or a file with them"
        )
    return kwargs or (args[0] if len(args) == 1 else args)


def forward(model, batch):
    """The model of an example as `_example_of` makes it."""
    if isinstance(batch, dict) and batch.keys() == {"args", "kwargs"}:
        return model(*batch["args"], **batch["kwargs"])
    if isinstance(batch, dict):
        return model(**batch)
    return model(*batch) if isinstance(batch, tuple) else model(batch)


def _script_of(text):
    """(module, function) of `FILE.py:function`."""
    file, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        raise ModelFileError(f"--loss: found {text!r}, expected FILE.py:function")
    script = import_file(Path(file))
    function = getattr(script, name, None)
    if not callable(function):
        raise ModelFileError(f"{file}: has no function {name!r}, expected one of model and batch")
    return script, function


def _optimizers():
    classes = (c for c in vars(torch.optim).values() if isinstance(c, type))
    found = [c for c in classes if issubclass(c, torch.optim.Optimizer)]
    return {c.__name__.lower(): c for c in found if c is not torch.optim.Optimizer}


def optimizer_of(text):
    """A function of the model, of `adamw,lr=1e-3,betas=(0.9,0.95)`."""
    name, *options = _COMMA.split(text)
    kinds, given = _optimizers(), {}
    if name.strip().lower() not in kinds:
        raise ModelFileError(
            f"--optimizer: found {name!r}, expected one of {', '.join(sorted(kinds))}"
        )
    for option in options:
        key, equals, value = option.partition("=")
        try:
            given[key.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            equals = ""
        if not equals or not key.strip().isidentifier():
            raise ModelFileError(f"--optimizer: found {option!r}, expected name=value")
    kind = kinds[name.strip().lower()]

    def make(model):
        try:
            return kind(model.parameters(), **given)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ModelFileError(f"--optimizer {text}: {_one_line(error)}") from error

    return make


def _optimizer_for(script, text):
    if text:
        return optimizer_of(text)
    make = getattr(script, "optimizer", None)
    if make is None:
        raise ModelFileError(
            "--loss without an optimizer, expected --optimizer NAME,lr=..., or optimizer(model) in the file of --loss"
        )
    return make


def load_exported_file(
    path, loss="", optimizer="", preset=None, sizes="", dtype=None, precision=None
):
    """`loss` and `optimizer` are the texts of `--loss` and `--optimizer`, or empty for the forward pass alone."""
    path = Path(path)
    if not loss:
        if optimizer or sizes or preset:
            raise ModelFileError(
                f"{path}: found an option of training without --loss, expected --loss FILE.py:function as well"
            )
        nothing = lambda model: torch.optim.SGD([{"params": list(model.parameters())}], lr=0.0)  # noqa: E731
        return ExportedFile(path, None, {}, None, nothing, dtype, precision)
    script, function = _script_of(loss)
    make = _optimizer_for(script, optimizer)
    chosen = sizes_of(script, preset, sizes) if hasattr(script, "batches") else {}
    return ExportedFile(path, script, chosen, function, make, dtype, precision)
