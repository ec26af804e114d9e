"""Values that Python reads during capture: `assert (labels < vocabulary).all()`, `if mask.any():`.

The read is evaluated on the example batch and the model's values, and capture follows the result. The step is right only
on that path. So a boolean becomes a check that refuses other paths. If it follows from the batch alone, `Guard` checks
it before the step. If it depends on parameters or random numbers, it is a result of the step with the role `check`.

A number of `Tensor.item` stays a tensor, so results with it are right for every batch, and its comparisons are booleans.
If Python needs a number of its own (a shape, `int()`), it is an error. The exceptions depend on nothing, or on buffers
that no step writes; these must keep their values.
"""

import contextlib
import re

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.fx.node import map_arg
from torch.utils._python_dispatch import _disable_current_modes

from ..errors import BatchError, CaptureError
from .draws import is_random
from .locations import current_location, source_line
from .writes import operands_written

BATCH, MODEL, RANDOM = "the batch", "parameters or state", "random numbers"
_KIND_OF_ROLE = {"input": BATCH, "seed": RANDOM}
READ = torch.ops.aten._local_scalar_dense.default
EQUAL = torch.ops.aten.equal.default
_CLONE = torch.ops.aten.clone.default


def truth(x):
    """`bool(tensor)`; None for what dispatch sees as a boolean anyway."""
    if not isinstance(x, FakeTensor) or x.dtype == torch.bool or x.numel() != 1:
        return None
    return bool(x.reshape(()) != 0)


def item(x):
    """`tensor.item()`; None for what stays PyTorch's."""
    if not isinstance(x, FakeTensor) or x.dtype == torch.bool or x.numel() != 1:
        return None
    return None if x.constant is not None else x.detach().reshape(())


def tolist(x):
    """`tensor.tolist()` of a traced tensor: constants, or numbers as `item` gives them."""
    known = value_of(x)
    if known is not None:
        with _real():
            return known.tolist()
    return [tolist(part) for part in x.unbind(0)] if x.dim() else x.item()


def tensor_split(x, tensor_indices_or_sections, dim=0):
    """`x.tensor_split` by a constant tensor; None for what stays PyTorch's."""
    places = tensor_indices_or_sections
    known = constant_of(places) if isinstance(places, FakeTensor) else None
    return None if known is None else x.tensor_split(known.tolist(), dim)


def array(x, *_, **__):
    """`tensor.numpy()`, also by way of NumPy's and SciPy's functions. Constants are arrays that cannot be written to."""
    if not isinstance(x, FakeTensor):
        return None
    known = None if x.requires_grad else value_of(x)
    if known is not None:
        with _real():
            found = known.clone().numpy()
        found.flags.writeable = False
        return found
    location = current_location()
    text = source_line(location.place).strip() if location and location.place else ""
    raise CaptureError(
        f"{location}: NumPy or SciPy is given a value of the step, which has none while it is captured, expected"
        f" operators of PyTorch ({text})"
    )


@contextlib.contextmanager
def _generator_kept():
    generator = torch.default_generator
    state = torch._C.Generator.get_state(generator)
    try:
        yield
    finally:
        torch._C.Generator.set_state(generator, state)


@contextlib.contextmanager
def _real():
    """Within it operators compute, whatever is traced outside."""
    with (
        _disable_current_modes(),
        torch._C.DisableTorchFunction(),
        torch.no_grad(),
        _generator_kept(),
    ):
        yield


def storages_of(value):
    """Of the fake tensors that a node gives."""
    values = value if isinstance(value, (list, tuple)) else [value]
    tensors = [t for t in values if isinstance(t, torch.Tensor) and t.layout == torch.strided]
    return {t.untyped_storage()._cdata for t in tensors}


def constant_of(tensor):
    """The value of a traced tensor that follows from no argument, such as positions; else None."""
    if tensor.constant is not None:
        return tensor.constant
    tracer = get_proxy_mode().tracer
    trace, node = _Traced(tracer, None), get_proxy_slot(tensor, tracer).proxy.node
    nodes, _ = trace.behind(node)
    if any(n.op == "placeholder" or _is_random(n) for n in nodes):
        return None
    known = {}
    with _real():
        for n in nodes:
            known[n] = trace.compute(n, known, None)
    return known[node]


def value_of(tensor):
    """As `constant_of`; also of what follows from buffers alone, which are the same in every step from now on."""
    known = constant_of(tensor)
    return _ACTIVE[-1].of_buffers(tensor) if known is None and _ACTIVE else known


def mask_of(part):
    """Of a list or array of booleans that is an index, a real tensor; else None."""
    if not isinstance(part, (list, np.ndarray)):
        return None
    with _real(), contextlib.suppress(TypeError, ValueError, RuntimeError):
        mask = torch.as_tensor(part)
        return mask if mask.dtype == torch.bool and mask.dim() else None
    return None


