"""What a loss reads past the model and the batch is a constant of the step, as long as it is one in eager."""

import copy

import pytest
import tandem
import torch
from torch import nn


def net():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)).double()


def compiled(model, loss_fn, batch):
    return tandem.compile(model, loss_fn, torch.optim.SGD(model.parameters(), 0.1), batch)


@pytest.fixture
def batches():
    torch.manual_seed(0)
    return [torch.randn(6, 4).double() for _ in range(3)]


def test_a_teacher_that_stays_as_it_is(batches):
    model, teacher = net(), net()
    twin = copy.deepcopy(model)

    def loss_fn(model, batch):
        with torch.no_grad():
            wanted = teacher(batch)
        return (model(batch) - wanted).square().mean()

    step, optimizer = compiled(model, loss_fn, batches[0]), torch.optim.SGD(twin.parameters(), 0.1)
    for batch in batches:
        loss = step(batch)
        optimizer.zero_grad()
        expected = loss_fn(twin, batch)
        expected.backward()
        optimizer.step()
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-12, atol=0)


def mean(teacher, model):
    with torch.no_grad():
        for p, q in zip(teacher.parameters(), model.parameters(), strict=True):
            p.lerp_(q, 0.1)


def loaded(teacher, model):
    teacher.load_state_dict(model.state_dict())


def exchanged(teacher, model):
    teacher[0].weight.data = torch.zeros_like(teacher[0].weight)


@pytest.mark.parametrize("change", [mean, loaded, exchanged])
@pytest.mark.parametrize("evaluates", [False, True])
def test_a_teacher_that_changes(batches, change, evaluates):
    model, teacher = net(), net()
    step = compiled(model, lambda m, x: (m(x) - teacher(x).detach()).square().mean(), batches[0])
    step(batches[0])
    step.sync_to(model)
    change(teacher, model)
    with pytest.raises(
        tandem.StateError,
        match=r"test_constants.py:\d+: a tensor \[8, 4\] that is read past the model and the batch was changed after",
    ):
        (step.evaluate if evaluates else step)(batches[1])


def test_a_teacher_in_the_model(batches):
    both = nn.ModuleDict({"student": net(), "teacher": net().requires_grad_(False)})
    twin = copy.deepcopy(both)

    def loss_fn(m, x):
        return (m["student"](x) - m["teacher"](x)).square().mean()

    optimizer, own = (torch.optim.Adam(m["student"].parameters(), 0.1) for m in (both, twin))
    step = tandem.compile(both, loss_fn, optimizer, batches[0], mesh="data=2")
    for batch in batches:
        loss = step(batch)
        step.sync_to(both)
        mean(both["teacher"], both["student"])
        step.load(model=both)
        own.zero_grad()
        expected = loss_fn(twin, batch)
        expected.backward()
        own.step()
        mean(twin["teacher"], twin["student"])
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-9, atol=0)


def test_a_net_that_another_step_trains(batches):
    one, other = net(), net()
    first = compiled(one, lambda m, x: (m(x) - other(x).detach()).square().mean(), batches[0])
    second = compiled(other, lambda m, x: (m(x) - one(x).detach()).square().mean(), batches[0])
    first(batches[0])
    first(batches[1])
    with pytest.raises(tandem.StateError, match="was trained by another step after tandem.compile"):
        second(batches[0])
    first.sync_to(one)
    with pytest.raises(tandem.StateError, match="was changed after tandem.compile"):
        second(batches[0])


def test_networks_that_train_in_turns(batches):
    """As of a GAN: what the other step trains is not this one's."""
    both = nn.ModuleDict({"one": net(), "other": net()})
    twin = copy.deepcopy(both)

    def loss_fn(m, x):
        return (m["one"](x) - m["other"](x)).square().mean()

    names = ("one", "other")
    one, other = (
        tandem.compile(both, loss_fn, torch.optim.SGD(both[name].parameters(), 0.1), batches[0])
        for name in names
    )
    optimizers = [torch.optim.SGD(twin[name].parameters(), 0.1) for name in names]
    one(batches[0])
    for call in (other, other.evaluate):
        with pytest.raises(tandem.StateError, match="'one.0.weight' was trained by another step"):
            call(batches[0])
    one.load(model=both)
    other.load(model=both)
    for batch in batches:
        for step, then, optimizer in zip((one, other), (other, one), optimizers, strict=True):
            twin.zero_grad()
            expected = loss_fn(twin, batch)
            expected.backward()
            optimizer.step()
            torch.testing.assert_close(step(batch), expected.detach(), rtol=1e-9, atol=0)
            step.sync_to(both)
            then.load(model=both)


