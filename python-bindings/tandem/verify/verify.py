"""Trains a model in eager PyTorch and in Tandem from equal values on equal batches, and compares."""

import copy
from dataclasses import dataclass, replace

import torch

from ..capture.export import StepModule, export
from ..capture.model_file import ModelFile, as_dtype
from ..capture.returned import find_loss
from ..lowering.text import print_step
from ..optimizers.optimizers import is_decoupled
from ..session.step import Step
from ..tracing.arguments import Result
from .compare import (
    CHOICE,
    TOLERANCES,
    History,
    Training,
    Values,
    choice_margin,
    compare,
    is_choice,
    worst,
)
from .eager import CHOOSING, Eager, build, computing_in, values_of

STEPS = 3
# Below float64: how many eager runs of the step's own type tell how exact it can be. The first starts from
# the same values, the others from values that differ in the last place.
TWINS = 5
_RESULTS = ("parameter", "gradient")


def _chooses(operator):
    """Whether an operator of the captured step is one that `Choices` notes."""
    if operator.phase != "forward" or operator.name not in ("topk", "argmax"):
        return False
    if operator.source not in CHOOSING:
        return False
    shape = operator.operands[0].shape
    return operator.attributes["dim"] in (-1, len(shape) - 1)


def observe_choices(module):
    """The module with the chosen indices as further results, `output/choice.<i>`."""
    operators = [operator for operator in module.step.operators if _chooses(operator)]
    step = copy.copy(module.step)
    names = [f"{CHOICE}{i}" for i in range(len(operators))]
    step.results = module.step.results + [Result("output", name) for name in names]
    step.outputs = module.step.outputs + [operator.results[-1] for operator in operators]
    return replace(module, mlir=print_step(step), results=step.results, make_step=lambda: step)


@dataclass
class Subject:
    """A model file's step, captured once. `values` are those of the model before anything was converted, `expected` is what eager
    made of them, all in float64.
    """

    module: StepModule
    file: ModelFile
    model: torch.nn.Module
    values: dict
    optimizer: torch.optim.Optimizer
    batches: list
    seed: int
    training: Training
    expected: History | None = None

    @property
    def exact(self):
        """Whether all is in float64, so that runs of many steps are comparable and choices are equal."""
        return self.module.precision == torch.float64

    def eager(self, dtype):
        states = [a.name for a in self.module.arguments if a.role == "state"]
        calls = self.module.random_calls
        return Eager(self.model, self.values, self.file, dtype, self.seed, calls, states)


def _values(step):
    """What a compiled step has now."""
    roles = ("parameter", "buffer", "state", "step")
    values = {a.key: step.value(a.key) for a in step.module.arguments if a.role in roles}
    views = [(a, viewed) for a in step.module.arguments for viewed in a.views]
    values |= {f"buffer/{v.name}": v.view.of(values[a.key]) for a, v in views}
    return Values.of(values)


def run_step(step, batches):
    """Trains a compiled step, and returns the history with the values after each step."""
    history, values = History(), []
    choices = [r.name for r in step.module.results if is_choice(r.role, r.name)]
    for batch in batches:
        history.losses.append(find_loss(step(batch)).item())
        history.gradients.append(step.gradients())
        history.choices.append([step.result("output", name) for name in choices])
        values.append(_values(step))
    history.take(values)
    return history


def run_program(subject, compiled, threads, seed):
    """Trains the compiled step of a subject; its history."""
    step = Step(
        subject.module,
        compiled.bytes,
        subject.model,
        subject.optimizer,
        compiled,
        threads,
        seed,
    )
    return run_step(step, subject.batches)


def _kept_in(module):
    """The type whose tolerance counts. What is computed in bfloat16 beside parameters of float32 is held to eager's
    error alone: a tolerance of bfloat16 would excuse any update.
    """
    kept = {a.dtype for a in module.arguments if a.role == "parameter"}
    is_cast = module.precision == torch.bfloat16 and kept == {torch.float32}
    return torch.float32 if is_cast else module.precision


def _training(module, model, optimizer, steps):
    names = {id(p): name for name, p in model.named_parameters()}
    rates = {
        names[id(p)]: float(g.get("lr") or 0.0) for g in optimizer.param_groups for p in g["params"]
    }
    results = {role: {r.name for r in module.results if r.role == role} for role in _RESULTS}
    written = frozenset(results["parameter"] - results["gradient"])
    adam = not isinstance(optimizer, torch.optim.SGD)
    decays = {
        names[id(p)]: float(g.get("weight_decay", 0.0))
        for g in optimizer.param_groups
        for p in g["params"]
        if adam and not is_decoupled(optimizer, g)
    }
    return Training(TOLERANCES[_kept_in(module)], adam, steps, rates, written, decays=decays)


