"""Scaled dot product attention as one operator during capture, with its own backward.

PyTorch's fused operators cannot be used: the CPU's kernel and its decomposition return different results beside the
output, so gradients of a trace would be wrong. `tandem::attention` and its backward compute the same as
`nn.attention`.
"""

import math

import torch
from torch.nn.attention.bias import CausalBias, CausalVariant

from ..errors import CaptureError
from .locations import current_location

_OPTIONS = "Tensor? mask, float scale, int? before, int? after, float dropout"
_library = torch.library.Library("tandem", "DEF")
_library.define(
    f"attention(Tensor query, Tensor key, Tensor value, {_OPTIONS}) -> (Tensor, Tensor)"
)
_library.define(
    "attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor output, Tensor logsumexp)"
    " -> (Tensor, Tensor, Tensor)"
)
ATTENTION = torch.ops.tandem.attention.default

# Element types of `nn.attention` that libraries have.
_TYPES = (torch.float64, torch.float32, torch.bfloat16)


@torch.library.register_fake("tandem::attention", lib=_library)
def _attention(query, key, value, mask, scale, before, after, dropout):
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    return (
        query.new_empty(*query.shape[:-1], value.shape[-1]),
        query.new_empty(query.shape[:-1], dtype=wide),
    )


def _formula(query, key, value, mask, scale, before, after, dropout):
    """What the operator computes, and its scores."""
    scores = query @ key.transpose(-1, -2) * scale
    places = torch.arange(key.shape[-2]) - torch.arange(query.shape[-2])[:, None]
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool)
    seen &= places <= (places.max() if after is None else after)
    seen &= places >= (places.min() if before is None else -before)
    scores = scores.masked_fill(~seen, -torch.inf)
    if mask is not None:
        of_four_scores = scores.reshape(of_four(scores.shape))
        masked = (
            of_four_scores.masked_fill(~mask, -torch.inf)
            if mask.dtype == torch.bool
            else of_four_scores + mask
        )
        scores = masked.reshape(scores.shape)
    weights = torch.ops.aten._safe_softmax(scores, -1)
    return torch.dropout(weights, dropout, dropout > 0) @ value, scores


@torch.library.impl("tandem::attention", "CPU", lib=_library)
def _compute(query, *others):
    """For values that Python looks at while a step is captured."""
    output, scores = _formula(query, *others)
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    return output, scores.logsumexp(-1).to(wide)


@torch.library.register_fake("tandem::attention_backward", lib=_library)
def _attention_backward(grad, query, key, value, output, logsumexp):
    return tuple(query.new_empty(tensor.shape) for tensor in (query, key, value))


def _differentiable_gradients(grad, tensors, options):
    """Those of the formula, of which gradients may be asked for: the operator's own are of first order."""
    if options[-1] > 0:
        raise CaptureError(
            f"{current_location()}: a gradient of attention's gradient is asked for, and its dropout is drawn once, expected"
            " dropout_p=0.0, or attention written as softmax(q @ k.mT * scale) @ v"
        )
    with torch.enable_grad():
        tensors = [tensor.view_as(tensor) for tensor in tensors]  # as one may be given twice
        wanted = [tensor for tensor in tensors if tensor.requires_grad]
        output, _ = _formula(*tensors, *options)
        found = iter(torch.autograd.grad(output, wanted, grad, create_graph=True))
    return [next(found) if tensor.requires_grad else None for tensor in tensors]


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, mask, *options):
        output, logsumexp = ATTENTION(query, key, value, mask, *options)
        ctx.save_for_backward(query, key, value, output, logsumexp, mask)
        ctx.options = options
        return output

    @staticmethod
    def backward(ctx, grad):
        *saved, mask = ctx.saved_tensors
        if torch.is_grad_enabled():  # by create_graph=True
            gradients = _differentiable_gradients(grad, saved[:3], (mask, *ctx.options))
        else:
            gradients = torch.ops.tandem.attention_backward(grad, *saved)
        return *gradients, *[None] * (1 + len(ctx.options))


def scores_drawn(operator, args):
    """The scores that dropout draws for, as a tensor without values; None if the call draws nothing."""
    if operator is not ATTENTION or args[7] == 0:
        return None
    query, key = args[:2]
    return torch.empty(query.shape[:-1] + key.shape[-2:-1], dtype=query.dtype, device="meta")


