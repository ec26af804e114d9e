"""From a model, a loss, an optimizer and a batch to one FX graph of the whole training step.

The step is traced twice with fake tensors. The first trace runs the user's code, autograd and the
functional optimizer, and notes for every operator where it comes from. The second one (functional.py) makes
the graph functional and decomposes what the `nn` dialect does not have. Nothing is computed or
allocated.
"""

import contextlib
import gc
import logging
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from unittest import mock

import torch
import torch.distributions
import torch.utils._pytree as pytree
import torch.utils.checkpoint
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
)
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils._python_dispatch import TorchDispatchMode

from . import attributes, progress, tree
from .arguments import Argument, Result, buffers_of, inputs_of, parameters_of, scalar_arguments
from .attention import scores_drawn
from .builder import name_of
from .clipping import NORM, without_scaler
from .definitions import by_definition
from .draws import DrawError, Draws, RandomCall, is_random
from .errors import CaptureError, TandemError, UnsupportedOperatorError
from .functional import fake_tensors, make_functional
from .locations import current_location, location_of_traceback
from .optimizers import FunctionalOptimizer
from .origins import BACKWARD, FORWARD, UPDATE, Origin, Whereabouts, tag_new_nodes
from .precision import casting, check_parameters, refusing_others
from .python_state import (
    RandomWatch,
    changed,
    makers,
    numbers_of,
    refuse,
    refuse_left,
    set_numbers,
    tensors_of,
)
from .random import is_defined, starts_parameter
from .reads import EQUAL, READ, Reads, of_constants, storages_of, written_by
from .returned import Returned
from .updates import Updates, location_of
from .wrappers import check_wrappers, without_dynamo


@dataclass
class Trace:
    """`first` is the graph of the first trace; `make_graph()` traces it again, without views and writes in place."""

    first: torch.fx.GraphModule
    make_graph: Callable[[], torch.fx.GraphModule]
    arguments: list[Argument]
    results: list[Result]
    random_calls: list[RandomCall]
    returned: Returned
    starts: dict
    guards: list


def _check_written(operator, args, kwargs, location):
    """CaptureError for a write to a tensor that is none of the step's: eager would go on with what is there."""
    if not operator._schema.is_mutable:
        return
    given = dict(zip((a.name for a in operator._schema.arguments), args, strict=False)) | kwargs
    for argument in operator._schema.arguments:
        written = argument.alias_info is not None and argument.alias_info.is_write
        for value in pytree.tree_leaves(given.get(argument.name)) if written else ():
            if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
                raise CaptureError(
                    f"{location}: a tensor is written to that is no parameter, no buffer and none that the step makes,"
                    " expected a buffer, as module.register_buffer makes one"
                )


