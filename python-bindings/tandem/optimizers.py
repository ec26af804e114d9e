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

from .errors import CaptureError, StateError
from .traced_updates import IMPLEMENTATIONS, TracedUpdates, init_of, step_of, updates_alone

# Those with formulas; AdamW is a class of Adams.
_FORMULAS = {torch.optim.SGD: "SGD", torch.optim.Adam: "Adam", torch.optim.Adafactor: "Adafactor"}
_ADAM_STATE = ("exp_avg", "exp_avg_sq")
# What schedulers keep in a group for themselves.
_OF_SCHEDULERS = {"initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum", "swa_lr"}
# Hyperparameters beside the rate that schedulers change, of optimizers with formulas: constants of the step until they
# change, and then arguments of another Program.
_CYCLED = ("momentum", "betas")


@dataclass
class Group:
    """One parameter group: its hyperparameters and the indices of its parameters in the model's
    list.
    """

    index: int
    options: dict
    parameters: list[int] = field(default_factory=list)

    def numbers(self, varying):
        """{name: number} of what is an argument of the step: the rate, and the hyperparameters `varying`."""
        found = {str(self.index): float(self.options.get("lr", 0.0))}
        for name in sorted(varying & self.options.keys()):
            found |= {
                f"{self.index}.{name}.{i}": v for i, v in enumerate(_listed(self.options[name]))
            }
        return found

    def with_numbers(self, varying, tensors):
        """The hyperparameters with tensors in the place of `numbers`, from an iterator over them."""
        options = self.options | {"lr": next(tensors)}
        for name in sorted(varying & options.keys()):
            made = tuple(next(tensors) for _ in _listed(options[name]))
            options[name] = made if isinstance(options[name], (tuple, list)) else made[0]
        return options