def of_constants(operator, args, kwargs):
    """What an operator gives whose tensors follow from no argument, as real tensors; None where one does."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    leaves = [constant_of(x) if isinstance(x, FakeTensor) else (x,) for x in leaves]
    if any(leaf is None for leaf in leaves):
        return None
    leaves = [leaf[0] if isinstance(leaf, tuple) else leaf for leaf in leaves]
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    with _real():
        return operator(*args, **kwargs)


def places_of(mask):
    """Of a constant mask, a list of places per dimension, as real tensors."""
    with _real():
        return mask.nonzero(as_tuple=True)


def is_same(x, y):
    """Whether two traced tensors are equal by how they were computed."""
    if x is y:
        return True
    tracer = get_proxy_mode().tracer
    trace = _Traced(tracer, None)
    pairs = [tuple(get_proxy_slot(t, tracer).proxy.node for t in (x, y))]
    while pairs:
        a, b = pairs.pop()
        if trace.is_written(a) or trace.is_written(b):
            return False
        if a is b:
            continue
        inputs = a.all_input_nodes, b.all_input_nodes
        alike = a.op == b.op == "call_function" and a.target is b.target and not _is_random(a)
        if not alike or _without_nodes(a) != _without_nodes(b) or len(inputs[0]) != len(inputs[1]):
            return False
        pairs += zip(*inputs, strict=True)
    return True


def _without_nodes(node):
    """The arguments of a call, its operands by number."""
    place = {operand: i for i, operand in enumerate(node.all_input_nodes)}
    return repr(map_arg((node.args, node.kwargs), lambda operand: f"%{place[operand]}"))


def _literal(text):
    """For a message that is formatted."""
    return str(text).replace("{", "{{").replace("}", "}}")


class Guard:
    """What Python looked at in the example batch, which every batch has to agree with."""

    def __init__(self, nodes, last, trace, expected, message, shown=None):
        """`nodes` compute `last`, in order; of `shown`, (values, which of them are as expected), an error tells one that is not."""
        self._graph, made = torch.fx.Graph(), {}
        self._of, self._expected, self._message = {}, expected, message
        for node in nodes:
            made[node] = new = self._graph.node_copy(node, made.__getitem__)
            new.meta = {}
            if node in trace.argument_of:
                self._of[new] = trace.argument_of[node].name
            elif node.op == "get_attr":
                self._of[new] = getattr(trace.root, node.target)
        self._last, self._shown = made[last], shown and [made[node] for node in shown]

    def check(self, tensors):
        """BatchError unless the tensors {name: tensor} of a batch go the captured way."""
        known = {}
        with _real():
            for node in self._graph.nodes:
                known[node] = self._compute(node, known, tensors)
        if bool(known[self._last]) != self._expected:
            raise BatchError(f"batch: {self._message.format(found=self._found(known))}")

    def _found(self, known):
        if not self._shown:
            return None
        values, as_expected = (known[node] for node in self._shown)
        return values[~as_expected].reshape(-1)[0].item()

    def _compute(self, node, known, tensors):
        if node.op == "placeholder":
            return tensors[self._of[node]].clone()  # it may be written to
        if node.op == "get_attr":
            return self._of[node]
        args, kwargs = map_arg((node.args, node.kwargs), known.__getitem__)
        return node.target(*args, **kwargs)


_ACTIVE = []


def require(what, values, as_expected, expected):
    """Every step has to have `values` all of which are `as_expected`, a mask; in words: `what` is `expected`. Outside of a forward
    pass that is traced, nothing.
    """
    if _ACTIVE:
        _ACTIVE[-1].require(what, values, as_expected, expected)


class Reads:
    """The reads of one trace. `checks` are (tensor that has to be true, message) for the step, `guards` for the host: of what
    follows from the batch alone, if `on_host`.
    """

    def __init__(self, arguments, on_host):
        self._arguments, self._on_host = arguments, on_host
        self.checks, self.guards = [], []
        self._takes_parameters = False
        self._known, self._seen = {}, set()
        self._required = {}
        # {key of a buffer: where its values decide what is computed}, and these values by node.
        self.fixed, self._fixed_values = {}, {}

    @contextlib.contextmanager
    def requiring(self, mode):
        """Within it, `require` notes what is required; behind it, each is a guard or a check. `mode` knows the location."""
        self._mode = mode
        _ACTIVE.append(self)
        try:
            yield
        finally:
            _ACTIVE.pop()
        if self._required:
            self._settle(get_proxy_mode().tracer)

    def require(self, what, values, as_expected, expected):
        location = self._mode.location
        if not isinstance(as_expected, FakeTensor):
            self._check_constant(bool(as_expected.all()), location, what, expected)
            return
        tracer = get_proxy_mode().tracer
        slots = [get_proxy_slot(t, tracer, None) for t in (values, as_expected)]
        shown = [slot.proxy.node for slot in slots if slot is not None]
        # A count, unlike `all`, is a sum of those of parts of the batch.
        ok = as_expected.logical_not().sum() == 0
        self._required.setdefault((shown[0], what, expected), (ok, shown, location))

    @staticmethod
    def _check_constant(is_so, location, what, expected):
        if not is_so:
            raise CaptureError(f"{location}: {what} is out of range, expected {expected}")

    def _settle(self, tracer):
        trace, known = _Traced(tracer, self._arguments), {}
        for (_, what, expected), (ok, shown, location) in self._required.items():
            last = get_proxy_slot(ok, tracer).proxy.node
            nodes, kinds = trace.behind(last)
            if not kinds:
                with _real():
                    for node in nodes:
                        known[node] = trace.compute(node, known, None)
                self._check_constant(bool(known[last]), location, what, expected)
            elif kinds == {BATCH} and self._on_host:
                message = f"{_literal(location)}: {what} is {{found}}, expected {expected}"
                self.guards.append(Guard(nodes, last, trace, True, message, shown))
            else:
                message = f"{location}: {what} is out of range, expected {expected}"
                self.checks.append((ok.reshape(()), message))

    def read(self, tensor, tracer, location, updates):
        """What a traced tensor of one element is on the example batch. `updates`: whether the optimizer reads it."""
        if tensor.constant is not None:
            return tensor.constant.item()
        trace = _Traced(tracer, self._arguments)
        last = get_proxy_slot(tensor, tracer).proxy.node
        nodes, kinds = trace.behind(last)
        if updates and self._takes_parameters and trace.roles(nodes) <= {"parameter"}:
            return self._evaluate(trace, nodes, last)
        if kinds and (updates or tensor.dtype != torch.bool):
            known = None if updates else self.of_buffers(tensor)
            if known is None:
                raise _refused(location, updates, kinds, tensor.is_floating_point())
            return known.item()
        if kinds == {RANDOM}:
            raise CaptureError(
                f"{location}: a random number decides here what is computed, expected the same in every step: turn it"
                f" off{_option(location, last)}"
            )
        value = self._evaluate(trace, nodes, last)
        if kinds and last not in self._seen:
            self._seen.add(last)
            self._expect(value, tensor, trace, nodes, last, kinds, location)
        return value

    def of_buffers(self, tensor):
        """The value of a traced tensor that follows from buffers alone, as a real tensor, or None. A check of every step compares it."""
        tracer = get_proxy_mode().tracer
        trace, last = _Traced(tracer, self._arguments), get_proxy_slot(tensor, tracer).proxy.node
        nodes, _ = trace.behind(last)
        if last in self._fixed_values:
            return self._fixed_values[last]
        if trace.roles(nodes) != {"buffer"} or any(map(_is_random, nodes)):
            return None
        buffers = [trace.argument_of[node] for node in nodes if node in trace.argument_of]
        if any(a.dtype.is_floating_point for a in buffers) and not all(map(_moves, nodes)):
            return None  # What kernels compute differs in the last place.
        known = {}
        with _real():
            for node in nodes:
                known[node] = trace.compute(node, known, _start)
            value = known[last].clone()
        self._fix(tensor, value, [a for a in buffers if a.key not in self.fixed])
        self._fixed_values[last] = value
        return value

    def _fix(self, tensor, value, buffers):
        location = self._mode.location
        self.fixed |= {a.key: location for a in buffers}
        names = ", ".join(repr(a.name) for a in buffers)
        message = (
            f"{location}: what buffer {names} had when the step was captured decides here what is computed, and it has other"
            " values now, expected the same, or another call of tandem.compile"
        )
        self.checks.append(((tensor.detach() != value).sum() == 0, message))

    def of_parameters(self, tensor):
        """The truth of a tensor in the optimizer's step, if it follows from nothing but the parameters that there are, else None."""
        self._takes_parameters = True
        try:
            return bool(tensor)
        except CaptureError:
            return None
        finally:
            self._takes_parameters = False

    def _expect(self, value, tensor, trace, nodes, last, kinds, location):
        """From now on every step has to go this way."""
        message = (
            f"{location}: a value that Python looks at was {value} when the step was captured and is {not value} now,"
            f" expected {value}: the step has that way only"
        )
        if kinds == {BATCH} and self._on_host:
            self.guards.append(Guard(nodes, last, trace, value, _literal(message)))
        else:
            agreed = tensor if value else tensor.logical_not()
            self.checks.append((agreed.reshape(()), message))

    def _evaluate(self, trace, nodes, last):
        """The value of `last`. What nothing writes to is kept for the next read."""
        known = {n: v for n, v in self._known.items() if not trace.is_written(n)}
        wanted, pending = set(), [last, *filter(trace.is_written, nodes)]
        while pending:
            node = pending.pop()
            if node not in known and node not in wanted:
                wanted.add(node)
                pending.extend(node.all_input_nodes)
        with _real():
            for node in nodes:
                if node in wanted:
                    known[node] = trace.compute(node, known, _start)
        self._known = known
        return known[last].item()


