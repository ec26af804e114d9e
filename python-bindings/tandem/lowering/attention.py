"""Attention as one operator (`tandem.attention`)."""

from ..tracing.attention import of_four
from .records import TensorType
from .registry import Unsupported, lowers


def _of_four(b, tensor):
    return b.reshape(tensor, of_four(tensor.shape))


def _without_expansion(b, mask):
    """The mask with its expanded dimensions of size 1, which need not lie in memory."""
    while mask.owner is not None and mask.owner.name == "expand":
        mask = mask.owner.operands[0]
    return b.reshape(mask, (1,) * (4 - len(mask.shape)) + mask.shape)


@lowers("attention")
def _attention(b, query, key, value, mask, scale, before, after, dropout):
    query, key, value = (_of_four(b, tensor) for tensor in (query, key, value))
    rows = query.shape[:3]
    others, attributes = [], {"scale": float(scale)}
    if mask is not None:
        others.append(_without_expansion(b, mask))
        attributes["masked"] = True
    ends = {"before": before, "after": after}
    band = {name: end for name, end in ends.items() if end is not None}
    if band:
        others.append(b.iota((query.shape[2],), 0))
        attributes |= band
    if dropout:
        others += [b.linear_index(rows), b.seed, b.step]
        attributes |= {"dropout": float(dropout), "ordinal": b.ordinal}
    types = [
        TensorType(rows + value.shape[3:], query.dtype),
        TensorType(rows, b.out[1].dtype),
    ]
    results = b.emit("attention", [query, key, value, *others], types, **attributes)
    return [b.reshape(result, out.shape) for result, out in zip(results, b.out, strict=True)]


def _forward_of(logsumexp):
    """The operator that gave it."""
    owner = logsumexp.owner
    if owner is not None and owner.name == "reshape":
        owner = owner.operands[0].owner
    if owner is None or owner.name != "attention":
        raise Unsupported("found a log-sum-exp that is no result of attention")
    return owner


@lowers("attention_backward")
def _attention_backward(b, grad, query, key, value, output, logsumexp):
    """What else the forward operator has, it has as well."""
    forward = _forward_of(logsumexp)
    tensors = [_of_four(b, tensor) for tensor in (grad, query, key, value, output)]
    operands = [*tensors, forward.results[1], *forward.operands[3:]]
    types = [tensor.type for tensor in tensors[1:4]]
    gradients = b.emit("attention_backward", operands, types, **forward.attributes)
    return [b.reshape(gradient, out.shape) for gradient, out in zip(gradients, b.out, strict=True)]
