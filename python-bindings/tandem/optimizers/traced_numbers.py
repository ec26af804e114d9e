"""Numbers of an optimizer that are values of the step: rates, counts, results of `item()`.

In eager they are Python numbers. During the trace of the optimizer's step, each is a `Number`: a float64 of the step
that Python uses like a float. A comparison is a `Number` too; if Python asks for its truth, `paths.py` decides. Bounds
hold for every value: a count is not negative, for example.
"""

import builtins
import contextlib
import math
import operator
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from ..errors import CaptureError
from ..formulas import lists
from ..tracing.locations import current_location

EVERY = (-math.inf, math.inf)
SMALLEST = 5e-324  # of the positive numbers
_HALF = (torch.float16, torch.bfloat16)


class Number(torch.Tensor):
    """A rank-0 value of the step, `tensor`, in place of a Python number or truth. `key` says how it is computed, `bounds`
    between which numbers it lies. `host(values)` computes it in Python where it follows from the optimizer's hyperparameters
    alone, {name: number}, else it is None. Functions of PyTorch that take a number take it; what no rule computes is an error.
    """

    @staticmethod
    def __new__(cls, tensor, key, bounds=EVERY, host=None):
        made = torch.Tensor._make_wrapper_subclass(cls, (), dtype=tensor.dtype)
        made.tensor, made.key, made.bounds, made.host = tensor, key, bounds, host
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise _unknown(f"{function} needs")

    @property
    def __class__(self):
        """For `isinstance(lr, float)`."""
        return float

    def __bool__(self):
        return TensorsAsNumbers.current.truth(self)

    def __float__(self):
        raise _unknown("float() needs")

    def __int__(self):
        raise _unknown("int() needs")

    __index__ = __int__

    def __repr__(self):
        return "<a number of the step>"

    def __format__(self, _):
        return repr(self)

    __hash__ = object.__hash__

    def item(self):
        return self


def _unknown(what):
    return CaptureError(
        f"{current_location()}: {what} a number that each step has anew, such as a rate or a count, while the optimizer's step is"
        " captured, expected arithmetic, comparisons, min, max or functions of math and torch"
    )


def _tensor(x):
    """For arithmetic: of a truth the number 0 or 1, as Python has it."""
    if not isinstance(x, Number):
        return x
    return x.tensor.to(torch.float64) if x.tensor.dtype == torch.bool else x.tensor


def _key(x):
    return x.key if isinstance(x, Number) else repr(x)


def _bounds(x):
    if not isinstance(x, Number):
        return (float(x), float(x))
    return (0.0, 1.0) if x.tensor.dtype == torch.bool else x.bounds


def _host(function, *operands):
    """Of what a function of Python makes of the operands."""
    hosts = [x.host if isinstance(x, Number) else lambda _, x=x: x for x in operands]
    return None if None in hosts else lambda values: function(*(host(values) for host in hosts))


def _corners(function, a, b):
    """The bounds of what is monotonic in both operands."""
    try:
        values = [function(x, y) for x in a for y in b]
    except (ArithmeticError, ValueError):
        return EVERY
    if any(isinstance(v, complex) or math.isnan(v) for v in values):
        return EVERY
    return min(values), max(values)


def _bounds_of(name, a, b):
    if name == "pow" and a[0] < 0 or name in ("floordiv", "mod"):
        return EVERY
    return _corners(getattr(operator, name), a, b)


def _compute(name, a, b):
    """A Number; with a tensor beside it, a tensor. Numbers keep to their meaning in Python: a division by zero is an error."""
    others = [x for x in (a, b) if isinstance(x, torch.Tensor) and not isinstance(x, Number)]
    if others:
        a, b = (as_operand(x, others) for x in (a, b))
        return getattr(operator, name)(a, b)
    if not all(isinstance(x, (Number, int, float)) for x in (a, b)):
        return NotImplemented
    if name in ("truediv", "floordiv", "mod"):
        _divides(b)
    value = getattr(operator, name)(_tensor(a), _tensor(b))
    bounds = _bounds_of(name, _bounds(a), _bounds(b))
    return Number(value, (name, _key(a), _key(b)), bounds, _host(getattr(operator, name), a, b))


def _divides(x):
    """ZeroDivisionError where Python has one."""
    low, high = _bounds(x)
    if not isinstance(x, Number) and x == 0:
        raise ZeroDivisionError("float division by zero")
    if isinstance(x, Number) and low <= 0 <= high:
        error = ZeroDivisionError("float division by zero")
        TensorsAsNumbers.current.paths.expect(_compare("ne", x, 0), error)


