"""Memory of ranks over a step: from the Program's values, and when their commands ran."""

from collections import defaultdict

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool
from bokeh.plotting import figure

from ..base.native import native
from ..errors import TandemError, TimelineError
from . import text
from .steps import MILLI

_MOST_POINTS = 4000  # of a curve; the peak is one of them
_SHOWN, _MOST_CURVES = 12, 8
_DASHES = ["solid", "dashed", "dotted", "dotdash"]
_COLOURS = ["#1b4f8a", "#c05a00", "#2e7d4f", "#7a4a94"]


class Held:
    """What a rank holds: times in milliseconds and bytes of the steps of a curve, and the values at the peak."""

    def __init__(self, program, rank, run, starts):
        self.rank = rank
        use = program.memory_of(rank, _runs_of(run, starts))
        self.own, self.peak, self.peak_time = use.fixed, use.peak, use.peak_time * MILLI
        self.times, self.bytes = (np.array([p[i] for p in use.over_time]) for i in (0, 1))
        self.times = self.times * MILLI
        self._at_peak = [v for v in use.values if v.begin <= use.peak_time < v.end]

    def at_peak(self):
        """{place of the maker: (values, bytes)}."""
        result = defaultdict(lambda: [0, 0])
        for value in self._at_peak:
            result[value.maker][0] += 1
            result[value.maker][1] += value.bytes
        return result

    def curve(self):
        """Times and megabytes; of many points the largest in each piece."""
        count = len(self.times)
        if count <= _MOST_POINTS:
            return self.times, self.bytes / 1e6
        edges = np.linspace(0, count, _MOST_POINTS + 1).astype(int)
        largest = np.array(
            [a + np.argmax(self.bytes[a:b]) for a, b in zip(edges, edges[1:], strict=False)]
        )
        return self.times[largest], self.bytes[largest] / 1e6


def _runs_of(run, starts):
    """Place, iteration, begin and end of the commands of a rank, in nanoseconds."""
    times = (np.rint(time / MILLI).astype(np.int64) for time in (run.begin, run.end))
    columns = (run.command - starts[run.program], run.iteration, *times)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def read_program(path, expected):
    """The Program in the file `path`, with the hash `expected`."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        program, found = native().Program.load(data), native().program_hash(data)
    except TandemError as error:
        raise TimelineError(f"{path!r}: {error}") from None
    if found != expected:
        raise TimelineError(
            f"{path!r}: the Program is {found}, expected {expected} as the timeline"
        )
    return program


def hold(program, step):
    """`Held` of each rank of a step."""
    return [Held(program, run.number, run, step.commands.starts) for run in step.ranks]


def draw(holders, x_range, name_of):
    """The figure, of the ranks that hold most; its time is that of the timeline."""
    most = sorted(holders, key=lambda held: -held.peak)[:_MOST_CURVES]
    is_part = len(holders) > len(most)
    holders = [held for held in holders if held in most]
    plot = figure(
        title="bytes that a rank holds" + (f": the {len(most)} that hold most" if is_part else ""),
        x_range=x_range,
        height=260,
        sizing_mode="stretch_width",
        tools="xpan,reset",
        output_backend="canvas",
    )
    plot.toolbar.logo = None
    plot.min_border_left = 150
    plot.xaxis.axis_label, plot.yaxis.axis_label = "ms", "MB"
    plot.y_range.start = 0
    for number, held in enumerate(holders):
        times, megabytes = held.curve()
        look = {
            "line_color": _COLOURS[number % 4],
            "line_dash": _DASHES[number // 4 % 4 if len(holders) > 4 else number % 4],
        }
        source = ColumnDataSource(
            {"x": times, "y": megabytes, "name": [name_of(held.rank)] * len(times)}
        )
        plot.step(
            "x",
            "y",
            source=source,
            mode="after",
            line_width=2,
            legend_label=name_of(held.rank),
            **look,
        )
        plot.scatter(
            [held.peak_time],
            [held.peak / 1e6],
            size=9,
            marker="triangle",
            fill_color=look["line_color"],
            line_color="#000",
        )
    plot.add_tools(
        HoverTool(
            tooltips=[("", "@name"), ("holds", "@y{0.000} MB"), ("at", "@x{0.000} ms")],
            mode="vline",
        )
    )
    plot.add_layout(plot.legend[0], "above")
    plot.legend.orientation, plot.legend.border_line_color = "horizontal", None
    plot.legend.click_policy, plot.legend.padding = "hide", 3
    plot.y_range.range_padding = 0.25
    return plot


def tables(holders, step, name_of):
    """What each rank holds at its peak, as HTML; ranks of equal tables once."""
    parts = {}
    for held in holders:
        program = step.ranks[[rank.number for rank in step.ranks].index(held.rank)].program
        content = _table(held, step, program)
        parts.setdefault(content, []).append(held)
    return "".join(
        text.folded(
            f"Peak of {', '.join(name_of(held.rank) for held in group)}: {text.size(group[0].peak)}",
            content,
            f"at {text.seconds(group[0].peak_time / 1e3)}; {text.size(group[0].peak - group[0].own)} are"
            " activations, gradients and copies",
            is_open=number == 0,
        )
        for number, (content, group) in enumerate(parts.items())
    )


def _table(held, step, program):
    start = step.commands.starts[program]
    made = defaultdict(lambda: [0, 0])
    for place, (count, size) in held.at_peak().items():
        command = step.commands.rows[start + place]
        entry = made[command["name"], text.place(command["source"])]
        entry[0] += count
        entry[1] += size
    entries = sorted(made.items(), key=lambda entry: -entry[1][1])
    rows = [
        (text.Numeric(text.size(size)), text.Numeric(str(count)), name, source)
        for (name, source), (count, size) in entries[:_SHOWN]
    ]
    rest = entries[_SHOWN:]
    if rest:
        count, size = (sum(entry[1][i] for entry in rest) for i in (0, 1))
        rows.append(
            (text.Numeric(text.size(size)), text.Numeric(str(count)), f"{len(rest)} more", "")
        )
    rows.append(
        (
            text.Numeric(text.size(held.own)),
            text.Numeric(""),
            "parameters, states, inputs, results, constants",
            "",
        )
    )
    return text.table((text.Numeric("held"), text.Numeric("values"), "made by", "source"), rows)
