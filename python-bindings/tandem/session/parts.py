"""Layout of values in a store: forms, which are pins for later Programs, and parts of parameters."""

import itertools
import re

from ..base.pins import Pin

_STORED = ("parameter", "state", "buffer")


def _glob(name):
    """A glob that matches this name alone."""
    return "".join("\\" + char if char in "\\*?[]{}!" else char for char in name)


def stored_pins(module, programs):
    """Pins on what `module` has of the values of `programs`, of which the first one with a value has stored it."""
    own, pins = {argument.key for argument in module.arguments}, {}
    for program in programs:
        for argument in program.arguments:
            key = f"{argument.role}/{argument.part.whole if argument.part else argument.name}"
            forms = _forms(argument, program)
            if argument.role in _STORED and key in own and forms:
                pins.setdefault(argument.name, Pin(_glob(argument.name), forms))
    return list(pins.values())


def stored_parts(programs):
    """In which parts, if in several, parameters are stored: as the compiler's option has it."""
    cuts = {}
    for program in programs:
        own = {}
        for argument in program.arguments:
            if argument.role == "parameter":
                part = argument.part
                name, dim = (part.whole, part.dim) if part else (argument.name, 0)
                own.setdefault((name, dim), []).append(part.offset if part else 0)
        cuts = own | cuts
    return [
        f"{name}:{dim}:{','.join(map(str, sorted(rows)[1:]))}" for (name, dim), rows in cuts.items()
    ]


def pipe_axes(program):
    """The name of the axis on which values lie at one point, in a list; an empty one without a pipeline."""
    numbers = {place.axis for argument in program.arguments for place in argument.form.at}
    return [program.mesh[number].name for number in sorted(numbers)]


def section_options(planner, module, programs, trains):
    """The compiler's options for a pipeline in which `programs` have their values; none without one. Where no order counts
    sections, they are the runs of parameters on one point, in the order in which `module` reads them.
    """
    axes = pipe_axes(programs[0])
    if not axes:
        return {}
    if trains and planner["order"]:
        pins = [pin for pin in planner["pins"] if "=at(" in str(pin).replace(" ", "")]
        return {"pins": pins, "sections": planner["sections"], "order": planner["order"]}
    points = {
        argument.name: place.point
        for program in reversed(programs)
        for argument in program.arguments
        if argument.role == "parameter"
        for place in argument.form.at
    }
    read = [name for name in _parameters_read(module) if name in points]
    runs = itertools.groupby(read, key=points.get)
    return {
        "pins": [
            Pin(",".join(map(_glob, names)), ((axes[0], f"at({point})"),)) for point, names in runs
        ]
    }


def _parameters_read(module):
    """Names of parameters, in the order in which operators read them."""
    body = module.mlir.partition("\n  ) {")[2]
    numbers = dict.fromkeys(int(number) for number in re.findall(r"%arg(\d+)\b", body))
    read = [module.arguments[number] for number in numbers]
    return [argument.name for argument in read if argument.role == "parameter"]


def _forms(argument, program):
    """((axis, form), ...) over all axes of more than one point, but that of a pipeline."""
    dim_of = {axis: dim for dim, each in enumerate(argument.form.dims) for axis in each.axes}
    left_out = pipe_axes(program)
    return tuple(
        (axis.name, f"gather({dim_of[index]})" if index in dim_of else "full")
        for index, axis in enumerate(program.mesh)
        if axis.size > 1 and axis.name not in left_out
    )