def _compare(name, a, b):
    others = [x for x in (a, b) if isinstance(x, torch.Tensor) and not isinstance(x, Number)]
    if others:
        return getattr(operator, name)(*(as_operand(x, others) for x in (a, b)))
    if not all(isinstance(x, (Number, int, float)) for x in (a, b)):
        return NotImplemented
    known = _known(name, a, b)
    if known is not None:
        return known
    function = getattr(operator, name)
    value = function(_tensor(a), _tensor(b))
    return Number(value, (name, _key(a), _key(b)), host=_host(function, a, b))


def _known(name, a, b):
    """What a comparison gives for all values between the bounds; None where that depends."""
    if name in ("ge", "gt"):
        return _known({"ge": "le", "gt": "lt"}[name], b, a)
    if name == "ne":
        known = _known("eq", a, b)
        return None if known is None else not known
    (a_low, a_high), (b_low, b_high) = _bounds(a), _bounds(b)
    if name == "eq":
        if a_high < b_low or b_high < a_low:
            return False
        return True if a is b or _key(a) == _key(b) else None
    before = operator.lt if name == "lt" else operator.le
    if before(a_high, b_low):
        return True
    return None if before(a_low, b_high) else False


def _add_operators():
    def forward(name, function):
        return lambda self, other: function(name, self, other)

    def backward(name, function):
        return lambda self, other: function(name, other, self)

    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
        setattr(Number, f"__{name}__", forward(name, _compute))
        setattr(Number, f"__r{name}__", backward(name, _compute))
        # What Python has in a name stays a number: nothing is written to.
        setattr(Number, f"__i{name}__", forward(name, _compute))
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Number, f"__{name}__", forward(name, _compare))


_add_operators()


def _negative(x):
    low, high = _bounds(x)
    return Number(-_tensor(x), ("neg", x.key), (-high, -low), _host(operator.neg, x))


def _magnitude(x):
    low, high = _bounds(x)
    least = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    bounds = (least, max(abs(low), abs(high)))
    return Number(_tensor(x).abs(), ("abs", x.key), bounds, _host(abs, x))


Number.__neg__, Number.__abs__, Number.__pos__ = _negative, _magnitude, lambda x: x


def as_operand(x, others):
    """A Number as PyTorch takes a Python number beside tensors: the result has their type."""
    if not isinstance(x, Number):
        return x
    widest = others[0].dtype
    for other in others[1:]:
        widest = torch.promote_types(widest, other.dtype)
    if x.tensor.dtype == torch.bool:
        return x.tensor
    if not widest.is_floating_point and not widest.is_complex:
        widest = torch.get_default_dtype()
    if widest in _HALF and any(other.dim() for other in others):
        return x.tensor.to(torch.float32)
    return x.tensor.to(widest)


# ---- Functions of Python


def _chosen(name, first, second):
    """What `min` or `max` gives of two: the first one, unless the second is less or greater."""
    if second is first:
        return first
    better = _compare("lt" if name == "min" else "gt", second, first)
    if isinstance(better, bool):
        return second if better else first
    x, y = (as_float64(v) for v in (first, second))
    condition = better.tensor if isinstance(better, Number) else better
    (a, b), (c, d) = _bounds_or_every(first), _bounds_or_every(second)
    choose = min if name == "min" else max
    value = torch.where(condition, y, x)
    plain = [v for v in (first, second) if _is_tensor(v)]
    if plain:
        return value.to(plain[0].dtype)
    key, host = (name, _key(first), _key(second)), _host(choose, first, second)
    return Number(value, key, (choose(a, c), choose(b, d)), host)


def _is_tensor(x):
    return isinstance(x, torch.Tensor) and not isinstance(x, Number)


def _bounds_or_every(x):
    return EVERY if _is_tensor(x) else _bounds(x)


def as_float64(x):
    """A rank-0 tensor of a Number, a Python number or a tensor."""
    if isinstance(x, torch.Tensor):
        return _tensor(x).to(torch.float64).reshape(())
    return torch.tensor(float(x), dtype=torch.float64)


