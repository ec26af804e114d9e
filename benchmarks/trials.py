"""Shared parts of `make coverage`, `make conformance` and `make zoo`: cases trained in Tandem against eager.

Each unit of cases has its own process with limits. A unit is a model, or the samples of an operator. Results are JSON
lines; a table of reasons explains refused cases. A unit's results are one line, written when it ends. A unit with a
line is not tried again. If a process is killed, only its current case fails, and another process tries the rest.
"""

import argparse
import contextlib
import fnmatch
import json
import math
import multiprocessing
import os
import re
import resource
import sys
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
_PATIENCE = 4  # times the limit on the clock, for what waits

# Statuses of a case. `NOT_TRIED` says nothing of Tandem, and does not count.
WORKS, WRONG, REFUSED, UNCLEAR = "works", "WRONG", "refused", "unclear"
NOT_TRIED, TIMEOUT, ENDED = "not tried", "timeout", "ended"
BAD = (WRONG, UNCLEAR, TIMEOUT, ENDED)

# Why a case is refused: the first pattern that its error has. What has none of them is unclear.
REASONS = [
    ("internal error", r"internal|please report|planned 'as_wanted'"),
    ("operator", r"operator \S+ is not supported"),
    ("matching by SciPy", r"linear_sum_assignment"),
    ("random draw decides", r"a random number decides"),
    ("layers that the first step makes", r"eager's random call"),
    ("another way in a later step", r"the step has that way only"),
    ("NumPy", r"NumPy or SciPy is given"),
    ("random numbers of Python or NumPy", r"a number is drawn from"),
    ("rows that data chooses", r"rows that a mask chooses"),
    ("shape from data", r"a shape depends on data|depends on data \(aten\.(nonzero|unique|masked_select)"),
    ("number from data", r"a number of Python's|depends on data"),
    ("halo", r"halo"),
    ("batch does not divide", r"does not divide|not divisible"),
    ("element type", r"element type|found torch\.\w+, expected"),
    ("writes in the step", r"attribute .* (after|of) the first step"),
]  # fmt: skip
_NO_REASON = ("internal error",)


def reason_of(text, reasons=REASONS):
    """The name of the reason that an error's line has, or None."""
    for name, pattern in reasons:
        if re.search(pattern, text):
            return None if name in _NO_REASON else name
    return None


def line_of(error):
    """An exception as one line."""
    text = str(error).strip().splitlines()
    name = type(error).__name__
    return f"{name}: {text[0]}" if text else name


# ---- One case


def _compare(subject, options):
    """The worst row that is not within tolerance, or None."""
    from tandem.session.compile import compile_module
    from tandem.session.step import Step
    from tandem.verify.verify import judge, run_step

    compiled = compile_module(subject.module, **options)
    step = Step(subject.module, compiled.bytes, subject.model, subject.optimizer, compiled)
    rows = judge(subject, run_step(step, subject.batches))
    failed = [row for row in rows if not row.passed]
    return max(failed, key=lambda row: row.used, default=None)


def _error(name, error, reasons):
    """What the case is whose setting `name` raised the error: a refusal is one of Tandem's, with a reason of the table."""
    import tandem

    text = line_of(error)
    reason = reason_of(text, reasons) if isinstance(error, tandem.TandemError) else None
    status = REFUSED if reason else UNCLEAR
    return dict(status=status, text=f"{name}: {text}") | ({"reason": reason} if reason else {})


def measure(case, settings, steps=3, reasons=REASONS):
    """{status, text, and seconds of capture and each setting}. `case` has what `tandem.verify` asks of a model file and
    `in_eager()`, which raises what eager does; `settings` are [(name, options of the compiler)].
    """
    from tandem.verify.verify import make_subject

    torch.set_num_threads(1)
    seconds = {}
    try:
        case.in_eager()
    except Exception as error:
        return dict(status=NOT_TRIED, text=line_of(error), seconds=seconds)
    begin = time.monotonic()

    def lap(name):
        nonlocal begin
        now = time.monotonic()
        seconds[name], begin = round(now - begin, 2), now

    name = "capture"
    try:
        subject = make_subject(case, steps)
        lap(name)
        if not all(map(math.isfinite, subject.expected.losses)):
            text = f"in float64 the losses are {subject.expected.losses}"
            return dict(status=NOT_TRIED, text=text, seconds=seconds)
        for name, options in settings:
            row = _compare(subject, options)
            lap(name)
            if row is not None:
                found = f"{row.kind} {row.name}: {row.absolute:.2g}, allowed {row.allowed:.2g}"
                return dict(status=WRONG, text=f"{name}: {found} ({row.rule})", seconds=seconds)
    except Exception as error:
        lap(name)
        return _error(name, error, reasons) | dict(seconds=seconds)
    return dict(status=WORKS, text="", seconds=seconds)


