"""Packed sequences during capture: `pack_padded_sequence`, recurrent layers, `pad_packed_sequence`.

Lengths are data. So all positions go on, in PyTorch's order of time and batch, with a mask beside them (masked_rows.py).
A loss over `packed.data` counts positions inside sequences. A recurrent layer keeps the state of a sequence that has
ended. Sequences are not sorted, since no result depends on their order.
"""

import contextlib
import types

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.utils import rnn

from ..errors import CaptureError
from ..tracing.locations import current_location
from ..tracing.masked_rows import Masked, choose
from ..tracing.reads import require
from . import recurrent


def _refuse(what):
    return CaptureError(
        f"{current_location()}: {what} sequences that are packed, and how long these are depends on data; expected recurrent layers,"
        " pad_packed_sequence, or what does the same to each row of packed.data, and then a sum or a mean"
    )


class Sizes:
    """`batch_sizes`: how many sequences go on at each position, which is data but at the first one."""

    device = torch.device("cpu")

    def __init__(self, lengths, positions):
        self.lengths, self.positions = lengths, positions

    @property
    def mask(self):
        return torch.arange(self.positions)[:, None] < self.lengths

    def size(self, dim=0):
        return self.positions

    def __getitem__(self, index):
        if index == 0:
            return self.lengths.shape[0]
        raise _refuse("Python looks at the batch_sizes of")

    def __getattr__(self, name):
        raise _refuse(f"{name} is taken of the batch_sizes of")

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise _refuse(f"{function.__name__} is computed of the batch_sizes of")


def _in_time(x, batch_first):
    return x.transpose(0, 1) if batch_first else x


def pack(input, lengths, batch_first, enforce_sorted):  # noqa: A002
    """`pack_padded_sequence`; its conditions are required of every batch (reads.py)."""
    lengths = torch.as_tensor(lengths, dtype=torch.int64)
    x = _in_time(input, batch_first)
    if lengths.dim() != 1 or lengths.shape[0] != x.shape[1]:
        raise RuntimeError(f"expected {x.shape[1]} lengths, one for each sequence")
    longest = x.shape[0]
    require("a length", lengths, (lengths > 0) & (lengths <= longest), f"1 to {longest}")
    if enforce_sorted:
        later = lengths[1:]
        words = "at most the length before it, or enforce_sorted=False"
        require("a length", later, lengths[:-1] >= later, words)
    sizes = Sizes(lengths, x.shape[0])
    return rnn.PackedSequence(choose(x, sizes.mask), sizes)


def _check_total(sizes, total):
    """Padded again, sequences have as many positions as the longest one."""
    if total is None and not (sizes.lengths == sizes.positions).any():
        raise CaptureError(
            f"{current_location()}: pad_packed_sequence gives as many positions as the longest sequence has, which is data; expected one"
            f" that is as long as the batch, or total_length={sizes.positions}"
        )
    if total is not None and total < sizes.positions and not (sizes.lengths <= total).all():
        raise ValueError(f"total_length={total} is less than the longest sequence has")
    return sizes.positions if total is None else total


def unpack(sequence, batch_first, padding_value, total_length):
    """`pad_packed_sequence`."""
    rows, sizes = sequence.data.rows, sequence.batch_sizes
    total, mask = _check_total(sizes, total_length), sizes.mask
    x = rows.reshape(*mask.shape, *rows.shape[1:])
    x = torch.where(mask.reshape(*mask.shape, *(1,) * (x.dim() - 2)), x, padding_value)
    beyond = (0, 0) * (x.dim() - 1) + (0, total - sizes.positions)
    x = x[:total] if total <= sizes.positions else F.pad(x, beyond, value=padding_value)
    return _in_time(x, batch_first), sizes.lengths


# ---- Recurrent layers


def _recurrent(cell):
    def run(data, sizes, states, weights, biased, layers, dropout, training, both, *others):
        if not isinstance(data, Masked):
            return None
        states = states if isinstance(states, (list, tuple)) else [states]
        x = data.rows.reshape(sizes.positions, -1, data.rows.shape[-1])
        options = (layers, dropout, training, 1 + both)
        x, *last = recurrent.run_layers(cell, x, states, weights, *options, sizes.mask)
        return Masked(x.flatten(0, 1), data.mask), *last

    return lambda *args, **kwargs: run(*args) if len(args) == 9 else None


DEFINITIONS = {
    torch.lstm: _recurrent(recurrent.lstm_cell),
    torch.gru: _recurrent(recurrent.gru_cell),
    torch.rnn_tanh: _recurrent(recurrent.tanh_cell),
    torch.rnn_relu: _recurrent(recurrent.relu_cell),
}


# ---- In the place of PyTorch's functions, whoever has imported them


def _copied(function):
    return types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__
    )


_pack_padded, _pad_packed = map(_copied, (rnn.pack_padded_sequence, rnn.pad_packed_sequence))


def _pack_or_not(input, lengths, batch_first=False, enforce_sorted=True):  # noqa: A002
    from tandem.formulas import packed

    return packed.pack_if_traced(input, lengths, batch_first, enforce_sorted)


def _unpack_or_not(sequence, batch_first=False, padding_value=0.0, total_length=None):
    from tandem.formulas import packed

    return packed.unpack_if_traced(sequence, batch_first, padding_value, total_length)


def pack_if_traced(input, lengths, *options):  # noqa: A002
    is_traced = any(isinstance(x, FakeTensor) for x in (input, lengths))
    return (pack if is_traced else _pack_padded)(input, lengths, *options)


def unpack_if_traced(sequence, *options):
    is_traced = isinstance(sequence.batch_sizes, Sizes)
    return (unpack if is_traced else _pad_packed)(sequence, *options)


@contextlib.contextmanager
def by_masks():
    """Within it sequences that are traced are packed by masks."""
    functions = (rnn.pack_padded_sequence, rnn.pad_packed_sequence)
    before = [function.__code__ for function in functions]
    try:
        for function, other in zip(functions, (_pack_or_not, _unpack_or_not), strict=True):
            function.__code__ = other.__code__
        yield
    finally:
        for function, code in zip(functions, before, strict=True):
            function.__code__ = code
