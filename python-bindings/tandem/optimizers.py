"""`torch.optim.SGD`, `Adam` and `AdamW` as functions: parameters, gradients and state in, new ones
out.

The formulas are those of `torch.optim` (its `_single_tensor_*` functions), with the step count and
the learning rate as tensors. Scalars that depend on them are computed once per parameter group in
float64, as `torch.optim` computes them in Python floats. For float16 and bfloat16 an update is
computed in float32 and rounded once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from .errors import CaptureError, StateError

_SUPPORTED = {torch.optim.SGD: "SGD", torch.optim.Adam: "Adam", torch.optim.AdamW: "AdamW"}
_ADAM_STATE = ("exp_avg", "exp_avg_sq")
# Hyperparameters that become constants of the step.
_FIXED = {
    "momentum", "dampening", "weight_decay", "nesterov", "maximize", "betas", "eps", "amsgrad",
    "decoupled_weight_decay",
}  # fmt: skip


@dataclass
class Group:
    """One parameter group: its hyperparameters and the indices of its parameters in the model's
    list.
    """

    index: int
    options: dict
    parameters: list[int] = field(default_factory=list)

    @property
    def learning_rate(self):
        return float(self.options["lr"])


class FunctionalOptimizer:
    """Reads an optimizer object; never changes it."""

    def __init__(self, optimizer, parameters):
        """`parameters`: list of (name, tensor), each tensor once."""
        self.kind = _SUPPORTED.get(type(optimizer))
        if self.kind is None:
            expected = ", ".join(f"torch.optim.{kind}" for kind in _SUPPORTED.values())
            raise CaptureError(
                f"optimizer {type(optimizer).__qualname__}: expected one of {expected}"
            )
        hooks = (*optimizer._optimizer_step_pre_hooks, *optimizer._optimizer_step_post_hooks)
        if hooks:
            raise CaptureError(
                f"optimizer {self.kind}: found {len(hooks)} step hooks, expected none: what they do to"
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

    def check_options(self, groups=None, what="optimizer"):
        """Raises if a hyperparameter other than the learning rate is not what it was: it is part of the
        captured step. `groups` are the optimizer's own by default, or those of a state dict, `what`.
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
        for group, now in zip(self.groups, groups, strict=True):
            for name in _FIXED & group.options.keys():
                if now.get(name) != group.options[name]:
                    raise StateError(
                        f"{what} parameter group {group.index}: {name} is {now.get(name)}, expected"
                        f" {group.options[name]} as captured: only the learning rate may change"
                        " between steps (of torch's schedulers with cycle_momentum=False)"
                    )
            if len(now.get("params", ())) != len(group.parameters):
                raise StateError(
                    f"{what} parameter group {group.index}: found {len(now.get('params', ()))} parameters,"
                    f" expected {len(group.parameters)} as captured"
                )

    def state_names(self, parameter):
        """Names of the state that an updated parameter has, in torch.optim's words."""
        options = self.group_of[parameter].options
        if self.kind == "SGD":
            return ("momentum_buffer",) if options["momentum"] else ()
        return _ADAM_STATE + (("max_exp_avg_sq",) if options["amsgrad"] else ())

    def initial_state(self, parameter, name):
        """The value that the optimizer object holds now, or None where it has not made one yet."""
        return self.optimizer.state.get(self.parameters[parameter][1], {}).get(name)

    def initial_step(self, updated):
        """The one step count of all updated parameters."""
        if self.kind == "SGD":
            return self._initial_step_of_sgd(updated)
        counts = {}
        for parameter in updated:
            state = self.optimizer.state.get(self.parameters[parameter][1], {})
            counts.setdefault(int(state.get("step", 0)), self.parameters[parameter][0])
        if len(counts) > 1:
            (a, first), (b, second) = list(counts.items())[:2]
            raise CaptureError(
                f"optimizer state: parameter {first!r} has taken {a} steps and {second!r} {b};"
                f" expected one count"
            )
        return next(iter(counts), 0)

    def _initial_step_of_sgd(self, updated):
        """SGD does not count its steps, but a momentum that is there is not the first one."""
        has = [p for p in updated if self.initial_state(p, "momentum_buffer") is not None]
        for p in updated:
            if has and p not in has and self.group_of[p].options["dampening"]:
                raise CaptureError(
                    f"optimizer state: parameter {self.parameters[has[0]][0]!r} has a momentum and"
                    f" {self.parameters[p][0]!r} none; with dampening expected all or none"
                )
        return int(bool(has))

    def scalars(self, group, step, learning_rate):
        """What the updates of a whole group share. `step` counts from 0; both are rank-0
        tensors.
        """
        if self.kind == "SGD":
            return {"lr": learning_rate, "first": step == 0}
        beta1, beta2 = (float(beta) for beta in group.options["betas"])
        count = (step + 1).to(torch.float64)
        correction1 = 1 - torch.pow(torch.full((), beta1, dtype=torch.float64), count)
        correction2 = 1 - torch.pow(torch.full((), beta2, dtype=torch.float64), count)
        return {
            "lr": learning_rate,
            "step_size": learning_rate / correction1,
            "correction2_sqrt": torch.sqrt(correction2),
            "decay": 1 - learning_rate * group.options["weight_decay"],
        }

    def update(self, parameter, value, gradient, state, scalars):
        """New value and new state of one parameter."""
        options = self.group_of[parameter].options
        dtype, compute = value.dtype, torch.promote_types(value.dtype, torch.float32)
        wide = {name: tensor.to(compute) for name, tensor in state.items()}
        arguments = (value.to(compute), gradient.to(compute), wide, options, scalars)
        if self.kind == "SGD":
            value, wide = _sgd(*arguments)
        else:
            value, wide = _adam(*arguments, is_decoupled(self.optimizer, options))
        return value.to(dtype), {
            name: tensor.to(state[name].dtype) for name, tensor in wide.items()
        }


def is_decoupled(optimizer, group):
    """Whether Adam's weight decay scales the parameter, rather than being a part of its gradient."""
    return group.get("decoupled_weight_decay", False) or isinstance(optimizer, torch.optim.AdamW)


def _sgd(p, g, state, options, scalars):
    """torch.optim.sgd._single_tensor_sgd."""
    momentum, dampening = options["momentum"], options["dampening"]
    if options["maximize"]:
        g = -g
    if options["weight_decay"]:
        g = g + options["weight_decay"] * p
    new = {}
    if momentum:
        buffer = state["momentum_buffer"] * momentum
        damped = g * (1 - dampening) if dampening else g
        if dampening:
            # The first buffer of torch.optim is the gradient itself, without dampening.
            damped = torch.where(scalars["first"], g, damped)
        buffer = buffer + damped
        new["momentum_buffer"] = buffer
        g = g + momentum * buffer if options["nesterov"] else buffer
    return p - scalars["lr"].to(p.dtype) * g, new


def _adam(p, g, state, options, scalars, decoupled):
    """torch.optim.adam._single_tensor_adam with capturable=False."""
    beta1, beta2 = (float(beta) for beta in options["betas"])
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
