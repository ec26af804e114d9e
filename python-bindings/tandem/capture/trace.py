"""Capture: one FX graph of the whole training step, from a model, a loss, an optimizer and a batch.

The step is traced twice with fake tensors. The first trace runs the user's code, autograd and the functional optimizer,
and records the origin of every operator. The second one (functional.py) makes the graph functional and decomposes
operators that the `nn` dialect lacks. Nothing is computed or allocated.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.utils._pytree as pytree
from torch.fx.experimental.proxy_tensor import make_fx

from ..base import progress
from ..guards import left_behind, probes
from ..guards.arrays import check_arrays
from ..guards.identity import BatchMemory, Overlaid
from ..guards.python_state import RandomWatch, name_of_number, refuse, refuse_left
from ..guards.rebound import Parted, Placed
from ..optimizers.clipping import NORM
from ..optimizers.joining import join
from ..optimizers.state_dicts import is_own
from ..optimizers.updates import Updates, location_of
from ..tracing import attributes
from ..tracing.arguments import Argument, Result, scalar_arguments
from ..tracing.draws import RandomCall
from ..tracing.origins import BACKWARD, UPDATE, Whereabouts
from ..tracing.reads import Reads
from ..tracing.surroundings import surroundings_kept
from .capturing import capturing
from .functional import fake_tensors, make_functional
from .on_host import on_host
from .origin_mode import OriginMode
from .returned import Returned
from .traced_step import TracedStep, Written
from .tracer_errors import explained


@dataclass
class Trace:
    """`first` is the graph of the first trace, to which `updates` are to be copied; `make_graph()` does so, once, and traces it
    again, without views and writes in place.
    """

    first: torch.fx.GraphModule
    updates: Updates
    make_graph: Callable[[], torch.fx.GraphModule]
    arguments: list[Argument]
    results: list[Result]
    random_calls: list[RandomCall]
    returned: Returned
    starts: dict
    updated: frozenset
    guards: list
    guards_of_numbers: list
    parted: frozenset
    batch_memory: BatchMemory | None
    leaves: dict
    regions: list


def _run_step(step, mode, tensors):
    """Runs under the tracer. Returns the results' tensors; leaves their table in `step.results`."""
    parameters, states, buffers, (count,), _, rates, inputs = step.unpack(tensors)
    with mode, mode.draws.as_generator(), mode.regions.followed():
        parameters = step.make_leaves(parameters)
        with step.holding(parameters, states, [b.clone() for b in buffers]):
            progress.tell("forward pass")
            with mode.reads.requiring(mode):
                loss = step.forward(inputs)
            mode.watch.check(mode.location)
            written = step.written(parameters)
            step.check_writes()
            if not step.wanted.trains:
                losses = [] if loss is None else [loss.detach()]
                step.results, step.updates = [Result("loss", "loss")] * len(losses), Updates()
                return [*losses, *_add_returned(step), *_add_checks(step, mode.reads)]
            attributes.check_parameters(step.model, step.parameters, parameters)
            mode.phase = BACKWARD
            progress.tell("backward pass")
            nodes = mode.follow_backward(loss.grad_fn)
            step.identity.check_gradients(nodes, step.held)
            gradients = step.backward(loss, parameters, nodes)
            buffers_after = step.buffers_now()
            step.check_fixed(mode.reads.fixed, buffers_after)
            placed = [t for t in buffers_after.values() if isinstance(t, Placed)]
            step.looked_at = {each.key for each in placed}
            step.written(parameters)
        mode.phase = UPDATE
        progress.tell("update")
        if step.refuses_nan:
            _refuse_nan(step, mode, gradients)
        gradients, norm = step.wanted.clipping.apply(gradients, mode)
        updates = _run_optimizer(step, mode, parameters, gradients, states, count, rates)
        # The model itself may write to a parameter: a momentum encoder, a clipped weight.
        written = {step.parameters[i].key: parameters[i].detach() for i in written}
        tensors = _collect(
            step, loss.detach(), written | updates, buffers_after, count, gradients, norm
        )
        return tensors + _add_checks(step, mode.reads) + step.updates.extra_results()


