"""The timeline of steps as figures: a lane for what a rank computes, one for its collectives, one per queue of transfers."""

import numpy as np
from bokeh.models import (
    BoxZoomTool,
    CDSView,
    ColumnDataSource,
    CustomJS,
    CustomJSHover,
    FixedTicker,
    HoverTool,
    IndexFilter,
    Legend,
    LegendItem,
    PanTool,
    Range1d,
    ResetTool,
    TapTool,
    WheelZoomTool,
)
from bokeh.plotting import figure

from .steps import styles_of
from .styles import EXPOSED, IDLE, LATE

# Pixels of a lane, and the least ones; lanes between ranks; share of a lane.
_LANE, _LEAST_LANE, _GAP, _BAR = 22, 8, 0.45, 0.86
_LEAST_WORDS = 14  # pixels of a lane that has words of its own
_HEIGHT = 1600  # pixels of a figure; above that lanes are lower
_COLUMNS = 2000  # in which bars are told apart: more than pixels of most screens
_TIPS = [
    ("operator", "command", "name"),
    ("kind", "command", "kind"),
    ("source", "command", "source"),
    ("bytes", "command", "bytes"),
    ("strand", "command", "strand"),
    ("time", "length", "time"),
]
_EXPOSED_TIPS = [
    ("exposed", "command", "name"),
    ("why", "why", "why"),
    ("waits for", "for", "command"),
    ("time", "length", "time"),
]
_IDLE_TIPS = [
    ("nothing is computed", "why", "why"),
    ("waits for", "command", "command"),
    ("time", "length", "time"),
]
_LATE_TIPS = [("waits for a late rank", "command", "name"), ("time", "length", "time")]


class Table:
    """The commands as a source of Bokeh: numbers, and texts by their number in `words`."""

    def __init__(self, commands):
        self.words, self._numbers = [], {}
        rows = commands.rows
        columns = {
            key: np.array([self._number(row[key]) for row in rows], dtype=np.int32)
            for key in ("name", "kind", "source", "axes")
        }
        for key in ("bytes", "flops"):
            columns[key] = np.array([row[key] for row in rows], dtype=np.float64)
        for key in ("stage", "strand"):
            columns[key] = np.array([row[key] for row in rows], dtype=np.int32)
        self.source = ColumnDataSource(columns)

    def _number(self, word):
        if word not in self._numbers:
            self._numbers[word] = len(self.words)
            self.words.append(word)
        return self._numbers[word]


class Lanes:
    """Where bars stand: a number for each lane, downwards, and the words beside it."""

    def __init__(self, step, name_of):
        self.labels, self.rank_of = {}, {}
        self._lanes, self._next = {}, 0.0
        for rank in step.ranks:
            self._add(rank.number, "compute", f"{name_of(rank.number)} compute")
            self._add(rank.number, "communicate", "communicate")
            for queue in self._transfer_queues(step, rank):
                self._add(rank.number, queue, step.queues[queue]["name"])
            self._next += _GAP
        self._lane_pixels = min(_LANE, max(_LEAST_LANE, _HEIGHT / self._next))
        if self._lane_pixels < _LEAST_WORDS:
            self.labels = {self.compute(r.number): name_of(r.number) for r in step.ranks}

    def _add(self, rank, key, label):
        self._lanes[rank, key] = -self._next
        self.labels[-self._next] = label
        self._next += 1

    @staticmethod
    def _transfer_queues(step, rank):
        rows = step.commands.rows
        used = {row for row in np.unique(rank.command) if rows[row]["role"] == "transfer"}
        return sorted({rows[row]["queue"] for row in used})

    def of(self, step, rank, rows):
        """The lane of each row of commands."""
        unique, inverse = np.unique(rows, return_inverse=True)
        lanes = [self._lane(rank, step.commands.rows[row]) for row in unique]
        return np.array(lanes, dtype=np.float64)[inverse]

    def _lane(self, rank, command):
        role = command["role"]
        return self._lanes[rank, command["queue"] if role == "transfer" else role]

    def compute(self, rank):
        return self._lanes[rank, "compute"]

    @property
    def pixels(self):
        return int(self._next * self._lane_pixels)

    @property
    def range(self):
        return Range1d(-self._next + 0.4, 0.6)


