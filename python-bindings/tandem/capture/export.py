"""`tandem.export`: a training step of one device as a module of `nn` operators."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from ..base import progress
from ..base.outputs import write_tensors
from ..base.tree import outline
from ..base.types import widened
from ..guards.constants import Constants
from ..guards.identity import BatchMemory
from ..lowering import is_kept, lower
from ..lowering.records import Step
from ..lowering.text import print_step
from ..tracing.arguments import Argument, Result, batch_constants, batch_tensors
from ..tracing.draws import RandomCall
from ..tracing.precision import check_precision, sum_first
from ..tracing.regions import tell_idle
from . import capture_cache
from .returned import Returned
from .trace import trace_step
from .wanted import Wanted

# Operators whose results IEEE 754 defines, or that only move elements.
_EXACT = frozenset(
    """
    abs add cat ceil compare constant convert div embedding expand flip floor gather iota maximum minimum mul neg pad permute reshape
    roll select slice sqrt sub trunc
    """.split()  # noqa: SIM905 - a list of words is easier to read
)


@dataclass
class StepModule:
    """A captured training step.

    `mlir` is its text; `make_step` makes the same as data. `arguments` and `results` are the tables of `@step`, in order; a result
    with `updates = i` is the value of argument i in the next step. `random_calls` lists the random
    operators (name, shape, type) in eager's call order, for `tandem.random.replay`; `returned` what the loss
    function returns; `constants` what is no tensor in the example
    batch; `starts` those of `Counts`, `updated` the parameters that the optimizer updates; `guards` what a batch has to agree with
    (reads.py), `outline` what it is made of (tree.py); `read_past` what is read past model and batch; `guards_of_numbers` what the
    optimizer's hyperparameters have to agree with (paths.py); `parted` as in `Wanted`; `batch_memory` how tensors of a batch share
    memory that the loss writes to; `leaves` the numbers in attributes with which the next step goes on, as in `Wanted`.
    """

    mlir: str
    arguments: list[Argument]
    results: list[Result]
    random_calls: list[RandomCall]
    make_step: Callable[[], Step]
    returned: Returned
    constants: dict = field(default_factory=dict)
    starts: dict = field(default_factory=dict)
    updated: frozenset = frozenset()
    guards: list = field(default_factory=list)
    outline: str | None = None
    read_past: Constants | None = None
    guards_of_numbers: list = field(default_factory=list)
    parted: frozenset = frozenset()
    batch_memory: BatchMemory | None = None
    leaves: dict = field(default_factory=dict)

    @functools.cached_property
    def step(self):
        return self.make_step()

    @property
    def precision(self):
        """The coarsest floating-point type that the step computes in; it decides how equal to
        eager a run can be. A float64 model may round to float32 inside, as `transformers` does
        in norms and losses. What exact operators make of integers and constants alone, such as the
        slopes of alibi in bfloat16, is the same in both."""
        pairs = zip(self.step.parameters, self.arguments, strict=True)
        inexact = {id(value) for value, a in pairs if a.dtype.is_floating_point}
        types = {a.dtype for a in self.arguments if a.role == "parameter"}
        for operator in self.step.operators:
            if any(id(operand) in inexact for operand in operator.operands):
                inexact |= {id(result) for result in operator.results}
            elif operator.name in _EXACT:
                continue
            types |= {result.dtype for result in operator.results}
        return max((t for t in types if t.is_floating_point), key=lambda t: torch.finfo(t).eps)

    def values(self):
        """{`role/name`: tensor} of all arguments but the inputs; empty of what is on the meta
        device.
        """
        return {a.key: a.value for a in self.arguments if a.role != "input" and a.value is not None}

    def inputs(self, batch):
        """{`input/name`: tensor} of a batch, in the arguments' order."""
        tensors = batch_tensors(batch)
        return {a.key: widened(tensors[a.name]) for a in self.arguments if a.role == "input"}

    def save_values(self, path, batches=(), seed=0):
        """Writes the values and some batches as safetensors: `parameter/<name>`,
        `batch.<i>/<input>`. Raises OSError.
        """
        tensors = self.values() | {"seed/seed": torch.tensor(seed)}
        for i, batch in enumerate(batches):
            tensors |= {
                f"batch.{i}/{name}": widened(tensor)
                for name, tensor in batch_tensors(batch).items()
            }
        write_tensors(path, tensors)


def export(
    model,
    loss_fn,
    optimizer,
    example_batch,
    gradients=False,
    precision=None,
    gradient_sums="f32",
    wanted=None,
    cache=False,
):
    """Captures one training step of `model`: forward, backward, optimizer.

    `loss_fn(model, batch)` returns a tensor of one element, or a tuple that begins with it, or a dict that has it as
    `loss`; `optimizer` is one of `torch.optim`, a class of the user's or a `FunctionOptimizer`, whose
    hyperparameters and state are taken over. With `gradients`, they are results too. With `precision="bf16"` the
    forward pass runs under `torch.autocast("cpu", torch.bfloat16)`; `gradient_sums` says in which type gradients that
    are made in bfloat16 are summed over strands and ranks: "f32", or "bf16". `wanted` says all of this and more. With
    `cache`, what an equal capture has made before is taken from the disk.
    Nothing is computed, and neither model nor optimizer is changed; both may be on the meta device.
    Raises `CaptureError` or `UnsupportedOperatorError`.
    """
    wanted = wanted or Wanted(gradients, precision=precision, gradient_sums=gradient_sums)
    check_precision(wanted.precision, wanted.gradient_sums)
    trace = trace_step(model, loss_fn, optimizer, example_batch, wanted, is_kept)
    read_past = Constants(trace.first)

    def make_step():
        step = lower(trace)
        if wanted.gradient_sums == "bf16":
            sum_first(step)
        return step

    key = capture_cache.key_of(trace, wanted.gradient_sums) if cache else None
    found = capture_cache.read(key)
    if found is None:
        step = make_step()
        progress.tell("text")
        make_step = functools.partial(_self, step)
        text, arguments, results = print_step(step), step.arguments, step.results
        numbers = {id(argument): number for number, argument in enumerate(trace.arguments)}
        runs = step.runs()
        capture_cache.write(key, text, [numbers[id(a)] for a in arguments], results, runs)
    else:
        text, numbers, results, runs = found
        arguments = [trace.arguments[number] for number in numbers]
    tell_idle(trace.regions, runs)
    return StepModule(
        text,
        arguments,
        results,
        trace.random_calls,
        make_step,
        trace.returned,
        batch_constants(example_batch),
        trace.starts,
        trace.updated,
        trace.guards,
        outline(example_batch),
        read_past,
        trace.guards_of_numbers,
        trace.parted,
        trace.batch_memory,
        trace.leaves,
    )


def _self(value):
    return value