def _listed(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


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
        hooks = (*optimizer._optimizer_step_pre_hooks, *optimizer._optimizer_step_post_hooks)
        if hooks:
            raise CaptureError(
                f"optimizer {type(optimizer).__qualname__}: found {len(hooks)} step hooks, expected none: what they do to"
                " gradients belongs into the loss or the model"
            )
        self.optimizer = optimizer
        self.parameters = parameters
        self.groups = self._read_groups()
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
                        " is not a parameter of the model"
                    )
                group.parameters.append(index_of[id(tensor)])
            groups.append(group)
        return groups

    def numbers(self, varying=frozenset()):
        """{name: number} of all groups, as the optimizer object has them now, with those `varying`."""
        found = {}
        for index, options in enumerate(self.optimizer.param_groups):
            found |= Group(index, options).numbers(self.varying | varying)
        return found

    def check_options(self, groups=None, what="optimizer"):
        """The hyperparameters that are not what they were when the step was captured, and may be arguments of it. Raises
        if another one but the learning rate has changed: it is part of the captured step. `groups` are the optimizer's
        own by default, or those of a state dict, `what`.
        """
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
        changed, options = set(), group.options
        for name in self._fixed(group):
            if _listed(now.get(name)) == _listed(options[name]):
                continue
            if self._may_vary(name, options[name], now.get(name)):
                changed.add(name)
                continue
            raise StateError(
                f"{what} parameter group {group.index}: {name} is {now.get(name)}, expected {options[name]} as"
                " captured: only the learning rate, and momentum or betas of SGD and Adam, may change between"
                " steps (schedulers that cycle others: cycle_momentum=False)"
            )
        return changed

    def _may_vary(self, name, before, now):
        """A momentum that is there stays there: without one there is no state for it."""
        numbers = [*_listed(before), *_listed(now)]
        return (
            self.kind in ("SGD", "Adam")
            and name in _CYCLED
            and len(_listed(before)) == len(_listed(now))
            and all(isinstance(number, (int, float)) and number > 0 for number in numbers)
        )

    @staticmethod
    def _fixed(group):
        """Hyperparameters that are constants of the step."""
        return group.options.keys() - IMPLEMENTATIONS - _OF_SCHEDULERS - {"lr"}

    @property
    def is_joint(self):
        """Whether parameters are updated together, as their updates may depend on one another."""
        return self.traced is not None and self.traced.is_joint

    def counts_steps(self, parameter):
        """Whether the parameter's state has a `step` in torch.optim. A parameter is an index or a name."""
        if self.traced is None:
            return self.kind != "SGD"
        return self.traced.states(*self._tensor_and_options(parameter))[1]

    def depends_on_steps(self, name):
        """Whether the update of a parameter is another one for each number of steps that the parameter has taken."""
        if self.kind == "SGD":
            options = self._tensor_and_options(name)[1]
            return bool(options["momentum"] and options["dampening"])
        return self.counts_steps(name)

    def _tensor_and_options(self, parameter):
        """Of a parameter by its index or its name."""
        if isinstance(parameter, str):
            parameter = next(i for i, (name, _) in enumerate(self.parameters) if name == parameter)
        return self.parameters[parameter][1], self.group_of[parameter].options

    def states(self, parameter, fresh=False):
        """{name: value that the state has now, before the parameter's next update, or with `fresh` before its first
        one}, in torch.optim's words; the step count is none of them.
        """
        tensor, options = self._tensor_and_options(parameter)
        if self.traced is not None:
            return self.traced.states(tensor, options, fresh)[0]
        if self.kind == "Adafactor":
            made = _adafactor_state(tensor)
        else:
            made = dict.fromkeys(self._state_names(options), fresh_state(tensor))
        held = {} if fresh else self.optimizer.state.get(tensor, {})
        return {
            name: zeros if held.get(name) is None else held[name] for name, zeros in made.items()
        }

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
        return int(state.get("step", 0))

    def start(self, parameter):
        """Of a parameter by its index."""
        return self.starts.get(self.parameters[parameter][0], 0)

    def scalars(self, options, step):
        """What the updates of a whole group share. `options` are its hyperparameters, of which those of `numbers` are
        rank-0 tensors, as is `step`, which counts from 0.
        """
        shared = {"options": options, "lr": options["lr"]}
        if self.traced is not None:
            return shared | {"count": step}
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
            value, wide = self._trace_one(*arguments)
        elif self.kind == "SGD":
            value, wide = _sgd(*arguments)
        elif self.kind == "Adafactor":
            value, wide = _adafactor(*arguments, torch.finfo(dtype).eps)
        else:
            value, wide = _adam(*arguments, is_decoupled(self.optimizer, options))
        return value.to(dtype), {
            name: tensor.to(state[name].dtype) for name, tensor in wide.items()
        }

    def _trace_one(self, value, gradient, state, options, scalars):
        groups = [(options, [0])]
        counts = {0: scalars["count"]}
        new, states = self.traced.run({0: value}, {0: state}, {0: gradient}, groups, counts)
        return new[0], states[0]

    def update_jointly(self, values, gradients, states, step, rates):
        """({parameter: new value}, {parameter: its new state}) of all parameters that the optimizer has; `gradients`
        lacks those without; `rates` are the tensors of `numbers`.
        """
        groups = [
            (group.with_numbers(self.varying, rates), [i for i in group.parameters if i in values])
            for group in self.groups
        ]
        counts = {i: step - self.start(i) for i in states}
        return self.traced.run(values, states, gradients, groups, counts)


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


def _sgd(p, g, state, options, scalars):
    """torch.optim.sgd._single_tensor_sgd."""
    momentum, dampening = options["momentum"], options["dampening"]
    if options["maximize"]:
        g = -g
    if options["weight_decay"]:
        g = g + options["weight_decay"] * p
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
    if options["weight_decay"]:
        if decoupled:
            p = p * scalars["decay"].to(p.dtype)
        else:
            g = g + options["weight_decay"] * p
    m = state["exp_avg"] + (1 - beta1) * (g - state["exp_avg"])
    v = state["exp_avg_sq"] * beta2 + (1 - beta2) * (g * g)
    new, largest = {"exp_avg": m, "exp_avg_sq": v}, v
    if options["amsgrad"]:
        largest = torch.maximum(state["max_exp_avg_sq"], v)
        new["max_exp_avg_sq"] = largest
    denominator = torch.sqrt(largest) / scalars["correction2_sqrt"].to(p.dtype) + options["eps"]
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
    if options["weight_decay"]:
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
