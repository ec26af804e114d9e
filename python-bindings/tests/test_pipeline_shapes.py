"""Orders with a name, of shapes that a seed draws: as eager on one device."""

import functools
import random

import pytest
import tandem
import torch
from pipeline_matrix import NAMED_ORDERS
from tandem.errors import CompileError
from test_accumulate import assert_equals_eager, batches, masked_loss
from test_pipeline_orders import make_blocks

VEES = ("zb-v", "dualpipe-v")
ANY_NUMBER = ("interleaved", "aiao", "interleaved-zb")


def draw(name, seed):
    """Points, sections of each, microbatches."""
    choose = random.Random(f"{name} {seed}")
    points = choose.choice((2, 3, 4))
    count = 2 if name in VEES else choose.randint(1, 4) if name in ANY_NUMBER else 1
    least = 2 * points if name == "dualpipe-v" else 1
    return points, count, choose.choice(range(least, least + 7))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", NAMED_ORDERS)
def test_drawn_shapes(name, seed):
    points, count, microbatches = draw(name, seed)
    sections = points * count
    assert_equals_eager(
        masked_loss,
        batches(2, rows=3 * microbatches),
        functools.partial(make_blocks, sections),
        mesh={"pipe": points},
        accumulate=microbatches,
        sections=[[str(block)] for block in range(sections)],
        order=name,
    )


@pytest.mark.parametrize("points", [2, 3])
def test_least_microbatches_of_dualpipe_v(points):
    """The error has the number that works."""
    options = dict(mesh={"pipe": points}, sections=2 * points, order="dualpipe-v")
    make = functools.partial(make_blocks, 2 * points)
    model = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    least = 2 * points
    data = batches(2, rows=2 * least * (least - 1))
    with pytest.raises(CompileError, match=f"expected at least {least}"):
        tandem.compile(model, masked_loss, optimizer, data[0], accumulate=least - 1, **options)
    assert_equals_eager(masked_loss, data, make, accumulate=least, **options)
