"""Optimizers beyond SGD and Adam, against torch.optim itself."""

import copy
import subprocess
import sys

import pytest
import tandem
import torch
from comparing import eager_step, train_beside
from test_models import mse, regression, small
from test_training import HOW, train_both
from torch import nn
from torch import optim as o

TRACED = {
    "adagrad": lambda p: o.Adagrad(p, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.2),
    "rmsprop": lambda p: o.RMSprop(p, lr=0.01),
    "rmsprop-all": lambda p: o.RMSprop(
        p, lr=0.01, momentum=0.9, centered=True, weight_decay=0.1, maximize=True
    ),
    "radam": lambda p: o.RAdam(p, lr=0.01, betas=(0.5, 0.6), weight_decay=0.1),
    "radam-decoupled": lambda p: o.RAdam(
        p, lr=0.01, betas=(0.5, 0.6), weight_decay=0.1, decoupled_weight_decay=True
    ),
    "adamax": lambda p: o.Adamax(p, lr=0.01, weight_decay=0.1),
    "adadelta": lambda p: o.Adadelta(p, lr=0.5),
    "asgd": lambda p: o.ASGD(p, lr=0.1, t0=2, weight_decay=0.1),
    "rprop": lambda p: o.Rprop(p, lr=0.01),
    "adafactor": lambda p: o.Adafactor(p, lr=0.1, weight_decay=0.1),
    "adafactor-all": lambda p: o.Adafactor(p, lr=0.1, d=1.0, eps=(1e-3, 1e-2), maximize=True),
    "nadam": lambda p: o.NAdam(p, lr=0.01, weight_decay=0.1),
    "nadam-tensor-rate": lambda p: o.NAdam(
        p, lr=torch.tensor(0.01), weight_decay=0.1, foreach=True
    ),
    "adamax-all": lambda p: o.Adamax(p, lr=torch.tensor(0.01), maximize=True, betas=(0.8, 0.9)),
    "nadam-decoupled": lambda p: o.NAdam(p, lr=0.01, weight_decay=0.1, decoupled_weight_decay=True),
}


@pytest.fixture(autouse=True)
def scalars_in_float64():
    """PyTorch keeps counts and products of rates in its default type: in float32 they are what is inexact."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def states_are_equal(step, eager):
    found, expected = step.optimizer_state_dict(), eager.state_dict()
    assert found["state"].keys() == expected["state"].keys()
    for index, state in expected["state"].items():
        assert found["state"][index].keys() == {k for k, v in state.items() if v is not None}
        for key, value in state.items():
            own = torch.as_tensor(found["state"][index][key])
            torch.testing.assert_close(own, torch.as_tensor(value), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", TRACED)
def test_updates(name, how):
    model = small(nn.Tanh())
    optimizer = TRACED[name](model.parameters())
    step, eager = train_both(model, mse, optimizer, regression(6), **HOW[how])
    states_are_equal(step, eager)


@pytest.mark.parametrize("name", ["rmsprop-all", "adagrad", "nadam", "adafactor", "rprop"])
def test_an_optimizer_that_has_stepped(name):
    model = small(nn.Tanh())
    optimizer = TRACED[name](model.parameters())
    for batch in regression(3):
        eager_step(model, mse, optimizer, batch)
    step, eager = train_both(model, mse, optimizer, regression(3), **HOW["zero"])
    states_are_equal(step, eager)
    state, of_optimizer = step.state_dict(), step.optimizer_state_dict()
    batch = regression(1)[0]
    step(batch)
    expected = step.state_dict()
    step.load_state_dict(state, of_optimizer)
    step(batch)
    for key, value in step.state_dict().items():
        assert torch.equal(value, expected[key]), key


def test_a_flag_for_gpus_is_no_other_update():
    """PyTorch asserts that capturable parameters are on a GPU; the update is the same."""
    model = small(nn.Tanh())
    twin, batches = copy.deepcopy(model), regression(3)
    step = tandem.compile(model, mse, o.Rprop(model.parameters(), capturable=True), batches[0])
    optimizer = o.Rprop(twin.parameters())
    train_beside(step, twin, mse, optimizer, batches)
    states_are_equal(step, optimizer)


def test_a_rate_that_changes_before_the_first_step():
    """Rprop begins with the rate of its first step."""
    model = small(nn.Tanh())
    twin, batches = copy.deepcopy(model), regression(3)
    own, optimizer = o.Rprop(model.parameters(), lr=0.1), o.Rprop(twin.parameters(), lr=0.01)
    step = tandem.compile(model, mse, own, batches[0])
    own.param_groups[0]["lr"] = 0.01
    train_beside(step, twin, mse, optimizer, batches)
    states_are_equal(step, optimizer)


def test_groups_of_equal_shapes_have_their_own_updates():
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)))
    first, second, third = (list(layer.parameters()) for layer in model)
    groups = [{"params": first}, {"params": second + third, "alpha": 0.5, "weight_decay": 0.1}]
    batches = [tuple(torch.randn(2, 8, 4)) for _ in range(3)]
    step, eager = train_both(model, mse, o.RMSprop(groups, lr=0.01, weight_decay=0.3), batches)
    states_are_equal(step, eager)


def test_scalars_that_pytorch_keeps_in_float32():
    """NAdam's product of momenta is rounded to float32 at each step, by another way than PyTorch's: 1e-6."""
    torch.set_default_dtype(torch.float32)
    model = small(nn.Tanh())
    twin, batches = copy.deepcopy(model), regression(6)
    step = tandem.compile(model, mse, o.NAdam(model.parameters(), lr=0.01), batches[0])
    optimizer = o.NAdam(twin.parameters(), lr=0.01)
    train_beside(step, twin, mse, optimizer, batches, rtol=1e-6, atol=1e-8)


class OwnAdamW(o.AdamW):
    """A formula holds for a class that changes none of it."""


class OwnRMSprop(o.RMSprop):
    pass


class Lion(o.Optimizer):
    """As people write them: in place, with a count in Python, through `.data`."""

    def __init__(self, params, lr=0.01, betas=(0.9, 0.99), weight_decay=0.1):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["average"] = torch.zeros_like(p.data)
                state["step"] += 1
                average = state["average"]
                p.data.mul_(1 - group["lr"] * group["weight_decay"])
                update = (average * b1 + p.grad.data * (1 - b1)).sign_()
                p.data.add_(update, alpha=-group["lr"] / state["step"])
                average.mul_(b2).add_(p.grad.data, alpha=1 - b2)


class Clamped(o.AdamW):
    """A step of PyTorch's with something behind it."""

    @torch.no_grad()
    def step(self, closure=None):
        super().step()
        for group in self.param_groups:
            for p in group["params"]:
                p.clamp_(-0.2, 0.2)


