"""Judges a run against eager PyTorch: one row per loss, gradient, parameter, buffer and state.

The reference is eager in float64; below float64, each step of it starts from the values that Tandem had after
the step before, and follows Tandem's choices of experts. A row passes if its largest absolute difference is at most the tolerance
times a scale; the rule names the scale:
  loss       |loss|, at least LOSS_FLOOR
  gradient   the larger of max |g| and FLOOR times the model's largest gradient
  parameter  the larger of max |p| and learning rate times steps. With Adam, elements whose gradient was
             below that floor at some step are exempt, and counted: there rounding noise, divided by its
             own size, decides the update. So are, below float64, those whose gradient is below the error that is
             allowed for it.
  state      the larger of max |s| and that gradient floor; for second moments, which are squares, the floor's
             square, and SQUARE_FACTOR times the tolerance. Where weight decay is part of the
             gradient (Adam's), an exempt element of a parameter is one of a state as well, by as much as
             it has moved apart, times that decay.
  buffer     the larger of max |b| and FLOOR times the largest buffer of the same module; integers are
             equal. What exempt elements of parameters moved apart is allowed on top: a running mean
             follows the bias before its layer, whose gradient is zero in exact arithmetic.
A parameter without a gradient must be equal to the bit, unless the model itself writes to it: then it
is judged like a buffer.

Below float64 a row passes as well if the run is as exact as eager in the same type (rule "eager's error"):
its largest error is at most LARGEST_FACTOR times (SCALAR_FACTOR for one element), and, for tensors with at least
MANY elements, its root mean square error at most RMS_FACTOR times that of the worst of some eager runs, the twins,
which start from the same values and from values that differ in the last place. docs/rationale/verify.md says why.
"""

import functools
import math
from dataclasses import dataclass, field

import torch

TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 3e-3, torch.bfloat16: 2e-2}
FLOOR = 1e-3
LOSS_FLOOR = 1e-3
LARGEST_FACTOR = 4.0
SCALAR_FACTOR = 8.0
RMS_FACTOR = 2.0
# The relative error of a square, in those of what is squared.
SQUARE_FACTOR = 2.0
MANY = 64
_SECOND_MOMENTS = ("exp_avg_sq.", "max_exp_avg_sq.")


# Results of a step that are chosen indices; `loss_fn` may return others.
CHOICE = "choice."


def is_choice(role, name):
    return role == "output" and name.startswith(CHOICE)


@dataclass
class Values:
    """Copies of what a step leaves."""

    parameters: dict = field(default_factory=dict)
    buffers: dict = field(default_factory=dict)
    states: dict = field(default_factory=dict)

    @staticmethod
    def of(arguments):
        """From {`role/name`: tensor} of a captured step; the count of steps is a buffer `(step)`."""
        values = Values()
        columns = {"parameter": values.parameters, "buffer": values.buffers, "state": values.states}
        for key, tensor in arguments.items():
            role, _, name = key.partition("/")
            columns.get(role, {})[name] = tensor
        values.buffers["(step)"] = arguments["step/step"]
        return values


@dataclass
class History:
    """What a run left. Lists have one entry per step. `choices` are the indices that argmax and topk gave
    (which expert a token goes to), `margins` the values that they chose from. The values are those after
    the last step; `earlier` has those after the steps before it, where they are wanted."""

    losses: list[float] = field(default_factory=list)
    gradients: list[dict] = field(default_factory=list)
    choices: list[list] = field(default_factory=list)
    margins: list[list] = field(default_factory=list)
    parameters: dict = field(default_factory=dict)
    buffers: dict = field(default_factory=dict)
    states: dict = field(default_factory=dict)
    earlier: list[Values] = field(default_factory=list)

    def take(self, values):
        """Makes a list of values, one per step or only the last one, those of this run."""
        *self.earlier, last = values
        self.parameters, self.buffers, self.states = last.parameters, last.buffers, last.states

    def after(self, step):
        """The values after a step."""
        last = step == len(self.losses) - 1
        return Values(self.parameters, self.buffers, self.states) if last else self.earlier[step]

    def at(self, step):
        """One step as a history of its own."""
        lists = (self.losses, self.gradients, self.choices, self.margins)
        values = self.after(step)
        return History(
            *([column[step]] if column else [] for column in lists),
            values.parameters,
            values.buffers,
            values.states,
        )

    def follow(self, later):
        """This run and what came after it."""
        self.losses += later.losses
        self.gradients += later.gradients
        self.choices += later.choices
        self.margins += later.margins
        self.parameters, self.buffers = later.parameters, later.buffers
        self.states = later.states
        return self


