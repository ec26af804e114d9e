"""Reports of a step: its plan, its Program, and timelines of its runs."""

import contextlib
import os

from ..base.native import native
from ..errors import RunError
from .explanations import explain
from .timeline import check_place, report


class Reports:
    """Owns which timeline this process wrote last. `session` is that of the first Program, `program` its bytes.

    `compiled` are the reports of the compiler, None of a step without a plan. `planned` are `cluster`,
    `memory`, `recompute` and `accumulate`, as the step was compiled.
    """

    def __init__(self, compiled, module, program, session, job, **planned):
        self.compiled, self._module, self._bytes = compiled, module, program
        self._session, self._job, self._planned = session, job, planned
        self._timeline = None

    @property
    def plan(self):
        """What `Step.plan` says."""
        return self.compiled.plan_table if self.compiled else ""

    def explain(self, path, file, search_time_limit):
        """What `Step.explain` says."""
        return explain(
            self.compiled,
            self._module,
            path=path,
            file=file,
            search_time_limit=search_time_limit,
            **self._planned,
        )

    @property
    def program(self):
        """What `Step.program` says."""
        return self._session.program

    def save_program(self, path):
        """What `Step.save_program` says."""
        native().write_program(os.fsdecode(path), self._bytes)

    @contextlib.contextmanager
    def trace(self, path):
        """What `Step.trace` says."""
        check_place(os.fspath(path), self._job)
        self._session.start_trace()
        try:
            yield
        except BaseException as error:
            # An error of a step is that of all processes; of another one they know nothing.
            with contextlib.suppress(RunError):
                self._write_trace(path, alone=not isinstance(error, RunError))
            raise
        self._write_trace(path)

    def _write_trace(self, path, alone=False):
        self._session.stop_trace()
        is_here, lacks = self._session.write_trace(os.fspath(path), alone)
        self._timeline = os.fspath(path) if is_here else None
        if lacks:
            raise RunError(lacks)

    def report(self, predicted, skip):
        """What `Step.report` says."""
        return None if self._timeline is None else report(self._timeline, predicted, skip)

    def hidden_share(self):
        """What `Step.hidden_share` says."""
        return self._session.hidden_share()
