"""Optimizers as people and libraries write them: numbers in Python that change, state in groups, looks at values."""

import copy
import math

import pytest
import tandem
import torch
from comparing import eager_step, train_beside
from test_models import mse, regression, small
from test_training import HOW
from torch import nn
from torch import optim as o


@pytest.fixture(autouse=True)
def scalars_in_float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


class Own(o.Optimizer):
    defaults_of = {}

    def __init__(self, parameters, **options):
        super().__init__(parameters, self.defaults_of | options)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            self.begin(group)
            for p in group["params"]:
                if p.grad is not None:
                    self.update(p, p.grad, self.state[p], group)

    def begin(self, group):
        pass


class Anchored(Own):
    """Its state is made once, of what the parameter was, and then only read."""

    defaults_of = dict(lr=0.05, pull=0.1)

    def update(self, p, g, state, group):
        if "p0" not in state:
            state["p0"] = p.clone()
        p.add_(g + group["pull"] * (p - state["p0"]), alpha=-group["lr"])


class Filled(Own):
    """Only read as well, and the same for all values."""

    defaults_of = dict(lr=0.05)

    def update(self, p, g, state, group):
        if not state:
            state["scale"] = torch.full_like(p, 0.5)
        p.sub_(group["lr"] * g * state["scale"])


class Scaled(Own):
    """A number that becomes a tensor, beside a number that counts by another name and one that stays nothing."""

    defaults_of = dict(lr=0.05)

    def update(self, p, g, state, group):
        if not state:
            state["rms"], state["t"], state["mask"] = 0.0, 1, None
        p.add_(g * (1 + state["rms"]) / state["t"], alpha=-group["lr"])
        state["rms"] = p.norm(2) / p.numel() ** 0.5
        state["t"] += 2


class Dampened(Own):
    """The first momentum is the gradient itself, as `torch.optim.SGD` has it."""

    defaults_of = dict(lr=0.05, momentum=0.9, dampening=0.4)

    def update(self, p, g, state, group):
        if "buffer" not in state:
            buffer = state["buffer"] = g.clone()
        else:
            buffer = state["buffer"].mul_(group["momentum"])
            buffer.add_(g, alpha=1 - group["dampening"])
        p.add_(buffer, alpha=-group["lr"])


class Free(Own):
    """Like schedulefree: a warmup by a count, an average by weights, all in the group."""

    defaults_of = dict(
        lr=0.05, beta=0.9, k=0, warmup=3, weight_sum=0.0, lr_max=-1.0, weight_decay=0.1
    )

    def begin(self, group):
        k = group["k"]
        sched = (k + 1) / group["warmup"] if k < group["warmup"] else 1.0
        group["scheduled"] = self.rate = group["lr"] * sched
        group["lr_max"] = max(self.rate, group["lr_max"])
        weight = (k + 1) ** 0.5 * group["lr_max"] ** 2
        group["weight_sum"] += weight
        try:
            self.share = weight / group["weight_sum"]
        except ZeroDivisionError:
            self.share = 0
        group["k"] = k + 1

    @torch.no_grad()
    def step(self, closure=None):
        super().step()
        del self.rate, self.share

    def update(self, p, g, state, group):
        if "z" not in state:
            state["z"] = torch.clone(p, memory_format=torch.preserve_format)
        if group["weight_decay"] != 0:
            g.add_(p, alpha=group["weight_decay"])
        p.lerp_(end=state["z"], weight=self.share)
        torch._foreach_add_([p], [g], alpha=self.rate * (group["beta"] * (1 - self.share) - 1))
        state["z"].sub_(g, alpha=self.rate)


