"""Steps of timelines as arrays: what ran when, for the figures."""

import json
from collections import Counter

import numpy as np

from ..base.native import native
from ..errors import TimelineError
from .styles import style_of

# Above this a browser needs more than some seconds, and the page more than 10 MB.
MOST_EVENTS = 100_000
MILLI = 1e-6  # of a nanosecond


class Commands:
    """The commands of all rank programs in one table. A command's row is its place behind `starts[rank program]`."""

    def __init__(self, programs):
        self.starts = np.cumsum([0] + [len(program) for program in programs])
        self.rows = [command for program in programs for command in program]

    def place(self, program, places):
        """Rows of the table."""
        return self.starts[program] + np.asarray(places, dtype=np.int64)


class Rank:
    """What one rank did: arrays of rows of `Commands`, and times in milliseconds since the step began."""

    def __init__(self, fields, commands):
        self.number, self.program = fields["rank"], fields["program"]
        events = fields["events"]
        self.command = commands.place(self.program, events["place"])
        self.iteration = np.asarray(events["iteration"], dtype=np.int64)
        self.begin, self.end = _times(events)
        self.exposed, self.late = fields["exposed"], fields["late"]
        self.idle = _without_launches(fields["idle"])
        for table in (self.exposed, self.late, self.idle):
            table["begin"], table["end"] = _times(table)
            for key in ("place", "for"):
                if key in table:
                    places = np.asarray(table[key], dtype=np.int64)
                    row = commands.place(self.program, places)
                    table[key] = np.where(places < 0, -1, row)


def _without_launches(idle):
    """Gaps between commands are seen without a bar."""
    keep = [i for i, why in enumerate(idle["why"]) if why != "launch"]
    return {key: [values[i] for i in keep] for key, values in idle.items()}


def _times(table):
    return tuple(np.asarray(table[key], dtype=np.float64) * MILLI for key in ("begin", "end"))


class StepTimes:
    """One step of a timeline, `title` says which."""

    def __init__(self, fields, commands):
        source = fields["predicted_from"]
        self.program, self.is_predicted = fields["program"], bool(source)
        self.milliseconds = fields["seconds"] * 1e3
        self.number, self.queues, self.commands = fields["step"], fields["queues"], commands
        self.title = f"predicted from {source}" if source else f"measured, step {self.number}"
        self.ranks = [Rank(rank, commands) for rank in fields["ranks"]]


def read_step(timeline, predicted=None, step=None, ranks=()):
    """A step of the file `timeline`, or of its prediction `predicted`. Raises TimelineError."""
    text = native().print_step(timeline, predicted, step, list(ranks))
    fields = json.loads(text)
    return StepTimes(fields, Commands(fields["commands"]))


def _spread(items, count):
    """So many of them at equal distances, from the first to the last."""
    return [items[i * (len(items) - 1) // max(1, count - 1)] for i in range(count)]


def thin_out(steps):
    """Leaves as many ranks, at equal distances, as have room on one page in all steps."""
    ranks, runs = [rank.number for rank in steps[-1].ranks], Counter()
    for step in steps:
        runs.update({rank.number: len(rank.command) for rank in step.ranks})
    for count in range(len(ranks), 0, -1):
        kept = set(_spread(ranks, count))
        if sum(runs[rank] for rank in kept) <= MOST_EVENTS:
            break
    for step in steps:
        step.ranks = [rank for rank in step.ranks if rank.number in kept]


def check_room(steps):
    """TimelineError where a step has more than a page can show."""
    for step in steps:
        count = sum(len(rank.command) for rank in step.ranks)
        if count > MOST_EVENTS:
            raise TimelineError(
                f"{count} commands ran on the {len(step.ranks)} ranks of a page,"
                f" expected at most {MOST_EVENTS}: name fewer with --ranks"
            )


def styles_of(step):
    """The style of each command of a step, as a number, and the list of them."""
    numbers, styles = {}, []
    is_pipeline = any(command["action"] for command in step.commands.rows)
    of_command = np.zeros(len(step.commands.rows), dtype=np.int64)
    for row, command in enumerate(step.commands.rows):
        style = style_of(command, is_pipeline)
        if style not in numbers:
            numbers[style] = len(styles)
            styles.append(style)
        of_command[row] = numbers[style]
    return of_command, styles
