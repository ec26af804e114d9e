"""Ctrl-C in front of a search, and what a search shows on a terminal."""

import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import time

import matrix
import pytest
from tandem.__main__ import main
from tandem.session.compile import compile_module
from tandem.verify.reference import find_tool

# A search that is told to use all of a limit goes on until then, if it cannot prove its plan.
ENDLESS = 600
PROGRESS = re.compile(r"search +[0-9]+ %, best [0-9.]+ s, bound [0-9.]+ s")


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    """A step that is not solved exactly, and its problem."""
    folder = tmp_path_factory.mktemp("interrupt")
    module = matrix.subject_of(matrix.Case("gpt")).module
    (folder / "step.mlir").write_text(module.mlir)
    compile_module(
        module,
        mesh="data=2,model=2",
        micro=2,
        search="tandem",
        search_time_limit=0.1,
        problem_out=str(folder / "problem.txt"),
        stop_after="plan",
    )
    return folder


class Terminal:
    """A process whose standard error is a terminal."""

    def __init__(self, *command, **options):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [*map(str, command)], stdout=subprocess.PIPE, stderr=slave, text=True, **options
        )
        os.close(slave)
        self.text = ""

    def read(self):
        """What is there; false at the end."""
        if not select.select([self.master], [], [], 0.2)[0]:
            return True
        try:
            data = os.read(self.master, 4096)
        except OSError:  # Linux: nobody holds the other end.
            return False
        self.text += data.decode()
        return bool(data)

    def wait_for(self, pattern, seconds=60):
        end = time.monotonic() + seconds
        while not pattern.search(self.text):
            assert time.monotonic() < end and self.read(), self.text

    def interrupt(self, seconds=60):
        """The exit status, and standard output."""
        self.process.send_signal(signal.SIGINT)
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, "it goes on"
            self.read()
        while self.read():
            pass
        os.close(self.master)
        return self.process.returncode, self.process.stdout.read()


def test_tandem_plan_writes_its_plan(problem, tmp_path):
    plan = tmp_path / "plan.txt"
    command = [find_tool("tandem-plan"), problem / "problem.txt"]
    terminal = Terminal(*command, "--search-time-limit", ENDLESS, "-o", plan)
    terminal.wait_for(PROGRESS)
    status, out = terminal.interrupt()
    assert status == 0 and re.search(r"^gap [0-9.]+ %$", out, re.M), out + terminal.text
    checked = subprocess.run([*command, "--check", plan], capture_output=True, text=True)
    assert checked.returncode == 0 and checked.stdout.splitlines()[-1] == out.splitlines()[-1]


def test_tandem_compile_writes_its_plan(problem, tmp_path):
    plan = tmp_path / "plan.txt"
    terminal = Terminal(
        find_tool("tandem-compile"),
        problem / "step.mlir",
        *("--mesh", "data=2,model=2", "--micro", "2", "--search", "tandem"),
        *("--search-time-limit", ENDLESS, "--plan-only", "-o", plan),
    )
    terminal.wait_for(PROGRESS)
    status, _ = terminal.interrupt()
    assert status == 0, terminal.text
    assert re.search(r"cost [0-9.]+ s, .*, at most [0-9.]+ % above the best", terminal.text)
    assert "\nsearch tandem\n" in plan.read_text()


SCRIPT = """
import sys
sys.path[:0] = {path!r}
import matrix
from tandem.session.compile import compile_module
module = matrix.subject_of(matrix.Case("gpt")).module
try:
    compile_module(module, mesh="data=2,model=2", micro=2, search="tandem", search_time_limit={seconds})
except KeyboardInterrupt:
    print("KeyboardInterrupt")
"""


def test_python_raises():
    code = SCRIPT.format(path=sys.path, seconds=ENDLESS)
    terminal = Terminal(sys.executable, "-c", code)
    terminal.wait_for(PROGRESS)
    assert terminal.interrupt() == (0, "KeyboardInterrupt\n"), terminal.text


def test_command_line_says_so(monkeypatch, root, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tandem.commands.verify.compile_module", interrupted)
    assert main(["verify", str(root / "examples" / "mlp.py")]) == 130
    assert capsys.readouterr().err == "tandem verify: interrupted\n"


def test_it_may_come_while_torch_is_imported(root):
    """Behind a library of PyTorch's, and far in front of the end of its import."""
    command = [sys.executable, "-m", "tandem", "verify", str(root / "examples" / "mlp.py")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    maps, end = pathlib.Path(f"/proc/{process.pid}/maps"), time.monotonic() + 60
    while "libtorch_python" not in maps.read_text():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out, error) == (130, "", "tandem: interrupted\n")


def test_nothing_is_shown_without_a_terminal(problem):
    command = [find_tool("tandem-plan"), problem / "problem.txt", "--search-time-limit", "2"]
    assert subprocess.run(command, capture_output=True, text=True).stderr == ""