class _Traced:
    """The graph of a trace as far as it goes."""

    def __init__(self, tracer, arguments):
        self.nodes, self.root = list(tracer.graph.nodes), tracer.root
        placeholders = [node for node in self.nodes if node.op == "placeholder"]
        self.argument_of = dict(zip(placeholders, arguments or (), strict=arguments is not None))
        self._writers = {}
        for node in self.nodes:
            for storage in written_by(node):
                self._writers.setdefault(storage, []).append(node)

    def roles(self, nodes):
        """Of the arguments among the nodes."""
        return {self.argument_of[node].role for node in nodes if node in self.argument_of}

    def is_written(self, node):
        """Whether something writes to its memory."""
        return bool(self._writers) and bool(
            storages_of(node.meta.get("val")) & self._writers.keys()
        )

    def behind(self, last):
        """(the nodes that `last` follows from, in order, kinds of what these depend on). With a tensor comes what
        writes to its memory.
        """
        found, pending, kinds = set(), [last], set()
        while pending:
            node = pending.pop()
            if node in found:
                continue
            found.add(node)
            if node in self.argument_of:
                kinds.add(_KIND_OF_ROLE.get(self.argument_of[node].role, MODEL))
            if _is_random(node):
                kinds.add(RANDOM)
            pending.extend(node.all_input_nodes)
            for storage in storages_of(node.meta.get("val")) if self._writers else ():
                pending.extend(self._writers.get(storage, ()))
        return [node for node in self.nodes if node in found], kinds

    def compute(self, node, known, start):
        """The value of a node whose operands are in `known`; `start(argument)` gives that of an argument."""
        if node in self.argument_of:
            value = start(self.argument_of[node])
            return value.clone() if self.is_written(node) else value
        if node.op == "get_attr":
            return getattr(self.root, node.target)
        args, kwargs = map_arg((node.args, node.kwargs), known.__getitem__)
        return node.target(*args, **kwargs)