class Normalized(o.Optimizer):
    """By the norm of all gradients: no parameter is updated alone."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self, closure=None):
        own = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        norm = torch.stack([p.grad.norm() for p in own]).norm()
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(group["lr"] * p.grad / norm)


class Halved(o.Optimizer):
    """Writes to the gradients, as rows."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.grad.view(-1).mul_(0.5).add_(p.view(-1), alpha=0.1)
                p.sub_(group["lr"] * p.grad)


class Shared(nn.Module):
    """Two parameters with one gradient, and one whose gradient is a number of all its elements."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Parameter(torch.randn(6, 6)), nn.Parameter(torch.randn(6, 6))
        self.sum = nn.Parameter(torch.randn(3, 2))

    def forward(self, x):
        return (x @ (self.one + self.other)).sum(-1, keepdim=True) + self.sum.sum()


def heavy_ball(parameter, gradient, state, lr, momentum):
    speed = state["speed"] * momentum + gradient
    count = state["count"] + 1
    return parameter - lr / count * speed, {"speed": speed, "count": count}


def function_optimizer(params):
    state = {"speed": 0.0, "count": lambda p: torch.zeros(())}
    return tandem.FunctionOptimizer(params, heavy_ball, state, lr=0.1, momentum=0.9)


OWN = {
    "subclass with a formula": lambda p: OwnAdamW(p, lr=0.01),
    "subclass": lambda p: OwnRMSprop(p, lr=0.01),
    "class": Lion,
    "more than a formula": lambda p: Clamped(p, lr=0.05),
    "joint": Normalized,
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", OWN)
def test_classes_of_the_user(name, how):
    model = small(nn.Tanh(), nn.Linear(8, 8), nn.Tanh())
    groups = [{"params": layer.parameters()} for layer in (model[0], model[2], model[4])]
    step, eager = train_both(model, mse, OWN[name](groups), regression(4), **HOW[how])
    if name != "class":  # whose count is no tensor
        states_are_equal(step, eager)


@pytest.mark.parametrize("clip", [{}, {"clip_grad_value": 0.01}])
def test_gradients_are_written_to_as_eager_holds_them(clip):
    model = Shared().double()
    twin, batches = copy.deepcopy(model), regression(3)
    step = tandem.compile(model, mse, Halved(model.parameters()), batches[0], **clip)
    optimizer = Halved(twin.parameters())
    for batch in batches:
        step(batch)
        optimizer.zero_grad()
        mse(twin, batch).backward()
        for limit in clip.values():
            nn.utils.clip_grad_value_(twin.parameters(), limit)
        optimizer.step()
    for name, value in twin.state_dict().items():
        torch.testing.assert_close(step.state_dict()[name], value, rtol=1e-9, atol=1e-12)


class Wrapping(o.Optimizer):
    def __init__(self, params, kept):
        super().__init__(params, {})
        self.inner = kept(o.SGD(self.param_groups, lr=0.1))

    def step(self, closure=None):
        inner = self.inner["it"] if isinstance(self.inner, dict) else self.inner
        (inner[0] if isinstance(inner, list) else inner).step()


@pytest.mark.parametrize("kept", [lambda o: o, lambda o: [o], lambda o: {"it": o}])
def test_an_optimizer_in_an_optimizer(kept):
    model = small(nn.Tanh())
    with pytest.raises(
        tandem.CaptureError,
        match="^optimizer Wrapping: holds an optimizer SGD in 'inner', whose step would find no gradients, expected",
    ):
        tandem.export(model, mse, Wrapping(model.parameters(), kept), regression(1)[0])


@pytest.mark.parametrize("how", HOW)
def test_a_function_of_the_user(how):
    model = small(nn.Tanh())
    twin, batches = copy.deepcopy(model), regression(4)
    step = tandem.compile(
        model, mse, function_optimizer(model.parameters()), batches[0], **HOW[how]
    )
    optimizer = function_optimizer(twin.parameters())
    for batch in batches:
        train_beside(step, twin, mse, optimizer, [batch])
    states_are_equal(step, optimizer)


class Unlisted(Lion):
    def step(self, closure=None):
        self.state["all"]["x"] = torch.zeros(2)


class Counting(Lion):
    """Its number of steps is the optimizer's, and would stay what it was in the capture."""

    def step(self, closure=None):
        self.steps = getattr(self, "steps", 0) + 1
        for p in self.param_groups[0]["params"]:
            p.sub_(p.grad / self.steps)


