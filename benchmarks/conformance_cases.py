"""The cases of `make conformance`: PyTorch's own samples of operators, modules and optimizers as training steps.

Tensors of a sample with gradients are parameters. Other floating-point tensors are buffers, the rest constants. One
tensor with an even leading dimension is the batch, so that `data=2` can split it. If it has a gradient, a parameter of
zeros is added to it. The loss is a sum of all outputs with fixed weights. A case has the attributes of a model file
that `tandem.verify` reads.
"""

import functools
import itertools
import random

import numpy as np
import scipy.special
import torch
import torch.testing._utils
import torch.utils._pytree as pytree
from coverage_cases import Case

SAMPLES = 3  # of an operator or module at most
_LISTED = 40  # of which they are taken
_SEED = 39
_RATE = 1e-3
# Results are what memory has.
_UNDEFINED = frozenset(
    """
    empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_
    """.split()  # noqa: SIM905 - a list of words is easier to read
)
# SciPy's function where PyTorch's own values are off by up to 3e-6 in a part of the line.
_EXACT = {
    "op.special.airy_ai": lambda x: scipy.special.airy(x)[0],
    "op.special.bessel_j0": scipy.special.j0,
    "op.special.bessel_j1": scipy.special.j1,
    "op.special.bessel_y0": scipy.special.y0,
    "op.special.bessel_y1": scipy.special.y1,
}
_ROUNDING = 1e-12


def _is_tensor(leaf):
    return isinstance(leaf, torch.Tensor)


def _is_floating(leaf):
    return leaf.is_floating_point() or leaf.is_complex()


def _batch_of(leaves):
    """The index of the leaf that is the batch: one with a gradient rather than without, a floating one rather than another."""
    found = [
        (not leaf.requires_grad, not _is_floating(leaf), i)
        for i, leaf in enumerate(leaves)
        if _is_tensor(leaf) and leaf.layout == torch.strided and not leaf.is_complex()
        if leaf.dim() and leaf.shape[0] and leaf.shape[0] % 2 == 0
    ]
    return min(found)[-1] if found else None


class _Leaves(torch.nn.Module):
    """A tree with tensors, some of which are trained."""

    def __init__(self, tree):
        super().__init__()
        leaves, self.shape = pytree.tree_flatten(tree)
        self.batch_at = _batch_of(leaves)
        self.batch = leaves[self.batch_at] if self.batch_at is not None else torch.ones(2)
        self.batch = self.batch.detach().clone()
        self.others = [self._register(f"leaf{i}", leaf) for i, leaf in enumerate(leaves)]

    def _register(self, name, leaf):
        """What stands for the leaf: its name if it is a parameter or buffer."""
        if not _is_tensor(leaf) or leaf.layout != torch.strided:
            return leaf
        value = leaf.detach().clone()
        if leaf.requires_grad:
            value = torch.view_as_real(value).clone() if leaf.is_complex() else value
            value = torch.zeros_like(value) if name == f"leaf{self.batch_at}" else value
            self.register_parameter(name, torch.nn.Parameter(value))
            return name, leaf.is_complex()
        if (
            leaf.is_floating_point() and not leaf.isnan().any()
        ):  # which no comparison takes for equal
            self.register_buffer(name, value)
            return name, False
        return value

    def _value(self, other):
        if not isinstance(other, tuple):
            return other
        name, is_complex = other
        value = getattr(self, name)
        if is_complex:
            return torch.view_as_complex(value)
        # A copy, as operators that write in place refuse parameters.
        return value.clone() if isinstance(value, torch.nn.Parameter) else value

    def forward(self, batch):
        leaves = [self._value(other) for other in self.others]
        if self.batch_at is not None:
            at = self.batch_at
            is_trained = isinstance(self.others[at], tuple) and leaves[at].requires_grad
            leaves[at] = batch + leaves[at] if is_trained else batch
        return pytree.tree_unflatten(leaves, self.shape)


def _real(tensor):
    if tensor.is_complex():
        return torch.view_as_real(tensor.resolve_conj())
    return tensor if tensor.is_floating_point() else tensor.to(torch.float64)