def _choosing(name, original):
    def choose(*args, **kwargs):
        values = list(args[0]) if len(args) == 1 and not isinstance(args[0], torch.Tensor) else args
        traced = [v for v in values if isinstance(v, torch.Tensor)]
        if kwargs or not traced or any(t.dim() for t in traced):
            return original(*([values] if len(args) == 1 else values), **kwargs)
        found = values[0]
        for value in values[1:]:
            found = _chosen(name, found, value)
        return found

    return choose


# Functions of math that are those of torch, with the bounds of what they give, and of what they take where others are an error.
_POSITIVE = (SMALLEST, math.inf)
_MATH = {
    "sqrt": (torch.sqrt, (0.0, math.inf)), "exp": (torch.exp, EVERY), "log": (torch.log, _POSITIVE),
    "log2": (torch.log2, _POSITIVE), "log10": (torch.log10, _POSITIVE), "log1p": (torch.log1p, EVERY),
    "expm1": (torch.expm1, EVERY), "sin": (torch.sin, EVERY), "cos": (torch.cos, EVERY), "tan": (torch.tan, EVERY),
    "tanh": (torch.tanh, EVERY), "atan": (torch.atan, EVERY), "floor": (torch.floor, EVERY),
    "ceil": (torch.ceil, EVERY), "fabs": (torch.abs, EVERY), "isnan": (torch.isnan, EVERY),
    "isinf": (torch.isinf, EVERY), "isfinite": (torch.isfinite, EVERY),
}  # fmt: skip


def _math_function(name, original):
    def function(*args):
        if not any(isinstance(x, torch.Tensor) for x in args):
            return original(*args)
        if name == "pow":
            return _compute("pow", *map(_as_number, args))
        return _of_one(name, *map(_as_number, args))

    return function


def _as_number(x):
    if _is_tensor(x):
        return TensorsAsNumbers.current.number_of(x)
    return x


def _of_one(name, x):
    function, domain = _MATH[name]
    low, high = _bounds(x)
    if low < domain[0]:
        condition = _compare("ge", x, domain[0])
        if condition is False:
            raise ValueError("math domain error")
        TensorsAsNumbers.current.paths.expect(condition, ValueError("math domain error"))
    known = (math.sqrt(max(low, 0.0)), math.sqrt(max(high, 0.0))) if name == "sqrt" else EVERY
    known = (0.0, math.inf) if name == "exp" else known
    return Number(function(_tensor(x)), (name, x.key), known, _host(getattr(math, name), x))


@contextlib.contextmanager
def functions_of_numbers(function):
    """Within it `min`, `max` and functions of math take Numbers, also those that the module of `function` has by name."""
    own = {getattr(math, n): _math_function(n, getattr(math, n)) for n in (*_MATH, "pow")} | {
        getattr(builtins, n): _choosing(n, getattr(builtins, n)) for n in ("min", "max")
    }
    names = function.__globals__
    imported = {k: own[v] for k, v in names.items() if callable(v) and _hashes(v) and v in own}
    with contextlib.ExitStack() as stack:
        for original, made in own.items():
            home = builtins if original.__module__ == "builtins" else math
            stack.enter_context(mock.patch.object(home, original.__name__, made))
        stack.enter_context(mock.patch.dict(names, imported))
        yield


def _hashes(value):
    return type(value).__hash__ is not None


# ---- Functions of PyTorch