class _OriginMode(TorchDispatchMode):
    """Sits above the tracer and tags the nodes that each operator makes with its origin.

    The backward pass has no user frames; autograd's sequence numbers lead back to the forward
    operator.
    """

    def __init__(self, outermost, whereabouts, reads, is_watched):
        """With `is_watched` the operator is named behind which Python or NumPy draw a number."""
        super().__init__()
        self.reads, self.is_watched = reads, is_watched
        self.outermost, self.whereabouts = outermost, whereabouts
        self.phase = FORWARD
        self.location_of_sequence = {}
        self.draws = Draws()
        self.watch = RandomWatch()
        self.hooks = []

    @property
    def location(self):
        return self.whereabouts.location

    @location.setter
    def location(self, location):
        self.whereabouts.location = location

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        location = current_location(self.outermost) or self.location
        if self.phase == FORWARD:
            if self.is_watched:
                self.watch.check(location)
            self.location = location
            self.location_of_sequence.setdefault(torch.autograd._get_sequence_nr() - 1, location)
        if operator is EQUAL and args[0].shape == args[1].shape:
            operator, args = READ, [torch.eq(*args).all()]
        if operator is READ and isinstance(args[0], FakeTensor):
            updates = self.phase == UPDATE
            return self.reads.read(args[0], get_proxy_mode().tracer, location, updates)
        _check_written(operator, args, kwargs or {}, location)
        known = None
        if torch.Tag.dynamic_output_shape in operator.tags:
            known = of_constants(operator, args, kwargs or {})
        result = operator(*args, **(kwargs or {})) if known is None else known
        ordinal = self._count_random(operator, args, result, location)
        tag_new_nodes(
            get_proxy_mode().tracer.graph, Origin(self.phase, location, str(operator), ordinal)
        )
        return result

    def _count_random(self, operator, args, result, location):
        drawn, name = scores_drawn(operator, args), "bernoulli"
        if drawn is None:
            if not is_random(operator) or starts_parameter(operator, args):
                return None
            if not is_defined(operator):
                raise UnsupportedOperatorError(
                    operator, location, "its random numbers are not defined"
                )
            name = operator._overloadpacket.__name__.rstrip("_")
            drawn = pytree.tree_leaves(result)[0]
        try:
            return self.draws.draw(name, drawn)
        except DrawError as error:
            raise CaptureError(
                f"{location}: a part of the model that is run again draws other random numbers: {error}"
            ) from error

    def follow_backward(self, root):
        """Before each autograd node runs, its forward operator's line becomes the current
        location.
        """
        pending, seen = [root], set()
        while pending:
            node = pending.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            self.hooks.append(node.register_prehook(self._hook(node)))
            pending.extend(parent for parent, _ in node.next_functions)

    def _hook(self, node):
        location = self.location_of_sequence.get(node._sequence_nr())

        def before(_):
            if location is not None:
                self.location = location

        return before


def _causal_hint(mask, is_causal=None, size=None):
    """For torch.nn.Transformer, which looks into the mask for a hint that changes no result."""
    return bool(is_causal)


def _cached(self, allow_mutation):
    """For selective checkpoints, which keep every result while a step is traced: also those that an
    in-place operator, such as dropout's, has filled. As none is computed again, none is wrong.
    """
    return self.val


# Distributions check their arguments by looking at values. A data descriptor, so that one which was made
# before the capture, or asked for checks, has none either; in eager it goes on checking.
_UNCHECKED = property(lambda distribution: False, lambda distribution, value: None)


@contextlib.contextmanager
def _quiet():
    """PyTorch logs a trace of its own for an error of the model's, which is reported anyway."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _without_collector():
    """A trace makes hundreds of thousands of objects that live as long as it: looking through them for garbage again
    and again takes a tenth of its time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def _capturing():
    """The global settings under which a trace is complete and correct.

    Autograd on one thread, or operators of the backward pass escape the tracer. Attention by its
    plain formula, where it is not one operator (attention.py).
    Recurrent layers by theirs, not as one operator of oneDNN's.
    """
    with (
        torch.autograd.set_multithreading_enabled(False),
        # Tensors made in inference mode cannot be trained.
        torch.inference_mode(False),
        sdpa_kernel(SDPBackend.MATH),
        torch.enable_grad(),
        warnings.catch_warnings(),
        _quiet(),
        _without_collector(),
        # Graphs are read here, not run: nobody needs their Python code.
        _use_lazy_graph_module(True),
        mock.patch.object(torch.nn.modules.transformer, "_detect_is_causal_mask", _causal_hint),
        mock.patch.object(torch.distributions.Distribution, "_validate_args", _UNCHECKED),
        mock.patch.object(torch.utils.checkpoint._VersionWrapper, "get_val", _cached),
        refusing_others(),
        without_scaler(),
        without_dynamo(),
    ):
        warnings.simplefilter("ignore")
        with torch.backends.mkldnn.flags(enabled=False):
            yield


