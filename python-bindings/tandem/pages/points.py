"""The points of a pipeline, collectives, and reasons for idle time of a report, as HTML tables."""

from . import text

_REASONS, _RANKS, _COLLECTIVES = 3, 16, 10
_WHY = {
    "beginning": "nothing computed yet",
    "end": "nothing left to compute",
    "launch": "between commands",
    "needed": "computation needs it at once",
}


def reason(entry):
    """An entry of `idle_for` or `exposed_for` in words."""
    if "name" not in entry:
        return _WHY.get(entry["why"], entry["why"])
    source = f" ({text.place(entry['source'])})" if entry["source"] else ""
    name = "" if entry["name"] == entry["kind"] else f" {entry['name']}"
    return f"for {entry['kind']}{name}{source}"


def _reasons(entries):
    return "; ".join(f"{text.seconds(e['seconds'])} {reason(e)}" for e in entries[:_REASONS])


def points(report):
    """Bubble, idle time and its causes, and activations of each point."""
    n = text.Numeric
    rows = []
    for entry in report["points"]:
        rows.append(
            (
                str(entry["point"]),
                n(text.percent(entry["bubble"])),
                n(text.percent(entry["predicted"]) if "predicted" in entry else ""),
                n(text.seconds(entry["idle"])),
                n(text.size(entry["values"]) if "values" in entry else ""),
                _reasons(entry["idle_for"]),
            )
        )
    heads = "point", n("bubble"), n("predicted"), n("idle"), n("activations"), "idle"
    edges = [
        (
            f"{edge['from']} to {edge['to']}",
            n(text.size(edge["bytes"])),
            n(f"{edge['transfers']:g}"),
        )
        for edge in report["edges"]
    ]
    return text.table(heads, rows) + text.table(
        ("edge", n("sent in a step"), n("transfers")), edges
    )


def ranks(report):
    """Idle time of each rank, where there are no points."""
    n = text.Numeric
    rows = [
        (
            str(rank["rank"]),
            n(text.seconds(rank["computation"])),
            n(text.seconds(rank["communication"])),
            n(text.percent(rank["hidden_of_min"])),
            n(text.seconds(rank["exposed"])),
            n(text.seconds(rank["idle"])),
            _reasons(rank["idle_for"]),
        )
        for rank in report["ranks"][:_RANKS]
    ]
    heads = (
        "rank",
        n("computes"),
        n("communicates"),
        n("hidden of min"),
        n("exposed"),
        n("idle"),
        "idle",
    )
    left = len(report["ranks"]) - _RANKS
    return text.table(heads, rows) + (text.note(f"{left} more ranks.") if left > 0 else "")


def collectives(report):
    """The most exposed collectives."""
    n = text.Numeric
    rows = [
        (
            n(text.seconds(entry["exposed"])),
            n(text.seconds(entry["hidden"])),
            n(text.seconds(entry["seconds"])),
            n(text.seconds(entry["predicted"]["seconds"]) if "predicted" in entry else ""),
            n(text.size(entry["bytes"])),
            f"{entry['kind']} over {', '.join(entry['axes'])}",
            text.place(entry["source"]),
            _reasons(entry["exposed_for"]),
        )
        for entry in report["collectives"][:_COLLECTIVES]
    ]
    heads = (
        n("exposed"),
        n("hidden"),
        n("time"),
        n("predicted"),
        n("sent"),
        "collective",
        "source",
        "exposed",
    )
    return text.table(heads, rows) if rows else text.note("Nothing is communicated.")
