"""benchmarks/testbed, peers and overlap: hosts come and go, sleeping models take their time, ranks correlate."""

import io
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
from conftest import ROOT
from torch import nn

sys.path.insert(0, str(ROOT / "benchmarks"))

from overlap.cluster import format_devices, write_scaled
from overlap.prediction import correlate_ranks
from peers import models, sleeping
from testbed import Network, TestbedError, launch, namespaces, parse_rate
from testbed.cores import sample_quietly

needs_hosts = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("tc") is None, reason="needs root and iproute2"
)
COUNT = "import os; print(os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])"


def wait_until(holds, seconds=10):
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    return holds()


@needs_hosts
def test_every_host_runs_the_command():
    output = io.StringIO()
    with Network(2, "100mbit") as network:
        lines = [
            ([sys.executable, "-c", COUNT], launch.job_environment(network, h)) for h in (0, 1)
        ]
        assert launch.run(network, lines, output) == [0, 0]
    assert sorted(output.getvalue().splitlines()) == ["[host 0] 0 of 2", "[host 1] 1 of 2"]
    assert not set(network.names) & set(namespaces.list_names())


@needs_hosts
def test_what_a_command_leaves_is_ended():
    with Network(2, "100mbit") as network:
        lines = [(["sh", "-c", "sleep 77 & exit 3"], {}) for _ in (0, 1)]
        assert launch.run(network, lines, io.StringIO()) == [3, 3]
        assert network.pids(0) == network.pids(1) == []


@needs_hosts
def test_links_have_their_rate():
    """A megabyte at 20 Mbit/s takes 0.4 s, but for what a bucket lets through."""
    send = (
        "import socket; s = socket.create_connection(('10.77.0.1', 6000)); s.sendall(bytes(10**6))"
    )
    receive = """
import socket, time
s = socket.create_server(('', 6000)); print('listens', flush=True); c = s.accept()[0]; begin = time.monotonic()
while c.recv(1 << 16): pass
print(time.monotonic() - begin)
"""
    with Network(2, "20mbit") as network:
        python = [sys.executable, "-c"]
        receiver = launch.start(network, 0, [*python, receive], stdout=subprocess.PIPE, text=True)
        assert receiver.stdout.readline() == "listens\n"
        assert launch.start(network, 1, [*python, send]).wait() == 0
        assert float(receiver.communicate()[0]) > 0.3


@needs_hosts
def test_hosts_are_removed_when_their_maker_is_killed():
    code = "from testbed import Network; n = Network(2); print(*n.names, flush=True); input()"
    maker = subprocess.Popen(
        [sys.executable, "-c", code],
        env=dict(os.environ, PYTHONPATH=str(ROOT / "benchmarks")),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    names = set(maker.stdout.readline().split())
    assert len(names) == 2 and names <= set(namespaces.list_names())
    maker.send_signal(signal.SIGKILL)
    maker.wait()
    assert wait_until(lambda: not names & set(namespaces.list_names()))


@needs_hosts
def test_stale_hosts_are_removed_and_others_are_not():
    stale, other = "tandem-1-12345-0-host0", f"{namespaces.get_prefix(99)}-host0"
    for name in (stale, other):
        namespaces.call("ip", "netns", "add", name)
    try:
        # Another test's bed may be stale for a moment, too.
        assert stale in namespaces.remove_stale()
        assert stale not in namespaces.list_names()
        assert other in namespaces.list_names()
    finally:
        namespaces.remove(other)


def test_errors_say_what_to_do(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(TestbedError, match="root"):
        Network(2)
    with pytest.raises(TestbedError, match="expected a number with a unit, such as 300mbit"):
        parse_rate("fast")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(TestbedError, match="iperf3: not found, expected the package iperf3"):
        namespaces.call("iperf3", "-v")


def test_a_noisy_sample_is_taken_again(monkeypatch):
    shares = iter([0.5, 0.2, 0.01])
    monkeypatch.setattr("testbed.cores.Watch.others", lambda self: next(shares))
    taken = iter(range(9))
    assert sample_quietly(lambda: next(taken)) == 2


def test_the_quietest_of_noisy_samples_counts_and_is_said(monkeypatch):
    shares, taken, said = iter([0.5, 0.2, 0.3]), iter(range(9)), []
    monkeypatch.setattr("testbed.cores.Watch.others", lambda self: next(shares))
    assert sample_quietly(lambda: next(taken), tries=3, notice=said.append) == 1
    assert "20%" in said[0]


def test_a_sleeping_model_takes_its_seconds_and_makes_the_same_gradients():
    layers = nn.Sequential(nn.Linear(8, 32), nn.Linear(32, 4))
    schedule = sleeping.Schedule(0.2)
    asked, sleep = [], schedule.clock.sleep
    schedule.clock.sleep = lambda seconds: (asked.append(seconds), sleep(seconds))
    x = torch.zeros(5, 8, requires_grad=True)

    def step():
        schedule.begin()
        y = x
        for layer in layers:
            y = sleeping.sleep_linear(schedule, y, layer.weight, layer.bias)
        y.sum().backward()
        return y

    step()
    asked.clear()
    begin = time.perf_counter()
    y = step()
    assert time.perf_counter() - begin >= 0.2
    # Not by the clock: where forward wakes up late, backward is due as early as before.
    assert [sum(asked[:2]), sum(asked[2:])] == pytest.approx([0.2 / 3, 0.4 / 3])
    assert y.shape == (5, 4) and x.grad.shape == (5, 8)
    assert [p.grad.shape for p in layers.parameters()] == [p.shape for p in layers.parameters()]


def test_correlation_of_ranks():
    assert correlate_ranks([1, 2, 3, 4], [10, 20, 30, 40]) == 1
    assert correlate_ranks([1, 2, 3, 4], [4, 3, 2, 1]) == -1
    assert correlate_ranks([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(0.8)


def test_a_profile_gets_other_devices(tmp_path):
    profile = tmp_path / "cluster.yaml"
    profile.write_text(
        f"name: x\n{format_devices()}nodes:\n  - {{count: 2, devices: {{host: 1}}}}\n"
    )
    scaled = write_scaled(profile, tmp_path / "scaled.yaml", 2.0).read_text()
    assert "f32: 50 GFLOP/s" in scaled and "bandwidth: 10 GB/s" in scaled
    assert scaled.endswith("nodes:\n  - {count: 2, devices: {host: 1}}\n")


@pytest.mark.parametrize("keeps", [False, True])
def test_fsdp_leaves_its_root_to_pytorch(monkeypatch, keeps):
    """PyTorch keeps the parameters of a root, which the backward pass begins with, unless it is told to give them back."""
    asked, model = [], nn.Module()
    model.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])

    def take(module, mesh, reshard_after_forward):
        asked.append(reshard_after_forward)
        module._set_unshard_async_op = module.set_modules_to_forward_prefetch = lambda *_: None
        module.set_modules_to_backward_prefetch = lambda *_: None
        module.set_separate_reduce_scatter_group = lambda: None

    monkeypatch.setattr(models, "fully_shard", take)
    monkeypatch.setattr(models, "init_device_mesh", lambda *_: None)
    monkeypatch.setattr(models.dist, "get_world_size", lambda: 2)
    models.use_fsdp(model, None, None, keeps=keeps)
    assert asked == 3 * [False if keeps else None]