@dataclass
class Row:
    kind: str
    name: str
    absolute: float
    relative: float
    allowed: float
    rule: str
    passed: bool

    @property
    def used(self):
        """The share of the allowed difference that is used up; more than 1 fails."""
        if self.allowed:
            return self.absolute / self.allowed
        return 0.0 if self.absolute == 0 else float("inf")


@dataclass
class Training:
    """How eager trained: what the scales need. `first` is the number of the first step compared."""

    tolerance: float
    adam: bool
    steps: int
    learning_rates: dict  # of each parameter
    written: frozenset = frozenset()  # parameters that the model itself writes to
    first: int = 0
    decays: dict = field(default_factory=dict)  # of each parameter whose gradient it is added to


def _largest(tensor):
    """The largest magnitude, NaN if there is one."""
    return tensor.abs().max().item() if tensor.numel() else 0.0


def _scale(tensor):
    """The largest finite magnitude: next to the -inf of a mask any difference would be small."""
    tensor = tensor.double()
    return _largest(tensor[tensor.isfinite()])


def _in_any_order(tensor):
    """Equal for tensors that have the same elements, whatever their shapes and orders."""
    return tensor.detach().flatten().sort().values


def _rms(tensor):
    return tensor.square().mean().sqrt().item() if tensor.numel() else 0.0


def _difference(found, expected):
    """Of each element; infinities of one sign are equal, NaN never are."""
    found, expected = found.double(), expected.double()
    return torch.where(found == expected, 0.0, (found - expected).abs())


@dataclass
class _Tensors:
    """One tensor in the run, in the reference and in the twins."""

    name: str
    found: torch.Tensor
    expected: torch.Tensor
    twins: list
    slack: torch.Tensor | float = 0.0  # by which the run's elements may be off anyway

    def errors(self, kept=None):
        """Of the run, and of each twin; of the elements `kept`, by default all."""
        kept = ... if kept is None else kept
        found, *twins = [_difference(v, self.expected)[kept] for v in (self.found, *self.twins)]
        if isinstance(self.slack, torch.Tensor):
            found = (found - self.slack[kept]).clamp(min=0.0)
        return found, twins

    @property
    def size(self):
        return _scale(self.expected)


def _ratio(part, whole):
    return part / whole if whole else (0.0 if part == 0 else float("inf"))


def _factor(tensor):
    """How many times eager's error one of the elements may have."""
    return SCALAR_FACTOR if tensor.numel() == 1 else LARGEST_FACTOR


def _as_eager(error, twins):
    """(allowed, rule, passed) of a run against the worst of eager's."""
    factor = _factor(error)
    allowed = factor * max(_largest(twin) for twin in twins)
    rule = f"{factor:g} eager's error"
    # A twin that is not finite excuses nothing.
    passed = math.isfinite(allowed) and _largest(error) <= allowed
    if passed and error.numel() >= MANY:
        share = _ratio(_rms(error), max(_rms(twin) for twin in twins))
        rule = f"eager's error, rms {share:.2g} of {RMS_FACTOR:g}"
        passed = share <= RMS_FACTOR
    return allowed, rule, passed


def _row(kind, values, tolerance, scale, rule, kept=None):
    error, twins = values.errors(kept)
    absolute, allowed = _largest(error), tolerance * scale
    # Written so that a NaN fails.
    passed = bool(absolute <= allowed)
    if not passed and twins:
        own, own_rule, passed = _as_eager(error, twins)
        if passed or own > allowed:
            allowed, rule = own, own_rule + rule[rule.find(",") :] * ("," in rule)
    relative = _ratio(absolute, values.size)
    return Row(kind, values.name, absolute, relative, allowed, rule, passed)


