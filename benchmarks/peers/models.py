"""The models of the examples as each peer distributes them, computing or sleeping (sleeping.py)."""

import functools

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from . import sleeping
from .experts import PARTS, divide_experts, sleep_moe


def use_ddp(model, bucket_mb, file):
    return DistributedDataParallel(model, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True)


def use_fsdp(model, bucket_mb, file, keeps=False):
    """Parameters of a layer are gathered while the one before it computes, in both passes; or the backward pass `keeps`
    those of the forward pass.
    """
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    layers = list(model.layers)
    for module in (*layers, model):
        # By default the root keeps its own parameters: the backward pass, which begins with them, would gather them at once.
        fully_shard(module, mesh=mesh, reshard_after_forward=False if keeps else None)
    for module in (*layers, model):
        # There are no streams on a CPU: a gather that is not asynchronous ends before anything else begins.
        module._set_unshard_async_op(True)
    model.set_modules_to_forward_prefetch(layers[:1])
    model.set_modules_to_backward_prefetch(layers[-1:])
    for layer, following in zip(layers, layers[1:], strict=False):
        layer.set_modules_to_forward_prefetch([following])
        following.set_modules_to_backward_prefetch([layer])
    # Gathers need not wait for sums.
    model.set_separate_reduce_scatter_group()
    return model


def _attend(module, file, x):
    """The attention of examples/gpt.py, with this process's heads."""
    q, k, v = (
        f(x).unflatten(-1, (module.heads, -1)).transpose(1, 2)
        for f in (module.q, module.k, module.v)
    )
    p = module.p if module.training else 0.0
    y = file.F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=p)
    return module.dropout(module.out(y.transpose(1, 2).flatten(2)))


def use_tensor(model, bucket_mb, file):
    """Megatron's form: columns, then rows, of attention and of feed-forward; a sum each, forward and backward."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    # So that the gradients of query, key and value are added before they are summed over processes.
    shared = PrepareModuleInput(
        input_layouts=(Replicate(),), desired_input_layouts=(Replicate(),), use_local_output=False
    )
    columns = ("attention.q", "attention.k", "attention.v", "mlp.w1")
    plan = {name: ColwiseParallel() for name in columns}
    plan |= {"attention.out": RowwiseParallel(), "mlp.w2": RowwiseParallel(), "attention": shared}
    for layer in model.layers:
        parallelize_module(layer, mesh, plan)
        attention = layer.attention
        attention.heads //= dist.get_world_size()
        attention.forward = functools.partial(_attend, attention, file)
    return model


def use_expert(model, bucket_mb, file):
    """GShard's: tokens go to their experts by all-to-all, all else is data-parallel."""
    layers = {name: module for name, module in model.named_modules() if is_moe(module)}
    for moe in layers.values():
        divide_experts(moe)
    own = [f"{name}.{part}" for name in layers for part in PARTS]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, own)
    return use_ddp(model, bucket_mb, file)


WAYS = {
    "ddp": use_ddp,
    "fsdp": use_fsdp,
    "fsdp-kept": functools.partial(use_fsdp, keeps=True),
    "tensor": use_tensor,
    "expert": use_expert,
}


def is_moe(module):
    return type(module).__name__ == "MoE"


def _sleep_linear(schedule, module, x):
    """A linear layer that is whole, or has columns or rows of a DTensor."""
    weight, bias = module.weight, module.bias
    if not isinstance(weight, DTensor):
        return sleeping.sleep_linear(schedule, x, weight, bias)
    by_columns = weight.placements[0] == Shard(0)
    local = x.to_local(grad_placements=[Partial()] if by_columns else None)
    bias = None if bias is None else bias.to_local()
    y = sleeping.sleep_linear(schedule, local, weight.to_local(), bias)
    placement = Shard(-1) if by_columns else Partial()
    return DTensor.from_local(y, weight.device_mesh, [placement], run_check=False)


def put_to_sleep(model, file, schedule):
    """Behind what distributes it: modules then have the parts of their weights that they compute with."""
    file.F = sleeping.SleepingFunctional(schedule)
    for module in model.modules():
        if is_moe(module):
            kind = sleep_moe
        elif isinstance(module, nn.Linear):
            kind = _sleep_linear
        else:
            kind = sleeping.MODULES.get(type(module))
        if kind is not None:
            module.forward = functools.partial(kind, schedule, module)


def get_part(way, batch):
    """Of a batch, a dict of tensors: this process's sequences."""
    if way == "tensor":
        return batch
    rank, size = dist.get_rank(), dist.get_world_size()
    return {key: value.chunk(size)[rank] for key, value in batch.items()}


def get_loss(file, model, way, batch):
    """Its mean over the processes is the loss of the whole batch."""
    part = get_part(way, batch)
    if "labels" not in batch or way == "tensor":
        return file.loss(model, part)
    # A part may have more masked tokens than another, so that the mean of means would not be that of all.
    logits, balance = model(part["tokens"])
    count = (batch["labels"] != file.IGNORED).sum() / dist.get_world_size()
    labels = part["labels"].flatten()
    guess = file.F.cross_entropy(
        logits.flatten(0, 1), labels, ignore_index=file.IGNORED, reduction="sum"
    )
    return guess / count + 0.01 * balance
