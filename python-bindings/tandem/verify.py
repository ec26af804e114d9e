"""Trains a model in eager PyTorch and in Tandem from equal values on equal batches, and compares."""

import contextlib
import copy
from dataclasses import dataclass

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from . import random
from .arguments import Result
from .compare import TOLERANCES, History, Training, compare
from .export import StepModule, export
from .model_file import explained
from .text import print_step

STEPS = 3
_RESULTS = ("parameter", "gradient")


class _Widen(TorchFunctionMode):
    """What a model asks to have in float32 is in float64.

    Rotary embeddings and some losses compute in float32 whatever the type of the model; rounding there
    would hide everything below 1e-7, which is what a float64 run is to show.
    """

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        args = [self._widen(value) for value in args]
        return function(*args, **{key: self._widen(value) for key, value in (kwargs or {}).items()})

    @staticmethod
    def _widen(value):
        return torch.float64 if value is torch.float32 else value


@contextlib.contextmanager
def _computing_in(dtype):
    """Float64 throughout, if that is the model's type, in eager and in the capture alike."""
    if dtype != torch.float64:
        yield
        return
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Widen():
            yield
    finally:
        torch.set_default_dtype(default)


class _Choices(TorchDispatchMode):
    """Notes what argmax, topk and max along the last dimension choose, and from which values."""

    def __init__(self):
        super().__init__()
        self.indices, self.values = [], []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        name = operator._overloadpacket.__name__
        if name == "topk" or (
            name in ("argmax", "max") and operator._overloadname not in ("default", "other")
        ):
            self._note(args, result[1] if isinstance(result, tuple) else result)
        elif name == "argmax" and len(args) > 1:
            self._note(args, result)
        return result

    def _note(self, args, index):
        values = args[0].detach()
        self.values.append(values.clone())
        self.indices.append((index if index.dim() == values.dim() else index.unsqueeze(-1)).clone())


def _chooses(operator):
    """Whether an operator of the captured step is one that `_Choices` notes."""
    if operator.phase != "forward" or operator.name not in ("topk", "argmax"):
        return False
    shape = operator.operands[0].shape
    return operator.attributes["dim"] in (-1, len(shape) - 1)


def observe_choices(module):
    """The module with the chosen indices as further results, `output/choice.<i>`."""
    operators = [operator for operator in module.step.operators if _chooses(operator)]
    step = copy.copy(module.step)
    names = [f"choice.{i}" for i in range(len(operators))]
    step.results = module.step.results + [Result("output", name) for name in names]
    step.outputs = module.step.outputs + [operator.results[-1] for operator in operators]
    return StepModule(print_step(step), module.arguments, step.results, module.random_calls, step)


@dataclass
class Subject:
    """A model file's step, captured once, with what eager makes of it."""

    module: StepModule
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    batches: list
    seed: int
    dtype: torch.dtype
    expected: History
    training: Training


@contextlib.contextmanager
def _eager(seed, step, calls):
    """Eager with Tandem's random numbers, and attention by its plain formula as in the capture."""
    with sdpa_kernel(SDPBackend.MATH), random.replay(seed, step, calls):
        yield


def run_eager(model, loss_fn, optimizer, batches, seed, random_calls):
    """Trains in place, and returns the history."""
    history = History()
    for step, batch in enumerate(batches):
        optimizer.zero_grad(set_to_none=True)
        choices = _Choices()
        with explained(f"step {step} in eager"), _eager(seed, step, random_calls), choices:
            loss = loss_fn(model, batch)
        with explained(f"step {step} in eager, backward"):
            loss.backward()
        history.losses.append(loss.item())
        history.choices.append(choices.indices)
        history.margins.append(choices.values)
        named = model.named_parameters()
        history.gradients.append(
            {name: p.grad.detach().clone() for name, p in named if p.grad is not None}
        )
        with explained(f"step {step} in eager, optimizer.step()"):
            optimizer.step()
    history.parameters = {name: p.detach().clone() for name, p in model.named_parameters()}
    history.buffers = {name: b.detach().clone() for name, b in model.named_buffers()}
    history.buffers["(step)"] = torch.tensor(len(batches))
    history.states = _optimizer_states(model, optimizer)
    return history


def _optimizer_states(model, optimizer):
    """{`exp_avg.<parameter>`: tensor}, as the captured step names them."""
    states = {}
    for name, parameter in model.named_parameters():
        for state, value in optimizer.state.get(parameter, {}).items():
            if state != "step" and isinstance(value, torch.Tensor):
                states[f"{state}.{name}"] = value.detach().clone()
    return states


def run_step(step, batches):
    """Trains a compiled step, and returns the history."""
    module, history = step.module, History()
    choices = [
        r.name for r in module.results if r.role == "output" and r.name.startswith("choice.")
    ]
    for batch in batches:
        history.losses.append(step(batch).item())
        history.gradients.append(step.gradients())
        history.choices.append([step.result("output", name) for name in choices])
    for argument in module.arguments:
        if argument.role in ("parameter", "buffer", "state"):
            values = getattr(
                history,
                {"parameter": "parameters", "buffer": "buffers", "state": "states"}[argument.role],
            )
            values[argument.name] = step.value(argument.key)
    history.buffers["(step)"] = step.value("step/step")
    return history


def _training(module, model, optimizer, steps):
    names = {id(p): name for name, p in model.named_parameters()}
    rates = {names[id(p)]: float(g["lr"]) for g in optimizer.param_groups for p in g["params"]}
    results = {role: {r.name for r in module.results if r.role == role} for role in _RESULTS}
    written = frozenset(results["parameter"] - results["gradient"])
    adam = not isinstance(optimizer, torch.optim.SGD)
    return Training(TOLERANCES[module.precision], adam, steps, rates, written)


def _same_choices(module, expected):
    """Whether the captured choices are those of eager, in number and shape."""
    outputs = [
        v for r, v in zip(module.results, module.step.outputs, strict=True) if r.role == "output"
    ]
    noted = expected.choices[0] if expected.choices else []
    sizes = [torch.Size(value.shape).numel() for value in outputs]
    return sizes == [index.numel() for index in noted]


def make_subject(file, steps=STEPS, seed=0):
    """Captures the step of a `ModelFile` and runs it in eager."""
    torch.set_num_threads(1)
    model = file.make_model(seed)
    optimizer = file.make_optimizer(model)
    batches = file.batches(steps)
    twin = copy.deepcopy(model)
    with _computing_in(file.dtype):
        module = export(model, file.loss, optimizer, batches[0], gradients=True)
        expected = run_eager(
            twin, file.loss, file.make_optimizer(twin), batches, seed, module.random_calls
        )
    observed = observe_choices(module)
    if _same_choices(observed, expected):
        module = observed
    else:
        expected.choices, expected.margins = [[] for _ in batches], [[] for _ in batches]
    # A float64 model may round to float32 inside, as those of `transformers` do.
    precision = module.precision
    training = _training(module, model, optimizer, steps)
    return Subject(module, model, optimizer, batches, seed, precision, expected, training)


def _reshape_choices(found, expected):
    """The captured index may lack the dimension that eager's has, of size 1."""
    found.choices = [
        [mine.reshape(theirs.shape) for mine, theirs in zip(a, b, strict=True)]
        for a, b in zip(found.choices, expected.choices, strict=True)
    ]


def judge(subject, found):
    """The rows of the comparison."""
    _reshape_choices(found, subject.expected)
    return compare(found, subject.expected, subject.training, exact=subject.dtype == torch.float64)
