"""Report of hidden communication in a timeline of `Step.trace` or `tandem-run --trace`."""

import json
import os

from ..base import outputs
from ..base.job import together
from ..base.native import native
from ..errors import TandemError


class Report(dict):
    """The fields that docs/timelines.md lists; as a text it is the report for people."""

    def __init__(self, fields, text):
        super().__init__(fields)
        self._text = text

    def __str__(self):
        return self._text


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
    return Report(json.loads(fields), text)


def picture(timeline, path, step=None, ranks=(), width=1200):
    """Draws a step of the file `timeline` as SVG: by default that of median length, and the first eight ranks."""
    native().draw_picture(os.fspath(timeline), os.fspath(path), step, list(ranks), width)
