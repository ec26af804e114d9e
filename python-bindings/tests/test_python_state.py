"""Python runs once: what would be another in the next step is refused, with its place, and what only
counts is not."""

import copy
import importlib
import itertools
import queue
import random
import sys
import warnings
from collections import OrderedDict, deque
from contextlib import nullcontext
from types import SimpleNamespace

import numpy
import pytest
import tandem
import torch
import torch.nn.functional as F
from comparing import compare
from tandem.session import programs
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

BATCHES = [torch.randn(8, 6, generator=torch.Generator().manual_seed(i)) for i in range(3)]


def mse(model, batch):
    return F.mse_loss(model(batch), batch)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def compile_step(model, loss=mse):
    return tandem.compile(model, loss, sgd(model), BATCHES[0])


class Counting(nn.Module):
    """Counts its calls; what it computes depends on it, or not."""

    def __init__(self, use):
        super().__init__()
        self.layer, self.use = nn.Linear(6, 6), use
        self.calls, self.longest, self.table = 0, 0, None

    def forward(self, x):
        self.calls += 1
        return self.layer(x) * self.use(self, x)


def cached(model, x):
    """A table that the first call makes, under a number that says how long it is."""
    if model.longest < len(x):
        model.longest, model.table = len(x), torch.arange(len(x), dtype=x.dtype)[:, None]
    return model.table


def test_a_number_that_changes_the_step_is_refused():
    model = Counting(lambda model, x: min(1.0, 0.25 * model.calls))
    with pytest.raises(
        tandem.CaptureError, match="the model: attribute 'calls' is 1 after the"
    ) as e:
        compile_step(model)
    assert "\n" not in str(e.value)
    assert model.calls == 0


class Beginning(nn.Module):
    """Sets a scale by its first batch, or only notes that there was one."""

    def __init__(self, scales):
        super().__init__()
        self.layer, self.scale = nn.Linear(6, 6), nn.Parameter(torch.ones(6))
        self.scales, self.has_begun = scales, False

    def forward(self, x):
        y = self.layer(x)
        if not self.has_begun:
            self.has_begun = True
            if self.scales:
                with torch.no_grad():
                    self.scale.copy_(1 / y.std(0))
        return y * self.scale


def test_what_the_first_step_alone_does():
    """A compiled step goes on with another Program; a file has one."""
    model = Beginning(True).double()
    twin, batches = copy.deepcopy(model), [batch.double() for batch in BATCHES]
    with pytest.raises(tandem.CaptureError, match="'has_begun' is True after the first step, and"):
        tandem.export(model, mse, sgd(model), batches[0])
    step, optimizer = tandem.compile(model, mse, sgd(model), batches[0]), sgd(twin)
    for batch in batches:
        check_step(step, twin, optimizer, batch)
    expected = mse(copy.deepcopy(twin), batches[0]).detach()
    torch.testing.assert_close(step.evaluate(batches[0]), expected, rtol=1e-9, atol=0)
    assert not model.has_begun
    compile_step(Beginning(False))


def check_step(step, twin, optimizer, batch):
    optimizer.zero_grad()
    expected = mse(twin, batch)
    expected.backward()
    optimizer.step()
    torch.testing.assert_close(step(batch), expected.detach(), rtol=1e-9, atol=0)


class Rotary(nn.Module):
    """Keeps a table in a buffer, and how much of it there is in a number."""

    def __init__(self):
        super().__init__()
        self.layer, self.length = nn.Linear(6, 6), 0
        self.register_buffer("table", torch.zeros(16, 6), persistent=False)

    def rows(self, count):
        if count > self.length:
            self.table[:count] = torch.arange(count)[:, None].to(self.table.dtype).cos()
            self.length = count
            return self.table[:count] * 1
        return self.table[:count]

    def forward(self, x):
        return self.layer(x) * self.rows(x.shape[1])


def test_a_table_that_grows_with_its_length():
    model = Rotary().double()
    twin = copy.deepcopy(model)
    batches = [torch.randn(8, n, 6).double() for n in (3, 3, 5, 3)]
    step = tandem.compile(model, mse, sgd(model), batches[0], mesh="data=2", plan="zero", micro=2)
    optimizer = sgd(twin)
    for batch in batches:
        check_step(step, twin, optimizer, batch)
    assert model.length == 0 and not model.table.any()