def _refuse_nan(step, mode, gradients):
    """Checks of what PyTorch's anomaly mode looks for: behind each function of the backward pass, and here of its results."""
    for i, gradient in gradients.items():
        name = step.parameters[i].name
        mode.location = location_of(name)
        message = f"gradient of {name!r} has NaN values, expected numbers, as torch.autograd.set_detect_anomaly asks for"
        mode.reads.checks.append((gradient.detach().isnan().any().logical_not(), message))


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

            # What a buffer is a view of is made here, not by a copy of another update.
            alone = step.looked_at & {keys[0]}
            new |= step.updates.run(
                name, keys, operands, (*kind, *alone), update, optimizer.is_elementwise
            )
    return new


def _update_jointly(step, mode, parameters, gradients, state_of, count, rates):
    """{argument key: new tensor} by an optimizer of which is not known that it updates each parameter alone."""
    optimizer, names = step.optimizer, [a.name for a in step.parameters]
    mode.location = location_of(type(optimizer.optimizer).__qualname__)
    values = {i: parameters[i].detach() for i in step.trained if i in optimizer.group_of}
    states = {
        i: {s: state_of[f"state/{s}.{names[i]}"] for s in step.state_names[i] if is_own(s)}
        for i in step.updated
    }
    gradients = {i: gradients[i] for i in step.updated}
    keys = [optimizer.shared_keys(group) for group in optimizer.groups]
    shared = [{n: state_of[f"state/{key}"] for n, key in own.items()} for own in keys]
    values, states, shared, checks = optimizer.update_jointly(
        values, gradients, states, shared, count, rates, mode.reads.of_parameters
    )
    mode.reads.checks += checks
    new = {f"parameter/{names[i]}": value for i, value in values.items()}
    for i, own in states.items():
        new |= {f"state/{s}.{names[i]}": value for s, value in own.items()}
    for own, numbers in zip(keys, shared, strict=True):
        new |= {f"state/{own[n]}": value for n, value in numbers.items()}
    return new


def _collect(step, loss, updates, buffers_after, count, gradients, norm):
    new = updates | {k: t for k, t in buffers_after.items() if not isinstance(t, Placed)}
    for key, placed in buffers_after.items():
        if isinstance(placed, Placed):
            before = step.identity.fakes[placed.key]
            # What was in a buffer that has another tensor now stays what it was.
            is_left = buffers_after.get(placed.key, before) is not before
            of = before if is_left else new.get(placed.key, before)
            new[key] = placed.view.of(of.detach())
    new["step/step"] = count + 1
    step.results, tensors = [Result("loss", "loss")], [loss]
    for index, argument in enumerate(step.arguments):
        # One without elements stays as it is.
        if argument.key in new and new[argument.key].numel():
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


def _trace_eager(step, whereabouts, is_watched=False, stays=False):
    """A first trace, its updates, the random calls that it saw, what it looked at in the batch, and the lines of checkpointed regions
    that it ran again. Of traces for comparison (`stays` is false) nothing stays in Python objects.
    """

    def run(*tensors):
        return _run_step(step, mode, tensors)

    step.stays = stays
    reads = Reads(step.arguments, step.wanted.guards_batches)
    mode = OriginMode(run, whereabouts, reads, step.identity, is_watched)
    with surroundings_kept():
        graph = make_fx(
            run,
            tracing_mode="fake",
            _allow_non_fake_inputs=True,
            _disable_torch_fn_metadata_mode=True,
        )(*fake_tensors(step.arguments))
    for hook in mode.hooks:
        hook.remove()
    return graph, step.updates, mode.draws.calls, mode.reads.guards, mode.regions.lines


