"""Tensors that operators write."""

import torch
import torch.utils._pytree as pytree

_HIDDEN = torch.ops.aten.native_batch_norm.default
_DECLARED = torch.ops.aten._native_batch_norm_legit.default


def _given(operator, args, kwargs):
    """The arguments by name."""
    names = (argument.name for argument in operator._schema.arguments)
    return dict(zip(names, args, strict=False)) | kwargs


def declaring(operator, args, kwargs):
    """The call with an operator whose schema says what it writes to: that of batch normalization, in training, does not."""
    if operator is not _HIDDEN:
        return operator, args, kwargs
    given = _given(operator, args, kwargs)
    writes = given["training"] and given["running_mean"] is not None
    return (_DECLARED, (), given) if writes else (operator, args, kwargs)


def operands_written(operator, args, kwargs):
    """The operands, tensors or what stands for them, that a call writes to."""
    schema = getattr(operator, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    given = _given(operator, args, kwargs)
    written = [
        given.get(argument.name)
        for argument in schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return [operand for operand in pytree.tree_leaves(written) if operand is not None]
