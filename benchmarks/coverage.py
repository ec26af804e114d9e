"""`make coverage`: which models of transformers, and which modules, losses and functions of torch.nn, train in Tandem as in eager.

    python benchmarks/coverage.py                              # all cases that have no result yet
    python benchmarks/coverage.py --only 'torch.*' --again     # these, whatever results there are
    python benchmarks/coverage.py --shard 1/8 --jobs 2
    python benchmarks/coverage.py --report                     # the table of the results that there are

A case is trained three steps in float64 (where eager's losses are finite), mesh `data=2`, two microbatches; every third one also with the plan `zero` on four
ranks, and with a searched plan on two axes. It works if losses, gradients, parameters, buffers and states are eager's
(docs/rationale/verify.md). Cases that do not train one step in eager do not count. Each case has a process of its own and a limit of
time; results are written after each one, and a case that has one is not run again.
"""

import argparse
import contextlib
import fnmatch
import hashlib
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
from coverage_cases import Layer, all_cases, train_in_eager

_ROOT = Path(__file__).resolve().parents[1]
GOAL = 0.95
_PATIENCE = 4  # times the limit on the clock, for what waits
# [(name, options of the compiler)]; those behind the first are for every third case.
SETTINGS = [
    ("data-parallel", dict(mesh={"data": 2}, micro=2)),
    ("zero", dict(mesh={"data": 4}, plan="zero", micro=2)),
    ("searched", dict(mesh={"data": 2, "model": 2}, search="tandem", micro=2)),
]
WORKS, WRONG, REFUSED, NO_EAGER, TIMEOUT, ENDED = (
    "works",
    "WRONG",
    "refused",
    "not in eager",
    "timeout",
    "ended",
)
# Why a case is refused: the first pattern that its error has.
REASONS = [
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
UNCLEAR = "unclear"


def reason_of(text):
    for name, pattern in REASONS:
        if re.search(pattern, text):
            return name
    return UNCLEAR


# ---- One case, in a process of its own


def _compare(subject, options):
    """The worst row that is not within tolerance, or None."""
    from tandem.compile import compile_module
    from tandem.step import Step
    from tandem.verify import judge, run_step

    compiled = compile_module(subject.module, **options)
    step = Step(subject.module, compiled.bytes, subject.model, subject.optimizer, compiled)
    rows = judge(subject, run_step(step, subject.batches))
    failed = [row for row in rows if not row.passed]
    return max(failed, key=lambda row: row.used, default=None)


def _measure(case, settings):
    """{status, text, and seconds of capture and each setting}."""
    import tandem
    from tandem.verify import make_subject

    torch.set_num_threads(1)
    seconds = {}
    try:
        train_in_eager(case)
    except Exception as error:
        return dict(status=NO_EAGER, text=_line(error), seconds=seconds)
    begin = time.monotonic()

    def lap(name):
        nonlocal begin
        now = time.monotonic()
        seconds[name], begin = round(now - begin, 2), now

    name = "capture"
    try:
        subject = make_subject(case)
        lap(name)
        if not all(map(math.isfinite, subject.expected.losses)):
            text = f"in float64 the losses are {subject.expected.losses}"
            return dict(status=NO_EAGER, text=text, seconds=seconds)
        for name, options in settings:
            row = _compare(subject, options)
            lap(name)
            if row is not None:
                text = (
                    f"{name}: {row.kind} {row.name}: {row.absolute:.2g}, allowed {row.allowed:.2g}"
                )
                return dict(status=WRONG, text=text, seconds=seconds)
    except tandem.TandemError as error:
        lap(name)
        text = _line(error)
        return dict(status=REFUSED, reason=reason_of(text), text=f"{name}: {text}", seconds=seconds)
    return dict(status=WORKS, text="", seconds=seconds)


def _line(error):
    text = str(error).strip().splitlines()
    name = type(error).__name__
    return f"{name}: {text[0]}" if text else name


def _child(case, settings, connection, memory):
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    import warnings

    warnings.simplefilter("ignore")
    try:
        result = _measure(case, settings)
    except BaseException as error:
        result = dict(status=ENDED, text=_line(error), seconds={})
    usage = resource.getrusage(resource.RUSAGE_SELF)
    result["cpu"] = round(usage.ru_utime + usage.ru_stime, 1)
    connection.send(result)


# ---- All of them


class _Run:
    def __init__(self, name, case, settings, limit, memory):
        self.name, self.limit = name, limit
        self.connection, theirs = multiprocessing.Pipe(False)
        self.process = multiprocessing.get_context("fork").Process(
            target=_child, args=(case, settings, theirs, memory)
        )
        self.begin = time.monotonic()
        self.process.start()
        theirs.close()

    def _seconds(self):
        """Of the processor, so that a machine with other work to do changes nothing."""
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def poll(self):
        """The result, or None while it runs."""
        took = time.monotonic() - self.begin
        result = None
        if self.connection.poll():
            try:
                result = self.connection.recv()
            except EOFError:
                self.process.join()
                result = dict(status=ENDED, text=f"exit status {self.process.exitcode}", seconds={})
        elif took > _PATIENCE * self.limit or self._seconds() > self.limit:
            result = dict(status=TIMEOUT, text=f"over {self.limit:g} s", seconds={})
            self.process.kill()
        if result is not None:
            self.process.join()
            result["wall"] = round(took, 1)
        return result


def settings_of(names):
    """{name: settings}: every third one has all, counted in the list as a whole."""
    return {name: SETTINGS if i % 3 == 0 else SETTINGS[:1] for i, name in enumerate(names)}


def _digest(case, settings):
    described = case.kinds if isinstance(case, Layer) else case.described
    return hashlib.sha256(repr((described, settings)).encode()).hexdigest()[:12]


def run(cases, settings, options, write):
    """`write(name, result)` after each case."""
    waiting = list(cases)
    running = []
    while waiting or running:
        while waiting and len(running) < options.jobs:
            name = waiting.pop(0)
            memory = options.memory << 30
            running.append(_Run(name, cases[name], settings[name], options.limit, memory))
        time.sleep(0.02)
        for one in list(running):
            result = one.poll()
            if result is None:
                continue
            running.remove(one)
            digest = _digest(cases[one.name], settings[one.name])
            write(one.name, result | {"digest": digest})
            print(_row(one.name, result), flush=True)


def _row(name, result):
    reason = f" [{result['reason']}]" if "reason" in result else ""
    return (
        f"{result['status']:>12} {result['wall']:6.1f} s  {name}{reason} {result['text']}".rstrip()
    )


def report(results):
    """Prints what there is; whether it is enough."""
    counted = {n: r for n, r in results.items() if r["status"] != NO_EAGER}
    by_status = {}
    for name, result in counted.items():
        reason = f" ({result['reason']})" if "reason" in result else ""
        by_status.setdefault(result["status"] + reason, []).append(name)
    for status, names in sorted(by_status.items(), key=lambda item: -len(item[1])):
        listed = "" if status == WORKS else ": " + ", ".join(names)
        print(f"{len(names):5} {status}{listed}")
    works = len(by_status.get(WORKS, ()))
    share = works / max(len(counted), 1)
    took = sum(r["wall"] for r in results.values())
    print(
        f"{works} of {len(counted)} cases work, {100 * share:.1f} %; {took / 60:.1f} minutes of one process"
    )
    bad = [
        status
        for status in by_status
        if status.split()[0] in (WRONG, TIMEOUT, ENDED) or UNCLEAR in status
    ]
    return share >= GOAL and not bad


def _parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=["*"], help="names of cases, with * and ?")
    parser.add_argument("--shard", default="1/1", help="I/N: every Nth of them")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--limit", type=float, default=120, help="seconds of the processor for a case"
    )
    parser.add_argument("--memory", type=int, default=12, help="GiB for a case")
    parser.add_argument("--again", action="store_true", help="also cases that have a result")
    parser.add_argument(
        "--failed", action="store_true", help="also cases that have a result other than 'works'"
    )
    parser.add_argument(
        "--first", action="store_true", help="the first setting only, and keep no result"
    )
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--check", action="store_true", help="exit status 1 unless it is enough")
    parser.add_argument("--json", type=Path, default=_ROOT / "build" / "bench" / "coverage.json")
    return parser.parse_args()