class Estimating(o.Optimizer):
    """Like Prodigy: an estimate of the distance from sums over all parameters, by `item()`, in the group."""

    def __init__(self, parameters, lr=1.0, d0=1e-2):
        super().__init__(parameters, dict(lr=lr, d=d0, d0=d0, d_max=d0, top=0.0, k=0))

    def step(self, closure=None):
        group = self.param_groups[0]
        d, below, lr = group["d"], 0.0, max(g["lr"] for g in self.param_groups)
        rate, top = d * lr / math.sqrt(group["k"] + 1), group["top"] * 0.9
        for group in self.param_groups:
            if group["lr"] not in [lr, 0.0]:
                raise RuntimeError("rates differ")
            for p in group["params"]:
                state, grad = self.state[p], p.grad.data
                if "step" not in state:
                    state["step"], state["s"] = 0, torch.zeros_like(p.data)
                    state["p0"] = p.detach().clone() if p.any() else torch.tensor(0, dtype=p.dtype)
                if group["lr"] > 0.0:
                    away = (state["p0"] - p.data).flatten()
                    top += (d / group["d0"]) * rate * torch.dot(grad.flatten(), away).item()
                    state["s"].mul_(0.9).add_(grad, alpha=d / group["d0"] * rate)
                    below += state["s"].abs().sum().item()
        if below == 0:
            return
        if d == group["d0"]:
            d = max(d, top / below)
        d_max = max(group["d_max"], top / below)
        for group in self.param_groups:
            group["top"], group["d"], group["d_max"] = top, min(d_max, d * 1.5), d_max
            group["found"] = top / below
            for p in group["params"]:
                self.state[p]["step"] += 1
                p.data.add_(p.grad.data, alpha=-rate)
            group["k"] += 1


class Factored(Own):
    """Like Adafactor: no rate, but one of the count; `min` and `max` of numbers and values."""

    defaults_of = dict(lr=None, eps=(1e-30, 1e-3), weight_decay=0.01)

    def update(self, p, g, state, group):
        if len(state) == 0:
            state["step"], state["square"], state["RMS"] = 0, torch.zeros_like(g), 0
        state["step"] += 1
        state["RMS"] = p.norm(2) / p.numel() ** 0.5
        rate = min(1e-2, 1.0 / math.sqrt(state["step"])) * max(group["eps"][1], state["RMS"])
        decay = 1.0 - math.pow(state["step"], -0.8)
        state["square"].mul_(decay).add_(g**2 + group["eps"][0], alpha=1.0 - decay)
        update = state["square"].rsqrt().mul_(g)
        p.add_(p, alpha=-group["weight_decay"] * rate)
        p.add_(-update.mul_(rate))


class Looking(Own):
    """Goes another way for each parameter."""

    defaults_of = dict(lr=0.1)

    def update(self, p, g, state, group):
        if g.abs().max() > 0.2:
            g.clamp_(-0.2, 0.2)
        p.sub_(group["lr"] * g)


class Dividing(Own):
    defaults_of = dict(lr=0.1)

    def update(self, p, g, state, group):
        p.sub_(group["lr"] * g * (1 / g.norm().item()))


class Begun(Own):
    """Its state begins as nothing; what it does depends on what the rate is in Python."""

    defaults_of = dict(lr=0.05)

    def update(self, p, g, state, group):
        if not state:
            state["m"] = None
        state["m"] = g.clone() if state["m"] is None else state["m"] * 0.9 + g
        p.sub_(state["m"] * (2 * group["lr"] if isinstance(group["lr"], float) else 0.0))


class Gathering(Own):
    """Two gradients for each update, clipped and scaled by functions of lists; a truth that its first step leaves."""

    defaults_of = dict(lr=0.05)

    def begin(self, group):
        gradients = [p.grad for p in group["params"]]
        nn.utils.clip_grad_norm_(group["params"], 0.3)
        torch._foreach_mul_(gradients, 1.5)
        torch._foreach_add_(group["params"], torch._foreach_sign(gradients), alpha=-1e-3)

    def update(self, p, g, state, group):
        count = state["count"] = state.get("count", 0) + 1
        if "sum" not in state:
            state["sum"], state["begun"] = torch.zeros_like(p), True
        state["sum"].add_(g)
        if count % 2 == 0:
            p.add_(state["sum"], alpha=-group["lr"])
            state["sum"].zero_()


class Switching(Own):
    defaults_of = dict(lr=0.05)

    def update(self, p, g, state, group):
        state["even"] = not state.get("even", True)
        p.sub_(group["lr"] * g * (2 if state["even"] else 1))


KINDS = [Begun, Anchored, Filled, Scaled, Dampened, Free, Estimating, Factored, Looking, Dividing]