def _broken(kind, name, rule):
    return Row(kind, name, float("nan"), float("nan"), 0.0, rule, False)


def _matched(kind, found, expected, twins):
    """`_Tensors` of what run and reference have, and failing rows for the rest."""
    expected = {name: tensor for name, tensor in expected.items() if tensor.numel()}
    rows = [_broken(kind, name, "missing in Tandem") for name in expected if name not in found]
    unknown = [name for name in found if name not in expected and found[name].numel()]
    rows += [_broken(kind, name, "missing in eager") for name in unknown]
    matched = []
    for name in (name for name in expected if name in found):
        like = (twins[0] if twins else expected)[name]
        if found[name].shape != like.shape or found[name].dtype != like.dtype:
            rows.append(_broken(kind, name, "other type or shape"))
        else:
            matched.append(
                _Tensors(name, found[name], expected[name], [twin[name] for twin in twins])
            )
    return matched, rows


def _equal_row(kind, values, why):
    """Without twins: equal is equal."""
    values = _Tensors(values.name, values.found, values.expected, [])
    return _row(kind, values, 0.0, 1.0, f"equal ({why})")


def gradient_floor(gradients):
    return FLOOR * max((_scale(g) for g in gradients.values()), default=0.0)


class Gradients(list):
    """Of the reference, step by step, with the floor of each step, for which every tensor asks."""

    @functools.cached_property
    def floors(self):
        return [gradient_floor(step) for step in self]


def judge_losses(found, expected, twins, training):
    rows = []
    for step, numbers in enumerate(zip(found, expected, *twins, strict=True)):
        mine, theirs, *others = (torch.tensor([n], dtype=torch.float64) for n in numbers)
        values = _Tensors(f"step {training.first + step}", mine, theirs, others)
        scale = max(values.size, LOSS_FLOOR)
        rule = "|loss|" if scale > LOSS_FLOOR else f"{LOSS_FLOOR:g}"
        rows.append(_row("loss", values, training.tolerance, scale, rule))
    return rows


def _judge_gradient(values, floor, training):
    scale = max(values.size, floor)
    rule = "max|g|" if scale > floor else f"{FLOOR:g} largest g"
    return _row("gradient", values, training.tolerance, scale, rule)


def worst(rows):
    """The row that is nearest to failing, or fails most."""
    return max(
        rows, key=lambda row: (not row.passed, row.used if row.used == row.used else float("inf"))
    )


def judge_gradients(found, expected, twins, training):
    """One row per gradient: its worst step."""
    rows = {}
    for step, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        floor = gradient_floor(theirs)
        matched, failed = _matched("gradient", mine, theirs, [twin[step] for twin in twins])
        for row in failed + [_judge_gradient(values, floor, training) for values in matched]:
            rows.setdefault(row.name, []).append(row)
    return [worst(of_one) for of_one in rows.values()]


def gradient_noise(gradients, twins):
    """{name: the error of a gradient that eager's excuses}: below it not even the sign is known."""
    noise = {}
    for step, expected in enumerate(gradients):
        for name, gradient in expected.items():
            errors = [_largest(_difference(twin[step][name], gradient)) for twin in twins]
            own = _factor(gradient) * max(errors, default=0.0)
            # A twin that is not finite excuses nothing.
            noise[name] = max(own if math.isfinite(own) else 0.0, noise.get(name, 0.0))
    return noise


def exempt_elements(name, gradients, noise=None):
    """Where a parameter's gradient was below the floor, or its noise, at some step. `gradients` are `Gradients`."""
    least = (noise or {}).get(name, 0.0)
    masks = [
        step[name].double().abs() < max(floor, least)
        for step, floor in zip(gradients, gradients.floors, strict=True)
    ]
    return torch.stack(masks).any(dim=0)


