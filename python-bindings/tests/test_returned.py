"""What a step returns besides the loss, and evaluation, against eager."""

import copy
import dataclasses
from collections import namedtuple

import pytest
import tandem
import torch
import torch.nn.functional as F
from test_models import mse, normal, regression, small
from test_training import HOW
from torch import nn

PLANS = HOW | {
    "tensors": dict(mesh="model=2", plan="tensor-parallel", micro=2),
    "searched": dict(mesh="data=2", search="tandem", micro=2),
}


def classifier():
    layers = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 4)
    return nn.Sequential(*layers).double()


def data(count, rows=8):
    return [
        dict(x=normal(rows, 6), y=torch.randint(0, 4, (rows,)), id=torch.arange(rows) + 100 * i)
        for i in range(count)
    ]


def with_metrics(model, batch):
    scores = model(batch["x"])
    guess = scores.argmax(-1)
    return {
        "loss": F.cross_entropy(scores, batch["y"]),
        "scores": scores,
        "metrics": [(guess == batch["y"]).double().mean(), (guess == 0).sum(), None, "text"],
        "id": batch["id"],
        "small": guess.to(torch.uint8),
        "norm": sum(p.detach().square().sum() for p in model.parameters()),
    }


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def assert_same(found, expected):
    def check(a, b):
        if isinstance(b, torch.Tensor):
            torch.testing.assert_close(a, b.detach(), rtol=1e-9, atol=1e-10)
            assert not a.requires_grad
        else:
            assert a == b

    assert type(found) is type(expected)
    torch.utils._pytree.tree_map(check, found, expected)


@pytest.mark.parametrize("how", PLANS)
def test_outputs_and_metrics(how):
    """Of a model without dropout, whose outputs eager has as well."""
    model = classifier()
    model[3].p = 0.0
    twin, batches = copy.deepcopy(model), data(3)
    optimizer = adam(twin)
    step = tandem.compile(model, with_metrics, adam(model), batches[0], **PLANS[how])
    for batch in batches:
        found = step(batch)
        expected = with_metrics(twin, batch)
        optimizer.zero_grad()
        expected["loss"].backward()
        assert_same(found, expected)
        optimizer.step()


Pair = namedtuple("Pair", "loss scores")


@dataclasses.dataclass(frozen=True)
class Output:
    loss: torch.Tensor
    scores: torch.Tensor
    extra: dict


FORMS = {
    "tensor": lambda loss, scores: loss,
    "tensor of one element": lambda loss, scores: loss.reshape(1, 1),
    "tuple": lambda loss, scores: (loss.reshape(1), scores, 1.5),
    "list": lambda loss, scores: [loss, [scores]],
    "named tuple": Pair,
    "dataclass": lambda loss, scores: Output(loss, scores, {"a": scores, "b": None}),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form):
    model, batch = small(nn.Tanh()), regression(1)[0]

    def loss(model, batch):
        scores = model(batch[0])
        return FORMS[form](F.mse_loss(scores, batch[1]), scores)

    step = tandem.compile(model, loss, adam(model), batch)
    found, expected = step(batch), loss(model, batch)
    if form != "dataclass":
        return assert_same(found, expected)
    assert_same(vars(found), vars(expected))
    assert type(found) is Output


def test_outputs_of_transformers():
    transformers = pytest.importorskip("transformers")
    sizes = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    configuration = transformers.BertConfig(vocab_size=50, num_labels=3, **sizes)
    model = transformers.BertForSequenceClassification(configuration).eval()
    batch = transformers.BatchEncoding(
        dict(input_ids=torch.randint(0, 50, (4, 7)), labels=torch.tensor([0, 1, 2, 1]))
    )
    step = tandem.compile(model, lambda m, b: m(**b), adam(model), batch, mesh="data=2")
    found, expected = step(batch), model(**batch)
    assert type(found) is type(expected)
    torch.testing.assert_close(found.logits, expected.logits.detach())
    torch.testing.assert_close(found.loss, expected.loss.detach())


@pytest.mark.parametrize(
    "returned, words",
    [
        (lambda loss: {"x": loss}, "found NoneType, expected a tensor of one element, or a tuple"),
        (lambda loss: (loss.expand(2), loss), r"found a tensor of shape \(2,\)"),
        (
            lambda loss: (loss, {"m": object()}),
            "'1.m' as object, expected tensors, numbers.* return the loss",
        ),
        (lambda loss: (loss, loss * 1j), "'1' as torch.complex128"),
    ],
)
def test_what_cannot_be_returned(returned, words):
    model = small(nn.Tanh())
    with pytest.raises(tandem.CaptureError, match=words):
        tandem.compile(model, lambda m, b: returned(mse(m, b)), adam(model), regression(1)[0])


@pytest.mark.parametrize("how", PLANS)
def test_evaluation(how):
    """On the values that training has left, in eval mode, and without a change of any."""
    model, batches = classifier(), data(3)
    step = tandem.compile(model, with_metrics, adam(model), batches[0], **PLANS[how])
    twin = copy.deepcopy(model)
    for batch in batches:
        step(batch)
        before = step.state_dict()
        twin.load_state_dict(before)
        assert_same(step.evaluate(batch), with_metrics(twin.eval(), batch))
        for name, tensor in step.state_dict().items():
            assert torch.equal(tensor, before[name]), name
    assert model.training and step.optimizer_state_dict()["tandem"]["step"] == 3


@pytest.mark.parametrize("rows", [1, 5, 6, 16])
def test_evaluation_of_other_sizes(rows):
    model, batches = classifier(), data(1)
    how = dict(mesh="data=2", plan="zero", micro=2)
    step = tandem.compile(model, with_metrics, adam(model), batches[0], **how)
    step(batches[0])
    twin = copy.deepcopy(model).eval()
    twin.load_state_dict(step.state_dict())
    (batch,) = data(1, rows)
    assert_same(step.evaluate(batch), with_metrics(twin, batch))


def test_a_model_in_eval_mode_goes_on_training():
    model, batches = classifier(), data(2)
    model[3].p = 0.0
    twin = copy.deepcopy(model)
    step = tandem.compile(model, with_metrics, adam(model), batches[0])
    step(batches[0])
    model.eval()
    step.evaluate(batches[0])
    found = step(batches[1])
    optimizer = adam(twin)
    for batch in batches:
        expected = with_metrics(twin, batch)
        optimizer.zero_grad()
        expected["loss"].backward()
        optimizer.step()
    torch.testing.assert_close(found["loss"], expected["loss"].detach(), rtol=1e-9, atol=0)
    assert not model.training


class Packed(nn.Module):
    """Query, key and value in one weight, which Programs store in parts."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 1)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        made = F.scaled_dot_product_attention(q, k, v)
        return self.out(made.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    "how,kind", [*((how, torch.optim.SGD) for how in PLANS), ("tensors", torch.optim.NAdam)]
)
def test_evaluation_of_packed_parameters(how, kind):
    """In parts, or, where a state of another shape keeps them whole, as they are."""
    model = Packed().double()

    def loss(model, x):
        made = model(x)
        return made.square().mean(), made

    x = normal(8, 5, 8)
    step = tandem.compile(model, loss, kind(model.parameters(), lr=0.1), x, **PLANS[how])
    step(x)
    twin = copy.deepcopy(model)
    twin.load_state_dict(step.state_dict())
    assert_same(step.evaluate(x), loss(twin, x))
    assert any(a.part for a in step.program.arguments) == (kind is torch.optim.SGD)