# ---- A unit of cases, in a process of its own


class Unit:
    """`cases()` gives {name: function that measures}, called in the unit's process; `digest` changes with what is tried."""

    def __init__(self, name, cases, digest):
        self.name, self.cases, self.digest = name, cases, digest


def _measured(function):
    before = resource.getrusage(resource.RUSAGE_SELF)
    result = function()
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return result | dict(cpu=round(cpu, 1))


def _child(unit, done, connection, memory):
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    import warnings

    warnings.simplefilter("ignore")
    try:
        for name, function in unit.cases().items():
            if name not in done:
                connection.send((name, None))
                connection.send((name, _measured(function)))
    except BaseException as error:
        connection.send((unit.name, dict(status=ENDED, text=line_of(error))))
    connection.send(None)


class _Run:
    """A unit's processes: another one where one is ended."""

    def __init__(self, unit, limit, memory):
        self.unit, self.limit, self.memory = unit, limit, memory
        self.results, self.at = {}, None
        self.begin = time.monotonic()
        self._start()

    def _start(self):
        self.connection, theirs = multiprocessing.Pipe(False)
        self.process = multiprocessing.get_context("fork").Process(
            target=_child, args=(self.unit, set(self.results), theirs, self.memory)
        )
        self.process.start()
        theirs.close()
        self._next(None)

    def _next(self, name):
        """The process begins with a case."""
        self.at = name
        self.case_begin, self.case_cpu = time.monotonic(), self._seconds()

    def _seconds(self):
        """Of the processor, so that a machine with other work to do changes nothing."""
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def _is_late(self):
        took = time.monotonic() - self.case_begin
        return took > _PATIENCE * self.limit or self._seconds() - self.case_cpu > self.limit

    def poll(self):
        """Takes what has come; the results by case, or None while the unit runs."""
        while self.connection.poll():
            try:
                message = self.connection.recv()
            except EOFError:
                self.process.join()
                return self._lost(ENDED, f"exit status {self.process.exitcode}")
            if message is None:
                self.process.join()
                return self.results
            name, result = message
            if result is not None:
                self.results[name] = result
            self._next(name if result is None else None)
        if self._is_late():
            self.process.kill()
            self.process.join()
            return self._lost(TIMEOUT, f"over {self.limit:g} s")
        return None

    def _lost(self, status, text):
        """The case that the process was at is done; another process tries those behind it."""
        at, self.at = self.at, None
        self.results[at or self.unit.name] = dict(status=status, text=text)
        if at is None:
            return self.results
        self._start()
        return None


def run(units, jobs, limit, memory, write):
    """`write(unit, results, wall)` after each unit; `limit` seconds of the processor for a case, `memory` bytes for a process."""
    waiting, running = list(units), []
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(_Run(waiting.pop(0), limit, memory))
        time.sleep(0.02)
        for one in list(running):
            results = one.poll()
            if results is not None:
                running.remove(one)
                write(one.unit, results, round(time.monotonic() - one.begin, 1))


# ---- All of them


def _lines_of(path):
    """Those of a file of results. The last one of a process that was ended may be torn: its unit has no result."""
    for text in path.read_text().splitlines() if path.exists() else ():
        try:
            yield json.loads(text)
        except ValueError:
            print(f"{path}: left out a line that breaks off: {text[:60]}", file=sys.stderr)