def _drift_of(name, found, expected, gradients):
    trained = name in expected and all(name in step for step in gradients)
    if not trained or name not in found or found[name].shape != expected[name].shape:
        return 0.0
    difference = _difference(found[name], expected[name])
    return _largest(difference[exempt_elements(name, gradients)])


def _judge_parameter(values, gradients, noise, drift, training):
    name = values.name
    if any(name not in step for step in gradients):
        if name in training.written:
            return _judge_close("parameter", values, values.size, drift, training)
        return _equal_row("parameter", values, "no gradient")
    travelled = training.learning_rates.get(name, 0.0) * training.steps
    rule, kept = "max|p|" if values.size >= travelled else "lr*steps", None
    scale = max(values.size, travelled)
    if training.adam:
        exempt = exempt_elements(name, gradients, noise)
        beyond = int((values.errors(exempt)[0] > training.tolerance * scale).sum())
        kept = ~exempt
        if exempt.any():
            rule += f", {int(exempt.sum())}/{exempt.numel()} exempt ({beyond} beyond)"
    return _row("parameter", values, training.tolerance, scale, rule, kept)


def judge_parameters(found, expected, twins, gradients, noise, drift, training):
    matched, rows = _matched("parameter", found, expected, twins)
    return [
        _judge_parameter(values, gradients, noise, drift, training) for values in matched
    ] + rows


def _judge_state(values, floor, training):
    """A second moment is a square, and so is its floor; its relative error is twice the gradient's."""
    is_square = values.name.startswith(_SECOND_MOMENTS)
    lowest = floor**2 if is_square else floor
    tolerance = SQUARE_FACTOR * training.tolerance if is_square else training.tolerance
    rule = "max|s|" if values.size > lowest else "gradient floor"
    rule += f", {SQUARE_FACTOR:g} times for a square" * is_square
    if isinstance(values.slack, torch.Tensor):
        rule += ", exempt elements apart"
    return _row("state", values, tolerance, max(values.size, lowest), rule)


def _state_slack(name, found, expected, gradients, floor, training):
    """By how much an element of a state may be off, as weight decay adds exempt elements of its parameter to
    the gradient: by the decay times what they have moved apart; a square by what that makes of it. 0.0 if
    nothing moved.
    """
    state, _, parameter = name.partition(".")
    decay = training.decays.get(parameter, 0.0)
    apart = decay * _drift_of(parameter, found.parameters, expected.parameters, gradients)
    if not apart:
        return 0.0
    slack = apart * exempt_elements(parameter, gradients)
    shape = expected.states[name].shape
    if shape != slack.shape:  # a state of sums, or of its elements in another order
        return torch.full(shape, slack.max().item(), dtype=torch.float64)
    if f"{state}.".startswith(_SECOND_MOMENTS):
        slack *= 2 * (floor + decay * expected.parameters[parameter].double().abs()) + apart
    return slack


def judge_states(found, expected, twins, gradients, training):
    """`found` and `expected` are histories; `twins` states."""
    floor = max(gradients.floors, default=0.0)
    matched, rows = _matched("state", found.states, expected.states, twins)
    # A step of its own makes its states from equal parameters.
    for values in matched if training.steps > 1 else ():
        values.slack = _state_slack(values.name, found, expected, gradients, floor, training)
    return [_judge_state(values, floor, training) for values in matched] + rows


def exempt_drift(found, expected, gradients, training):
    """The largest difference among exempt elements of parameters."""
    if not training.adam:
        return 0.0
    return max((_drift_of(name, found, expected, gradients) for name in expected), default=0.0)


def _largest_of_module(name, buffers):
    """The largest magnitude in the floating-point buffers beside this one."""
    module = name.rpartition(".")[0]
    beside = [
        b
        for other, b in buffers.items()
        if other.rpartition(".")[0] == module and b.dtype.is_floating_point
    ]
    return max(_scale(b) for b in beside)


