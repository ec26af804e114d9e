"""Judges a run against eager PyTorch: one row per loss, gradient, parameter, buffer and state.

A row passes if its largest absolute difference is at most the tolerance times a scale; the rule names
the scale:
  loss       |loss|, at least LOSS_FLOOR
  gradient   the larger of max |g| and FLOOR times the model's largest gradient
  parameter  the larger of max |p| and learning rate times steps. With Adam, elements whose gradient was
             below that floor at some step are exempt, and counted: there rounding noise, divided by its
             own size, decides the update.
  state      the larger of max |s| and that gradient floor; for second moments, which are squares,
             twice the larger of max |s| and the floor's square
  buffer     the larger of max |b| and FLOOR times the largest buffer of the same module; integers are
             equal. What exempt elements of parameters moved apart is allowed on top: a running mean
             follows the bias before its layer, whose gradient is zero in exact arithmetic.
A parameter without a gradient must be equal to the bit, unless the model itself writes to it: then it
is judged like a buffer.
"""

from dataclasses import dataclass, field

import torch

TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 1e-1}
FLOOR = 1e-3
LOSS_FLOOR = 1e-3
_SECOND_MOMENTS = ("exp_avg_sq.", "max_exp_avg_sq.")


@dataclass
class History:
    """What a run left. Lists have one entry per step; tensors are copies. `choices` are the indices that
    argmax and topk gave (which expert a token goes to), `margins` the values that they chose from."""

    losses: list[float] = field(default_factory=list)
    gradients: list[dict] = field(default_factory=list)
    choices: list[list] = field(default_factory=list)
    margins: list[list] = field(default_factory=list)
    parameters: dict = field(default_factory=dict)
    buffers: dict = field(default_factory=dict)
    states: dict = field(default_factory=dict)


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
    """How eager trained: what the scales need."""

    tolerance: float
    adam: bool
    steps: int
    learning_rates: dict  # of each parameter
    written: frozenset = frozenset()  # parameters that the model itself writes to


def _largest(tensor):
    """The largest magnitude, NaN if there is one."""
    return tensor.abs().max().item() if tensor.numel() else 0.0


def _difference(found, expected):
    return (found.double() - expected.double()).abs()


def _row(kind, name, difference, expected, tolerance, scale, rule):
    absolute = _largest(difference)
    size = _largest(expected.double())
    relative = absolute / size if size else (0.0 if absolute == 0 else float("inf"))
    allowed = tolerance * scale
    # Written so that a NaN fails.
    return Row(kind, name, absolute, relative, allowed, rule, bool(absolute <= allowed))


def _missing(kind, name, where):
    return Row(kind, name, float("nan"), float("nan"), 0.0, f"missing in {where}", False)


def _pairs(kind, found, expected):
    """(name, found, expected) of what both have, and failing rows for the rest."""
    rows = [_missing(kind, name, "Tandem") for name in expected if name not in found]
    rows += [_missing(kind, name, "eager") for name in found if name not in expected]
    pairs = []
    for name in expected:
        if name not in found:
            continue
        if found[name].shape != expected[name].shape or found[name].dtype != expected[name].dtype:
            rows.append(
                Row(kind, name, float("nan"), float("nan"), 0.0, "other type or shape", False)
            )
        else:
            pairs.append((name, found[name], expected[name]))
    return pairs, rows


def _equal_row(kind, name, found, expected, why):
    return _row(kind, name, _difference(found, expected), expected, 0.0, 1.0, f"equal ({why})")


def gradient_floor(gradients):
    return FLOOR * max((_largest(g.double()) for g in gradients.values()), default=0.0)


def judge_losses(found, expected, training):
    rows = []
    for step, (a, b) in enumerate(zip(found, expected, strict=True)):
        a, b = (torch.tensor(value, dtype=torch.float64) for value in (a, b))
        scale = max(abs(b.item()), LOSS_FLOOR)
        rule = "|loss|" if scale > LOSS_FLOOR else f"{LOSS_FLOOR:g}"
        rows.append(_row("loss", f"step {step}", (a - b).abs(), b, training.tolerance, scale, rule))
    return rows


def _judge_gradient(name, found, expected, floor, training):
    scale = max(_largest(expected.double()), floor)
    rule = "max|g|" if scale > floor else f"{FLOOR:g} largest g"
    return _row(
        "gradient", name, _difference(found, expected), expected, training.tolerance, scale, rule
    )


def _worst(rows):
    """The row that is nearest to failing, or fails most."""
    return max(
        rows, key=lambda row: (not row.passed, row.used if row.used == row.used else float("inf"))
    )


def judge_gradients(found, expected, training):
    """One row per gradient: its worst step."""
    rows = {}
    for a, b in zip(found, expected, strict=True):
        floor = gradient_floor(b)
        pairs, failed = _pairs("gradient", a, b)
        for row in failed + [_judge_gradient(*pair, floor, training) for pair in pairs]:
            rows.setdefault(row.name, []).append(row)
    return [_worst(of_one) for of_one in rows.values()]


def exempt_elements(name, gradients):
    """Where a parameter's gradient was below the floor at some step."""
    masks = [step[name].double().abs() < gradient_floor(step) for step in gradients]
    return torch.stack(masks).any(dim=0)