class Growing(nn.Module):
    """Makes a module anew in its first call, with the layers that it has."""

    def __init__(self):
        super().__init__()
        self.inner, self.kind = nn.Sequential(nn.Linear(6, 6)), "old"

    def forward(self, x):
        if self.kind == "old":
            inner, self.kind = nn.Sequential(nn.Linear(6, 6)), "new"
            inner[0] = self.inner[0]
            self.inner = inner
        return F.dropout(self.inner(x), 0.5)


def test_the_values_of_a_layer_that_is_made_are_not_drawn():
    """They are no part of the step: eager draws them once."""
    torch.manual_seed(0)
    model = Growing().double()
    compare(model, mse, sgd(model), [batch.double() for batch in BATCHES])
    assert model.kind == "new"


class Keeping(nn.Module):
    """Leaves a tensor in an attribute."""

    def __init__(self, keep):
        super().__init__()
        self.layer, self.keep, self.kept, self.history = nn.Linear(6, 6), keep, None, []

    def forward(self, x):
        return self.keep(self, self.layer(x))


def first_draw(model, y):
    if model.kept is None:
        model.kept = torch.randn(6)
    return y + model.kept


def first_weight(model, y):
    if model.kept is None:
        model.kept = {"weight": model.layer.weight.detach() * 2}
    return y @ model.kept["weight"]


def last_output(model, y):
    before, model.kept = model.kept, y.detach().clone()
    return y if before is None else y + before


def last_in_a_list(model, y):
    before = model.history[-1] if model.history else 0
    model.history.append(y.detach())
    return y + before


def registered(model, y):
    if not hasattr(model, "noise"):
        model.register_buffer("noise", torch.rand(6))
    return y * model.noise


KEEPS = [first_draw, first_weight, last_output, last_in_a_list, registered]


@pytest.mark.parametrize("keep", KEEPS)
def test_a_tensor_of_the_step_before_is_refused(keep):
    model = Keeping(keep)
    words = r"the model: attribute '(kept|history|noise)' holds a tensor of the first step"
    with pytest.raises(tandem.CaptureError, match=words) as e:
        compile_step(model)
    assert "\n" not in str(e.value)
    assert model.kept is None and model.history == [] and not hasattr(model, "noise")


class Stubborn(OrderedDict):
    """Refuses to be changed, as configs of some libraries do."""

    def _refuse(self, *args, **others):
        raise TypeError("is frozen")

    __setitem__ = __delitem__ = __iter__ = update = clear = pop = items = setdefault = _refuse


class Listed(list):
    append = extend = clear = __iter__ = __setitem__ = Stubborn._refuse


class Slotted:
    __slots__ = ("table", "count")

    def __init__(self):
        self.count = 0


class Holding(nn.Module):
    """Leaves traced tensors and numbers in all that a module may hold, and perhaps fails then."""

    def __init__(self):
        super().__init__()
        self.layer, self.config, self.fails = nn.Linear(6, 6), Stubborn(), False
        OrderedDict.__setitem__(self.config, "first", 1)
        OrderedDict.__setitem__(self.config, "last", [2])
        self.listed, self.slotted, self.names = Listed(["a"]), Slotted(), {"x"}
        self.cache = SimpleNamespace(tables={}, seen=deque([1], maxlen=4), length=0)

    def forward(self, x):
        y = self.layer(x)
        OrderedDict.__setitem__(self.config, "made", y)
        OrderedDict.move_to_end(self.config, "first")
        list.append(self.listed, y)
        OrderedDict.__getitem__(self.config, "last").append(y)
        self.slotted.table, self.slotted.count = y, 1
        self.cache.tables["y"], self.cache.length = [y], 5
        self.cache.seen.append(y)
        self.names.add("y")
        self.more, self.fails = y, self.fails
        self.layer.register_forward_hook(lambda *_: None)
        self.register_buffer("late", y.detach())
        if self.fails:
            raise ValueError("after all")
        return y