def _same_choices(module, expected):
    """Whether the captured choices are those of eager, in number and shape."""
    outputs = [
        value
        for result, value in zip(module.results, module.step.outputs, strict=True)
        if is_choice(result.role, result.name)
    ]
    noted = expected.choices[0] if expected.choices else []
    sizes = [torch.Size(value.shape).numel() for value in outputs]
    return sizes == [index.numel() for index in noted]


def make_subject(file, steps=STEPS, seed=0, gradient_sums="f32"):
    """Captures the step of a `ModelFile` and runs it in eager."""
    torch.set_num_threads(1)
    model = build(file, seed)
    values = values_of(model)
    model = as_dtype(model, file.dtype)
    optimizer = file.make_optimizer(model)
    batches = file.batches(steps)
    with computing_in(file.dtype):
        module = export(
            model, file.loss, optimizer, batches[0], True, file.precision, gradient_sums
        )
    training = _training(module, model, optimizer, steps)
    subject = Subject(module, file, model, values, optimizer, batches, seed, training)
    eager = subject.eager(torch.float64)
    expected = eager.step(batches[0], 0)
    for number in range(1, steps if subject.exact else 1):
        expected = expected.follow(eager.step(batches[number], number))
    observed = observe_choices(module)
    if _same_choices(observed, expected):
        subject.module = observed
    else:
        expected.choices, expected.margins = [[] for _ in batches], [[] for _ in batches]
    subject.expected = expected
    return subject


def _reshape_choices(found, expected):
    """The captured index may lack the dimension that eager's has, of size 1."""
    shapes = [index.shape for index in expected.choices[0]]
    found.choices = [
        [mine.reshape(shape) for mine, shape in zip(step, shapes, strict=True)]
        for step in found.choices
    ]


def reference_steps(subject, found):
    """For each step, what eager makes of it from the values that Tandem had before it and with Tandem's
    choices: the history in float64, and those of the twins.
    """
    reference = subject.eager(torch.float64)
    twins = [subject.eager(subject.file.dtype) for _ in range(TWINS)]
    for number, batch in enumerate(subject.batches):
        imposed = found.choices[number] or None
        for place, run in enumerate([reference, *twins]):
            if number:
                run.load(found.after(number - 1))
            if place > 1:
                run.nudge(subject.module.precision, TWINS * number + place)
        histories = [run.step(batch, number, imposed) for run in (reference, *twins)]
        if imposed is None:
            for history in histories:
                history.choices, history.margins = [[]], [[]]
        yield histories[0], histories[1:]


def _judge_steps(subject, found):
    for number, (expected, twins) in enumerate(reference_steps(subject, found)):
        training = replace(subject.training, steps=1, first=number)
        yield compare(found.at(number), expected, training, False, twins)


def _worst_of_steps(steps):
    """One row per kind and name."""
    rows = {}
    for row in (row for rows_of_step in steps for row in rows_of_step):
        rows.setdefault((row.kind, row.name), []).append(row)
    kinds = list(dict.fromkeys(kind for kind, _ in rows))
    return [worst(of_one) for of_one in sorted(rows.values(), key=lambda r: kinds.index(r[0].kind))]


def _part_at_ties(found, expected, tolerance):
    """Whether two runs choose otherwise for the first time where values are equal up to rounding, as those
    of equal tokens are. What follows such a step is not comparable.
    """
    for step, (mine, theirs) in enumerate(zip(found.choices, expected.choices, strict=True)):
        margins = [
            choice_margin(a, b, values)
            for a, b, values in zip(mine, theirs, expected.margins[step], strict=True)
        ]
        if any(margin is not None for margin in margins):
            return all(margin is None or margin <= tolerance for margin in margins)
    return False


def _part_by_gradients(subject, rows):
    """Whether a gradient differs that Adam divides by its size: if it is rounding, that multiplies what two right runs
    differ by, and eager's own error tells whether it is.
    """
    return subject.training.adam and any(row.kind == "gradient" and not row.passed for row in rows)


def judge(subject, found):
    """The rows of the comparison. In float64 of whole runs, unless these part, at a tie or by gradients under Adam;
    otherwise step by step, with the run's choices.
    """
    _reshape_choices(found, subject.expected)
    if subject.exact and not _part_at_ties(found, subject.expected, subject.training.tolerance):
        rows = compare(found, subject.expected, subject.training)
        if not _part_by_gradients(subject, rows):
            return rows
    return _worst_of_steps(_judge_steps(subject, found))