def _ends_whole(file):
    """Whether the next line may begin where a file of results ends."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(end - 1, 0))
    return file.read() in (b"", b"\n")


class Results:
    """The lines of a file: {"unit", "digest", "wall", "cases": {name: result}}. The last line of a unit counts."""

    def __init__(self, path):
        self.path, self.lines = path, {line["unit"]: line for line in _lines_of(path)}

    def is_done(self, unit, failed=False):
        line = self.lines.get(unit.name)
        if line is None or line["digest"] != unit.digest:
            return False
        fine = (WORKS, NOT_TRIED)
        return not failed or all(r["status"] in fine for r in line["cases"].values())

    def add(self, unit, cases, wall):
        """Several processes may add lines at once."""
        line = dict(unit=unit.name, digest=unit.digest, wall=wall, cases=cases)
        self.lines[unit.name] = line
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            begin = b"" if _ends_whole(file) else b"\n"
            file.write(begin + json.dumps(line).encode() + b"\n")

    def of(self, units):
        """{unit: {case: result}} of those that there are."""
        names = [unit.name for unit in units if unit.name in self.lines]
        return {name: self.lines[name]["cases"] for name in names}

    def minutes(self, units):
        return sum(self.lines[u.name]["wall"] for u in units if u.name in self.lines) / 60


def print_result(name, result):
    reason = f" [{result['reason']}]" if "reason" in result else ""
    text = f"{result['status']:>12} {result.get('cpu', 0):6.1f} s  {name}{reason} {result['text']}"
    print(text.rstrip(), flush=True)


def _by_status(cases):
    """{status, with its reason: names}, the most frequent first."""
    found = {}
    for name, result in cases.items():
        reason = f" ({result['reason']})" if "reason" in result else ""
        found.setdefault(result["status"] + reason, []).append(name)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def _excepted(statuses, excepted):
    """The units that are left out as they say, which are refused throughout: what is anything else counts."""
    return [name for name in excepted if statuses.get(name) == {REFUSED}]


def report(results, goal, what="units", untried=True, excepted=()):
    """Prints what there is of {unit: {case: result}}; whether nothing is bad and a share of `goal` of the units works in some case.
    `excepted` units do not count where they are refused.
    """
    cases = {name: result for unit in results.values() for name, result in unit.items()}
    for status, names in _by_status(cases).items():
        is_listed = status != WORKS and (untried or status != NOT_TRIED)
        print(f"{len(names):5} {status}{': ' + ', '.join(names) if is_listed else ''}")
    tried = {n: {r["status"] for r in unit.values()} - {NOT_TRIED} for n, unit in results.items()}
    tried = {name: statuses for name, statuses in tried.items() if statuses}
    left_out = _excepted(tried, excepted)
    if left_out:
        print(f"{len(left_out)} of {len(tried)} {what} are excepted: {', '.join(left_out)}")
    tried = {name: statuses for name, statuses in tried.items() if name not in left_out}
    works = [name for name, statuses in tried.items() if WORKS in statuses]
    share = len(works) / max(len(tried), 1)
    print(f"{len(works)} of {len(tried)} {what} work, {100 * share:.1f} %")
    return share >= goal and not any(result["status"] in BAD for result in cases.values())


def _at_least_one(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number of at least 1")
    return int(text)


def _shard(text):
    """(I, N)"""
    part, _, parts = text.partition("/")
    if not part.isdecimal() or not parts.isdecimal() or not 1 <= int(part) <= int(parts):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected I/N with I from 1 to N")
    return int(part), int(parts)


def make_parser(description, path):
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=["*"], help="names of units, with * and ?")
    parser.add_argument("--shard", type=_shard, default="1/1", help="I/N: every Nth of them")
    parser.add_argument("--jobs", type=_at_least_one, default=1)
    parser.add_argument("--limit", type=float, default=120, help="seconds of CPU for a case")
    parser.add_argument("--memory", type=int, default=12, help="GiB for a process")
    parser.add_argument("--again", action="store_true", help="also units that have a result")
    parser.add_argument("--failed", action="store_true", help="also units that do not work")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--check", action="store_true", help="exit status 1 unless it is enough")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "bench" / path)
    return parser


def wanted_of(units, options):
    """Those that the options name."""
    part, parts = options.shard
    for pattern in options.only:
        if not fnmatch.filter([unit.name for unit in units], pattern):
            sys.exit(f"--only: nothing is named {pattern!r}")
    named = [u for u in units if any(fnmatch.fnmatch(u.name, p) for p in options.only)]
    return named[part - 1 :: parts]


def run_wanted(units, options):
    """Runs those of the wanted units that have no result; all results."""
    results = Results(options.results)
    waiting = [u for u in units if options.again or not results.is_done(u, options.failed)]

    def write(unit, cases, wall):
        results.add(unit, cases, wall)
        for name, result in cases.items():
            print_result(name, result)

    if not options.report:
        run(waiting, options.jobs, options.limit, options.memory << 30, write)
    return results