def contents(model):
    return (
        list(OrderedDict.items(model.config)),
        list.__repr__(model.listed),
        hasattr(model.slotted, "table"),
        model.slotted.count,
        repr(model.cache),
        model.names,
        sorted(model.__dict__),
        list(model._buffers),
        len(model.layer._forward_hooks),
        {name: id(parameter) for name, parameter in model.named_parameters()},
    )


@pytest.mark.parametrize("fails", [False, True])
def test_a_capture_leaves_the_model_as_it_was(fails):
    model = Holding()
    model.fails = fails
    before = repr(contents(model))
    with pytest.raises(tandem.CaptureError, match="after all") if fails else nullcontext():
        tandem.export(model, lambda m, b: m(b).sum(), sgd(model), BATCHES[0])
    assert repr(contents(model)) == before
    assert type(model.config) is Stubborn and model.cache.seen.maxlen == 4


def test_what_other_threads_write_to_stays():
    """A queue of a logger that the model has."""
    model = nn.Linear(6, 6)
    model.log = queue.SimpleQueue(), queue.Queue()

    def loss(model, batch):
        model.log[1].put(1)
        return mse(model, batch)

    tandem.export(model, loss, sgd(model), BATCHES[0])
    assert model.log[1].qsize() > 0


LAZY = """
import functools, torch
from torch import tensor
TABLE = torch.arange(6.0).double()
class Solver:
    nodes = tensor([1.0, 2.0])
class Tables:
    def __init__(self):
        self.kept = {}
CACHE, LIST, TABLES, MADE = {}, [], Tables(), None
@functools.lru_cache(maxsize=4)
def table(n):
    return torch.arange(n).double()
def use(x):
    global MADE
    if "x" not in CACHE:
        CACHE["x"], TABLES.kept[1], Solver.last, MADE = x * 2, [x], x + 1, TABLE * 2
        LIST.append(x)
    return x * table(6) + CACHE["x"] * TABLE + Solver.last * Solver.nodes.sum() + MADE
"""