class _Step:
    """The training step as a function of flat lists of tensors, and the table of its arguments."""

    def __init__(self, model, loss_fn, optimizer, batch, wanted):
        self.model, self.loss_fn, self.wanted = model, loss_fn, wanted
        pairs = parameters_of(model)
        self.parameters = [argument for argument, _ in pairs]
        check_parameters(wanted.precision, self.parameters)
        self.trained = [i for i, (_, tensor) in enumerate(pairs) if tensor.requires_grad]
        self.parameter_hooks = [
            list((tensor._backward_hooks or {}).values()) for _, tensor in pairs
        ]
        named = [(a.name, tensor) for a, tensor in pairs]
        self.optimizer = FunctionalOptimizer(optimizer, named, wanted.varying, wanted.starts)
        self.numbers_read = self.optimizer.numbers()
        self.buffers = buffers_of(model)
        self.inputs, self.batch_spec, self.batch_leaves = inputs_of(batch)
        # Which parameters have gradients, thus state, is known after the trace; the lowering
        # forgets the rest.
        candidates = [i for i in self.trained if wanted.trains and i in self.optimizer.group_of]
        started = {i: self.optimizer.states(i) for i in candidates}
        self.state_names = {i: list(values) for i, values in started.items()}
        self.states = [
            self._state(i, name, value)
            for i, values in started.items()
            for name, value in values.items()
        ]
        self.scalars = scalar_arguments(self.numbers_read, 0)
        self.updated, self.updates = [], None
        self.results = []
        # Attributes that are numbers: those that a step begins with, and what the last one made of them.
        self.numbers, self.changed = {}, {}
        # The modules that the last one has left other tensors in.
        self.makers = set()
        # Tensors that a step begins with in attributes, and what the last one left there that the next would not.
        self.kept, self.left = {}, {}

    @property
    def arguments(self):
        return [*self.parameters, *self.states, *self.buffers, *self.scalars, *self.inputs]

    def _state(self, parameter, name, value):
        of = self.parameters[parameter]
        known = None if value.is_meta else value
        return Argument(
            "state", f"{name}.{of.name}", tuple(value.shape), value.dtype, known, of=of.name
        )

    def unpack(self, tensors):
        lists, position = [], 0
        rates = len(self.numbers_read)
        for count in (
            len(self.parameters),
            len(self.states),
            len(self.buffers),
            1,
            1,
            rates,
            len(self.inputs),
        ):
            lists.append(tensors[position : position + count])
            position += count
        return lists

    @contextlib.contextmanager
    def holding(self, parameters, buffers):
        """Within it the model has these tensors: for the forward pass, and for what the backward pass
        runs again (`torch.utils.checkpoint`).
        """
        named = {a.name: tensor for a, tensor in zip(self.parameters, parameters, strict=True)}
        named |= {a.name: tensor for a, tensor in zip(self.buffers, buffers, strict=True)}
        with (
            attributes.kept(self.model),
            _reparametrize_module(self.model, named, tie_weights=True),
            attributes.flat_weights(self.model),
            by_definition(),
        ):
            set_numbers(self.model, self.numbers)
            attributes.put(self.model, self.kept)
            before, tensors = numbers_of(self.model), tensors_of(self.model)
            held = attributes.held_tensors(self.model)
            yield
            self.left = self._left(held)
            self.changed = changed(before, numbers_of(self.model))
            self.makers = makers(tensors, tensors_of(self.model))

    def _left(self, held):
        """What the step leaves in attributes, where they held `held`, as far as batches, training or random numbers decide it."""
        tracer = get_proxy_mode().tracer
        names = {name for a in self.buffers for name in (a.name, *a.aliases)}
        trained = {self.parameters[i].key for i in self.trained}
        stay = {a.key for a in (*self.parameters, *self.buffers)} - trained
        places = [node for node in tracer.graph.nodes if node.op == "placeholder"]
        fixed = {n for n, a in zip(places, self.arguments, strict=False) if a.key in stay}

        def changing(node):
            if node.op == "placeholder":
                return node not in fixed
            return node.op == "call_function" and is_random(node.target)

        left = attributes.left(self.model, held, names)
        return attributes.that_change(left, tracer, changing)

    def forward(self, inputs):
        """The loss."""
        tensors = iter(inputs)
        leaves = [
            next(tensors) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.batch_leaves
        ]
        with casting(self.wanted.precision):
            returned = self.loss_fn(self.model, tree.unflatten(leaves, self.batch_spec))
        self.returned = Returned(returned)
        loss = self.returned.loss
        if self.wanted.trains and not loss.requires_grad:
            raise CaptureError("loss: does not depend on any parameter that requires a gradient")
        return loss

    def buffers_now(self):
        """Also the backward pass may change them, where it runs a normalisation again."""
        return [self.model.get_buffer(a.name) for a in self.buffers]

    def backward(self, loss, parameters):
        """{index of parameter: gradient}; parameters that the loss does not use are left out.

        By `backward` rather than `grad`, which checkpoints with `use_reentrant=True` refuse.
        """
        loss.backward()
        gradients = {i: parameters[i].grad for i in self.trained}
        for i, gradient in gradients.items():
            if gradient is not None and gradient.layout != torch.strided:
                raise CaptureError(
                    f"gradient of {self.parameters[i].name!r}: found layout {gradient.layout},"
                    f" expected torch.strided"
                )
        # Parameters without elements are no part of a step, as nothing is computed of them.
        return {i: g for i, g in gradients.items() if g is not None and g.numel()}


