"""Every order of one partition gives the bits of every other one, and what eager gives."""

import functools
import json
import random
from pathlib import Path

import pytest
import torch
from tandem import export, pin
from tandem.capture.model_file import load_model_file
from tandem.errors import CompileError
from tandem.session.compile import compile_module
from test_accumulate import batches, compile_step, masked_loss
from test_memory import count_held

ROOT = Path(__file__).resolve().parents[2]
SCHEDULES = json.loads((ROOT / "test/unit/Orders/schedules.json").read_text())["cases"]


class Block(torch.nn.Module):
    """What the gradient of its input needs is a part of its backward pass."""

    def __init__(self):
        super().__init__()
        self.norm, self.layer = torch.nn.LayerNorm(8), torch.nn.Linear(8, 8)

    def forward(self, x):
        return x + self.layer(self.norm(x)).tanh()


def make_blocks(number):
    torch.manual_seed(4)
    return torch.nn.Sequential(*(Block() for _ in range(number))).double()


def run(rows, path, places, count):
    """Losses and state of two steps."""
    path.write_text("\n".join(rows) + "\n")
    step = compile_step(
        masked_loss,
        batches(2)[0],
        functools.partial(make_blocks, len(places)),
        mesh={"pipe": len(rows)},
        accumulate=count,
        sections=[[str(block)] for block in range(len(places))],
        order=path,
    )
    return [float(step(batch)) for batch in batches(2)], step.state_dict()


def make_gpipe(places, count, turn=lambda microbatches: microbatches):
    """All forward passes, then all backward passes, each time in the order that `turn` gives."""
    rows = [[] for _ in range(max(places) + 1)]
    for sections, letter in ((range(len(places)), "F"), (range(len(places))[::-1], "B")):
        for section in sections:
            for microbatch in turn(list(range(count))):
                rows[places[section]].append(f"{section}{letter}{microbatch}")
    return [",".join(row) for row in rows]


def assert_same_bits(found, expected):
    assert found[0] == expected[0]
    torch.testing.assert_close(found[1], expected[1], rtol=0, atol=0)


def list_partitions():
    """Cases by partition: all of two points, and of four those with I and W."""
    partitions = {}
    for case in SCHEDULES:
        is_split = any("I" in row for row in case["order"])
        if case["p"] == 2 or (case["group"] == "equal" and is_split):
            partitions.setdefault((*case["placement"], case["m"]), []).append(case)
    return partitions


@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("places", [[0, 1, 0, 1], [0, 1, 1, 0], [0, 1, 0], [1, 0]], ids=str)
def test_searched_order(places, micro, tmp_path):
    """The numbers of a searched order are those of any other one, wherever sections lie."""
    step = compile_step(
        masked_loss,
        batches(2)[0],
        functools.partial(make_blocks, len(places)),
        mesh={"pipe": 2},
        accumulate=4 // micro,
        micro=micro,
        pins=[pin(f"{block}.*", pipe=f"at({point})") for block, point in enumerate(places)],
        order="search",
    )
    found = [float(step(batch)) for batch in batches(2)], step.state_dict()
    assert_same_bits(found, run(make_gpipe(places, 4), tmp_path / "order.csv", places, 4))


@pytest.mark.sample(4)
@pytest.mark.parametrize("partition", list_partitions(), ids=str)
def test_known_orders(partition, tmp_path):
    *places, count = partition
    path = tmp_path / "order.csv"
    expected = run(make_gpipe(places, count), path, places, count)
    make = functools.partial(make_blocks, len(places))
    whole = compile_step(masked_loss, batches(2)[0], make)
    assert [float(whole(batch)) for batch in batches(2)] == pytest.approx(expected[0], rel=1e-12)
    torch.testing.assert_close(expected[1], whole.state_dict(), rtol=1e-9, atol=1e-10)
    for case in list_partitions()[partition]:
        assert_same_bits(run(case["order"], path, places, count), expected)


def test_microbatches_in_any_order(tmp_path):
    """What is summed over microbatches is added in their order."""
    places, count, path = [0, 1, 1, 0], 4, tmp_path / "order.csv"
    expected = run(make_gpipe(places, count), path, places, count)
    for seed in range(2):
        shuffle = functools.partial(random.Random(seed).sample, k=count)
        assert_same_bits(run(make_gpipe(places, count, shuffle), path, places, count), expected)
        # Each pass of its own order, and the weights behind all.
        rows = make_gpipe(places, count, shuffle)
        split = [row.replace("B", "I") for row in rows]
        for number, row in enumerate(split):
            ended = [entry.replace("I", "W") for entry in row.split(",") if "I" in entry]
            split[number] = ",".join([row, *random.Random(seed).sample(ended, len(ended))])
        assert_same_bits(run(split, path, places, count), expected)


@pytest.mark.parametrize(
    "rows, message",
    [
        (["0F0,0F1,0W0,0I0,0B1", "1F0,1B0,1F1,1B1"], "1: entry 3: found '0W0' before '0I0'"),
        (["0F0,0F1,0B0", "1F0,1B0,1F1,1B1"], "1: found no '0B1', nor its I and W"),
        (["0F0,0F1,0B0,0B1,0B0", "1F0,1B0,1F1,1B1"], "1: entry 5: found a second '0B0'"),
        (["0F0,0B0,0F1,0B1", "1F1,1F0,1B0,1B1"], "1: entry 2: found a cycle, .*0B0 waits for 1B0"),
    ],
)
def test_orders_that_cannot_run(rows, message, tmp_path):
    with pytest.raises(CompileError, match=rf"order\.csv:{message}"):
        run(rows, tmp_path / "order.csv", [0, 1], 2)


@pytest.mark.parametrize("limit", [700_000, 680_000, 660_000])
def test_a_search_that_finds_no_order_plans_again(limit):
    """Where no order fits, the plan holds less: as with a named order. What fits into less memory fits into more."""
    file = load_model_file(ROOT / "examples/gpt.py", None, {}, "float32")
    model = file.make_model()
    module = export(model, file.loss, file.make_optimizer(model), file.batches(1)[0])
    found = compile_module(
        module, mesh="pipe=2", accumulate=4, order="search", search="tandem", memory=limit
    )
    assert any("no order fits: planned again, for at most" in line for line in found.remarks)
    assert count_held(found) <= limit
