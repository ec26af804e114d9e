"""Processes of a job, as a launcher starts them, without Python's start: each is forked off a server that has
imported PyTorch and Tandem.
"""

import contextlib
import ctypes
import multiprocessing
import os
import runpy
import signal
import socket
import sys
import time
from multiprocessing import forkserver

# By how much limits in time are multiplied on this machine (scripts/patience).
PATIENCE = int(os.environ.get("TANDEM_PATIENCE", 1))


def _run(arguments, environment, output):
    """The child: `arguments` is a script with its own, `output` where it prints and reports errors."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    os.environ.update(environment)
    for stream, end in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(output + end, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), stream)
    sys.argv[:] = arguments
    sys.path.insert(0, os.path.dirname(arguments[0]))
    code = 0
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    ctypes.CDLL(None).exit(code)  # with what C++ does at the end, unlike os._exit


_held = []


def free_port():
    """Nobody is given it by chance: it stays bound, which who asks for it by number, to listen, does not see."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _held.append(holder)
    return str(holder.getsockname()[1])


class Child:
    """One process of a job."""

    def __init__(self, context, arguments, environment, output):
        self.output = str(output)
        self.process = context.Process(
            target=_run, args=([str(a) for a in arguments], environment, self.output)
        )
        self.process.start()

    def read(self, end=".out"):
        try:
            with open(self.output + end) as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def read_until(self, text, seconds=60):
        deadline = time.monotonic() + seconds * PATIENCE
        while text not in self.read():
            assert self.process.is_alive() and time.monotonic() < deadline, self.read(".err")
            time.sleep(0.01)

    def send(self, number):
        os.kill(self.process.pid, number)

    def finish(self, seconds=60):
        """(exit status, what it has printed, its errors); the status is None if it had to be killed."""
        self.process.join(seconds * PATIENCE)
        code = self.process.exitcode
        if code is None:
            self.process.kill()
            self.process.join()
        return code, self.read(), self.read(".err")


class Forks:
    """Starts processes; `environment` is what all of them get."""

    def __init__(self, folder, environment):
        self.folder, self.environment, self.count = folder, environment, 0
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["preloaded"])
        before = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        forkserver.ensure_running()
        os.environ["PYTHONPATH"] = before

    def start(self, arguments, environment=()):
        self.count += 1
        output = os.path.join(self.folder, f"process{self.count}")
        return Child(self.context, arguments, self.environment | dict(environment), output)

    def start_job(self, count, arguments, timeout=20 * PATIENCE, port=None):
        """`arguments` are those of all, or, if it is a function, by process."""
        port = port or free_port()
        return [
            self.start(
                arguments(process) if callable(arguments) else arguments,
                {
                    "RANK": str(process),
                    "LOCAL_RANK": str(process),
                    "WORLD_SIZE": str(count),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": port,
                    "TANDEM_TIMEOUT": str(timeout),
                },
            )
            for process in range(count)
        ]
