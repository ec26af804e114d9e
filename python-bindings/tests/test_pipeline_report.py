"""Reports of pipelines: a model with strange names, two inputs, sections that are not alike and a tied weight."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import tandem
import torch
from torch import nn

ROWS, COUNT, WIDTH = 24, 6, 8


class Strange(nn.Module):
    """The first weight is that of the last section, too, which also reads the second input."""

    def __init__(self):
        super().__init__()
        self.add_module('wörter "x" {1}', nn.Linear(WIDTH, WIDTH, bias=False))
        for number in range(5):
            self.add_module(f"schicht <{number}>, \\n;", nn.Linear(WIDTH, WIDTH))

    def forward(self, x, other):
        first, *layers = self.children()
        x = first(x)
        for layer in layers:
            x = layer(x).tanh()
        return (x + other) @ first.weight


def make():
    torch.manual_seed(5)
    return Strange().double()


def loss_fn(model, batch):
    return model(*batch).square().mean()


def train(order, path):
    """Of three points: one layer, then three, then two."""
    model, generator = make(), torch.Generator().manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = [torch.randn(ROWS, WIDTH, dtype=torch.float64, generator=generator) for _ in range(2)]
    pins = [
        tandem.pin("wörter*", pipe="at(0)"),
        tandem.pin("*<[012]>*", pipe="at(1)"),
        tandem.pin("*<[34]>*", pipe="at(2)"),
    ]
    options = dict(mesh={"pipe": 3}, accumulate=COUNT, pins=pins, order=order)
    step = tandem.compile(model, loss_fn, optimizer, batch, **options)
    with step.trace(path):
        losses = [float(step(batch)) for _ in range(3)]
    return step, batch, losses


def count_bytes(step):
    """Of each pair of points, what its transfers have, by the Program's listing."""
    found = Counter()
    for point, rank_program in enumerate(step.program.rank_programs):
        for command in rank_program.commands:
            operation = command.operation
            if command.kind == "transfer" and operation.from_point == point:
                found[operation.from_point, operation.to_point] += command.bytes
    return found


@pytest.mark.parametrize("order, in_flight", [("1f1b", (3, 2, 1)), ("gpipe", (6, 6, 6))])
def test_a_strange_pipeline(order, in_flight, tmp_path):
    path = tmp_path / "timeline.json"
    step, batch, losses = train(order, path)
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for found in losses:
        loss = loss_fn(model, batch)
        assert found == pytest.approx(float(loss.detach()), rel=1e-12)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    report = tandem.report(path)
    assert report["pipe_axis"] == "pipe"
    assert [entry["in_flight"] for entry in report["points"]] == list(in_flight)
    for point, entry in enumerate(report["points"]):
        assert entry["ranks"] == [point]
        assert 0 < entry["bubble"] < 1
        assert entry["idle"] == pytest.approx(report["ranks"][point]["idle"])
        assert sum(why["seconds"] for why in entry["idle_for"]) <= 3 * entry["idle"]
        assert entry["held"] == step.program.held_bytes(point)
        assert 0 < entry["values"] <= sum(a.bytes for a in step.program.rank_programs[point].arenas)
    assert {(e["from"], e["to"]): e["bytes"] for e in report["edges"]} == count_bytes(step)
    row = 8 * WIDTH * ROWS // COUNT
    edges = {(edge["from"], edge["to"]): edge for edge in report["edges"]}
    # The tied weight goes from the first point to the last one, and its gradient back.
    assert edges[0, 1]["bytes"] == edges[1, 0]["bytes"] == COUNT * row
    assert edges[0, 2]["bytes"] == edges[2, 0]["bytes"] == 8 * WIDTH * WIDTH
    text = str(report)
    for words in ("bubble: share of the step", "of its sections at a time", "0 to 2"):
        assert words in text


def test_early_receives_fit_beside_gaps_of_the_arena():
    """Of four points of a u-net, one has gaps where it receives early, another where it has no room for that."""
    root = Path(__file__).resolve().parents[2]
    options = "--models unet --points 4 --microbatches 8 --orders 1f1b --check"
    command = [sys.executable, root / "benchmarks/pipeline_memory.py", *options.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