class OfItsOwn(Lion):
    """Momenta in a dict of its own."""

    def __init__(self, parameters):
        super().__init__(parameters)
        self.momenta = {}

    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            momentum = self.momenta.setdefault(id(p), torch.zeros_like(p))
            p.sub_(momentum.mul_(0.9).add_(p.grad))


class Decaying(Lion):
    def step(self, closure=None):
        for group in self.param_groups:
            group["lr"] *= 0.9
            for p in group["params"]:
                p.sub_(group["lr"] * p.grad)


class Calling(Lion):
    def step(self, closure):
        closure()


@pytest.mark.parametrize(
    "kind, words",
    [
        (Counting, "optimizer Counting: its step changes 'steps' of the optimizer, expected it to"),
        (OfItsOwn, "optimizer OfItsOwn: its step changes 'momenta' of the optimizer, expected"),
        (Decaying, "optimizer Decaying: its step changes 'lr' of its parameter group, expected"),
        (Calling, "^optimizer Calling: its step fails: .* without an argument"),
        (Unlisted, "optimizer Unlisted: has a state that belongs to no parameter"),
        (o.LBFGS, "optimizer LBFGS: expected one that updates parameters by their dense"),
        (o.SparseAdam, "optimizer SparseAdam: expected one"),
    ],
)
def test_what_is_no_update_of_parameters_alone(kind, words):
    model = small(nn.Tanh())
    optimizer = kind(model.parameters())
    before = repr(vars(optimizer))
    with pytest.raises(tandem.CaptureError, match=words):
        tandem.export(model, mse, optimizer, regression(1)[0])
    assert repr(vars(optimizer)) == before


def test_a_function_that_returns_something_else():
    model = small(nn.Tanh())
    optimizer = tandem.FunctionOptimizer(model.parameters(), lambda p, g, s, lr: p - lr * g, lr=0.1)
    with pytest.raises(tandem.TandemError, match="returned Tensor, expected the new parameter and"):
        tandem.compile(model, mse, optimizer, regression(1)[0])


