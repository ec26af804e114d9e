"""A user's own optimizer as a function."""

import torch

from ..errors import TandemError


class FunctionOptimizer(torch.optim.Optimizer):
    """Updates every parameter by `update(parameter, gradient, state, **options)`, which returns the new parameter and the
    new state, a dict of tensors, and changes nothing in place. It depends on values by tensor operators alone.

    `state` says what each parameter begins with: {name: number, of which a tensor like the parameter is made, or function
    of the parameter}. `options` are those of every group of `params`, `lr` among them, which schedulers change. An
    optimizer of torch.optim like any other: `step()` trains in eager.

    def sign_descent(parameter, gradient, state, lr, decay):
        average = state["average"] * decay + gradient * (1 - decay)
        return parameter - lr * average.sign(), {"average": average}

    optimizer = tandem.FunctionOptimizer(model.parameters(), sign_descent, {"average": 0.0}, lr=0.01, decay=0.9)
    """

    # A parameter's update depends on no other one.
    updates_alone = True

    def __init__(self, params, update, state=None, *, lr, **options):
        self.update, self.initial = update, dict(state or {})
        super().__init__(params, dict(lr=lr, **options))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            options = {name: group[name] for name in self.defaults}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, options)
        return loss

    def _update(self, parameter, options):
        state = self.state[parameter]
        for name, value in self.initial.items():
            if name not in state:
                made = value(parameter) if callable(value) else torch.full_like(parameter, value)
                state[name] = made.detach()
        made = self.update(
            parameter, parameter.grad, {n: state[n] for n in self.initial}, **options
        )
        new, states = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
        if (
            not isinstance(new, torch.Tensor)
            or not isinstance(states, dict)
            or states.keys() != self.initial.keys()
        ):
            raise TandemError(
                f"{getattr(self.update, '__qualname__', self.update)}: returned {type(made).__name__}, expected the new"
                f" parameter and a dict of {', '.join(map(repr, self.initial)) or 'nothing'}"
            )
        parameter.copy_(new)
        state.update(states)
