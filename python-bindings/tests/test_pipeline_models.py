"""Pipelines of models that are no chain give what eager gives on one device."""

import json
from collections import Counter
from pathlib import Path

import pytest
import tandem
import torch
from forked import Forks
from tandem.errors import CompileError
from test_accumulate import assert_equals_eager, batches, compile_step, masked_loss
from torch import nn
from torch.nn import functional


def at(*globs):
    """A section of each entry, on the point of its number."""
    return [tandem.pin(glob, pipe=f"at({point})") for point, glob in enumerate(globs)]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x, memory):
        return x + functional.scaled_dot_product_attention(
            self.query(x), self.key(memory), self.value(memory)
        )


class EncoderDecoder(nn.Module):
    """Each layer of the decoder reads the memory, which the encoder makes."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.decoder = nn.ModuleList(Attention() for _ in range(3))
        self.head = nn.Linear(8, 6)

    def forward(self, x):
        memory = x[:, None].expand(-1, 3, -1) * torch.arange(1.0, 4.0, dtype=x.dtype)[:, None]
        for layer in self.encoder:
            memory = layer(memory).tanh()
        own = x[:, None, :].flip(-1)
        for layer in self.decoder:
            own = layer(own, memory)
        return self.head(own.squeeze(1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList(nn.Conv1d(c, d, 3, padding=1) for c, d in ((1, 2), (2, 4)))
        self.middle = nn.Conv1d(4, 4, 3, padding=1)
        self.up = nn.ModuleList(nn.Conv1d(c, d, 3, padding=1) for c, d in ((8, 2), (4, 1)))
        self.head = nn.Linear(8, 6)

    def forward(self, x):
        x, skips = x[:, None], []
        for down in self.down:
            x = down(x).relu()
            skips.append(x)
            x = functional.avg_pool1d(x, 2)
        x = self.middle(x).relu()
        for up in self.up:
            x = functional.interpolate(x, scale_factor=2)
            x = up(torch.cat([x, skips.pop()], 1)).relu()
        return self.head(x.squeeze(1))


class Language(nn.Module):
    """The weight of the embedding is that of the head, too. Has a buffer."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.embedding = nn.Embedding(6, 8)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 8))

    def forward(self, x):
        x = x.softmax(-1)[:, :6] @ self.embedding.weight
        for layer in self.layers:
            x = self.dropout(layer(x).tanh()) * self.scale
        return x @ self.embedding.weight.T


class Blocks(nn.Module):
    """A parameter of attention is stored in parts."""

    def __init__(self):
        super().__init__()
        options = dict(dropout=0.0, batch_first=True)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(8, 2, 8, **options) for _ in range(2)
        )
        self.head = nn.Linear(8, 6)

    def forward(self, x):
        x = x.unsqueeze(1)
        for block in self.blocks:
            x = block(x)
        return self.head(x.squeeze(1))


MEMORY_PINS = at("encoder.*", "decoder.0.*", "decoder.1.*", "decoder.2.*,head.*")
SKIP_PINS = at("down.*", "middle.*", "up.0.*", "up.1.*,head.*")
# Section 0 has one operator.
UNEVEN_PINS = at("embedding.*", "layers.[012].*", "layers.3.*")
HALVES = at("embedding.*,layers.[01].*", "layers.[23].*")


def make(kind, *arguments):
    def made():
        torch.manual_seed(1)
        return kind(*arguments).double()

    return made


