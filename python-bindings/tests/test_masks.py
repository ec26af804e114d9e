"""Rows that a mask chooses: what follows is eager's, or an error that says how to write it."""

import re

import pytest
import tandem
import torch
import torch.nn.functional as F
from comparing import compare
from torch import nn


def batches(count=2):
    generator = torch.Generator().manual_seed(0)
    return [
        (
            torch.randn(8, 6, generator=generator, dtype=torch.float64),
            torch.randint(0, 5, (8,), generator=generator),
        )
        for _ in range(count)
    ]


def made():
    torch.manual_seed(0)
    model = nn.Linear(6, 5).double()
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def labelled(model, batch):
    scores, chosen = model(batch[0]), batch[1] != 3
    return F.cross_entropy(scores[chosen], batch[1][chosen], label_smoothing=0.1)


def before_the_model(model, batch):
    return model(batch[0][batch[1] > 1]).square().mean()


def joined(model, batch):
    """Two masks that are equal, arithmetic, and reductions of all kinds."""
    scores = model(batch[0])
    rows, targets = scores[batch[1] != 3], batch[0][batch[1] != 3][:, :5]
    error = (rows.softmax(-1) - targets).abs()
    return (
        error.pow(2).mean()
        + error.sum(dim=1).mean()
        + F.mse_loss(rows, targets, reduction="sum")
        + rows.sum(0).max()
        + F.binary_cross_entropy_with_logits(rows, torch.ones_like(rows))
        + F.l1_loss(rows, torch.full_like(rows, 0.3) + torch.zeros_like(targets))
    )


def counted(model, batch):
    places = (batch[1] > 0).nonzero(as_tuple=True)[0]
    rows = model(batch[0])[places]
    if rows.numel() == 0:
        return rows.sum() * 0
    return rows.log_softmax(-1).sum() / rows.shape[0]


def elements(model, batch):
    scores = model(batch[0])
    high = scores > 0
    return (
        scores[torch.where(high)].log1p().sum()
        + scores.masked_select(~high).mean()
        + scores[high].sqrt().mean()
    )


def triangle(model, batch):
    """A mask that follows from no argument is known: rows may be used in any way."""
    pairs = model(batch[0]) @ model(batch[0]).t()
    below = torch.ones(8, 8, dtype=torch.bool).tril(-1)
    return (
        pairs[below].sort().values[3:9].sum() + pairs[torch.nonzero(below)[:, 0]].cumsum(0).mean()
    )


def column(model, batch):
    flat = torch.nonzero(batch[1] > 1).squeeze(1)
    return model(batch[0]).index_select(0, flat).view(-1, 5).exp().mean()


def gathered(model, batch):
    """Rows of scores and labels by their places, as classifiers of transformers leave out what has no label."""
    scores, places = model(batch[0]), (batch[1] > 0).nonzero()
    if places.size(0) == 0:
        return scores.sum() * 0
    rows = torch.gather(scores, 0, places.expand(places.size(0), scores.size(1)))
    return F.cross_entropy(rows.view(-1, 5), batch[1].gather(0, places.view(-1)))


def put_back(model, batch):
    """One row for all chosen, each chosen row from itself, as many rows as are chosen, and numbers."""
    scores = model(batch[0]).tanh() + 0
    scores[batch[1] == 3] = model.bias.exp()
    scores[batch[1] == 0] *= model.bias
    order = batch[1].argsort(stable=True).argsort()
    scores[order < 3] = model(batch[0][:3] * 2)
    scores[scores > 0.9] = 0.5
    elements = torch.zeros(8, 5, dtype=scores.dtype)
    elements[scores > 0] = scores[scores > 0].log1p()
    return (scores * scores.detach().cumsum(0)).sum() + elements.square().mean()


def scattered(model, batch):
    """Rows in the places of some, as images among words; and elements."""
    scores = model(batch[0])
    images = (batch[1].argsort(stable=True).argsort() < 3).unsqueeze(-1).expand_as(scores)
    joined = scores.masked_scatter(images, model(batch[0][:4] * 2))
    return joined.tanh().square().sum() + scores.masked_scatter(scores > 0, scores.exp()).sum()


LOSSES = [
    labelled,
    before_the_model,
    joined,
    counted,
    elements,
    triangle,
    column,
    gathered,
    put_back,
    scattered,
]


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_of_a_mask_are_eagers(loss):
    model, optimizer = made()
    compare(model, loss, optimizer, batches())


def test_as_many_rows_as_a_mask_chooses():
    """Another number is an error, as in eager: of the batch, so before the step."""

    def loss(model, batch):
        scores = model(batch[0]) + 0
        scores[batch[1] == 3] = model(batch[0][:2] * 2)
        return scores.square().mean()

    model, optimizer = made()
    batch, other = batches()
    for labels, count in ((batch[1], 2), (other[1], 3)):
        labels[:] = 1
        labels[:count] = 3
    step = tandem.compile(model, loss, optimizer, batch)
    with pytest.raises(tandem.BatchError, match=r"test_masks\.py:\d+"):
        step(other)
    twin, _ = made()
    torch.testing.assert_close(step(batch), loss(twin, batch).detach(), rtol=1e-12, atol=0)


