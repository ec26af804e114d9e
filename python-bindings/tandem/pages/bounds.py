"""The bounds of a step beside its result: bars of computation, communication, perfect overlap, prediction and measurement."""

from bokeh.models import ColumnDataSource, HoverTool
from bokeh.plotting import figure

from . import text


def rows_of(report, is_prediction, explanation=None):
    """[(label, seconds, fill, hatch)], downwards. Of ranks that differ the largest counts.

    The search's proven bound is none of the step: its prices count operators that kernels join.
    """
    ranks, total = report["ranks"], report["total"]
    compute = max(rank["computation"] for rank in ranks)
    communicate = max(rank["communication"] - rank["waited_for_peers"] for rank in ranks)
    result = "predicted step" if is_prediction else "measured step"
    rows = [
        ("computation", compute, "#1b4f8a", " "),
        ("communication without late ranks", communicate, "#a9c9ec", "/"),
        ("perfect overlap: the larger of both", max(compute, communicate), "#ffffff", "x"),
        (result, total["seconds"], "#404040", " "),
    ]
    if "predicted" in total:
        rows.append(("predicted step", total["predicted"]["seconds"], "#9a9a9a", "\\"))
    if explanation:
        cost = explanation["time"]["predicted"]
        rows.append(("cost of the plan, before kernels join", cost, "#f2a541", "-"))
    return rows


def draw(rows):
    names = [label for label, *_ in rows]
    plot = figure(
        y_range=names[::-1],
        height=44 + 26 * len(rows),
        sizing_mode="stretch_width",
        tools="",
        output_backend="canvas",
    )
    source = ColumnDataSource(
        {
            "name": names,
            "value": [1e3 * value for _, value, _, _ in rows],
            "fill": [fill for _, _, fill, _ in rows],
            "hatch": [hatch for *_, hatch in rows],
            "words": [text.seconds(value) for _, value, _, _ in rows],
        }
    )
    plot.hbar(
        y="name",
        right="value",
        height=0.7,
        source=source,
        fill_color="fill",
        hatch_pattern="hatch",
        hatch_scale=6,
        hatch_weight=1,
        line_color="#333",
    )
    plot.text(
        x="value",
        y="name",
        text="words",
        source=source,
        x_offset=5,
        text_baseline="middle",
        text_font_size="12px",
    )
    plot.x_range.start, plot.x_range.range_padding = 0, 0.25
    plot.xaxis.axis_label = "ms"
    plot.min_border_left = 240
    plot.add_tools(HoverTool(tooltips=[("", "@name"), ("", "@words")]))
    plot.toolbar_location = None
    return plot
