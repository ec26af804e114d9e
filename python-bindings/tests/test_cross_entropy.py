"""A cross entropy holds nothing of the size of its logits but these and their gradient, and is that of eager."""

import re
from math import prod

import pytest
import tandem
import torch
import torch.nn.functional as F
from tandem.session.compile import compile_module
from tandem.session.step import Step
from tandem.verify.verify import judge, make_subject, run_step
from test_memory import commands_of
from test_precision import OwnFile
from test_training import train_both
from torch import nn

ROWS, CLASSES, WIDTH = 4, 50, 6
WEIGHTS = torch.arange(CLASSES) % 5 + 0.5


def targets(*shape):
    """The second one of a row is not counted."""
    labels = torch.arange(prod(shape)).reshape(shape) * 7 % CLASSES
    return torch.where(torch.arange(prod(shape)).reshape(shape) % 8 == 1, -100, labels)


def _options(logits, weighted=False, **others):
    return others | ({"weight": WEIGHTS.to(logits.dtype)} if weighted else {})


def of_rows(**options):
    """Classes are the last dimension of the logits, and the second one of the loss."""

    def loss(logits):
        labels = targets(*logits.shape[:-1])
        each = F.cross_entropy(logits.movedim(-1, 1), labels, **_options(logits, **options))
        return each.square().mean() if each.dim() else each

    return loss


def of_log_softmax(view, **options):
    def loss(logits):
        scores = view(F.log_softmax(logits, -1))
        labels = targets(*scores.movedim(1, -1).shape[:-1])
        return F.nll_loss(scores, labels, **_options(logits, **options))

    return loss


# Positions of a row, and a loss of its logits.
CASES = {
    "mean": ((), of_rows()),
    "sum": ((), of_rows(reduction="sum")),
    "none": ((), of_rows(reduction="none")),
    "label smoothing": ((), of_rows(label_smoothing=0.1)),
    "weights": ((), of_rows(weighted=True)),
    "weights, sum": ((), of_rows(weighted=True, reduction="sum")),
    "weights, none": ((), of_rows(weighted=True, reduction="none")),
    "weights, label smoothing": ((), of_rows(weighted=True, label_smoothing=0.1)),
    "positions": ((3,), of_rows()),
    "positions, none": ((3,), of_rows(reduction="none")),
    "positions, label smoothing": ((3,), of_rows(label_smoothing=0.1)),
    "positions, weights": ((3,), of_rows(weighted=True)),
    "plane": ((2, 3), of_rows()),
    "plane, weights, none": ((2, 3), of_rows(weighted=True, reduction="none")),
    "space": ((2, 3, 2), of_rows()),
    "log-softmax": ((), of_log_softmax(lambda scores: scores)),
    "log-softmax, weights": ((), of_log_softmax(lambda scores: scores, weighted=True)),
    "log-softmax of positions": ((3,), of_log_softmax(lambda scores: scores.transpose(1, 2))),
    "log-softmax of all positions": ((3,), of_log_softmax(lambda scores: scores.flatten(0, 1))),
}


def _step(case):
    positions, loss = CASES[case]
    return lambda model, x: loss(model(x)), (ROWS, *positions, WIDTH)


def _model():
    return nn.Linear(WIDTH, CLASSES)


def _sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.5)


def _buffers_of_logits(case, **options):
    """Element types of the buffers that have as many elements as the logits."""
    (loss, shape), model = _step(case), _model()
    module = tandem.export(model, loss, _sgd(model.parameters()), torch.randn(shape), **options)
    text = compile_module(module, print_after=["lower"]).ir[-1][1]
    found = re.findall(r"sched\.alloc .*memref<([\dx]+)x(\w+)>", "\n".join(commands_of(text)))
    size = prod(shape[:-1]) * CLASSES
    return [kind for extents, kind in found if prod(map(int, extents.split("x"))) == size]


@pytest.mark.parametrize("case", CASES)
def test_of_the_size_of_logits_are_these_and_their_gradient(case):
    """The product, with its bias, and the gradient."""
    assert _buffers_of_logits(case) == ["f32"] * 3
    assert _buffers_of_logits(case, precision="bf16") == ["bf16"] * 3


def _train(case, **how):
    (loss, shape), model = _step(case), _model().double()
    batches = [torch.randn(shape).double() for _ in range(2)]
    train_both(model, loss, _sgd(model.parameters()), batches, **how)


@pytest.mark.parametrize("case", CASES)
def test_trains_as_eager(case):
    _train(case, mesh="data=2", plan="zero", micro=2)


@pytest.mark.parametrize("case", ["weights", "positions", "log-softmax of positions"])
def test_trains_with_classes_split_as_eager(case):
    _train(case, mesh="model=2", plan="replicate", pins=[tandem.pin("*", model="gather(0)")])


@pytest.mark.parametrize("case", CASES)
def test_trains_in_bf16_as_under_autocast(case):
    loss, shape = _step(case)
    subject = make_subject(OwnFile(_model, loss, shape, _sgd))
    compiled = compile_module(subject.module, mesh="data=2", micro=2)
    step = Step(subject.module, compiled.bytes, subject.model, subject.optimizer)
    assert not [row for row in judge(subject, run_step(step, subject.batches)) if not row.passed]