def _judge_parameter(name, found, expected, gradients, drift, training):
    if any(name not in step for step in gradients):
        if name in training.written:
            beside = _largest(expected.double())
            return _judge_close("parameter", name, found, expected, beside, drift, training)
        return _equal_row("parameter", name, found, expected, "no gradient")
    difference, scale = _difference(found, expected), _largest(expected.double())
    travelled = training.learning_rates.get(name, 0.0) * training.steps
    rule = "max|p|" if scale >= travelled else "lr*steps"
    scale = max(scale, travelled)
    if training.adam:
        exempt = exempt_elements(name, gradients)
        beyond = int((difference[exempt] > training.tolerance * scale).sum())
        difference = difference[~exempt]
        if exempt.any():
            rule += f", {int(exempt.sum())}/{exempt.numel()} exempt ({beyond} beyond)"
    return _row("parameter", name, difference, expected, training.tolerance, scale, rule)


def judge_parameters(found, expected, gradients, drift, training):
    pairs, rows = _pairs("parameter", found, expected)
    return [_judge_parameter(*pair, gradients, drift, training) for pair in pairs] + rows


def _judge_state(name, found, expected, floor, training):
    """A second moment is a square: its relative error is twice the gradient's, its floor the square."""
    second = name.startswith(_SECOND_MOMENTS)
    factor, lowest = (2.0, floor**2) if second else (1.0, floor)
    size = _largest(expected.double())
    rule = ("2 " if second else "") + ("max|s|" if size > lowest else "gradient floor")
    scale = factor * max(size, lowest)
    difference = _difference(found, expected)
    return _row("state", name, difference, expected, training.tolerance, scale, rule)


def judge_states(found, expected, gradients, training):
    floor = max((gradient_floor(step) for step in gradients), default=0.0)
    pairs, rows = _pairs("state", found, expected)
    return [_judge_state(*pair, floor, training) for pair in pairs] + rows


def exempt_drift(found, expected, gradients, training):
    """The largest difference among exempt elements of parameters."""
    if not training.adam:
        return 0.0
    drift = 0.0
    for name, mine, theirs in _pairs("parameter", found, expected)[0]:
        if all(name in step for step in gradients):
            exempt = exempt_elements(name, gradients)
            drift = max(drift, _largest(_difference(mine, theirs)[exempt]))
    return drift


def _largest_of_module(name, buffers):
    """The largest magnitude in the floating-point buffers beside this one."""
    module = name.rpartition(".")[0]
    beside = [
        b
        for other, b in buffers.items()
        if other.rpartition(".")[0] == module and b.dtype.is_floating_point
    ]
    return max(_largest(b.double()) for b in beside)


def _judge_close(kind, name, found, expected, beside, drift, training):
    scale, floor = _largest(expected.double()), FLOOR * beside
    rule = f"max|{kind[0]}|" if scale >= floor else f"{FLOOR:g} largest {kind[0]}"
    scale = max(scale, floor)
    if drift:
        scale, rule = scale + drift / training.tolerance, rule + ", exempt parameters"
    return _row(kind, name, _difference(found, expected), expected, training.tolerance, scale, rule)


def judge_buffers(found, expected, drift, training):
    pairs, rows = _pairs("buffer", found, expected)
    for name, a, b in pairs:
        if not b.dtype.is_floating_point:
            rows.append(_equal_row("buffer", name, a, b, "integers"))
        else:
            beside = _largest_of_module(name, expected)
            rows.append(_judge_close("buffer", name, a, b, beside, drift, training))
    return rows


def _judge_choice(name, found, expected, values, training, exact):
    """Indices along the last dimension. Below float64 they may differ where the values are that close."""
    differs = found != expected
    count = int(differs.sum())
    if exact or not count or values is None:
        return Row(
            "choice",
            name,
            float(count),
            count / max(expected.numel(), 1),
            0.0,
            "equal indices",
            count == 0,
        )
    values = values.double()
    margin = (values.gather(-1, found) - values.gather(-1, expected)).abs()[differs]
    allowed = training.tolerance * _largest(values)
    largest = _largest(margin)
    rule = f"{count}/{expected.numel()} differ, by margin"
    return Row(
        "choice",
        name,
        largest,
        largest / max(_largest(values), 1e-300),
        allowed,
        rule,
        largest <= allowed,
    )


def judge_choices(found, expected, training, exact):
    """Expert assignments and other argmax and topk of the forward pass."""
    rows = []
    for step, (a, b) in enumerate(zip(found.choices, expected.choices, strict=True)):
        for index, (mine, theirs, values) in enumerate(
            zip(a, b, expected.margins[step], strict=True)
        ):
            rows.append(
                _judge_choice(f"{index} at step {step}", mine, theirs, values, training, exact)
            )
    return rows


def compare(found, expected, training, exact):
    """All rows; the run is right if every one passed. `exact`: choices must be equal."""
    drift = exempt_drift(found.parameters, expected.parameters, expected.gradients, training)
    return [
        *judge_losses(found.losses, expected.losses, training),
        *judge_choices(found, expected, training, exact),
        *judge_gradients(found.gradients, expected.gradients, training),
        *judge_parameters(
            found.parameters, expected.parameters, expected.gradients, drift, training
        ),
        *judge_buffers(found.buffers, expected.buffers, drift, training),
        *judge_states(found.states, expected.states, expected.gradients, training),
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