def _judge_close(kind, values, beside, drift, training):
    scale, floor = values.size, FLOOR * beside
    rule = f"max|{kind[0]}|" if scale >= floor else f"{FLOOR:g} largest {kind[0]}"
    scale = max(scale, floor)
    if drift:
        scale, rule = scale + drift / training.tolerance, rule + ", exempt parameters"
    return _row(kind, values, training.tolerance, scale, rule)


def judge_buffers(found, expected, twins, drift, training):
    matched, rows = _matched("buffer", found, expected, twins)
    for values in matched:
        if not values.expected.dtype.is_floating_point:
            rows.append(_equal_row("buffer", values, "integers"))
        else:
            beside = _largest_of_module(values.name, expected)
            rows.append(_judge_close("buffer", values, beside, drift, training))
    return rows


def choice_margin(found, expected, values):
    """How far apart the values of different choices are, relative to the largest; None if all are equal."""
    differs = found != expected
    if not differs.any():
        return None
    values = values.double()
    apart = _difference(values.gather(-1, found), values.gather(-1, expected))[differs]
    return _ratio(_largest(apart), _scale(values))


def _judge_choice(name, found, expected, values, twins, training, exact):
    """Indices along the last dimension. Below float64 they may differ where the values are that close:
    two values change places if their errors are at least half their distance.
    """
    differs = found != expected
    count = int(differs.sum())
    if exact or not count:
        share = count / max(expected.numel(), 1)
        return Row("choice", name, float(count), share, 0.0, "equal indices", count == 0)
    values = values.double()
    margin = _largest(_difference(values.gather(-1, found), values.gather(-1, expected))[differs])
    own = max((_largest(_difference(twin, values)) for twin in twins), default=0.0)
    allowed = max(training.tolerance * _scale(values), 2 * LARGEST_FACTOR * own)
    rule = f"{count}/{expected.numel()} differ, by margin"
    relative = _ratio(margin, _scale(values))
    return Row("choice", name, margin, relative, allowed, rule, bool(margin <= allowed))


def judge_choices(found, expected, twins, training, exact):
    """Expert assignments and other argmax and topk of the forward pass."""
    rows = []
    for step, (mine, theirs) in enumerate(zip(found.choices, expected.choices, strict=True)):
        for index, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            name, values = f"{index} at step {training.first + step}", expected.margins[step][index]
            others = [twin.margins[step][index] for twin in twins]
            rows.append(_judge_choice(name, a, b, values, others, training, exact))
    return rows


def compare(found, expected, training, exact=True, twins=()):
    """All rows; the run is right if every one passed. `exact`: choices must be equal."""

    def of_twins(field):
        return [getattr(twin, field) for twin in twins]

    gradients = Gradients(expected.gradients)
    drift = exempt_drift(found.parameters, expected.parameters, gradients, training)
    # In a step of its own, buffers come from the values before it.
    drift = drift if training.steps > 1 else 0.0
    return [
        *judge_losses(found.losses, expected.losses, of_twins("losses"), training),
        *judge_choices(found, expected, twins, training, exact),
        *judge_gradients(found.gradients, gradients, of_twins("gradients"), training),
        *judge_parameters(
            found.parameters,
            expected.parameters,
            of_twins("parameters"),
            gradients,
            gradient_noise(gradients, of_twins("gradients")),
            drift,
            training,
        ),
        *judge_buffers(found.buffers, expected.buffers, of_twins("buffers"), drift, training),
        *judge_states(found, expected, of_twins("states"), gradients, training),
    ]


def _line(row, width):
    numbers = f"{row.absolute:8.1e} {row.relative:8.1e} {row.allowed:8.1e}"
    return (
        f"{row.kind:9} {row.name:{width}} {numbers} {'ok' if row.passed else 'FAIL':4} {row.rule}"
    )


def table(rows, tolerance):
    """For people: one line per row."""
    width = max([4, *(len(row.name) for row in rows)])
    head = f"{'what':9} {'name':{width}} {'abs':>8} {'rel':>8} {'allowed':>8}      rule, times {tolerance:g}"
    return "\n".join([head, *(_line(row, width) for row in rows)])
