"""Layout of values in a store: forms, which are pins for later Programs, and parts of parameters."""

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


def _forms(argument, program):
    """((axis, form), ...) over all axes of more than one point."""
    dim_of = {axis: dim for dim, each in enumerate(argument.form.dims) for axis in each.axes}
    return tuple(
        (axis.name, f"gather({dim_of[index]})" if index in dim_of else "full")
        for index, axis in enumerate(program.mesh)
        if axis.size > 1
    )
