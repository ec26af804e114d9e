"""Network namespaces by name: their processes and their removal.

As a program (`python namespaces.py`), it guards a test bed. It reads names from its standard input, one per line, and
removes the namespaces when the input ends, which happens however the bed's process ends.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

# tandem-PID-START-...: the process that made it, and when that began, in the kernel's ticks.
NAME = re.compile(r"tandem-(\d+)-(\d+)-")
PACKAGES = {"ip": "iproute2", "tc": "iproute2", "iperf3": "iperf3"}


class TestbedError(Exception):
    """One line: what is wrong and what to do."""

    __test__ = False  # pytest takes any Test* for a test


def call(*command):
    """Runs a tool; its output. Raises TestbedError with what it said."""
    if shutil.which(command[0]) is None:
        package = PACKAGES.get(command[0], command[0])
        raise TestbedError(f"{command[0]}: not found, expected the package {package} (apt install)")
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        reason = lines[-1] if lines else f"exit status {done.returncode}"
        raise TestbedError(f"{' '.join(command)}: {reason}")
    return done.stdout


def start_of(pid):
    """When a process began, in ticks since boot; None if it is not there."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()[19]


def get_prefix(number):
    """Of the namespaces of this process's bed with that number."""
    return f"tandem-{os.getpid()}-{start_of(os.getpid())}-{number}"


def pids_in(name):
    return [int(pid) for pid in call("ip", "netns", "pids", name).split()]


def remove(name):
    """Ends the processes of a namespace, and the namespace with its links."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and (pids := pids_in(name)):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    call("ip", "netns", "del", name)


def list_names():
    names = [line.split()[0] for line in call("ip", "netns", "list").splitlines() if line.strip()]
    return [name for name in names if NAME.match(name)]


def remove_stale():
    """What beds have left whose process and guard were both killed; returns the names."""
    stale = [name for name in list_names() if start_of(NAME.match(name)[1]) != NAME.match(name)[2]]
    for name in stale:
        remove(name)
    return stale


def _guard():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    names, failed = [line.strip() for line in sys.stdin], False
    present = set(list_names())
    for name in reversed(names):
        try:
            if name in present:
                remove(name)
        except TestbedError as error:
            failed = True
            print(f"testbed: error: {error}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(_guard())
