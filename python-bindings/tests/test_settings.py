"""Python that changes behind tandem.compile: a step is what eager makes of it then, or a StateError that names it."""

import contextlib
import copy
import functools
import types

import numpy
import pytest
import tandem
import torch
import torch.nn.functional as F
from tandem.session import programs
from torch import nn
from torch.nn.modules import module as of_modules
from torch.nn.utils import parametrizations, parametrize, weight_norm
from torch.optim import optimizer as of_optimizers
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

BATCHES = [torch.randn(8, 6, generator=torch.Generator().manual_seed(i)).double() for i in range(3)]
GAIN = 1.0


def scale(x):
    return x * GAIN


class Layer(nn.Linear):
    """Of the user's own."""

    slope = 1.0

    def forward(self, x):
        return self.slope * self.config.beta * scale(super().forward(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.act, self.acts = Layer(6, 6), torch.tanh, [torch.tanh, torch.sin]
        self.first.config = types.SimpleNamespace(beta=1.0)
        self.parts = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Identity())
        self.listed = nn.ModuleList([nn.Linear(6, 6), nn.ReLU()])

    def forward(self, x):
        x = self.acts[0](self.act(self.first(x)))
        for part in self.listed:
            x = part(x)
        return self.parts(x)


class Error(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.inner = 1.0, nn.MSELoss()

    def forward(self, x, y):
        return self.weight * self.inner(x, y)


def loss_with(criterion):
    return lambda model, batch: criterion(model(batch), batch)


class Pair:
    """A step and the same in eager. Whatever changes, changes both."""

    def __init__(self, prepare=None):
        self.model, self.criterion = Model().double(), Error()
        if prepare is not None:
            prepare(self.model)
        self.twin, self.twins_criterion = copy.deepcopy((self.model, self.criterion))
        self.optimizer, self.eager = map(self._optimizer, (self.model, self.twin))
        self.loss, self.twins_loss = map(loss_with, (self.criterion, self.twins_criterion))
        self.step = tandem.compile(
            self.model, self.loss, self.optimizer, BATCHES[0], mesh="data=2", micro=2
        )

    @staticmethod
    def _optimizer(model):
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def train(self, batch):
        self.eager.zero_grad()
        expected = self.twins_loss(self.twin, batch)
        expected.backward()
        self.eager.step()
        torch.testing.assert_close(self.step(batch), expected.detach(), rtol=1e-12, atol=0)
        for name, value in self.step.state_dict().items():
            torch.testing.assert_close(value, self.twin.state_dict()[name], rtol=1e-9, atol=1e-12)


def forward_hook(m):
    m.parts[0].register_forward_hook(lambda module, x, y: y * 2)


def pre_hook(m):
    def double(module, args, kwargs):
        return tuple(x * 2 for x in args), kwargs

    m.listed[1].register_forward_pre_hook(double, with_kwargs=True)


def backward_hook(m):
    m.parts[1].register_full_backward_hook(lambda module, gi, go: tuple(g * 2 for g in gi))


def backward_pre_hook(m):
    m.parts[1].register_full_backward_pre_hook(lambda module, go: tuple(g * 2 for g in go))


def parameter_hook(m):
    m.first.weight.register_hook(lambda g: g * 2)


def hook_that_only_looks(m):
    m.register_forward_hook(lambda module, x, y: None)


def replaced_forward(m):
    m.listed[1].forward = torch.sigmoid


def method(m):
    m.parts[1].forward = types.MethodType(lambda self, x: x.sin(), m.parts[1])


def exchanged(m):
    m.parts[1] = nn.GELU()


def exchanged_in_list(m):
    m.listed[1] = nn.Sequential(nn.Dropout(1.0), nn.SiLU())


def exchanged_function(m):
    m.act = F.softplus


def exchanged_in_plain_list(m):
    m.acts[0] = F.softplus


def removed(m):
    del m.parts[2]


def read_by_forward(m):
    m.first.config.beta = 0.5


CHANGES = [forward_hook, pre_hook, backward_hook, backward_pre_hook, parameter_hook]
CHANGES += [hook_that_only_looks, replaced_forward, method, exchanged, exchanged_in_list]
CHANGES += [exchanged_function, exchanged_in_plain_list, removed, read_by_forward]


@pytest.mark.sample(7)
@pytest.mark.parametrize("change", CHANGES)
def test_changes_count_in_the_next_step(change):
    pair = Pair()
    pair.train(BATCHES[0])
    for model in (pair.model, pair.twin):
        change(model)
    for batch in BATCHES[1:]:
        pair.train(batch)


def of_a_class(monkeypatch, pair):
    monkeypatch.setattr(Layer, "forward", lambda self, x: 2 * nn.Linear.forward(self, x))


def number_of_a_class(monkeypatch, pair):
    monkeypatch.setattr(Layer, "slope", 0.5)


def of_a_function(monkeypatch, pair):
    monkeypatch.setitem(globals(), "scale", lambda x: x * 3)


def code_of_a_function(monkeypatch, pair):
    monkeypatch.setattr(scale, "__code__", (lambda x: x.sin()).__code__)


def of_a_global(monkeypatch, pair):
    monkeypatch.setitem(globals(), "GAIN", 0.5)


def of_all_modules(monkeypatch, pair):
    handle = of_modules.register_module_forward_hook(
        lambda module, x, y: y * 2 if isinstance(module, nn.ReLU) else None
    )
    monkeypatch.setattr(pair, "handle", handle, raising=False)


def of_a_loss(monkeypatch, pair):
    for criterion in (pair.criterion, pair.twins_criterion):
        criterion.weight, criterion.inner = 0.5, nn.SmoothL1Loss(beta=0.1)


def of_a_loss_inside(monkeypatch, pair):
    for criterion in (pair.criterion, pair.twins_criterion):
        criterion.inner.reduction = "sum"


OUTSIDE = [of_a_class, number_of_a_class, of_a_function, code_of_a_function, of_a_global]
OUTSIDE += [of_all_modules, of_a_loss, of_a_loss_inside]


@pytest.mark.parametrize("change", OUTSIDE)
def test_changes_outside_of_the_model_count(change, monkeypatch):
    pair = Pair()
    pair.train(BATCHES[0])
    try:
        change(monkeypatch, pair)
        pair.train(BATCHES[1])
    finally:
        if hasattr(pair, "handle"):
            pair.handle.remove()
    monkeypatch.undo()
    pair.train(BATCHES[2])


def test_hooks_that_are_removed():
    handles = []

    def prepare(model):
        handles.append(model.parts[0].register_forward_hook(lambda module, x, y: y * 2))
        handles.append(model.first.weight.register_hook(lambda g: g * 2))

    pair = Pair(prepare)
    twins = [pair.twin.parts[0]._forward_hooks, pair.twin.first.weight._backward_hooks]
    if twins[1] is None:  # A copy of a tensor has no hooks.
        twins[1] = {0: pair.twin.first.weight.register_hook(lambda g: g * 2)}
    pair.train(BATCHES[0])
    handles[0].remove()
    twins[0].clear()
    pair.train(BATCHES[1])
    handles[1].remove()
    twins[1][0].remove()
    pair.train(BATCHES[2])


def test_what_stays_is_captured_once(monkeypatch):
    """Also where a forward pass counts in its class, and where an equal module takes the place of another."""
    pair = Pair()
    calls, capture = [], programs.Recipe.capture
    monkeypatch.setattr(
        programs.Recipe, "capture", lambda *a, **o: calls.append(a) or capture(*a, **o)
    )
    for batch in BATCHES:
        pair.train(batch)
    assert len(calls) == 0
    for model in (pair.model, pair.twin):
        model.parts[1] = nn.Tanh()
    pair.train(BATCHES[0])
    assert len(calls) == 0

    def counting(self, x):
        Layer.count = getattr(Layer, "count", 0) + 1
        return self.config.beta * nn.Linear.forward(self, x)

    monkeypatch.setattr(Layer, "forward", counting)
    try:
        for batch in BATCHES:
            pair.train(batch)
    finally:
        del Layer.count
    assert len(calls) == 2  # the second one looks whether the number counts


def test_what_changes_and_decides_nothing_is_let_go(monkeypatch):
    """A log that a loop fills does not capture each step again."""
    log, calls, capture = [], [], programs.Recipe.capture
    model = nn.Linear(6, 6).double()

    def loss(model, batch):
        assert len(log) < 100
        return F.mse_loss(model(batch), batch)

    step = tandem.compile(model, loss, torch.optim.SGD(model.parameters(), lr=0.1), BATCHES[0])
    monkeypatch.setattr(
        programs.Recipe, "capture", lambda *a, **o: calls.append(a) or capture(*a, **o)
    )
    with pytest.warns(UserWarning, match="'log', which .* decides nothing"):
        for number in range(6):
            log.append(number)
            step(BATCHES[0])
    assert len(calls) == 2


def post_accumulate(model, optimizer):
    model.first.weight.register_post_accumulate_grad_hook(lambda p: None)


def step_hook(model, optimizer):
    optimizer.register_step_pre_hook(lambda *_: None)


def replaced_step(model, optimizer):
    optimizer.step = lambda closure=None: None


def behind_step_hook(model, optimizer):
    optimizer.register_step_post_hook(lambda *_: None)


def parametrized(model, optimizer):
    parametrize.register_parametrization(model.first, "weight", nn.Tanh())


def normed(model, optimizer):
    weight_norm(model.parts[0])


def normed_by_parametrization(model, optimizer):
    parametrizations.spectral_norm(model.parts[0])


def accumulator(m, o):
    node = m.first.weight.view_as(m.first.weight).grad_fn.next_functions[0][0]
    m.kept = node  # PyTorch forgets one that nobody has.
    node.register_prehook(lambda gradients: (gradients[0] / 2,))


REFUSED = {
    accumulator: r"parameter 'first.weight': hooks on the node .* is accumulator.* now, expected",
    post_accumulate: r"parameter 'first.weight': hooks behind .* is post_accumulate.* now, expected",
    step_hook: "optimizer: hooks before its step is step_hook.* now, expected",
    behind_step_hook: "optimizer: hooks behind its step is behind_step_hook.* now, expected",
    replaced_step: "optimizer: step is replaced_step.* now, .* found a step\\(\\) of this object",
    parametrized: r"parameter 'first.parametrizations.weight.original' is new since",
    normed: r"parameter 'parts.0.weight' is gone since",
    normed_by_parametrization: r"parameter 'parts.0.parametrizations.weight.original' is new",
}


@pytest.mark.filterwarnings("ignore")
def test_what_no_step_can_have_is_named():
    for change, words in REFUSED.items():
        pair = Pair()
        pair.train(BATCHES[0])
        change(pair.model, pair.optimizer)
        for _ in range(2):
            with pytest.raises(tandem.StateError, match=words) as error:
                pair.step(BATCHES[1])
            assert "\n" not in str(error.value)


def test_hooks_of_all_optimizers():
    pair = Pair()
    handle = of_optimizers.register_optimizer_step_post_hook(lambda *_: None)
    try:
        with pytest.raises(tandem.StateError, match="all optimizers: post-hooks is .* now"):
            pair.step(BATCHES[1])
        with pytest.raises(tandem.CaptureError, match="found 1 step hooks, expected none"):
            tandem.export(pair.model, pair.loss, pair.optimizer, BATCHES[0])
    finally:
        handle.remove()
    pair.train(BATCHES[0])


def test_a_hook_of_an_accumulator_that_is_removed_and_one_from_before():
    pair = Pair()
    parameter = pair.model.first.weight
    node = parameter.view_as(parameter).grad_fn.next_functions[0][0]
    handle = node.register_hook(lambda *_: None)
    with pytest.raises(tandem.StateError, match="hooks on the node that accumulates its gradient"):
        pair.step(BATCHES[0])
    with pytest.raises(tandem.CaptureError, match="'first.weight': found hooks on the node that"):
        tandem.export(pair.model, pair.loss, pair.optimizer, BATCHES[0])
    handle.remove()
    pair.train(BATCHES[0])


class Doubling(TorchFunctionMode):
    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result * 2 if function is F.linear else result


AROUND = {
    "gradients switched off": [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.set_grad_enabled(False),
    ],
    "called under torch.autocast": [lambda: torch.autocast("cpu", torch.bfloat16)],
    "called under the mode Doubling": [Doubling],
    "called under saved_tensors_hooks": [
        lambda: torch.autograd.graph.saved_tensors_hooks(lambda x: x * 2, lambda x: x)
    ],
}


def test_what_is_switched_on_around_a_step():
    pair = Pair()
    for words, contexts in AROUND.items():
        for context in contexts:
            with context(), pytest.raises(tandem.StateError, match=words) as error:
                pair.step(BATCHES[0])
            assert "\n" not in str(error.value)
            with contextlib.ExitStack() as stack:
                stack.enter_context(context())
                if "gradients" not in words:
                    stack.enter_context(pytest.raises(tandem.TandemError, match=words))
                pair.step.evaluate(BATCHES[0])
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(tandem.CompileError, match="autocast"),
    ):
        tandem.compile(pair.model, pair.loss, pair.optimizer, BATCHES[0])
    # What changes no number may be there.
    with torch.device("cpu"), torch.autograd.graph.save_on_cpu(), FlopCounterMode(display=False):
        pair.train(BATCHES[0])


def test_another_default_type():
    """Of numbers that a loss makes."""
    model = nn.Linear(6, 6).double()
    twin = copy.deepcopy(model)

    def loss(model, batch):
        return (model(batch) * torch.full((), 1 / 3)).square().mean()

    step = tandem.compile(model, loss, torch.optim.SGD(model.parameters(), 0.0), BATCHES[0])
    before = torch.get_default_dtype()
    try:
        for dtype in (torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            expected = loss(twin, BATCHES[0]).detach()
            torch.testing.assert_close(step(BATCHES[0]), expected, rtol=1e-13, atol=0)
    finally:
        torch.set_default_dtype(before)


class Holder:
    """A loss that reads numbers in ways which its code does not name."""

    def __init__(self):
        self.weights, self.table, self.parts = [1.0, 1.0], {"a": {"b": 1.0}}, Slotted()
        self.array, self.scale = numpy.ones(2), torch.ones(6, dtype=torch.float64)

    @property
    def of_property(self):
        return self.table["a"]["b"]

    def __call__(self, model, batch, key="b"):
        names = {"key": key, "slot": "gain"}
        factor = sum(self.weights) * sum(self.table["a"].values()) * self.of_property
        factor = factor * self.table["a"].get(names["key"]) * getattr(self.parts, names["slot"])
        return (
            by_argument(self.parts) * factor * ((model(batch) - batch) * self.scale).square().mean()
        )


class Slotted:
    __slots__ = ("gain",)

    def __init__(self):
        self.gain = 1.0


def by_argument(parts, exponent=1):
    return parts.gain**exponent


def set_default(holder):
    by_argument.__defaults__ = (2,)


HELD = {
    "a list that is summed": lambda h: h.weights.append(0.5),
    "a dict in a dict": lambda h: h.table["a"].update(b=0.5),
    "a slot": lambda h: setattr(h.parts, "gain", 0.5),
    "a default": set_default,
    "a tensor in the place of another": lambda h: setattr(h, "scale", h.scale * 2),
    "an argument of partial": lambda h: h.options.update(key="c"),
}


@pytest.mark.parametrize("change", HELD)
def test_what_a_function_reads_without_its_name_counts(change, monkeypatch):
    monkeypatch.setattr(by_argument, "__defaults__", (1,))
    model = Model().double()
    holder, twin = Holder(), copy.deepcopy(model)
    holder.table["a"]["c"] = 0.25
    loss = functools.partial(holder, key="b")
    holder.options = loss.keywords
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, twin)]
    step = tandem.compile(model, loss, optimizers[0], BATCHES[0])
    for number, batch in enumerate(BATCHES[:2]):
        if number == 1:
            HELD[change](holder)
        optimizers[1].zero_grad()
        expected = loss(twin, batch)
        expected.backward()
        optimizers[1].step()
        torch.testing.assert_close(step(batch), expected.detach(), rtol=1e-12, atol=0)


