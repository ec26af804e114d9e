"""`threads=N`: the cores of a rank share its commands, and compute what one does."""

import copy
import re

import matrix
import pytest
import tandem
import torch
import torch.nn.functional as F
from tandem import _tandem, export
from tandem.capture.model_file import load_model_file
from torch import nn

RATE = 1e-3


class Block(nn.Module):
    """Kernels of rows, of one loop over all elements, and attention, each of more bytes than wake a thread."""

    def __init__(self, width=128, heads=4):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        batch, positions, width = x.shape
        q, k, v = (
            t.view(batch, positions, self.heads, -1).transpose(1, 2)
            for t in self.qkv(self.norm(x)).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(y.transpose(1, 2).reshape(x.shape))
        return x + self.dropout(self.down(F.gelu(self.up(x))))


def train(model, precision, threads):
    twin = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(twin.parameters(), lr=RATE)
    torch.manual_seed(1)
    batch = torch.randn(8, 160, 128)
    step = tandem.compile(
        twin,
        lambda m, x: m(x).square().mean(),
        optimizer,
        batch,
        precision=precision,
        threads=threads,
    )
    losses = [step(batch) for _ in range(3)]
    return losses, step.state_dict(), step


def share_of_traffic(program):
    """Of the bytes of launches, those of kernels that have parts."""
    shared = set(re.findall(rb"(tandem_[0-9a-f]+)_(?:part|phase)\b", program))
    launches = [
        command
        for ranks in _tandem.Program.load(program).rank_programs
        for command in ranks.commands
        if command.kind == "launch"
    ]
    all_bytes = sum(command.bytes for command in launches)
    return sum(c.bytes for c in launches if c.operation.symbol.encode() in shared) / all_bytes


@pytest.mark.sample(3)
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("name", ["gpt", "llama", "bert_moe", "vit_moe"])
def test_kernels_have_parts(name, precision):
    """At the size of the benchmarks. What has none are numbers, and a table that is added up in a wider type."""
    precision = None if precision == "float32" else precision
    file = load_model_file(matrix.EXAMPLES / f"{name}.py", "bench", "", "float32", precision)
    model = file.make_model(meta=True)
    optimizer, batch = file.make_optimizer(model), file.batches(1)[0]
    module = export(model, file.loss, optimizer, batch, precision=file.precision)
    assert share_of_traffic(matrix.compile_module(module).bytes) > 0.98


class Rows(nn.Module):
    """No products, whose library sums in an order of its own: sums over rows, of indices and of all there is."""

    def __init__(self, tokens=300, width=96):
        super().__init__()
        self.tokens = nn.Embedding(tokens, width)
        self.positions = nn.Parameter(torch.randn(160, width))
        self.norm, self.scale = nn.LayerNorm(width), nn.Parameter(torch.ones(width))

    def forward(self, indices):
        x = self.norm(self.tokens(indices) + self.positions)
        scores = F.gelu(x * self.scale)
        return F.cross_entropy(scores.flatten(0, 1), indices.flatten() % scores.shape[-1])


@pytest.mark.parametrize("precision", [None, "bf16"])
def test_bits_do_not_depend_on_the_threads(precision):
    """Nor do they change from run to run."""
    torch.manual_seed(0)
    model, batch = Rows(), torch.randint(300, (56, 160))
    runs = []
    for threads in (1, 2, 3, 3):
        twin = copy.deepcopy(model)
        optimizer = torch.optim.AdamW(twin.parameters(), lr=RATE)
        step = tandem.compile(
            twin, lambda m, x: m(x), optimizer, batch, precision=precision, threads=threads
        )
        runs.append(([step(batch).item() for _ in range(4)], step.state_dict()))
    assert share_of_traffic(step.bytes) > 0.95
    for losses, state in runs[1:]:
        assert losses == runs[0][0]
        for name, value in state.items():
            assert torch.equal(value, runs[0][1][name]), name


@pytest.mark.parametrize("precision", [None, "bf16"])
def test_cores_share_kernels(precision):
    """Products of several threads may be others, which sum in another order; kernels are the same to the bit, which
    the tests of kernels show.
    """
    torch.manual_seed(0)
    model = Block()
    losses, state, step = train(model, precision, threads=1)
    assert share_of_traffic(step.bytes) > 0.95
    rounding = 2e-2 if precision else 1e-5
    for threads in (2, 3):
        theirs, others, _ = train(model, precision, threads)
        torch.testing.assert_close(theirs, losses, rtol=rounding, atol=0.0)
        for name, value in state.items():
            # An element whose gradient is rounding moves by twice the learning rate a step.
            apart = (others[name] - value).abs()
            assert apart.max() <= 6 * RATE, name
            assert apart.mean() <= 0.1 * RATE, name
