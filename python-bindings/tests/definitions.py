"""Runs a function of tensors by its captured step, operator by operator, beside eager in float64: values and gradients."""

import contextlib
import copy
import itertools
import random
import sys
import types

import tandem
import torch
import torch.utils._pytree as pytree
from evaluator import run_step

DOUBLE = torch.float64


class _Model(torch.nn.Module):
    def __init__(self, function, tensors):
        super().__init__()
        self.tensors = torch.nn.ParameterList([torch.nn.Parameter(t.clone()) for t in tensors])
        self.function = function

    def forward(self):
        results = self.function(*[t * 1 for t in self.tensors])
        return [t for t in pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]


def _real(t):
    return torch.view_as_real(t.resolve_conj()) if t.is_complex() else t.resolve_neg()


def _weighted(t):
    """A sum of what is finite, with another weight for each element."""
    t = _real(t).to(DOUBLE)
    weights = (0.5 + torch.arange(t.numel(), dtype=DOUBLE) / max(t.numel(), 1)).reshape(t.shape)
    return (torch.where(t.isfinite(), t, torch.zeros_like(t)) * weights).sum()


def _loss(model, batch):
    results = model()
    unused = sum((t * 0).nan_to_num(0, 0, 0).sum() for t in model.tensors)
    loss = sum((_weighted(t) for t in results), 0 * batch.sum()) + 0 * unused
    return (loss, *map(_real, results))


def captured(function, *tensors):
    """The StepModule whose results are those of `function`, and a model and a batch to run in eager."""
    model, batch = _Model(function, tensors), torch.zeros(1, dtype=DOUBLE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    module = tandem.export(model, _loss, optimizer, batch, gradients=True)
    return module, copy.deepcopy(model), batch


def run(module, batch, seed=5):
    """(results of the function, gradients) of a captured step."""
    values = {key: t.clone() for key, t in module.values().items()}
    results = run_step(
        module.step, values | module.inputs(batch) | {"seed/seed": torch.tensor(seed)}
    )
    gradients = {r.name: t for r, t in results if r.role == "gradient"}
    return [t for r, t in results if r.role == "output"], gradients


def same(found, expected, what, tolerance=1e-8):
    if found is None or expected is None:
        given = [t for t in (found, expected) if t is not None]
        assert not any(t.any() for t in given), f"{what}: found {found}, expected {expected}"
        return
    torch.testing.assert_close(
        found.to(DOUBLE),
        expected.to(DOUBLE),
        rtol=tolerance,
        atol=tolerance,
        equal_nan=True,
        msg=lambda m: f"{what}: {m}",
    )


def compare(function, *tensors, replays=False, tolerance=1e-8):
    """AssertionError where values or gradients differ from eager's; with `replays` eager has the step's random numbers."""
    module, model, batch = captured(function, *tensors)
    found, gradients = run(module, batch)
    with tandem.random.replay(5, 0, module.random_calls) if replays else contextlib.nullcontext():
        loss, *expected = _loss(model, batch)
        loss.backward()
    assert len(found) == len(expected)
    for i, pair in enumerate(zip(found, expected, strict=True)):
        same(*pair, f"value {i}", tolerance)
    for name, parameter in model.named_parameters():
        same(gradients.get(name), parameter.grad, f"gradient {name}", tolerance)
    return module


# ---- PyTorch's samples


def _database():
    """PyTorch's operators with samples. The file that has them wants a package of PyTorch's own tests."""
    package = types.ModuleType("expecttest")
    package.TestCase = object
    sys.modules.setdefault("expecttest", package)
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db


def samples(name, count, largest):
    """(function, tensors) of at most `count` samples, chosen at random, that have elements, at most `largest`, and gradients."""
    (operator,) = [
        o for o in _database() if ".".join(filter(None, (o.name, o.variant_test_name))) == name
    ]
    torch.manual_seed(0)
    random.seed(0)
    found = []
    for sample in itertools.islice(operator.sample_inputs("cpu", DOUBLE), 100):
        leaves, tree = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        tensors = {i: t for i, t in enumerate(leaves) if isinstance(t, torch.Tensor)}
        places = [i for i, t in tensors.items() if t.dtype == DOUBLE and i < _differentiable(name)]
        has_elements = all(t.dim() and t.numel() for t in tensors.values())
        if places and has_elements and sum(t.numel() for t in tensors.values()) <= largest:
            found.append((operator.op, leaves, tree, places))
    random.Random(1).shuffle(found)
    return [_function(*sample) for sample in found[:count]]


def _differentiable(name):
    """How many arguments of an operator may have gradients."""
    return 1 if "margin" in name else 9


def _function(operator, leaves, tree, places):
    def function(*tensors):
        given = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        first, arguments, keywords = pytree.tree_unflatten(given, tree)
        return operator(first, *arguments, **keywords)

    return function, [leaves[place].detach() for place in places]


def with_value(tensors, value, seed=3):
    """A quarter of the elements of each are `value`."""
    generator = torch.Generator().manual_seed(seed)
    changed = []
    for tensor in tensors:
        flat = tensor.clone().reshape(-1)
        flat[torch.randperm(flat.numel(), generator=generator)[: max(1, flat.numel() // 4)]] = value
        changed.append(flat.reshape(tensor.shape))
    return changed
