"""Report of hidden communication in a timeline of `Step.trace` or `tandem-run --trace`."""

import json
import os
from html import escape

from ..base import outputs
from ..base.job import together
from ..base.native import native
from ..errors import TandemError


class Report(dict):
    """The fields that docs/timelines.md lists; as a text it is the report for people, in a notebook its page."""

    def __init__(self, fields, text, files):
        """`files` are the timeline and the prediction, or None, that it was read from."""
        super().__init__(fields)
        self._text, self._files = text, files

    def __str__(self):
        return self._text

    def _repr_html_(self):
        timeline, predicted = self._files
        try:
            page = _pages().page_of([timeline], predicted=predicted)
        except (TandemError, OSError):  # no Bokeh, or the file is gone
            return f"<pre>{escape(self._text)}</pre>"
        return f'<iframe srcdoc="{escape(page)}" style="width:100%;height:800px;border:0"></iframe>'


def check_place(path, job):
    """That a timeline can be written there, of a job by process 0. All processes of it come here. Raises TandemError."""

    def check():
        if job is not None and job.process != 0:
            return
        try:
            outputs.check_place(path, outputs.TIMELINE)
        except OSError as error:
            raise TandemError(f"cannot write {str(path)!r}: {error.strerror}") from None

    together(job, "timeline", check)


def report(timeline, predicted=None, skip=0):
    """Reads the file `timeline`. Beside it stands what was predicted, where `predicted` is a file with a
    predicted timeline or a table of seconds for the same Program. The first `skip` steps do not count.
    """
    predicted = None if predicted is None else os.fspath(predicted)
    text, fields = native().report(os.fspath(timeline), predicted, skip)
    return Report(json.loads(fields), text, (os.fspath(timeline), predicted))


def _pages():
    try:
        from ..pages import page
    except ModuleNotFoundError as error:
        raise TandemError(f"a page needs bokeh ({error}), expected `pip install bokeh`") from None
    return page


def page(
    timelines,
    path,
    predicted=None,
    program=None,
    plan=None,
    explanation=None,
    step=None,
    ranks=(),
    skip=0,
):
    """Writes a page for a browser, which needs no network, to `path`: a step of each of `timelines`, files of one Program.

    `predicted` and `skip` are as in `report`. `program`, `plan` and `explanation` are files of the same step: with them the
    page has memory over time, the plan as the model's layers, and what the search could have taken. `step` and `ranks`
    say what is drawn; default: the step of median length, and a rank of each point, or the first eight.
    """
    if isinstance(timelines, (str, os.PathLike)):
        timelines = [timelines]
    files = dict(predicted=predicted, program=program, plan=plan, explanation=explanation)
    files = {name: None if file is None else os.fspath(file) for name, file in files.items()}
    timelines = [os.fspath(timeline) for timeline in timelines]
    _pages().write_page(os.fspath(path), timelines, files, step=step, ranks=ranks, skip=skip)


def picture(timeline, path, step=None, ranks=(), width=1200):
    """Draws a step of the file `timeline` as SVG: by default that of median length, and the first eight ranks."""
    native().draw_picture(os.fspath(timeline), os.fspath(path), step, list(ranks), width)
