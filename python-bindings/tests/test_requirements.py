"""Values that eager refuses are refused: in the batch before the step, or in the step before it writes."""

import pytest
import tandem
import torch
import torch.nn.functional as F
from tandem import BatchError, CaptureError, StepRefusedError
from tandem.capture.export import export
from tandem.capture.wanted import Wanted
from torch.nn.utils import rnn

DOUBLE = torch.float64
ROW = torch.arange(2)


def of(*values):
    return torch.tensor(values)


def scatter(x, i):
    return x.scatter(1, i[:, None], 3.0).sum()


def normal(x, i):
    return x.sum() + torch.normal(x.detach(), i[:, None].to(DOUBLE)).sum()


def bernoulli(x, p):
    return (x * torch.bernoulli(p[:, None].expand(2, 3))).sum()


def multinomial(x, w):
    return x.sum() * torch.multinomial(w, 1, True).sum()


def ctc(x, n):
    lengths = n, torch.tensor([1, 1])
    return F.ctc_loss(x.expand(3, 2, 3).log_softmax(-1), of([1, 2], [2, 1]), *lengths)


def packed(x, n):
    return rnn.pack_padded_sequence(x[:, :, None], n, batch_first=True).data.sum()


# A function, a batch that it takes, one that eager refuses, and what is said of that one.
CASES = {
    "scatter": (scatter, of(0, 2), of(0, 3), "an index is 3, expected 0 to 2"),
    "scatter_add": (
        lambda x, i: x.scatter_add(1, i[:, None], x[:, :1]).sum(),
        of(0, 2),
        of(0, -1),
        "an index is -1",
    ),
    "scatter_reduce": (
        lambda x, i: x.scatter_reduce(1, i[:, None], x, "amax").sum(),
        of(0, 2),
        of(0, 7),
        "an index is 7",
    ),
    "index_add": (
        lambda x, i: x.index_add(1, i, x[:, :2]).sum(),
        of(0, 2),
        of(0, -1),
        "an index is -1",
    ),
    "index_select": (
        lambda x, i: x.index_select(1, i).sum(),
        of(0, 2),
        of(0, -1),
        "an index is -1, expected 0 to 2",
    ),
    "two indices": (
        lambda x, i: x[i, 2 * i].sum(),
        of(0, 1),
        of(0, 2),
        "an index is 2, expected -2 to 1",
    ),
    "index_put": (
        lambda x, i: x.index_put((i * 0, i), x[0, 0]).sum(),
        of(0, -3),
        of(0, -4),
        "an index is -4",
    ),
    "one_hot": (
        lambda x, i: (x * F.one_hot(i, 3)).sum(),
        of(0, 2),
        of(0, 3),
        "a class is 3, expected 0 to 2",
    ),
    "bernoulli": (bernoulli, of(0.0, 1.0), of(0.5, 1.5), "a probability is 1.5, expected 0 to 1"),
    "multinomial": (multinomial, of(1.0, 0.0), of(1.0, -1.0), "a weight is -1.0"),
    "normal": (normal, of(1.0, 0.0), of(1.0, -2.0), "a standard deviation is -2.0"),
    "variance": (
        lambda x, v: F.gaussian_nll_loss(x[:, 0], v.to(DOUBLE), v.to(DOUBLE)),
        of(1.0, 2.0),
        of(1.0, -2.0),
        "a variance is -2.0",
    ),
    "cross entropy": (
        lambda x, t: F.binary_cross_entropy(x[:, 0].sigmoid(), t.to(DOUBLE)),
        of(1.0, 0.0),
        of(1.0, 2.0),
        "a target is 2.0",
    ),
    "labels of a row": (
        lambda x, t: F.multilabel_margin_loss(x, t),
        of([0, 2, -1], [1, -1, 0]),
        of([0, 2, -1], [1, -1, 3]),
        "a label is 3, expected -1 to 2",
    ),
    "histc": (
        lambda x, v: torch.histc(v.to(DOUBLE), 3).sum() * x.sum(),
        of(1.0, 2.0),
        of(1.0, float("nan")),
        "an element of a histogram is nan, expected a finite number",
    ),
    "histogram": (
        lambda x, v: torch.histogram(v.to(DOUBLE), 3)[0].sum() * x.sum(),
        of(1.0, 2.0),
        of(1.0, float("inf")),
        "an element of a histogram is inf",
    ),
    "segments": (
        lambda x, n: torch.segment_reduce(x[:, 0], "sum", lengths=n).sum(),
        of(1, 1),
        of(3, -1),
        "a length of a segment is -1, expected a number from 0 on",
    ),
    "quotient": (
        lambda x, i: (x[:, 0] * (5 // i)).sum(),
        of(1, 2),
        of(1, 0),
        "a divisor is 0, expected another number than 0",
    ),
    "remainders": (
        lambda x, i: (x[:, 0] * (7 % i + torch.fmod(i, i))).sum(),
        of(1, 2),
        of(1, 0),
        "a divisor is 0",
    ),
    "bincount": (
        lambda x, i: (x * torch.bincount(i, minlength=3)).sum(),
        of(0, 2),
        of(0, -1),
        "what is counted is -1, expected a number from 0 on",
    ),
    "offsets": (
        lambda x, i: F.embedding_bag(of(0, 1), x, i).sum(),
        of(0, 1),
        of(1, 1),
        "the first of the offsets is 1, expected 0",
    ),
    "cholesky_inverse": (
        lambda x, i: x.sum() + torch.cholesky_inverse(torch.diag(i.to(DOUBLE))).sum(),
        of(1, 2),
        of(1, 0),
        "a pivot is 0.0",
    ),
    "packed": (packed, of(3, 1), of(3, 4), "a length is 4, expected 1 to 3"),
    "packed, in order": (packed, of(2, 1), of(1, 2), "a length is 2, expected at most the length"),
    "ctc": (ctc, of(3, 2), of(3, 4), "an input length is 4, expected 0 to 3"),
}


def made(function, batch, kind=tandem.compile, **options):
    model = torch.nn.Linear(3, 3, bias=False).double()

    def loss_fn(model, batch):
        return function(model.weight[:2], batch)  # here

    return kind(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), batch, **options)


def eager_refuses(function, batch):
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        function(torch.ones(2, 3, dtype=DOUBLE, requires_grad=True), batch)


@pytest.mark.parametrize("name", CASES)
def test_batches_are_refused_before_the_step(name):
    function, good, bad, message = CASES[name]
    eager_refuses(function, bad)
    function(torch.ones(2, 3, dtype=DOUBLE), good)
    module = made(function, good, export, wanted=Wanted(guards_batches=True))
    assert [result.role for result in module.results].count("check") == (
        name == "cross entropy"
    )  # of its input
    for guard in module.guards:
        guard.check({"0": good})
    with pytest.raises(BatchError, match=f"^batch: .*test_requirements.py:.*: {message}"):
        for guard in module.guards:
            guard.check({"0": bad})


def test_constants_are_refused_when_the_step_is_captured():
    with pytest.raises(
        CaptureError, match="test_requirements.py:.*: an index is out of range, expected 0 to 2"
    ):
        made(lambda x, i: x.scatter(1, of([0], [5]), 1.0).sum() * i.sum(), of(0.0, 1.0), export)


def test_integers_have_no_quotient_by_a_constant_0():
    with pytest.raises(CaptureError, match="test_requirements.py:.*: a divisor is out of range"):
        made(lambda x, i: (x[:, 0] * (i % 0)).sum(), of(1, 2), export)


def hermite(x, n):
    return torch.special.hermite_polynomial_h(x.detach(), n).sum() * x.sum()


def test_orders_of_polynomials_that_formulas_do_not_reach():
    made(lambda x, i: hermite(x, 32) * i.sum(), of(1.0), export)
    with pytest.raises(CaptureError, match="an order of a polynomial is out of .* at most 32"):
        made(lambda x, i: hermite(x, 33) * i.sum(), of(1.0), export)
    module = made(
        lambda x, i: hermite(x[:, :1], i), of(1, 32), export, wanted=Wanted(guards_batches=True)
    )
    with pytest.raises(BatchError, match="an order of a polynomial is 33, expected at most 32"):
        module.guards[0].check({"0": of(0, 33)})


def of_parameters(x, i):
    """What follows from parameters; no number of the loss is affected."""
    matrix = torch.diag(i.to(DOUBLE)) + 0 * x.detach()[:, :2]
    return x.sum() + torch.linalg.cholesky(matrix).nan_to_num(0.0).sum()


def test_what_the_step_computes_is_refused_before_it_writes():
    step = made(of_parameters, of(1.0, 2.0), mesh="data=1")
    step(of(1.0, 2.0))
    before = step.state_dict()
    with pytest.raises(
        StepRefusedError, match="the state of linalg.cholesky is out of range, expected 0"
    ):
        step(of(1.0, -2.0))
    assert torch.equal(step.state_dict()["weight"], before["weight"])
    step(of(1.0, 2.0))


def experts(x, i):
    """Classes that a top-k gives are in range; those of another number of classes may not be."""
    chosen = (x * torch.arange(3)).topk(2)[1]
    places = F.one_hot(chosen[..., 0], 3).sum() + F.one_hot(x.argmax(-1), 4).sum()
    return (x * i[:, None]).sum() + places


def below_the_number(x, i):
    return (x * i[:, None]).sum() + F.one_hot(x.topk(2)[1], 2).sum()


def written(x, i):
    """A place that a view has moved out of range is no place that the operator gave."""
    chosen = x.topk(2)[1]
    chosen[0].add_(1)
    return (x * i[:, None]).sum() + F.one_hot(chosen.clone(), 3).sum()


@pytest.mark.parametrize("loss, count", [(experts, 0), (below_the_number, 1), (written, 1)])
def test_places_that_an_operator_gives_need_no_check(loss, count):
    model = torch.nn.Embedding(2, 3, dtype=DOUBLE)
    module = export(
        model,
        lambda model, batch: loss(model(ROW), batch),
        torch.optim.SGD(model.parameters(), lr=0.1),
        of(1, 1),
    )
    assert sum(result.role == "check" for result in module.results) == count
