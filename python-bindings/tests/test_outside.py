"""Numbers that a loss reads past its arguments count when they are set between steps, as in eager."""

import argparse
import functools
import types

import pytest
import tandem
import torch
from tandem.guards.outside import read_outside
from tandem.session import programs
from torch import nn

BATCH = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
BETA, CONFIG, OPTIONS = 1.0, {"loss": {"beta": 1.0}, "epoch": 0}, argparse.Namespace(beta=1.0)
MODULE = types.ModuleType("settings")
MODULE.beta = 1.0


def error(model, batch):
    return (model(batch) - batch).square().mean()


def of_a_global():
    def put(beta):
        global BETA
        BETA = beta

    return (lambda model, batch: BETA * error(model, batch)), put


def of_a_closure():
    beta = 1.0

    def put(value):
        nonlocal beta
        beta = value

    return (lambda model, batch: beta * error(model, batch)), put


def of_a_dict():
    def put(beta):
        CONFIG["loss"]["beta"] = beta

    return (lambda model, batch: CONFIG["loss"]["beta"] * error(model, batch)), put


def of_options():
    def put(beta):
        OPTIONS.beta = beta

    return (lambda model, batch: sum(OPTIONS.beta * error(model, batch) for _ in range(1))), put


def of_a_module():
    def put(beta):
        MODULE.beta = beta

    return (lambda model, batch: MODULE.beta * error(model, batch)), put


class Trainer:
    def __init__(self):
        self.args, self.calls = argparse.Namespace(beta=1.0), 0

    def scale(self):
        return self.args.beta

    def loss(self, model, batch):
        self.calls += 1
        return self.scale() * error(model, batch)


def of_a_method():
    trainer = Trainer()

    def put(beta):
        trainer.args.beta = beta

    return trainer.loss, put


class Weighted(nn.Module):
    beta = 1.0

    def __init__(self):
        super().__init__()
        self.beta = 1.0

    def forward(self, model, batch):
        return self.beta * error(model, batch)


def of_a_loss():
    loss = Weighted()

    def put(beta):
        loss.beta = beta

    return loss, put


def scaled():
    return BETA


def of_a_function():
    def put(beta):
        global BETA
        BETA = beta

    def loss(weight, model, batch):
        return weight * scaled() * error(model, batch)

    return functools.partial(loss, 1.0), put


WAYS = [of_a_global, of_a_closure, of_a_dict, of_options, of_a_module, of_a_method, of_a_loss]
WAYS += [of_a_function]


@pytest.mark.sample(8)
@pytest.mark.parametrize("last_batch", ["error", "pad"])
@pytest.mark.parametrize("way", WAYS)
def test_counts_when_it_is_set(way, last_batch, monkeypatch):
    given, put = way()
    put(1.0)
    loss_fn = given
    if last_batch == "pad":

        def loss_fn(model, batch, weights):
            return given(model, batch)

    model = nn.Linear(6, 6)
    captures, capture = [], programs.Recipe.capture
    monkeypatch.setattr(
        programs.Recipe, "capture", lambda *a, **o: captures.append(a) or capture(*a, **o)
    )
    step = tandem.compile(
        model, loss_fn, torch.optim.SGD(model.parameters(), 0.0), BATCH, last_batch=last_batch
    )
    expected = error(model, BATCH).detach()
    for beta, count in ((1.0, 1), (0.5, 2), (0.25, 3), (0.5, 3), (1.0, 3)):
        put(beta)
        torch.testing.assert_close(step(BATCH), beta * expected)
        assert len(captures) == count
    put(2.0)
    torch.testing.assert_close(step.evaluate(BATCH), 2 * expected)


def test_one_that_changes_in_each_step_is_told():
    loss_fn, put = of_options()
    put(1.0)
    model = nn.Linear(6, 6)
    step = tandem.compile(model, loss_fn, torch.optim.SGD(model.parameters(), 0.0), BATCH)
    with pytest.warns(
        UserWarning, match="captured anew 8 times, as 'OPTIONS.beta', which .* reads was set"
    ) as told:
        for number in range(9):
            put(0.5 + number)
            step(BATCH)
    (warning,) = [w for w in told if "captured anew" in str(w.message)]
    assert warning.filename == __file__


class Criterion(nn.Module):
    """What a loss of PyTorch's may have: weights or none, and what it has learned."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", None)
        self.scale = nn.Parameter(torch.ones(6), requires_grad=False)
        self.inner = nn.BatchNorm1d(6).eval()

    def forward(self, x):
        weighed = self.inner(x) * self.scale
        return (weighed if self.weight is None else weighed * self.weight).square().mean()


def test_tensors_of_a_module_that_are_replaced():
    """Each is a constant of the step, until there is another in its place."""
    criterion, model = Criterion(), nn.Linear(6, 6)

    def loss(model, batch):
        return criterion(model(batch)) * (2 if criterion.weight is None else criterion.weight.sum())

    step = tandem.compile(model, loss, torch.optim.SGD(model.parameters(), 0.0), BATCH)
    changes = {
        "weight": (criterion, torch.arange(6.0)),
        "scale": (criterion, nn.Parameter(torch.arange(6.0), requires_grad=False)),
        "running_mean": (criterion.inner, torch.ones(6)),
        "inner": (criterion, nn.Identity()),
    }
    for name, (owner, value) in changes.items():
        setattr(owner, name, value)
        torch.testing.assert_close(step(BATCH), loss(model, BATCH).detach(), msg=name)
    criterion.inner = nn.BatchNorm1d(6)
    with pytest.raises(tandem.StateError, match="module 'inner': .*expected what it was"):
        step(BATCH)


def loss_of(trainer, batch):
    return error(trainer.model, batch) * trainer.scale


class Wrapping(nn.Module):
    """Has the model that is trained, beside a buffer, and is handed to the loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.register_buffer("scale", torch.tensor(2.0))

    def loss(self, model, batch):
        return loss_of(self, batch)


def test_a_module_around_the_model():
    """What it has beside the model is a constant; the values of the model are the step's."""
    trainer = Wrapping(nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6)))
    optimizer = torch.optim.SGD(trainer.model.parameters(), 0.0)
    step = tandem.compile(trainer.model, trainer.loss, optimizer, BATCH)
    expected = step(BATCH)
    trainer.scale = torch.tensor(4.0)
    torch.testing.assert_close(step(BATCH), 2 * expected)
    trainer.model[1].running_mean = torch.ones(6)
    with pytest.raises(tandem.StateError, match=r"model: the values of '1\.\w+' were changed"):
        step(BATCH)


def gain():
    return BETA


def gained(module, x):
    return gain() * module.layer(x)


class Handing(nn.Module):
    """Its forward pass hands the module to a function, and calls one without arguments."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x):
        return gained(self, x) * gain()


def test_functions_without_arguments():
    _, put = of_a_global()
    put(1.0)
    model = Handing()
    step = tandem.compile(model, error, torch.optim.SGD(model.parameters(), 0.0), BATCH)
    for beta in (1.0, 0.5):
        put(beta)
        torch.testing.assert_close(step(BATCH), error(model, BATCH).detach())


def names(function):
    return sorted(name.split("'")[1] for name in read_outside(function, (float, int, str)))


def test_what_is_not_read_or_is_written_by_it_is_left_out():
    count = 0

    def loss(model, batch):
        nonlocal count
        count += 1
        CONFIG["epoch"] += 1
        return error(model, batch) * OPTIONS.beta

    assert names(loss) == ["OPTIONS.beta"]
    assert names(Trainer().loss) == ["self.args.beta"]
    assert names(torch.nn.functional.mse_loss) == []
    assert names(print) == []
