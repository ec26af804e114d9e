"""Optimizers as functions: parameters, gradients and state in, new ones out.

`torch.optim.SGD`, `Adam`, `AdamW` and `Adafactor` by formulas, others by a trace of their own `step`
(`traced_updates.py`). The formulas are those of `torch.optim` (its `_single_tensor_*` functions), with the step count and
the learning rate as tensors. Scalars that depend on them are computed once per parameter group in
float64, as `torch.optim` computes them in Python floats. For float16 and bfloat16 an update is
computed in float32 and rounded once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch.optim import optimizer as of_all

from ..base.types import is_number
from ..errors import CaptureError, StateError
from .experiments import IMPLEMENTATIONS
from .state_dicts import OF_GROUP
from .traced_updates import TracedUpdates, init_of, step_of, updates_alone

# Those with formulas; AdamW is a class of Adams.
_FORMULAS = {torch.optim.SGD: "SGD", torch.optim.Adam: "Adam", torch.optim.Adafactor: "Adafactor"}
_ELEMENTWISE = ("SGD", "Adam")
_ADAM_STATE = ("exp_avg", "exp_avg_sq")
# What schedulers keep in a group for themselves.
_OF_SCHEDULERS = {"initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum", "swa_lr"}
# Hyperparameters that are arguments of each step, as rates are, where they are positive numbers.
_ALWAYS = frozenset({"weight_decay", "eps"})
# Those of formulas that are constants of the step until they change, and then arguments of another Program.
_CYCLED = ("momentum", "betas")


@dataclass
class Group:
    """One parameter group: its hyperparameters and the indices of its parameters in the model's
    list.
    """

    index: int
    options: dict
    parameters: list[int] = field(default_factory=list)

    def names_of_arguments(self, varying):
        """The names of the hyperparameters beside the rate that are arguments."""
        return [
            name
            for name in sorted((_ALWAYS | varying) & self.options.keys())
            if self._may(name, varying)
        ]

    def _may(self, name, varying):
        value = self.options[name]
        return (name in varying or is_number(value)) and all(map(_is_positive, _listed(value)))

    def has_rate(self):
        """A number, or a tensor of one; some optimizers do without (`lr=None`)."""
        rate = self.options.get("lr")
        return is_number(rate) or isinstance(rate, torch.Tensor)

    def numbers(self, names):
        """{name: number} of the rate and of the hyperparameters `names`."""
        found = {str(self.index): float(self.options["lr"])} if self.has_rate() else {}
        for name in names:
            values = enumerate(_listed(self.options[name]))
            found |= {f"{self.index}.{name}.{i}": value for i, value in values}
        return found

    def with_numbers(self, varying, tensors):
        """(hyperparameters, {name: tensor, or a list of them, in the place of numbers}), with tensors of `numbers`, from an
        iterator over them.
        """
        made = {"lr": next(tensors)} if self.has_rate() else {}
        for name in self.names_of_arguments(varying):
            value = self.options[name]
            own = [next(tensors) for _ in _listed(value)]
            made[name] = own if isinstance(value, (tuple, list)) else own[0]
        own = {n: tuple(v) if isinstance(v, list) else v for n, v in made.items()}
        return self.options | own, made


def _listed(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _is_positive(value):
    return is_number(value) and value > 0


def fresh_state(tensor):
    """Zeros of the tensor's shape, in the memory of one."""
    return tensor.detach().new_zeros(()).expand(tensor.shape)


def is_fresh_state(value):
    """Whether it is what `fresh_state` made."""
    is_one = value.numel() > 1 and not any(value.stride())
    return is_one and not value.is_meta and not bool(value[(0,) * value.dim()])


