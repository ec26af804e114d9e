"""Writes in place to memory that other tensors of a step lie in."""

import copy

import pytest
import tandem
import torch
from comparing import compare, train_beside
from tandem.capture import functional
from torch import nn


def _made_again(h):
    v, t = h.view(-1), h.t()
    h.relu_()
    return v.square().mean() + (t * torch.arange(8.0, dtype=h.dtype)).sum()


def _in_another_shape(h):
    values = h.detach().clone()
    values.view(2, 4, 6).mul_(2)
    return (h * values).square().sum()


def _of_a_part(h):
    values = h.detach().clone()
    first, second = values.chunk(2, 1)
    values.mul_(3)
    return (h * torch.cat([second, first], 1)).square().sum()


def _twice(h):
    y = h.add_(1)
    before = 3 * h
    z = y.mul_(y.detach().cos())
    return (h * y).mean() + (z + before).square().mean()


def _to_a_part(h):
    h[:, :2].mul_(3)
    return h.square().sum()


def _in_another_order(h):
    h.t().mul_(torch.arange(8.0, dtype=h.dtype))
    return h.square().sum()


def _strided(h):
    values = h.detach().clone()
    return (h * values.as_strided((8, 6), (1, 8))).square().sum()


FOLLOWED = [_made_again, _in_another_shape, _of_a_part, _twice, _strided]
REPLAYED = [_to_a_part, _in_another_order]


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.first, self.norm = nn.Linear(5, 6), nn.BatchNorm1d(6)
        self.function = function

    def forward(self, x):
        return self.function(self.norm(self.first(x)))


@pytest.mark.parametrize("function", FOLLOWED + REPLAYED)
def test_a_write_is_seen_by_all_that_share_memory(function, monkeypatch):
    replayed = []

    class Replay(functional._Replay):
        def run(self, *tensors):
            replayed.append(self)
            return super().run(*tensors)

    monkeypatch.setattr(functional, "_Replay", Replay)
    model = Model(function).double()
    batches = [torch.randn(8, 5, dtype=torch.float64) for _ in range(2)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compare(model, lambda model, x: model(x), optimizer, batches)
    assert bool(replayed) == (function in REPLAYED)


def test_what_a_mask_takes_of_a_constant_is_written_to():
    """It is the step's own, as what the mask takes of a batch is."""
    places = torch.tensor([0, 5, 2, 9, 4])

    def loss(model, x):
        columns = places[places < 6]
        columns.masked_fill_(columns == 2, 3)
        return model(x).index_select(1, columns).square().sum()

    model = nn.Linear(5, 6).double()
    batches = [torch.randn(4, 5, dtype=torch.float64) for _ in range(2)]
    compare(model, loss, torch.optim.SGD(model.parameters(), lr=0.1), batches)


def test_parameters_of_all_shapes_are_updated_as_one():
    """But those of one number, and of another element type."""
    model = nn.ParameterDict(
        {str(i): torch.rand(shape, dtype=torch.float64) for i, shape in enumerate(_SHAPES)}
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    batches = [torch.rand(4, 1, dtype=torch.float64) for _ in range(3)]

    def loss(model, x):
        return sum((p.square() * x.reshape(-1, *[1] * p.dim())).mean() for p in model.values())

    compare(model, loss, optimizer, batches)


_SHAPES = [(3,), (2, 3), (), (1,), (2, 1, 3)]


TABLE = torch.arange(18.0, dtype=torch.float64).reshape(3, 6)


class Ring(nn.Module):
    """A queue, and how many rows it has got."""

    def __init__(self, use):
        super().__init__()
        self.layer, self.use = nn.Linear(6, 6), use
        self.register_buffer("queue", torch.zeros(5, 6))
        self.register_buffer("count", torch.tensor(0))
        self.double()

    def forward(self, x):
        y = self.use(self, self.layer(x), self.count % 5)
        self.count += 1
        return y


def put(m, y, at):
    m.queue[at] = y.detach()[0]
    m.queue[at] += 1
    m.queue[-at - 1, 2] = 0.5
    m.queue[..., at] = y.detach()[0, :5]
    return y * m.queue.sum(0)


def looked_up(m, y, at):
    z = torch.zeros_like(y)
    z[at % 3, 1:4] = y[0, :3]
    return (y + z) * TABLE[at % 3] + y[:, [0, 2]][:, at % 2, None]


ROWS = [torch.randn(4, 6, generator=torch.Generator().manual_seed(i)).double() for i in range(3)]


def square(model, batch):
    return model(batch).square().mean()


@pytest.mark.parametrize("use", [put, looked_up])
def test_positions_that_each_step_has_anew(use):
    """A tensor without dimensions is the number of a row."""
    model = Ring(use)
    twin = copy.deepcopy(model)
    sgd = [torch.optim.SGD(m.parameters(), lr=0.01) for m in (model, twin)]
    step = tandem.compile(model, square, sgd[0], ROWS[0], mesh="data=2")
    train_beside(step, twin, square, sgd[1], ROWS)


def written(m, y, at):
    m.queue[at].copy_(y.detach()[0])
    return y


def seen_before(m, y, at):
    row = m.queue[at]
    m.queue[at] = y.detach()[0]
    return y * row


@pytest.mark.parametrize("use", [written, seen_before])
def test_a_row_that_would_be_a_view_is_refused(use):
    model = Ring(use)
    with pytest.raises(
        tandem.CaptureError, match=r"test_writes\.py:\d+: a row is read .*index_select"
    ):
        tandem.export(model, square, torch.optim.SGD(model.parameters(), 0.1), ROWS[0])
