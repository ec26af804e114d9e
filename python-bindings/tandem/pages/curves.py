"""A sweep as a page: curves over the number of devices, and the table."""

from bokeh.models import ColumnDataSource, HoverTool
from bokeh.plotting import figure

from . import text
from .page import render

# By plan: colour and marker; by bandwidth: dashes. They differ in black and white.
_LOOKS = {
    "search": ("#111111", "circle"),
    "zero": ("#1b4f8a", "square"),
    "tensor-parallel": ("#f2a541", "triangle"),
    "pipeline": ("#3f8f5c", "diamond"),
}
_DASHES = ("solid", "dashed", "dotted", "dotdash", "dashdot")


def _curves(rows):
    """{(plan, bandwidth): rows by devices}. Where no bandwidth matters, rows belong to each one."""
    bandwidths = list(dict.fromkeys(row["bandwidth"] for row in rows if row["bandwidth"])) or [""]
    found = {}
    for row in rows:
        if not row["seconds"]:
            continue
        for bandwidth in [row["bandwidth"]] if row["bandwidth"] else bandwidths:
            found.setdefault((row["plan"], bandwidth), []).append(row)
    return found, bandwidths


def _draw(rows, name, value):
    curves, bandwidths = _curves(rows)
    plot = figure(
        height=320,
        sizing_mode="stretch_width",
        x_axis_type="log",
        y_axis_type="log",
        tools="pan,wheel_zoom,reset",
        output_backend="canvas",
    )
    for (plan, bandwidth), own in curves.items():
        color, marker = _LOOKS[plan]
        source = ColumnDataSource(
            {
                "devices": [row["devices"] for row in own],
                "value": [value(row) for row in own],
                "mesh": [_mesh(row) for row in own],
                "words": [f"{plan} {bandwidth}".strip()] * len(own),
                "fill": [color if row["fits"] else "#ffffff" for row in own],
            }
        )
        label = f"{plan} {bandwidth}".strip()
        dash = _DASHES[bandwidths.index(bandwidth) % len(_DASHES)]
        plot.line(
            "devices", "value", source=source, color=color, line_dash=dash, legend_label=label
        )
        plot.scatter(
            "devices",
            "value",
            source=source,
            size=8,
            marker=marker,
            line_color=color,
            fill_color="fill",
            legend_label=label,
        )
    plot.add_layout(plot.legend[0], "right")
    plot.legend.click_policy = "hide"
    plot.xaxis.axis_label, plot.yaxis.axis_label = "devices", name
    plot.xaxis.ticker = sorted({row["devices"] for row in rows})
    plot.add_tools(
        HoverTool(
            tooltips=[("", "@words"), ("devices", "@devices"), (name, "@value"), ("mesh", "@mesh")]
        )
    )
    return plot


def _mesh(row):
    return f"{row['mesh']} ({row['of']})" if row["of"] else row["mesh"]


def _table(rows):
    heads = ["devices", "bandwidth", "plan", "mesh", "step", "items/s", "MFU", "USD/step"]
    cells = [
        [
            text.Numeric(row["devices"]),
            row["bandwidth"] or "-",
            row["plan"],
            _mesh(row) if row["seconds"] else row["why"],
            text.Numeric(text.seconds(row["seconds"]) if row["seconds"] else "-"),
            text.Numeric(f"{row['rate']:.4g}" if row["seconds"] else "-"),
            text.Numeric("-" if row["mfu"] is None else text.percent(row["mfu"])),
            text.Numeric("-" if row["cost"] is None else f"{row['cost']:.3g}"),
            text.Numeric(text.size(row["peak"]) if row["seconds"] else "-"),
            ("yes" if row["fits"] else "no") if row["seconds"] else "-",
        ]
        for row in rows
    ]
    return text.table([*heads, "peak", "fits"], cells)


def make_page(rows, title):
    """The page as a text. `rows` are those of a sweep, as dicts."""
    done = [row for row in rows if row["seconds"]]
    items = next((row["items"] for row in done), "items")
    charts = [("Seconds of a step", lambda row: row["seconds"])]
    charts.append((f"{items} per second", lambda row: row["rate"]))
    if any(row["cost"] for row in done):
        charts.append(("USD per step", lambda row: row["cost"]))
    charts.append(("GB at the peak, of the rank that holds most", lambda row: row["peak"] / 1e9))
    figures = (
        {f"chart{n}": _draw(done, name, of) for n, (name, of) in enumerate(charts)} if done else {}
    )
    best = min((row for row in done if row["fits"]), key=lambda row: row["seconds"], default=None)
    line = (
        f"fastest that fits: {best['plan']} on {best['devices']} devices ({best['mesh']}), {text.seconds(best['seconds'])} a step"
        if best
        else "no plan fits"
    )

    def sections(divs):
        for n, (name, _) in enumerate(charts if done else ()):
            yield name, divs[f"chart{n}"]
        yield "All points", text.note("Hollow points do not fit into memory.") + _table(rows)

    return render(f"Sweep of {title}", line, "", figures, sections)