def value_of(x):
    return torch.as_tensor(x, dtype=torch.float64)


def check_optimizer(found, eager):
    """A state dict of a step and an optimizer: states and groups are equal, and of the same types."""
    expected = eager.state_dict()
    expected["state"] = {index: state for index, state in expected["state"].items() if state}
    assert found["state"].keys() == expected["state"].keys()
    for index, state in expected["state"].items():
        assert found["state"][index].keys() == state.keys()
    trees = [
        (*found["state"].values(), *found["param_groups"]),
        (*expected["state"].values(), *expected["param_groups"]),
    ]
    for own, theirs in zip(*trees, strict=True):
        for key, value in theirs.items():
            if isinstance(value, (int, float, torch.Tensor)) and not isinstance(value, bool):
                assert isinstance(own[key], torch.Tensor) == isinstance(value, torch.Tensor), key
                assert value_of(own[key]).allclose(value_of(value), rtol=1e-9, atol=1e-12), key


def train(step, twin, optimizer, batches, rates=None):
    for number, batch in enumerate(batches):
        if rates is not None:
            for group in (
                *step._state.optimizer_dict.optimizer.param_groups,
                *optimizer.param_groups,
            ):
                group["lr"] = rates[number]
        train_beside(step, twin, mse, optimizer, [batch])
    check_optimizer(step.optimizer_state_dict(), optimizer)


def tiny():
    """Two parameters, one of which is zero."""
    model = nn.Linear(6, 1)
    with torch.no_grad():
        model.bias.zero_()
    return model


def pair(kind, how="one", parameters=lambda m: m.parameters(), make=tiny, **options):
    """A step and an eager twin of one model."""
    model = make()
    twin = copy.deepcopy(model)
    eager = kind(parameters(twin), **options)
    own = kind(parameters(model), **options)
    return tandem.compile(model, mse, own, regression(1)[0], **HOW[how]), twin, eager


@pytest.mark.parametrize("kind", KINDS)
def test_trains_as_eager(kind):
    step, twin, eager = pair(kind, "zero", make=lambda: small(nn.Tanh()))
    train(step, twin, eager, regression(5))


def test_sums_that_begin_anew():
    """In the place of the old sum, which the update reads; eager goes on from the state."""
    step, twin, eager = pair(Gathering)
    train(step, twin, eager, regression(4))
    state = step.optimizer_state_dict()
    assert [own["begun"] for own in state["state"].values()] == [True, True]
    step.load_state_dict(step.state_dict(), state)
    train(step, twin, eager, regression(6)[4:])


@pytest.mark.parametrize("kind", [Free, Estimating])
def test_a_rate_that_begins_and_ends_as_zero(kind):
    """Branches on the rate, and a division by zero that is caught."""
    step, twin, eager = pair(kind)
    train(step, twin, eager, regression(5), rates=[0.0, 0.0, 0.5, 0.1, 0.0])


@pytest.mark.parametrize("kind", [Estimating, Free, Dampened])
def test_goes_on_from_where_an_optimizer_is(kind):
    """What is in the groups begins where it is, and goes back to a torch optimizer, from which eager goes on."""
    model = nn.Linear(6, 1)
    own, batches = kind(model.parameters()), regression(6)
    for batch in batches[:2]:
        eager_step(model, mse, own, batch)
    twin = copy.deepcopy(model)
    eager = kind(twin.parameters())
    eager.load_state_dict(copy.deepcopy(own.state_dict()))
    step = tandem.compile(model, mse, own, batches[0])
    train(step, twin, eager, batches[2:4])
    step.sync_to(model, own)
    check_optimizer(own.state_dict(), eager)
    train(step, twin, eager, batches[4:5])
    step.load_state_dict(twin.state_dict(), eager.state_dict())
    train(step, twin, eager, batches[5:])


def test_a_checkpoint_has_numbers_of_groups(tmp_path):
    """Of which one that is set by hand afterwards is an error."""
    step, twin, eager = pair(Estimating)
    train(step, twin, eager, regression(2))
    step.save(tmp_path)
    other, *_ = pair(Estimating, "zero")
    other.load(tmp_path)
    train(other, twin, eager, regression(4)[2:])
    step._state.optimizer_dict.optimizer.param_groups[0]["d"] = 0.5
    with pytest.raises(
        tandem.StateError, match=r"parameter group 0: d was set to 0\.5 after .*step\.load"
    ):
        step(regression(1)[0])