def test_the_plan_splits_what_a_mask_chooses():
    model, optimizer = made()
    step = tandem.compile(model, labelled, optimizer, batches()[0], mesh={"data": 2}, micro=2)
    twin, _ = made()
    found, expected = step(batches()[1]), labelled(twin, batches()[1])
    torch.testing.assert_close(found, expected.detach(), rtol=1e-12, atol=0)


def test_a_row_that_is_not_chosen_spoils_no_gradient():
    """Its logarithm is infinite."""

    def loss(model, batch):
        x = batch[0].abs() * (batch[1] != 3)[:, None]
        return model.weight[0] @ x[batch[1] != 3].log().mean(0)

    model, optimizer = made()
    (batch,) = batches(1)
    batch[1][2] = 3
    step = tandem.compile(model, loss, optimizer, batch)
    torch.testing.assert_close(step(batch), loss(model, batch).detach(), rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    "use",
    [
        lambda rows: rows.sort(0).values.sum(),
        lambda rows: rows.cumsum(0).sum(),
        lambda rows: rows[0].sum(),
        lambda rows: rows @ rows.t(),
        lambda rows: torch.cat([rows, rows]).sum(),
        lambda rows: torch.stack([row for row in rows]).sum(),
        lambda rows: (rows + torch.ones(3, 5)).sum(),
        lambda rows: torch.zeros(len(rows)).sum(),
        lambda rows: rows.reshape(5, -1).sum(),
        lambda rows: rows.unsqueeze(-3).sum(),
        lambda rows: F.linear(rows[:, 0], torch.ones(8, 8, dtype=rows.dtype)).sum(),
        lambda rows: torch.zeros(rows.shape[0]).sum(),
    ],
)
def test_what_needs_the_rows_themselves_is_an_error(use):
    def loss(model, batch):
        return use(model(batch[0])[batch[1] > 1])

    model, optimizer = made()
    with pytest.raises(
        tandem.CaptureError, match=r"test_masks\.py:\d+: .*depends on data"
    ) as caught:
        tandem.export(model, loss, optimizer, batches()[0])
    assert re.search(r"torch\.where\(mask, x, 0\)|fixed size and a mask", str(caught.value))


class Mixture(nn.Module):
    """Two of three experts for each row, by a loop over experts: by their places, or as the error says."""

    def __init__(self, use):
        super().__init__()
        self.gate, self.use = nn.Linear(8, 3), use
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            self.use(x, y, weights, chosen == number, expert)
        return y


def by_mask(x, y, weights, hits, expert):
    mask = hits.any(-1)
    y[mask] += (weights * hits).sum(-1)[mask][:, None] * expert(x[mask])


def by_rows(x, y, weights, hits, expert):
    rows, places = torch.where(hits)
    y[rows] += weights[rows, places, None] * expert(x[rows])


def by_places(x, y, weights, hits, expert):
    places, rows = torch.where(hits.t())
    y.index_add_(0, rows, expert(x[None, rows].reshape(-1, 8)) * weights[rows, places, None])


@pytest.mark.parametrize("use", [by_rows, by_places])
def test_experts_by_their_places_say_how_to_write_them(use):
    def loss(model, x):
        return model(x).square().mean()

    torch.manual_seed(0)
    models = [Mixture(way).double() for way in (use, by_mask)]
    models[1].load_state_dict(models[0].state_dict())
    x = torch.randn(8, 8, dtype=torch.float64)
    eager, other = (torch.optim.SGD(model.parameters(), 0.1) for model in models)
    with pytest.raises(tandem.CaptureError, match=r"let mask = \(chosen == k\)\.any\(-1\)"):
        tandem.compile(models[0], loss, eager, x)
    step = tandem.compile(models[1], loss, other, x, mesh="data=2", micro=2)
    for _ in range(3):
        expected = loss(models[0], x)
        eager.zero_grad()
        expected.backward()
        eager.step()
        torch.testing.assert_close(step(x), expected.detach(), rtol=1e-9, atol=0)


KNOWN = torch.tensor([True, False, True, True, False])


def known_masks(model, batch):
    """Masks with values: a global, one that is made in the step, and places by a tensor."""
    scores = model(batch[0])
    made_here = torch.arange(5) % 2 == 0
    first, rest = scores.tensor_split(torch.tensor([2]), 1)
    return (
        scores.T[KNOWN].square().mean()
        + scores[:, made_here].exp().mean()
        + (first @ rest[:2]).mean()
    )


def unequal_shapes(model, batch):
    scores = model(batch[0])
    return scores.square().mean() if torch.equal(scores, scores[:3]) else scores.exp().mean()


@pytest.mark.parametrize("loss", [known_masks, unequal_shapes])
def test_what_is_known_of_masks_and_shapes_is_no_data(loss):
    model, optimizer = made()
    compare(model, loss, optimizer, batches())
