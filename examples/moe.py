"""Mixture-of-experts layer with capacity and GShard's dispatch by einsum (arXiv:2006.16668).

Gates: `sgmoe` sends a token to its two best experts (Shazeer et al., 2017), `switch` to the best
one (Fedus et al., 2021). Capacity is counted per group of sequences: capacity factor * k * tokens
of the group / experts; tokens beyond it are dropped and pass by the residual connection.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

GATES = {"sgmoe": 2, "switch": 1}


class MoE(nn.Module):
    """`group` sequences, or all of the batch for "batch", share an expert's capacity."""

    def __init__(self, width, hidden, experts, gate="sgmoe", capacity=1.25, group=1):
        super().__init__()
        if gate not in GATES:
            raise ValueError(f"gate = {gate!r}, expected one of {', '.join(GATES)}")
        self.experts, self.k, self.capacity, self.group = experts, GATES[gate], capacity, group
        self.gate = nn.Linear(width, experts, bias=False)
        self.w1 = nn.Parameter(torch.empty(experts, width, hidden))
        self.b1 = nn.Parameter(torch.zeros(experts, 1, hidden))
        self.w2 = nn.Parameter(torch.empty(experts, hidden, width))
        self.b2 = nn.Parameter(torch.zeros(experts, 1, width))
        nn.init.normal_(self.w1, std=width**-0.5)
        nn.init.normal_(self.w2, std=hidden**-0.5)

    def forward(self, x):
        """x: (batch, sequence, width). Returns the layer's output and its load-balancing loss."""
        batch, sequence, width = x.shape
        group = batch if self.group == "batch" else self.group
        tokens = x.reshape(batch // group, group * sequence, width)
        dispatch, combine, balance = self.route(tokens)
        # g: groups, t: tokens, e: experts, c: capacity, m: width, h: hidden
        y = torch.einsum("gtec,gtm->egcm", dispatch, tokens)
        y = F.gelu(torch.einsum("egcm,emh->egch", y, self.w1) + self.b1[:, None])
        y = torch.einsum("egch,ehm->egcm", y, self.w2) + self.b2[:, None]
        y = torch.einsum("gtec,egcm->gtm", combine, y)
        return y.reshape(batch, sequence, width), balance

    def route(self, tokens):
        """Masks (g, t, e, c): which token is at which place of which expert, and the same with
        gates.
        """
        probabilities = self.gate(tokens).softmax(dim=-1)
        gates, chosen = probabilities.topk(self.k, dim=-1)
        if self.k > 1:
            gates = gates / gates.sum(dim=-1, keepdim=True)
        capacity = max(1, math.ceil(self.capacity * self.k * tokens.shape[1] / self.experts))
        taken = torch.zeros_like(chosen[:, :1, :1])
        dispatch = combine = torch.zeros((), dtype=tokens.dtype, device=tokens.device)
        for i in range(self.k):
            expert = F.one_hot(chosen[..., i], self.experts)
            place = ((torch.cumsum(expert, dim=1) - 1 + taken) * expert).sum(dim=-1)
            taken = taken + expert.sum(dim=1, keepdim=True)
            place = place[..., None] == torch.arange(capacity, device=place.device)
            mask = expert.to(tokens.dtype)[..., None] * place.to(tokens.dtype)[..., None, :]
            dispatch = dispatch + mask
            combine = combine + gates[..., i, None, None] * mask
        return dispatch, combine, self.balance(probabilities, chosen)

    def balance(self, probabilities, chosen):
        """Per group: experts * sum over experts of (share of tokens) * (mean probability)."""
        share = F.one_hot(chosen[..., 0], self.experts).to(probabilities.dtype).mean(dim=1)
        return self.experts * (share * probabilities.mean(dim=1)).sum(dim=-1).mean()
