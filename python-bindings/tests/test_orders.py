"""Orders of pipelines, beside the checks of torch.distributed.pipelining."""

import os
import pathlib
import subprocess

import pytest
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
