"""Memory of ranks over a step: from the Program's values, and when their commands ran."""

from collections import defaultdict

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool
from bokeh.plotting import figure

from ..base.native import native
from ..errors import TandemError, TimelineError
from . import text

_MOST_POINTS = 4000  # of a curve; the peak is one of them
_SHOWN = 12
_DASHES = ["solid", "dashed", "dotted", "dotdash"]
_COLOURS = ["#1b4f8a", "#c05a00", "#2e7d4f", "#7a4a94"]


class Held:
    """What a rank holds: times in milliseconds and bytes of the steps of a curve, and the values at the peak."""

    def __init__(self, program, rank, run, starts):
        self.rank = rank
        spans = program.held_spans(rank)
        rank_program = program.rank_programs[program.rank_to_program[rank]]
        self.own = program.held_bytes(rank) - sum(arena.bytes for arena in rank_program.arenas)
        self._runs = _runs_of(run, starts)
        pieces = [piece for span in spans for piece in self._times(span)]
        self._begin, self._end = (np.array([p[i] for p in pieces], dtype=float) for i in (0, 1))
        self._bytes = np.array([p[2] for p in pieces], dtype=np.int64)
        self._maker = np.array([p[3] for p in pieces], dtype=np.int64)
        self._sum()

    def _times(self, span):
        """(begin, end, bytes, place of the maker) of a value, once or in each iteration."""
        first, last = self._runs.get(span.first), self._runs.get(span.last)
        if not first or not last:
            return
        end = 0 if span.is_replaced else 1
        if span.iterations:
            for iteration in range(span.iterations):
                if iteration in first and iteration in last:
                    yield first[iteration][0], last[iteration][end], span.bytes, span.first
        else:
            made = max(first) if span.from_last else min(first)
            yield first[made][0], last[max(last)][end], span.bytes, span.first

    def _sum(self):
        """The curve. What ends at a time makes room for what begins then."""
        times = np.concatenate([self._begin, self._end])
        changes = np.concatenate([self._bytes, -self._bytes])
        order = np.lexsort((changes, times))
        times, held = times[order], self.own + np.cumsum(changes[order])
        last = np.append(times[1:] != times[:-1], True)[: len(times)]
        self.times, self.bytes = times[last], held[last]
        peak = int(np.argmax(self.bytes)) if len(self.bytes) else 0
        self.peak = int(self.bytes[peak]) if len(self.bytes) else self.own
        self.peak_time = float(self.times[peak]) if len(self.bytes) else 0.0

    def at_peak(self):
        """{place of the maker: (values, bytes)}."""
        held = (self._begin <= self.peak_time) & (self._end > self.peak_time)
        result = defaultdict(lambda: [0, 0])
        for place, size in zip(self._maker[held], self._bytes[held], strict=True):
            result[int(place)][0] += 1
            result[int(place)][1] += int(size)
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
    """{place: {iteration: (begin, end)}} of the commands of a rank."""
    runs = defaultdict(dict)
    places = run.command - starts[run.program]
    for place, iteration, begin, end in zip(
        places.tolist(), run.iteration.tolist(), run.begin.tolist(), run.end.tolist(), strict=True
    ):
        runs[place][iteration] = begin, end
    return runs


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
    """The figure; its time is that of the timeline."""
    plot = figure(
        title="bytes that a rank holds",
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
