"""What tests read out of printed IR."""

import re

# Where an operator does not begin, a long line goes on (`Support/FoldLines.h`).
_FOLD = re.compile(r"\n +(?! |%[\w:]+(?:, %[\w:]+)* = |return|func\.func|\})")
_ALIAS = re.compile(r"^(#\w+) = (.*)$", re.M)


def operators_of(text):
    """The operators of `nn`, each on one line, with what the aliases of their attributes stand for."""
    text = _FOLD.sub(" ", text)
    aliases = {name: value for name, value in _ALIAS.findall(text) if not name.startswith("#loc")}
    return [
        re.sub(r"#\w+", lambda found: aliases.get(found[0], found[0]), line.strip())
        for line in text.splitlines()
        if " = nn." in line
    ]
