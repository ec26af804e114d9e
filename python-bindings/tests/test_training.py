"""Training through compiled Programs, against eager PyTorch: what the tests of records (`test_models.py`) show
of the capture, shown of what runs. Ranks and microbatches get unequal shares of what a loss counts.
"""

import copy
import re

import pytest
import tandem
import torch
import torch.nn.functional as F
from comparing import eager_step
from tandem.session.compile import compile_module
from test_models import OPTIMIZERS, contrastive, mse, normal, regression, small
from torch import nn

# One device; two ranks that share the state, in strands; four ranks.
HOW = {
    "one": {},
    "zero": dict(mesh="data=2", plan="zero", micro=2),
    "four": dict(mesh="data=4", plan="data-parallel"),
}


def train_both(
    model,
    loss_fn,
    optimizer,
    batches,
    before_step=lambda *_: None,
    before_update=lambda *_: None,
    **how,
):
    """Trains a copy of the model in eager and the model by a Program. After every step, losses, gradients and
    parameters are equal within 1e-9; Adam is tested on gradients that are not zero. `before_update` is called with
    the step and the copy, which has its gradients.
    """
    twin, state = copy.deepcopy(model), copy.deepcopy(optimizer.state_dict())
    names = {id(p): name for name, p in model.named_parameters()}
    theirs = dict(twin.named_parameters())
    groups = [
        group | {"params": [theirs[names[id(p)]] for p in group["params"]]}
        for group in optimizer.param_groups
    ]
    eager = type(optimizer)(groups, lr=1.0)
    eager.load_state_dict(state)
    step = tandem.compile(model, loss_fn, optimizer, batches[0], gradients=True, **how)
    for number, batch in enumerate(batches):
        before_step(number, optimizer)
        before_step(number, eager)
        found = step(batch)
        twin.zero_grad()
        loss = loss_fn(twin, batch)
        loss.backward()
        before_update(step, twin)
        eager.step()
        _assert_close({"loss": found}, {"loss": loss.detach()}, f"step {number}")
        gradients = {n: p.grad for n, p in twin.named_parameters() if p.grad is not None}
        _assert_close(step.gradients(), gradients, f"step {number}, gradient")
        _assert_close(step.state_dict(), twin.state_dict(), f"step {number}")
    return step, eager


def _assert_close(found, expected, what):
    assert set(found) == set(expected), what
    for name, value in expected.items():
        torch.testing.assert_close(
            found[name], value, rtol=1e-9, atol=1e-10, msg=lambda m, n=name: f"{what} {n}: {m}"
        )


@pytest.mark.sample(11)
@pytest.mark.parametrize("how", ["one", "zero"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name, how):
    model = small(nn.Tanh())
    optimizer = OPTIMIZERS[name](model.parameters())
    step, eager = train_both(model, mse, optimizer, regression(4), **HOW[how])
    found, expected = step.optimizer_state_dict(), eager.state_dict()
    for index, state in expected["state"].items():
        for key, value in state.items():
            if value is not None:
                torch.testing.assert_close(
                    torch.as_tensor(found["state"][index][key]),
                    value,
                    rtol=1e-9,
                    atol=1e-12,
                    check_dtype=False,
                )


OVER_TWO_AXES = re.compile(r"spmd\.(\w+) .* over \[\"data\", \"model\"\]")
# plan, microbatches, what is split over a second axis, which collectives that gives: parameters and the batch are, so
# that no plan can do without
TWO_AXES = [
    ("data-parallel", 2, ["[01]"], {"all_reduce"}),
    ("zero", 1, ["[01]", "*.bias"], {"all_gather", "reduce_scatter"}),
    ("zero", 2, ["[01]", "*.bias"], {"all_gather", "reduce_scatter", "all_reduce"}),
    ("zero", 2, ["[01]", "*.weight"], {"all_reduce", "reduce_scatter"}),
]


@pytest.mark.parametrize("plan,micro,split,kinds", TWO_AXES)
def test_collectives_over_two_axes(plan, micro, split, kinds):
    """Axes of different sizes: to forget one, or to take one twice, gives another number."""
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 6)).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    batches = [(normal(12, 6), normal(12, 6)) for _ in range(3)]
    pins = [tandem.pin(glob, model="gather(0)") for glob in split]
    how = dict(mesh="data=2,model=3", plan=plan, micro=micro, pins=pins)
    module = tandem.export(model, mse, optimizer, batches[0])
    (_, text), *_ = compile_module(module, stop_after="localize", **how).ir
    assert kinds <= set(OVER_TWO_AXES.findall(text))
    train_both(model, mse, optimizer, batches, **how)