class FunctionalOptimizer:
    """Reads an optimizer object; never changes it."""

    def __init__(self, optimizer, parameters, varying=frozenset(), starts=None):
        """`parameters`: list of (name, tensor), each tensor once. `varying` names hyperparameters that are arguments of the
        step, as rates are. `starts` are those of `Counts`; without, they follow from the optimizer's state.
        """
        self.varying, self.starts, self.first_step = varying, starts, 0
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise CaptureError(
                f"optimizer {type(optimizer).__qualname__}: expected a torch.optim.Optimizer"
            )
        self.kind = _formula_of(type(optimizer))
        self.traced = TracedUpdates(optimizer) if self.kind is None else None
        if own_step_of(optimizer) is not None:
            raise CaptureError(
                f"optimizer {type(optimizer).__qualname__}: found a step() of this object alone, expected that of its class, or a class"
                " of your own"
            )
        hooks = _step_hooks(optimizer)
        if hooks:
            raise CaptureError(
                f"optimizer {type(optimizer).__qualname__}: found {len(hooks)} step hooks, expected none: what they do to"
                " gradients belongs into the loss or the model"
            )
        self.optimizer = optimizer
        self.parameters = parameters
        self.groups = self._read_groups()
        self._fixed = [self._names_of_fixed(group) for group in self.groups]
        self.note_shared()
        self.group_of = {p: group for group in self.groups for p in group.parameters}

    def _read_groups(self):
        index_of = {id(tensor): i for i, (_, tensor) in enumerate(self.parameters)}
        groups = []
        for g, options in enumerate(self.optimizer.param_groups):
            group = Group(g, {key: value for key, value in options.items() if key != "params"})
            for position, tensor in enumerate(options["params"]):
                if id(tensor) not in index_of:
                    raise CaptureError(
                        f"optimizer parameter group {g}: parameter {position} with shape"
                        f" {tuple(tensor.shape)}"
                        " is not a parameter of the model, expected an attribute of one of its modules, as nn.Parameter,"
                        " nn.ParameterList and nn.ModuleList are, or in a list, tuple or dict there"
                    )
                group.parameters.append(index_of[id(tensor)])
            groups.append(group)
        return groups

    def arguments(self):
        """{name: number} of all groups that the step has as arguments."""
        return {
            name: number
            for group in self.groups
            for name, number in group.numbers(group.names_of_arguments(self.varying)).items()
        }

    def numbers(self, varying=frozenset()):
        """{name: number} of all that may be arguments of a Program, as the optimizer object has it now, with those `varying`."""
        found, names = {}, sorted(_ALWAYS | self.varying | varying)
        for index, options in enumerate(self.optimizer.param_groups):
            own = [n for n in names if n in options and all(map(is_number, _listed(options[n])))]
            found |= Group(index, options).numbers(own)
        return found

    @property
    def guards(self):
        """Of hyperparameters, for which the traced step is right (`paths.hold`)."""
        return list(self.traced.guards.values()) if self.traced is not None else []

    def rated(self):
        """The indices of the groups whose rate is an argument of the step."""
        return {group.index for group in self.groups if group.has_rate()}

    def check_options(self, groups=None, what="optimizer"):
        """The hyperparameters that are not what they were when the step was captured, and may be arguments of it. Raises
        if another one but the learning rate has changed: it is part of the captured step. `groups` are the optimizer's
        own by default, or those of a state dict, `what`.
        """
        if groups is None:
            self._check_shared()
        groups = self.optimizer.param_groups if groups is None else groups
        listed = isinstance(groups, (list, tuple))
        if not listed or not all(isinstance(group, Mapping) for group in groups):
            raise StateError(f"{what}: found {groups!r:.60}, expected parameter groups as dicts")
        if len(groups) != len(self.groups):
            raise StateError(
                f"{what}: found {len(groups)} parameter groups, expected the {len(self.groups)} that"
                " the step was captured with"
            )
        changed = set()
        for group, now in zip(self.groups, groups, strict=True):
            changed |= self._check_group(group, now, what)
            if len(now.get("params", ())) != len(group.parameters):
                raise StateError(
                    f"{what} parameter group {group.index}: found {len(now.get('params', ()))} parameters,"
                    f" expected {len(group.parameters)} as captured"
                )
        return frozenset(changed)

    def _check_group(self, group, now, what):
        changed = set()
        for name, before, after in self._differing(group, now):
            if self._may_vary(name, before, after):
                changed.add(name)
            elif not self._may_be_other(group, name, before, after):
                raise StateError(
                    f"{what} parameter group {group.index}: {name} is {after}, expected {before} as captured: only numbers"
                    " may change between steps, and those on which it depends what state there is may not become 0 or"
                    " begin as 0"
                )
        return changed

    def note_shared(self):
        """What is in the groups now is what the step has of the numbers that steps change there, or what it has given."""
        self._noted = self._shared_now()

    def _shared_now(self):
        groups = range(len(self.groups)) if self.traced is not None else ()
        return [self.traced.shared(group) for group in groups]

    def _check_shared(self):
        for group, (before, now) in enumerate(zip(self._noted, self._shared_now(), strict=True)):
            for name in before:
                if now[name] != before[name]:
                    raise StateError(
                        f"optimizer parameter group {group}: {name} was set to {now[name]} after tandem.compile, and the step"
                        f" has its own, expected step.load(optimizer=optimizer) to take it over"
                    )

    def _differing(self, group, now):
        """(name, value when captured, value now) of hyperparameters beside the rate."""
        for name in self._fixed[group.index]:
            before, after = group.options[name], now.get(name)
            if after is not before and _listed(after) != _listed(before):
                yield name, before, after

    def constants(self, varying):
        """What a Program has to be made anew for, as hyperparameters that it has as constants changed: a text, or None."""
        texts = []
        for group, now in zip(self.groups, self.optimizer.param_groups, strict=True):
            for name, before, after in self._differing(group, now):
                if name in group.names_of_arguments(varying) and self._stays(before, after):
                    continue
                becomes = name in Group(group.index, now).names_of_arguments(varying)
                texts.append(f"{group.index}.{name}" + ("" if becomes else f"={after!r}"))
        return "; ".join(texts) or None

    def _stays(self, before, after):
        """Whether an argument has other values only. Formulas are right for 0 as well."""
        least = 0 if self.kind is not None else None
        return len(_listed(before)) == len(_listed(after)) and all(
            _is_positive(v) or (v == least and is_number(v)) for v in _listed(after)
        )

    def _may_vary(self, name, before, now):
        """Whether it can be an argument of the step."""
        return (
            (self.kind is None or name in _CYCLED or name in _ALWAYS)
            and len(_listed(before)) == len(_listed(now))
            and all(map(_is_positive, (*_listed(before), *_listed(now))))
        )

    def _may_be_other(self, group, name, before, now):
        """Whether another Program can have it as a constant: a number beside which there is the same state."""
        numbers = [v for v in (*_listed(before), *_listed(now)) if v is not None]
        if len(_listed(before)) != len(_listed(now)) or not all(map(is_number, numbers)):
            return False
        if not group.parameters:
            return True
        return self._names_of_states(group, group.options) == self._names_of_states(
            group, group.options | {name: now}
        )

    def _names_of_states(self, group, options):
        if self.traced is not None:
            tensor = self.parameters[group.parameters[0]][1]
            return self.traced.states(tensor, options, fresh=True).tensors.keys()
        return () if self.kind == "Adafactor" else self._state_names(options)

    def _names_of_fixed(self, group):
        """Hyperparameters that steps read and do not change."""
        shared = self.traced.found.shared[group.index] if self.traced is not None else ()
        return sorted(group.options.keys() - IMPLEMENTATIONS - _OF_SCHEDULERS - {"lr", *shared})

    @property
    def is_elementwise(self):
        """Whether updates of parameters of all shapes are the same operators."""
        return self.kind in _ELEMENTWISE

    @property
    def is_joint(self):
        """Whether parameters are updated together, as their updates may depend on one another."""
        return self.traced is not None and self.traced.is_joint

    def counts_steps(self, parameter):
        """Whether the parameter's state has a `step` in torch.optim. A parameter is an index or a name."""
        if self.traced is None:
            return self.kind != "SGD"
        return bool(self.traced.states(*self._tensor_and_options(parameter)).counts)

    def depends_on_steps(self, name):
        """Whether the update of a parameter is another one for each number of steps that the parameter has taken."""
        if self.kind == "SGD":
            options = self._tensor_and_options(name)[1]
            return bool(options["momentum"] and options["dampening"])
        return self.counts_steps(name) or self.traced is not None and self.traced.found.begins

    def _tensor_and_options(self, parameter):
        """Of a parameter by its index or its name."""
        parameter = self._index(parameter)
        return self.parameters[parameter][1], self.group_of[parameter].options

    def states(self, parameter, fresh=False):
        """{name: value that the state has now, before the parameter's next update, or with `fresh` before its first
        one}, in torch.optim's words; the step count is none of them.
        """
        tensor, options = self._tensor_and_options(parameter)
        if self.traced is not None:
            return self.traced.states(tensor, options, fresh).tensors | self._of_group(parameter)
        if self.kind == "Adafactor":
            made = _adafactor_state(tensor)
        else:
            made = dict.fromkeys(self._state_names(options), fresh_state(tensor))
        held = {} if fresh else self.optimizer.state.get(tensor, {})
        return {
            name: zeros if held.get(name) is None else held[name] for name, zeros in made.items()
        }

    def _of_group(self, parameter):
        """{name: tensor} of the numbers that steps change in a group, of which it is the first parameter."""
        group = self.group_of[self._index(parameter)]
        if group.parameters[0] != self._index(parameter):
            return {}
        return {
            OF_GROUP + name: torch.tensor(float(value), dtype=torch.float64)
            for name, value in self.traced.shared(group.index).items()
        }

    def started(self, candidates):
        """{parameter: its `states`} of those that may be updated, and of the others that stand for their group."""
        found = {i: self.states(i) for i in candidates}
        firsts = [g.parameters[0] for g in self.groups if g.parameters and self.traced is not None]
        return found | {i: own for i in firsts if i not in found and (own := self._of_group(i))}

    def shared_keys(self, group):
        """{name in the group: name of the state that it is}."""
        if self.traced is None or not group.parameters:
            return {}
        of = self.parameters[group.parameters[0]][0]
        return {name: f"{OF_GROUP}{name}.{of}" for name in self.traced.found.shared[group.index]}

    def _index(self, parameter):
        if isinstance(parameter, str):
            return next(i for i, (name, _) in enumerate(self.parameters) if name == parameter)
        return parameter

    def numbers_in(self, name):
        """The names of what Python numbers are of a parameter's state in eager."""
        if self.traced is None:
            return frozenset()
        state = self.traced.states(*self._tensor_and_options(name))
        return state.numbers | ({"step"} if state.counts == "number" else set())

    def constants_in(self, name):
        """{name: value} of what stays the same in a parameter's state from its first step on: truths, texts and None."""
        if self.traced is None:
            return {}
        return self.traced.states(*self._tensor_and_options(name)).constants

    def _state_names(self, options):
        if self.kind == "SGD":
            return ("momentum_buffer",) if options["momentum"] else ()
        return _ADAM_STATE + (("max_exp_avg_sq",) if options["amsgrad"] else ())

    def settle(self, updated):
        """Finds `first_step`, the count of the updated parameters that have taken most steps, and `starts`, how many fewer
        others have taken.
        """
        counts = {self.parameters[i][0]: self.steps_taken(i) for i in updated}
        self.first_step = max(counts.values(), default=0)
        if self.starts is None:
            fewer = {name: self.first_step - count for name, count in counts.items()}
            self.starts = {name: start for name, start in fewer.items() if start}

    def steps_taken(self, parameter):
        """Of a parameter by its index or its name, in eager. SGD does not count its steps, but a momentum that is there
        is not the first one.
        """
        state = self.optimizer.state.get(self._tensor_and_options(parameter)[0], {})
        if self.kind == "SGD":
            return int(state.get("momentum_buffer") is not None)
        counts = self.traced is None or self.traced.found.counts
        return int(state.get("step", bool(state)) if counts else bool(state))

    def start(self, parameter):
        """Of a parameter by its index."""
        return self.starts.get(self.parameters[parameter][0], 0)

    def scalars(self, hyperparameters, step):
        """What the updates of a whole group share. `hyperparameters` are what `with_numbers` gives, and `step` a rank-0 tensor,
        which counts from 0.
        """
        options, numbers = hyperparameters
        if self.traced is not None:
            return {"options": options, "numbers": numbers, "count": step}
        shared = {"options": options, "lr": options["lr"]}
        if self.kind == "SGD":
            return shared | {"first": step == 0}
        if self.kind == "Adafactor":
            return shared | _adafactor_scalars(options, step)
        return shared | _adam_scalars(options, step)

    def update(self, parameter, value, gradient, state, scalars):
        """New value and new state of one parameter."""
        options = scalars["options"]
        dtype, compute = value.dtype, torch.promote_types(value.dtype, torch.float32)
        wide = {name: _widened(tensor) for name, tensor in state.items()}
        arguments = (value.to(compute), gradient.to(compute), wide, options, scalars)
        if self.traced is not None:
            value, wide = self._trace_one(parameter, *arguments)
        elif self.kind == "SGD":
            value, wide = _sgd(*arguments)
        elif self.kind == "Adafactor":
            value, wide = _adafactor(*arguments, torch.finfo(dtype).eps)
        else:
            value, wide = _adam(*arguments, is_decoupled(self.optimizer, options))
        return value.to(dtype), {
            name: tensor.to(state[name].dtype) for name, tensor in wide.items()
        }

    def _trace_one(self, parameter, value, gradient, state, options, scalars):
        inputs = {"values": {0: value}, "gradients": {0: gradient}, "states": {0: state}}
        inputs |= {"numbers": [scalars["numbers"]], "shared": [{}], "counts": {0: scalars["count"]}}
        known = {0: self.traced.states(*self._tensor_and_options(parameter))}
        groups = [(self.group_of[parameter].index, options, [0])]
        new, states, _, checks = self.traced.run(inputs, groups, {0: 0}, known, self.numbers())
        if checks:
            raise CaptureError(f"{checks[0][1]}; expected a class without `updates_alone`")
        return new[0], states[0]

    def update_jointly(self, values, gradients, states, shared, step, rates, value_of):
        """({parameter: new value}, {parameter: its new state}, [{name: new number of a group}], checks) of all parameters that
        the optimizer has; `gradients` lacks those without; `rates` are the tensors of `numbers`, `shared` those of groups,
        `value_of` is that of TensorsAsNumbers.
        """
        made = [group.with_numbers(self.varying, rates) for group in self.groups]
        keys = [[i for i in group.parameters if i in values] for group in self.groups]
        starts = {i: self.start(i) for i in states}
        inputs = {"values": values, "gradients": gradients, "states": states, "shared": shared}
        inputs["numbers"] = [numbers for _, numbers in made]
        inputs["counts"] = {s: step - s if s else step for s in sorted({0, *starts.values()})}
        pairs = zip(made, keys, strict=True)
        groups = [(index, options, own) for index, ((options, _), own) in enumerate(pairs)]
        known = {i: self.traced.states(*self._tensor_and_options(i)) for i in states}
        return self.traced.run(inputs, groups, starts, known, self.numbers(), value_of)


