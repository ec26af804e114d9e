"""Losses that PyTorch computes by a recursion, or by looking at what falls where, by formulas of static shapes."""

import torch
import torch.nn.functional as F

from .masks import Masked

# In the place of ln 0: no sum of logarithms comes near it, and it has no differences that are NaN.
_NEVER = -1e30
_IMPOSSIBLE = 1e29


def reduced(loss, reduction):
    return {"mean": loss.mean, "sum": loss.sum, "none": lambda: loss}[reduction]()


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
        return None
    inputs, lengths = (torch.as_tensor(n) for n in (input_lengths, target_lengths))
    if isinstance(targets, Masked):
        targets = _chosen_first(targets, lengths)
    targets = targets if targets.dim() == 2 else _targets_by_row(targets, lengths)
    states = _states(targets.long(), blank)
    skips = (states != blank) & (states != F.pad(states[:, :-2], (2, 0), value=blank))
    first = torch.arange(states.shape[1]) < 2
    scores = torch.where(first, log_probs[0].gather(1, states), _NEVER)
    for t in range(1, log_probs.shape[0]):
        jumped = torch.where(skips, _later(scores, 2), _NEVER)
        ways = torch.logaddexp(torch.logaddexp(scores, _later(scores, 1)), jumped)
        ways = ways + log_probs[t].gather(1, states)
        scores = torch.where((t < inputs)[:, None], ways, scores)
    last = 2 * lengths[:, None]
    label = scores.gather(1, (last - 1).clamp(min=0))
    label = torch.where(lengths[:, None] > 0, label, _NEVER)
    loss = -torch.logaddexp(scores.gather(1, last), label).squeeze(1)
    impossible = loss > _IMPOSSIBLE
    loss = torch.where(impossible, 0.0 if zero_infinity else torch.inf, loss)
    if reduction == "mean":
        loss = loss / lengths.clamp(min=1)
    return reduced(loss, reduction)


def multi_margin_loss(
    input,  # noqa: A002
    target,
    p=1,
    margin=1.0,
    weight=None,
    *old,
    reduction="mean",
    **others,
):
    """Of a batch; None for a single sample."""
    if input.dim() != 2 or old or any(value is not None for value in others.values()):
        return None
    right = target.unsqueeze(1)
    terms = (margin - input.gather(1, right) + input).clamp(min=0) ** p
    if weight is not None:
        terms = terms * weight[right]
    others_only = torch.arange(input.shape[1]) != right
    return reduced((terms * others_only).sum(1) / input.shape[1], reduction)


def multilabel_margin_loss(input, target, *old, reduction="mean", **others):  # noqa: A002
    """Of a batch. The labels of a row end before its first negative one."""
    if input.dim() != 2 or old or any(value is not None for value in others.values()):
        return None
    labelled = (target < 0).to(torch.int64).cumsum(1) == 0
    places = target.clamp(min=0)
    hits = labelled[:, :, None] & (places[:, :, None] == torch.arange(input.shape[1]))
    chosen = input.gather(1, places)
    terms = (1 - chosen[:, :, None] + input[:, None, :]).clamp(min=0)
    counted = labelled[:, :, None] & ~hits.any(1)[:, None, :]
    loss = torch.where(counted, terms, 0.0).sum((1, 2)) / input.shape[1]
    return reduced(loss, reduction)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):  # noqa: A002
    """Without the check that no variance is negative. `var` may lack the last dimension."""
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
