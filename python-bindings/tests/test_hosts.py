"""Several processes, started as torchrun starts them."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
TRAIN = [sys.executable, str(ROOT / "examples/train.py")]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def start(process, count, port, arguments, command=TRAIN):
    job = {
        "RANK": str(process),
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "TANDEM_TIMEOUT": "20",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        [*command, *arguments],
        env=os.environ | job,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(processes):
    ends = [process.communicate(timeout=120) for process in processes]
    return [(p.returncode, *end) for p, end in zip(processes, ends, strict=True)]


def run_alone(arguments):
    end = subprocess.run([*TRAIN, *arguments], capture_output=True, text=True, timeout=120)
    assert end.returncode == 0, end.stderr
    return end.stdout


@pytest.mark.parametrize("plan", ["data-parallel", "zero"])
def test_two_processes_train_as_one(tmp_path, plan):
    arguments = ["--mesh=data=2", f"--plan={plan}", "--steps=3", "--save"]
    alone = run_alone([*arguments, str(tmp_path / "alone.pt")])
    port = free_port()
    ends = finish([start(i, 2, port, [*arguments, str(tmp_path / "two.pt")]) for i in range(2)])
    assert [end[0] for end in ends] == [0, 0], ends
    assert [end[1] for end in ends] == [alone, ""]
    states = [torch.load(tmp_path / name) for name in ("alone.pt", "two.pt")]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_torchrun_with_two_ranks_in_each_of_two_processes():
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    arguments = ["--model=gpt", "--mesh=data=4", "--steps=2"]
    end = subprocess.run(
        [*command, f"--master-port={free_port()}", TRAIN[1], *arguments],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert end.returncode == 0, end.stderr
    assert end.stdout == run_alone(arguments)


def test_other_meshes_are_an_error_before_capture():
    port = free_port()
    ends = finish([start(i, 2, port, [f"--mesh=data={2 + 2 * i}"]) for i in range(2)])
    for code, _, errors in ends:
        assert code == 1
        assert "JobError: process 1 has mesh data=4, expected data=2 as process 0" in errors


def test_other_models_are_an_error():
    port = free_port()
    ends = finish(
        [start(i, 2, port, [f"--micro={2}", f"--model={m}"]) for i, m in enumerate(("mlp", "gpt"))]
    )
    for code, _, errors in ends:
        assert code == 1
        assert "JobError: process 1 has captured step " in errors


def test_an_error_of_the_compiler_is_that_of_all():
    port = free_port()
    ends = finish([start(i, 2, port, ["--plan=none"]) for i in range(2)])
    assert [end[0] for end in ends] == [1, 1]
    first, second = (re.search(r"CompileError: (.*)", end[2]).group(1) for end in ends)
    assert second == f"process 0: {first}"


def test_a_killed_process_is_the_error_of_the_other():
    port = free_port()
    children = [start(i, 2, port, ["--steps=1000000"]) for i in range(2)]
    assert children[0].stdout.readline().startswith("step 1 loss ")
    children[1].send_signal(signal.SIGKILL)
    (code, _, errors), _ = finish(children)
    assert code == 1
    assert re.search(r"RunError: process 1 \(pid \d+ on .*\) ended without a word", errors)