def _is_operator(node):
    return isinstance(node.target, torch._ops.OpOverload)


def written_by(node):
    """The storages that a node writes to."""
    if node.op != "call_function":
        return set()
    operands = operands_written(node.target, node.args, node.kwargs)
    nodes = [operand for operand in operands if isinstance(operand, torch.fx.Node)]
    return set().union(*(storages_of(n.meta.get("val")) for n in nodes))


def _moves(node):
    """Whether it computes nothing."""
    return not _is_operator(node) or node.target is _CLONE or node.target.is_view


def _is_random(node):
    return _is_operator(node) and is_random(node.target)


def _start(argument):
    value = argument.value
    if value is None or value.is_meta:
        raise CaptureError(
            f"{argument.role} {argument.name!r} is on the meta device, and the model looks at what follows from its"
            " values, expected values"
        )
    return value


def _refused(location, updates, kinds, is_float):
    if is_float and not updates:
        return CaptureError(
            f"{location}: Python needs a number, by float() or as text, that follows from {' and '.join(sorted(kinds))}, and there"
            " is none while a step is captured; expected item(), which may be computed with, or, to print or keep it, the"
            " tensor returned with the loss"
        )
    what = "the optimizer looks at a value" if updates else "Python needs a number, such as a size,"
    return CaptureError(
        f"{location}: control flow or a shape depends on data: {what} that follows from"
        f" {' and '.join(sorted(kinds))}; expected a static graph, such as one with a fixed size and a mask,"
        " or places as a tensor: x[(start + torch.arange(n)) % size] = rows"
    )


_OPTION = re.compile(r"\b(?:self|config)\.(?:config\.)?(\w*(?:drop|prob)\w*)")


def _option(location, node):
    """The option that the line names, or the line where the number was compared: ` (layerdrop = 0)`."""
    origins = [n.meta.get("tandem") for n in (node, *node.all_input_nodes)]
    for where in (location, *(origin.location for origin in origins if origin is not None)):
        found = where.place and _OPTION.search(source_line(where.place))
        if found:
            return f" ({found[1]} = 0)"
    return ", or choose by torch.where"
