"""Counter-based random numbers, for eager PyTorch: the same bits as `nn.philox`.

Philox4x32-10 (Salmon et al., SC 2011). Key: the 64-bit seed. Counter: (linear index / 4 as 64 bits,
ordinal of the random operator in eager's call order, step). Lane: index mod 4.
"""

import contextlib
import math
import weakref
from unittest import mock

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .errors import ReplayError
from .tracing.draws import DrawError, Draws, is_random

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW = np.uint64(0xFFFFFFFF)
_ROUNDS = 10

# How many random bits a number in [0, 1) takes, so that it is exact in its element type.
MANTISSA_BITS = {torch.float64: 32, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


def philox_words(counter, key):
    """Philox4x32-10 of four arrays of 32-bit words and two key words: four arrays, all uint64."""
    words, (key0, key1) = list(counter), key
    for _ in range(_ROUNDS):
        product0, product1 = words[0] * _M0, words[2] * _M1
        words = [
            (product1 >> np.uint64(32)) ^ words[1] ^ np.uint64(key0),
            product1 & _LOW,
            (product0 >> np.uint64(32)) ^ words[3] ^ np.uint64(key1),
            product0 & _LOW,
        ]
        key0, key1 = (key0 + _W0) & 0xFFFFFFFF, (key1 + _W1) & 0xFFFFFFFF
    return words


def philox(index, seed, ordinal, step):
    """The 32 bits of each linear index (an array of unsigned integers), as uint64."""
    index = np.asarray(index, dtype=np.uint64)
    block = index >> np.uint64(2)
    counter = [block & _LOW, block >> np.uint64(32)]
    counter += [
        np.full(index.shape, value & 0xFFFFFFFF, dtype=np.uint64) for value in (ordinal, step)
    ]
    words = philox_words(counter, (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF))
    return np.choose((index & np.uint64(3)).astype(np.int64), words)


def bits(shape, seed, ordinal, step):
    """The bits of every element of a tensor of `shape`, as int64."""
    count = math.prod(shape)
    drawn = philox(np.arange(count, dtype=np.uint64), seed, ordinal, step)
    return torch.from_numpy(drawn.astype(np.int64)).reshape(tuple(shape))


def keep_threshold(probability):
    """An element is kept if its bits are below this."""
    return math.floor(float(probability) * 2.0**32)


def uniform(shape, dtype, seed, ordinal, step):
    digits = MANTISSA_BITS[dtype]
    return (bits(shape, seed, ordinal, step) // 2 ** (32 - digits)).to(dtype) * 2.0**-digits


def normal(shape, dtype, seed, ordinal, step):
    """Box and Muller's method, in double precision."""
    even = 2 * np.arange(math.prod(shape), dtype=np.uint64)
    first = torch.from_numpy(philox(even, seed, ordinal, step).astype(np.float64))
    second = torch.from_numpy(philox(even + np.uint64(1), seed, ordinal, step).astype(np.float64))
    radius = torch.sqrt(torch.log((first + 1.0) * 2.0**-32) * -2.0)
    return (radius * torch.cos(second * (2 * math.pi * 2.0**-32))).reshape(tuple(shape)).to(dtype)


def bernoulli(shape, probability, seed, ordinal, step):
    """Booleans; `probability` is a number or a tensor of that shape."""
    drawn = bits(shape, seed, ordinal, step)
    if isinstance(probability, torch.Tensor):
        return drawn < torch.floor(probability.to(torch.float64) * 2.0**32).to(torch.int64)
    return drawn < keep_threshold(probability)


def exponential(shape, seed, ordinal, step):
    """With rate 1, in double precision."""
    return -torch.log((bits(shape, seed, ordinal, step).to(torch.float64) + 1.0) * 2.0**-32)


def cauchy(shape, median, sigma, seed, ordinal, step):
    """In double precision; always finite."""
    places = (bits(shape, seed, ordinal, step).to(torch.float64) + 0.5) * 2.0**-32
    return median + sigma * torch.tan(math.pi * (places - 0.5))


def geometric(shape, p, seed, ordinal, step):
    """In how many tries something of probability p comes, in double precision."""
    rate = -math.log1p(-p) if p < 1 else math.inf
    return torch.ceil(exponential(shape, seed, ordinal, step) / rate).clamp(min=1)


def integers(low, high, shape, seed, ordinal, step):
    """From `low` on below `high`, at most 2^31 of them."""
    return low + bits(shape, seed, ordinal, step) * (high - low) // 2**32


def multinomial(weights, count, replacement, seed, ordinal, step):
    key = seed, ordinal, step
    weights = weights.to(torch.float64)
    if not replacement or count == 1:
        ratio = weights / exponential(weights.shape, *key)
        return ratio.sort(dim=-1, descending=True, stable=True).indices[..., :count]
    sums = weights.cumsum(-1)
    drawn = uniform((*weights.shape[:-1], count), torch.float64, *key) * sums[..., -1:]
    places = (sums[..., None, :] <= drawn[..., None]).sum(-1)
    used = torch.where(weights > 0, torch.arange(weights.shape[-1]), -1)
    return torch.minimum(places, used.amax(-1, keepdim=True))


def is_defined(operator):
    """Whether a random ATen operator draws from this definition."""
    name = operator._overloadpacket.__name__
    # `normal` and `uniform` exist as in-place operators; the others take tensors of parameters.
    return hasattr(replay, "_draw_" + name.rstrip("_")) and name not in ("normal", "uniform")


def starts_parameter(operator, args):
    """Whether a draw is the first value of a parameter that a model makes while it runs: no part of the step, as a layer that is made
    in the first step only would draw there only.
    """
    return operator._schema.is_mutable and isinstance(args[0], torch.nn.Parameter)


def _has_no_dropout(operator, args, kwargs):
    """An attention kernel of PyTorch's has the tag of a random operator, and draws nothing without dropout."""
    names = [argument.name for argument in operator._schema.arguments[1:]]
    values = _positional(args, kwargs, names, [0.0] * len(names))
    return "dropout_p" in names and values[names.index("dropout_p")] == 0


class _NewParameters:
    """Within it, notes which parameters are made: a model may also draw new values for one that it had."""

    def __init__(self):
        self._made = {}  # {id: weak reference}

    def __contains__(self, tensor):
        made = self._made.get(id(tensor))
        return made is not None and made() is tensor

    def __enter__(self):
        make = torch.nn.Parameter.__new__

        def noting(kind, *arguments, **options):
            parameter = make(kind, *arguments, **options)
            self._made[id(parameter)] = weakref.ref(parameter)
            return parameter

        self._patch = mock.patch.object(torch.nn.Parameter, "__new__", noting)
        self._patch.start()

    def __exit__(self, *_):
        self._patch.stop()


def _positional(arguments, keywords, names, defaults):
    """Values of the named arguments that follow the first one."""
    given = dict(zip(names, arguments[1:], strict=False))
    return [
        given.get(name, keywords.get(name, default))
        for name, default in zip(names, defaults, strict=False)
    ]


class replay(TorchDispatchMode):  # noqa: N801 - used as a context, as torch.no_grad is
    """Runs eager PyTorch with the random numbers of a captured step, forward and backward.

    Replaces the random ATen calls, in call order, by draws for `seed` and `step`; a part of the model
    that is run again by `torch.utils.checkpoint` gets the same ones again. If `calls` is given
    (`StepModule.random_calls`), every call's shape, and at the end their number, must be as
    captured, otherwise it raises `ReplayError`; and numbers have the digits of the captured type,
    also where the model runs in a finer one.
    """

    def __init__(self, seed, step, calls=None):
        super().__init__()
        self.seed, self.step, self.calls = int(seed), int(step), calls
        self.draws = Draws(calls or (), fixed=calls is not None)
        self._new = _NewParameters()

    def __enter__(self):
        self._context = contextlib.ExitStack()
        self._context.enter_context(self.draws.as_generator())
        self._context.enter_context(self._new)
        return super().__enter__()

    def __exit__(self, kind, error, traceback):
        super().__exit__(kind, error, traceback)
        self._context.close()
        if error is None and self.calls is not None and self.draws.next != len(self.calls):
            raise ReplayError(
                f"eager drew {self.draws.next} random tensors, expected {len(self.calls)} as captured"
            )

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        starts = starts_parameter(operator, args) and args[0] in self._new
        if not is_random(operator) or starts or _has_no_dropout(operator, args, kwargs or {}):
            return operator(*args, **(kwargs or {}))
        name = operator._overloadpacket.__name__
        draw = getattr(self, "_draw_" + name.rstrip("_"), None)
        if draw is None:
            raise ReplayError(f"random operator {operator} cannot be replayed")
        result = draw(operator, args, kwargs or {}, in_place=name.endswith("_"))
        try:
            self.draws.draw(name.rstrip("_"), result[0] if isinstance(result, tuple) else result)
        except DrawError as error:
            raise ReplayError(f"eager's {error}") from error
        return result

    @property
    def _key(self):
        return self.seed, self.draws.next, self.step

    def _digits(self, dtype):
        """The element type whose digits the next draw has."""
        if not self.calls or self.draws.next >= len(self.calls):
            return dtype
        captured = self.calls[self.draws.next].dtype
        return captured if captured.is_floating_point else dtype

    def _uniform(self, shape, dtype):
        return uniform(shape, self._digits(dtype), *self._key).to(dtype)

    def _normal(self, shape, dtype):
        return normal(shape, self._digits(dtype), *self._key).to(dtype)

    def _finish(self, tensor, drawn, in_place):
        return tensor.copy_(drawn) if in_place else drawn.to(tensor.dtype)

    def _draw_bernoulli(self, operator, args, kwargs, in_place):
        tensor = args[0]
        (p,) = _positional(args, kwargs, ["p"], [0.5 if in_place else None])
        p = tensor if p is None else p
        if isinstance(p, torch.Tensor):
            p = p.to(self._digits(p.dtype))
        return self._finish(tensor, bernoulli(tensor.shape, p, *self._key), in_place)

    def _draw_native_dropout(self, operator, args, kwargs, in_place):
        x, (p, train) = args[0], _positional(args, kwargs, ["p", "train"], [0.5, True])
        if train is False:
            return operator(*args, **kwargs)
        kept = bernoulli(x.shape, 1 - p, *self._key)
        return x * kept.to(x.dtype) * (1 / (1 - p) if p < 1 else 0.0), kept

    def _draw_uniform(self, operator, args, kwargs, in_place):
        low, high = _positional(args, kwargs, ["from", "to"], [0.0, 1.0])
        drawn = self._uniform(args[0].shape, args[0].dtype)
        return self._finish(args[0], drawn * (high - low) + low, in_place)

    def _draw_normal(self, operator, args, kwargs, in_place):
        if not in_place:
            return self._draw_normal_of(*args, **kwargs)
        mean, std = _positional(args, kwargs, ["mean", "std"], [0.0, 1.0])
        return self._finish(
            args[0], self._normal(args[0].shape, args[0].dtype) * std + mean, in_place
        )

    def _draw_normal_of(self, mean, std=1.0, size=None, *, dtype=None, **_):
        tensors = [v for v in (mean, std) if isinstance(v, torch.Tensor)]
        if tensors:
            size, dtype = torch.broadcast_shapes(*(t.shape for t in tensors)), tensors[0].dtype
        dtype = dtype or torch.get_default_dtype()
        return self._normal(size, dtype) * std + mean

    def _draw_rand(self, operator, args, kwargs, in_place):
        return self._uniform(args[0], kwargs.get("dtype") or torch.get_default_dtype())

    def _draw_randn(self, operator, args, kwargs, in_place):
        return self._normal(args[0], kwargs.get("dtype") or torch.get_default_dtype())

    def _draw_exponential(self, operator, args, kwargs, in_place):
        (rate,) = _positional(args, kwargs, ["lambd"], [1.0])
        return self._finish(args[0], exponential(args[0].shape, *self._key) / rate, in_place)

    def _draw_cauchy(self, operator, args, kwargs, in_place):
        median, sigma = _positional(args, kwargs, ["median", "sigma"], [0.0, 1.0])
        return self._finish(args[0], cauchy(args[0].shape, median, sigma, *self._key), in_place)

    def _draw_geometric(self, operator, args, kwargs, in_place):
        (p,) = _positional(args, kwargs, ["p"], [None])
        return self._finish(args[0], geometric(args[0].shape, p, *self._key), in_place)

    def _draw_log_normal(self, operator, args, kwargs, in_place):
        mean, std = _positional(args, kwargs, ["mean", "std"], [1.0, 2.0])
        drawn = normal(args[0].shape, torch.float64, *self._key)
        return self._finish(args[0], torch.exp(drawn * std + mean), in_place)

    def _draw_randint(self, operator, args, kwargs, in_place):
        *bounds, shape = args
        low, high = [0] * (2 - len(bounds)) + bounds
        drawn = integers(low, high, shape, *self._key)
        return drawn.to(kwargs.get("dtype") or torch.int64)

    def _draw_randint_like(self, operator, args, kwargs, in_place):
        x, *bounds = args
        low, high = [0] * (2 - len(bounds)) + bounds
        return integers(low, high, x.shape, *self._key).to(kwargs.get("dtype") or x.dtype)

    def _draw_random(self, operator, args, kwargs, in_place):
        x, *bounds = args
        if not bounds or bounds[-1] is None:
            raise ReplayError(f"random operator {operator} cannot be replayed without bounds")
        low, high = [0] * (2 - len(bounds)) + bounds
        return self._finish(x, integers(low, high, x.shape, *self._key), in_place)

    def _draw_randperm(self, operator, args, kwargs, in_place):
        order = bits((args[0],), *self._key).sort(stable=True).indices
        return order.to(kwargs.get("dtype") or torch.int64)

    def _draw_multinomial(self, operator, args, kwargs, in_place):
        (replacement,) = _positional(args[1:], kwargs, ["replacement"], [False])
        return multinomial(args[0], args[1], replacement, *self._key)

    def _draw_rrelu_with_noise(self, operator, args, kwargs, in_place):
        names, defaults = ["lower", "upper", "training"], [1 / 8, 1 / 3, False]
        lower, upper, training = _positional(args[1:], kwargs, names, defaults)
        if not training:
            return operator(*args, **kwargs)
        x, noise = args[:2]
        drawn = self._uniform(x.shape, x.dtype) * (upper - lower) + lower
        noise.copy_(torch.where(x <= 0, drawn, 1.0))
        return x.copy_(x * noise) if in_place else x * noise

    def _draw_rand_like(self, operator, args, kwargs, in_place):
        return self._uniform(args[0].shape, kwargs.get("dtype") or args[0].dtype)

    def _draw_randn_like(self, operator, args, kwargs, in_place):
        return self._normal(args[0].shape, kwargs.get("dtype") or args[0].dtype)