def list_transfers(step):
    """How often the points of each pair send a tensor of each shape, in a step: {(from, to, shape): count}."""
    ends = Counter(
        (command.operation.from_point, command.operation.to_point, *command.operation.shape)
        for own in step.program.rank_programs
        for command in own.commands
        if command.kind == "transfer"
    )
    return Counter({key: count // 2 for key, count in ends.items()})


def test_memory_goes_straight_to_each_reader():
    """And one gradient comes back from each."""
    options = dict(mesh={"pipe": 4}, accumulate=2, pins=MEMORY_PINS)
    step = assert_equals_eager(masked_loss, batches(2), make(EncoderDecoder), **options)
    found = Counter(key[:2] for key in list_transfers(step).elements())
    straight = {ends: 2 for p in (1, 2, 3) for ends in ((0, p), (p, 0))}
    assert found == straight | {ends: 2 for ends in ((1, 2), (2, 1), (2, 3), (3, 2))}


def test_skips_go_straight():
    options = dict(mesh={"pipe": 4}, accumulate=2, pins=SKIP_PINS)
    step = assert_equals_eager(masked_loss, batches(2), make(UNet), **options)
    found = list_transfers(step)
    assert found[0, 3, 8, 2, 8] == found[3, 0, 8, 2, 8] == 2  # the outer one
    assert found[0, 2, 8, 4, 4] == found[2, 0, 8, 4, 4] == 2  # the inner one
    assert len(found) == 10, found


def test_tied_weights_cross_once():
    options = dict(mesh={"pipe": 3}, accumulate=4, pins=UNEVEN_PINS)
    step = assert_equals_eager(masked_loss, batches(2), make(Language), **options)
    found = list_transfers(step)
    assert found[0, 2, 6, 8] == found[2, 0, 6, 8] == 1


def test_tied_weights_that_are_gathered_cross_once():
    """Each device sends its part, and the other point gathers the parts for each microbatch."""
    options = dict(mesh={"pipe": 3, "data": 2}, plan="zero", accumulate=4, pins=UNEVEN_PINS)
    step = assert_equals_eager(masked_loss, batches(2), make(Language), **options)
    found = list_transfers(step)
    assert found[0, 2, 3, 8] == 1 and found[0, 2, 6, 8] == 0


@pytest.mark.parametrize(
    "kind, points", [(EncoderDecoder, 4), (UNet, 3), (Language, 4), (Blocks, 2)]
)
def test_cut_by_flops(kind, points):
    """Whatever reads whatever, and evaluated where values are."""
    options = dict(mesh={"pipe": points}, accumulate=2)
    step = assert_equals_eager(masked_loss, batches(2), make(kind), **options)
    assert len([r for r in step.compiled.remarks if "of the FLOPs" in r]) == points
    assert float(step.evaluate(batches(1)[0])) > 0


def metrics(model, batch):
    logits = model(batch[0])
    losses = functional.cross_entropy(logits, batch[1], ignore_index=-100, reduction="none")
    return {
        "loss": masked_loss(model, batch),
        "logits": logits,
        "losses": losses,
        "counts": batch[1] != -100,
        "product": logits @ model.layers[3].weight[:6],
    }


@pytest.mark.parametrize("mesh", [{"pipe": 2}, {"data": 2, "pipe": 2}])
def test_results_of_each_row(mesh):
    """Of each microbatch, in training and in evaluation, where values stay where they are."""
    data, model = batches(2), make(Language)()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    step = compile_step(metrics, data[0], make(Language), mesh=mesh, accumulate=4, pins=HALVES)
    for batch in data:
        expected = metrics(model, batch)
        for found in (step.evaluate(batch), step(batch)):
            assert found.keys() == expected.keys()
            for name, value in expected.items():
                torch.testing.assert_close(
                    torch.as_tensor(found[name]), value.detach(), rtol=1e-9, atol=1e-12
                )
        optimizer.zero_grad()
        expected["loss"].backward()
        optimizer.step()
    small = (data[0][0][:4], data[0][1][:4].clamp(min=0))
    assert float(step.evaluate(small)["loss"]) == pytest.approx(
        float(masked_loss(model, small)), rel=1e-12
    )


PROCESSES = """
import json, torch
from test_pipeline_models import HALVES, Language, batches, compile_step, make, metrics, sum_up
batch = batches(1)[0]
options = dict(mesh={"pipe": 2}, accumulate=4, pins=HALVES, batch="global")
step = compile_step(metrics, batch, make(Language), **options)
print(json.dumps([sum_up(step.evaluate(batch)), sum_up(step(batch))]), flush=True)
"""


def sum_up(results):
    return {name: float(torch.as_tensor(value).double().sum()) for name, value in results.items()}


def test_results_reach_all_processes(tmp_path):
    """Of which each has one point."""
    script = tmp_path / "script.py"
    script.write_text(PROCESSES)
    forks = Forks(tmp_path, {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parent)})
    expected = pytest.approx(sum_up(metrics(make(Language)(), batches(1)[0])), rel=1e-12)
    for process in forks.start_job(2, [script]):
        code, printed, errors = process.finish()
        assert code == 0, errors
        assert json.loads(printed) == [expected] * 2


def test_evaluates_several_sections_on_a_point(tmp_path):
    (tmp_path / "v.csv").write_text(
        "0F0,0F1,3F0,3B0,0B0,3F1,3B1,0B1\n1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n"
    )
    sections = ["embedding,layers.0", "layers.1", "layers.2", "layers.3"]
    options = dict(accumulate=2, sections=sections, order=tmp_path / "v.csv")
    data, model = batches(1), make(Language)()
    step = compile_step(masked_loss, data[0], make(Language), mesh={"pipe": 2}, **options)
    for batch in data:
        expected = float(masked_loss(model, batch))
        assert float(step.evaluate(batch)) == pytest.approx(expected, rel=1e-12)
        assert float(step(batch)) == pytest.approx(expected, rel=1e-12)


class Recurrent(nn.Module):
    """Its Python reads the first state in front of the layer that the data meet first."""

    def __init__(self):
        super().__init__()
        self.start = nn.Parameter(torch.zeros(4))
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        state = self.start.expand(x.shape[0], -1)
        for column in x.unbind(1):
            hidden = self.outer(state)
            state = (self.inner(x[:, 0]) + hidden + column).tanh()
        return state


def test_evaluates_in_the_order_of_the_sections():
    x = torch.randn(8, 3, 4, generator=torch.Generator().manual_seed(0)).double()
    expected = make(Recurrent)()(x).square().mean().item()
    options = dict(mesh={"pipe": 2}, accumulate=2, sections=["inner", "start,outer"])
    step = compile_step(lambda m, x: m(x).square().mean(), x, make(Recurrent), **options)
    assert step.evaluate(x).item() == pytest.approx(expected, rel=1e-12)
    assert step(x).item() == pytest.approx(expected, rel=1e-12)


def test_trains_batches_of_other_sizes():
    data, model = [*batches(1), *batches(1, rows=8)], make(Language)()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    options = dict(mesh={"pipe": 2}, accumulate=2, pins=HALVES, order="gpipe")
    step = compile_step(masked_loss, data[0], make(Language), **options)
    for batch in data:
        optimizer.zero_grad()
        loss = masked_loss(model, batch)
        loss.backward()
        optimizer.step()
        assert float(step(batch)) == pytest.approx(float(loss), rel=1e-12)


def frozen(*names):
    def made():
        model = make(Language)()
        for name in names:
            model.get_submodule(name).requires_grad_(False)
        return model

    return made


@pytest.mark.parametrize(
    "kind, options, rel",
    [
        (frozen("embedding"), {}, 1e-12),
        (frozen("embedding", "layers.0", "layers.1"), {}, 1e-12),
        (make(Language, 0.5), {"seed": 3}, 1e-12),
        (make(Language), {"clip_grad_norm": 0.01}, 1e-12),
        (lambda: make(Language)().float(), {"precision": "bf16"}, 1e-2),
    ],
    ids=["frozen", "frozen section", "dropout", "clip", "bf16"],
)
def test_losses_are_those_of_one_device(kind, options, rel):
    """Eager's are tested without a pipeline: its masks are others."""
    data = batches(3)
    if "precision" in options:
        data = [(x.float(), y) for x, y in data]
    found = []
    for own in ({"mesh": {"pipe": 2}, "pins": HALVES}, {}):
        step = compile_step(masked_loss, data[0], kind, accumulate=4, **own, **options)
        found.append([float(step(batch)) for batch in data])
    assert found[0] == pytest.approx(found[1], rel=rel)


@pytest.mark.parametrize("count", [1, 3, 7])
def test_odd_numbers_of_microbatches(count):
    pins = at("embedding.*", "layers.[01].*", "layers.2.*", "layers.3.*")
    options = dict(mesh={"pipe": 4}, accumulate=count, pins=pins)
    assert_equals_eager(masked_loss, batches(2, rows=21), make(Language), **options)


class Normed(nn.Module):
    """Statistics of the whole batch, in both sections and in both passes."""

    def __init__(self):
        super().__init__()
        # A bias in front of a norm has no gradient, and Adam would follow rounding.
        self.layers = nn.ModuleList(nn.Linear(8, 8, bias=number == 0) for number in range(3))
        self.norms = nn.ModuleList(nn.BatchNorm1d(8) for _ in range(2))
        self.head = nn.Linear(8, 6)

    def forward(self, x):
        x = self.layers[0](x).tanh()
        for layer, norm in zip(self.layers[1:], self.norms, strict=True):
            x = x + norm(layer(x)).tanh()
        return self.head(x)


class Capacity(nn.Module):
    """An expert takes the first three rows of the whole batch that choose it."""

    def __init__(self):
        super().__init__()
        self.inner, self.router = nn.Linear(8, 8), nn.Linear(8, 2)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.head = nn.Linear(8, 6)

    def forward(self, x):
        x = self.inner(x).tanh()
        weights = self.router(x).softmax(-1)
        chosen = functional.one_hot(weights.argmax(-1), 2)
        weights = weights * chosen * (chosen.cumsum(0) <= 3)
        return self.head(
            x + sum(expert(x) * weights[:, i, None] for i, expert in enumerate(self.experts))
        )


NORMED_PINS = at("layers.[01].*,norms.0.*", "layers.2.*,norms.1.*,head.*")
JOINS = [(Normed, NORMED_PINS), (Capacity, at("inner.*", "router.*,experts.*,head.*"))]


@pytest.mark.parametrize("kind, pins", JOINS, ids=["batch norm", "capacity"])
def test_what_joins_the_batch_interrupts_the_forward_passes(kind, pins, tmp_path):
    options = dict(mesh={"pipe": 2}, accumulate=2, pins=pins)
    order = tmp_path / "order.csv"
    order.write_text("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n")
    step = assert_equals_eager(masked_loss, batches(2), make(kind), order=order, **options)
    # No product is made again: each layer has one in the forward pass of each microbatch.
    layers = sum(isinstance(module, nn.Linear) for module in make(kind)().modules())
    names = [c.name for p in step.program.rank_programs for c in p.commands if c.kind == "gemm"]
    assert sum(name[1:3] == "F1" for name in names) == layers
    with pytest.raises(
        CompileError, match=r"models.py:\d+: .*'nn.\w+' joins the batch.*'gpipe' or 'aiao'$"
    ):
        compile_step(masked_loss, batches(1)[0], make(kind), **options)


class Flipped(Language):
    """The second section computes on the rows of the whole batch."""

    def forward(self, x):
        x = x.softmax(-1)[:, :6] @ self.embedding.weight
        for layer in self.layers[:2]:
            x = layer(x).tanh()
        x = x.flip(0)
        for layer in self.layers[2:]:
            x = layer(x).tanh()
        return x @ self.embedding.weight.T


def contrast(model, batch):
    rows = model(batch[0])
    return (rows @ rows.T).logsumexp(-1).mean()


@pytest.mark.parametrize("kind, loss", [(Language, contrast), (Flipped, masked_loss)])
def test_what_runs_on_the_whole_batch(kind, loss):
    options = dict(mesh={"pipe": 2}, accumulate=2, pins=HALVES)
    assert_equals_eager(loss, batches(2), make(kind), order="gpipe", **options)
    with pytest.raises(
        CompileError, match=r"models.py:\d+: .*'nn.\w+' joins the batch.*'gpipe' or 'aiao'$"
    ):
        compile_step(loss, batches(1)[0], make(kind), **options)
