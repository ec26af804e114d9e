"""`tandem.compile`: training steps as a user calls them."""

import copy
import json
import re

import pytest
import tandem
import torch
import torch.nn.functional as F
from torch import nn

CLASSES = 5


class Net(nn.Module):
    """Tied weights, a buffer that changes, dropout, and a parameter that nothing uses."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.norm = nn.BatchNorm1d(8)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(8, CLASSES)
        self.unused = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.head(self.dropout(self.norm(torch.tanh(self.second(F.gelu(self.first(x)))))))


def loss_fn(model, batch):
    return F.cross_entropy(model(batch["x"]), batch["y"])


def batches(count, size=8):
    generator = torch.Generator().manual_seed(3)
    return [
        {
            "x": torch.randn(size, 8, generator=generator, dtype=torch.float64),
            "y": torch.randint(CLASSES, (size,), generator=generator),
        }
        for _ in range(count)
    ]


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)


def make(optimizer=adam, dropout=0.0):
    torch.manual_seed(1)
    model = Net(dropout).double()
    return model, optimizer(model)


def train_eager(model, optimizer, data):
    losses = []
    for batch in data:
        optimizer.zero_grad()
        loss = loss_fn(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def assert_close(found, expected, tolerance=1e-9):
    assert list(found) == list(expected)
    for name, tensor in expected.items():
        torch.testing.assert_close(
            found[name], tensor, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.fixture(scope="module")
def data():
    return batches(4)


@pytest.mark.parametrize("optimizer", [adam, sgd])
@pytest.mark.parametrize("how", [{}, {"mesh": {"data": 2}, "plan": "zero", "micro": 2}])
def test_trains_as_eager(data, optimizer, how):
    model, optim = make(optimizer)
    step = tandem.compile(model, loss_fn, optim, data[0], **how)
    losses = [step(batch) for batch in data]
    assert all(loss.dim() == 0 and loss.dtype == torch.float64 for loss in losses)
    expected = train_eager(model, optim, data)
    torch.testing.assert_close(torch.stack(losses), torch.stack(expected), rtol=1e-9, atol=1e-9)
    assert_close(step.state_dict(), model.state_dict())
    model.load_state_dict(step.state_dict())


def test_reads_learning_rates_at_each_step(data):
    model, optim = make()
    step = tandem.compile(model, loss_fn, optim, data[0])
    twin, twin_optim = copy.deepcopy(model), None
    twin_optim = adam(twin)
    for rate, batch in zip((1e-2, 5e-3, 0.0, 1e-3), data, strict=True):
        optim.param_groups[0]["lr"] = twin_optim.param_groups[0]["lr"] = rate
        step(batch)
        train_eager(twin, twin_optim, [batch])
    assert_close(step.state_dict(), twin.state_dict())


@pytest.mark.parametrize("optimizer", [adam, sgd])
def test_optimizer_state_goes_on_in_torch(data, optimizer):
    model, optim = make(optimizer)
    step = tandem.compile(model, loss_fn, optim, data[0])
    for batch in data[:2]:
        step(batch)
    twin = copy.deepcopy(model)
    twin_optim = optimizer(twin)
    twin.load_state_dict(step.state_dict())
    twin_optim.load_state_dict(step.optimizer_state_dict())
    train_eager(twin, twin_optim, data[2:])
    train_eager(model, optim, data)
    assert_close(twin.state_dict(), model.state_dict())


@pytest.mark.parametrize("optimizer", [adam, sgd])
def test_resumes_to_the_bit(data, optimizer):
    model, optim = make(optimizer, dropout=0.5)
    how = {"mesh": {"data": 2}, "plan": "zero", "seed": 7}
    whole = tandem.compile(model, loss_fn, optim, data[0], **how)
    losses = [whole(batch) for batch in data]
    first = tandem.compile(model, loss_fn, optim, data[0], **how)
    for batch in data[:2]:
        first(batch)
    second = tandem.compile(model, loss_fn, optim, data[0], mesh={"data": 2}, plan="zero")
    second.load_state_dict(first.state_dict(), first.optimizer_state_dict())
    assert [second(batch) for batch in data[2:]] == losses[2:]
    assert all(
        torch.equal(a, b)
        for a, b in zip(second.state_dict().values(), whole.state_dict().values(), strict=True)
    )


def test_takes_over_an_optimizer_in_mid_training(data):
    model, optim = make()
    train_eager(model, optim, data[:2])
    step = tandem.compile(model, loss_fn, optim, data[0])
    for batch in data[2:]:
        step(batch)
    train_eager(model, optim, data[2:])
    assert_close(step.state_dict(), model.state_dict())


def test_gradients(data):
    model, optim = make()
    step = tandem.compile(
        model, loss_fn, optim, data[0], gradients=True, mesh="data=2", plan="data-parallel"
    )
    step(data[0])
    loss_fn(model, data[0]).backward()
    expected = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert_close(step.gradients(), expected)


def test_gradients_must_be_asked_for(data):
    model, optim = make()
    step = tandem.compile(model, loss_fn, optim, data[0])
    step(data[0])
    with pytest.raises(tandem.TandemError, match="gradients=True"):
        step.gradients()


def test_other_batches_are_refused(data):
    model, optim = make()
    step = tandem.compile(model, loss_fn, optim, data[0])
    with pytest.raises(tandem.BatchError, match=r"'x' is float64\[8\], expected float64\[8, 8\]"):
        step({"x": data[0]["x"][0], "y": data[0]["y"]})
    with pytest.raises(tandem.BatchError, match="'x' is float32"):
        step({"x": data[0]["x"].float(), "y": data[0]["y"]})
    with pytest.raises(tandem.BatchError, match="found tensors x, expected tensors x, y"):
        step({"x": data[0]["x"]})
    with pytest.raises(tandem.BatchError, match="found no tensor but list, expected tensors x, y"):
        step([1.0, 2.0])
    model = nn.Linear(3, 1)
    step = tandem.compile(model, lambda m, b: m(b).sum(), sgd(model), torch.ones(4, 3))
    with pytest.raises(tandem.BatchError, match="no tensor but numpy.ndarray, expected a tensor"):
        step(torch.ones(4, 3).numpy())


@pytest.mark.parametrize("how", [{}, {"mesh": {"data": 4}, "plan": "zero", "micro": 2}])
def test_loss_that_is_not_finite_stops_before_the_update(data, how):
    model, optim = make()
    step = tandem.compile(model, loss_fn, optim, data[0], **how)
    twin = copy.deepcopy(model)
    step(data[0])
    before = {name: tensor.clone() for name, tensor in step.state_dict().items()}
    bad = {"x": data[1]["x"].clone(), "y": data[1]["y"]}
    bad["x"][5, 2] = float("nan")
    with pytest.raises(tandem.NonFiniteLossError, match="step 2"):
        step(bad)
    after = step.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    train_eager(twin, adam(twin), data[:2])
    step(data[1])
    assert_close(step.state_dict(), twin.state_dict())


def test_batch_must_divide(data):
    model, optim = make()
    with pytest.raises(tandem.CompileError, match=r"3") as caught:
        tandem.compile(model, loss_fn, optim, data[0], mesh={"data": 3})
    assert "\n" not in str(caught.value)
    assert re.match(
        r"the batch of input 'x' has size \d+, .* \(data=3\), expected a multiple$",
        str(caught.value),
    )


@pytest.mark.parametrize(
    "how,words",
    [
        ({"plan": "magic", "mesh": "data=2"}, "magic"),
        ({"mesh": "data=0"}, "0"),
        ({"mesh": "data"}, "data"),
        ({"mesh": {"data": -1}}, "-1"),
        ({"mesh": "data=2=3"}, "mesh 'data=2=3': found 'data=2=3', expected axis=size"),
        ({"mesh": "data=2,"}, "found '', expected axis=size"),
        ({"mesh": "data=2,data=2"}, "axis 'data' is there twice"),
        ({"mesh": f"data={2**63}"}, f"axis 'data' has size {2**63}, expected an integer from 1 to"),
        ({"mesh": {"data": 2**63}}, f"axis 'data' has size {2**63}, expected an integer from 1 to"),
        ({"mesh": {"data": 2**20, "model": 2**20}}, f"mesh: has {2**40} points, expected at most"),
        ({"mesh": {"data": True}}, "axis 'data' has size True, expected an integer"),
        ({"mesh": {"a b": 2}}, "mesh: found axis 'a b', expected an identifier"),
        ({"mesh": {3: 2}}, "mesh: found axis 3, expected an identifier"),
        (
            {"mesh": {"data": 10**5000}},
            "mesh: axis 'data' has size <int>, expected an integer from",
        ),
        (
            {"mesh": f"data={'9' * 500}"},
            r"mesh 'data=9{91}\.\.\.: found 'data=9*\.\.\., expected axis=size",
        ),
        ({"mesh": 4}, "mesh: found 4, expected a dict"),
        ({"pins": None}, "pins is None, expected a list of what tandem.pin"),
        ({"pins": "head.weight:data=full"}, "pins is 'head.weight:data=full', expected a list"),
        ({"pins": [3]}, "pins has 3, expected what tandem.pin"),
        ({"micro": 2**63}, f"micro is {2**63}, expected an integer from 1 to"),
        ({"seed": 2**63}, f"seed is {2**63}, expected an integer of 64 bits"),
        ({"fail_on_replicate": 2**63}, f"fail_on_replicate is {2**63}, expected bytes"),
        ({"micro": 0}, "0"),
        (
            {"mesh": "data=2", "pins": [tandem.pin("no.such.name", data="gather(0)")]},
            "no.such.name",
        ),
        ({"mesh": "data=2", "pins": [tandem.pin("head.weight", model="gather(0)")]}, "model"),
        ({"mesh": "data=2", "pins": [tandem.pin("head.weight", data="gather(7)")]}, r"gather\(7\)"),
        ({"mesh": "data=2", "plan": "/no/such/plan.txt"}, "/no/such/plan.txt"),
    ],
)
def test_bad_plans_are_one_line(data, how, words):
    model, optim = make()
    with pytest.raises(tandem.CompileError, match=words) as caught:
        tandem.compile(model, loss_fn, optim, data[0], **how)
    # It begins with the option: the text of the step is none of the user's.
    assert "\n" not in str(caught.value) and ".mlir" not in str(caught.value)


def test_pins_name_axes():
    with pytest.raises(tandem.CompileError, match="pin 'a': found axis 'b c', expected an ident"):
        tandem.pin("a", **{"b c": "full"})
    with pytest.raises(tandem.CompileError, match="pin: names 3, expected a text such as"):
        tandem.pin(3, data="full")


def test_pin_fixes_how_a_parameter_is_stored(data):
    model, optim = make()
    pins = [tandem.pin("head.weight", data="gather(1)")]
    step = tandem.compile(model, loss_fn, optim, data[0], mesh="data=2", pins=pins)
    (argument,) = [
        a for a in step.program.arguments if a.name == "head.weight" and a.role == "parameter"
    ]
    assert (argument.global_shape, argument.local_shape) == ([CLASSES, 8], [CLASSES, 4])
    losses = torch.stack([step(batch) for batch in data])
    torch.testing.assert_close(
        losses, torch.stack(train_eager(model, optim, data)), rtol=1e-9, atol=1e-9
    )


def test_plan_text_compiles_again_and_not_for_another_graph(data, tmp_path):
    model, optim = make()
    how = {"mesh": "data=2", "micro": 2}
    step = tandem.compile(model, loss_fn, optim, data[0], plan="zero", **how)
    path = tmp_path / "plan.txt"
    path.write_text(step.compiled.plan)
    again = tandem.compile(model, loss_fn, optim, data[0], plan=str(path), **how)
    assert again.bytes == step.bytes
    with pytest.raises(tandem.CompileError, match="made for the graph"):
        tandem.compile(model, loss_fn, optim, batches(1, size=16)[0], plan=str(path), **how)


COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def hidden_share_of(timeline):
    """Of a written time line: nanoseconds with a collective of a rank and another command of its own, of those
    with a collective; counted between any two neighbouring times.
    """
    hidden = everything = 0
    slices = [event for event in timeline["traceEvents"] if event["ph"] == "X"]
    for rank in {event["pid"] for event in slices}:
        busy = {True: [], False: []}
        for event in slices:
            if event["pid"] == rank and event["cat"] != "wait":
                begin, length = (round(event[key] * 1000) for key in ("ts", "dur"))
                busy[event["cat"] in COLLECTIVES].append((begin, begin + length))
        times = sorted({time for part in busy.values() for ends in part for time in ends})
        for begin, end in zip(times, times[1:], strict=False):
            sends, computes = (any(b <= begin < e for b, e in busy[kind]) for kind in (True, False))
            everything += (end - begin) * sends
            hidden += (end - begin) * (sends and computes)
    return hidden / everything


def test_timeline(data, tmp_path):
    model, optim = make()
    step = tandem.compile(model, loss_fn, optim, data[0], mesh="data=2", micro=2)
    with step.trace(tmp_path / "timeline.json"):
        for batch in data:
            step(batch)
    timeline = json.loads((tmp_path / "timeline.json").read_text())
    commands = [
        c for c in step.program.rank_programs[0].commands if c.kind not in ("record_event",)
    ]
    slices = [event for event in timeline["traceEvents"] if event["ph"] == "X"]
    assert len(slices) == 2 * len(data) * len(commands)
    assert {event["args"]["step"] for event in slices} == {1, 2, 3, 4}
    assert step.hidden_share() == pytest.approx(hidden_share_of(timeline), rel=1e-6)
    step(data[0])
    assert step.hidden_share() == pytest.approx(hidden_share_of(timeline), rel=1e-6)


@pytest.mark.parametrize(
    "plan,lines",
    [
        (
            "data-parallel",
            [
                "1x parameter head.weight [5, 8]  full  320 B -> 320 B",
                "1x input x [8, 8]  data: gather(0), micro: gather(0)  512 B -> 256 B",
                "update  all-reduce  data  gradient  5x  1000 B",
            ],
        ),
        (
            "zero",
            [
                "1x parameter head.weight [5, 8]  data: gather(1)  320 B -> 160 B",
                "1x parameter head.bias [5]  full  40 B -> 40 B",
                "whole on axis 'data' of size 2, since no dimension divides: head.bias [5]",
                "update  reduce-scatter  data  gradient  5x  1.0 KiB",
            ],
        ),
    ],
)
def test_plan_says_what_is_split_and_sent(data, plan, lines):
    model, optim = make()
    step = tandem.compile(model, loss_fn, optim, data[0], mesh="data=2", micro=2, plan=plan)
    found = [line.strip() for line in step.plan.splitlines()]
    assert found[0] == "Plan for the mesh data=2, micro=2"
    assert not [line for line in lines if line not in found]


def test_state_dict_must_be_whole(data):
    model, optim = make()
    step = tandem.compile(model, loss_fn, optim, data[0])
    state = model.state_dict()
    del state["head.bias"]
    with pytest.raises(tandem.StateError, match="head.bias"):
        step.load_state_dict(state)
    with pytest.raises(tandem.StateError, match=r"\[2\], expected \[5\]"):
        step.load_state_dict(state | {"head.bias": torch.zeros(2)})
    with pytest.raises(tandem.StateError, match="'more', expected only names"):
        step.load_state_dict(model.state_dict() | {"more": torch.zeros(2)})
    with pytest.raises(tandem.StateError, match="found NoneType, expected a dict"):
        step.load_state_dict(None)
    with pytest.raises(tandem.StateError, match="has no 'state'"):
        step.load_state_dict(model.state_dict(), {})


def test_only_numbers_may_change(data):
    model, optim = make()
    step = tandem.compile(model, loss_fn, optim, data[0])
    optim.param_groups[0]["maximize"] = True
    with pytest.raises(tandem.StateError, match=r"group 0: maximize is True, expected False"):
        step(data[0])
    optim.param_groups[0]["maximize"] = False
    optim.param_groups[0]["lr"] = "fast"
    with pytest.raises(tandem.StateError, match="lr is 'fast', expected a number"):
        step(data[0])
    optim.param_groups[0]["lr"] = float("nan")
    with pytest.raises(tandem.StateError, match="lr is nan, expected a finite number"):
        step(data[0])


def weighted_loss(model, batch):
    return loss_fn(model, batch["data"]) * batch["weight"]


def test_numbers_in_a_batch_are_constants(data):
    model, optim = make()
    step = tandem.compile(model, weighted_loss, optim, {"data": data[0], "weight": 1.0})
    step({"data": data[1], "weight": 1.0})
    with pytest.raises(tandem.BatchError, match="'weight' is 5.0, expected 1.0"):
        step({"data": data[1], "weight": 5.0})


def test_dampening_of_a_fresh_state(data):
    """The first momentum of a fresh SGD is the gradient itself, also where the step has had one."""
    model, _ = make()
    optim = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.5)
    fresh = optim.state_dict()
    train_eager(model, optim, data[:2])
    step = tandem.compile(model, loss_fn, optim, data[0])
    step.load_state_dict(model.state_dict(), fresh)
    twin = copy.deepcopy(model)
    train_eager(
        twin, torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9, dampening=0.5), data[:3]
    )
    for batch in data[:3]:
        step(batch)
    for name, value in step.state_dict().items():
        torch.testing.assert_close(value, twin.state_dict()[name], rtol=1e-9, atol=1e-9)


def test_bad_optimizer_states_change_nothing(data):
    model, optim = make()
    step = tandem.compile(model, loss_fn, optim, data[0])
    step(data[0])
    own, before = step.optimizer_state_dict(), step.state_dict()
    zeros = {name: torch.zeros_like(value) for name, value in before.items()}
    group = own["param_groups"][0]
    for state, words in [
        (own | {"state": None}, "'state': found NoneType, expected a dict"),
        (own | {"state": {0: None}}, "state 0: found NoneType"),
        (own | {"state": {0: {"step": "a"}}}, "found 'a', expected an integer"),
        (
            own | {"state": {1: {"exp_avg": torch.zeros(1)}}},
            r"'exp_avg.* has shape \[1\], expected",
        ),
        (own | {"param_groups": []}, "found 0 parameter groups, expected the 1"),
        (own | {"param_groups": 3}, "expected parameter groups as dicts"),
        (own | {"param_groups": [group | {"params": [0]}]}, "found 1 parameters, expected"),
        (own | {"param_groups": [group | {"maximize": True}]}, "maximize is True, expected False"),
    ]:
        with pytest.raises(tandem.StateError, match=words):
            step.load_state_dict(zeros, state)
    assert_close(step.state_dict(), before, 0)


def test_a_model_on_the_meta_device_needs_values_first(data):
    model, optim = make()
    with torch.device("meta"):
        bare = Net().double()
    step = tandem.compile(bare, loss_fn, adam(bare), data[0], mesh={"data": 2}, plan="zero")
    assert "weight" in step.plan
    words = r"parameter 'unused' is on the meta device.*load_state_dict"
    for use in (lambda: step(data[0]), step.state_dict):
        with pytest.raises(tandem.StateError, match=words):
            use()
    step.load_state_dict(model.state_dict())
    losses = [step(batch) for batch in data]
    for found, expected in zip(losses, train_eager(model, optim, data), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_a_buffer_on_the_meta_device_that_no_state_dict_has(data):
    class Scaled(Net):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(CLASSES), persistent=False)

        def forward(self, x):
            return super().forward(x) * self.scale

    with torch.device("meta"):
        bare = Scaled().double()
    step = tandem.compile(bare, loss_fn, adam(bare), data[0])
    step.load_state_dict(Scaled().double().state_dict())
    with pytest.raises(tandem.StateError, match="buffer 'scale'.*made on the CPU"):
        step(data[0])


def test_a_model_made_in_inference_mode_trains(data):
    with torch.inference_mode():
        model, optim = make()
        step = tandem.compile(model, loss_fn, optim, data[0])
    losses = [step(batch) for batch in data]
    model, optim = make()
    for found, expected in zip(losses, train_eager(model, optim, data), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_an_axis_that_splits_nothing_is_a_warning_at_the_users_line(data):
    model, optim = make()
    with pytest.warns(UserWarning, match="axis 'modle' splits nothing") as caught:
        tandem.compile(model, loss_fn, optim, data[0], mesh={"data": 2, "modle": 2})
    assert caught[0].filename == __file__


class MaskByIndex(nn.Module):
    """Rows of a mask picked by indices of the batch, as the masking functions of transformers do."""

    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(20, 8), nn.Linear(8, 20)

    def forward(self, ids, mask):
        x, (rows, columns) = self.table(ids), ids.shape
        row = torch.arange(rows)[:, None, None]
        column = torch.arange(columns)[None, None, :]
        allowed = mask.bool()[row, column]
        return self.out((x @ x.mT).masked_fill(~allowed, -1e4).softmax(-1) @ x)


@pytest.mark.parametrize(
    "how",
    [
        dict(mesh={"data": 4}, plan="zero"),
        dict(mesh={"data": 2}, plan="data-parallel"),
        dict(mesh={"data": 2}, plan="data-parallel", micro=2),
    ],
)
def test_truth_values_are_never_summed(how):
    torch.manual_seed(0)
    model = MaskByIndex().double()
    ids, mask = torch.randint(20, (8, 6)), torch.ones(8, 6, dtype=torch.long)
    mask[::2, -2:] = 0

    def loss(model, batch):
        return F.cross_entropy(model(*batch).flatten(0, 1), batch[0].flatten())

    expected = [loss(model, (ids, mask)).item()]
    step = tandem.compile(model, loss, sgd(model), (ids, mask), **how)
    assert [step((ids, mask)).item()] == pytest.approx(expected, rel=1e-12)