@pytest.mark.parametrize("first", [False, True], ids=["imported before", "imported by it"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_capture_leaves_no_traced_tensor_in_modules(first, fails, tmp_path, monkeypatch):
    """What eager computes behind it is what it computes without it."""
    monkeypatch.syspath_prepend(tmp_path)
    name = f"lazy_{first}_{fails}"
    (tmp_path / f"{name}.py").write_text(LAZY)
    if not first:
        importlib.import_module(name)
    model = nn.Linear(6, 6)

    def loss(model, batch):
        y = importlib.import_module(name).use(model(batch).double())
        if fails and not torch.is_inference_mode_enabled():
            raise ValueError("after all")
        return y.mean()

    with pytest.raises(tandem.CaptureError, match="after all") if fails else nullcontext():
        tandem.export(model, loss, sgd(model), BATCHES[0])
    module = sys.modules[name]
    assert not module.CACHE and not module.LIST and not module.TABLES.kept and module.MADE is None
    assert not hasattr(module.Solver, "last") and module.table.cache_info().currsize == 0
    with torch.inference_mode():
        found = loss(model, BATCHES[0])
        y = model(BATCHES[0]).double()
        ramp = torch.arange(6.0).double()
        expected = y * ramp + 2 * y * ramp + (y + 1) * 3 + 2 * ramp
    torch.testing.assert_close(found, expected.mean())


class Momentum(nn.Module):
    """A frozen copy of a layer that follows it, by a write of some form in each forward pass."""

    def __init__(self, write):
        super().__init__()
        self.layer, self.slow, self.write = nn.Linear(6, 6), nn.Linear(6, 6), write
        self.slow.requires_grad_(False)
        self.count = torch.zeros(6)

    def forward(self, x):
        before = self.slow(x)
        for slow, fast in zip(self.slow.parameters(), self.layer.parameters(), strict=True):
            self.write(self, slow, fast)
        return self.layer(x) + before + self.slow(x)


def by_data(model, slow, fast):
    slow.data = slow.data * 0.9 + fast.data * 0.1


def within_data(model, slow, fast):
    slow.data.mul_(0.9).add_(fast.data, alpha=0.1)


def without_gradients(model, slow, fast):
    with torch.no_grad():
        slow.lerp_(fast, 0.1)


def of_both(model, slow, fast):
    fast.data = fast.data.clamp(-0.2, 0.2)
    slow.data.copy_(fast)


@pytest.mark.parametrize(
    "how", [{}, dict(mesh="data=2", plan="zero", micro=2)], ids=["one", "zero"]
)
@pytest.mark.parametrize("write", [by_data, within_data, without_gradients, of_both])
def test_writes_to_parameters_in_the_forward_pass(write, how):
    torch.manual_seed(1)
    model = Momentum(write).double()
    twin = copy.deepcopy(model)
    batches = [batch.double() for batch in BATCHES]
    step, optimizer = tandem.compile(model, mse, sgd(model), batches[0], **how), sgd(twin)
    for batch in batches:
        optimizer.zero_grad()
        loss = mse(twin, batch)
        loss.backward()
        optimizer.step()
        torch.testing.assert_close(step(batch), loss.detach(), rtol=1e-12, atol=0)
    for name, value in twin.state_dict().items():
        torch.testing.assert_close(step.state_dict()[name], value, rtol=1e-12, atol=1e-14)


def replaced(model, slow, fast):
    model.slow.bias = nn.Parameter(fast[0] * 1.0, requires_grad=False)


def of_another_shape(model, slow, fast):
    slow.data = slow.data[:1]


def to_a_plain_tensor(model, slow, fast):
    model.count += fast.detach().sum()


def to_a_constant(model, slow, fast):
    model.count.add_(1)


@pytest.mark.parametrize(
    "write,words",
    [
        (replaced, "parameter 'slow.bias': the forward pass puts another tensor in its place"),
        (of_another_shape, r"x.data = y with y of torch.float32 and shape \[1, 6\], expected"),
        (
            to_a_plain_tensor,
            r"test_python_state.py:\d+: a tensor is written to that is no parameter",
        ),
        (to_a_constant, r"test_python_state.py:\d+: a tensor is written to that is no parameter"),
    ],
)
def test_writes_that_no_step_can_have(write, words):
    model = Momentum(write)
    with pytest.raises(tandem.CaptureError, match=words) as e:
        compile_step(model)
    assert "\n" not in str(e.value)
    assert model.count.sum() == 0


def noted(model, y):
    """For who looks at it: the next step does not."""
    model.kept = F.dropout(y.detach(), 0.5)
    model.history.append(model.kept)
    return y


def table(model, y):
    """Equal in all steps, whoever makes it."""
    if model.kept is None:
        model.kept = torch.arange(6.0)
    return y * model.kept


@pytest.mark.parametrize("keep", [noted, table])
def test_a_tensor_that_changes_no_later_step_is_not(keep):
    model = Keeping(keep)
    twin = copy.deepcopy(model)
    step = compile_step(model)
    assert model.kept is None and model.history == []
    for batch in BATCHES:
        twin.zero_grad()
        eager = mse(twin, batch)
        eager.backward()
        sgd(twin).step()
        torch.testing.assert_close(step(batch), eager.detach())


@pytest.mark.parametrize("use", [lambda model, x: 1.0, cached], ids=["counts", "caches"])
def test_a_number_that_changes_nothing_is_not(use):
    model = Counting(use)
    step = compile_step(model)
    twin = copy.deepcopy(model)
    for batch in BATCHES:
        eager = mse(twin, batch)
        assert abs(step(batch).item() - eager.item()) < 1e-6
        sgd(twin).zero_grad()
        eager.backward()
        sgd(twin).step()
        twin.zero_grad()


@pytest.mark.parametrize(
    "draw, name",
    [(random.random, "Python's random"), (numpy.random.rand, "numpy.random")],
    ids=["python", "numpy"],
)
def test_random_numbers_of_others_are_refused(draw, name):
    def loss(model, batch):
        return mse(model, batch) * draw()  # here

    with pytest.raises(tandem.CaptureError, match=rf"test_python_state\.py:\d+: .* from {name},"):
        compile_step(nn.Linear(6, 6), loss)


def test_flags_that_are_no_longer_those_of_the_capture():
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6))
    step = compile_step(model)
    step(BATCHES[0])
    model[1].eval()
    with pytest.raises(tandem.StateError, match="module '1': training is False, expected True"):
        step(BATCHES[1])
    model.train()
    step(BATCHES[1])
    model.eval()
    with pytest.warns(UserWarning, match="the model is in eval mode, and the step trains in"):
        step(BATCHES[1])
    with warnings.catch_warnings(action="error"):  # once
        step(BATCHES[1])


