"""Tensors that share memory are one value of the step: buffers, attributes and batches as eager has them."""

import copy
import warnings

import pytest
import tandem
import torch
import torch.nn.functional as F
from comparing import eager_step
from evaluator import run_step
from tandem.optimizers.state_dicts import by_name
from torch import nn


def net(start, forward=None):
    """A layer of float64 with what `start` registers."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.l = nn.Linear(4, 4, dtype=torch.float64)
            start(self)

        def forward(self, x):
            return forward(self, x) if forward else self.l(x)

    return Net


def registering(**tensors):
    """`start` that registers buffers, each a function of the module."""

    def start(m):
        for name, make in tensors.items():
            m.register_buffer(name, make(m))

    return start


def views_of(make, **views):
    """`start` that registers `a`, made once, and views of it."""

    def start(m):
        a = make()
        for name, view in views.items():
            m.register_buffer(name, view(a))

    return start


def loss_of(model):
    return lambda m, x: m(x).square().mean()


def batches_of(make=lambda x: x):
    torch.manual_seed(1)
    return [make(torch.randn(8, 4, dtype=torch.float64)) for _ in range(3)]


def check(make, loss_of=loss_of, batches=None):
    """Three steps of the captured step and of eager: losses, parameters and buffers. The module of the step."""
    ours, theirs = make(), make()
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (ours, theirs)]
    batches = batches_of() if batches is None else batches
    module = tandem.export(ours, loss_of(ours), optimizers[0], copy.deepcopy(batches[0]))
    values, loss_fn = module.values() | {"seed/seed": torch.tensor(5)}, loss_of(theirs)
    for batch in batches:
        results = run_step(module.step, values | module.inputs(copy.deepcopy(batch)))
        expected = eager_step(theirs, loss_fn, optimizers[1], copy.deepcopy(batch))
        torch.testing.assert_close(results[0][1], expected, rtol=1e-12, atol=1e-12)
        values |= {module.arguments[r.updates].key: t for r, t in results if r.updates is not None}
        named = by_name(module.arguments)
        for name, tensor in (*theirs.named_parameters(), *theirs.named_buffers()):
            found = named[name].as_given(values[named[name].argument.key])
            torch.testing.assert_close(found, tensor.detach(), rtol=1e-12, atol=1e-12)
    return module


READS = {
    "itself": lambda w: w.detach(),
    "slice": lambda w: w.data[1:3],
    "transposed": lambda w: w.data.t(),
    "flat": lambda w: w.detach().reshape(-1),
    "part of flat": lambda w: w.detach().view(-1)[3:9],
    "strided": lambda w: w.detach()[::2, 1::2],
    "diagonal": lambda w: w.detach().diagonal(),
    "windows": lambda w: w.detach().view(-1).unfold(0, 4, 2),
    "expanded": lambda w: w.detach()[:2, None, 1].expand(2, 3),
    "complex": lambda w: torch.view_as_complex(w.detach().view(2, 4, 2)),
    "parameter": lambda w: w,
    "differentiable": lambda w: w[:2],
}


@pytest.mark.parametrize("view", READS.values(), ids=READS)
def test_a_buffer_in_the_memory_of_a_parameter(view):
    def forward(m, x):
        now = torch.view_as_real(m.now) if m.now.is_complex() else m.now
        return m.l(x) + (now * now.cos()).sum()

    module = check(net(registering(now=lambda m: view(m.l.weight)), forward))
    assert [v.name for v in module.arguments[0].views] == ["now"]


def holding(m):
    m.listed = [m.l.weight, m.l.bias.detach()]
    m.nested = {"a": (m.l.weight.t(), [m.l.bias.detach()])}
    m.object = type("Holder", (), {"tensor": m.l.weight.data[0]})()


def test_attributes_that_hold_parameters():
    def forward(m, x):
        m.nested["a"][1][0].mul_(0.9)
        return x @ m.listed[0].t() * m.listed[1] + x @ m.nested["a"][0] + m.object.tensor

    make = net(holding, forward)
    model = make()
    check(make)
    before = [model.listed[0], model.nested["a"][0], model.nested["a"][1][0]]
    tandem.export(model, loss_of(model), torch.optim.SGD(model.parameters(), 0.1), batches_of()[0])
    after = [model.listed[0], model.nested["a"][0], model.nested["a"][1][0]]
    assert all(a is b for a, b in zip(before, after, strict=True))


def test_what_a_loss_reads_past_the_model_is_current():
    def loss_of(model):
        weight, parameters = model.l.weight.detach().t(), list(model.parameters())

        def loss_fn(m, x):
            with torch.no_grad():
                norm = sum(p.square().sum() for p in parameters)
            return (m(x) + x @ weight).square().mean() * norm

        return loss_fn

    check(net(lambda m: None), loss_of)


def test_a_view_past_the_model_would_have_no_gradient():
    def loss_of(model):
        row = model.l.weight[0]
        return lambda m, x: (m(x) + row).square().mean()

    with pytest.raises(tandem.CaptureError, match=r"test_identity.py:\d+: parameter 'l.weight' is"):
        check(net(lambda m: None), loss_of)


def ones():
    return torch.ones(6, 4, dtype=torch.float64)


def write_to_all(m, x):
    for i, (_, buffer) in enumerate(sorted(m.named_buffers())):
        buffer.mul_(0.9 + i / 20)
        part = buffer[1:] if buffer.dim() else buffer
        part.add_(x.mean().detach())
    return m.l(x) * sum(b.abs().sum() for b in m.buffers())


BUFFERS = {
    "slice": views_of(ones, a=lambda a: a, b=lambda a: a[:2]),
    "behind": views_of(ones, b=lambda a: a[2:5], a=lambda a: a),
    "many": views_of(
        ones, a=lambda a: a, b=lambda a: a.t(), c=lambda a: a.view(-1), d=lambda a: a[1:6:2, ::3]
    ),
    "permuted": views_of(lambda: ones().t(), a=lambda a: a, b=lambda a: a[:, 2:4]),
    "apart": views_of(ones, a=lambda a: a[:, ::2], b=lambda a: a[:, 1::2]),
    "arrays": views_of(
        lambda: ones().numpy(), a=torch.from_numpy, b=lambda a: torch.from_numpy(a[1:])
    ),
    "numbers": views_of(ones, a=lambda a: a, b=lambda a: a[2, 3]),
}


@pytest.mark.parametrize("start", BUFFERS.values(), ids=BUFFERS)
def test_buffers_that_are_views_of_one_another(start):
    check(net(start, write_to_all))


def test_pairs_and_parts_of_a_complex_buffer():
    def forward(m, x):
        m.pairs.add_(x.mean().detach())
        m.real.mul_(0.9)
        return m.l(x) * torch.view_as_real(m.z * m.z).sum()

    make = views_of(
        lambda: torch.complex(ones(), ones()),
        z=lambda z: z,
        pairs=torch.view_as_real,
        real=lambda z: z.real,
    )
    check(net(make, forward))


def mean_anew(m, x):
    y = m.l(x) * m.now.sum()
    m.now = m.now * 0.9 + m.l.weight.detach() * 0.1
    return y


def current_anew(m, x):
    y = m.l(x) + x @ m.now
    m.now = m.l.weight.detach()
    return y


def owner_anew(m, x):
    y = m.l(x) * m.a.sum() * m.b.sum()
    m.a = m.a * 0.5
    return y


def exchanged(m, x):
    y = m.l(x) * m.a.sum() + x * m.b.sum()
    m.a, m.b = m.b, m.a
    return y


def moved_on(m, x):
    y = m.l(x) * m.a.sum()
    m.a, m.b = m.b, m.a + y.detach().mean(0)
    return y


def two(m):
    registering(a=lambda m: ones()[:4], b=lambda m: 2 * ones()[:4])(m)


REBOUND = {
    "exchanged": (two, exchanged),
    "moved on": (two, moved_on),
    "mean": (registering(now=lambda m: m.l.weight.detach()), mean_anew),
    "current": (registering(now=lambda m: ones()[:4]), current_anew),
    "owner": (BUFFERS["slice"], owner_anew),
}


@pytest.mark.parametrize("start, forward", REBOUND.values(), ids=REBOUND)
def test_a_buffer_that_a_step_puts_anew(start, forward):
    check(net(start, forward))


def flat(m):
    whole = torch.cat([p.detach().reshape(-1) for p in m.l.parameters()])
    m.l.weight.data, m.l.bias.data = whole[:16].view(4, 4), whole[16:]
    m.whole = whole


def test_parameters_of_one_storage_are_apart():
    check(net(flat))


def written_and_anew(m, x):
    m.now.mul_(0.5)
    m.now = m.now + 1
    return m.l(x)


REFUSED = {
    "partial": (
        views_of(ones, a=lambda a: a[:4], b=lambda a: a[2:]),
        None,
        "buffer 'b': shares memory with buffer 'a' and is no view of it",
    ),
    "two": (
        lambda m: (flat(m), m.register_buffer("whole2", m.whole)),
        None,
        "'whole2': shares memory with parameter 'l.bias' and parameter 'l.weight'",
    ),
    "attribute": (
        flat,
        lambda m, x: m.l(x) * m.whole.sum(),
        r"test_identity.py:\d+: a tensor \[20\] that is read: shares memory with parameter 'l.bias' and",
    ),
    "bits": (
        registering(bits=lambda m: m.l.weight.detach().view(torch.int64)),
        None,
        "buffer 'bits': shares memory with parameter 'l.weight' and is no view",
    ),
    "conjugate": (
        views_of(lambda: torch.complex(ones(), ones()), z=lambda z: z, c=torch.conj),
        None,
        "buffer 'c': is the conjugate of buffer 'z', in its memory",
    ),
    "parameters": (
        lambda m: setattr(m, "f", nn.Parameter(m.l.weight.data[:2], requires_grad=False)),
        None,
        "parameters 'f' and 'l.weight' are different tensors over one storage",
    ),
    "written and anew": (
        registering(now=lambda m: m.l.weight.data),
        written_and_anew,
        "buffer 'now': the step puts another tensor in its place, and writes to memory .*'l.weight'",
    ),
    "computed": (
        registering(now=lambda m: m.l.bias + 1),
        lambda m, x: m.l(x) * m.now,
        "buffer 'now': is computed from parameters, to which eager has gradients for one step",
    ),
    "grown": (
        registering(now=lambda m: torch.ones(2, dtype=torch.float64)),
        lambda m, x: (setattr(m, "now", x.sum(1).detach()), m.l(x))[1],
        r"test_identity.py:\d+: buffer 'now': the step puts a tensor float64\[8\] in its place",
    ),
}


@pytest.mark.parametrize("start, forward, words", REFUSED.values(), ids=REFUSED)
def test_memory_that_cannot_be_followed_is_refused(start, forward, words):
    with pytest.raises(tandem.CaptureError, match=words):
        check(net(start, forward))


def written(m, batch):
    batch[0].mul_(2)
    return m(batch[1]).square().mean()


BATCHES = {
    "same": lambda x: (x, x),
    "columns": lambda x: (x[:, :2], x),
    "rows": lambda x: (x[2:6], x),
    "transposed": lambda x: (x.t(), x),
    "apart": lambda x: (x.clone(), x),
}


@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES)
def test_batches_that_share_memory_and_are_written_to(make):
    check(net(lambda m: None), lambda model: written, batches_of(make))


def test_batches_that_share_memory_otherwise():
    model = net(lambda m: None)()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    first, *others = batches_of(BATCHES["same"])
    step = tandem.compile(model, written, optimizer, first, mesh="data=2", micro=2)
    twin, loss = copy.deepcopy(model), step(first)
    torch.testing.assert_close(loss, written(twin, copy.deepcopy(first)).detach())
    with pytest.raises(tandem.BatchError, match="its tensors share memory otherwise"):
        step(tuple(t.clone() for t in others[0]))
    with pytest.raises(tandem.CaptureError, match="'1' shares memory with parameter 'l.weight'"):
        tandem.compile(model, written, optimizer, (first[0], model.l.weight.data))


# ---- Compiled steps


def start_of_all(m):
    m.k = nn.Linear(4, 4, dtype=torch.float64)
    m.register_buffer("now", m.l.weight.detach()[1:3])
    m.register_buffer("flat", m.l.weight.data.view(-1), persistent=False)
    m.register_buffer("mean", m.k.weight.detach())
    m.register_buffer("one", ones()[0, :1].expand(4), persistent=False)
    BUFFERS["behind"](m)
    m.listed = [m.k.bias.detach(), m.l.weight]


def forward_of_all(m, x):
    y = m.l(x) + m.k(x).tanh() * m.mean.sum() + (x @ m.now.t()).sum(1, keepdim=True)
    y = y + m.flat[5] * m.one + m.b.sum() + m.listed[0] * m.listed[1].sum()
    m.mean = m.mean * 0.9 + m.k.weight.detach() * 0.1
    m.a.mul_(0.5).add_(x.mean().detach() * 0.1)
    return y


class Both:
    """A compiled step beside eager."""

    def __init__(self, **options):
        self.make = net(start_of_all, forward_of_all)
        self.ours, self.theirs = self.make(), self.make()
        torch.manual_seed(1)
        self.batches = [torch.randn(2, 8, 4, dtype=torch.float64) for _ in range(6)]
        self.optimizers = [torch.optim.Adam(m.parameters(), 0.05) for m in (self.ours, self.theirs)]
        self.step = tandem.compile(
            self.ours, self.loss, self.optimizers[0], (*self.batches[0],), **options
        )

    @staticmethod
    def loss(m, batch):
        return F.mse_loss(m(batch[0]), batch[1])

    def train(self, *numbers):
        for batch in (tuple(self.batches[n]) for n in numbers):
            expected = eager_step(self.theirs, self.loss, self.optimizers[1], batch)
            torch.testing.assert_close(self.step(batch), expected, rtol=1e-9, atol=0)

    def check(self, state):
        expected = self.theirs.state_dict()
        assert list(state) == list(expected)
        for name, value in expected.items():
            torch.testing.assert_close(state[name], value, rtol=1e-9, atol=1e-11)


@pytest.fixture(params=[{}, dict(mesh="data=2", plan="zero", micro=2)], ids=["one", "two"])
def both(request):
    return Both(**request.param)


@pytest.mark.filterwarnings("ignore::tandem.guards.outdated.OldValuesWarning")
def test_values_in_shared_memory(both, tmp_path):
    both.train(0, 1, 2)
    both.check(both.step.state_dict())
    saved = {name: value.clone() for name, value in both.step.state_dict().items()}
    # Into the model itself, where the mean is no view any more, and into others.
    both.step.sync_to(both.ours, both.optimizers[0])
    both.check(both.ours.state_dict())
    assert both.ours.flat.data_ptr() == both.ours.l.weight.data_ptr()
    assert both.ours.mean.data_ptr() != both.ours.k.weight.data_ptr()
    apart = both.make()
    apart.now = apart.now.clone()
    both.step.sync_to(apart)
    both.check(apart.state_dict())
    # Checkpoints.
    both.step.save(tmp_path / "saved")
    model, optimizer = copy.deepcopy((both.theirs.state_dict(), both.optimizers[1].state_dict()))
    both.train(3)
    both.step.load(tmp_path / "saved")
    both.theirs.load_state_dict(model)
    both.optimizers[1].load_state_dict(optimizer)
    both.train(4)
    # State dicts, also with values of which the last one stays.
    saved |= {"now": torch.full((2, 4), 0.3), "a": ones()}
    for each in (both.step, both.theirs):
        each.load_state_dict(saved)
    both.check(both.step.state_dict())
    both.train(5)


def test_frozen_and_thawed_parameters_with_views(both):
    both.train(0)
    for requires in (False, True):
        for m in (both.ours, both.theirs):
            m.l.weight.requires_grad_(requires)
            m.zero_grad(set_to_none=True)
        both.train(1, 2)
    expected = both.loss(copy.deepcopy(both.theirs).eval(), tuple(both.batches[3]))
    found = both.step.evaluate(tuple(both.batches[3]))
    torch.testing.assert_close(found, expected.detach(), rtol=1e-9, atol=0)


@pytest.mark.parametrize("factor", [1, 0.9])
def test_a_buffer_in_the_memory_of_the_optimizers_state(factor):
    def forward(m, x):
        return m.l(x) + x @ (m.now if factor == 1 else m.now.mul_(factor))

    def begun():
        model = net(lambda m: None, forward)()
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        model.l.weight.grad = torch.ones_like(model.l.weight)
        optimizer.step()
        model.register_buffer("now", optimizer.state[model.l.weight]["momentum_buffer"].t())
        return model, optimizer

    (ours, optimizer), (theirs, own), batches = begun(), begun(), batches_of()
    loss_fn = loss_of(ours)
    if factor != 1:
        with pytest.raises(tandem.CaptureError, match="'momentum_buffer.l.weight' of the opt"):
            tandem.compile(ours, loss_fn, optimizer, batches[0])
        return
    step = tandem.compile(ours, loss_fn, optimizer, batches[0], mesh="data=2", plan="zero")
    for batch in batches:
        expected = eager_step(theirs, loss_fn, own, batch)
        torch.testing.assert_close(step(batch), expected, rtol=1e-9, atol=0)
    step.sync_to(ours, optimizer)
    torch.testing.assert_close(ours.now, theirs.now)


def test_a_view_that_is_written_to_outside():
    both = Both()
    both.ours.flat.mul_(1.5)
    with pytest.raises(tandem.StateError, match="the values of 'flat' were changed after"):
        both.step((*both.batches[0],))
    both.step.load(model=both.ours)
    both.theirs.load_state_dict(both.ours.state_dict())
    both.train(0)
    other = both.make()
    other.now = other.now + 1
    with pytest.raises(tandem.StateError, match="'now' has other values than 'l.weight'"):
        both.step.load(model=other)


def test_a_state_in_the_memory_of_a_parameter_is_refused():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer.state[model.weight]["momentum_buffer"] = model.weight.detach()
    words = "state 'momentum_buffer.weight' of the optimizer: shares memory with parameter 'weight'"
    with pytest.raises(tandem.CaptureError, match=words):
        tandem.compile(model, lambda m, x: m(x).square().mean(), optimizer, torch.randn(8, 4))


def test_a_batch_that_is_written_to_and_given_again():
    model = nn.Linear(4, 2)
    batch = {"x": torch.randn(8, 4), "y": torch.randn(8, 4)}

    def loss(model, batch):
        return model(batch["x"].mul_(1.1) + batch["y"]).square().mean()

    step = tandem.compile(model, loss, torch.optim.SGD(model.parameters(), lr=0.1), batch)
    with warnings.catch_warnings(action="error"):
        step(batch)
        step({"x": torch.randn(8, 4), "y": batch["y"]})
        batch["x"].copy_(torch.randn(8, 4))
        step(batch)
    with pytest.warns(UserWarning, match="batch: tensor 'x' was given before, and the loss writes"):
        step(batch)
    with warnings.catch_warnings(action="error"):  # once
        step(batch)