def _repeat_heads(tensor, query):
    """Plans split attention into as many parts as the query has heads; `lower` undoes it."""
    if min(tensor.dim(), query.dim()) < 3:
        return tensor
    heads, count = tensor.shape[-3], query.shape[-3]
    if heads == 0 or count % heads:
        raise CaptureError(
            f"{current_location()}: keys or values have {heads} heads, expected a number that divides the {count} of the queries"
        )
    return tensor.repeat_interleave(count // heads, -3)


def _broadcast(tensor, query):
    """Keys or values with the leading dimensions of the queries, of which they may have one, as a head for all."""
    leading = query.shape[:-2]
    pairs = zip(tensor.shape[:-2], leading, strict=False)
    if tensor.dim() != query.dim() or any(size not in (1, whole) for size, whole in pairs):
        return tensor
    if tensor.dim() >= 3 and tensor.shape[-3] < query.shape[-3]:
        tensor = _repeat_heads(tensor, query)
    return tensor if tensor.shape[:-2] == leading else tensor.expand(*leading, *tensor.shape[-2:])


def _is_whole(query, key, value, dropout):
    """Whether it is what `nn.attention` has; else PyTorch's plain formula is captured."""
    tensors = (query, key, value)
    return (
        torch._C._functorch.peek_interpreter_stack() is None
        and query.dtype in _TYPES
        and all(t.dtype == query.dtype and t.dim() == query.dim() and t.numel() for t in tensors)
        and all(t.shape[:-2] == query.shape[:-2] for t in tensors)
        and key.shape[:-1] == value.shape[:-1]
        and key.shape[-1] == query.shape[-1]
        and query.dim() >= 2
        and dropout < 1
    )


def _check_dropout(dropout):
    if not 0 <= dropout <= 1:
        raise CaptureError(f"{current_location()}: dropout_p is {dropout}, expected 0 to 1")


def _check_mask(mask, scores, dtype):
    if mask.dtype not in (torch.bool, torch.float32, dtype):
        raise CaptureError(
            f"{current_location()}: attention mask has type {mask.dtype}, expected torch.bool or {dtype}"
        )
    try:
        fits = torch.broadcast_shapes(mask.shape, scores) == scores
    except RuntimeError:
        fits = False
    if not fits:
        raise CaptureError(
            f"{current_location()}: attention mask has shape {tuple(mask.shape)}, expected one that broadcasts"
            f" to {tuple(scores)}"
        )


def of_four(shape):
    """Of tensors or of scores, as (batch, heads, ., .): one head where there are three dimensions or two."""
    if len(shape) < 4:
        return (1,) * (3 - len(shape)) + tuple(shape[:-2]) + (1,) + tuple(shape[-2:])
    return (math.prod(shape[:-3]), *shape[-3:])


def _mask_of_four(mask, scores):
    """Broadcasts to the scores as (batch, heads, queries, keys)."""
    mask = mask[(None,) * (len(scores) - mask.dim())]
    if len(scores) > 4:
        mask = mask.expand(*scores[:-3], *mask.shape[-3:])
    return mask.reshape(of_four(mask.shape))


def causal_mask(variant, queries, keys):
    """What a `CausalBias` says, as a tensor: one of a class of its own cannot be made while a step is captured."""
    first = keys - queries if variant == CausalVariant.LOWER_RIGHT else 0
    return torch.ones(queries, keys, dtype=torch.bool).tril(first)


def _cast(tensors):
    """Under autocast attention computes in its type."""
    if not torch.is_autocast_enabled("cpu"):
        return tensors
    dtype = torch.get_autocast_dtype("cpu")
    return [t.to(dtype) if t is not None and t.dtype == torch.float32 else t for t in tensors]


def attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    """`F.scaled_dot_product_attention`; None for what is captured by its plain formula."""
    _check_dropout(dropout_p)
    if isinstance(attn_mask, CausalBias):
        attn_mask = causal_mask(attn_mask.variant, attn_mask.seq_len_q, attn_mask.seq_len_kv)
    query, key, value, mask = _cast([query, key, value, attn_mask])
    if enable_gqa:
        key, value = (_repeat_heads(tensor, query) for tensor in (key, value))
    key, value = (_broadcast(tensor, query) for tensor in (key, value))
    if not _is_whole(query, key, value, dropout_p):
        return None
    if mask is not None:
        scores = query.shape[:-1] + key.shape[-2:-1]
        _check_mask(mask, scores, query.dtype)
        if mask.requires_grad or is_causal:
            return None
        mask = mask if mask.dtype == torch.bool else mask.to(query.dtype)
        mask = _mask_of_four(mask, scores)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    if not math.isfinite(scale):
        raise CaptureError(
            f"{current_location()}: attention's scale is {scale}, expected a finite number"
        )
    after = 0 if is_causal else None
    return _Attention.apply(query, key, value, mask, scale, None, after, float(dropout_p))
