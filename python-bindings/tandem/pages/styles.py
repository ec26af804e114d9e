"""Colours and patterns of what runs. They differ in luminance or pattern too, so a page reads in black and white."""

from dataclasses import dataclass

DARK, GREY = "#202020", "#767676"


@dataclass(frozen=True)
class Style:
    """How the bars of one kind look: its words in the legend, and Bokeh's fill and hatch."""

    label: str
    fill: str
    hatch: str = " "
    hatch_color: str = DARK


# By strand: what it computes, and what it communicates. Modulo their number.
_STRANDS = [
    ("#1b4f8a", "#a9c9ec"),
    ("#f2a541", "#fbe3bf"),
    ("#3f8f5c", "#bfe3cb"),
    ("#b58bc9", "#ecdff3"),
]
_ACTIONS = {
    "F": Style("forward", "#9ecae9"),
    "I": Style("backward, inputs", "#f2a541", "-"),
    "B": Style("backward", "#1b4f8a"),
    "W": Style("backward, weights", "#3f8f5c", "."),
    "S": Style("sums of gradients", "#e6d98a", "/"),
    "U": Style("update", "#111111"),
}
_SHARED = Style("shared by strands", "#5a5a5a"), Style("shared communication", "#d5d5d5", "/")
_OTHER = Style("between passes", "#8a8a8a"), Style("collective", "#d5d5d5", "/")
_TRANSFER = Style("transfer", "#ffffff", "\\", GREY)

EXPOSED = Style("exposed", "#c8102e", "x", "#ffffff")
LATE = Style("waits for a late rank", "#ffffff", "v", GREY)
IDLE = Style("nothing is computed", "#f1f1f1")


def style_of(command, is_pipeline):
    """Of a command as `print_step` has it. A pipeline has colours of its passes, and not of strands."""
    role = command["role"]
    if role == "transfer":
        return _TRANSFER
    action = command["action"]
    if action == "S" or (action in _ACTIONS and role == "compute"):
        return _ACTIONS[action]
    strand, computes = command["strand"], role == "compute"
    if is_pipeline:
        return _OTHER[0 if computes else 1]
    if strand < 0:
        return _SHARED[0 if computes else 1]
    fill = _STRANDS[strand % len(_STRANDS)][0 if computes else 1]
    return Style(f"strand {strand} {role}s", fill, " " if computes else "/")
