"""Runs a captured step with plain torch, one `nn` operator after the other: the meaning of the
records.

Tests compare it with eager. It knows nothing of the lowering; what an operator means is in its ODS
text.
"""

import itertools

import torch
import torch.nn.functional as F
from tandem.random import philox


def _div(x, y):
    return torch.div(x, y, rounding_mode=None if x.dtype.is_floating_point else "trunc")


def _reduce(name, x, dims, keepdim):
    if name == "sum":
        return x.sum(dims, keepdim=keepdim, dtype=x.dtype)
    if name in ("max", "min"):
        if x.dtype == torch.bool:
            return (x.any if name == "max" else x.all)(dims, keepdim=keepdim)
        return (x.amax if name == "max" else x.amin)(dims, keepdim=keepdim)
    for dim in sorted(dims, reverse=True):
        x = x.prod(dim, keepdim=keepdim)
    return x


def _topk(x, k, dim, largest):
    order = torch.sort(x, dim=dim, descending=largest, stable=True)
    return order.values.narrow(dim, 0, k), order.indices.narrow(dim, 0, k)


def _softmax(x, dim, safe):
    return torch.ops.aten._safe_softmax(x, dim) if safe else x.softmax(dim)


def _layer_norm(x, affine, rank, eps):
    shape = x.shape[x.dim() - rank :]
    weight, bias = (list(affine) + [None, None])[:2]
    return torch.ops.aten.native_layer_norm(x, shape, weight, bias, eps)


def _layer_norm_backward(dy, x, mean, rstd, weight, rank):
    shape = x.shape[x.dim() - rank :]
    w = weight[0] if weight else None
    b = torch.zeros_like(w) if weight else None
    mask = [True, bool(weight), bool(weight)]
    results = torch.ops.aten.native_layer_norm_backward(dy, x, shape, mean, rstd, w, b, mask)
    return results if weight else results[:1]


def _pad(x, dim, low, high, step):
    size = low + high + (x.shape[dim] - 1) * step + 1
    shape = list(x.shape)
    shape[dim] = size
    out = x.new_zeros(shape)
    stop = low + (x.shape[dim] - 1) * step + 1
    out[(slice(None),) * dim + (slice(low, stop, step),)] = x
    return out


def _embedding_backward(dy, indices, rows):
    tail = dy.shape[indices.dim() :]
    out = dy.new_zeros((rows, *tail))
    return out.index_add_(0, indices.reshape(-1), dy.reshape(-1, *tail))


def _philox(index, seed, step, ordinal):
    return torch.from_numpy(philox(index.numpy(), int(seed), ordinal, int(step)).astype("int64"))


def _scores(a, query, key, others):
    """Scaled and masked scores, and what dropout multiplies weights by."""
    others = iter(others)
    key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    scores = a["scale"] * query @ key.mT
    if a.get("masked"):
        mask = next(others)
        scores = (
            scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        )
    if "before" in a or "after" in a:
        distance = torch.arange(key.shape[2]) - next(others)[:, None]
        hidden = (distance < -a.get("before", torch.inf)) | (distance > a.get("after", torch.inf))
        scores = scores.masked_fill(hidden, -torch.inf)
    if not a.get("dropout"):
        return scores, 1.0
    rows, seed, step = others
    bits = _philox(
        rows[..., None] * key.shape[2] + torch.arange(key.shape[2]), seed, step, a["ordinal"]
    )
    keep = 1 - a["dropout"]
    return scores, (bits < int(keep * 2**32)).to(scores.dtype) / keep