def by_adam(model):
    return torch.optim.Adam(model.parameters(), 0.1)


def test_two_steps_of_one_model(batches):
    """Each trains what the other does, by one optimizer."""
    model = nn.Sequential(nn.BatchNorm1d(4, dtype=torch.float64), net())
    twin = copy.deepcopy(model)
    optimizer, own = by_adam(model), by_adam(twin)
    losses = [lambda m, x: m(x).square().mean(), lambda m, x: m(x).abs().mean() * 3]
    steps = [tandem.compile(model, loss, optimizer, batches[0]) for loss in losses]
    steps[0](batches[0])
    with pytest.raises(tandem.StateError, match="'0.weight' was trained by another step"):
        steps[1](batches[0])
    with pytest.warns(UserWarning, match="load: the model has the values that it had before"):
        steps[1].load(model=model)
    steps[0].sync_to(model)
    steps[1].load(model=model)
    with pytest.raises(tandem.StateError, match="optimizer: its state of '0.weight' was updated"):
        steps[1](batches[0])
    for step in steps:
        step.load(model=twin, optimizer=own)
    for batch in batches:
        for step, then, loss in zip(steps, steps[::-1], losses, strict=True):
            own.zero_grad()
            expected = loss(twin, batch)
            expected.backward()
            own.step()
            torch.testing.assert_close(step(batch), expected.detach(), rtol=1e-9, atol=0)
            step.sync_to(model, optimizer)
            then.load(model=model, optimizer=optimizer)


def test_parts_of_two_models_that_two_steps_train(batches):
    """What one step trains alone is not the other's; steps whose models have a part in common have."""
    part = net()
    models = [nn.Sequential(part), nn.Sequential(part, nn.Tanh())]
    steps = [compiled(m, lambda m, x: m(x).square().mean(), batches[0]) for m in models]
    apart = compiled(copy.deepcopy(models[0]), lambda m, x: m(x).square().mean(), batches[0])
    steps[0](batches[0])
    apart(batches[0])
    with pytest.raises(tandem.StateError, match="'0.0.weight' was trained by another step"):
        steps[1](batches[0])
    steps[0].sync_to(models[0])
    steps[1].load(model=models[1])
    steps[1](batches[0])


def test_parameters_of_the_model_from_a_list(batches):
    model = net()
    weights = [p for p in model.parameters() if p.dim() > 1]
    with pytest.raises(
        tandem.CaptureError,
        match=r"test_constants.py:\d+: parameter '0.weight' is read past the model.*model.get_parameter\('0.weight'\)",
    ):
        compiled(
            model,
            lambda m, x: m(x).square().mean() + sum(w.square().sum() for w in weights),
            batches[0],
        )


def test_what_nobody_else_has_does_not_change(batches):
    def loss_fn(model, batch):
        return (model(batch) * torch.tensor([1.0, 2.0, 3.0, 4.0])).square().mean()

    step = compiled(net(), loss_fn, batches[0])
    assert torch.isfinite(step(batches[0]))