def own_step_of(optimizer):
    """What was put in the place of the class's step, but for what schedulers put there to see it called; None for nothing."""
    step = vars(optimizer).get("step")
    is_of_scheduler = getattr(getattr(step, "__func__", step), "_wrapped_by_lr_sched", False)
    return None if is_of_scheduler else step


def _step_hooks(optimizer):
    """Those of users, of this optimizer or of all."""
    every = (
        optimizer._optimizer_step_pre_hooks,
        optimizer._optimizer_step_post_hooks,
        of_all._global_optimizer_pre_hooks,
        of_all._global_optimizer_post_hooks,
    )
    found = [hook for hooks in every for hook in hooks.values()]
    # PyTorch's own profiler counts steps.
    return [hook for hook in found if not str(getattr(hook, "__module__", "")).startswith("torch.")]


def _widened(tensor):
    """In float32, if it is of a smaller floating-point type."""
    if not tensor.is_floating_point():
        return tensor
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _formula_of(kind):
    """The name of the formula of an optimizer class that updates as PyTorch's own does, or None."""
    own = (name for base, name in _FORMULAS.items() if issubclass(kind, base))
    name = next(own, None)
    if name is None or not updates_alone(kind):
        return None
    base = next(base for base, other in _FORMULAS.items() if other == name)
    same = step_of(kind) is step_of(base) and init_of(kind) is init_of(base)
    return name if same else None


