"""Parameters that a model holds in containers and attributes, without having registered them, train as in eager."""

import copy

import pytest
import tandem
import torch
from comparing import eager_step, train_beside
from tandem.__main__ import main
from tandem.tracing.unregistered import named_buffers, named_parameters
from torch import nn


class Net(nn.Module):
    """`start` gives attributes to the module, `forward` is called with it."""

    def __init__(self, start, forward):
        super().__init__()
        self.l = nn.Linear(4, 4)
        self.forward = lambda x: forward(self, x)
        start(self)
        self.double()


class Lists(nn.Module):
    """Modules in lists, with buffers, a weight that a registered module shares, a recurrent layer, and a tensor in a tuple."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.l = nn.Linear(4, 4).double()
        self.blocks = [nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).double()]
        self.blocks[0][0].weight = self.l.weight
        self.more = {"rnn": [nn.GRU(4, 4, batch_first=True).double()]}
        self.scales = (nn.Parameter(torch.ones(4, dtype=torch.float64)), "text")

    def forward(self, x):
        x = self.l(self.blocks[0](x) * self.scales[0])
        return self.more["rnn"][0](x[:, None])[0]


def every(m):
    own = [*m.parameters(), *m.blocks[0].parameters(), *m.more["rnn"][0].parameters(), m.scales[0]]
    return list(dict.fromkeys(own))


def adam(m):
    return torch.optim.AdamW(every(m), lr=0.02)


def loss(m, x):
    return m(x).square().mean()


BATCHES = [torch.randn(8, 4, generator=torch.Generator().manual_seed(i)).double() for i in range(4)]


def same(model, optimizer, own, own_optimizer):
    for named in (named_parameters, named_buffers):
        found, expected = dict(named(model, optimizer)), dict(named(own, own_optimizer))
        assert found.keys() == expected.keys()
        for name, value in found.items():
            torch.testing.assert_close(value, expected[name], rtol=1e-9, atol=1e-12)


def test_trains_as_eager_and_goes_on_from_a_checkpoint(tmp_path):
    model, own, third = Lists(), Lists(), Lists()
    optimizer, own_optimizer = adam(model), adam(own)
    step = tandem.compile(model, loss, optimizer, BATCHES[0], mesh={"data": 2})
    names = {a.name for a in step.module.arguments if a.role == "parameter"}
    assert {"blocks.0.1.weight", "more.rnn.0.weight_ih_l0", "scales.0"} <= names
    for batch in BATCHES[:2]:
        expected = eager_step(own, loss, own_optimizer, batch)
        torch.testing.assert_close(step(batch), expected, rtol=1e-9, atol=1e-12)
    step.sync_to(model, optimizer)
    same(model, optimizer, own, own_optimizer)
    step.save(tmp_path / "saved")

    again = tandem.compile(third, loss, adam(third), BATCHES[0])
    again.load(tmp_path / "saved")
    for batch in BATCHES[2:]:
        expected = eager_step(own, loss, own_optimizer, batch)
        torch.testing.assert_close(again(batch), expected, rtol=1e-9, atol=1e-12)
    fourth = Lists()
    again.sync_to(fourth)
    same(fourth, adam(fourth), own, own_optimizer)


@pytest.mark.parametrize(
    "start",
    [
        lambda m: setattr(m, "held", [nn.Parameter(torch.ones(4).double())]),
        lambda m: setattr(m, "held", {0: torch.ones(4).double().requires_grad_()}),
        lambda m: vars(m).update(held={0: nn.Parameter(torch.ones(4).double())}),
    ],
)
def test_tensors_in_containers(start):
    def make():
        torch.manual_seed(0)
        return Net(start, lambda m, x: m.l(x) * m.held[0])

    def sgd(m):
        return torch.optim.SGD([*m.parameters(), m.held[0]], lr=0.1, momentum=0.9)

    model, own = make(), make()
    step = tandem.compile(model, loss, sgd(model), BATCHES[0])
    train_beside(step, own, loss, sgd(own), BATCHES)
    step.sync_to(model)
    torch.testing.assert_close(model.held[0], own.held[0], rtol=1e-9, atol=1e-12)


def test_values_that_are_set_are_seen():
    model = Lists()
    step = tandem.compile(model, loss, adam(model), BATCHES[0])
    with torch.no_grad():
        model.blocks[0][1].weight.mul_(2)
    with pytest.raises(tandem.StateError, match=r"values of 'blocks\.0\.1\.weight' were changed"):
        step(BATCHES[0])
    step.load(model=model)
    own = copy.deepcopy(model)
    train_beside(step, own, loss, adam(own), BATCHES[:2])


def test_parameter_of_an_object():
    class Holder:
        pass

    def start(m):
        m.held = Holder()
        m.held.w = nn.Parameter(torch.ones(4).double())

    model = Net(start, lambda m, x: m.l(x) * m.held.w)
    optimizer = torch.optim.SGD([*model.parameters(), model.held.w], lr=0.1)
    with pytest.raises(tandem.CaptureError, match="^optimizer .* parameter 2 .* nn.ParameterList"):
        tandem.compile(model, loss, optimizer, BATCHES[0])


def test_hook_that_is_added():
    model, own = Lists(), Lists()
    step = tandem.compile(model, loss, adam(model), BATCHES[0])
    for each in (model, own):
        each.blocks[0][1].weight.register_hook(lambda gradient: gradient * 0.5)
    train_beside(step, own, loss, adam(own), BATCHES[:2])


def test_model_file(tmp_path, capsys):
    path = tmp_path / "model.py"
    path.write_text(
        "import torch\n"
        "PRESETS = {'one': {}}\n"
        "def model():\n"
        "    layer = torch.nn.Linear(4, 4)\n"
        "    layer.held = [torch.nn.Parameter(torch.ones(4))]\n"
        "    return layer\n"
        "def loss(model, batch): return (model(batch) * model.held[0]).sum()\n"
        "def optimizer(model): return torch.optim.SGD([*model.parameters(), *model.held], lr=0.1)\n"
        "def batches():\n"
        "    while True: yield torch.ones(4, 4)\n"
    )
    assert main(["verify", str(path)]) == 1
    assert "trains 'held.0'," in capsys.readouterr().err
