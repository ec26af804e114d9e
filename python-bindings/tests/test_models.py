"""Models that are not among the examples: odd architectures, losses that couple the batch, odd
optimizers.
"""

import pytest
import tandem
import torch
import torch.nn.functional as F
from comparing import compare
from torch import nn


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def regression(count=3, batch=8, width=6):
    return [(normal(batch, width), normal(batch, 1)) for _ in range(count)]


def mse(model, batch):
    return F.mse_loss(model(batch[0]), batch[1])


def small(*middle, width=6):
    return nn.Sequential(nn.Linear(width, 8), *middle, nn.Linear(8, 1)).double()


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "dampening": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3),
    "maximize": lambda p: torch.optim.SGD(p, lr=0.01, maximize=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adam-decay": lambda p: torch.optim.Adam(
        p, lr=0.01, weight_decay=0.1, betas=(0.8, 0.9), eps=1e-6
    ),
    "adam-maximize": lambda p: torch.optim.Adam(p, lr=0.01, maximize=True),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "adamw-amsgrad": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True, weight_decay=0.3),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name):
    model = small(nn.Tanh())
    compare(model, mse, OPTIMIZERS[name](model.parameters()), regression(4))


@pytest.mark.parametrize("name", ["momentum", "dampening", "amsgrad", "adamw"])
def test_optimizer_that_has_stepped(name):
    model = small(nn.Tanh())
    optimizer = OPTIMIZERS[name](model.parameters())
    for batch in regression(3):
        optimizer.zero_grad()
        mse(model, batch).backward()
        optimizer.step()
    module = compare(model, mse, optimizer, regression(3))
    start = {a.name: a.value for a in module.arguments if a.role == "step"}["step"]
    assert int(start) == (1 if name in ("momentum", "dampening") else 3)


def test_gradient_hooks_of_parameters():
    model = small(nn.Tanh())
    for parameter in model.parameters():
        parameter.register_hook(lambda g: g.clamp(-1e-3, 1e-3))
    compare(model, mse, torch.optim.SGD(model.parameters(), lr=0.5), regression())


@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm(affine):
    model = small(nn.BatchNorm1d(8, affine=affine), nn.ReLU())
    module = compare(model, mse, torch.optim.Adam(model.parameters()), regression())
    updated = {r.name for r in module.results if r.role == "buffer"}
    assert updated == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}


def test_batch_norm_in_evaluation():
    model = small(nn.BatchNorm1d(8).eval(), nn.ReLU())
    module = compare(model, mse, torch.optim.Adam(model.parameters()), regression())
    assert not any(r.role == "buffer" for r in module.results)


def test_group_norm_and_instance_statistics():
    model = small(nn.GroupNorm(2, 8), nn.SiLU())
    compare(model, mse, torch.optim.Adam(model.parameters()), regression())


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = nn.Linear(6, 5), nn.Linear(4, 5)
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, a, b):
        a, b = F.normalize(self.image(a), dim=-1), F.normalize(self.text(b), dim=-1)
        return self.scale.exp() * a @ b.T


def contrastive(model, batch):
    logits = model(batch["image"], batch["text"])
    labels = torch.arange(len(logits))
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2


def test_contrastive():
    model = TwoTowers().double()
    batches = [{"image": normal(8, 6), "text": normal(8, 4)} for _ in range(3)]
    compare(model, contrastive, torch.optim.AdamW(model.parameters()), batches)


def test_mean_over_masked_tokens():
    def loss(model, batch):
        mask = batch["mask"]
        each = F.cross_entropy(model(batch["x"]).transpose(1, 2), batch["y"], reduction="none")
        return (each * mask).sum() / mask.sum()

    model = nn.Sequential(nn.Embedding(11, 6), nn.Linear(6, 11)).double()
    batches = [
        dict(
            x=torch.randint(0, 11, (4, 5)),
            y=torch.randint(0, 11, (4, 5)),
            mask=torch.rand(4, 5) < 0.6,
        )
        for _ in range(3)
    ]
    compare(model, loss, torch.optim.Adam(model.parameters()), batches)


