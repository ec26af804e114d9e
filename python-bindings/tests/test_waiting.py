"""What is shown while one waits, and Ctrl-C meanwhile: it is heard everywhere, and leaves nothing half done."""

import os
import pty
import re
import signal
import subprocess
import sys
import threading

import pytest
import tandem
import torch
from tandem.base import progress
from tandem.session.programs import Loaded

SCRIPT = """
import sys
sys.path[:0] = {path!r}
import tandem, torch
from tandem.base import progress
progress._QUIET, progress._PAUSE = 0, 0.001
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 16))
optimizer = torch.optim.AdamW(model.parameters())
loss_fn = lambda model, batch: (model(batch) - batch).square().mean()
step = tandem.compile(model, loss_fn, optimizer, torch.ones(8, 16), mesh="data=2")
step(torch.ones(8, 16))
step.evaluate(torch.ones(8, 16))
"""


def run_on_terminal(command, environment):
    """What it wrote to a terminal on its standard error."""
    master, slave = pty.openpty()
    process = subprocess.Popen(command, stderr=slave, env=environment)
    os.close(slave)
    text = b""
    while True:
        try:
            data = os.read(master, 4096)
        except OSError:  # Linux: nobody holds the other end.
            data = b""
        if not data:
            break
        text += data
    os.close(master)
    assert process.wait() == 0, text
    return text.decode()


def test_a_terminal_shows_each_part(tmp_path):
    environment = os.environ | {"TANDEM_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT.format(path=sys.path)]
    text = run_on_terminal(command, environment)
    lines = [line.rpartition("\x1b[K")[2] for line in text.replace("\r\n", "\n").split("\n")]
    step, evaluation = (line for line in lines if line.startswith("tandem: "))
    seconds = r" [0-9]+\.[0-9] s"
    parts = ["capture", "import", "accumulate", "plan", "shard", "localize", "duplex", "schedule"]
    parts += ["lower", "kernels", "session"]
    pattern = "^tandem: " + ", ".join(part + seconds for part in parts) + "$"
    assert re.match(pattern, step) and re.match(pattern, evaluation)
    assert re.search(r"kernels [0-9]+ of [0-9]+", text)
    again = run_on_terminal(command, environment)
    assert re.search(f"tandem: capture{seconds}, session{seconds}\r\n", again)


NOTICE = """
import sys, time
sys.path[:0] = {path!r}
from tandem.base import notices, progress
progress._QUIET, progress._PAUSE = 0, 0.001
with progress.shown():
    progress.part("session")
    time.sleep(0.1)
    notices.tell("what a session says")
    time.sleep(0.1)
"""


def test_a_notice_has_a_line_of_its_own():
    text = run_on_terminal([sys.executable, "-c", NOTICE.format(path=sys.path)], os.environ)
    lines = [line.rpartition("\x1b[K")[2] for line in text.replace("\r\n", "\n").split("\n")]
    assert "<string>:9: UserWarning: what a session says" in lines
    assert any(re.match("^tandem: session [0-9.]+ s$", line) for line in lines)


def test_a_file_has_nothing(tmp_path):
    environment = os.environ | {"TANDEM_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT.format(path=sys.path)]
    assert subprocess.run(command, stderr=subprocess.PIPE, env=environment).stderr == b""


# Ctrl-C


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def loss_fn(model, batch):
    return (model(batch) - batch).square().mean()


def batch_of(number):
    return torch.randn(8, 16, generator=torch.Generator().manual_seed(number))


def make_step(loss=loss_fn, seed=0):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 16))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return tandem.compile(model, loss, optimizer, batch_of(0), mesh="data=2", plan="zero")


def values_of(step):
    return step.state_dict() | step.optimizer_state_dict()["state"].get(0, {})


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TANDEM_CACHE_DIR", str(tmp_path / "cache"))


def test_in_capture():
    def interrupted(model, batch):
        interrupt()
        return loss_fn(model, batch)

    with pytest.raises(KeyboardInterrupt):
        make_step(interrupted)
    assert make_step()(batch_of(0)) > 0


@pytest.mark.parametrize("stage", ["import", "schedule", "lower", "kernels"])
def test_in_the_compiler(stage, monkeypatch, empty_cache):
    told = []

    def tell(what, done, total):
        told.append(what)
        if what == stage:
            interrupt()

    with monkeypatch.context() as patch:
        patch.setattr(progress, "of_compiler", lambda searches: tell)
        with pytest.raises(KeyboardInterrupt):
            make_step()
    assert told.count(stage) == 1 and told[-1] == stage
    assert make_step()(batch_of(0)) > 0


def test_an_exception_where_progress_is_told(monkeypatch, empty_cache):
    """Python that the compiler calls: the exception comes out behind it."""

    def fail(what, done, total):
        raise KeyError(what)

    monkeypatch.setattr(progress, "of_compiler", lambda searches: fail)
    with pytest.raises(KeyError, match="import"):
        make_step()


def test_while_the_session_is_made(monkeypatch):
    begin = Loaded.set
    with monkeypatch.context() as patch:
        patch.setattr(Loaded, "set", lambda *args: (interrupt(), begin(*args)))
        with pytest.raises(KeyboardInterrupt):
            make_step()
    assert make_step()(batch_of(0)) > 0


def test_while_products_are_measured(tmp_path, monkeypatch, empty_cache):
    """The first of them takes longer than the signal does; those behind it are left."""
    model = torch.nn.Sequential(*(torch.nn.Linear(512 + n, 513 + n) for n in range(4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    begin = Loaded.__init__

    def interrupted(*args, **options):
        threading.Timer(0.05, interrupt).start()
        begin(*args, **options)

    monkeypatch.setattr(Loaded, "__init__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        batch = torch.ones(4096, 512)
        tandem.compile(model, lambda model, batch: model(batch).sum(), optimizer, batch)
    assert len(list((tmp_path / "cache" / "products").glob("*.txt"))) < 3


def test_a_step_ends_first():
    """However many steps there were: the values are those of whole ones."""
    step = make_step()
    step(batch_of(0))
    done = threading.Event()

    def interrupt_often():  # Python drops what a signal raises within a destructor.
        while not done.wait(0.3):
            interrupt()

    thread = threading.Thread(target=interrupt_often)
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        try:
            while True:
                step(batch_of(step.count))
        finally:
            done.set()
    thread.join()
    twin = make_step()
    for number in range(step.count):
        twin(batch_of(number))
    assert step.count > 0
    assert_same(values_of(step), values_of(twin))


def test_while_a_checkpoint_is_written(tmp_path, monkeypatch):
    """It is heard although the disk does not answer; the checkpoint from before stays."""
    step = make_step()
    step(batch_of(0))
    step.save(tmp_path)
    before = values_of(step)
    step(batch_of(1))
    asked, answers = threading.Event(), threading.Event()

    def sync(file):
        asked.set()
        assert answers.wait(60)

    def interrupt_then():
        assert asked.wait(60)
        interrupt()

    thread = threading.Thread(target=interrupt_then)
    with monkeypatch.context() as patch:
        patch.setattr("tandem.checkpoint.files.sync", sync)
        patch.setattr("tandem.checkpoint.files.sync_folder", lambda path: None)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            step.save(tmp_path)
        assert not answers.is_set()
        answers.set()
    thread.join()
    other = make_step(seed=1)
    other.load(tmp_path)
    assert_same(values_of(other), before)
    step.save(tmp_path)
    assert len(os.listdir(tmp_path)) == 2
    other.load(tmp_path)
    assert_same(values_of(other), values_of(step))
