"""A step as text: one module with `func.func @step`, in MLIR's generic operation form."""

import torch

from .records import ELEMENT_TYPES, Step

_FLOAT_BITS = {torch.float64: 64, torch.float32: 32, torch.bfloat16: 16, torch.float16: 16}
_INTEGER_VIEW = {64: torch.int64, 32: torch.int32, 16: torch.int16}
# Constants above this size are printed as one string of bytes.
_LONGEST_LIST = 16


def quote(text):
    out = []
    for char in text:
        if char in '"\\':
            out.append("\\" + char)
        elif " " <= char <= "~":
            out.append(char)
        else:
            out.extend(f"\\{byte:02X}" for byte in char.encode())
    return '"' + "".join(out) + '"'


def _float(value):
    """A decimal literal, which MLIR wants to have a point."""
    text = repr(float(value))
    mantissa, mark, exponent = text.partition("e")
    return (mantissa if "." in mantissa else mantissa + ".0") + mark + exponent


def _element(tensor):
    """One element, a rank-0 tensor, as a literal."""
    if tensor.dtype == torch.bool:
        return "true" if tensor.item() else "false"
    if tensor.dtype not in _FLOAT_BITS:
        return str(tensor.item())
    if torch.isfinite(tensor):
        return _float(tensor.item())
    bits = _FLOAT_BITS[tensor.dtype]
    pattern = tensor.view(_INTEGER_VIEW[bits]).item() & ((1 << bits) - 1)
    return f"0x{pattern:0{bits // 4}X}"


def _nested(tensor):
    if tensor.dim() == 0:
        return _element(tensor)
    return "[" + ", ".join(_nested(part) for part in tensor) + "]"


def _flat(tensor):
    """All elements, one behind the other in memory, which also says of a single one that the next would be."""
    flat = tensor.reshape(-1)
    return flat if flat.stride(0) == 1 else flat.clone(memory_format=torch.contiguous_format)


def is_one_value(tensor):
    """Whether all elements are the same, to the bit: 0.0 and -0.0 are equal and not the same."""
    if not tensor.numel():
        return False
    rows = _flat(tensor).view(torch.uint8).reshape(tensor.numel(), -1)
    return bool((rows == rows[0]).all())


def dense(tensor):
    """A DenseElementsAttr."""
    shape = "".join(f"{size}x" for size in tensor.shape)
    kind = f"tensor<{shape}{ELEMENT_TYPES[tensor.dtype]}>"
    flat = _flat(tensor)
    if flat.numel() == 0:
        return f"dense<> : {kind}"
    if is_one_value(flat):
        return f"dense<{_element(flat[0])}> : {kind}"
    if flat.numel() <= _LONGEST_LIST or tensor.dtype == torch.bool:
        return f"dense<{_nested(tensor)}> : {kind}"
    return f'dense<"0x{flat.view(torch.uint8).numpy().tobytes().hex().upper()}"> : {kind}'


def attribute(value):
    if value is None:
        return "unit"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        return f"{_float(value)} : f64"
    if isinstance(value, torch.Tensor):
        return dense(value)
    return "array<i64" + (": " + ", ".join(map(str, value)) if value else "") + ">"


def inherent_attribute(key, value):
    """Strings are keywords of the enumeration that has the attribute's name."""
    return f"#nn<{key} {value}>" if isinstance(value, str) else attribute(value)


def _place(place):
    return f"{quote(place.file)}:{place.line}:{place.column}"


def location(where):
    if where is None or (where.place is None and not where.name):
        return "loc(unknown)"
    if where.place is None:
        return f"loc({quote(where.name)})"
    if where.caller is None:
        return f"loc({_place(where.place)})"
    return f"loc(callsite({_place(where.place)} at {_place(where.caller)}))"


def _argument_attributes(argument):
    parts = [f"nn.role = #nn.role<{argument.role}>", f"nn.name = {quote(argument.name)}"]
    if argument.aliases:
        parts.append("nn.aliases = [" + ", ".join(map(quote, argument.aliases)) + "]")
    if argument.of is not None:
        parts.append(f"nn.of = {quote(argument.of)}")
    if argument.batch_dim is not None:
        parts.append(f"nn.batch_dim = {argument.batch_dim} : i64")
    if argument.range is not None:
        parts.append(f"nn.range = [{argument.range[0]}, {argument.range[1]}]")
    return "{" + ", ".join(parts) + "}"


def _result_attributes(result):
    parts = [f"nn.role = #nn.role<{result.role}>", f"nn.name = {quote(result.name)}"]
    if result.updates is not None:
        parts.append(f"nn.updates = {result.updates} : i64")
    return "{" + ", ".join(parts) + "}"


class _Names:
    def __init__(self):
        self.names = {}

    def define(self, value, name):
        self.names[id(value)] = name
        return name

    def __getitem__(self, value):
        return self.names[id(value)]


def _operator(operator, names, number):
    """One line; `number` names its results."""
    operands = ", ".join(names[operand] for operand in operator.operands)
    inherent = ", ".join(
        f"{key} = {inherent_attribute(key, value)}" for key, value in operator.attributes.items()
    )
    properties = f" <{{{inherent}}}>" if inherent else ""
    again = "nn.again, " if operator.region is not None else ""
    operand_types = ", ".join(str(operand.type) for operand in operator.operands)
    result_types = [str(result.type) for result in operator.results]
    if len(result_types) == 1:
        left, right = names.define(operator.results[0], f"%{number}"), result_types[0]
    else:
        left, right = f"%{number}:{len(result_types)}", "(" + ", ".join(result_types) + ")"
        for i, result in enumerate(operator.results):
            names.define(result, f"%{number}#{i}")
    return (
        f'    {left} = "nn.{operator.name}"({operands}){properties}'
        f" {{{again}nn.pass = #nn.pass<{operator.phase}>}}"
        f" : ({operand_types}) -> {right} {location(operator.location)}"
    )


def _step_location(step):
    """What is said of the step as a whole is said of the line that gives the loss."""
    owner = step.outputs[0].owner
    if owner is None or owner.location is None or owner.location.place is None:
        return "loc(unknown)"
    return f'loc("step"({location(owner.location)[4:-1]}))'


def print_step(step: Step) -> str:
    """The module. Same step, same text to the byte."""
    names = _Names()
    arguments = [
        f"      {names.define(value, f'%arg{i}')}: {value.type} {_argument_attributes(argument)}"
        for i, (value, argument) in enumerate(zip(step.parameters, step.arguments, strict=True))
        if not step.is_empty(i)
    ]
    results = [
        f"      {value.type} {_result_attributes(result)}"
        for value, result in zip(step.outputs, step.results, strict=True)
    ]
    lines = ["module {", "  func.func @step("]
    lines += [",\n".join(arguments), "  ) -> (", ",\n".join(results), "  ) {"]
    lines += [_operator(operator, names, number) for number, operator in enumerate(step.operators)]
    outputs = ", ".join(names[value] for value in step.outputs)
    types = ", ".join(str(value.type) for value in step.outputs)
    where = _step_location(step)
    lines += [f"    return {outputs} : {types} {where}", f"  }} {where}", f"}} {where}", ""]
    return "\n".join(lines)
