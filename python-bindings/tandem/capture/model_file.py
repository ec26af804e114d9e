"""Model files: any Python file with PRESETS, model, loss, optimizer and batches.

PRESETS = {"tiny": dict(layers=2, batch=8)}       # named sizes; the first one is the default def
model(**sizes): ...            # torch.nn.Module def loss(model, batch): ...        # a scalar
tensor def optimizer(model): ...          # a torch.optim.Optimizer def batches(**sizes):
...          # yields batches
"""

import ast
import contextlib
import importlib.util
import inspect
import itertools
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch
import torch.utils._pytree as pytree

from ..errors import ModelFileError, TandemError
from ..tracing.locations import location_of_traceback
from ..tracing.unregistered import places_of

_NAMES = ("PRESETS", "model", "loss", "optimizer", "batches")
DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}


@contextlib.contextmanager
def explained(what):
    """An exception in the user's code becomes one line that names `what` and the place."""
    try:
        yield
    except TandemError:
        raise
    except Exception as error:
        where = location_of_traceback(error.__traceback__)
        text = str(error).splitlines()[0] if str(error) else ""
        # Autograd's own errors have no line of the user's.
        place = f"{where}: " if where.place is not None else ""
        raise ModelFileError(f"{place}{what} fails: {type(error).__name__}: {text}") from error


# What complex numbers become beside real ones of a type; bfloat16 has none of its own.
_COMPLEX = {torch.float64: torch.complex128, torch.float32: torch.complex64}


def convert(leaf, dtype):
    """A leaf of a batch, or a tensor of a model: of floating-point type it gets this one, complex it stays complex."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if leaf.is_complex():
        return leaf.to(_COMPLEX.get(dtype, leaf.dtype))
    return leaf.to(dtype) if leaf.is_floating_point() else leaf


def as_dtype(model, dtype):
    """The model, with parameters and buffers converted; not by `.to`, which makes complex buffers real."""
    return model._apply(lambda tensor: convert(tensor, dtype))


@dataclass
class ModelFile:
    """A loaded model file with its sizes chosen. `dtype` is that of parameters and floating-point
    inputs; `precision` that of products, where it is another (precision.py).
    """

    path: Path
    module: ModuleType
    preset: str
    sizes: dict
    dtype: torch.dtype
    precision: str | None = None

    def make_model(self, seed=0, meta=False):
        return as_dtype(self.build(seed, meta), self.dtype)

    def build(self, seed=0, meta=False):
        """The model as the file makes it, before it is converted."""
        torch.manual_seed(seed)
        if meta:
            with torch.device("meta"):
                model = self._call("model", **self.sizes)
        else:
            model = self._call("model", **self.sizes)
        if not isinstance(model, torch.nn.Module):
            raise ModelFileError(
                f"{self.path}: model() gave {type(model).__name__}, expected a torch.nn.Module"
            )
        return model

    def make_optimizer(self, model):
        """Raises ModelFileError where it trains what the model has not registered: no conversion of types reaches that."""
        optimizer = self._call("optimizer", model)
        for place in places_of(model, optimizer)[:1]:
            raise ModelFileError(
                f"{self.path}: optimizer() trains {place.name!r}, which the model holds without having registered it, expected"
                " nn.ParameterList or nn.ModuleList"
            )
        return optimizer

    @property
    def loss(self):
        return self.module.loss

    def batches(self, count, least=None):
        """A list of `count` batches; of fewer, if there are no more, but at least `least`, which is `count` by default."""
        with explained("batches()"):
            found = list(itertools.islice(self.module.batches(**self.sizes), count))
        check_count(self.path, found, count if least is None else least)
        return [pytree.tree_map(lambda leaf: convert(leaf, self.dtype), batch) for batch in found]

    def _call(self, name, /, *arguments, **sizes):
        with explained(f"{name}()"):
            return getattr(self.module, name)(*arguments, **sizes)


def check_count(path, batches, least):
    """That batches() of a file yields so many."""
    if len(batches) < least:
        raise ModelFileError(
            f"{path}: batches() yields {len(batches)} batches, expected at least {least}"
        )


def parse_sizes(text):
    """`layers=4,gate=switch` -> {"layers": 4, "gate": "switch"}."""
    sizes = {}
    for item in filter(None, (text or "").split(",")):
        name, equals, value = item.partition("=")
        if not equals or not name.strip().isidentifier():
            raise ModelFileError(f"--set: found {item!r}, expected name=value")
        try:
            sizes[name.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            sizes[name.strip()] = value.strip()
    return sizes


def import_file(path):
    """Runs the file, with its folder importable as for `python FILE`."""
    if not path.is_file():
        raise ModelFileError(f"{path}: no such model file")
    # A name that no package has, and a module that is registered, as dataclasses want it.
    name = f"tandem_model_file_{path.stem}"
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None:
        raise ModelFileError(f"{path}: found suffix {path.suffix!r}, expected a Python file (.py)")
    module = importlib.util.module_from_spec(specification)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        text = str(error).splitlines()[0] if str(error) else ""
        raise ModelFileError(
            f"{path}: cannot be imported: {type(error).__name__}: {text}"
        ) from error
    return module


def _check_names(path, module):
    missing = [name for name in _NAMES if not hasattr(module, name)]
    if missing:
        raise ModelFileError(f"{path}: has no {', '.join(missing)}; expected {', '.join(_NAMES)}")
    if not isinstance(module.PRESETS, dict) or not module.PRESETS:
        raise ModelFileError(
            f"{path}: PRESETS is {module.PRESETS!r}, expected a dict of named sizes"
        )


def _check_sizes(path, module, chosen, preset):
    """A misspelt name is an error, unless model or batches takes it."""
    known = set(preset)
    for function in filter(None, (getattr(module, "model", None), module.batches)):
        parameters = inspect.signature(function).parameters.values()
        known |= {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
    for name in chosen:
        if name not in known:
            raise ModelFileError(
                f"{path}: --set: unknown size {name!r}, expected one of {', '.join(sorted(known))}"
            )


def sizes_of(module, preset=None, sizes=None):
    """The sizes of a preset, the first one by default, with those that `sizes`, a dict or the text of `--set`, changes."""
    path, presets = module.__file__, getattr(module, "PRESETS", {"default": {}})
    preset = preset or next(iter(presets))
    if preset not in presets:
        raise ModelFileError(f"{path}: no preset {preset!r}, expected one of {', '.join(presets)}")
    chosen = parse_sizes(sizes) if isinstance(sizes, str) or sizes is None else dict(sizes)
    _check_sizes(path, module, chosen, presets[preset])
    return {**presets[preset], **chosen}


def load_model_file(path, preset=None, sizes=None, dtype="float64", precision=None):
    """`sizes` is a dict or the text of `--set`; `dtype` a name or a torch.dtype, which `precision` wants to be
    float32.
    """
    path = Path(path)
    module = import_file(path)
    _check_names(path, module)
    sizes = sizes_of(module, preset, sizes)
    preset = preset or next(iter(module.PRESETS))
    if dtype not in DTYPES and dtype not in DTYPES.values():
        raise ModelFileError(f"dtype {dtype!r}: expected one of {', '.join(DTYPES)}")
    return ModelFile(path, module, preset, sizes, DTYPES.get(dtype, dtype), precision)
