"""What `torch.utils.checkpoint` runs a second time draws the random numbers of the first time.

The truth is the same model without checkpoints, in eager: its masks are those that autograd saved.
"""

import copy

import pytest
import tandem
import torch
import torch.nn.functional as F
from comparing import compare
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)


class Block(nn.Module):
    """Two random operators around parameters, so that a second mask would give another gradient."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 12), nn.Linear(12, 6)

    def forward(self, x):
        y = F.dropout(self.first(x).tanh(), 0.3)
        return x + F.dropout(self.second(y).tanh(), 0.4) + 0.1 * torch.rand_like(x)


class Net(nn.Module):
    def __init__(self, run, depth=2):
        super().__init__()
        self.run = run
        self.start = nn.Linear(6, 6)
        self.blocks = nn.ModuleList(Block() for _ in range(depth))

    def forward(self, x):
        x = self.start(x)
        for block in self.blocks:
            x = F.dropout(self.run(block, x), 0.1)
        return x


def plain(block, x):
    return block(x)


def no_products(context, operator, *args, **kwargs):
    saved = operator in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
    return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE


def own_checkpoint(block, x):
    """As libraries write it: a Function that saves the generator's state."""

    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.state = torch.random.get_rng_state()
            ctx.save_for_backward(x)
            with torch.no_grad():
                return block(x)

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            now = torch.get_rng_state()
            torch.set_rng_state(ctx.state)
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                block(x).backward(gradient)
            torch.set_rng_state(now)
            return x.grad

    return Again.apply(x)


FORMS = {
    "not reentrant": lambda block, x: checkpoint(block, x, use_reentrant=False),
    "reentrant": lambda block, x: checkpoint(block, x, use_reentrant=True),
    "nested": lambda block, x: checkpoint(
        lambda y: checkpoint(block, y, use_reentrant=False), x, use_reentrant=False
    ),
    "sequential": lambda block, x: checkpoint_sequential(
        [block, nn.Tanh()], 2, x, use_reentrant=False
    ),
    "selective": lambda block, x: checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: create_selective_checkpoint_contexts(no_products),
    ),
    "own": own_checkpoint,
}


def loss_fn(model, batch):
    return model(batch).square().mean()


def batches(count, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(8, 6, generator=generator, dtype=dtype) for _ in range(count)]


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


@pytest.mark.parametrize("form", FORMS)
def test_captured_step_equals_eager_with_checkpoints(form):
    model = Net(FORMS[form]).double()
    module = compare(model, loss_fn, sgd(model), batches(2))
    # Each draw counts once: three of a block, and one behind it.
    assert len(module.random_calls) == 8


@pytest.mark.parametrize("form", FORMS)
def test_compiled_step_has_the_gradients_of_the_model_without_checkpoints(form):
    run = FORMS[form] if form != "sequential" else None
    if run is None:
        pytest.skip("it has a further layer")
    model = Net(run).double()
    twin = copy.deepcopy(model)
    twin.run = plain
    step = tandem.compile(
        model, loss_fn, sgd(model), batches(1)[0], mesh="data=2", micro=2, gradients=True, seed=7
    )
    optimizer = sgd(twin)
    for number, batch in enumerate(batches(2)):
        optimizer.zero_grad()
        with tandem.random.replay(7, number):
            loss = loss_fn(twin, batch)
        loss.backward()
        optimizer.step()
        assert abs(step(batch).item() - loss.item()) < 1e-12
        for name, gradient in step.gradients().items():
            torch.testing.assert_close(gradient, twin.get_parameter(name).grad, atol=1e-12, rtol=0)


def test_without_preserved_state_the_second_run_draws_anew_as_in_eager():
    model = Net(
        lambda block, x: checkpoint(block, x, use_reentrant=False, preserve_rng_state=False)
    ).double()
    module = compare(model, loss_fn, sgd(model), batches(2))
    assert len(module.random_calls) > 8


def test_statistics_of_a_checkpointed_normalisation_are_updated_twice_as_in_eager():
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6)).double()

    def loss_fn(model, batch):
        hidden = model[0](batch)
        return checkpoint(model[1], hidden, use_reentrant=False).square().mean()

    module = compare(model, loss_fn, sgd(model), batches(2))
    assert {r.name for r in module.results if r.role == "buffer"} >= {"1.running_mean"}


def test_a_backward_pass_in_a_hook_adds_to_gradients():
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)).double()

    def loss_fn(model, batch):
        hidden = model[0](batch)
        beside = model[1].weight.square().sum() + model[2].weight.square().sum()
        hidden.register_hook(lambda gradient: beside.backward())
        return model[1](hidden).square().mean()

    module = compare(model, loss_fn, sgd(model), batches(2))
    assert {r.name for r in module.results if r.role == "gradient"} >= {"1.weight", "2.weight"}


@pytest.mark.parametrize("of", ["activation", "parameter"])
def test_a_hook_sees_the_gradients_that_are_there(of):
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)).double()

    def grown(gradient):
        last = model[2].weight.grad
        return gradient if last is None else gradient * (1 + last.square().sum())

    if of == "parameter":
        model[0].weight.register_hook(grown)

    def loss_fn(model, batch):
        hidden = model[0](batch)
        if of == "activation":
            hidden.register_hook(grown)
        return model[2](model[1](hidden)).square().mean()

    compare(model, loss_fn, sgd(model), batches(2))


def test_another_draw_in_the_second_run_is_an_error():
    class Changing(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.runs = nn.Linear(6, 6), 0

        def forward(self, x):
            self.runs += 1
            noise = torch.rand(6) if self.runs == 1 else torch.rand(8, 1)
            return self.linear(x + noise).tanh()

    model = Changing().double()
    with pytest.raises(
        tandem.CaptureError, match=r"test_checkpoint.py:\d+: .*again.* \(8, 1\), expected \(6,\)"
    ):
        tandem.export(
            model,
            lambda m, b: checkpoint(m, b, use_reentrant=False).sum(),
            sgd(model),
            batches(1)[0],
        )


def test_generator_state_from_outside_is_an_error():
    model = nn.Linear(6, 6).double()
    state = torch.get_rng_state()

    def loss_fn(model, batch):
        torch.set_rng_state(state)
        return F.dropout(model(batch), 0.5).sum()

    with pytest.raises(tandem.CaptureError, match=r"test_checkpoint.py:\d+: .*set_rng_state"):
        tandem.export(model, loss_fn, sgd(model), batches(1)[0])
    assert torch.equal(torch.get_rng_state(), state)
