"""Orders of pipelines, beside the checks of torch.distributed.pipelining."""

import os
import pathlib
import random
import re
import subprocess

import pytest
from pipeline_matrix import NAMED_ORDERS
from torch.distributed.pipelining import schedules

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("TANDEM_BUILD", ROOT / "build")) / "bin" / "tandem-order"


def read(text):
    """Rows of actions, as PyTorch reads them."""
    return {
        rank: [schedules._Action.from_str(entry) for entry in row.split(",")]
        for rank, row in enumerate(text.splitlines())
    }


def run(*words, text=""):
    return subprocess.run([TOOL, *words], input=text, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "zb-h1", "zb-h2"])
def test_pytorch_accepts_orders(name):
    made = run("--make", name, "--points", "3", "--microbatches", "4")
    placement = schedules._validate_schedule(read(made.stdout), 3, 3, 4)
    assert placement == {0: 0, 1: 1, 2: 2}


def write_pytorch(path, kind, points, count, microbatches):
    """The order of a schedule of PyTorch, in lines of the csv module."""
    schedule = object.__new__(kind)
    schedule.pp_group_size = points
    schedule.n_local_stages = count
    schedule.num_stages = schedule._num_stages = count * points
    schedule._n_microbatches = microbatches
    schedule.number_of_rounds = max(1, microbatches // points)
    schedule.microbatches_per_round = microbatches // schedule.number_of_rounds
    schedule.pipeline_order = {
        rank: schedule._calculate_single_rank_operations(rank) for rank in range(points)
    }
    schedules.PipelineScheduleMulti._dump_csv(schedule, path)


@pytest.mark.parametrize("points, microbatches", [(2, 4), (4, 8), (4, 10), (3, 9)])
@pytest.mark.parametrize(
    "name, kind, count",
    [
        ("interleaved", "ScheduleInterleaved1F1B", 3),
        ("interleaved-zb", "ScheduleInterleavedZeroBubble", 2),
        ("zb-v", "ScheduleZBVZeroBubble", 2),
        ("dualpipe-v", "ScheduleDualPipeV", 2),
    ],
)
def test_orders_are_those_of_pytorch(name, kind, count, points, microbatches, tmp_path):
    path = tmp_path / "order.csv"
    write_pytorch(path, getattr(schedules, kind), points, count, microbatches)
    more = [] if "-" in name else ["--sections-per-point", str(count)]
    made = run("--make", name, "--points", str(points), "--microbatches", str(microbatches), *more)
    rows = [filter(None, row.split(",")) for row in path.read_text().splitlines()]
    assert made.stdout.splitlines() == [",".join(row) for row in rows]


def test_order_of_pytorch_is_read(tmp_path):
    """DualPipeV has groups, blanks and split backward passes."""
    path = tmp_path / "order.csv"
    write_pytorch(path, schedules.ScheduleDualPipeV, 4, 2, 8)
    assert "OVERLAP_F_B" in path.read_text()
    # PyTorch's group runs F and then B; an exact simulator gives 25.5 for shares of 1.
    done = run(path, "--costs", "1,1,1", "--microbatches", "8")
    assert done.stderr == ""
    assert done.stdout.startswith("makespan 51\n")


class Clock:
    """When each action of an order ends, in the plainest way: from what it waits for, action by action."""

    def __init__(self, rows, costs, sections):
        self._rows, self._costs, self._last = rows, costs, sections - 1
        self._point = {int(re.match(r"\d+", a)[0]): p for p, row in enumerate(rows) for a in row}
        self.spans, self._free = {}, [0.0] * len(rows)
        waiting = [list(row) for row in rows]
        while any(waiting):
            number = len(self.spans)
            for point, row in enumerate(waiting):
                while row and (begin := self._find_begin(point, row[0])) is not None:
                    self._free[point] = self._add(row.pop(0), begin)
            assert len(self.spans) > number, f"nothing can run of {waiting}"

    def _add(self, action, begin):
        section, kind, microbatch = re.fullmatch(r"(\d+)([FIWB])(\d+)", action).groups()
        forward, of_input, of_weight, _ = self._costs
        seconds = {"F": forward, "I": of_input, "W": of_weight, "B": of_input + of_weight}[kind]
        span = begin, begin + seconds
        self.spans[int(section), "I" if kind == "B" else kind, int(microbatch)] = span
        return span[1]

    def _find_begin(self, point, action):
        """The point is free, and what it reads has come; None: not yet known."""
        section, kind, microbatch = re.fullmatch(r"(\d+)([FIWB])(\d+)", action).groups()
        section, microbatch = int(section), int(microbatch)
        needs = []
        if kind == "F" and section:
            needs.append((section - 1, "F", microbatch))
        elif kind in "IB":
            needs.append((section, "F", microbatch))
            if section != self._last:
                needs.append((section + 1, "I", microbatch))
        elif kind == "W":
            needs.append((section, "I", microbatch))
        begin = self._free[point]
        for need in needs:
            if need not in self.spans:
                return None
            crosses = self._point[need[0]] != point
            begin = max(begin, self.spans[need][1] + crosses * self._costs[3])
        return begin

    def count_held(self, point):
        """Most microbatches of its sections, from the begin of F to the end of B or W."""
        held = most = 0
        for action in self._rows[point]:
            held += "F" in action
            most = max(most, held)
            held -= "B" in action or "W" in action
        return most


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", NAMED_ORDERS)
def test_drawn_shapes_and_durations(name, seed):
    """Of any number of microbatches, also fewer than points, and of none that divides it."""
    choose = random.Random(f"{name} {seed}")
    points = choose.randint(1, 6)
    takes_any = name in ("interleaved", "aiao", "interleaved-zb")
    count = choose.randint(1, 4) if takes_any else 2 if name in ("zb-v", "dualpipe-v") else 1
    least = 2 * points if name == "dualpipe-v" else 1
    microbatches = choose.randint(least, least + 10)
    costs = [round(choose.uniform(0.1, 3), 3) for _ in range(4)]
    more = ["--sections-per-point", str(count)] if takes_any else []
    shape = ["--points", str(points), "--microbatches", str(microbatches)]
    made = run("--make", name, *shape, *more)
    assert made.returncode == 0, made.stderr
    done = run("-", "--costs", ",".join(map(str, costs)), text=made.stdout)
    assert done.returncode == 0, done.stderr
    plain = re.sub(r"\(([^)]*)\)OVERLAP_F_B", lambda found: found[1].replace(";", ","), made.stdout)
    rows = [row.split(",") for row in plain.splitlines()]
    clock = Clock(rows, costs, points * count)
    assert len(clock.spans) == sum(map(len, rows))
    makespan = float(re.match(r"makespan (\S+)", done.stdout)[1])
    assert makespan == pytest.approx(max(end for _, end in clock.spans.values()), rel=1e-6)
    peaks = [int(line.split()[-1]) for line in done.stdout.splitlines()[4 : 4 + points]]
    assert peaks == [clock.count_held(point) for point in range(points)]


# The table of docs/pipelines.md: sections of a point; the bubble by p, v, F, I, W; what is held, in p microbatches, by p,
# v, m.
TABLE = {
    "1f1b": (1, lambda p, v, f, i, w: (p - 1) * (f + i + w), lambda p, v, m: 1),
    "gpipe": (1, lambda p, v, f, i, w: (p - 1) * (f + i + w), lambda p, v, m: m / p),
    "interleaved": (
        3,
        lambda p, v, f, i, w: (p - 1) * (f + i + w) / v,
        lambda p, v, m: 1 + (p - 1) / (p * v),
    ),
    "aiao": (3, lambda p, v, f, i, w: (p - 1) * (f + i + w) / v, lambda p, v, m: m / p),
    "zb-h1": (1, lambda p, v, f, i, w: (p - 1) * (f + i - w), lambda p, v, m: 1),
    "zb-h2": (1, lambda p, v, f, i, w: (p - 1) * f, lambda p, v, m: 2 - 1 / p),
    "interleaved-zb": (3, lambda p, v, f, i, w: (p - 1) * (f + i - w) / v, lambda p, v, m: 1),
    "zb-v": (2, lambda p, v, f, i, w: (p - 1) * f / 2, lambda p, v, m: 1),
    "dualpipe-v": (2, lambda p, v, f, i, w: (p - 1) * f / 2, lambda p, v, m: 1 + 1 / (2 * p)),
}


@pytest.mark.parametrize("points, microbatches", [(2, 6), (3, 9), (4, 16)])
@pytest.mark.parametrize("name", NAMED_ORDERS)
def test_the_table_of_schedules(name, points, microbatches):
    count, bubble_of, held_of = TABLE[name]
    is_vee = name in ("zb-v", "dualpipe-v")
    costs = (1, 1, 1) if is_vee else (1, 1.1, 0.8)
    more = [] if is_vee or count == 1 else ["--sections-per-point", str(count)]
    shape = ["--points", str(points), "--microbatches", str(microbatches)]
    made = run("--make", name, *shape, *more)
    done = run("-", "--costs", ",".join(str(cost / count) for cost in costs), text=made.stdout)
    makespan = float(re.match(r"makespan (\S+)", done.stdout)[1])
    bubble = makespan - microbatches * sum(costs)
    assert bubble == pytest.approx(bubble_of(points, count, *costs), abs=1e-6)
    most = max(int(line.split()[-1]) for line in done.stdout.splitlines()[4 : 4 + points])
    assert most / count / points == pytest.approx(held_of(points, count, microbatches))