class Annealed(nn.Module):
    """Reads a number that is set between steps, and has some that it does not read."""

    beta = 1.0

    def __init__(self):
        super().__init__()
        self.layer, self.drop, self.epoch = nn.Linear(6, 6), nn.Dropout(0.0), 0

    def forward(self, x):
        return self.beta * self.drop(self.layer(x))


def calls_of(monkeypatch, owner, name):
    """A list that gets longer with each call."""
    calls, original = [], getattr(owner, name)

    def counted(*args, **others):
        calls.append(args)
        return original(*args, **others)

    monkeypatch.setattr(owner, name, counted)
    return calls


def captures_of(monkeypatch):
    """Such lists of captures, and of what is compiled."""
    return (
        calls_of(monkeypatch, programs.Recipe, "capture"),
        calls_of(monkeypatch, programs.Programs, "_compile"),
    )


def test_a_number_that_is_set_between_steps_counts(monkeypatch):
    """As in eager, in training and evaluation; one that was there before is not captured again."""
    model = Annealed()
    twin = copy.deepcopy(model)
    step, eager = compile_step(model), sgd(twin)
    captured, compiled = captures_of(monkeypatch)
    for beta, count in ((0.5, 1), (0.25, 2), (0.5, 2), (True, 3), (1.0, 4), (0.25, 4)):
        model.beta = twin.beta = beta
        loss = mse(twin, BATCHES[0])
        eager.zero_grad()
        loss.backward()
        eager.step()
        torch.testing.assert_close(step(BATCHES[0]), loss.detach())
        assert len(captured) == count
    assert len(compiled) < len(captured)  # 1.0 is what the class has
    model.beta = twin.beta = 0.125
    torch.testing.assert_close(step.evaluate(BATCHES[1]), mse(twin.eval(), BATCHES[1]).detach())
    for name, value in step.state_dict().items():
        torch.testing.assert_close(value, twin.state_dict()[name])
    assert step.count == 6


def test_a_number_that_the_step_does_not_read_compiles_nothing(monkeypatch):
    model = Annealed()
    step = compile_step(model)
    captured, compiled = captures_of(monkeypatch)
    for epoch in (1, 2, 2, "last", 1):
        model.epoch = epoch
        step(BATCHES[0])
    assert (len(captured), len(compiled)) == (3, 0)


def test_what_is_returned_with_a_number_that_is_set():
    """The step's text is the same, and what it returns is not."""
    model = Annealed()

    def loss(model, batch):
        return {"loss": mse(model, batch), "epoch": model.epoch}

    step = compile_step(model, loss)
    found = []
    for epoch in (0, 1, 0, 2):
        model.epoch = epoch
        found.append(step(BATCHES[0])["epoch"])
    assert found == [0, 1, 0, 2]


def test_dropout_that_is_set_between_steps():
    model = Annealed()
    step = compile_step(model)
    losses = []
    for p in (0.0, 1.0):
        model.drop.p = p
        losses.append(step(BATCHES[0]))
    torch.testing.assert_close(losses[1], BATCHES[0].square().mean())
    assert losses[0] != losses[1]


COUNTS, TOTAL = {"calls": 0}, 0


class Meter:
    count = 0

    def __init__(self):
        self.seen, self.average = [], None


def of_a_global(state):
    global TOTAL
    TOTAL += 1
    return TOTAL


def of_a_dict(state):
    COUNTS["calls"] += 1
    return COUNTS["calls"]


def of_a_list(state):
    state.seen.append(1)
    return len(state.seen)


def of_a_class(state):
    Meter.count += 1
    return Meter.count


def of_a_threshold(state):
    state.seen.append(1)
    Meter.count += 1
    return 2.0 if Meter.count > 3 else 1.0


def of_a_period(state):
    COUNTS["calls"] += 1
    return 2.0 if COUNTS["calls"] % 100 == 0 else 1.0


