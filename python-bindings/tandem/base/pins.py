"""Pins: forms in a plan that the user fixes."""

import re
from dataclasses import dataclass

from ..errors import CompileError, shown
from .meshes import check_axis

_FORM = re.compile(r"full|reduce|(gather|at)\(\d+\)")


@dataclass(frozen=True)
class Pin:
    """The forms in which the tensors that match `glob` are stored, or made: {axis: form}; or `again`; or `host`."""

    glob: str
    forms: tuple[tuple[str, str], ...]
    again: bool = False
    host: bool = False

    def __str__(self):
        if self.again or self.host:
            return f"{self.glob}:" + ("again" if self.again else "host")
        return f"{self.glob}:" + ",".join(f"{axis}={form}" for axis, form in self.forms)


def pin(glob, what=None, /, **forms):
    """`tandem.pin("layers.*.mlp.w1", model="gather(1)")`, for `compile(..., pins=[...])`.

    A form is `full` or `gather(d)`; axes that are not named are left to the planner. What an operator
    makes is called by its number, `nn.softmax#17`, or by the line of the model, `nn.softmax@model.py:12`
    (`*` stands for any text); it may be `reduce`, too: a sum over the axis that is not finished.

    `tandem.pin("layers.[0-5].*", pipe="at(0)")`: these parameters, and the operators that read them, are a
    section of a pipeline, on point 0 of the axis. Sections stand in the order of the data.

    `tandem.pin("layers.*", "again")`: the backward pass makes again what follows from these parameters,
    or what these operators make, instead of reading what the forward pass saved.

    `tandem.pin("exp_avg*", "host")`: these states of the optimizer lie in the host's memory between steps.
    `tandem.pin("parameter:layers.*", "host")`: so do these parameters; a pass fetches what it reads.
    `tandem.pin("layers.*", "host")`: what "again" would make again waits there for the backward pass.
    """
    if not isinstance(glob, str):
        raise CompileError(f"pin: names {shown(glob)}, expected a text such as 'layers.*.weight'")
    if what is not None:
        if what not in ("again", "host") or forms:
            found = shown(what) + (" beside forms" if forms else "")
            raise CompileError(
                f"pin {glob!r}: found {found}, expected 'again' or 'host' alone or axis=form"
            )
        return Pin(glob, (), again=what == "again", host=what == "host")
    if not forms:
        raise CompileError(
            f"pin {glob!r}: names no axis; expected axis=form, as in model='gather(1)'"
        )
    for axis, form in forms.items():
        check_axis(axis, f"pin {glob!r}")
        if not _FORM.fullmatch(str(form).replace(" ", "")):
            raise CompileError(
                f"pin {glob!r}: {axis} is {shown(form)}, expected full, gather(<dimension>) or at(<point>)"
            )
    return Pin(glob, tuple(forms.items()))


def check_pins(pins):
    """The pins of `tandem.compile`. CompileError for what are none."""
    if not isinstance(pins, (list, tuple)):
        raise CompileError(
            f"pins is {shown(pins)}, expected a list of what tandem.pin(...) returns"
        )
    for pin in pins:
        if not isinstance(pin, (Pin, str)):
            raise CompileError(f"pins has {shown(pin)}, expected what tandem.pin(...) returns")
    return pins


def section_texts(sections):
    """The globs of each section with commas between, or their number. A module path names all parameters below it."""
    if isinstance(sections, int) and not isinstance(sections, bool) and sections > 0:
        return [str(sections)]
    found = [sections] if isinstance(sections, str) else () if sections is None else sections
    if not isinstance(found, (list, tuple)):
        raise _no_sections(sections)
    texts = []
    for section in found:
        paths = [section] if isinstance(section, str) else section
        is_list = isinstance(paths, (list, tuple)) and all(isinstance(p, str) for p in paths)
        if not is_list or not all(path.strip() for path in paths) or not paths:
            raise _no_sections(section)
        texts += ",".join(paths).split(";")
    return texts


def _no_sections(found):
    return CompileError(
        f"sections has {shown(found)}, expected a number of sections, or a list with the module paths of each section, such as"
        " [['embedding', 'layers.0'], ['layers.1', 'norm']]"
    )