def test_parameter_groups_and_frozen_and_unused_parameters():
    model = nn.ModuleDict(
        dict(a=nn.Linear(6, 6), b=nn.Linear(6, 1), unused=nn.Linear(3, 3), frozen=nn.Linear(6, 6))
    )
    model = model.double()
    model["frozen"].requires_grad_(False)
    groups = [
        dict(params=model["a"].parameters(), lr=0.02, weight_decay=0.1),
        dict(params=[*model["b"].parameters(), *model["unused"].parameters()], betas=(0.5, 0.9)),
    ]

    def loss(model, batch):
        return F.mse_loss(model["b"](torch.relu(model["frozen"](model["a"](batch[0])))), batch[1])

    module = compare(model, loss, torch.optim.AdamW(groups, lr=0.01), regression())
    states = {a.of for a in module.arguments if a.role == "state"}
    assert states == {"a.weight", "a.bias", "b.weight", "b.bias"}
    numbers = [f"{group}{name}" for group in (0, 1) for name in ("", ".eps.0", ".weight_decay.0")]
    assert [a.name for a in module.arguments if a.role == "learning_rate"] == numbers
    assert not any(
        r.role == "parameter" and r.name.startswith(("unused", "frozen")) for r in module.results
    )


def test_learning_rate_is_an_argument():
    from evaluator import run_step

    model = small(nn.Tanh())
    module = tandem.export(
        model, mse, torch.optim.SGD(model.parameters(), lr=0.5), regression(1)[0]
    )
    values = module.values() | module.inputs(regression(1)[0])
    values["learning_rate/0"] = torch.tensor(0.0, dtype=torch.float64)
    for result, tensor in run_step(module.step, values):
        if result.role == "parameter":
            assert torch.equal(tensor, values[f"parameter/{result.name}"])


def test_tied_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(9, 6), nn.Linear(6, 9, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, x):
            return self.head(torch.tanh(self.embed(x)))

    model = Tied().double()
    batches = [(torch.randint(0, 9, (4, 3)), torch.randint(0, 9, (4, 3))) for _ in range(3)]

    def loss(model, batch):
        return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())

    module = compare(model, loss, torch.optim.Adam(model.parameters()), batches)
    (argument,) = [a for a in module.arguments if a.role == "parameter"]
    assert (argument.name, argument.aliases) == ("embed.weight", ("head.weight",))
    assert 'nn.aliases = ["head.weight"]' in module.mlir


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.Linear(10, 4), nn.Linear(4, 1)

    def forward(self, x):
        state = x.new_zeros(x.shape[0], 4)
        for t in range(x.shape[1]):
            state = torch.tanh(self.cell(torch.cat([x[:, t], state], dim=1)))
        return self.out(state)


def test_recurrent_loop():
    model = Recurrent().double()
    batches = [(normal(4, 5, 6), normal(4, 1)) for _ in range(3)]
    compare(model, mse, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), batches)


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_recurrent_layers(kind):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.out = kind(6, 4, num_layers=2, batch_first=True), nn.Linear(4, 1)

        def forward(self, x):
            return self.out(self.layer(x)[0][:, -1])

    model = Model().double()
    batches = [(normal(4, 3, 6), normal(4, 1)) for _ in range(2)]
    compare(model, mse, torch.optim.SGD(model.parameters(), lr=0.1), batches)


def test_transformer_encoder_of_torch():
    model = nn.Sequential(
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Linear(8, 1)
    ).double()

    def loss(model, batch):
        return F.mse_loss(model(batch[0]).mean(dim=1), batch[1])

    compare(
        model,
        loss,
        torch.optim.Adam(model.parameters()),
        [(normal(4, 5, 8), normal(4, 1)) for _ in range(2)],
    )


def test_boolean_attention_mask():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(8, 24)

        def forward(self, x, mask):
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            return F.scaled_dot_product_attention(
                q, k, v, attn_mask=mask[:, None, :], dropout_p=0.2
            )

    def loss(model, batch):
        x, mask = batch
        return model(x, mask).square().mean()

    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[1, 3:] = False
    mask[2, :] = False
    model = Model().double()
    compare(
        model,
        loss,
        torch.optim.Adam(model.parameters()),
        [(normal(4, 5, 8), mask) for _ in range(2)],
    )