def _outputs(tree):
    return [_real(leaf) for leaf in pytree.tree_leaves(tree) if _is_tensor(leaf)]


# What stands in the loss for values that are not finite, so that their places count.
_NOT_FINITE = dict(nan=1.25, posinf=2.5, neginf=-3.75)


class _Trained(torch.nn.Module):
    """`function` of a tree of tensors, and of `layer`, whose parameters are trained as well. Gives the loss."""

    def __init__(self, function, tree, layer=None):
        super().__init__()
        self.function, self.leaves, self.layer = function, _Leaves(tree), layer
        outputs = _outputs(self._call(self.leaves.batch))
        generator = torch.Generator().manual_seed(_SEED)
        self.weights = [
            torch.randn(t.shape, generator=generator, dtype=torch.float64) for t in outputs
        ]
        self.is_finite = all(bool(t.isfinite().all()) for t in outputs)
        # Also of outputs without a gradient there is something to train.
        self.scale = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))

    def _call(self, batch):
        tree = self.leaves(batch)
        return self.function(tree) if self.layer is None else self.function(self.layer, tree)

    def forward(self, batch):
        outputs = _outputs(self._call(batch))
        if not outputs:
            raise TypeError("the sample has no tensor among its outputs")
        if not self.is_finite:
            outputs = [t.nan_to_num(**_NOT_FINITE) for t in outputs]
        loss = sum((t * w).sum() for t, w in zip(outputs, self.weights, strict=True))
        loss = loss * self.scale.sum()
        return loss * batch.mean() if self.leaves.batch_at is None else loss


def _is_inexact(operator, model):
    """Whether a value of eager's is not SciPy's, for the values of this sample."""
    if operator not in _EXACT:
        return False
    tree = model.leaves(model.leaves.batch)
    exact = torch.as_tensor(_EXACT[operator](tree[0].detach().numpy()))
    found = model.function(tree).detach()
    return not torch.allclose(found, exact, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)


class Sample(Case):
    """`make()` gives a `_Trained`, the same each time."""

    def __init__(self, name, make):
        super().__init__(name)
        self.make = make

    def make_model(self, seed=0):
        return self.make()

    def make_optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=_RATE)

    def batches(self, count):
        return [self.make().leaves.batch.clone() for _ in range(count)]

    def loss(self, model, batch):
        return model(batch)

    def in_eager(self):
        """Raises what eager raises, and ValueError where it gives no finite or exact numbers."""
        model = self.make()
        if _is_inexact(self.name.partition("#")[0], model):
            raise ValueError("eager is not exact here")
        loss = self.loss(model, self.batches(1)[0])
        loss.backward()
        if not torch.isfinite(loss):
            raise ValueError(f"the loss is {loss.item()}")
        for name, parameter in model.named_parameters():
            if parameter.grad is not None and not parameter.grad.isfinite().all():
                raise ValueError(f"the gradient of {name} is not finite")


def _seeded():
    torch.manual_seed(_SEED)
    np.random.seed(_SEED)
    random.seed(_SEED)


