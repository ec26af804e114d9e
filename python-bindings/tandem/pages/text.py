"""Numbers and tables as HTML."""

from html import escape


def seconds(value):
    """Three units, four digits."""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if abs(value) * factor >= 1 or unit == "µs":
            return f"{value * factor:.4g} {unit}"


def size(value):
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "KB")):
        if value >= 1000**power:
            return f"{value / 1000**power:.4g} {unit}"
    return f"{value:.4g} B"


def percent(share):
    return f"{100 * share:.1f} %"


def place(location):
    """The last two parts of each path are enough."""
    return ", ".join("/".join(path.split("/")[-2:]) for path in location.split(", "))


class Numeric(str):
    """A cell that stands to the right."""


def table(heads, rows):
    """`Numeric` cells and heads stand to the right."""

    def cell(tag, text):
        kind = ' class="n"' if isinstance(text, Numeric) else ""
        return f"<{tag}{kind}>{escape(str(text))}</{tag}>"

    head = "".join(cell("th", text) for text in heads)
    body = "".join(f"<tr>{''.join(cell('td', text) for text in row)}</tr>\n" for row in rows)
    return f"<table><tr>{head}</tr>\n{body}</table>\n"


def folded(summary, content, more="", is_open=False):
    """A part that a click opens; `more` stands behind its heading in grey."""
    state = " open" if is_open else ""
    return (
        f"<details{state}><summary>{escape(summary)} <span>{escape(more)}</span></summary>\n"
        f"{content}</details>\n"
    )


def note(text):
    return f'<p class="note">{escape(text)}</p>\n'
