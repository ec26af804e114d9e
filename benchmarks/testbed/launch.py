"""Runs a command on every host of a network, as a launcher would."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from .namespaces import TestbedError
from .network import INTERFACE

# Of jobs that are told one; torchrun's own store has the first, Tandem without Python the second.
MASTER_PORT, TANDEM_PORT = 29500, 29501
# How much longer than the first that fails the other hosts may take: what a job waits for a peer, and a little.
GRACE_SECONDS = 35


def job_environment(network, host, port=MASTER_PORT):
    """What a launcher sets for the one process of a host."""
    return {
        "RANK": str(host),
        "WORLD_SIZE": str(network.hosts),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": network.address(0),
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": INTERFACE,
    }


def torchrun(network, host, processes, command):
    """A host's command line and environment if torchrun starts so many processes on each."""
    launcher = Path(sys.executable).with_name("torchrun")
    if not launcher.exists():
        raise TestbedError(f"{launcher}: not found, expected the package torch in this Python")
    options = [
        f"--nnodes={network.hosts}",
        f"--node-rank={host}",
        f"--nproc-per-node={processes}",
        f"--master-addr={network.address(0)}",
        f"--master-port={MASTER_PORT}",
    ]
    no_python = [] if str(command[0]).endswith(".py") else ["--no-python"]
    environment = {"GLOO_SOCKET_IFNAME": INTERFACE, "TANDEM_PORT": str(TANDEM_PORT)}
    # It warns that the addresses have no names.
    environment |= {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    return [launcher, *options, *no_python, *command], environment


def core_of(host):
    """Hosts have a CPU each, as long as there are some."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[host % len(cores)]


def start(network, host, command, environment=None, core=None, prompt=False, **options):
    """A process on a host, in a session of its own. `core` binds it to a CPU. A `prompt` one runs as soon as it is
    woken, whoever else would like to: of processes that mostly sleep, on a core that hosts share, each would else wait
    some milliseconds for another's turn to end, as on no core of its own. Options are those of subprocess.Popen.
    """
    prefix = [] if core is None else ["taskset", "-c", core]
    prefix += ["chrt", "--rr", "10"] if prompt else []
    return subprocess.Popen(
        network.enter(host, [*prefix, *command]),
        env=dict(os.environ, **(environment or {})),
        start_new_session=True,
        **options,
    )


def run(network, lines, output=sys.stdout, timeout=None):
    """Runs on each host its (command line, environment), and prints what they print, with the host before it; their
    exit statuses. Behind the first that fails the others are ended after GRACE_SECONDS, after `timeout` all.
    """
    processes = [
        start(network, host, command, environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for host, (command, environment) in enumerate(lines)
    ]
    readers = [
        threading.Thread(target=_forward, args=(process.stdout, f"[host {host}] ", output))
        for host, process in enumerate(processes)
    ]
    for reader in readers:
        reader.start()
    try:
        _wait(processes, None if timeout is None else time.monotonic() + timeout)
    finally:
        for process in processes:
            end(process)
        for host in range(network.hosts):
            _end_all(network, host)
        for reader in readers:
            reader.join()
    return [process.returncode for process in processes]


def _forward(pipe, prefix, output):
    for line in pipe:
        output.write(prefix + line.decode(errors="replace"))
        output.flush()


def _wait(processes, deadline):
    """Until all have ended, or the time of those that are left is over."""
    failed = False
    while any(process.poll() is None for process in processes):
        if deadline is not None and time.monotonic() > deadline:
            return
        if not failed and any(process.returncode for process in processes):
            failed, last = True, time.monotonic() + GRACE_SECONDS
            deadline = last if deadline is None else min(deadline, last)
        time.sleep(0.01)


def end(process):
    """A process with its session, if it still runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _end_all(network, host):
    """What a host's command has left behind."""
    for pid in network.pids(host):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
