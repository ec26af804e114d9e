"""The options of a compilation: rows of `include/tandem/Support/Options.def`, as Python takes them.

Keywords, checks and docstring of `tandem.compile`, the arguments of `python -m tandem` and what the processes of a job compare
are read from the rows. An option that only the compiler acts on needs nothing here.
"""

import ast
import contextlib
import functools
import inspect
import os
import sys
import textwrap

from ..errors import CompileError, TandemError, shown
from .meshes import mesh_text
from .native import native
from .pins import check_pins, section_texts

# A preset or a file: two members of the record.
_PLAN = "plan"
# The architecture that stands for a GPU in tests.
_EMULATED = "emulated"
# What the record has for a value that was not given, and what Python has.
_ABSENT = {"text": ("", None), "bytes": (-1, None), "texts": ([], ()), "seconds": (0, 0)}


@functools.cache
def rows():
    """The rows that Python has, in order. Raises TandemError without the compiled module."""
    return tuple(row for row in native().option_table() if row.is_python)


def preset_names():
    return [preset.name for preset in native().preset_table()]


def default_preset():
    """The name of the preset of a step without a plan."""
    return native().default_preset


def preset_of_batch(batch):
    """The name of the first preset that splits a batch so, a member of `native().PresetBatch`."""
    return next(preset.name for preset in native().preset_table() if preset.batch == batch)


def batch_of_plan(plan):
    """The member of `native().PresetBatch` that says how a plan is taken to split a batch: a preset's own, and of
    another plan that of the default preset.
    """
    of = {preset.name: preset.batch for preset in native().preset_table()}
    return of[plan if isinstance(plan, str) and plan in of else default_preset()]


def default_of(row):
    """What a keyword is that was not given."""
    if not row.has_member:
        return ast.literal_eval(row.initial)
    absent, stands = _ABSENT.get(row.type, (row.default, row.default))
    return stands if row.default == absent else row.default


def _is_planner(row):
    """Whether the compiler reads it."""
    return row.has_member or row.name == _PLAN


def step_rows():
    """The keywords of `tandem.compile`."""
    return [row for row in rows() if row.is_step]


def planner_rows():
    """The keywords of `compile_module`."""
    return [row for row in rows() if _is_planner(row)]


def command_rows():
    """The arguments of commands that compile."""
    return [row for row in rows() if row.is_command]


def planning_rows():
    """Of `command_rows`, those that the stages up to `plan` read."""
    return [row for row in command_rows() if _is_planner(row) and row.reader != "compiler"]


def named_command_rows(*names):
    """The `command_rows` of these names."""
    of = {row.name: row for row in command_rows()}
    return [of[name] for name in names]


def with_defaults(rows, given, function):
    """{name: value} of all `rows`. TypeError for a keyword that is none of them, as Python has it."""
    values = {row.name: default_of(row) for row in rows}
    for name in given:
        if name not in values:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
    return values | given


# ===----------------------------------------------------------------------=== #
# Checks
# ===----------------------------------------------------------------------=== #


def _expected(row):
    if row.expected:
        return row.expected
    return "the path of a file" if row.is_path else "a text"


def _check_flag(row, value):
    if not isinstance(value, bool):
        raise CompileError(f"{row.name} is {shown(value)}, expected True or False")
    return value


def _check_count(row, value):
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= row.most:
        raise CompileError(
            f"{row.name} is {shown(value)}, expected an integer from 1 to {row.most}"
        )
    return value


def _check_bytes(row, value):
    if value is None:
        return -1
    is_number = isinstance(value, int) and not isinstance(value, bool)
    is_size = is_number or isinstance(value, str)
    found = native().parse_byte_size(str(value)) if is_size else None
    if found is None:
        raise CompileError(f"{row.name} is {shown(value)}, expected {_expected(row)}")
    return found


def check_time_limit(seconds):
    """The limit of a search, as the compiler takes it."""
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= sys.float_info.max:
        raise CompileError(f"search_time_limit is {seconds!r}, expected seconds, or 0 for no limit")
    return seconds


def _check_text(row, value):
    kinds = (str, os.PathLike) if row.is_path else str
    is_hidden = isinstance(value, str) and not value.isprintable()
    if value is not None and (is_hidden or not isinstance(value, kinds)):
        raise CompileError(f"{row.name} is {shown(value)}, expected {_expected(row)}")
    if row.is_path and row.name != _PLAN and value is not None and not os.fspath(value):
        raise CompileError(f"{row.name} is '', expected the path of a file, or None for none")
    return os.fspath(value or "")