def _trace_watching(step, whereabouts):
    """The first trace. One in which Python or NumPy have drawn a number is made again to name the operator: looking at
    their generators takes as long as tracing a small operator does.
    """
    watch = RandomWatch()
    try:
        while True:
            try:
                return _trace_eager(step, whereabouts, stays=True)
            except Written:
                step.copies = True
            except Overlaid:
                pass
            except Parted as parted:
                step.part(parted.names)
    finally:
        if watch.moved() is not None:
            _trace_eager(step, whereabouts, is_watched=True)


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
    first call only. One that only counts, or has a cache whose size it keeps, is like the next one. Returns the numbers with
    which the next step goes on, as another one than this.
    """
    first, before = step.changed, dict(vars(step))
    step.numbers = step.numbers | first
    caches = {name for name, _ in first} & step.makers
    try:
        again, *_ = _trace_eager(step, Whereabouts())
    except Written:
        again = None  # to a parameter, in the second step only
    except Exception:
        # A cache that is there by its number, but not by its tensors, which are not kept.
        return {}
    finally:
        second = step.changed
        vars(step).update(before)
    changed = {key: value for key, value in second.items() if key in first}
    if (caches and not changed) or (again is not None and _equal(graph, again)):
        return {}
    if second or step.wanted.numbers is None:
        raise refuse(first, changed)
    return first


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


def _trace_from(step, numbers, begin):
    """The graph of a step that begins with these, and what it leaves; None where it cannot be traced."""
    before = dict(vars(step))
    step.numbers, step.begin = step.numbers | numbers, begin
    try:
        graph, *_ = _trace_eager(step, Whereabouts())
        return graph, step.changed, step.others
    except Exception:
        return None
    finally:
        vars(step).update(before)


def _check_others(step, graph):
    """A step that changes other Python objects is captured twice to see whether the next one computes something else, and where what
    it leaves goes on changing, once more with numbers that answer otherwise.
    """
    numbers, begin = step.changed, left_behind.as_begin(step.others)
    held = {key: list(pytree.tree_leaves(values)) for key, (_, values) in begin.items()}
    second = _trace_from(step, numbers, begin)
    if second is None:
        return
    again, changed, others = second
    if step.others and not _equal(graph, again):
        raise left_behind.refuse({name for name, _ in step.others.values()})
    stale = attributes.used(held, again)
    if stale is not None:
        raise left_behind.refuse({step.others[stale][0]})
    moving = {key: probes.probe(numbers[key]) for key in changed.keys() & numbers.keys()}
    parts = left_behind.moving(step.others, others)
    if not moving and not parts:
        return
    asked = {part: step.others[part] for part in parts}
    begin |= left_behind.as_begin(asked, probes.probe)
    third = _trace_from(step, numbers | moving, begin)
    if third is not None and not _equal(graph, third[0]):
        names = {name for name, _ in asked.values()}
        raise left_behind.refuse(names | {name_of_number(*key) for key in moving})


def trace_step(model, loss_fn, optimizer, example_batch, wanted, kept):
    """Traces one training step, as a `Wanted` says. `kept(operator)` says which operators are not to be decomposed."""
    step = TracedStep(model, loss_fn, optimizer, example_batch, wanted)
    whereabouts = Whereabouts()
    with explained(whereabouts), capturing(), on_host(model):
        graph, updates, random_calls, guards, regions = _trace_watching(step, whereabouts)
        leaves = _check_numbers(step, graph) if step.changed else {}
        if step.left and wanted.trains:
            _check_left(step)
        changes = (step.changed or step.others) and not leaves
        if changes and not left_behind.makes_modules(step.others):
            _check_others(step, graph)
        step.outside.check_generators()
        check_arrays(
            step.model,
            step.outside,
            {r.name for r in step.results if r.role == "parameter"},
            lambda: _trace_from(step, step.numbers, step.begin),
            lambda again: _equal(graph, again[0]),
        )
        step.scalars = scalar_arguments(step.numbers_read, step.optimizer.first_step)
    step.returned.forget()
    arguments = step.arguments
    places = {
        arguments[result.updates].key: place
        for place, result in enumerate(step.results)
        if result.updates is not None
    }

    def make_graph():
        progress.tell("decompositions")
        updates.copy(graph.graph, places)
        if step.optimizer.is_joint:
            join(graph)
        with explained(whereabouts), capturing():
            return make_functional(graph, arguments, kept, whereabouts)

    return Trace(
        graph,
        updates,
        make_graph,
        arguments,
        step.results,
        random_calls,
        step.returned,
        step.optimizer.starts,
        frozenset(step.parameters[i].name for i in step.updated),
        guards,
        step.optimizer.guards,
        frozenset(step.parted),
        step.batch_memory,
        leaves,
        regions,
    )