def _written(parameters):
    """The indices of those that the model has written to, also through `.data`, which counts no version."""
    nodes = get_proxy_mode().tracer.graph.nodes
    storages = set().union(*map(written_by, nodes))
    return [i for i, p in enumerate(parameters) if storages_of(p) & storages]


def _run_step(step, mode, tensors):
    """Runs under the tracer. Returns the results' tensors; leaves their table in `step.results`."""
    parameters, states, buffers, (count,), _, rates, inputs = step.unpack(tensors)
    with mode, mode.draws.as_generator():
        parameters = [
            p.clone().detach().requires_grad_(i in step.trained) for i, p in enumerate(parameters)
        ]
        for parameter, hooks in zip(parameters, step.parameter_hooks, strict=True):
            for hook in hooks:
                parameter.register_hook(hook)
        with step.holding(parameters, [b.clone() for b in buffers]):
            loss = step.forward(inputs)
            mode.watch.check(mode.location)
            if not step.wanted.trains:
                step.results, step.updates = [Result("loss", "loss")], Updates()
                return [loss.detach(), *_add_returned(step), *_add_checks(step, mode.reads)]
            written = _written(parameters)
            attributes.check_parameters(step.model, step.parameters, parameters)
            mode.phase = BACKWARD
            progress.tell("backward pass")
            mode.follow_backward(loss.grad_fn)
            gradients = step.backward(loss, parameters)
            buffers_after = step.buffers_now()
        mode.phase = UPDATE
        progress.tell("update")
        gradients, norm = step.wanted.clipping.apply(gradients, mode)
        updates = _run_optimizer(step, mode, parameters, gradients, states, count, rates)
        # The model itself may write to a parameter: a momentum encoder, a clipped weight.
        written = {step.parameters[i].key: parameters[i].detach() for i in written}
        tensors = _collect(
            step, loss.detach(), written | updates, buffers_after, count, gradients, norm
        )
        return tensors + _add_checks(step, mode.reads) + step.updates.extra_results()


def _run_optimizer(step, mode, parameters, gradients, states, count, rates):
    """{argument key: new tensor} of parameters and state; where an update is a copy, see `Updates`."""
    optimizer = step.optimizer
    step.updated = [i for i in gradients if i in optimizer.group_of]
    optimizer.settle(step.updated)
    step.updates = Updates()
    state_of = {a.key: tensor for a, tensor in zip(step.states, states, strict=True)}
    if optimizer.is_joint:
        return _update_jointly(step, mode, parameters, gradients, state_of, count, iter(rates))
    rates = iter(rates)
    options = {g.index: g.with_numbers(optimizer.varying, rates) for g in optimizer.groups}
    scalars, new = {}, {}
    with torch.no_grad():
        for i in step.updated:
            name, group = step.parameters[i].name, optimizer.group_of[i]
            mode.location = location_of(group.index)
            start = optimizer.start(i)
            kind = group.index, start
            if kind not in scalars:
                own = count - start if start else count
                scalars[kind] = optimizer.scalars(options[group.index], own)
            mode.location = location_of(name)
            names = step.state_names[i]
            keys = [f"parameter/{name}", *(f"state/{s}.{name}" for s in names)]
            operands = [parameters[i], gradients[i], *(state_of[key] for key in keys[1:])]

            def update(i=i, kind=kind, names=names, operands=operands):
                state = dict(zip(names, operands[2:], strict=True))
                value, state = optimizer.update(i, *operands[:2], state, scalars[kind])
                return [value, *(state[s] for s in names)]

            new |= step.updates.run(name, keys, operands, kind, update)
    return new