class Convolved(nn.Module):
    """Its hook, a function that it calls with itself, and its convolution read other things."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.gains, self.kept = nn.Conv1d(6, 6, 3, padding=1), [1.0], {"gain": 1.0}
        self.layer.register_forward_hook(lambda module, x, y: y * self.kept["gain"])

    @torch.no_grad()
    def offset(self, x):
        return sum(self.gains)

    def forward(self, x):
        return gained(self, self.layer(x.T).T) + self.offset(x)


def gained(module, x):
    return x * module.gains[0]


def test_what_hooks_and_layers_read_counts():
    changes = [
        lambda m: m.gains.insert(0, 0.5),
        lambda m: m.kept.update(gain=0.5),
        lambda m: setattr(m.layer, "dilation", (2,)) or setattr(m.layer, "padding", (2,)),
    ]
    models = [Convolved().double(), Convolved().double()]
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
    loss = loss_with(F.mse_loss)
    step = tandem.compile(models[0], loss, optimizers[0], BATCHES[0])
    for change in changes:
        for model in models:
            change(model)
        optimizers[1].zero_grad()
        expected = loss(models[1], BATCHES[0])
        expected.backward()
        optimizers[1].step()
        torch.testing.assert_close(step(BATCHES[0]), expected.detach(), rtol=1e-12, atol=0)


class Scaled(torch.optim.Optimizer):
    """Of the user's own, with numbers beside its groups."""

    def __init__(self, parameters):
        super().__init__(parameters, {})
        self.scale, self.rule = 1.0, [torch.sign]

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(self.rule[0](parameter.grad), alpha=0.1 * self.scale)


def test_what_an_optimizer_of_the_users_reads_counts():
    models = [Model().double(), Model().double()]
    optimizers = [Scaled(m.parameters()) for m in models]
    loss = loss_with(F.mse_loss)
    step = tandem.compile(models[0], loss, optimizers[0], BATCHES[0])
    for number, batch in enumerate([*BATCHES, BATCHES[0]]):
        for optimizer in optimizers:
            optimizer.scale = 0.5 if number == 1 else 1.0
            optimizer.rule[0] = torch.tanh if number == 2 else torch.sign
        optimizers[1].zero_grad()
        expected = loss(models[1], batch)
        expected.backward()
        optimizers[1].step()
        torch.testing.assert_close(step(batch), expected.detach(), rtol=1e-12, atol=0)