class TensorsAsNumbers(TorchFunctionMode):
    """Takes Numbers where PyTorch takes numbers, and makes them of what `item` gives. `paths` decide truths."""

    current = None

    def __init__(self, paths):
        super().__init__()
        self.paths, self._count = paths, 0
        # `value_of(tensor)` is the truth of what follows from the parameters that there are, else None.
        self.value_of = None

    def __enter__(self):
        TensorsAsNumbers.current = self
        return super().__enter__()

    def __exit__(self, *error):
        TensorsAsNumbers.current = None
        return super().__exit__(*error)

    def number_of(self, tensor):
        """What `tensor.item()` gives."""
        self._count += 1
        key = ("item", self._count)
        if tensor.dtype == torch.bool:
            return Number(tensor.reshape(()), key)
        return Number(tensor.to(torch.float64).reshape(()), key)

    def truth(self, number):
        if number.tensor.dtype == torch.bool:
            return self.paths.decide(number)
        condition = _compare("ne", number, 0)
        return condition if isinstance(condition, bool) else self.paths.decide(condition)

    def _truth_of_tensor(self, tensor):
        condition = (tensor if tensor.dtype == torch.bool else tensor != 0).reshape(())
        known = self.value_of(condition) if self.value_of is not None else None
        if known is None:
            return self.truth(self.number_of(condition))
        message = (
            f"{current_location()}: a value of the parameters that the optimizer looks at in its first step was {known} when"
            f" the step was captured and is {not known} now, expected {known}"
        )
        self.paths.check(condition if known else condition.logical_not(), message)
        return known

    def __torch_function__(self, function, types, args=(), kwargs=None):
        return self.call(function, args, dict(kwargs or {}))

    def call(self, function, args, kwargs):
        name = getattr(function, "__name__", "")
        if name == "__get__" or not args:
            return function(*args, **kwargs)
        if name == "item":
            return args[0] if isinstance(args[0], Number) else self.number_of(args[0])
        if name == "__bool__" and args[0].numel() == 1:
            return self._truth_of_tensor(args[0])
        if name in ("__float__", "__int__", "__index__"):
            raise _unknown(f"{name.strip('_')}() needs")
        if name.startswith(lists.PREFIX):
            return lists.each(name.removeprefix(lists.PREFIX), args, kwargs, self.call)
        leaves = [*_leaves(args), *_leaves(kwargs.values())]
        numbers = [x for x in leaves if isinstance(x, Number)]
        if not numbers and not any(
            isinstance(kwargs.get(w), torch.Tensor) for w in ("alpha", "value")
        ):
            return function(*args, **kwargs)
        others = [x for x in leaves if _is_tensor(x)]
        if not others:
            return self._of_numbers(function, name, args, kwargs)
        return self._beside(function, name, args, kwargs, others)

    def _beside(self, function, name, args, kwargs, others):
        """Of tensors and Numbers."""
        for word in ("alpha", "value"):
            if isinstance(kwargs.get(word), torch.Tensor):
                factor = as_operand(kwargs.pop(word), others)
                return _scaled(function, name, args, kwargs, factor)
        args, kwargs = (
            _replaced(args, others),
            {k: _replaced([v], others)[0] for k, v in kwargs.items()},
        )
        if name.rstrip("_") == "lerp":
            x, end, weight = _bound(("self", "end", "weight"), args, kwargs)
            return _put(name, x, (end - x) * weight)
        if name.rstrip("_") == "full_like":
            x, fill = _bound(("self", "fill_value"), args, kwargs)
            return torch.zeros_like(x, **kwargs) + fill
        return function(*args, **kwargs)

    def _of_numbers(self, function, name, args, kwargs):
        if name in ("tensor", "as_tensor", "scalar_tensor"):
            dtype = kwargs.pop("dtype", None) or torch.get_default_dtype()
            return args[0].tensor.to(dtype)
        if name == "full":
            size, fill = _bound(("size", "fill_value"), args, kwargs)
            dtype = kwargs.get("dtype") or torch.get_default_dtype()
            return torch.zeros(size, **kwargs) + fill.tensor.to(dtype)
        keys = repr([_key(x) for x in args]), repr(sorted(kwargs.items(), key=str))
        result = function(*_tensors(args), **{k: _tensors([v])[0] for k, v in kwargs.items()})
        whole = isinstance(result, torch.Tensor) and not result.dim()
        if whole and result.dtype in (torch.float64, torch.bool):
            return Number(result, (name, *keys))
        return result


def _leaves(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _leaves(value)
        else:
            yield value


def _replaced(values, others):
    return type(values)(
        _replaced(v, others) if isinstance(v, (list, tuple)) else as_operand(v, others)
        for v in values
    )


def _tensors(values):
    return type(values)(_tensors(v) if isinstance(v, (list, tuple)) else _tensor(v) for v in values)


def _bound(names, args, kwargs):
    """Arguments by name or by place."""
    return (*args, *(kwargs.pop(name) for name in names[len(args) :]))


def _scaled(function, name, args, kwargs, factor):
    kind = name.rstrip("_")
    if kind in ("add", "sub"):
        x, other = _bound(("self", "other"), args, kwargs)
        term = other * factor
        return _put(name, x, term if kind == "add" else -term)
    if kind in ("addcdiv", "addcmul"):
        x, first, second = _bound(("self", "tensor1", "tensor2"), args, kwargs)
        term = first / second if kind == "addcdiv" else first * second
        return _put(name, x, term * factor)
    raise _unknown(f"{name} needs, as a keyword,")


def _put(name, x, term):
    return x.add_(term) if name.endswith("_") else x + term