def is_decoupled(optimizer, group):
    """Whether Adam's weight decay scales the parameter, rather than being a part of its gradient."""
    return group.get("decoupled_weight_decay", False) or isinstance(optimizer, torch.optim.AdamW)


def _as_tensor(number):
    return torch.as_tensor(number, dtype=torch.float64)


def _is_given(number):
    """Whether a hyperparameter has to be computed with: an argument of the step may be any."""
    return isinstance(number, torch.Tensor) or bool(number)


def _beside(number, p):
    """A hyperparameter in the type of a parameter."""
    return number.to(p.dtype) if isinstance(number, torch.Tensor) else number


def _sgd(p, g, state, options, scalars):
    """torch.optim.sgd._single_tensor_sgd."""
    momentum, dampening = options["momentum"], options["dampening"]
    if options["maximize"]:
        g = -g
    if _is_given(options["weight_decay"]):
        g = g + _beside(options["weight_decay"], p) * p
    new = {}
    if "momentum_buffer" in state:
        buffer = state["momentum_buffer"] * momentum
        damped = g * (1 - dampening) if dampening else g
        if dampening:
            # The first buffer of torch.optim is the gradient itself, without dampening.
            damped = torch.where(scalars["first"], g, damped)
        buffer = buffer + damped
        new["momentum_buffer"] = buffer
        g = g + momentum * buffer if options["nesterov"] else buffer
    return p - scalars["lr"].to(p.dtype) * g, new