LEFT = [of_a_global, of_a_dict, of_a_list, of_a_class, of_a_threshold, of_a_period]


@pytest.mark.parametrize("factor", LEFT)
def test_what_a_step_changes_outside_and_computes_with_is_refused(factor):
    state = Meter()
    with pytest.raises(tandem.CaptureError, match="is another one after a step") as error:
        compile_step(nn.Linear(6, 6), lambda model, batch: factor(state) * mse(model, batch))
    assert "\n" not in str(error.value)


def test_a_tensor_that_a_step_leaves_for_the_next_is_refused():
    state = Meter()

    def loss(model, batch):
        value = mse(model, batch)
        last = value.detach() if state.average is None else 0.9 * state.average + value.detach()
        state.average = last
        return value / last

    with pytest.raises(tandem.CaptureError, match="'state', which test_a_tensor.* reads"):
        compile_step(nn.Linear(6, 6), loss)
    assert state.average is None


class Inside(nn.Module):
    """Counts in an object, a dict, or by hand of a hook."""

    def __init__(self, use):
        super().__init__()
        self.layer, self.use, self.state, self.counts = nn.Linear(6, 6), use, Meter(), {"n": 0}

    def forward(self, x):
        self.counts["n"] += 1
        self.state.seen.append(1)
        self.state.last = x.detach()
        return self.layer(x) * self.use(self)


INSIDE = {
    "counts": lambda m: m.counts["n"],
    "state": lambda m: len(m.state.seen),
    "counts, later": lambda m: 2.0 if m.counts["n"] >= 10 else 1.0,
}


@pytest.mark.parametrize("use", INSIDE)
def test_what_a_model_changes_in_its_objects_and_computes_with_is_refused(use):
    model = Inside(INSIDE[use])
    with pytest.raises(tandem.CaptureError, match="attribute '(counts|state)'.*is another one"):
        compile_step(model)
    assert model.counts == {"n": 0} and not model.state.seen


def test_what_only_counts_is_no_error(capsys):
    """Nor what says when to print."""

    def use(model):
        if model.counts["n"] % 100 == 0:
            print("a hundred")
        return 1.0

    model, state = Inside(use).double(), Meter()

    def loss(model, batch):
        value = mse(model, batch)
        state.seen.append(value.detach())
        state.average = value.detach()
        return value

    compare(model, loss, sgd(model), [batch.double() for batch in BATCHES])
    assert not any(isinstance(each, FakeTensor) for each in [*state.seen, state.average])


def test_iterators_and_generators_that_the_loss_reads_are_refused():
    rates, draws = itertools.count(1), numpy.random.default_rng(0)
    model = nn.Linear(6, 6)
    with pytest.raises(tandem.CaptureError, match=r"'rates', which .* is an iterator \(count\)"):
        compile_step(model, lambda model, batch: next(rates) * mse(model, batch))
    with pytest.raises(tandem.CaptureError, match="'draws', which .* draws numbers"):
        compile_step(model, lambda model, batch: draws.uniform() * mse(model, batch))
    assert next(rates) == 1


class Kept:
    """What a step reads and puts anew in places that are no attributes of modules."""

    count, means = 0, [torch.zeros(6)]


KEPT, TALLY = {"mean": torch.zeros(6)}, [0]


class Leaving(nn.Module):
    def __init__(self, leave):
        super().__init__()
        self.layer, self.leave, self.slots = nn.Linear(6, 6), leave, [torch.zeros(6)]
        self.shadow = {name: p.detach().clone() for name, p in self.layer.named_parameters()}

    def forward(self, x):
        return self.layer(x) + self.leave(self, x)


def slot_of_an_attribute(model, x):
    model.slots[0] = model.slots[0] + x.mean(0)
    return model.slots[0]


def shadow_of_parameters(model, x):
    for name, parameter in model.layer.named_parameters():
        model.shadow[name] = model.shadow[name] * 0.9 + parameter.detach() * 0.1
    return F.linear(x, **model.shadow)


def list_of_a_class(model, x):
    Kept.means[0] = Kept.means[0] + x.mean(0)
    return Kept.means[0]


def dict_of_a_module_of_python(model, x):
    KEPT["mean"] = KEPT["mean"] + x.mean(0)
    return KEPT["mean"]


