"""Origins of nodes of a traced step, in `node.meta["tandem"]`."""

from dataclasses import dataclass

from .locations import UNKNOWN, Location

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"


def name_of(overload):
    """Of an ATen operator, without its overload."""
    packet = getattr(overload, "_overloadpacket", None)
    return packet.__name__ if packet is not None else ""


@dataclass(frozen=True)
class Origin:
    """Where an operator comes from. `ordinal` counts the random operators in eager's call order. `region` is the number of the
    run that makes a checkpointed region again (regions.py).
    """

    phase: str = FORWARD
    location: Location = UNKNOWN
    operator: str = ""
    ordinal: int | None = None
    region: int | None = None


@dataclass
class Whereabouts:
    """The last line of the user's that the trace has come to: where an error is, if its own frames say
    nothing, as in autograd or in a decomposition."""

    location: Location = UNKNOWN


def tag_new_nodes(graph, origin):
    """Gives the origin to all nodes behind the last one that has one."""
    node = graph._root.prev
    while node is not graph._root and "tandem" not in node.meta:
        node.meta["tandem"] = origin
        node = node.prev