# One group's rate rises while the other's falls: a rate that is read once, or from another group, is seen.
RATES = [(0.1, 0.01), (0.05, 0.02), (0.0, 0.04), (0.2, 0.0), (0.01, 0.08)]


def _set_rates(number, optimizer):
    for group, rate in zip(optimizer.param_groups, RATES[number], strict=True):
        group["lr"] = rate


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_rates_of_every_group_change_between_steps(kind, how):
    model = small(nn.Tanh(), nn.Linear(8, 8), nn.Tanh())
    # Groups that are not in the order of the model, of one and of many tensors.
    groups = [
        dict(params=[model[4].weight, model[0].bias, model[2].weight], lr=1.0),
        dict(params=[model[0].weight, model[2].bias, model[4].bias], lr=1.0),
    ]
    train_both(model, mse, kind(groups), regression(len(RATES)), before_step=_set_rates, **HOW[how])


def test_a_scheduler_of_every_group():
    model = small(nn.Tanh())
    groups = [dict(params=layer.parameters(), lr=0.1) for layer in (model[0], model[2])]
    optimizer = torch.optim.SGD(groups)
    schedulers = {}

    def advance(number, optimizer):
        factors = [lambda n: 0.5**n, lambda n: 1 / (1 + n)]
        if number == 0:
            schedulers[id(optimizer)] = torch.optim.lr_scheduler.LambdaLR(optimizer, factors)
            optimizer.step()  # of no gradients: a scheduler wants to follow a step
        else:
            schedulers[id(optimizer)].step()

    train_both(model, mse, optimizer, regression(4), before_step=advance, **HOW["zero"])


# Views that products read in place, and write through; w is the weight, 8x8.
PRODUCTS = {
    "rows with a step": lambda x, w: x[1::2] @ w,
    "rows from the third": lambda x, w: x[2:6] @ w[:, 1:5],
    "rows of the weight with a step": lambda x, w: x[:, :3] @ w[2::2],
    "columns with a step": lambda x, w: x @ w[:, 1::3],
    "transposed": lambda x, w: x.t() @ w.t(),
    "scaled left": lambda x, w: (x * 0.25) @ w,
    "scaled right": lambda x, w: x @ (w * 0.25),
    "scaled transposed": lambda x, w: x @ (w.t() * -3.0),
    "scaled result": lambda x, w: (x @ w) * 0.5,
    "heads": lambda x, w: (x.view(8, 2, 4).transpose(0, 1) @ w.view(2, 4, 8) * 0.5).transpose(0, 1),
    "expanded": lambda x, w: x[:, None, :].expand(8, 3, 8) @ w,
    "rows of a batch with a step": lambda x, w: x.view(2, 4, 8)[:, 1::2] @ w,
}


