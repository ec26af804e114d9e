"""A report as one page that needs no network: the timeline, memory, bounds, the plan and its alternatives."""

import json
from html import escape
from importlib import resources

from bokeh.embed import components
from bokeh.models import Range1d
from bokeh.resources import Resources

from ..base import outputs
from ..base.native import native
from ..errors import TimelineError
from . import bounds, memory, plans, points, text, timeline
from .steps import MOST_EVENTS, check_room, read_step, thin_out

_LARGEST = 10**7  # bytes
_MOST_RANKS = 8


def _file(name):
    return resources.files(__package__).joinpath(name).read_text()


def _ranks_of(report, ranks):
    """Those to draw: the named ones, or the first of each point, or the first ones."""
    points = [entry["ranks"][0] for entry in report["points"]]
    every = [entry["rank"] for entry in report["ranks"]]
    return list(ranks) or points or every[:_MOST_RANKS]


def _namer(report):
    """Words for a rank."""
    points = {rank: entry["point"] for entry in report["points"] for rank in entry["ranks"]}
    if len(points) == len(report["points"]):
        return lambda rank: f"point {points[rank]}" if rank in points else f"rank {rank}"
    return lambda rank: f"point {points[rank]}, rank {rank}" if rank in points else f"rank {rank}"


def read_report(path, predicted, skip):
    """The report as a dict, as docs/timelines.md says."""
    _, fields = native().report(path, predicted, skip)
    return json.loads(fields)


class Content:
    """What a page shows of `timelines`, of one Program, the first one below its prediction, if that is given."""

    def __init__(self, timelines, predicted, program, plan, explanation, step, ranks, skip=0):
        self.report = read_report(timelines[0], predicted, skip)
        self.name_of = _namer(self.report)
        self._read_plan(plan, explanation)
        self.chosen = _ranks_of(self.report, ranks)
        self.steps = [read_step(path, step=step, ranks=self.chosen) for path in timelines]
        for own, path in zip(self.steps[1:], timelines[1:], strict=True):
            self._expect_same(own, path, timelines[0])
        if predicted is not None:
            self.steps.insert(0, read_step(timelines[0], predicted, ranks=self.chosen))
        if not ranks:
            thin_out(self.steps)
        check_room(self.steps)
        self.is_prediction = self.steps[-1].is_predicted
        self.held = []
        if program is not None:
            self.held = memory.hold(
                memory.read_program(program, self.report["program"]), self.steps[-1]
            )

    def _read_plan(self, plan, explanation):
        self.explanation, self.peak_of_plan, self.plan_sections = None, "", []
        head = layers = ""
        if plan is not None:
            with plans.whole(plan, "plan file"):
                words = plans.read_plan(plan)
                plans.check_mesh(plan, words["mesh"][0], self.report)
        if explanation is not None:
            with plans.whole(explanation, "explanation"):
                self.explanation = plans.read_explanation(explanation)
                plans.check_mesh(explanation, self.explanation["mesh"], self.report)
                self.peak_of_plan = plans.peak(self.explanation)
                layers = plans.layers(self.explanation)
                self.plan_sections = list(_search_sections(self.explanation))
        if plan is not None:
            with plans.whole(plan, "plan file"):
                head = plans.head(words, self.explanation)
        if head or layers:
            self.plan_sections.insert(0, ("Plan", head + layers))

    def _expect_same(self, step, path, first):
        if step.program != self.report["program"]:
            raise TimelineError(
                f"{path!r}: the timeline is of program {step.program},"
                f" expected {self.report['program']} as {first!r}"
            )


def _figures(content):
    """{name: figure} of a page."""
    table, sources = timeline.Table(content.steps[0].commands), []
    longest = max(step.milliseconds for step in content.steps)
    x_range = Range1d(0, longest, bounds=(-0.02 * longest, 1.1 * longest))
    # A plan inside of sections is priced without the pipe axis: its cost is not that of the step.
    priced = None if content.report["points"] else content.explanation
    figures = {"bounds": bounds.draw(bounds.rows_of(content.report, content.is_prediction, priced))}
    for number, step in enumerate(content.steps):
        figures[f"step{number}"] = timeline.draw_step(
            step, table, x_range, content.name_of, sources
        )
    drawn = [figure for name, figure in figures.items() if name.startswith("step")]
    timeline.select_by_click(drawn, sources, table)
    timeline.follow_zoom(drawn)
    if content.held:
        figures["memory"] = memory.draw(content.held, x_range, content.name_of)
    return figures


