"""Computing power of the machine for hosts at once, and its use by other processes."""

import os
import subprocess
import time
from pathlib import Path

from .namespaces import TestbedError

# Both CPUs together reach at least so many times what one does, or they are one core.
SHARED_BELOW = 1.6
# Of a CPU: what other processes may use while a sample is taken.
MAX_OTHERS = float(os.environ.get("TESTBED_MAX_OTHERS", 0.03))
_TICK = os.sysconf("SC_CLK_TCK")


def measure_cores(tool):
    """How many times one CPU's multiply-adds a second the first two CPUs reach together; 1 of a single CPU."""
    if not Path(tool).exists():
        raise TestbedError(
            f"{tool}: not found, expected it built: scripts/build build 2 --target core-rate"
        )
    done = subprocess.run([tool], capture_output=True, text=True)
    if done.returncode != 0:
        raise TestbedError(f"{Path(tool).name}: {done.stderr.strip()}")
    return float(done.stdout.split()[0])


def is_shared(ratio):
    return ratio < SHARED_BELOW


def _stat(pid):
    """Of a process: its parent, and the seconds of CPU of it and of its children that have ended."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(words[1]), sum(map(int, words[11:15])) / _TICK


def _processes():
    """{process: (parent, seconds)}."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                found[int(entry)] = _stat(entry)
            except OSError:
                continue  # it has just ended
    return found


def _is_ours(pid, processes):
    """Of this process and what it has started; the kernel's threads, which send our packets, are nobody's."""
    while pid in processes and pid not in (os.getpid(), 2):
        pid = processes[pid][0]
    return pid in (os.getpid(), 2)


def _seconds_of_others():
    """CPU seconds of all processes but ours. What a child took moves to its parent when it ends, so that a
    difference of two such numbers is what was used in between.
    """
    processes = _processes()
    return sum(seconds for pid, (_, seconds) in processes.items() if not _is_ours(pid, processes))


def _stolen_seconds():
    """What the host of a virtual machine gave to others."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(words[8]) / _TICK


class Watch:
    """How much of a CPU others use from its making to `others()`."""

    def __init__(self):
        self._begin = time.monotonic(), _seconds_of_others() + _stolen_seconds()

    def others(self):
        seconds, used = self._begin
        now = _seconds_of_others() + _stolen_seconds()
        return max(0.0, now - used) / max(time.monotonic() - seconds, 1e-3)


def sample_quietly(take, tries=4, notice=print):
    """What `take()` gives, taken again as long as others used more than MAX_OTHERS of a CPU beside it; after `tries`
    the quietest, which is said.
    """
    found = []
    for _ in range(tries):
        watch = Watch()
        value = take()
        found.append((watch.others(), value))
        if found[-1][0] <= MAX_OTHERS:
            return value
    share, value = min(found, key=lambda pair: pair[0])
    notice(f"other processes used {share:.0%} of a CPU beside the quietest of {tries} samples")
    return value
