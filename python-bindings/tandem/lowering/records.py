"""A training step as a list of `nn` operators: plain data between the lowering and the text."""

from dataclasses import dataclass, field

import torch

from ..tracing.arguments import Argument, Result
from ..tracing.locations import UNKNOWN, Location

ELEMENT_TYPES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int8: "i8",
    torch.bool: "i1",
}


@dataclass(frozen=True)
class TensorType:
    shape: tuple[int, ...]
    dtype: torch.dtype

    def __str__(self):
        return (
            "tensor<" + "".join(f"{size}x" for size in self.shape) + ELEMENT_TYPES[self.dtype] + ">"
        )


@dataclass(eq=False)
class Value:
    """A result of an operator (`index` of `owner`) or, without owner, an argument of the step."""

    type: TensorType
    owner: "Operator | None" = None
    index: int = 0

    @property
    def shape(self):
        return self.type.shape

    @property
    def dtype(self):
        return self.type.dtype


@dataclass(eq=False)
class Operator:
    """`attributes`: int, float, bool, str, tuple of int, or a tensor (a constant's value). `source` is the
    name of the ATen operator that it comes from, `region` the number of the run that makes it again.
    """

    name: str
    operands: list[Value]
    attributes: dict
    phase: str
    location: Location = UNKNOWN
    results: list[Value] = field(default_factory=list)
    source: str = ""
    region: int | None = None


@dataclass
class Step:
    """The whole step. `parameters[i]` is the value of `arguments[i]`, `outputs[i]` that of
    `results[i]`.
    """

    arguments: list[Argument]
    parameters: list[Value]
    operators: list[Operator]
    results: list[Result]
    outputs: list[Value]

    def is_empty(self, index):
        """Whether an argument has no elements, and nothing is computed of it."""
        if 0 not in self.arguments[index].shape:
            return False
        value = self.parameters[index]
        operands = (o for operator in self.operators for o in operator.operands)
        return not any(o is value for o in (*operands, *self.outputs))

    def runs(self):
        """The numbers of the runs of checkpointed regions that make something again."""
        return sorted({each.region for each in self.operators if each.region is not None})

    def remove_dead(self):
        """Drops operators whose results nothing uses."""
        needed = {id(value) for value in self.outputs}
        kept = []
        for operator in reversed(self.operators):
            if any(id(result) in needed for result in operator.results):
                needed.update(id(operand) for operand in operator.operands)
                kept.append(operator)
        self.operators = kept[::-1]
