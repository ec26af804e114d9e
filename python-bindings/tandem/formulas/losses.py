"""Losses that PyTorch computes by recursion or from values, as formulas of static shapes."""

import torch
import torch.nn.functional as F

from ..tracing.masks import Masked
from ..tracing.reads import require

# In the place of ln 0: no sum of logarithms comes near it, and it has no differences that are NaN.
_NEVER = -1e30
_IMPOSSIBLE = 1e29


def reduced(loss, reduction):
    return {"mean": loss.mean, "sum": loss.sum, "none": lambda: loss}[reduction]()


def _how(size_average, reduce, reduction):
    """A reduction, by its name or by two flags."""
    if size_average is None and reduce is None:
        return reduction
    return F._Reduction.legacy_get_string(size_average, reduce, emit_warning=False)


def _later(x, count):
    """The states `count` further on, which nothing leads to from before the first."""
    return F.pad(x[:, : x.shape[1] - count], (count, 0), value=_NEVER)


def _targets_by_row(targets, lengths):
    """Of targets one behind the other, a row per sample; what lies behind a row's end does not count."""
    ends = lengths.cumsum(0)
    places = (ends - lengths)[:, None] + torch.arange(targets.shape[0])
    return targets[places.clamp(max=targets.shape[0] - 1)]


def _chosen_first(targets, lengths):
    """Targets that a mask of rows of labels chooses, as rows that begin with them."""
    count = lengths.shape[0]
    mask = targets.mask.reshape(count, -1)
    if not (mask.sum(1) == lengths).all():
        raise RuntimeError("ctc_loss: expected as many targets in each row as target_lengths says")
    order = (~mask).to(torch.int64).argsort(dim=1, stable=True)
    return targets.rows.reshape(count, -1).gather(1, order)


def _states(targets, blank):
    """Blanks round the targets: [rows, 2 labels + 1]."""
    blanks = torch.full_like(targets, blank)
    apart = torch.stack([blanks, targets], -1).flatten(1)
    return torch.cat([apart, blanks[:, :1]], 1)


def ctc_loss(
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    blank=0,
    reduction="mean",
    zero_infinity=False,
):
    """A. Graves et al., 2006, equations 6 to 8, in logarithms; a round per position."""
    if log_probs.dim() == 2:
        lengths = (torch.as_tensor(n).reshape(1) for n in (input_lengths, target_lengths))
        of_one = (log_probs[:, None], targets.reshape(1, -1), *lengths)
        return ctc_loss(*of_one, blank, reduction, zero_infinity).reshape(())
    inputs, lengths = (torch.as_tensor(n) for n in (input_lengths, target_lengths))
    if isinstance(targets, Masked):
        targets = _chosen_first(targets, lengths)
    targets = targets if targets.dim() == 2 else _targets_by_row(targets, lengths)
    for what, sizes, most in (
        ("an input length", inputs, log_probs.shape[0]),
        ("a target length", lengths, targets.shape[1]),
    ):
        require(what, sizes, (sizes >= 0) & (sizes <= most), f"0 to {most}")
    states = _states(targets.long(), blank)
    skips = (states != blank) & (states != F.pad(states[:, :-2], (2, 0), value=blank))
    first = torch.arange(states.shape[1]) < 2
    scores = torch.where(first, log_probs[0].gather(1, states), _NEVER)
    for t in range(1, log_probs.shape[0]):
        jumped = torch.where(skips, _later(scores, 2), _NEVER)
        ways = torch.logaddexp(torch.logaddexp(scores, _later(scores, 1)), jumped)
        ways = ways + log_probs[t].gather(1, states)
        scores = torch.where((t < inputs)[:, None], ways, scores)
    empty = torch.where(torch.arange(states.shape[1]) == 0, 0.0, _NEVER)
    scores = torch.where((inputs > 0)[:, None], scores, empty)
    last = 2 * lengths[:, None]
    label = scores.gather(1, (last - 1).clamp(min=0))
    label = torch.where(lengths[:, None] > 0, label, _NEVER)
    loss = -torch.logaddexp(scores.gather(1, last), label).squeeze(1)
    impossible = loss > _IMPOSSIBLE
    loss = torch.where(impossible, 0.0 if zero_infinity else torch.inf, loss)
    if reduction == "mean":
        loss = loss / lengths.clamp(min=1)
    return reduced(loss, reduction)