class Tips:
    """Tooltips: texts are found by number, as a page holds each text once."""

    def __init__(self, table):
        self._format = CustomJSHover(
            args={"table": table.source, "words": table.words, "whys": WHYS},
            code="return tandemTip(format, value, table.data, words, whys)",
        )

    def make(self, renderers, rows):
        """`rows` are (label, column, format of tandemTip)."""
        return HoverTool(
            renderers=renderers,
            tooltips=[(label, f"@{column}{{{what}}}") for label, column, what in rows],
            formatters={f"@{column}": self._format for _, column, _ in rows},
        )


def _sort(columns):
    """By lanes, and there by time."""
    order = np.lexsort((columns["left"], columns["lane"]))
    return {key: values[order] for key, values in columns.items()}


def _seen(columns, end):
    """Bars that are seen where all the time is shown: of those of a lane that end in one column, the first.

    tandemZoom does the same for other ranges.
    """
    last = np.floor(columns["right"] / end * _COLUMNS)
    _, lane = np.unique(columns["lane"], return_inverse=True)
    furthest = np.maximum.accumulate(last + lane * 10 * _COLUMNS)
    return np.flatnonzero(np.diff(furthest, prepend=-1) > 0).tolist()


def _bars(plot, style, columns, **more):
    """Bars of one style; columns has lane, left, right, and what a tooltip says."""
    height = more.pop("height", _BAR)
    columns = _sort(columns)
    return plot.hbar(
        view=CDSView(filter=IndexFilter(indices=_seen(columns, plot.x_range.end))),
        y="lane",
        left="left",
        right="right",
        height=height,
        source=ColumnDataSource(columns),
        fill_color=style.fill,
        hatch_pattern=style.hatch,
        hatch_color=style.hatch_color,
        hatch_scale=6,
        hatch_weight=1,
        line_color=None,
        **more,
    )


def _of_ranks(step, lanes, make):
    """The columns that `make(rank)` gives, of all ranks."""
    parts = [make(rank) for rank in step.ranks]
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def _events(step, lanes):
    return _of_ranks(
        step,
        lanes,
        lambda rank: {
            "lane": lanes.of(step, rank.number, rank.command),
            "left": rank.begin,
            "right": rank.end,
            "command": rank.command.astype(np.int32),
            "iteration": rank.iteration.astype(np.int32),
            "rank": np.full(len(rank.command), rank.number, dtype=np.int16),
            "length": (rank.end - rank.begin).astype(np.float32),
        },
    )


def _marks(step, lanes, name):
    """Of `exposed` and `late`: thin bars on their collectives; of `idle`: on the lane of computation."""

    def of(rank):
        table = getattr(rank, name)
        count = len(table["begin"])
        is_idle = "place" not in table
        row = table["for"] if is_idle else table["place"]
        lane = (
            np.full(count, lanes.compute(rank.number))
            if is_idle
            else lanes.of(step, rank.number, row)
        )
        columns = {
            "lane": lane if is_idle else lane + (0.28 if name == "late" else -0.28),
            "left": table["begin"],
            "right": table["end"],
            "command": np.asarray(row, dtype=np.int32),
            "rank": np.full(count, rank.number, dtype=np.int16),
            "length": (table["end"] - table["begin"]).astype(np.float32),
        }
        if name != "late":
            columns["why"] = np.array([_WHY[why] for why in table["why"]], dtype=np.int32)
        if name == "exposed":
            columns["for"] = np.asarray(table["for"], dtype=np.int32)
        return columns

    return _of_ranks(step, lanes, of)


WHYS = [
    "computation waits for it",
    "computation waits for another queue",
    "nothing is computed yet",
    "nothing is left to compute",
    "between two commands",
]
_WHY = {"collective": 0, "computation": 1, "beginning": 2, "end": 3, "launch": 4}


