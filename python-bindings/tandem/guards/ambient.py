"""PyTorch modes around the call of a step: eager computes under them, a captured step does not."""

import torch
from torch._C._autograd import _top_saved_tensors_default_hooks as top_hooks
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack


def _is_of_user(value):
    return not (value.__module__ or "").startswith("torch.")


def around():
    """The name of what would change the numbers of a loss function that runs here, and what to do; None for nothing."""
    if torch.is_autocast_enabled("cpu"):
        return "torch.autocast", "it within the loss function, or precision='bf16'"
    if torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack():
        modes = (*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack())
        for kind in filter(_is_of_user, map(type, modes)):
            return f"the mode {kind.__qualname__}", "it within the loss function"
    hooks = top_hooks(False)
    if hooks is not None and _is_of_user(hooks[0]):
        return "saved_tensors_hooks", "them within the loss function"
    return None


def check_around(what, error):
    """Raises `error` under such."""
    found = around()
    if found is not None:
        name, expected = found
        raise error(
            f"{what}: called under {name}, which a captured step does not see, expected {expected}"
        )


def check_gradients(error):
    """Raises `error` where gradients are switched off."""
    if not torch.is_grad_enabled():
        raise error(
            "step: called with gradients switched off (torch.no_grad, torch.inference_mode, torch.set_grad_enabled), where eager"
            " does not train; expected a call outside, or step.evaluate(batch)"
        )