def main():
    options = _parse()
    cases = all_cases()
    settings = settings_of(cases)
    if options.first:
        settings = dict.fromkeys(cases, SETTINGS[:1])
    results = json.loads(options.json.read_text()) if options.json.exists() else {}
    results = {n: r for n, r in results.items() if n in cases}

    def is_done(name):
        known = results.get(name)
        if (
            known is None
            or options.again
            or known["digest"] != _digest(cases[name], settings[name])
        ):
            return False
        return known["status"] in (WORKS, NO_EAGER) or not options.failed

    part, parts = map(int, options.shard.split("/"))
    wanted = [n for n in cases if any(fnmatch.fnmatch(n, pattern) for pattern in options.only)]
    wanted = [n for n in wanted[part - 1 :: parts] if not is_done(n)]

    def write(name, result):
        results[name] = result
        if options.first:
            return
        known = json.loads(options.json.read_text()) if options.json.exists() else {}
        known[name] = result  # others may write the results of another shard
        options.json.parent.mkdir(parents=True, exist_ok=True)
        new = options.json.with_suffix(".new")
        new.write_text(json.dumps(known, indent=1, sort_keys=True))
        new.replace(options.json)

    if not options.report and wanted:
        import tandem  # noqa: F401 - once, before processes are forked
        import transformers

        transformers.logging.set_verbosity_error()
        run({n: cases[n] for n in wanted}, settings, options, write)
    enough = report(results)
    return 0 if enough or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