class Shared(nn.Module):
    """One module under two names, and one three times in a list."""

    def __init__(self):
        super().__init__()
        self.left = nn.Linear(6, 6)
        self.right = self.left
        self.layers = nn.ModuleList([nn.BatchNorm1d(6)] * 3)

    def forward(self, x):
        x = self.left(x) * self.right(x.roll(1, 0))
        for layer in self.layers:
            x = layer(torch.tanh(x))
        return x


def test_shared_modules():
    model = Shared().double()
    before = {id(t) for t in (*model.parameters(), *model.buffers())}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tandem.export(model, lambda m, x: m(x).square().mean(), optimizer, normal(8, 6))
    named = (*model.named_parameters(remove_duplicate=False), *model.named_buffers())
    assert {id(t) for _, t in named} == before
    compare(model, lambda m, x: m(x).exp().mean(), optimizer, [normal(8, 6) for _ in range(2)])


class Odd(nn.Module):
    """One use of many operators; `f` maps (n, 6) to anything."""

    def __init__(self, f):
        super().__init__()
        self.linear, self.f = nn.Linear(6, 6), f

    def forward(self, x):
        return self.f(self.linear(x))


ODD = {
    "index rows": lambda x: x[torch.tensor([3, 0, -1, 3])],
    "index pairs": lambda x: x[torch.arange(8), torch.tensor([0, 1, 2, 3, 4, 5, 0, -1])],
    "index columns": lambda x: x[:, torch.tensor([1, 1, 4])],
    "index apart": lambda x: x.view(8, 2, 3)[torch.tensor([0, 7]), :, torch.tensor([2, 1])],
    "index grid": lambda x: x[torch.tensor([[0], [2]]), torch.tensor([[1, 3]])],
    "gather": lambda x: x.gather(1, torch.tensor([[0, 2], [1, 1]])),
    "take_along_dim": lambda x: torch.take_along_dim(x, x.argsort(dim=1), dim=1),
    "scatter": lambda x: torch.zeros(8, 9, dtype=x.dtype).scatter(
        1, torch.arange(6).expand(8, 6), x
    ),
    "scatter_add": lambda x: torch.ones(3, 6, dtype=x.dtype).scatter_add(
        0, torch.randint(0, 3, (1, 6)).expand(8, 6), x
    ),
    "index_add": lambda x: torch.zeros(4, 6, dtype=x.dtype).index_add(0, torch.arange(8) % 4, x),
    "index_put": lambda x: torch.index_put(x, (torch.tensor([0, 2]),), x[1]),
    "masked_fill": lambda x: x.masked_fill(x > 0.3, 0.1),
    "sort": lambda x: x.sort(dim=1, descending=True).values * torch.arange(6),
    "topk": lambda x: x.topk(3, dim=1).values * torch.tensor([1.0, 2.0, 4.0], dtype=x.dtype),
    "max": lambda x: x.max(dim=1).values + x.min(dim=0).values.sum(),
    "amax": lambda x: x.amax(dim=(0, 1)) * x.mean(),
    "median of sort": lambda x: x.sort(dim=0).values[4],
    "cumsum": lambda x: x.cumsum(dim=0) * x.flip(0).cumsum(dim=1),
    "prod": lambda x: x.prod(dim=1),
    "var": lambda x: x.var(dim=0) + x.std() + torch.var_mean(x, dim=1, keepdim=True)[0].mean(),
    "norms": lambda x: x.norm(dim=1) + torch.linalg.vector_norm(x, ord=1) + x.norm(p=3, dim=1),
    "logsumexp": lambda x: x.logsumexp(dim=1),
    "slices": lambda x: x[1::2, :3] * x[::2, -3:],
    "assignment": lambda x: _assign(x),
    "roll": lambda x: x.roll(2, dims=1) * x.roll(3),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1), value=0.5) ** 2,
    "triangles": lambda x: x[:6].tril(-1) @ x[:6].triu(1),
    "diagonals of rectangles": lambda x: (
        x.diagonal(-3).sum() * x[:, :4].diagonal(2) * x.t().diagonal(-2)[:2]
    ),
    "slices from behind": lambda x: x[:-2, -3:-1] * x[2:, :-4] * x[-7:-1, 1:3],
    "diagonal": lambda x: x[:6].diagonal() * torch.diag_embed(x)[0].diagonal(1).sum(),
    "repeat": lambda x: x.repeat(2, 3) * x.repeat_interleave(2, dim=0).repeat(1, 3),
    "unfold": lambda x: x.unfold(1, 3, 2) ** 2,
    "stack": lambda x: torch.stack([x, x * 2, -x], dim=1).unbind(dim=2)[3],
    "einsum": lambda x: torch.einsum("bi,bj,ij->b", x, x, x[:6]),
    "outer": lambda x: torch.outer(x[0], x[1]) @ x[2] + x[3].dot(x[4]),
    "where": lambda x: (
        torch.where(x > 0, x.exp(), torch.zeros_like(x)).nan_to_num() + torch.where(x > 1, 2.0, x)
    ),
    "activations": lambda x: sum(
        f(x) for f in (F.softplus, F.elu, F.leaky_relu, F.hardtanh, F.mish, F.selu, F.silu)
    ),
    "more activations": lambda x: sum(
        f(x) for f in (F.logsigmoid, F.hardswish, F.relu6, F.softsign, F.celu, F.gelu)
    ),
    "glu": lambda x: F.glu(x, dim=1),
    "functions": lambda x: (
        x.sin() * x.cos().exp() + x.abs().log1p() + x.sigmoid().log() + x.erf() + x.tanh().expm1()
    ),
    "powers": lambda x: x**2 + x**3 + x.abs() ** 0.5 + x.abs() ** 1.7 + 2**x + x.abs() ** x,
    "rounding": lambda x: (
        x.round() + x.floor() * x + x.ceil() + x.trunc() + x.frac() + x % 0.7 + x.fmod(0.3)
    ),
    "clamp": lambda x: (
        x.clamp(-0.5, 0.5) + x.clamp(min=0) * x + torch.maximum(x, -x) + torch.minimum(x, x * 2)
    ),
    "atan2": lambda x: (
        torch.lerp(x, x * 2, 0.3)
        + torch.addcmul(x, x, x, value=0.5)
        + torch.addcdiv(x, x, x.abs() + 1)
    ),
    "distances": lambda x: (x[:, None] - x[None, :4] + 0.1).norm(dim=-1),
    "cosine": lambda x: F.cosine_similarity(x, x.flip(0), dim=1),
    "integers": lambda x: x * (torch.arange(6) // 2 % 3) + (torch.arange(6) - 3).clamp(min=0),
    "masks": lambda x: x * ((x > 0) & (x < 1) | ~(x > -1)) + (x.isnan().any() | (x > 9).all()),
    "softmax": lambda x: x.softmax(0) * x.log_softmax(1),
    "softmax of nothing": lambda x: x * (1 + _masked(x).softmax(1).isnan()),
    "log_softmax of nothing": lambda x: x * (1 + _masked(x).log_softmax(1).isnan()),
    "attention to nothing": lambda x: F.scaled_dot_product_attention(
        x[None, None], x[None, None], x[None, None], attn_mask=torch.arange(8)[:, None] > 1
    ),
    "small arguments": lambda x: x * _small(x.detach()),
    "floor of quotients": lambda x: (
        x * (torch.tensor([-1.5, 1.5, 0.6, -0.9, 1.0, 4.5]).double() // 0.3)
    ),
    "exact remainders": lambda x: x * (torch.tensor([1e17, -1e17, 7.5]).double().fmod(0.7)).sum(),
    "integers in equal steps": lambda x: (
        x[:, torch.linspace(0, 5, 4, dtype=torch.long)]
        * torch.linspace(3, -2, 4, dtype=torch.int32)
        * torch.linspace(-1, 2, 4, dtype=x.dtype)
    ),
    "inverse functions": lambda x: _inverses(0.9 * x.tanh()),
    "kth value": lambda x: x.kthvalue(2, dim=1).values + x.median(dim=1).values + x.median(),
    "bucketize, not a number": lambda x: (
        x
        * torch.bucketize(
            torch.where(x.detach() > 0, x.detach(), torch.nan),
            torch.tensor([-1.0, 0.0, 1.0]).double(),
        )
    ),
    "bucketize": lambda x: x * torch.bucketize(x.detach(), torch.tensor([-1.0, 0.0, 1.0]).double()),
    "histogram": lambda x: (
        x
        * torch.cat(
            [
                torch.histc(x.detach(), 4, -1.5, 1.5),
                x.detach().histc(1),
                torch.histc(torch.tensor([2.0, 0.0, 3.0, 3.0]).double(), 1, 0, 3),
            ]
        )
    ),
    "complex numbers": lambda x: _complex(0.3 * x.tanh().reshape(8, 3, 2)),
    "narrow integers": lambda x: (
        x.masked_fill(torch.ones(8, 6, dtype=torch.uint8).triu(1).bool(), 0.5)
        * ((x.detach() * 100).abs().to(torch.uint8) * 3 - 7).to(x.dtype)
        * ((x.detach() * 1000).to(torch.int16) * 40).neg().to(x.dtype)
        * 1e-6
    ),
    "new_full": lambda x: x.new_full((8, 6), 0.5) * x + x.new_ones(6) + x.new_zeros(6),
    "index_copy": lambda x: x.index_copy(1, torch.tensor([4, 0]), x[:, :2] * 2),
    "checkpoint": lambda x: torch.utils.checkpoint.checkpoint(
        lambda y: y.sin() * y, x, use_reentrant=False
    ),
}


def _inverses(x):
    hyperbolic = x.sinh() + x.cosh() + x.asinh() + x.atanh() + (x * x + 2).acosh()
    return hyperbolic + x.tan() + x.atan() + x.asin() + x.acos()


def _complex(x):
    z = torch.view_as_complex(x)
    turn = torch.polar(torch.ones(3), torch.arange(3.0)).to(z.dtype)
    z = (z * turn)[:, [2, 0, 1]] @ torch.complex(x[:3, :, 0], x[:3, :, 1])
    z = z / (z.abs() + 1) + torch.exp(0.1 * z) * 1j - z.conj() * (2 + 1j)
    z = torch.cat([z, z.flip(-1).roll(1, -1)], -1)
    real = (z * z.conj()).real + z.angle().cos() + z.imag / (1 + z.real.square())
    return real + (1 / (z + 3)).abs() + z.sgn().real


def _masked(x):
    """The first two rows are all -inf."""
    return x.masked_fill(torch.arange(8)[:, None] < 2, -torch.inf)


def _small(x):
    """Functions that lose all digits if they are written with others."""
    tiny, one = 1e-9 * x, 1 + 1e-9 * x * x
    odd = (tiny.expm1(), tiny.log1p(), tiny.sinh(), tiny.asinh(), tiny.atanh())
    return 1e9 * sum(odd) + 1e4 * (one.acosh() + (2 - one).acos())


def _assign(x):
    y = torch.zeros(8, 6, dtype=x.dtype)
    y[:, 1:4] = x[:, :3]
    y[2] += x[0]
    y[1:3, ::2] *= 2
    return y * x


@pytest.mark.parametrize("name", ODD)
def test_operators(name):
    torch.manual_seed(3)
    fixed = torch.randint(0, 3, (1, 6))
    model = Odd(ODD[name]).double()

    def loss(model, batch):
        torch.manual_seed(1)
        return model(batch).square().mean()

    if name == "scatter_add":
        model.f = lambda x: torch.ones(3, 6, dtype=x.dtype).scatter_add(0, fixed.expand(8, 6), x)
    compare(
        model, loss, torch.optim.SGD(model.parameters(), lr=0.1), [normal(8, 6) for _ in range(2)]
    )


@pytest.mark.parametrize(
    "layer", [nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm]
)
def test_parametrized_layers(layer):
    model = nn.Sequential(layer(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 1)).double()
    compare(model, mse, torch.optim.Adam(model.parameters()), regression(2))


def test_bilinear():
    model = nn.Bilinear(6, 6, 3).double()
    optimizer = torch.optim.Adam(model.parameters())
    compare(model, lambda m, x: m(x, x.flip(0)).square().sum(), optimizer, [normal(4, 6)] * 2)


def test_encoder_and_decoder_of_torch():
    def loss(model, batch):
        mask = nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64)
        return model(*batch, tgt_mask=mask).square().mean()

    model = nn.Transformer(8, 2, 1, 1, 16, batch_first=True).double()
    batches = [(normal(4, 5, 8), normal(4, 4, 8)) for _ in range(2)]
    compare(model, loss, torch.optim.Adam(model.parameters()), batches)