def _attention(a, query, key, value, *others):
    scores, kept = _scores(a, query, key, others)
    value = value.repeat_interleave(query.shape[1] // value.shape[1], 1)
    weights = torch.ops.aten._safe_softmax(scores, -1)
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    return weights * kept @ value, scores.logsumexp(-1).to(wide)


def _attention_backward(a, grad, query, key, value, output, logsumexp, *others):
    with torch.enable_grad():
        tensors = [t.detach().requires_grad_() for t in (query, key, value)]
        return torch.autograd.grad(_attention(a, *tensors, *others)[0], tensors, grad)


def _end_padding(a, dim, size, kernel, windows):
    last = a["stride"][dim] * (windows - 1) + a["dilation"][dim] * (kernel - 1)
    return last + 1 - size - a["padding"][dim]


def _conv(a, x, weight, shape):
    """Padded, or cut, so that there are as many windows as `shape` has."""
    rank = x.dim() - 2
    pads = []
    for dim in reversed(range(rank)):
        sizes = x.shape[2 + dim], weight.shape[2 + dim], shape[2 + dim]
        pads += [a["padding"][dim], _end_padding(a, dim, *sizes)]
    conv = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    groups = x.shape[1] // weight.shape[1]
    return conv(F.pad(x, pads), weight, None, a["stride"], 0, a["dilation"], groups)


def _conv_grad(a, x, weight, grad, wanted):
    with torch.enable_grad():
        tensors = [t.detach().requires_grad_() for t in (x, weight)]
        y = _conv(a, *tensors, grad.shape)
        return torch.autograd.grad(y, tensors[wanted], grad)[0]


def _max_pool(a, x, shape):
    """Over all positions of the kernel, one after the other."""
    rank = len(a["kernel"])
    sizes, windows = x.shape[x.dim() - rank :], shape[len(shape) - rank :]
    values = torch.full(shape, -torch.inf, dtype=x.dtype)
    indices = torch.full(shape, -1)
    for k in itertools.product(*map(range, a["kernel"])):
        index, inside = torch.zeros((), dtype=torch.long), torch.ones((), dtype=torch.bool)
        for dim in range(rank):
            at = a["stride"][dim] * torch.arange(windows[dim])
            at = at + a["dilation"][dim] * k[dim] - a["padding"][dim]
            index = index[..., None] * sizes[dim] + at.clamp(0, sizes[dim] - 1)
            inside = inside[..., None] & (at >= 0) & (at < sizes[dim])
        found = x.flatten(x.dim() - rank)[..., index.flatten()].reshape(shape)
        take = inside & ((indices < 0) | (found > values) | found.isnan())
        values, indices = torch.where(take, found, values), torch.where(take, index, indices)
    return values, indices


def evaluate(operator, inputs):
    """Results of one operator."""
    name, a, out = operator.name, operator.attributes, operator.results[0].type
    if name in ("sum", "max", "min", "prod"):
        return _reduce(name, inputs[0], a["dims"], a["keepdim"])
    special = {
        "silu": lambda: F.silu(*inputs),
        "logical_and": lambda: torch.bitwise_and(*inputs),
        "logical_or": lambda: torch.bitwise_or(*inputs),
        "logical_xor": lambda: torch.bitwise_xor(*inputs),
        "div": lambda: _div(*inputs),
        "constant": lambda: a["value"],
        "iota": lambda: torch.arange(out.shape[0]),
        "convert": lambda: inputs[0].to(out.dtype),
        "compare": lambda: getattr(torch, a["predicate"])(*inputs),
        "select": lambda: torch.where(*inputs),
        "gelu": lambda: F.gelu(inputs[0], approximate=a["approximate"]),
        "gelu_backward": lambda: torch.ops.aten.gelu_backward(
            *inputs, approximate=a["approximate"]
        ),
        "silu_backward": lambda: torch.ops.aten.silu_backward(*inputs),
        "philox": lambda: _philox(*inputs, a["ordinal"]),
        "argmax": lambda: _topk(inputs[0], 1, a["dim"], True)[1].reshape(out.shape),
        "softmax": lambda: _softmax(inputs[0], a["dim"], a.get("safe", False)),
        "log_softmax": lambda: inputs[0].log_softmax(a["dim"]),
        "softmax_backward": lambda: torch._softmax_backward_data(
            *inputs, a["dim"], inputs[0].dtype
        ),
        "log_softmax_backward": lambda: torch._log_softmax_backward_data(
            *inputs, a["dim"], inputs[0].dtype
        ),
        "cumsum": lambda: inputs[0].cumsum(a["dim"], dtype=inputs[0].dtype),
        "topk": lambda: _topk(inputs[0], a["k"], a["dim"], a["largest"]),
        "layer_norm": lambda: _layer_norm(inputs[0], inputs[1:], a["normalized_rank"], a["eps"]),
        "layer_norm_backward": lambda: _layer_norm_backward(
            *inputs[:4], inputs[4:], a["normalized_rank"]
        ),
        "attention": lambda: _attention(a, *inputs),
        "attention_backward": lambda: _attention_backward(a, *inputs),
        "conv": lambda: _conv(a, *inputs, out.shape),
        "conv_input_grad": lambda: _conv_grad(
            a, inputs[0].new_zeros(out.shape), inputs[1], inputs[0], 0
        ),
        "conv_weight_grad": lambda: _conv_grad(
            a, inputs[0], inputs[0].new_zeros(out.shape), inputs[1], 1
        ),
        "max_pool": lambda: _max_pool(a, inputs[0], out.shape),
        "embedding": lambda: inputs[0][inputs[1]],
        "embedding_backward": lambda: _embedding_backward(*inputs, out.shape[0]),
        "gather": lambda: inputs[0].gather(a["dim"], inputs[1]),
        "scatter_add": lambda: (
            inputs[0].new_zeros(out.shape).scatter_add(a["dim"], inputs[1], inputs[0])
        ),
        "reshape": lambda: inputs[0].reshape(out.shape),
        "permute": lambda: inputs[0].permute(a["permutation"]),
        "expand": lambda: inputs[0].expand(out.shape),
        "slice": lambda: inputs[0][
            (slice(None),) * a["dim"] + (slice(a["start"], a["stop"], a["step"]),)
        ],
        "pad": lambda: _pad(inputs[0], a["dim"], a["low"], a["high"], a["step"]),
        "cat": lambda: torch.cat(inputs, a["dim"]),
    }
    # All others have torch's name, meaning and attributes.
    return special[name]() if name in special else getattr(torch, name)(*inputs, **a)


def run_step(step, tensors):
    """`tensors`: {`role/name`: tensor}. Returns [(result, tensor)], checking every type on the
    way.
    """
    values = {}
    for argument, value in zip(step.arguments, step.parameters, strict=True):
        tensor = tensors[argument.key].detach()
        assert tuple(tensor.shape) == value.shape and tensor.dtype == value.dtype, argument.key
        values[id(value)] = tensor
    for operator in step.operators:
        results = evaluate(operator, [values[id(operand)] for operand in operator.operands])
        results = results if isinstance(results, (tuple, list)) else [results]
        assert len(results) == len(operator.results), operator
        for tensor, value in zip(results, operator.results, strict=True):
            assert tuple(tensor.shape) == value.shape, (operator.name, tensor.shape, value.shape)
            assert tensor.dtype == value.dtype, (operator.name, tensor.dtype, value.dtype)
            values[id(value)] = tensor
    return [
        (result, values[id(value)])
        for result, value in zip(step.results, step.outputs, strict=True)
    ]