_CHECKS = {
    "flag": _check_flag,
    "count": _check_count,
    "integer": lambda row, value: value,
    "bytes": _check_bytes,
    "text": _check_text,
    "seconds": lambda row, value: check_time_limit(value),
    "texts": lambda row, value: list(value),
    "any": lambda row, value: value,
}
# What users write in another way than the compiler reads it.
_WRITTEN = {
    "mesh": mesh_text,
    "pins": lambda pins: [str(pin) for pin in check_pins(pins)],
    "sections": section_texts,
}


def checked(row, value):
    """The value as the compiler has it. CompileError for one of another type."""
    return _WRITTEN[row.name](value) if row.name in _WRITTEN else _CHECKS[row.type](row, value)


# ===----------------------------------------------------------------------=== #
# The compiler's record
# ===----------------------------------------------------------------------=== #


def _is_path(plan):
    """A preset has no suffix."""
    return not isinstance(plan, str) or os.sep in plan or "." in plan or os.path.exists(plan)


def make_options(**given):
    """The record for the compiler. A keyword that is not given has its default; CompileError for a wrong value."""
    values = with_defaults(planner_rows(), given, "compile")
    record = native().CompileOptions()
    for row in planner_rows():
        value = checked(row, values[row.name])
        if row.has_member:
            setattr(record, row.name, value)
    plan = values[_PLAN]
    if plan and _is_path(plan):
        record.plan_file = os.fspath(plan)
    else:
        record.preset = plan or ""
    if values["architecture"] is None and _is_emulated(record.device):
        record.architecture = _EMULATED
    return record


def _is_emulated(device):
    """Whether the device has an emulated architecture, and the libraries of that are named."""
    named = os.environ.get("TANDEM_CUDA_LIBRARIES")
    return bool(named) and native().has_architecture(device, _EMULATED)


# ===----------------------------------------------------------------------=== #
# For people and for other processes
# ===----------------------------------------------------------------------=== #


def texts_of(values):
    """{name: text} of the values that the processes of a job have to be given alike. A file may lie elsewhere on each host."""
    texts = {}
    for row in step_rows():
        value = values[row.name]
        if not row.is_compared:
            continue
        if row.is_path and value is not None:
            value = os.path.basename(os.fspath(value))
        elif row.name in _WRITTEN or row.type == "bytes":
            value = checked(row, value)
        texts[row.name] = str(value)
    return texts | {"mesh": texts["mesh"] or "of one rank"}


def signature_of(function, rows):
    """The signature of `function(..., **given)` with `rows` in the place of what is given."""
    own = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    kind = inspect.Parameter.KEYWORD_ONLY
    keywords = [inspect.Parameter(row.name, kind, default=default_of(row)) for row in rows]
    return inspect.Signature([*own, *keywords])


def docstring_of(rows):
    """A paragraph per keyword."""
    texts = [f"{row.name} (default {default_of(row)!r}): {row.help} {row.python}" for row in rows]
    wrap = textwrap.TextWrapper(96, initial_indent="    ", subsequent_indent="        ")
    return "\n".join(wrap.fill(text.strip()) for text in texts)


def documented(function):
    """`function`, with the keywords of `tandem.compile` in signature and docstring.

    Without the compiled module steps can be captured alone; who calls `function` is told then.
    """
    with contextlib.suppress(TandemError):
        rows = step_rows()
        function.__signature__ = signature_of(function, rows)
        text = inspect.cleandoc(function.__doc__)
        function.__doc__ = text.replace("{keywords}", docstring_of(rows))
    return function


def add_arguments(parser, rows, choices=None, notes=None):
    """Arguments for a parser of `argparse`, whose values are keywords of `compile_module` or `tandem.compile`.

    `choices` has by name all values of a row, where these are few; `notes` what a command adds to its help.
    """
    for row in rows:
        text = f"{row.help} {(notes or {}).get(row.name, '')}".strip()
        common = dict(dest=row.name, help=text.replace("%", "%%"), default=default_of(row))
        if row.type == "flag":
            action = "store_false" if row.flag.startswith("--no-") else "store_true"
            parser.add_argument(row.flag, action=action, **common)
        elif row.type == "texts":
            common["default"] = []
            parser.add_argument(row.flag, action="append", metavar=row.value, **common)
        else:
            kind = {"count": int, "integer": int, "seconds": float}.get(row.type, str)
            values = (choices or {}).get(row.name)
            metavar = None if values else row.value
            parser.add_argument(row.flag, type=kind, metavar=metavar, choices=values, **common)
