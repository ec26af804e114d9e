"""Embeddings at indices that are no data: constants, positions, differences of these."""

import copy
import time

import pytest
import tandem
import torch
from comparing import eager_step
from torch import nn


class Tables(nn.Module):
    """Tables that are looked up at one constant index, and one at positions."""

    def __init__(self, number):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(48, 24) for _ in range(number))
        self.positions = nn.Embedding(32, 24)
        self.linear = nn.Linear(24, 24)

    def forward(self, x):
        index = torch.full(x.shape[:2], 3)
        for table in self.tables:
            x = x + table(index)
        return self.linear(x + self.positions(torch.arange(x.shape[1])))


def square(model, batch):
    return model(batch).square().mean()


def compile_like(model, loss, batch):
    """A step and what eager training gives: (step, another model, its optimizer)."""
    other = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = tandem.compile(model, loss, optimizer, batch)
    return step, other, torch.optim.SGD(other.parameters(), lr=0.1)


def compare(model, loss, batches):
    step, other, optimizer = compile_like(model, loss, batches[0])
    for batch in batches:
        torch.testing.assert_close(step(batch), eager_step(other, loss, optimizer, batch))
    state = step.state_dict()
    for name, value in other.state_dict().items():
        torch.testing.assert_close(state[name], value, rtol=1e-9, atol=1e-9)
    return step


@pytest.mark.parametrize("number", [1, 4, 6])
def test_tables_at_a_constant_index(number):
    torch.manual_seed(0)
    compare(Tables(number).double(), square, [torch.randn(4, 32, 24).double() for _ in range(2)])


def test_a_further_table_costs_what_the_first_one_does():
    """Each made the loops of all longer by its width: four took seconds, six had no end."""

    def seconds(number):
        torch.manual_seed(0)
        batch = torch.randn(4, 32, 24)
        step, *_ = compile_like(Tables(number), square, batch)
        times = []
        for _ in range(8):
            begin = time.perf_counter()
            step(batch)
            times.append(time.perf_counter() - begin)
        return min(times)

    # Three times as many tables; the rest is room for a machine that is busy.
    assert seconds(6) < 20 * seconds(2)


def test_layoutlm():
    """Six tables at the coordinates of boxes, which are zeros unless given."""
    from transformers import LayoutLMConfig, LayoutLMForTokenClassification

    torch.manual_seed(0)
    config = LayoutLMConfig(
        vocab_size=48,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
        max_2d_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=5,
    )
    model = LayoutLMForTokenClassification(config).double().train()

    def loss(model, batch):
        return model(input_ids=batch["ids"], labels=batch["labels"]).loss

    batches = [
        {"ids": torch.randint(48, (4, 16)), "labels": torch.randint(5, (4, 16))} for _ in range(3)
    ]
    compare(model, loss, batches)