def test_float32_keeps_the_types_of_states():
    torch.set_default_dtype(torch.float32)
    model = tiny().float()
    batch = tuple(t.float() for t in regression(1)[0])
    step = tandem.compile(model, mse, Scaled(model.parameters()), batch)
    step(batch)
    state = step.optimizer_state_dict()["state"][0]
    assert (state["rms"].dtype, state["t"]) == (torch.float32, 3)


def test_what_eager_raises_refuses_the_step():
    """Rates that differ raise in the step's own words; a gradient of zeros divides by zero."""
    groups = lambda m: [{"params": [m.weight]}, {"params": [m.bias]}]  # noqa: E731
    step, twin, eager = pair(Estimating, parameters=groups)
    train(step, twin, eager, regression(2))
    before = step.state_dict()
    step._state.optimizer_dict.optimizer.param_groups[1]["lr"] = 0.3
    with pytest.raises(tandem.CaptureError, match="its step fails: RuntimeError: rates differ"):
        step(regression(1)[0])
    assert all(torch.equal(v, before[k]) for k, v in step.state_dict().items())
    step, twin, eager = pair(Dividing)
    values = {k: v * (k.endswith("weight")) for k, v in step.state_dict().items()}
    step.load_state_dict(values)
    batch = tuple(torch.zeros_like(t) for t in regression(1)[0])
    with pytest.raises(
        tandem.StepRefusedError, match=r"test_own_optimizers\.py:\d+: .*ZeroDivisionE"
    ):
        step(batch)


class Without(Own):
    defaults_of = dict(lr=None)

    def update(self, p, g, state, group):
        p.add_(g, alpha=-group["lr"])  # here


class Growing(Own):
    defaults_of = dict(lr=0.1)

    def update(self, p, g, state, group):
        state["all"] = torch.cat([state.get("all", g.flatten()[:1]), g.flatten()[:1]])


class Converting(Own):
    defaults_of = dict(lr=0.1, k=0)

    def update(self, p, g, state, group):
        group["k"] += 1
        p.sub_(g / float(group["k"]))  # here


class Often(Own):
    defaults_of = dict(lr=0.1)

    def update(self, p, g, state, group):
        for limit in range(20):
            if g.abs().max() > limit:
                p.sub_(group["lr"] * g)


@pytest.mark.parametrize(
    "kind, words",
    [
        (
            Without,
            r"^\S*test_own_optimizers\.py:\d+: optimizer Without: its step fails: TypeError: bad operand",
        ),
        (
            Switching,
            r"^optimizer Switching: state 'even' is \w+ and then another value, expected a",
        ),
        (
            Growing,
            r"optimizer Growing: state 'all' is a tensor of float64\[3\] behind one step and .*\[4\] behind",
        ),
        (
            Converting,
            r"^\S*test_own_optimizers\.py:\d+: float\(\) needs a number that each step has anew",
        ),
        (
            Often,
            r"^\S*test_own_optimizers\.py:\d+: optimizer Often: its step looks at values in more than 64 ways",
        ),
    ],
)
def test_what_cannot_be_followed(kind, words):
    model = small(nn.Tanh())
    with pytest.raises(tandem.CaptureError, match=words) as caught:
        tandem.export(model, mse, kind(model.parameters()), regression(1)[0])
    assert "\n" not in str(caught.value)


class Trusting(Own):
    """LAMB as it is often written: a look at the norms of each parameter, and without one."""

    defaults_of = dict(lr=0.05, looks=True)

    def update(self, p, g, state, group):
        move = g + 0.01 * p
        weight, size = p.norm(), move.norm()
        if group["looks"]:
            trust = weight / size if weight > 0 and size > 0 else 1.0
        else:
            trust = torch.where((weight > 0) & (size > 0), weight / size, 1.0)
        p.add_(move * trust * -group["lr"])