def _update_jointly(step, mode, parameters, gradients, state_of, count, rates):
    """{argument key: new tensor} by an optimizer of which is not known that it updates each parameter alone."""
    optimizer, names = step.optimizer, [a.name for a in step.parameters]
    mode.location = location_of(type(optimizer.optimizer).__qualname__)
    values = {i: parameters[i].detach() for i in step.trained if i in optimizer.group_of}
    states = {
        i: {s: state_of[f"state/{s}.{names[i]}"] for s in step.state_names[i]} for i in step.updated
    }
    gradients = {i: gradients[i] for i in step.updated}
    values, states = optimizer.update_jointly(values, gradients, states, count, rates)
    new = {f"parameter/{names[i]}": value for i, value in values.items()}
    for i, own in states.items():
        new |= {f"state/{s}.{names[i]}": value for s, value in own.items()}
    return new


def _collect(step, loss, updates, buffers_after, count, gradients, norm):
    new = updates | {a.key: tensor for a, tensor in zip(step.buffers, buffers_after, strict=True)}
    new["step/step"] = count + 1
    step.results, tensors = [Result("loss", "loss")], [loss]
    for index, argument in enumerate(step.arguments):
        if argument.key in new:
            step.results.append(Result(argument.role, argument.name, index))
            tensors.append(new[argument.key])
    if step.wanted.gradients:
        for i, gradient in gradients.items():
            step.results.append(Result("gradient", step.parameters[i].name))
            tensors.append(gradient.detach())
    if norm is not None:
        step.results.append(Result("output", NORM))
        tensors.append(norm)
    return tensors + _add_returned(step)


def _add_returned(step):
    """Makes results of what is returned with the loss."""
    step.results += [Result("output", name) for name in step.returned.tensors]
    return list(step.returned.tensors.values())


def _add_checks(step, reads):
    """Makes results of what has to be true: of each line the first one has its text as name, the others a number as well."""
    counts = Counter()
    for _, message in reads.checks:
        counts[message] += 1
        number = f" ({counts[message]})" if counts[message] > 1 else ""
        step.results.append(Result("check", message + number))
    return [tensor for tensor, _ in reads.checks]


def _trace_eager(step, whereabouts, is_watched=False):
    """The first trace, the random calls that it saw, and what it looked at in the batch."""

    def run(*tensors):
        return _run_step(step, mode, tensors)

    reads = Reads(step.arguments, step.wanted.guards_batches)
    mode = _OriginMode(run, whereabouts, reads, is_watched)
    graph = make_fx(run, tracing_mode="fake", _allow_non_fake_inputs=True)(
        *fake_tensors(step.arguments)
    )
    for hook in mode.hooks:
        hook.remove()
    places = {
        step.arguments[result.updates].key: place
        for place, result in enumerate(step.results)
        if result.updates is not None
    }
    step.updates.copy(graph.graph, places)
    return graph, mode.draws.calls, mode.reads.guards


def _trace_watching(step, whereabouts):
    """The first trace. One in which Python or NumPy have drawn a number is made again to name the operator: looking at
    their generators takes as long as tracing a small operator does.
    """
    watch = RandomWatch()
    try:
        return _trace_eager(step, whereabouts)
    finally:
        if watch.moved() is not None:
            _trace_eager(step, whereabouts, is_watched=True)


# Losses with a recursion over lengths that are data: of the result's shape, which is static, they say that
# it depends on them.
_RECURSIONS = ("_ctc_loss",)


# What PyTorch's words mean here.
_MEANINGS = {
    "FakeTensor.__format__": "a value is made text here, and there is none while a step is captured; expected it to be"
    " returned with the loss, and printed behind the step",
    "backward through the graph a second time": "the loss function runs the backward pass itself, expected it to return"
    " the loss alone, of which the step computes gradients and updates",
}


