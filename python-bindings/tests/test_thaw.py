"""Parameters that freeze and thaw, and that have not all taken as many steps, against torch.optim, which counts per
parameter."""

import copy

import pytest
import tandem
import torch
from test_models import mse, regression, small
from test_optimizers import states_are_equal
from test_training import HOW
from torch import nn
from torch import optim as o

KINDS = {
    "adamw": lambda p: o.AdamW(p, lr=0.05),
    "dampening": lambda p: o.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    "rmsprop": lambda p: o.RMSprop(p, lr=0.01, momentum=0.9),
    "nadam": lambda p: o.NAdam(p, lr=0.05),
}


@pytest.fixture(autouse=True)
def scalars_in_float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


class Pair:
    def __init__(self, kind, frozen=(), stepped=(), **how):
        self.model = small(nn.Tanh(), nn.Linear(8, 8), nn.Tanh())
        self.twin = copy.deepcopy(self.model)
        self.optimizer, self.eager = (KINDS[kind](m.parameters()) for m in (self.model, self.twin))
        for layers in stepped:  # in eager, before there is a step
            for model, optimizer in ((self.model, self.optimizer), (self.twin, self.eager)):
                self.freeze(layers, model)
                self.train_eager(model, optimizer, (torch.ones(8, 6), torch.ones(8, 1)))
        for model in (self.model, self.twin):
            self.freeze(frozen, model)
        self.step = tandem.compile(self.model, mse, self.optimizer, regression(1)[0], **how)

    def freeze(self, layers, *models):
        for model in models or (self.model, self.twin):
            for index in (0, 2, 4):
                model[index].requires_grad_(index not in layers)

    @staticmethod
    def train_eager(model, optimizer, batch):
        optimizer.zero_grad()
        loss = mse(model, batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def train(self, count=2):
        for batch in regression(count):
            found = self.step(batch)
            torch.testing.assert_close(
                found, self.train_eager(self.twin, self.eager, batch), rtol=1e-9, atol=0
            )
            for name, value in self.twin.state_dict().items():
                torch.testing.assert_close(
                    self.step.state_dict()[name], value, rtol=1e-8, atol=1e-11
                )
        states_are_equal(self.step, self.eager)


@pytest.mark.sample(3)
@pytest.mark.parametrize("how", ["one", "zero"])
@pytest.mark.parametrize("kind", KINDS)
def test_freezing_and_thawing(kind, how):
    pair = Pair(kind, frozen=[0], **HOW[how])
    pair.train()
    for frozen in ([], [2], [0, 2], []):
        pair.freeze(frozen)
        pair.train()


@pytest.mark.parametrize("kind", KINDS)
def test_other_numbers_of_steps_at_the_begin(kind):
    pair = Pair(kind, stepped=[[0], [0, 2], []])
    pair.train()
    pair.freeze([4])
    pair.train()
    pair.freeze([])
    pair.train()


@pytest.mark.parametrize("kind", KINDS)
def test_loading_other_numbers_of_steps(kind):
    pair = Pair(kind, stepped=[[0], []])
    other = Pair(kind, frozen=[0])
    other.train(3)
    pair.twin.load_state_dict(other.step.state_dict())
    state = other.step.optimizer_state_dict()
    pair.eager.load_state_dict(state)
    pair.step.load_state_dict(other.step.state_dict(), state)
    pair.train()


@pytest.mark.parametrize("kind", KINDS)
def test_loading_while_frozen(kind):
    pair = Pair(kind)
    pair.train()
    model, state = copy.deepcopy(pair.step.state_dict()), pair.step.optimizer_state_dict()
    eager = copy.deepcopy(pair.eager.state_dict())
    pair.freeze([0])
    pair.train()
    pair.step.load_state_dict(model, state)
    pair.twin.load_state_dict(model)
    pair.eager.load_state_dict(eager)
    pair.train()
    pair.freeze([])
    pair.train()


def test_state_of_a_frozen_parameter():
    """Is not left out, as the parameter would begin anew when it thaws."""
    pair, other = Pair("adamw"), Pair("adamw", frozen=[2])
    pair.train()
    before = other.step.state_dict()
    with pytest.raises(
        tandem.StateError, match=r"has state 'exp_avg' of parameter '2\.weight'.* thaw it before"
    ):
        other.step.load_state_dict(pair.step.state_dict(), pair.step.optimizer_state_dict())
    assert all(torch.equal(value, before[n]) for n, value in other.step.state_dict().items())


def test_phases_of_steps_keep_the_state_of_what_is_frozen():
    """As one optimizer does in eager: in the torch objects, in state dicts, and in another optimizer."""
    pair = Pair("adamw", mesh="data=2", plan="zero")
    for frozen in ([0], []):
        pair.train()
        pair.step.sync_to(pair.model, pair.optimizer)
        pair.freeze(frozen)
        pair.step = tandem.compile(pair.model, mse, pair.optimizer, regression(1)[0], mesh="data=2")
        other = KINDS["adamw"](pair.twin.parameters())
        pair.step.sync_to(optimizer=other)
        assert [len(o.state_dict()["state"]) for o in (other, pair.eager)] == [6, 6]
        states_are_equal(pair.step, other)
        pair.step.load_state_dict(pair.step.state_dict(), pair.step.optimizer_state_dict())
    pair.train()


class Sometimes(nn.Module):
    """One layer for long batches, another one for short ones, and one that nothing uses."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.unused = nn.Linear(6, 8), nn.Linear(8, 1), nn.Linear(3, 3)
        self.long, self.short = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        hidden = self.first(x).tanh()
        hidden = (self.long if x.shape[1] > 4 else self.short)(hidden)
        return self.last(hidden.tanh())


@pytest.mark.sample(3)
@pytest.mark.parametrize("how", ["one", "zero"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_in_some_batches_only(kind, how):
    model = Sometimes()
    twin = copy.deepcopy(model)
    optimizer, eager = (KINDS[kind](m.parameters()) for m in (model, twin))
    batches = [(torch.randn(8, n, 6), torch.randn(8, n, 1)) for n in (3, 5, 3, 3, 5, 3)]
    step = tandem.compile(model, mse, optimizer, batches[0], **HOW[how])
    for batch in batches:
        found = step(batch)
        expected = Pair.train_eager(twin, eager, batch)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=0)
        for name, value in twin.state_dict().items():
            torch.testing.assert_close(step.state_dict()[name], value, rtol=1e-8, atol=1e-11)
    states_are_equal(step, eager)


def test_many_programs_for_counts_are_told():
    """At the line that trains."""
    model = Sometimes()
    step = tandem.compile(
        model, mse, o.AdamW(model.parameters()), (torch.randn(8, 3, 6), torch.randn(8, 3, 1))
    )
    with pytest.warns(
        UserWarning, match="parameter '(long|short).* has a gradient in some"
    ) as told:
        for turn in range(12):
            step((torch.randn(8, 3 + 2 * (turn % 2), 6), torch.randn(8, 3 + 2 * (turn % 2), 1)))
    assert [warning.filename for warning in told] == [__file__]


def followed(pair, other):
    """`other` goes on where the eager twin of `pair` is."""
    other.twin, other.eager = pair.twin, pair.eager
    return other


@pytest.mark.parametrize("kind", KINDS)
def test_counts_of_a_checkpoint(tmp_path, kind):
    """Parameters that have taken fewer steps than others go on with their own."""
    pair = Pair(kind, frozen=[0])
    pair.train()
    pair.freeze([])
    pair.train(1)
    pair.step.save(tmp_path)
    other = followed(pair, Pair(kind))
    other.step.load(tmp_path)
    other.train()


@pytest.mark.sample(3)
@pytest.mark.parametrize("how", ["one", "zero"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_of_a_frozen_phase(tmp_path, kind, how):
    pair = Pair(kind, frozen=[0, 2], **HOW[how])
    pair.train()
    pair.step.save(tmp_path)
    other = followed(pair, Pair(kind, **HOW[how]))
    words = "was saved when '0.bias', '0.weight', '2.bias' and 1 more did not train; what the optim"
    with pytest.warns(UserWarning, match=words) as told:
        other.step.load(tmp_path)
    assert [w.filename for w in told] == [__file__]
    pair.freeze([])
    other.train()


def test_a_checkpoint_of_an_optimizer_of_fewer_parameters(tmp_path):
    """As where the first phase gives the optimizer only what it trains; later it gets a group of the rest."""
    pair = Pair("adamw")

    def optimizer_of(model, *layers):
        return o.AdamW([{"params": model[i].parameters(), "lr": lr} for i, lr in layers])

    def compile_step(*layers):
        pair.model = small(nn.Tanh(), nn.Linear(8, 8), nn.Tanh())
        pair.optimizer = optimizer_of(pair.model, *layers)
        pair.step = tandem.compile(pair.model, mse, pair.optimizer, regression(1)[0])

    compile_step((4, 0.05))
    pair.step.load(model=pair.twin)
    pair.eager = optimizer_of(pair.twin, (4, 0.05))
    pair.train()
    pair.step.save(tmp_path)
    compile_step((0, 0.01), (2, 0.02), (4, 0.07))
    with pytest.warns(UserWarning, match="did not train"):
        pair.step.load(tmp_path)
    assert [g["lr"] for g in pair.optimizer.param_groups] == [0.01, 0.02, 0.05]
    state, before = pair.eager.state, pair.eager
    pair.eager = optimizer_of(pair.twin, (0, 0.01), (2, 0.02), (4, 0.05))
    pair.eager.state.update(state)
    assert len(before.state) == 2
    pair.train()
    pair.step.save(tmp_path)
    compile_step((4, 0.05))
    with pytest.raises(tandem.CheckpointError, match="group 0 has '0.weight' where '4.weight'"):
        pair.step.load(tmp_path)
