"""Layout of values in a store: forms, which are pins for later Programs, and parts of parameters."""

import contextlib
import fnmatch
import itertools
import re
import tempfile

from ..base.pins import Pin

_STORED = ("parameter", "state", "buffer")


def _glob(name):
    """A glob that matches this name alone."""
    return "".join("\\" + char if char in "\\*?[]{}!" else char for char in name)


def _whole_name(argument):
    return argument.part.whole if argument.part else argument.name


def stored_pins(module, programs):
    """Pins on what `module` has of the values of `programs`, of which the first one with a value has stored it."""
    own, pins = {argument.key for argument in module.arguments}, {}
    for program in programs:
        for argument in program.arguments:
            key = f"{argument.role}/{_whole_name(argument)}"
            if argument.role not in _STORED or key not in own:
                continue
            glob, forms = _glob(argument.name), _forms(argument, program)
            if forms:
                pins.setdefault((argument.name, "forms"), Pin(glob, forms))
            if program.is_on_host(argument):
                # The compiler takes parameters apart behind the place where it puts them on the host.
                named = (
                    f"parameter:{_glob(_whole_name(argument))}"
                    if argument.role == "parameter"
                    else glob
                )
                pins.setdefault((named, "host"), Pin(named, (), host=True))
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


@contextlib.contextmanager
def section_options(plan, module, programs, trains):
    """The compiler's options for a pipeline in which `programs` have their values; none without one. A training step has
    sections and order of the first one, whose plan is the text `plan`. Sections of an evaluation are the runs of
    parameters on one point, in the order of these sections. Where they do not name a parameter, it follows the one that
    `module` reads before it.
    """
    axes = pipe_axes(programs[0])
    if not axes:
        yield {}
    elif not trains:
        yield {"pins": _pins_of_runs(axes[0], module, programs, _sections(plan))}
    else:
        lines = [line.partition(" ")[::2] for line in plan.splitlines()]
        pins = [Pin(globs, ((axes[0], f"at({point})"),)) for point, globs in _sections(plan)]
        names = [rest for word, rest in lines if word == "order"]
        rows = [rest + "\n" for word, rest in lines if word == "row"]
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.writelines(rows)
            file.flush()
            order = file.name if rows else names[0]
            yield {"pins": pins, "order": order, "accumulate": accumulated(plan)}


def accumulated(plan):
    """Into how many parts the pipeline that the text `plan` is of cuts a batch; None for a plan without one."""
    lines = [line.partition(" ")[::2] for line in plan.splitlines()]
    return next((int(rest) for word, rest in lines if word == "accumulate"), None)


def _sections(plan):
    """(point, globs) of the lines `section 1 point 0 layers.1.*,norm.*`."""
    lines = [line.split(maxsplit=4) for line in plan.splitlines()]
    return [(line[3], line[4]) for line in lines if line[:1] == ["section"]]


def _matches(name, globs):
    """Whether one of the globs is of this name, or of a module that has it."""
    paths = list(itertools.accumulate(name.split("."), "{}.{}".format))
    return any(fnmatch.fnmatchcase(path, glob) for glob in globs.split(",") for path in paths)


def _in_order(names, sections):
    """The names, each in its section, or in that of the name before it."""
    numbers, last = {}, 0
    for name in names:
        found = (i for i, (_, globs) in enumerate(sections) if _matches(name, globs))
        numbers[name] = last = next(found, last)
    return sorted(names, key=numbers.get)


def _pins_of_runs(axis, module, programs, sections):
    points, parts = {}, {}
    for argument in itertools.chain.from_iterable(program.arguments for program in programs):
        places = argument.form.at if argument.role == "parameter" else ()
        if places and argument.name not in points:
            points[argument.name] = places[0].point
            parts.setdefault(_whole_name(argument), []).append(argument.name)
    read = [part for name in _parameters_read(module) for part in parts.get(name, ())]
    runs = itertools.groupby(_in_order(read, sections), key=points.get)
    return [Pin(",".join(map(_glob, names)), ((axis, f"at({point})"),)) for point, names in runs]


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