def _adam_scalars(options, step):
    count = (step + 1).to(torch.float64)
    correction1, correction2 = (1 - torch.pow(_as_tensor(beta), count) for beta in options["betas"])
    return {
        "step_size": options["lr"] / correction1,
        "correction2_sqrt": torch.sqrt(correction2),
        "decay": 1 - options["lr"] * options["weight_decay"],
    }


def _adam(p, g, state, options, scalars, decoupled):
    """torch.optim.adam._single_tensor_adam with capturable=False."""
    beta1, beta2 = options["betas"]
    if options["maximize"]:
        g = -g
    if _is_given(options["weight_decay"]):
        if decoupled:
            p = p * scalars["decay"].to(p.dtype)
        else:
            g = g + _beside(options["weight_decay"], p) * p
    m = state["exp_avg"] + (1 - beta1) * (g - state["exp_avg"])
    v = state["exp_avg_sq"] * beta2 + (1 - beta2) * (g * g)
    new, largest = {"exp_avg": m, "exp_avg_sq": v}, v
    if options["amsgrad"]:
        largest = torch.maximum(state["max_exp_avg_sq"], v)
        new["max_exp_avg_sq"] = largest
    denominator = torch.sqrt(largest) / scalars["correction2_sqrt"].to(p.dtype) + _beside(
        options["eps"], p
    )
    return p - scalars["step_size"].to(p.dtype) * (m / denominator), new