def _above(margin):
    """What is above 0. Its gradient is 0 at the kink, and what is no number counts as 0, as in PyTorch."""
    return torch.where(margin > 0, margin, 0.0)


def multi_margin_loss(
    input,  # noqa: A002
    target,
    p=1,
    margin=1.0,
    weight=None,
    size_average=None,
    reduce=None,
    reduction="mean",
):
    if isinstance(input, Masked) or p not in (1, 2) or not input.numel():
        return None
    rows, right = torch.atleast_2d(input), torch.atleast_1d(target).unsqueeze(1)
    apart = _above(margin - rows.gather(1, right) + rows) ** p
    if weight is not None:
        apart = apart * weight[right]
    is_right = torch.arange(rows.shape[1]) == right
    losses = torch.where(is_right, 0.0, apart).sum(1) / rows.shape[1]
    return reduced(losses.reshape(target.shape), _how(size_average, reduce, reduction))


def multilabel_margin_loss(
    input,  # noqa: A002
    target,
    size_average=None,
    reduce=None,
    reduction="mean",
):
    """The labels of a row end before its first negative one. PyTorch's formula counts those behind it as well."""
    if isinstance(input, Masked) or input.shape != target.shape or not input.numel():
        return None
    rows, labels = torch.atleast_2d(input), torch.atleast_2d(target)
    classes = rows.shape[1]
    require("a label", target, (target >= -1) & (target < classes), f"-1 to {classes - 1}")
    counts = ((labels < 0).to(torch.int64).cumsum(1) == 0)[:, :, None]
    places = labels.clamp(min=0)
    others = ~(counts & (places[:, :, None] == torch.arange(classes))).any(1)
    apart = 1 - rows.gather(1, places)[:, :, None] + rows[:, None, :]
    losses = torch.where(counts & others[:, None, :], _above(apart), 0.0)
    losses = losses.sum((1, 2)) / classes
    return reduced(losses.reshape(input.shape[:-1]), _how(size_average, reduce, reduction))


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):  # noqa: A002
    """`var` may lack the last dimension."""
    if isinstance(var, torch.Tensor):
        require("a variance", var, ~(var < 0), "one from 0 on")
    if isinstance(var, float):
        var = var * torch.ones_like(input)
    if var.dim() < input.dim():
        var = var.unsqueeze(-1)
    # The clamp is not part of the gradient, as in PyTorch.
    var = var + (var.detach().clamp(min=eps) - var.detach())
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * torch.log(torch.full_like(loss, 2 * torch.pi))
    return reduced(loss, reduction)


def adaptive_log_softmax_with_loss(self, input_, target_):
    """The forward pass of the module, by masks. As in PyTorch, a cluster that does not occur has no gradients."""
    if target_.dim() != 1 or input_.dim() != 2:
        return None
    ends = self.cutoffs
    if not ((target_ >= 0) & (target_ < ends[-1])).all():
        raise RuntimeError(f"Target values should be in [0, {self.n_classes - 1}]")
    head = F.log_softmax(self.head(input_), dim=1)
    output = torch.zeros_like(head[:, 0])
    for i, (low, high) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        here = (target_ >= low) & (target_ < high)
        if not here.any():
            continue
        place = torch.where(here, target_ - low, 0)[:, None]
        scores = F.log_softmax(self.tail[i - 1](input_), dim=1) if i else head
        scores = scores.gather(1, place).squeeze(1)
        if i:
            scores = scores + head[:, self.shortlist_size + i - 1]
        output = torch.where(here, scores, output)
    return torch.nn.modules.adaptive._ASMoutput(output, -output.mean())