def _some(samples):
    """The first, the last, and what is between."""
    listed = list(itertools.islice(samples, _LISTED))
    last = len(listed) - 1
    places = sorted({0, last // 2, last}) if listed else []
    return [listed[i] for i in places][:SAMPLES]


# ---- Operators


def _dtype_of(info):
    """Float64, or what comes nearest to it among the types that the operator takes."""
    types = (torch.float64, torch.complex128, torch.int64, torch.bool)
    return next((dtype for dtype in types if dtype in info.dtypes), None)


def _call_operator(info, process, tree):
    first, args, kwargs = tree
    return process(info.gradcheck_wrapper(info.get_op(), first, *args, **kwargs))


def _operator_samples(info):
    _seeded()
    dtype = _dtype_of(info)
    has_gradient = info.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    return _some(info.sample_inputs("cpu", dtype, requires_grad=has_gradient, set_seed=False))


def _make_operator(info, sample):
    function = functools.partial(_call_operator, info, sample.output_process_fn_grad)
    return _Trained(function, (sample.input, sample.args, dict(sample.kwargs)))


def _unseeded(function, *args, **kwargs):
    return function(*args, **kwargs)


def operators():
    """{name: OpInfos of the name, that is its variants}."""
    # PyTorch's seed goes past the random numbers of the step, which eager gets as well (`tandem.random.replay`).
    torch.testing._utils.wrapper_set_seed = _unseeded
    from torch.testing._internal.common_methods_invocations import op_db

    found = {}
    for info in op_db:
        if info.name not in _UNDEFINED and _dtype_of(info) is not None:
            found.setdefault(f"op.{info.name}", []).append(info)
    return found


def operator_cases(infos):
    """{name: case}."""
    cases = {}
    for info in infos:
        variant = f".{info.variant_test_name}" if info.variant_test_name else ""
        for i, sample in enumerate(_operator_samples(info)):
            name = f"op.{info.name}{variant}#{i}"
            cases[name] = Sample(name, functools.partial(_make_operator, info, sample))
    return cases


# ---- Modules


def _call_module(layer, tree):
    args, kwargs = tree
    if isinstance(layer, torch.nn.CTCLoss):  # eager's gradient is that of normalised scores
        args = (args[0].log_softmax(-1), *args[1:])
    return layer(*args, **kwargs)


def _make_module(info, inputs, training):
    made, given = inputs.constructor_input, inputs.forward_input
    torch.manual_seed(_SEED)
    layer = info.module_cls(*made.args, **made.kwargs).to(torch.float64).train(training)
    tree = (given.args, dict(given.kwargs))
    if info.is_lazy:
        layer(*tree[0], **tree[1])
    return _Trained(_call_module, tree, layer)


def modules():
    """{name: (ModuleInfo, whether it trains)}."""
    from torch.testing._internal.common_modules import module_db

    found = {}
    for info in module_db:
        for training in (True, False) if info.train_and_eval_differ else (True,):
            mode = "" if training else ".eval"
            found[f"module.{info.name.removeprefix('nn.')}{mode}"] = (info, training)
    return found


def module_cases(unit, info, training):
    _seeded()
    options = dict(device="cpu", dtype=torch.float64, requires_grad=True, training=training)
    samples = _some(info.module_inputs_func(info, **options))
    return {
        f"{unit}#{i}": Sample(f"{unit}#{i}", functools.partial(_make_module, info, s, training))
        for i, s in enumerate(samples)
    }


# ---- Optimizers


class Optimizer(Case):
    """A small model, trained by one configuration of an optimizer."""

    def __init__(self, name, make, needs_closure):
        super().__init__(name)
        self.make, self.needs_closure = make, needs_closure

    def new_model(self):
        return torch.nn.Sequential(
            torch.nn.Linear(4, 3, bias=False), torch.nn.Tanh(), torch.nn.Linear(3, 2, bias=False)
        )

    def make_optimizer(self, model):
        return self.make(model.parameters())

    def batch(self, generator):
        return tuple(torch.randn(4, n, generator=generator, dtype=torch.float64) for n in (4, 2))

    def loss(self, model, batch):
        return torch.nn.functional.mse_loss(model(batch[0]), batch[1])

    def in_eager(self):
        model = self.make_model()
        optimizer = self.make_optimizer(model)
        self.loss(model, self.batches(1)[0]).backward()
        if not self.needs_closure:
            optimizer.step()


def optimizers():
    from torch.testing._internal.common_optimizers import optim_db

    return {f"optim.{info.optim_cls.__name__}": info for info in optim_db}


def optimizer_cases(unit, info):
    from torch.testing._internal.common_optimizers import (
        _get_optim_inputs_including_global_cliquey_kwargs as inputs_of,
    )

    cases = {}
    # `differentiable` is for parameters that are no leaves.
    for inputs in inputs_of("cpu", torch.float64, info, skip=("differentiable",)):
        is_set = [name for name in ("foreach", "fused") if inputs.kwargs.get(name)]
        name = f"{unit}[{', '.join([inputs.desc, *is_set])}]"
        make = functools.partial(info.optim_cls, **inputs.kwargs)
        cases[name] = Optimizer(name, make, info.step_requires_closure)
    return cases
