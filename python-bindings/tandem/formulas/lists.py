"""Functions of lists of tensors (`torch._foreach_add_` and others), tensor by tensor.

PyTorch's optimizers, clipping and averages call them.
"""

import functools

import torch

PREFIX = "_foreach_"


def each(name, args, kwargs, call):
    """What `torch._foreach_NAME` gives; `call(function, args, kwargs)` is asked for each tensor."""
    count = next(len(a) for a in args if isinstance(a, (list, tuple)))
    words = {word: value for word, value in kwargs.items() if value is not None}
    more = [words.pop(w) for w in ("scalar", "scalars") if w in words]
    made = []
    for i in range(count):
        own = [_at(a, i) for a in (*args, *more)]
        own_words = {k: _at(v, i) for k, v in words.items()}
        if name.rstrip("_") in ("addcdiv", "addcmul") and len(own) == 4:
            own_words["value"] = own.pop()
        made.append(call(_function(name, own), tuple(own), own_words))
    return made


def _at(value, i):
    is_listed = isinstance(value, (list, tuple))
    return value[i] if is_listed or isinstance(value, torch.Tensor) and value.dim() == 1 else value


def _function(name, args):
    if name in ("norm", "powsum"):
        return {"norm": torch.linalg.vector_norm, "powsum": _powsum}[name]
    if name.rstrip("_") in ("maximum", "minimum") and not isinstance(args[1], torch.Tensor):
        name = name.replace("maximum", "clamp_min").replace("minimum", "clamp_max")
    if name in ("maximum_", "minimum_"):
        return lambda x, y: x.copy_(getattr(torch, name[:-1])(x, y))
    return getattr(torch.Tensor if isinstance(args[0], torch.Tensor) else torch, name)


def _powsum(x, ord=2, dtype=None):  # noqa: A002 - PyTorch's word
    return x.abs().pow(ord).sum(dtype=dtype)


def _call(function, args, kwargs):
    return function(*args, **kwargs)


def _definition(name):
    def of_lists(*args, **kwargs):
        return each(name, args, kwargs, _call)

    return functools.wraps(getattr(torch, PREFIX + name))(of_lists)


DEFINITIONS = {
    getattr(torch, name): _definition(name.removeprefix(PREFIX))
    for name in dir(torch)
    if name.startswith(PREFIX)
}
