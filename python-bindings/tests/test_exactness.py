"""Below float64 `verify` asks for the exactness of eager: what that still finds, and what it leaves alone."""

import matrix
import pytest
import tandem
import torch
import torch.nn.functional as F
from matrix import Case
from tandem.capture.model_file import ModelFile
from tandem.session.compile import compile_module
from tandem.session.step import Step
from tandem.verify.compare import FLOOR, MANY, compare
from tandem.verify.verify import judge, make_subject, reference_steps, run_step
from torch import nn


def run(subject, **options):
    compiled = compile_module(subject.module, **options)
    step = Step(subject.module, compiled.bytes, subject.model, subject.optimizer)
    return run_step(step, subject.batches)


def failed(rows):
    return [f"{row.kind} {row.name}" for row in rows if not row.passed]


# (factor, elements, floor): a gradient of at least so many elements, and above so many times the largest
# one, fails when it is scaled. In float32 also below the floor of the tolerance; in bfloat16 an eighth is
# what rounding leaves of it, and few elements leave more to chance.
SCALES = {
    "float32": [(1.001, 1, 0.1 * FLOOR)],
    "bfloat16": [(1.25, MANY, FLOOR), (2.0, 16, FLOOR)],
}


def _large(gradients, elements, floor):
    largest = max(g.abs().max().item() for g in gradients.values())
    return {
        name
        for name, g in gradients.items()
        if g.numel() >= elements and g.abs().max() > floor * largest
    }


@pytest.mark.parametrize("variant,dtype", [("gpt", "float32"), ("vit_moe switch", "bfloat16")])
def test_every_scaled_gradient_fails(variant, dtype):
    subject = matrix.subject_of(Case(variant, dtype=dtype), steps=1)
    found = run(subject)
    assert not failed(judge(subject, found))
    expected, twins = next(reference_steps(subject, found))
    right = dict(found.gradients[0])
    for factor, elements, floor in SCALES[dtype]:
        tried = _large(expected.gradients[0], elements, floor)
        assert len(tried) >= 10
        found.gradients[0] |= {name: right[name] * factor for name in tried}
        rows = compare(found, expected, subject.training, False, twins)
        assert not tried & {row.name for row in rows if row.kind == "gradient" and row.passed}


class Sequences(nn.Module):
    """The gradient of `a.bias`, before a batch normalisation, is zero in exact arithmetic; so is, often,
    that of `b.bias`: a sum of signs. Adam makes steps of the learning rate of what rounding leaves."""

    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(6, 10), nn.BatchNorm1d(10), nn.Linear(10, 2)

    def forward(self, x):
        return self.b(torch.relu(self.norm(self.a(x).transpose(1, 2))).transpose(1, 2))


class Contrastive(nn.Module):
    """A constant added to all similarities changes no loss."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(10, 6), nn.Linear(10, 6)
        self.scale, self.bias = nn.Parameter(torch.ones(())), nn.Parameter(torch.zeros(()))

    def forward(self, x):
        left, right = F.normalize(self.left(x), dim=1), F.normalize(self.right(x.flip(1)), dim=1)
        return left @ right.T * self.scale.exp() + self.bias


class _InMemory(ModelFile):
    """A model file without a file."""

    def __init__(self, model, loss, rate, shapes, dtype, seed):
        self.dtype, self.loss_fn, self.rate = dtype, loss, rate
        self.make, self.shapes, self.first_seed = model, shapes, seed

    loss = property(lambda self: self.loss_fn)

    def build(self, seed=0, meta=False):
        torch.manual_seed(self.first_seed)
        return self.make().to(self.dtype)

    def make_optimizer(self, model):
        return torch.optim.Adam(model.parameters(), lr=self.rate)

    def batches(self, count):
        generator = torch.Generator().manual_seed(self.first_seed)
        return [
            tuple(torch.randn(s, generator=generator).to(self.dtype) for s in self.shapes)
            for _ in range(count)
        ]


def absolute_loss(model, batch):
    return F.l1_loss(model(batch[0]), batch[1])


def contrastive_loss(model, batch):
    return F.cross_entropy(model(batch[0]), torch.arange(len(batch[0])))


MODELS = {
    "sequences": (Sequences, absolute_loss, 1e-2, [(8, 3, 6), (8, 3, 2)]),
    "contrastive": (Contrastive, contrastive_loss, 1e-2, [(16, 10)]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_that_are_only_rounding_are_no_alarm(name, dtype):
    for seed in range(2):
        subject = make_subject(_InMemory(*MODELS[name], dtype, seed))
        for micro in (1, 2):
            assert not failed(judge(subject, run(subject, mesh="data=2", micro=micro)))


def test_steps_go_on_from_tandems_values():
    """A wrong value is found in the step that left it, and in the one that did not start from it."""
    subject = make_subject(_InMemory(*MODELS["contrastive"], torch.float32, 0))
    found = run(subject)
    found.after(0).parameters["left.weight"][0, 0] += 0.5
    wrong = failed(judge(subject, found))
    assert {"parameter left.weight", "loss step 1"} <= set(wrong)
    assert not {"loss step 0", "loss step 2"} & set(wrong)


def test_what_follows_from_integers_alone_is_as_exact_as_they_are():
    """Such as slopes of alibi in bfloat16; what follows from parameters is not."""

    def precision(loss):
        model = torch.nn.Linear(4, 4).double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        batch = (torch.ones(4, 4, dtype=torch.float64), torch.ones(4, 4, dtype=torch.int64))
        return tandem.export(model, loss, optimizer, batch).precision

    def slopes(model, batch):
        return (model(batch[0]) + (batch[1].bfloat16() * 0.3).double()).square().mean()

    def rounded(model, batch):
        return model(batch[0]).bfloat16().double().square().mean()

    assert precision(slopes) == torch.float64
    assert precision(rounded) == torch.bfloat16
