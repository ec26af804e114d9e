"""The tracer's mode: records origin, draws, reads and writes of each operator."""

import operator as python_operator

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.utils._python_dispatch import TorchDispatchMode

from ..errors import CaptureError, UnsupportedOperatorError
from ..formulas.requirements import require_of
from ..guards.python_state import RandomWatch
from ..random import is_defined, starts_parameter
from ..tracing.attention import scores_drawn
from ..tracing.draws import DrawError, Draws, SeedError, is_random
from ..tracing.locations import current_location
from ..tracing.origins import BACKWARD, FORWARD, UPDATE, Origin, tag_new_nodes
from ..tracing.reads import EQUAL, READ, of_constants
from ..tracing.regions import Regions
from ..tracing.writes import declaring, operands_written

_DEVICE = torch.ops.prim.device.default


# What makes a tensor of a step's own from a literal.
_LITERAL = torch.ops.aten.lift_fresh.default


def _is_constant(tensor):
    """Whether a tensor is none of the step's, or a view of such a one."""
    if not isinstance(tensor, FakeTensor):
        return isinstance(tensor, torch.Tensor)
    slot = get_proxy_slot(tensor, get_proxy_mode().tracer, None)
    node = slot.proxy.node if slot is not None else None
    while node is not None and node.op == "call_function":
        if node.target is python_operator.getitem or _gives_view(node.target):
            node = node.args[0]
        else:
            return False
    return node is not None and node.op == "get_attr"


def _gives_view(operator):
    returns = operator._schema.returns if isinstance(operator, torch._ops.OpOverload) else ()
    return operator is not _LITERAL and any(each.alias_info is not None for each in returns)


def _check_written(operator, args, kwargs, location):
    """CaptureError for a write to a tensor that is none of the step's: eager would go on with what is there."""
    if any(map(_is_constant, operands_written(operator, args, kwargs))):
        raise CaptureError(
            f"{location}: a tensor is written to that is no parameter, no buffer and none that the step makes,"
            " expected a buffer, as module.register_buffer makes one"
        )


class OriginMode(TorchDispatchMode):
    """Sits above the tracer and tags the nodes that each operator makes with its origin.

    The backward pass has no user frames; autograd's sequence numbers lead back to the forward
    operator.
    """

    def __init__(self, outermost, whereabouts, reads, identity, is_watched):
        """`identity` knows what the user's own tensors are in the trace. With `is_watched` the operator is named behind which Python or NumPy draw a number."""
        super().__init__()
        self.reads, self.identity, self.is_watched = reads, identity, is_watched
        self.outermost, self.whereabouts = outermost, whereabouts
        self.phase = FORWARD
        self.location_of_sequence = {}
        self.draws, self.regions = Draws(), Regions(outermost)
        self.watch = RandomWatch()
        self.hooks = []

    @property
    def location(self):
        return self.whereabouts.location

    @location.setter
    def location(self, location):
        self.whereabouts.location = location

    @classmethod
    def _should_skip_dynamo(cls):
        """What keeps dynamo out takes as long as half of what is done here, and there is none while a step is traced."""
        return False

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if operator is _DEVICE and isinstance(args[0], FakeTensor):
            # Asked twice for each operator; the modes below would answer the same. No operator of the step.
            return (
                operator(*args) if args[0].fake_mode.in_kernel_invocation else args[0].fake_device
            )
        location = current_location(self.outermost) or self.location
        if self.phase == FORWARD:
            if self.is_watched:
                self.watch.check(location)
            self.location = location
            self.location_of_sequence.setdefault(torch.autograd._get_sequence_nr() - 1, location)
        if operator is EQUAL:
            if args[0].shape != args[1].shape:
                return False  # Whatever they hold.
            operator, args = READ, [torch.eq(*args).all()]
        if operator is READ and isinstance(args[0], FakeTensor):
            updates = self.phase == UPDATE
            return self.reads.read(args[0], get_proxy_mode().tracer, location, updates)
        operator, args, kwargs = declaring(operator, args, kwargs or {})
        _check_written(operator, args, kwargs, location)
        if self.phase != UPDATE:
            args, kwargs = self.identity.follow(args, kwargs, location)
        if self.phase == FORWARD:
            require_of(operator, args, kwargs)
        known = None
        if torch.Tag.dynamic_output_shape in operator.tags:
            known = of_constants(operator, args, kwargs)
        if known is None:
            result = operator(*args, **kwargs)
        else:
            # As the step has made them, it may write to them.
            result = pytree.tree_map_only(torch.Tensor, _LITERAL, known)
        ordinal = self._count_random(operator, args, result, location)
        region = self.regions.current(self.phase == BACKWARD)
        origin = Origin(self.phase, location, str(operator), ordinal, region)
        tag_new_nodes(get_proxy_mode().tracer.graph, origin)
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
        except SeedError as error:
            raise CaptureError(f"{location}: {error}") from error
        except DrawError as error:
            raise CaptureError(
                f"{location}: a part of the model that is run again draws other random numbers: {error}"
            ) from error

    def follow_backward(self, root):
        """Before each autograd node runs, its forward operator's line becomes the current
        location. Returns the nodes.
        """
        pending, seen = [root], set()
        while pending:
            node = pending.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            self.hooks.append(node.register_prehook(self._hook(node)))
            pending.extend(parent for parent, _ in node.next_functions)
        return seen

    def _hook(self, node):
        location = self.location_of_sequence.get(node._sequence_nr())

        def before(_):
            if location is not None:
                self.location = location

        return before