def _figure(step, lanes, x_range, width_words):
    plot = figure(
        title=f"{step.title}: {step.milliseconds:.4g} ms",
        x_range=x_range,
        y_range=lanes.range,
        height=lanes.pixels + 90,
        sizing_mode="stretch_width",
        tools=[PanTool(dimensions="width"), BoxZoomTool(dimensions="width"), ResetTool()],
        output_backend="canvas",
    )
    wheel = WheelZoomTool(dimensions="width", modifiers="ctrl")
    plot.add_tools(wheel)
    plot.toolbar.active_scroll = wheel
    plot.toolbar.logo = None
    plot.yaxis.ticker = FixedTicker(ticks=list(lanes.labels))
    plot.yaxis.major_label_overrides = dict(lanes.labels)
    plot.yaxis.major_tick_line_color = None
    plot.min_border_left = width_words
    plot.ygrid.grid_line_color = None
    plot.xaxis.axis_label = "ms"
    return plot


def draw_step(step, table, x_range, name_of, sources):
    """The figure of a step. Adds its sources of events to `sources`: a click compares with those of other steps."""
    lanes = Lanes(step, name_of)
    plot = _figure(step, lanes, x_range, 150)
    items, of_events = [], []
    idle = _bars(plot, IDLE, _marks(step, lanes, "idle"), height=0.5)
    events, (style_of, styles) = _events(step, lanes), styles_of(step)
    style = style_of[events["command"]]
    for number, entry in enumerate(styles):
        chosen = style == number
        if not chosen.any():
            continue
        columns = {key: values[chosen] for key, values in events.items()}
        bars = _bars(plot, entry, columns, nonselection_fill_alpha=1, nonselection_hatch_alpha=1)
        items.append(LegendItem(label=entry.label, renderers=[bars]))
        of_events.append(bars)
    thin = {"height": 0.3}
    exposed = _bars(plot, EXPOSED, _marks(step, lanes, "exposed"), **thin)
    late = _bars(plot, LATE, _marks(step, lanes, "late"), **thin)
    for entry, bars in ((EXPOSED, exposed), (LATE, late), (IDLE, idle)):
        if len(bars.data_source.data["left"]):
            items.append(LegendItem(label=entry.label, renderers=[bars]))
    plot.add_layout(
        Legend(
            items=items,
            orientation="horizontal",
            label_text_font_size="11px",
            spacing=4,
            glyph_width=14,
            click_policy="hide",
            padding=2,
            margin=4,
            border_line_color=None,
        ),
        "above",
    )
    tips = Tips(table)
    plot.add_tools(tips.make(of_events, _TIPS), TapTool(renderers=of_events))
    for bars, rows in ((exposed, _EXPOSED_TIPS), (idle, _IDLE_TIPS), (late, _LATE_TIPS)):
        plot.add_tools(tips.make([bars], rows))
    sources.append(
        {
            "title": "predicted" if step.is_predicted else f"measured, step {step.number}",
            "events": [bars.data_source for bars in of_events],
            "exposed": exposed.data_source,
        }
    )
    return plot


def follow_zoom(figures):
    """Draws the bars that a range tells apart: thousands of one pixel would take seconds."""
    bars = [bar for plot in figures for bar in plot.renderers]
    callback = CustomJS(
        args={"bars": bars, "columns": _COLUMNS}, code="tandemZoom(cb_obj, bars, columns)"
    )
    for name in "start", "end":
        figures[0].x_range.js_on_change(name, callback)


def select_by_click(figures, sources, table):
    """A click on a bar shows all about it below the figures, in every step."""
    show = CustomJS(
        args={"steps": sources, "table": table.source, "words": table.words, "whys": WHYS},
        code="tandemSelect(cb_data.source, steps, table.data, words, whys)",
    )
    for plot in figures:
        plot.select(TapTool).callback = show
