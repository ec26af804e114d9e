"""Charts as SVG: lines and points on two linear or logarithmic axes."""

import math
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 720, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 40, 50
COLOURS = ("#1f5fa8", "#c8501e", "#2e8b57", "#8a4fa8", "#b8860b", "#4a4a4a", "#c2185b", "#00838f")


class Axis:
    """Maps values to pixels from `begin` to `end`; a linear one starts at `origin`."""

    def __init__(self, label, values, begin, end, logarithmic, origin=0.0):
        self.label, self.begin, self.end, self.logarithmic = label, begin, end, logarithmic
        low, high = min(values), max(values)
        if logarithmic:
            self.low, self.high = low / 1.15, high * 1.15
        else:
            self.low, self.high = origin, (high or 1.0) * 1.08
        self._low, self._high = self._scale(self.low), self._scale(self.high)

    def _scale(self, value):
        return math.log10(value) if self.logarithmic else value

    def place(self, value):
        share = (self._scale(value) - self._low) / (self._high - self._low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self):
        if self.logarithmic:
            decades = range(math.floor(self._low), math.ceil(self._high) + 1)
            marks = [m * 10.0**d for d in decades for m in (1, 2, 5)]
        else:
            raw = (self.high - self.low) / 5
            unit = 10 ** math.floor(math.log10(raw))
            step = next(m * unit for m in (1, 2, 5, 10) if m * unit >= raw)
            marks = [i * step for i in range(int(self.high / step) + 1)]
        return [mark for mark in marks if self.low <= mark <= self.high]


class Chart:
    """`series` is {name: [(x, y)]}; names in `lines` are joined, those in `bounds` dashed, the others are points."""

    def __init__(
        self,
        title,
        x_label,
        y_label,
        series,
        lines=(),
        bounds=(),
        logarithmic=(False, False),
        origin=(0.0, 0.0),
    ):
        self.title, self.series, self.lines, self.bounds = title, series, lines, bounds
        points = [point for values in series.values() for point in values]
        self.x = Axis(
            x_label, [x for x, _ in points], LEFT, WIDTH - RIGHT, logarithmic[0], origin[0]
        )
        self.y = Axis(
            y_label, [y for _, y in points], HEIGHT - BOTTOM, TOP, logarithmic[1], origin[1]
        )

    def write(self, path):
        parts = [self._frame(), *self._axes()]
        for number, (name, values) in enumerate(self.series.items()):
            parts += self._draw(name, values, COLOURS[number % len(COLOURS)], number)
        size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
        style = 'font-family="sans-serif" font-size="12"'
        text = "\n".join(parts)
        Path(path).write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{text}\n</svg>\n'
        )

    def _frame(self):
        return (
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
            f'<text x="{LEFT}" y="22" font-size="14">{escape(self.title)}</text>'
            f'<path d="M{LEFT},{TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="black"/>'
        )

    def _axes(self):
        middle = (LEFT + WIDTH - RIGHT) / 2
        yield f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">{escape(self.x.label)}</text>'
        turn = f'transform="rotate(-90 18 {HEIGHT / 2})"'
        yield f'<text x="18" y="{HEIGHT / 2}" text-anchor="middle" {turn}>{escape(self.y.label)}</text>'
        for mark in self.x.ticks():
            x = self.x.place(mark)
            yield f'<path d="M{x:.1f},{HEIGHT - BOTTOM}v5" stroke="black"/>'
            yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{mark:g}</text>'
        for mark in self.y.ticks():
            y = self.y.place(mark)
            yield f'<path d="M{LEFT - 5},{y:.1f}h5" stroke="black"/>'
            yield f'<path d="M{LEFT},{y:.1f}H{WIDTH - RIGHT}" stroke="#e4e4e4"/>'
            yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{mark:g}</text>'

    def _draw(self, name, values, colour, number):
        places = [(self.x.place(x), self.y.place(y)) for x, y in values]
        dashed = ' stroke-dasharray="6 4"' if name in self.bounds else ""
        if name in self.lines or name in self.bounds:
            path = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in places)
            yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dashed}/>'
        if name not in self.bounds:
            for x, y in places:
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}" fill-opacity="0.75"/>'
        left, top = WIDTH - RIGHT + 14, TOP + 10 + 18 * number
        yield f'<path d="M{left},{top - 4}h18" stroke="{colour}" stroke-width="3"{dashed}/>'
        yield f'<text x="{left + 24}" y="{top}">{escape(name)}</text>'