def count_in_a_list(model, x):
    TALLY[0] += 1
    return TALLY[0]


def new_attribute_of_a_class(model, x):
    Kept.other = getattr(Kept, "other", torch.zeros(6)) + x.mean(0)
    return Kept.other


def count_of_the_class(model, x):
    type(model).calls = getattr(type(model), "calls", 0) + 1
    return type(model).calls


@pytest.mark.parametrize(
    "leave, name",
    [
        (slot_of_an_attribute, "the model: attribute 'slots'"),
        (shadow_of_parameters, "the model: attribute 'shadow'"),
        (list_of_a_class, "'Kept.means"),
        (dict_of_a_module_of_python, "'KEPT"),
        (count_in_a_list, r"'TALLY\[0\]'"),
        (new_attribute_of_a_class, "Kept"),
        (count_of_the_class, "class Leaving"),
    ],
)
def test_what_a_step_leaves_in_containers_and_classes_is_refused(leave, name):
    with pytest.raises(tandem.CaptureError, match=name):
        compile_step(Leaving(leave))
    held = [*Kept.means, *KEPT.values(), getattr(Kept, "other", None)]
    assert not any(isinstance(value, FakeTensor) for value in held)


class WithArray(nn.Module):
    def __init__(self, use):
        super().__init__()
        self.layer, self.use = nn.Linear(6, 6), use
        self.register_buffer("table", torch.ones(6))
        self.array, self.fixed = self.layer.bias.detach().numpy(), self.table.numpy()

    def forward(self, x):
        return self.layer(x) + self.use(self)


def test_arrays_in_the_memory_of_parameters():
    """Numbers of one are refused, where the step writes to the tensor; a tensor of one is the parameter."""
    words = "'model.array', which the model reads: holds an array of NumPy's in the memory of parameter 'layer.bias'"
    with pytest.raises(tandem.CaptureError, match=words):
        compile_step(WithArray(lambda model: float(model.array.sum())))
    model = WithArray(lambda m: torch.from_numpy(m.array) * float(m.fixed.sum()))
    before, twin = model.array.copy(), copy.deepcopy(model)
    twin.array, twin.fixed = twin.layer.bias.detach().numpy(), twin.table.numpy()
    step = compile_step(model)
    assert (model.array == before).all()
    optimizer = sgd(twin)
    for batch in BATCHES:
        expected = mse(twin, batch)
        optimizer.zero_grad()
        expected.backward()
        optimizer.step()
        torch.testing.assert_close(step(batch), expected.detach(), rtol=1e-5, atol=0)


def test_draws_behind_a_seed_that_the_loss_sets_are_refused():
    def loss(model, batch):
        torch.manual_seed(0)
        return mse(model, batch) * torch.rand(())

    def within(model, batch):
        with torch.random.fork_rng(devices=[]):
            return loss(model, batch)

    def directly(model, batch):
        torch.default_generator.manual_seed(0)
        return mse(model, batch) * torch.rand(())

    words = {each: "rand draws behind torch.manual_seed" for each in (loss, within)}
    words[directly] = "here or before, torch.default_generator is set"
    for each, text in words.items():
        with pytest.raises(tandem.CaptureError, match=rf"state.py:\d+: {text}"):
            compile_step(nn.Linear(6, 6), each)


def test_seeds_that_decide_no_number_or_are_random():
    """A part that is run again with a seed of `torch.seed()` draws the same numbers, other ones of other seeds."""

    def loss(model, batch):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
        seeds = [int(torch.seed() % sys.maxsize), torch.seed()]
        draws = []
        for seed in (seeds[0], seeds[1], seeds[0]):
            torch.manual_seed(seed)
            draws.append(torch.rand(3))
        result = mse(model, batch) + torch.stack(draws).detach().sum() * 0
        torch.manual_seed(1)
        return result, draws

    step = compile_step(nn.Linear(6, 6), loss)
    before = [draw.clone() for draw in step(BATCHES[0])[1]]
    after = step(BATCHES[0])[1]
    for first, second, third in (before, after):
        assert torch.equal(first, third) and not torch.equal(first, second)
    assert not torch.equal(before[0], after[0])