def _explain(error, location):
    """An exception of the tracer as one line."""
    if isinstance(error, DrawError):
        return CaptureError(f"{location}: {error}")
    dynamic = (DataDependentOutputException, DynamicOutputShapeException)
    if isinstance(error, dynamic) and name_of(error.func) in _RECURSIONS:
        return UnsupportedOperatorError(error.func, location)
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if isinstance(error, dynamic) or "data-dependent" in text or "guard on data" in text:
        operator = getattr(error, "func", "")
        return CaptureError(
            f"{location}: control flow or a shape depends on data ({operator or text});"
            f" expected a static graph"
        )
    for words, meaning in _MEANINGS.items():
        if words in text:
            return CaptureError(f"{location}: {meaning}")
    return CaptureError(f"{location}: the step cannot be captured: {type(error).__name__}: {text}")


@contextlib.contextmanager
def _explained(whereabouts):
    def place(error):
        own = location_of_traceback(error.__traceback__)
        return own if own.place is not None else whereabouts.location

    try:
        yield
    except TandemError:
        raise
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise _explain(error, place(error)) from error
    except NotImplementedError as error:
        raise UnsupportedOperatorError(
            getattr(error, "func", "?"), place(error), str(error).splitlines()[0]
        ) from error
    except Exception as error:
        raise _explain(error, place(error)) from error


def _equal(first, second):
    """Whether two graphs compute the same with the same constants."""

    def constants(graph):
        nodes = [node.target for node in graph.graph.nodes if node.op == "get_attr"]
        return [getattr(graph, name) for name in nodes]

    pairs = zip(constants(first), constants(second), strict=False)
    codes = [graph.graph.python_code("self").src for graph in (first, second)]
    return codes[0] == codes[1] and all(
        torch.equal(a, b) for a, b in pairs if isinstance(a, torch.Tensor)
    )


def _check_numbers(step, graph):
    """A step that counts in Python, and computes with the count, is captured twice to see it, as is one that does something in its
    first call only. One that only counts, or has a cache whose size it keeps, is like the next one.
    """
    first, step.numbers = step.changed, step.changed
    caches = {name for name, _ in first} & step.makers
    try:
        again, *_ = _trace_eager(step, Whereabouts())
    except Exception:
        # A cache that is there by its number, but not by its tensors, which are not kept.
        return
    finally:
        step.numbers = {}
    second = {key: value for key, value in step.changed.items() if key in first}
    if (second or not caches) and not _equal(graph, again):
        raise refuse(first, second)


def _check_left(step):
    """A step that computes with a tensor which the one before left in an attribute is captured twice to see it."""
    step.kept = attributes.stand_ins(step.left)
    try:
        again, *_ = _trace_eager(step, Whereabouts())
    except Exception:
        return  # The stand-ins, zeros, may not be what is expected there.
    finally:
        kept, step.kept = step.kept, {}
    name = attributes.used(kept, again)
    if name is not None:
        raise refuse_left(name)


def trace_step(model, loss_fn, optimizer, example_batch, wanted, kept):
    """Traces one training step, as a `Wanted` says. `kept(operator)` says which operators are not to be decomposed."""
    check_wrappers(model)
    step = _Step(model, loss_fn, optimizer, example_batch, wanted)
    whereabouts = Whereabouts()
    with _explained(whereabouts), _capturing():
        graph, random_calls, guards = _trace_watching(step, whereabouts)
        if step.changed:
            _check_numbers(step, graph)
        if step.left and wanted.trains:
            _check_left(step)
        step.scalars = scalar_arguments(step.numbers_read, step.optimizer.first_step)
    step.returned.forget()
    arguments = step.arguments

    def make_graph():
        progress.tell("decompositions")
        with _explained(whereabouts), _capturing():
            return make_functional(graph, arguments, kept, whereabouts)

    return Trace(
        graph,
        make_graph,
        arguments,
        step.results,
        random_calls,
        step.returned,
        step.optimizer.starts,
        guards,
    )