def _left_out(content):
    """A note where a page has no room for all ranks."""
    drawn = [rank.number for rank in content.steps[-1].ranks]
    if len(drawn) == len(content.chosen):
        return ""
    names = ", ".join(content.name_of(rank) for rank in drawn)
    return text.note(
        f"Drawn are {len(drawn)} of {len(content.chosen)} ranks, as a page shows at most {MOST_EVENTS} runs of commands:"
        f" {names}. --ranks names others."
    )


def _title(content):
    report = content.report
    mesh = ", ".join(f"{axis}={extent}" for axis, extent in report["mesh"].items())
    total = report["total"]
    words = "predicted"
    if not content.is_prediction:
        drawn = text.seconds(1e-3 * content.steps[-1].milliseconds)
        words = f"median of {len(report['steps'])} steps; the drawn one takes {drawn}"
    line = f"{text.seconds(total['seconds'])} a step ({words}), {text.percent(total['hidden_of_min'])} of what can be hidden is"
    if "predicted" in total:
        error = total["predicted"]["seconds"] / total["seconds"] - 1
        line += f"; predicted {text.seconds(total['predicted']['seconds'])}, {100 * error:+.1f} %"
    return f"Step of {report['num_ranks']} ranks ({mesh})", line


def _sections(content, divs):
    """[(heading, HTML)]."""
    report = content.report
    steps = "".join(div for name, div in divs.items() if name.startswith("step"))
    yield "Bounds", divs["bounds"]
    yield (
        "Timeline",
        text.note(
            "Drag to move, Ctrl and wheel to zoom, click a bar for all about it, click the legend to hide."
        )
        + _left_out(content)
        + steps
        + '<div id="command" hidden></div>',
    )
    if content.held:
        tables = memory.tables(content.held, content.steps[-1], content.name_of)
        yield "Memory", divs["memory"] + tables
    elif content.explanation:
        yield "Memory", content.peak_of_plan
    if report["points"]:
        yield f"Points of axis {report['pipe_axis']}", points.points(report)
    else:
        yield "Ranks", points.ranks(report)
    yield "Collectives, the most exposed first", points.collectives(report)
    yield from content.plan_sections


def _search_sections(explanation):
    exposed = plans.exposures(explanation)
    if exposed:
        yield "What exposes communication in the plan", exposed
    yield "What the search could have taken instead", plans.alternatives(explanation)


def make_page(content):
    """The page as a text."""
    title, line = _title(content)
    notes = "".join(
        text.note(f"of rank {entry['rank']} events are missing: {entry['why']}")
        for entry in content.report["missing"]
    )
    if content.report["warning"]:
        notes += text.note(f"Warning: {content.report['warning']}")
    notes += f'<p class="note">Program <code>{escape(content.report["program"])}</code></p>\n'
    return render(title, line, notes, _figures(content), lambda divs: _sections(content, divs))


def render(title, line, notes, figures, sections):
    """A page as a text. `sections(divs)` are its headings with HTML, `divs` the figures by their names."""
    script, divs = components(figures) if figures else ("", {})
    body = "".join(f"<h2>{escape(head)}</h2>\n{html}\n" for head, html in sections(divs))
    library = Resources(mode="inline", components=["bokeh"]).render_js()
    page = (
        f'{outputs.PAGE_HEAD}<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f"<style>{_file('page.css')}</style>\n{library}\n<script>{_file('page.js')}</script>\n{script}\n"
        f"</head><body><h1>{escape(title)}</h1>\n<p>{escape(line)}</p>\n{notes}"
        f"{body}</body></html>\n"
    )
    if len(page) > _LARGEST:
        raise TimelineError(
            f"the page has {text.size(len(page))}, expected at most {text.size(_LARGEST)}: name fewer ranks"
        )
    return page


def page_of(timelines, predicted=None, program=None, plan=None, explanation=None, **more):
    """The page of files of one step as a text."""
    files = {"step": None, "ranks": ()} | more
    return make_page(Content(timelines, predicted, program, plan, explanation, **files))


def write_page(path, timelines, files, **more):
    """Writes the page of `Content(timelines, **files, **more)`."""
    outputs.check_place(path, outputs.PAGE, [*timelines, *files.values()])
    page = page_of(timelines, **files, **more)
    outputs.write(path, lambda part: part.write_text(page))