class Sampler(nn.Module):
    """A variational encoder with a prior that was made, and checked, before the capture."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        zero = torch.zeros(3, dtype=torch.float64)
        self.prior = torch.distributions.Normal(zero, zero + 1, validate_args=True)

    def forward(self, x):
        mean, log = self.layer(x).chunk(2, -1)
        posterior = torch.distributions.Normal(mean, log.exp())
        sample = posterior.rsample()
        divergence = torch.distributions.kl_divergence(posterior, self.prior)
        choice = torch.distributions.Categorical(logits=sample, validate_args=True)
        return divergence.mean() - choice.log_prob(x[:, 0].abs().long() % 3).mean()


def test_distributions_that_check_their_arguments(monkeypatch):
    # Dynamo turns the checks off for a process in which another test has loaded it.
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)
    model = Sampler().double()
    batches = [normal(8, 6) for _ in range(2)]
    compare(model, lambda m, x: m(x), torch.optim.Adam(model.parameters()), batches)
    with pytest.raises(ValueError, match="Expected parameter scale"):
        torch.distributions.Normal(torch.zeros(3), -torch.ones(3))


class Grouped(nn.Module):
    """Rows by the matrix of their group, as mixtures of experts of `transformers` have them."""

    def __init__(self):
        super().__init__()
        self.layer, self.weight = nn.Linear(8, 8), nn.Parameter(torch.randn(3, 8, 8))
        self.weight.data[1] *= 10

    def forward(self, x):
        rows = self.layer(x)
        ends = torch.tensor([3, 3, len(x)], dtype=torch.int32)
        return F.grouped_mm(rows, self.weight, offs=ends)


@pytest.mark.skipif(not hasattr(F, "grouped_mm"), reason="PyTorch has no grouped_mm")
def test_grouped_mm():
    model = Grouped()
    batches = [normal(8, 8).float() for _ in range(2)]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    compare(model, lambda m, x: m(x).square().mean(), optimizer, batches)


def test_gradient_penalty():
    def loss(model, x):
        x = x.clone().requires_grad_()
        y = model(x).sum()
        (gradient,) = torch.autograd.grad(y, x, create_graph=True)
        return y + gradient.square().sum()

    model = small(nn.Tanh())
    compare(model, loss, torch.optim.Adam(model.parameters()), [normal(4, 6) for _ in range(2)])


def test_random_operators():
    def loss(model, x):
        y = model(x)
        noise = torch.randn_like(y) + torch.rand(y.shape, dtype=y.dtype) + torch.rand_like(y)
        noise = noise + torch.empty_like(y).normal_(0.5, 2.0) + torch.empty_like(y).uniform_(-1, 1)
        kept = torch.bernoulli(torch.full_like(y, 0.3)) + torch.bernoulli(y.sigmoid().detach())
        return ((F.dropout(y, 0.4) + noise) * kept).square().mean() + F.alpha_dropout(
            y, 0.2, training=True
        ).sum()

    model = nn.Linear(6, 6).double()
    module = compare(
        model, loss, torch.optim.SGD(model.parameters(), lr=0.01), [normal(8, 6) for _ in range(2)]
    )
    assert len(module.random_calls) == 9


def test_custom_autograd_function():
    class Clip(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(-1, 1)

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient * (x.abs() <= 1.5)

    model = Odd(Clip.apply).double()
    compare(
        model,
        lambda m, x: m(x).sum(),
        torch.optim.SGD(model.parameters(), lr=0.1),
        [normal(8, 6) for _ in range(2)],
    )


def test_buffer_updated_by_the_model():
    class Average(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 6)
            self.register_buffer("average", torch.zeros(6))
            self.register_buffer("calls", torch.tensor(0))

        def forward(self, x):
            y = self.linear(x)
            with torch.no_grad():
                self.average.mul_(0.9).add_(0.1 * y.mean(0))
                self.calls = self.calls + 1
            return y - self.average

    model = Average().double()
    compare(model, lambda m, x: m(x).square().sum(), torch.optim.SGD(model.parameters(), lr=0.01),
            [normal(8, 6) for _ in range(3)])  # fmt: skip


def test_caches_of_the_model_survive():
    class Caching(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.angles = nn.Linear(6, 6), None

        def forward(self, x):
            if self.angles is None:
                self.angles = torch.arange(6, dtype=x.dtype).cos()
            return self.linear(x) * self.angles

    model = Caching().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compare(model, lambda m, x: m(x).square().sum(), optimizer, [normal(8, 6) for _ in range(2)])
    assert type(model.angles) is torch.Tensor


def test_bfloat16_is_captured():
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 1)).bfloat16()
    batch = (normal(8, 6).bfloat16(), normal(8, 1).bfloat16())
    module = tandem.export(model, mse, torch.optim.AdamW(model.parameters()), batch)
    assert "tensor<8x6xbf16>" in module.mlir


def test_meta_device_allocates_nothing():
    with torch.device("meta"):
        model = nn.Sequential(*[nn.Linear(30000, 30000) for _ in range(20)])
    batch = torch.empty(4, 30000)
    module = tandem.export(
        model, lambda m, x: m(x).sum(), torch.optim.AdamW(model.parameters()), batch
    )
    rates = {f"learning_rate/0{name}" for name in ("", ".eps.0", ".weight_decay.0")}
    assert set(module.values()) == {"step/step", "seed/seed", *rates}
    assert len(module.arguments) == 20 * 2 * 3 + 6


def test_parameters_that_the_model_writes_to():
    """A momentum encoder, and a weight that is clipped before it is used."""

    class Momentum(nn.Module):
        def __init__(self):
            super().__init__()
            self.online, self.target = nn.Linear(6, 4), nn.Linear(6, 4).requires_grad_(False)

        def forward(self, x):
            with torch.no_grad():
                self.online.weight.clamp_(-0.3, 0.3)
                for a, b in zip(self.online.parameters(), self.target.parameters(), strict=True):
                    b.mul_(0.9).add_(a, alpha=0.1)
            return (self.online(x) - self.target(x)).square().mean()

    model = Momentum().double()
    optimizer = torch.optim.SGD(model.online.parameters(), lr=0.1)
    module = compare(model, lambda m, x: m(x), optimizer, [normal(8, 6) for _ in range(3)])
    assert {r.name for r in module.results if r.role == "parameter"} == {
        "online.weight",
        "online.bias",
        "target.weight",
        "target.bias",
    }


@pytest.mark.parametrize("shape", [(8, 6), (8, 6, 3)])
def test_batch_norm_with_cumulative_statistics(shape):
    model = nn.BatchNorm1d(6, momentum=None).double()
    compare(
        model,
        lambda m, x: m(x).exp().mean(),
        torch.optim.SGD(model.parameters(), lr=0.1),
        [normal(*shape) for _ in range(3)],
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.cdist(x, x.roll(1, 0) + 1),
        lambda x: torch.cdist(x, x[:3]),  # the distance of a row to itself has no slope
        lambda x: torch.cdist(x.view(2, 4, 6), x.view(2, 4, 6) * 2, p=1.0),
        lambda x: torch.cdist(x, x * 2, p=0.0),  # whose gradient is zeros, which decay
        lambda x: F.pdist(x, p=0.0),
        lambda x: torch.normal(x, 1.0).detach() * 0 + torch.normal(x * 0, 0.0),
        lambda x: F.gaussian_nll_loss(x, x * 2 + 1, x.exp(), full=True),
        lambda x: F.gaussian_nll_loss(x, x * 2 + 1, x[:, :1].abs() * 1e-5, reduction="sum"),
    ],
)
def test_functions_by_their_definition(function):
    model = Odd(function).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    compare(model, lambda m, x: m(x).mean(), optimizer, [normal(8, 6) for _ in range(2)])


def _filled(x):
    return (x @ x.t()).fill_diagonal_(0.5).exp()


def _shifted_diagonal(x):
    square = x @ x.t() / 8
    torch.diagonal(square, 1).mul_(2).sub_(1)
    torch.diagonal(square).add_(-1).pow_(2)
    return square


@pytest.mark.parametrize(
    "function",
    [
        _filled,
        _shifted_diagonal,
        lambda x: torch.cov(x.t()).square(),
        lambda x: torch.cov(x, correction=0).square(),
        lambda x: torch.corrcoef(x.t()).exp(),
    ],
)
def test_matrices_of_pairs(function):
    """Losses that couple the batch: Barlow Twins, NT-Xent, VICReg."""
    model = Odd(function).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    compare(model, lambda m, x: m(x).mean(), optimizer, [normal(8, 6) for _ in range(2)])


def _picture(x):
    return x.view(8, 1, 2, 3)


def _falls(x):
    """Indices that meet, some elements that none falls onto."""
    return torch.tensor([0, 2, 2, 4, 4, 4]).expand_as(x), 2 * x


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.interpolate(x[:, None], scale_factor=2).square(),
        lambda x: F.interpolate(_picture(x), size=(5, 7)).square(),
        lambda x: F.interpolate(_picture(x), size=(5, 7), mode="nearest-exact").square(),
        lambda x: F.interpolate(x[:, None], scale_factor=1.7, mode="linear").square(),
        lambda x: F.interpolate(x[:, None], 9, mode="linear", align_corners=True).square(),
        lambda x: F.interpolate(_picture(x), scale_factor=2, mode="bilinear").square(),
        lambda x: F.interpolate(_picture(x), (5, 4), mode="bicubic").square(),
        lambda x: F.pad(x[:, None], (2, 3), mode="replicate").square(),
        lambda x: F.pad(_picture(x), (2, 3, 1, 0), mode="replicate").square(),
        lambda x: nn.ReplicationPad2d(2)(_picture(x)).square(),
        lambda x: F.softshrink(x, 0.3) + F.hardshrink(x).square() + nn.Softshrink()(x).exp(),
        lambda x: F.multi_margin_loss(x, torch.arange(8) % 6),
        lambda x: F.multi_margin_loss(x, torch.arange(8) % 6, p=2, weight=torch.arange(6).double()),
        lambda x: nn.MultiMarginLoss(margin=0.5, reduction="none")(x, torch.arange(8) % 6).exp(),
        lambda x: x.scatter_reduce(1, *_falls(x), "sum").square(),
        lambda x: x.scatter_reduce(1, *_falls(x), "mean").square(),
        lambda x: torch.scatter_reduce(x, 1, *_falls(x), "sum", include_self=False).square(),
        lambda x: x.scatter_reduce(1, *_falls(x), reduce="mean", include_self=False).square(),
    ],
)
def test_functions_by_their_definitions(function):
    model = Odd(function).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    compare(model, lambda m, x: m(x).mean(), optimizer, [normal(8, 6) for _ in range(2)])


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_in_float32(layer):
    """PyTorch has one operator of oneDNN's for a whole LSTM in this type."""
    model = layer(6, 5, batch_first=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [torch.randn(4, 3, 6) for _ in range(2)]
    compare(model, lambda m, x: m(x)[0].square().mean(), optimizer, batches)


@pytest.mark.parametrize("mode", ["mean", "sum"])
def test_bags_of_equal_size(mode):
    model = nn.EmbeddingBag(9, 4, mode=mode).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [torch.randint(0, 9, (8, 3)) for _ in range(2)]
    compare(model, lambda m, x: m(x).square().sum(), optimizer, batches)