def _adafactor_state(p):
    if p.dim() < 2:
        return {"variance": torch.zeros_like(p)}
    rows, columns = p.new_zeros(p.shape[:-1] + (1,)), p.new_zeros(p.shape)[..., :1, :].clone()
    return {"row_var": rows, "col_var": columns}


def _adafactor_scalars(options, step):
    count = (step + 1).to(torch.float64)
    return {
        "new": torch.pow(count, options["beta2_decay"]),
        "rho": torch.minimum(options["lr"], 1 / torch.sqrt(count)),
        "decay": 1 - options["lr"] * options["weight_decay"],
    }


def _root_mean_square(x):
    return torch.sqrt((x * x).sum() / x.numel())


def _adafactor(p, g, state, options, scalars, epsilon):
    """torch.optim._adafactor._single_tensor_adafactor; `epsilon` is that of the parameter's type."""
    eps1, eps2 = options["eps"]
    eps1 = epsilon if eps1 is None else eps1
    if options["maximize"]:
        g = -g
    alpha = torch.clamp(_root_mean_square(p), min=eps2) * scalars["rho"].to(p.dtype)
    if _is_given(options["weight_decay"]):
        p = p * scalars["decay"].to(p.dtype)
    share, square = scalars["new"].to(p.dtype), g * g
    if g.dim() > 1:
        means = {"row_var": square.mean(-1, keepdim=True), "col_var": square.mean(-2, keepdim=True)}
    else:
        means = {"variance": square}
    new = {name: state[name] + share * (mean - state[name]) for name, mean in means.items()}
    if g.dim() > 1:
        rows, columns = new["row_var"], new["col_var"]
        variance = rows * columns / rows.mean(-2, keepdim=True).clamp(min=eps1)
    else:
        variance = new["variance"]
    change = g * torch.rsqrt(variance.clamp(min=eps1 * eps1))
    limit = torch.clamp(_root_mean_square(change) / options["d"], min=1.0)
    return p - (alpha / limit) * change, new
