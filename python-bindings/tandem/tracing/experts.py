"""Experts of `transformers`, token by token.

Their own code sorts a whole batch's tokens by expert. Then no microbatch, no part of a batch and no rank could compute
its own tokens alone.
"""

import contextlib
import sys
from unittest import mock

import torch


def _product(x, weight, bias, is_transposed):
    """Of each expert: [experts, tokens, inputs] by its matrix."""
    y = x @ (weight if is_transposed else weight.transpose(-1, -2))
    return y if bias is None else y + bias[:, None]


def _dense(self, hidden_states, top_k_index, top_k_weights):
    """Every expert computes every token; each token takes what its experts give."""
    bias = lambda name: getattr(self, f"{name}_bias") if self.has_bias else None  # noqa: E731
    name = "gate_up_proj" if self.has_gate else "up_proj"
    count, dtype = self.num_experts, hidden_states.dtype
    hits = top_k_index[..., None] == torch.arange(count)
    shares = torch.where(hits, top_k_weights[..., None], 0.0).sum(1).t()[..., None]
    chosen = hits.any(1).t()[..., None]
    weight = getattr(self, name)
    x = hidden_states.to(weight.dtype).expand(count, *hidden_states.shape)
    y = _product(x, weight, bias(name), self.is_transposed)
    y = self._apply_gate(y) if self.has_gate else self.act_fn(y)
    y = _product(y.to(weight.dtype), self.down_proj, bias("down_proj"), self.is_transposed)
    if self.has_post_expert_norm:
        y = self.post_expert_norm(y)
    return torch.where(chosen, y * shares, 0.0).sum(0).to(dtype)


def _forward(self, *args, **kwargs):
    return (_grouped if self._is_expert_parallel else _dense)(self, *args, **kwargs)


def _grouped(self, *args, **kwargs):
    from transformers.integrations import moe

    return moe.grouped_mm_experts_forward(self, *args, **kwargs)


def token_by_token():
    """Within it, experts that `transformers` would sort by tokens run so."""
    moe = sys.modules.get("transformers.integrations.moe")
    functions = getattr(getattr(moe, "ExpertsInterface", None), "_global_mapping", None)
    if not functions or "grouped_mm" not in functions:
        return contextlib.nullcontext()
    return mock.patch.dict(functions, {"grouped_mm": _forward})
