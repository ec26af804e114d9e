"""Packed sequences of which lengths are data: recurrent layers, losses over rows, and what is refused."""

import pytest
import tandem
import torch
import torch.nn.functional as F
from comparing import compare
from torch import nn
from torch.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
)

ROWS, TIME, WIDTH = 4, 5, 3
LENGTHS = [torch.tensor([5, 2, 4, 1]), torch.tensor([3, 5, 5, 2])]


def batches(is_sorted=False):
    generator = torch.Generator().manual_seed(0)
    return [
        (
            torch.randn(ROWS, TIME, WIDTH, generator=generator, dtype=torch.float64),
            torch.randint(0, 4, (ROWS, TIME), generator=generator),
            lengths.sort(descending=True).values if is_sorted else lengths,
        )
        for lengths in LENGTHS
    ]


def check(layer, loss, data=None):
    torch.manual_seed(1)
    model = layer().double()
    compare(model, loss, torch.optim.SGD(model.parameters(), lr=0.1), data or batches())


def padded(model, batch):
    packed = pack_padded_sequence(batch[0], batch[2], batch_first=True, enforce_sorted=False)
    output, state = model(packed)
    output, lengths = pad_packed_sequence(output, batch_first=True, padding_value=0.25)
    states = state if isinstance(state, tuple) else (state,)
    weights = torch.arange(ROWS, dtype=torch.float64)[:, None]
    return (
        output.square().mean()
        + sum((s * weights).sum() for s in states)
        + (output.sum((1, 2)) / lengths).tanh().sum()
    )


LAYERS = {
    "lstm": lambda: nn.LSTM(WIDTH, 4, batch_first=True),
    "lstm, two layers, both ways": lambda: nn.LSTM(WIDTH, 4, 2, bidirectional=True),
    "lstm, projected": lambda: nn.LSTM(WIDTH, 4, proj_size=2, bidirectional=True),
    "lstm without biases": lambda: nn.LSTM(WIDTH, 4, proj_size=2, bias=False),
    "gru": lambda: nn.GRU(WIDTH, 4, bidirectional=True),
    "gru without biases": lambda: nn.GRU(WIDTH, 4, 2, bias=False),
    "tanh": lambda: nn.RNN(WIDTH, 4, 2),
    "relu": lambda: nn.RNN(WIDTH, 4, nonlinearity="relu", bidirectional=True),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_layers(kind):
    check(LAYERS[kind], padded)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.GRU(WIDTH, 4), nn.Linear(4, 4)

    def forward(self, packed):
        output, _ = self.layer(packed, torch.ones(1, ROWS, 4, dtype=torch.float64) / 2)
        return PackedSequence(self.head(output.data).relu(), *output[1:])


def test_a_loss_over_rows():
    """Of labels that are packed alike; positions behind an end count nowhere."""

    def loss(model, batch):
        x, labels = (
            pack_padded_sequence(t, batch[2], batch_first=True, enforce_sorted=False)
            for t in batch[:2]
        )
        return F.cross_entropy(model(x).data, labels.data)

    check(Tagger, loss)


def test_longer_and_shorter_than_the_batch():
    def loss(model, batch):
        x = batch[0].transpose(0, 1)
        total = 0.0
        for lengths, length in ((batch[2], TIME + 2), (batch[2].clamp(max=3), 3)):
            output, _ = model(pack_padded_sequence(x, lengths))
            output, _ = pad_packed_sequence(output, total_length=length)
            total = total + (output * output.cumsum(0)).mean()
        return total

    check(LAYERS["lstm"], loss, batches(is_sorted=True))


def test_lengths_that_are_known():
    def loss(model, batch):
        packed = pack_sequence([batch[0][0], batch[0][1, :3], batch[0][2, :2]])
        return pad_packed_sequence(model(packed)[0])[0].square().mean()

    check(LAYERS["gru"], loss)


def ended(model, batch):
    packed = pack_padded_sequence(batch[0], batch[2].clamp(max=3), True, False)
    return pad_packed_sequence(model(packed)[0])[0].mean()


def counted(model, batch):
    packed = pack_padded_sequence(batch[0], batch[2], True, False)
    return model(packed)[0].data.sum() / packed.batch_sizes.sum()


def cut(model, batch):
    packed = pack_padded_sequence(batch[0], batch[2], True, False)
    return model(packed)[0].data[: packed.batch_sizes[1]].sum()


@pytest.mark.parametrize(
    "loss, words",
    [
        (ended, "as many positions as the longest sequence has.*total_length=5"),
        (counted, "sum is .* the batch_sizes of sequences that are packed"),
        (cut, "looks at the batch_sizes of sequences that are packed"),
    ],
)
def test_what_is_refused(loss, words):
    model = LAYERS["gru"]().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(tandem.CaptureError, match=words) as error:
        tandem.export(model, loss, optimizer, batches()[0])
    assert "\n" not in str(error.value)


def test_a_batch_whose_longest_sequence_is_shorter_is_refused():
    """It would be padded to fewer positions."""
    model = LAYERS["lstm"]().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first, second = batches()
    step = tandem.compile(model, padded, optimizer, first, mesh={"data": 2})
    step(second)
    with pytest.raises(tandem.BatchError, match="a value that Python looks at was True"):
        step((*first[:2], first[2].clamp(max=4)))
