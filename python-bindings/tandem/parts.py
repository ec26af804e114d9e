"""Takes values as another Program stores them: its forms as pins, its parts of parameters as arguments."""

from dataclasses import replace

from .arguments import Argument
from .pins import Pin
from .records import Operator, Step, TensorType, Value
from .text import print_step

_STORED = ("parameter", "state", "buffer")


def _glob(name):
    """A glob that matches this name alone."""
    return "".join("\\" + char if char in "\\*?[]{}!" else char for char in name)


def stored_pins(module, program):
    """Pins on what `module` has of the values of `program`: the forms in which that stores them."""
    own = {argument.key for argument in module.arguments}
    pins = []
    for argument in program.arguments:
        key = f"{argument.role}/{argument.part.whole if argument.part else argument.name}"
        stored = argument.role in _STORED and (
            key in own or f"{argument.role}/{argument.name}" in own
        )
        forms = _forms(argument, program) if stored else ()
        if forms:
            pins.append(Pin(_glob(argument.name), forms))
    return pins


def _forms(argument, program):
    """((axis, form), ...) over all axes of more than one point."""
    dim_of = {axis: dim for dim, each in enumerate(argument.form.dims) for axis in each.axes}
    return tuple(
        (axis.name, f"gather({dim_of[index]})" if index in dim_of else "full")
        for index, axis in enumerate(program.mesh)
        if axis.size > 1
    )


def take_parts(module, program):
    """The module with the parts that `program` stores in the place of whole parameters. For one without updates."""
    parts = {}
    for argument in program.arguments:
        if argument.part and argument.role == "parameter":
            parts.setdefault(argument.part.whole, []).append(argument)
    if not parts:
        return module
    step, operators = module.step, []
    arguments, values, wholes = [], [], {}
    for argument, value in zip(step.arguments, step.parameters, strict=True):
        own = parts.get(argument.name, []) if argument.role == "parameter" else []
        if not own:
            arguments.append(argument)
            values.append(value)
            continue
        made = [Value(TensorType(tuple(part.global_shape), argument.dtype)) for part in own]
        operator = Operator("cat", made, {"dim": own[0].part.dim}, "forward")
        operator.results = [Value(value.type, operator)]
        operators.append(operator)
        wholes[id(value)] = operator.results[0]
        values += made
        arguments += [_argument(argument, part) for part in own]
    for operator in step.operators:
        own = [wholes.get(id(operand), operand) for operand in operator.operands]
        new = replace(operator, operands=own)
        for result in new.results:
            result.owner = new
        operators.append(new)
    outputs = [wholes.get(id(value), value) for value in step.outputs]
    step = Step(arguments, values, operators, step.results, outputs)
    return replace(module, mlir=print_step(step), arguments=arguments, make_step=lambda: step)


def _argument(whole, part):
    place = (part.part.whole, tuple(part.part.shape), part.part.dim, part.part.offset)
    return Argument("parameter", part.name, tuple(part.global_shape), whole.dtype, part=place)
