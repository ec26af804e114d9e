"""Prints docs/reference/options.md, from the table of options (include/tandem/Support/Options.def)."""

import textwrap

from tandem.base import options
from tandem.base.native import native

HEAD = """# Options

Generated from `include/tandem/Support/Options.def`. `tandem.compile` takes them as keywords,
`python -m tandem verify` and `tandem-compile` as flags, the pipelines of `tandem-opt` as options
of the stage that reads them.
"""
KEYS = """Keywords that change the Program are part of the key of the cache of Programs. The processes of a
job have to be given equal values, but for those that say otherwise.
"""


def sentence(text):
    return "\n".join(textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False))


def places(row):
    """Where the option is given."""
    argument = f"{row.flag} {row.value}".strip()
    if row.is_python and row.is_step:
        yield f"`tandem.compile(..., {row.name}={options.default_of(row)!r})`"
    if row.is_command and row.is_python:
        yield f"`python -m tandem verify {argument}`"
    if row.has_member and row.is_flag:
        yield f"`tandem-compile {argument}`"
    if row.reader not in ("step", "compiler"):
        yield f'`tandem-opt --tandem-{row.reader}="{row.name.replace("_", "-")}=..."`'


def section(row):
    lines = [f"## {row.name}", "", sentence(f"{row.help} {row.python}".strip()), ""]
    lines += [f"* {place}" for place in places(row)]
    if row.is_step and not row.is_compared:
        lines.append("* may differ between processes")
    return "\n".join(lines)


def presets():
    rows = [f"* `{preset.name}`: {preset.help}" for preset in native().preset_table()]
    return "\n".join(["# Presets", "", *rows])


print("\n".join([HEAD, KEYS]))
print("\n\n".join([*map(section, native().option_table()), presets()]))