def deep():
    """A bias begins as zeros, for which the trust is another one."""
    torch.manual_seed(4)
    model = nn.Sequential(small(nn.Tanh()), *(nn.Linear(1, 1) for _ in range(4)))
    nn.init.zeros_(model[1].bias)
    return model


def test_what_to_write_in_place_of_a_look_at_each_parameter():
    data = regression(3)
    model = deep()
    optimizer = Trusting(model.parameters(), looks=False)
    step = tandem.compile(model, mse, optimizer, data[0])
    twin = copy.deepcopy(model)
    own = Trusting(twin.parameters(), looks=True)
    for batch in data:
        step(batch)
        eager_step(twin, mse, own, batch)
    for name, value in twin.state_dict().items():
        torch.testing.assert_close(step.state_dict()[name], value, rtol=1e-11, atol=1e-13)


# Hyperparameters by schedule: (class, options, {name: values of five steps}, Programs beside the first).
SCHEDULED = {
    "adamw": (o.AdamW, dict(lr=0.1), dict(weight_decay=[0.1, 0.2, 0.3, 0.0, 0.1], eps=[1e-8, 1e-3, 1e-2, 0.1, 1e-8]), 0),
    "adam": (o.Adam, dict(lr=0.1, weight_decay=0.3), dict(weight_decay=[0.1, 0.2, 0.0, 0.3, 0.1]), 0),
    "adam from zero": (o.Adam, dict(lr=0.1), dict(weight_decay=[0.0, 0.0, 0.1, 0.2, 0.3]), 1),
    "adam betas": (o.Adam, dict(lr=0.1), dict(betas=[(0.9, 0.999), (0.8, 0.9), (0.7, 0.99), (0.9, 0.9), (0.5, 0.9)]), 1),
    "sgd": (o.SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.1), dict(weight_decay=[0.1, 0.2, 0.3, 0.4, 0.1]), 0),
    "adafactor": (o.Adafactor, dict(lr=0.1, weight_decay=0.1), dict(weight_decay=[0.1, 0.2, 0.3, 0.4, 0.1]), 0),
    "adafactor d": (o.Adafactor, dict(lr=0.1), dict(d=[1.0, 1.0, 0.5, 0.5, 0.5]), 1),
    "rmsprop": (o.RMSprop, dict(lr=0.1, weight_decay=0.1, momentum=0.5), dict(weight_decay=[0.1, 0.2, 0.3, 0.4, 0.1], eps=[1e-8, 1e-3, 1e-2, 0.1, 1e-8]), 0),
    "rmsprop to zero": (o.RMSprop, dict(lr=0.1, weight_decay=0.1), dict(weight_decay=[0.1, 0.2, 0.0, 0.0, 0.1]), 1),
    "nadam momentum": (o.NAdam, dict(lr=0.1), dict(momentum_decay=[4e-3, 1e-3, 2e-3, 3e-3, 5e-3]), 1),
    "own": (Free, {}, dict(weight_decay=[0.1, 0.2, 0.3, 0.4, 0.1]), 0),
    "own pull": (Anchored, {}, dict(pull=[0.1, 0.2, 0.3, 0.4, 0.1]), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULED)
def test_hyperparameters_by_schedule(name):
    kind, options, schedule, programs = SCHEDULED[name]
    step, twin, eager = pair(kind, **options)
    for number, batch in enumerate(regression(5)):
        for group in (*step._state.optimizer_dict.optimizer.param_groups, *eager.param_groups):
            group |= {key: values[number] for key, values in schedule.items()}
        train(step, twin, eager, [batch])
    assert len(step._programs.sessions) == 1 + programs


@pytest.mark.parametrize(
    "kind, options, name, value",
    [
        (o.SGD, dict(momentum=0.0), "momentum", 0.9),
        (o.SGD, {}, "maximize", True),
        (o.AdamW, {}, "amsgrad", True),
    ],
)
def test_what_may_not_change(kind, options, name, value):
    step, *_ = pair(kind, lr=0.1, **options)
    step._state.optimizer_dict.optimizer.param_groups[0][name] = value
    with pytest.raises(
        tandem.StateError, match=f"group 0: {name} is {value}, expected .* as captured"
    ):
        step(regression(1)[0])
