"""Rows of a batch: in the shorter last batch of an epoch, and in each process's part."""

import inspect

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from ..base import tree
from ..errors import BatchError, CompileError, shown

LAST_BATCH = ("error", "drop", "pad")


def count_rows(batch):
    """The first dimension of the first tensor that has one, as capture counts samples; None without one. BatchError for a
    tensor that is not dense.
    """
    rows = None
    for path, leaf in tree.flatten(batch)[0]:
        tree.check_dense(path, leaf, BatchError)
        if rows is None and isinstance(leaf, torch.Tensor) and leaf.dim():
            rows = leaf.shape[0]
    return rows


def check_some(batch):
    """BatchError for one without rows."""
    if count_rows(batch) == 0:
        raise BatchError("batch: has 0 rows, expected at least one")


def map_rows(function, batch):
    """The batch with `function` of the tensors that have a row per sample."""
    rows = count_rows(batch)

    def change(leaf):
        has_rows = isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.shape[0] == rows
        return function(leaf) if has_rows else leaf

    return tree.map_leaves(change, batch)


def _pad(batch, rows):
    """With copies of the last row behind it."""

    def pad(tensor):
        missing = rows - tensor.shape[0]
        return torch.cat([tensor, tensor[-1:].expand(missing, *tensor.shape[1:])])

    return map_rows(pad, batch)


def _check_takes(loss_fn, *names, reason=""):
    expected = f"expected loss_fn({', '.join(names)})"
    if not callable(loss_fn):
        raise CompileError(f"loss_fn is a {type(loss_fn).__qualname__}, {expected}")
    try:
        inspect.signature(loss_fn).bind(*names)
    except TypeError as error:
        raise CompileError(
            f"{reason}the loss function takes other arguments ({error}), {expected}"
        ) from None
    except ValueError:  # It does not say what it takes.
        return


class LastBatch:
    """What becomes of a batch with fewer rows than the example's: `pad` gives the loss function a weight per row, 1 for
    those of the batch and 0 for those that fill it up, `drop` leaves it out, `error` refuses it, if its rows do not
    divide over ranks and microbatches.
    """

    def __init__(self, mode, example):
        if mode not in LAST_BATCH:
            raise CompileError(
                f"last_batch is {shown(mode)}, expected one of {', '.join(LAST_BATCH)}"
            )
        self._mode, self._rows = mode, count_rows(example)

    def loss(self, loss_fn):
        """The loss as a function of what `with_weights` makes of a batch."""
        if self._mode != "pad":
            _check_takes(loss_fn, "model", "batch")
            return loss_fn
        _check_takes(loss_fn, "model", "batch", "weights", reason="last_batch='pad': ")
        return lambda model, batch: loss_fn(model, *batch)

    def check_model(self, model):
        """CompileError for what computes with all rows of a batch while it trains, and gets no weights."""
        pads = self._mode == "pad" and isinstance(model, torch.nn.Module)
        for name, module in model.named_modules() if pads else ():
            if isinstance(module, _BatchNorm) and module.training:
                raise CompileError(
                    f"last_batch='pad': module {name!r}, a {type(module).__name__}, would also count the rows that fill a batch up,"
                    " expected last_batch='drop' or 'error', or another norm, such as GroupNorm"
                )

    def with_weights(self, batch, rows=None):
        """The batch, with weights if the loss gets some: of its first `rows` rows they are 1."""
        if self._mode != "pad" or count_rows(batch) is None:
            return batch
        weights = torch.ones(count_rows(batch))
        weights[len(weights) if rows is None else rows :] = 0
        return batch, weights

    def take(self, batch, program, processes=1):
        """The batch that the step gets, or None. `program` is the first one, whose splits of the batch have to divide;
        the batch is one part of those of so many `processes`.
        """
        rows = count_rows(batch)
        if rows is None or rows == self._rows:
            return self.with_weights(batch)
        if rows == 0 and self._mode == "drop":
            return None
        check_some(batch)
        is_short = rows < self._rows
        if is_short and self._mode == "pad":
            return self.with_weights(_pad(batch, self._rows), rows)
        parts, axes = _parts(program)
        parts //= processes
        if rows % parts == 0:
            return self.with_weights(batch)
        if is_short and self._mode == "drop":
            return None
        instead = ", or compile(..., last_batch='pad') or 'drop'" if is_short else ""
        raise BatchError(
            f"batch: has {rows} rows, which do not divide into {parts} equal parts ({axes}), expected a multiple, as"
            f" the {self._rows} of the example batch{instead}"
        )


def _parts(program):
    """Into how many parts the rows of a batch are split, and by what."""
    splits = [a.form.dims[0] for a in program.arguments if a.role == "input" and a.form.dims]
    time = max((split.time_factor for split in splits), default=1)
    axes = sorted({axis for split in splits for axis in split.axes})
    names = [f"{program.mesh[axis].name}={program.mesh[axis].size}" for axis in axes]
    parts = time
    for axis in axes:
        parts *= program.mesh[axis].size
    for name, count in (("accumulate", time // program.micro), ("micro", program.micro)):
        names += [f"{name}={count}"] * (count > 1)
    return parts, ", ".join(names)