@pytest.mark.parametrize("how", ["one", "zero"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_views(name, how):
    class Product(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(0.1 * normal(8, 8))
            self.before = nn.Linear(8, 8)

        def forward(self, x):
            return PRODUCTS[name](self.before(x), self.weight)

    model = Product().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = [normal(8, 8) for _ in range(2)]
    train_both(model, lambda m, x: m(x).exp().mean(), optimizer, batches, **HOW[how])


def masked_tokens(model, batch):
    """Mean over the tokens that a mask keeps."""
    each = F.cross_entropy(model(batch["x"]).transpose(1, 2), batch["y"], reduction="none")
    return (each * batch["mask"]).sum() / batch["mask"].sum()


def ignored_tokens(model, batch):
    labels = torch.where(batch["mask"], batch["y"], -100)
    return F.cross_entropy(model(batch["x"]).flatten(0, 1), labels.flatten())


def selected_tokens(model, batch):
    """The mask in the model's output, and a maximum over it."""
    scores = model(batch["x"]).masked_fill(~batch["mask"][..., None], -1e4)
    return scores.amax(dim=1).logsumexp(dim=-1).mean()


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("loss", [masked_tokens, ignored_tokens, selected_tokens])
def test_losses_over_masks(loss, how):
    """Every row keeps another number of tokens, so that a mean of the ranks' means is wrong."""
    model = nn.Sequential(nn.Embedding(11, 6), nn.Linear(6, 11)).double()
    length = torch.tensor([1, 5, 2, 4, 5, 1, 3, 2])
    batches = [
        dict(
            x=torch.randint(0, 11, (8, 5)),
            y=torch.randint(0, 11, (8, 5)),
            mask=torch.arange(5) < length.roll(number)[:, None],
        )
        for number in range(3)
    ]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    train_both(model, loss, optimizer, batches, **HOW[how])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 1)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, :]))


@pytest.mark.parametrize("how", HOW)
def test_attention_over_masks(how):
    def loss(model, batch):
        x, mask = batch
        return (model(x, mask)[..., 0].square() * mask).sum() / mask.sum()

    length = torch.tensor([1, 5, 2, 4, 5, 1, 3, 2])
    batches = [
        (normal(8, 5, 8), torch.arange(5) < length.roll(number)[:, None]) for number in range(3)
    ]
    model = Attention().double()
    train_both(model, loss, torch.optim.SGD(model.parameters(), lr=0.1), batches, **HOW[how])


@pytest.mark.parametrize("how", HOW)
def test_a_loss_over_pairs_of_the_batch(how):
    class Towers(nn.Module):
        def __init__(self):
            super().__init__()
            self.image, self.text = nn.Linear(6, 5), nn.Linear(4, 5)

        def forward(self, a, b):
            return F.normalize(self.image(a), dim=-1) @ F.normalize(self.text(b), dim=-1).T * 3

    model = Towers().double()
    batches = [{"image": normal(8, 6), "text": normal(8, 4)} for _ in range(3)]
    train_both(model, contrastive, torch.optim.SGD(model.parameters(), lr=0.5), batches, **HOW[how])


def _sum_of_squares(model, batch):
    return model(batch).square().sum()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("value,word", [("nan", "nan"), ("inf", "inf"), ("-inf", "inf")])
def test_a_loss_that_is_not_finite_is_refused_whatever_it_is(value, word, dtype):
    """Of each kind; a sum of them, with its own sign."""
    model = nn.Linear(4, 2).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss(model, batch):
        return (model(batch[0]) * 0).sum() + batch[1].sum()

    batch = (torch.ones(4, 4, dtype=dtype), torch.ones(4, dtype=dtype))
    step = tandem.compile(model, loss, optimizer, batch, mesh="data=2")
    step(batch)
    before = step.state_dict()
    for row in range(4):
        bad = batch[1].clone()
        bad[row] = float(value)
        with pytest.raises(tandem.NonFiniteLossError, match=f"loss is {word}"):
            step((batch[0], bad))
    for name, tensor in step.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    step(batch)


def test_a_loss_that_overflows_is_refused():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.ones(4, 4)
    step = tandem.compile(model, _sum_of_squares, optimizer, batch, mesh="data=2")
    step(batch)
    with pytest.raises(tandem.NonFiniteLossError, match="loss is inf"):
        step(batch * 1e30)


def test_a_backward_pass_within_the_loss_adds_to_gradients():
    def loss(model, batch):
        (0.5 * F.mse_loss(model(batch), batch)).backward()
        return F.mse_loss(model(batch), batch)

    torch.manual_seed(0)
    models = [nn.Linear(6, 6).double() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    batch = torch.randn(8, 6).double()
    step = tandem.compile(models[0], loss, optimizers[0], batch)
    for _ in range(3):
        expected = eager_step(models[1], loss, optimizers[1], batch)
        torch.testing.assert_close(step(batch), expected, rtol=1e-12, atol=0)
