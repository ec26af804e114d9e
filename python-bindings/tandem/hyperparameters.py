"""The hyperparameters of an optimizer's groups, as a state dict has them, put into an optimizer."""

import torch


def restore(optimizer, groups):
    """Gives each group what a saved one has, but for its parameters; in place, so that schedulers see it."""
    for group, saved in zip(optimizer.param_groups, groups, strict=True):
        for key, value in saved.items():
            if key == "params":
                continue
            own = group.get(key)
            if isinstance(own, torch.Tensor) and own is not value:
                own.detach().fill_(value.item() if isinstance(value, torch.Tensor) else value)
            else:
                group[key] = value.clone() if isinstance(value, torch.Tensor) else value


def texts(optimizer):
    """{"optimizer: lr of parameter group 0": its text} of what may change between steps."""
    return {
        f"optimizer: {name} of parameter group {index}": ", ".join(map(_text, group[name]))
        if isinstance(group[name], (tuple, list))
        else _text(group[name])
        for index, group in enumerate(optimizer.param_groups)
        for name in ("lr", "momentum", "betas")
        if name in group
    }


def _text(number):
    return repr(number.item() if isinstance(number, torch.Tensor) else number)