ROWS = torch.rand(4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
SQUARE = ROWS.T @ ROWS + torch.eye(3, dtype=torch.float64)
PLACES = torch.tensor([2, 0])


def assigned(x, places, rows):
    y = x.clone()
    y[places] = rows
    return y


def factors(x):
    """Cholesky factors of what a net gives, as GPyTorch's and Pyro's guides write them."""
    y = torch.zeros(4, 2, 2, dtype=x.dtype)
    at = torch.tril_indices(2, 2)
    y[:, at[0], at[1]] = x
    return y @ y.mT


OF_CONSTANTS = {
    "sort": lambda x: x * ROWS.sort(1)[0] + x[:, torch.tensor([2, 0, 1]).argsort()],
    "top-k": lambda x: x * ROWS.topk(2, 1)[0].sum(1, keepdim=True) + x * ROWS.topk(3)[1],
    "median": lambda x: x * ROWS.median(1, keepdim=True)[0] + x * ROWS.quantile(0.3),
    "norms": lambda x: x * nn.functional.layer_norm(ROWS, (3,)) * nn.functional.group_norm(ROWS, 3),
    "pool": lambda x: x * nn.functional.max_pool1d(ROWS, 3, 1, 1),
    "attention": lambda x: x @ nn.functional.scaled_dot_product_attention(*[ROWS[None]] * 3)[0].T,
    "moments": lambda x: x * torch.var_mean(ROWS, 1, keepdim=True)[0] * ROWS.aminmax()[1],
    "inverse": lambda x: x @ torch.linalg.inv(SQUARE) @ torch.linalg.cholesky(SQUARE),
    # PyTorch computes what has no equivalent, of what the step makes as well.
    "fold": lambda x: x * torch.special.bessel_j1(ROWS.sort(0)[0] + torch.arange(3)),
    "rows": lambda x: assigned(x, [2, 0], x[:2] * 2),
    "columns": lambda x: assigned(x.T, PLACES, x[:, :2].T * 2).T,
    "places twice": lambda x: assigned(x, [1, 1, 3], x[:3] * 2),
    "factors": factors,
    "index_copy": lambda x: x.index_copy(0, PLACES, x[:2] * 2),
    "scatter": lambda x: x.scatter(1, torch.tensor([[0, 2]] * 4), x[:, :2] * 2),
    "put": lambda x: x.put(PLACES, x[0, :2] * 2),
}


class Scaled(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
        self.function = function

    def forward(self, x):
        return self.function(x * self.w)


def check_step(function, batch, **options):
    model = Scaled(function)

    def loss_fn(model, x):
        return model(x).square().sum()

    expected = loss_fn(model, batch)
    (gradient,) = torch.autograd.grad(expected, [model.w])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step = tandem.compile(model, loss_fn, optimizer, batch, gradients=True, **options)
    torch.testing.assert_close(step(batch), expected.detach(), rtol=1e-9, atol=0)
    torch.testing.assert_close(step.gradients()["w"], gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", OF_CONSTANTS)
def test_operators_of_constants_alone(name):
    batch = torch.rand(4, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    check_step(OF_CONSTANTS[name], batch, mesh="data=2", micro=2)


@pytest.mark.parametrize("options", [{}, {"mesh": "data=2,model=2", "search": "tandem"}])
def test_all_operators_of_constants_together(options):
    batch = torch.rand(4, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    check_step(lambda x: sum(f(x).sum() for f in OF_CONSTANTS.values()), batch, **options)


def set_row(y, row):
    y[0] = row
    return y


WRITTEN = {
    "cosine": lambda x: nn.functional.cosine_similarity(x[:, None], ROWS[None], dim=-1),
    "copy": lambda x: ROWS.clone().add_(x),
    "product": lambda x: set_row(ROWS * 1, x[0]),
    "norm": lambda x: ROWS.norm(dim=1, keepdim=True).clamp_min_(x[0, 0].detach()) * x,
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_write_to_what_comes_of_a_constant(name):
    before = ROWS.clone()
    check_step(WRITTEN[name], torch.rand(4, 3, dtype=torch.float64))
    assert torch.equal(ROWS, before)


def adopted(y, x):
    y[0] = x[0].detach()


INTO = {
    "view": lambda y, x: y.view(-1).add_(1),
    "row": lambda y, x: y[0].add_(1),
    "value": adopted,
    "chunk": lambda y, x: y.chunk(2)[0].mul_(2),
    "data": lambda y, x: y.data.mul_(2),
    "transposed": lambda y, x: y.t().copy_(x.detach().t()),
}


@pytest.mark.parametrize("name", INTO)
def test_a_write_into_a_constant(name):
    def write(x):
        INTO[name](ROWS, x)
        return ROWS * x

    before = ROWS.clone()
    model, batch = Scaled(write), torch.rand(4, 3, dtype=torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(tandem.CaptureError, match=r"test_constants.py:\d+: a tensor is written to"):
        tandem.export(model, lambda m, x: m(x).sum(), optimizer, batch)
    assert torch.equal(ROWS, before)


def test_places_beside_a_constant():
    view = torch.rand(20, dtype=torch.float64)[:6]
    model, batch = Scaled(lambda x: x * view.as_strided((3,), (5,))), torch.rand(4, 3).double()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(
        tandem.UnsupportedOperatorError, match="found place 10 of a tensor of 6 elements"
    ):
        tandem.export(model, lambda m, x: m(x).sum(), optimizer, batch)