S = o.lr_scheduler
SCHEDULERS = {
    "LambdaLR": lambda p: S.LambdaLR(p, lambda n: 0.5**n),
    "MultiplicativeLR": lambda p: S.MultiplicativeLR(p, lambda n: 0.9),
    "StepLR": lambda p: S.StepLR(p, 2),
    "MultiStepLR": lambda p: S.MultiStepLR(p, [1, 3]),
    "ConstantLR": lambda p: S.ConstantLR(p, total_iters=2),
    "LinearLR": lambda p: S.LinearLR(p, total_iters=3),
    "ExponentialLR": lambda p: S.ExponentialLR(p, 0.7),
    "PolynomialLR": lambda p: S.PolynomialLR(p, total_iters=3),
    "CosineAnnealingLR": lambda p: S.CosineAnnealingLR(p, 4),
    "CosineAnnealingWarmRestarts": lambda p: S.CosineAnnealingWarmRestarts(p, 2),
    "CyclicLR": lambda p: S.CyclicLR(p, 0.01, 0.1, step_size_up=2),
    "OneCycleLR": lambda p: S.OneCycleLR(p, 0.1, total_steps=8),
    "SequentialLR": lambda p: S.SequentialLR(p, [S.LinearLR(p), S.ExponentialLR(p, 0.5)], [2]),
    "ChainedScheduler": lambda p: S.ChainedScheduler([S.LinearLR(p), S.ExponentialLR(p, 0.5)]),
    "ReduceLROnPlateau": lambda p: S.ReduceLROnPlateau(p, patience=0, mode="max"),
    "SWALR": lambda p: o.swa_utils.SWALR(p, 0.01, anneal_epochs=2),
}


def test_all_schedulers_are_tested():
    assert set(S.__all__) - {"LRScheduler"} | {"SWALR"} == set(SCHEDULERS)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("first", [True, False], ids=["before compile", "behind compile"])
@pytest.mark.parametrize("kind", [o.SGD, o.AdamW])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers(name, kind, first):
    """Behind the step, as behind `optimizer.step()`: no warning, and the momenta that a cycle changes."""
    if not first and name not in ("OneCycleLR", "CyclicLR", "StepLR"):
        return  # where a scheduler is made matters to those that change other numbers than rates
    options = dict(lr=0.1) | (dict(momentum=0.9) if kind is o.SGD else {})
    model = small(nn.Tanh())
    twin, batches = copy.deepcopy(model), regression(6)
    optimizer, eager = kind(model.parameters(), **options), kind(twin.parameters(), **options)
    scheduler = SCHEDULERS[name](optimizer) if first else None
    step = tandem.compile(model, mse, optimizer, batches[0], **HOW["zero"])
    scheduler, theirs = scheduler or SCHEDULERS[name](optimizer), SCHEDULERS[name](eager)
    for batch in batches:
        found, expected = step(batch), eager_step(twin, mse, eager, batch)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=0)
        for each in (scheduler, theirs):
            each.step(*([expected.item()] if name == "ReduceLROnPlateau" else []))
    for key, value in twin.state_dict().items():
        torch.testing.assert_close(step.state_dict()[key], value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("first", [True, False], ids=["before compile", "behind compile"])
@pytest.mark.parametrize("kind", [o.RMSprop, o.NAdam])
def test_cycles_of_optimizers_without_a_formula(kind, first):
    """Each momentum or pair of betas is that of the step, and the first change compiles the step once more."""
    options = dict(lr=0.1) | ({"momentum": 0.9} if kind is o.RMSprop else {})
    model = small(nn.Tanh())
    twin, batches = copy.deepcopy(model), regression(4)
    optimizer, eager = kind(model.parameters(), **options), kind(twin.parameters(), **options)
    cycle = lambda p: S.OneCycleLR(p, 0.1, total_steps=6)  # noqa: E731
    scheduler = cycle(optimizer) if first else None
    step = tandem.compile(model, mse, optimizer, batches[0])
    scheduler, theirs = scheduler or cycle(optimizer), cycle(eager)
    for batch in batches:
        train_beside(step, twin, mse, eager, [batch])
        scheduler.step()
        theirs.step()
    assert len(step._programs.sessions) == 1 + (not first)


def test_formulas_are_known_when_dynamo_is_loaded():
    """Which wraps methods of every class of torch.optim by itself."""
    code = """
import torch, torch._dynamo.eval_frame, tandem.optimizers.optimizers as own
torch._dynamo.eval_frame.TorchPatcher.patch()
kinds = torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD, torch.optim.Adafactor
print([own._formula_of(kind) for kind in kinds], own._formula_of(torch.optim.RAdam))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['Adam', 'Adam', 'SGD', 'Adafactor'] None\n"
