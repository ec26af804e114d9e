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


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
def test_pytorch_accepts_orders(name):
    made = run("--make", name, "--points", "3", "--microbatches", "4")
    placement = schedules._validate_schedule(read(made.stdout), 3, 3, 4)
    assert placement == {0: 0, 1: 1, 2: 2}


def test_order_of_pytorch_is_read(tmp_path):
    """DualPipeV has groups, blanks and split backward passes, in lines of the csv module."""
    points, microbatches = 4, 8
    schedule = object.__new__(schedules.ScheduleDualPipeV)
    schedule.pp_group_size = points
    schedule._num_stages = 2 * points
    schedule._n_microbatches = microbatches
    schedule.pipeline_order = {
        rank: schedule._calculate_single_rank_operations(rank) for rank in range(points)
    }
    path = tmp_path / "order.csv"
    schedules.PipelineScheduleMulti._dump_csv(schedule, path)
    assert "OVERLAP_F_B" in path.read_text()
    # PyTorch's group runs F and then B; an exact simulator gives 25.5 for shares of 1.
    done = run(path, "--costs", "1,1,1", "--microbatches", str(microbatches))
    assert done.stderr == ""
    assert done.stdout.startswith("makespan 51\n")
