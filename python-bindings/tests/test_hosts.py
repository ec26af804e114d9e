"""Several processes, started as torchrun starts them."""

import collections
import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from forked import Forks, free_port
from test_layouts import CLUSTER

ROOT = Path(__file__).resolve().parents[2]
TRAIN = str(ROOT / "examples/train.py")


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    return Forks(tmp_path_factory.mktemp("processes"), {"OMP_NUM_THREADS": "1"})


def finish(processes):
    return [process.finish() for process in processes]


def errors_of(processes):
    """The line of the exception that each ended with."""
    ends = finish(processes)
    assert [code for code, _, _ in ends] == [1] * len(ends), ends
    return [errors.strip().splitlines()[-1] for _, _, errors in ends]


def run_alone(forks, arguments):
    code, losses, errors = forks.start([TRAIN, *arguments]).finish()
    assert code == 0, errors
    return losses


# A small step, which scripts compile; `only(process, call)` calls in one of them.
SMALL = """
import os, torch, tandem
def only(process, call):
    return call() if os.environ["RANK"] == str(process) else None
def fail(*_):
    raise TypeError("no\\nnumber")
def loss(model, batch):
    return model(batch["x"]).square().mean()
def compile(loss=loss, batch=None, lr=0.1, width=2, kind=torch.optim.SGD, **options):
    model = torch.nn.Linear(4, width)
    optimizer = kind(model.parameters(), lr=lr)
    batch = batch or {"x": torch.ones(4, 4)}
    options = dict(dict(mesh="data=2", batch="global"), **options)
    return tandem.compile(model, loss, optimizer, batch, **options)
def error_of(call):
    try:
        call()
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
"""


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "script.py"
        path.write_text(SMALL + text)
        return [path]

    return write


@pytest.mark.parametrize("plan", ["data-parallel", "zero"])
def test_two_processes_train_as_one(forks, tmp_path, plan):
    arguments = ["--mesh=data=2", f"--plan={plan}", "--steps=3", "--save-model"]
    alone = run_alone(forks, [*arguments, tmp_path / "alone.pt"])
    ends = finish(forks.start_job(2, [TRAIN, *arguments, tmp_path / "two.pt"]))
    assert ends == [(0, alone, ""), (0, "", "")]
    states = [torch.load(tmp_path / name) for name in ("alone.pt", "two.pt")]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_what_process_0_prints_asks_no_other(forks, script):
    """Loss, metrics and the norm of the gradients are those of the step, where only process 0 looks at them."""
    text = """
model = torch.nn.Linear(4, 2)
def loss(model, batch):
    rows = model(batch).square()
    return {"loss": rows.mean(), "largest": rows.max()}
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
batch = torch.ones(4, 4) + int(os.environ["RANK"])
step = tandem.compile(model, loss, optimizer, batch, mesh="data=2", plan="zero", clip_grad_norm=0.5)
for number in range(3):
    out = step(batch)
    only(0, lambda: print(out["loss"].item() > 0, out["largest"].item() > 0, step.grad_norm().item() > 0, step.count))
from tandem.base import job
job.join().conclude("end", "")
"""
    ends = finish(forks.start_job(2, script(text)))
    printed = "".join(f"True True True {count}\n" for count in (1, 2, 3))
    assert [(code, out) for code, out, _ in ends] == [(0, printed), (0, "")], ends


def test_the_example_goes_on_from_a_checkpoint(forks, tmp_path):
    """Three steps in one process, three in two, as six in one."""
    arguments, folder = ["--model=gpt", "--mesh=data=2", "--plan=zero"], tmp_path / "folder"
    expected = run_alone(forks, [*arguments, "--steps=6"])
    first = run_alone(forks, [*arguments, "--steps=3", "--save", folder, "--save-every=2"])
    ends = finish(forks.start_job(2, [TRAIN, *arguments, "--steps=6", "--resume", folder]))
    assert [code for code, _, _ in ends] == [0, 0], ends
    assert first + ends[0][1] == expected and expected.count("\n") == 6


def test_torchrun_with_two_ranks_in_each_of_two_processes(forks):
    """The job's port and secret are passed by torchrun's store: here is no other place for them."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    arguments = ["--model=gpt", "--mesh=data=4", "--steps=2"]
    environment = os.environ | {"XDG_CONFIG_HOME": "/proc/nowhere"}
    del environment["TANDEM_JOB_SECRET"]
    end = subprocess.run(
        [*command, f"--master-port={free_port()}", TRAIN, *arguments],
        capture_output=True,
        text=True,
        timeout=180,
        env=environment,
    )
    assert end.returncode == 0, end.stderr
    assert end.stdout == run_alone(forks, arguments)


def _intrude(port, ends):
    """What strangers send: zeros, lengths of 2^60, a message of rank 1 as the job's own were, one byte at a time."""
    hello = struct.pack("<QQQQQ2s", 0, 0x316D65646E6174, 1, 7, 2, b"it")
    texts = [bytes(1 << 20), struct.pack("<Q", 1 << 60) * 99]
    texts += [struct.pack("<I", len(hello)) + hello, b"t"]
    open_ones = collections.deque(maxlen=50)
    while not ends.wait(0.01):
        for text in texts:
            with contextlib.suppress(OSError):
                one = socket.create_connection(("127.0.0.1", port), timeout=0.1)
                open_ones.append(one)
                one.sendall(text)


def test_strangers_at_its_port_do_not_concern_a_job(forks):
    """From before it listens until it has ended."""
    port, ends = free_port(), threading.Event()
    stranger = threading.Thread(target=_intrude, args=(int(port), ends))
    stranger.start()
    try:
        arguments = ["--mesh=data=2", "--steps=3"]
        job = finish(forks.start_job(2, [TRAIN, *arguments], port=port))
    finally:
        ends.set()
        stranger.join()
    assert job == [(0, run_alone(forks, arguments), ""), (0, "", "")]


def test_a_process_with_another_secret_is_no_process_of_the_job(forks, script):
    text = """
only(1, lambda: os.environ.update(TANDEM_JOB_SECRET="of somebody else"))
error_of(compile)
"""
    ends = finish(forks.start_job(2, script(text), timeout=3))
    first, second = (printed for _, printed, _ in ends)
    assert first == (
        "JobError: 1 of 2 processes came within 3000 ms, missing: 1; connections without the secret"
        " of the job: 1, the last from 127.0.0.1\n"
    )
    assert re.fullmatch(
        r"JobError: process 1 of 2 does not find process 0: process 0 of this job at 127.0.0.1 port \d+"
        r" has another secret, expected the same TANDEM_JOB_SECRET in all processes\n",
        second,
    )


# What process 1 is given otherwise, and what all say of it.
DIFFERENT = {
    "mesh='data=4'": "mesh data=4, expected data=2",
    "micro=2": "micro 2, expected 1",
    "plan='zero'": "plan zero, expected None",
    "plan='/a/p.txt'": "plan p.txt, expected None",
    "pins=[tandem.pin('w', data='full')]": "pins ['w:data=full'], expected []",
    "sections=[['a', 'b'], ['c']]": "sections ['a,b', 'c'], expected []",
    "order='gpipe'": "order gpipe, expected None",
    "seed=1": "seed 1, expected 0",
    "recompute=True": "recompute True, expected False",
    "search='tandem', search_time_limit=2": "search tandem, expected None",
    "gradients=True": "gradients True, expected False",
    "width=3": "parameter 'weight' torch.float32 [3, 4], expected torch.float32 [2, 4]",
    "kind=torch.optim.Adam": "optimizer Adam, expected SGD",
    "lr=0.5": "lr of optimizer.param_groups[0] 0.5, expected 0.1",
    "batch={'x': torch.ones(8, 4)}": "batch tensor 'x' torch.float32 [8, 4], expected torch.float32 [4, 4]",
    "batch={'x': torch.ones(4, 4), 'y': torch.ones(2)}": "batch tensor 'y' torch.float32 [2],"
    " expected nothing",
}


def test_options_that_differ_are_named_with_both_values(forks, script):
    lines = [
        f"other = only(1, lambda: dict({given})) or {{}}\nerror_of(lambda: compile(**other))\n"
        for given in DIFFERENT
    ]
    expected = [f"JobError: process 1 has {words} as process 0" for words in DIFFERENT.values()]
    for code, printed, errors in finish(forks.start_job(2, script("".join(lines)))):
        assert code == 0, errors
        assert printed.splitlines() == expected


def test_steps_that_differ_only_in_a_number_are_an_error(forks, script):
    """Behind a location, where a comparison of texts did not look; the same step on another line is none."""
    text = """
scaled = lambda model, batch: loss(model, {"x": batch["x"] * 1.5})
other = lambda model, batch: loss(model, {"x": batch["x"] * 2.5})
moved = lambda model, batch: loss(model, {"x": batch["x"] * 1.5})
error_of(lambda: compile(only(1, lambda: other) or scaled))
error_of(lambda: compile(only(1, lambda: moved) or scaled))
"""
    ends = finish(forks.start_job(2, script(text)))
    assert ends[0] == ends[1]
    pattern = r"JobError: process 1 has captured step (\w{64}), expected (\w{64}) as process 0\n"
    assert re.fullmatch(pattern, ends[0][1]), ends


def test_what_a_search_warns_of_is_said_once(forks, script):
    """By process 0: that the prices are those of a laptop."""
    text = """
import warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    compile(search="tandem", micro=2)
print(sum("the plan found runs in one strand" in str(w.message) for w in told))
print(sum("its prices are those of one laptop" in str(w.message) for w in told))
"""
    ends = finish(forks.start_job(2, script(text)))
    assert [printed.split() for _, printed, _ in ends] == [["1", "1"], ["0", "0"]], ends


def test_what_process_0_has_compiled_is_known_to_all(forks, script):
    text = """
step = compile(plan="zero")
for report in ("plan", "plan_table", "layouts", "remarks", "explanation", "explanation_json", "ir"):
    print(getattr(step.compiled, report))
print([stage for stage, seconds in step.compiled.seconds if seconds >= 0])
step.explain()
"""
    ends = finish(forks.start_job(2, script(text)))
    assert ends[0] == ends[1]
    assert ends[0][0] == 0 and "'plan'" in ends[0][1] and "Collectives" in ends[0][1], ends[0]


def test_an_error_of_the_compiler_is_that_of_all(forks):
    first, second = errors_of(forks.start_job(2, [TRAIN, "--plan=none"]))
    assert first.startswith("tandem.errors.CompileError: ")
    words = first.removeprefix("tandem.errors.")
    assert second == f"tandem.errors.JobError: process 0 ended with {words}"


@pytest.mark.parametrize("process", [0, 1])
def test_an_exception_in_compile_is_that_of_all(forks, script, process):
    """Tandem's own and others; all can go on."""
    text = f"""
error_of(lambda: compile(only({process}, lambda: fail) or loss))
error_of(lambda: compile(pins=only({process}, lambda: 5) or ()))
print(compile()({{"x": torch.ones(4, 4)}}).item() > 0)
"""
    ends = finish(forks.start_job(2, script(text)))
    assert [code for code, _, _ in ends] == [0, 0], ends
    own, other = (ends[p][1].splitlines() for p in (process, 1 - process))
    assert own[0].startswith("CaptureError: ") and own[0].endswith("TypeError: no")
    wrong = "CompileError: pins is 5, expected a list of what tandem.pin(...) returns"
    assert own[1:] == [wrong, "True"]
    told = [f"JobError: process {process} ended with {line}" for line in own[:2]]
    assert other == [*told, "True"]


@pytest.mark.parametrize("process", [0, 1])
def test_an_exception_that_ends_a_process_is_told_at_once(forks, script, process):
    text = f"step = compile(); only({process}, fail)\nwhile True: step({{'x': torch.ones(4, 4)}})\n"
    job = forks.start_job(2, script(text), timeout=60)
    begin = time.monotonic()
    own, other = errors_of([job[process], job[1 - process]])
    assert time.monotonic() - begin < 50
    assert own == "number"  # of an exception of two lines
    words = (
        rf"tandem.errors.\w+: process {process} \(pid \d+ on .*\) ended with TypeError: no number"
    )
    assert re.match(words, other), other


def test_a_killed_process_is_the_error_of_the_other(forks):
    job = forks.start_job(2, [TRAIN, "--steps=1000000"])
    job[0].read_until("step 1 loss ")
    job[1].send(signal.SIGKILL)
    code, _, errors = job[0].finish()
    assert code == 1
    assert re.search(r"RunError: process 1 \(pid \d+ on .*\) ended without a word", errors)
    assert job[1].finish()[0] == -signal.SIGKILL


def test_values_behind_a_refusal_are_intact_and_training_goes_on(forks, script):
    text = """
step = compile(plan="zero")
values = lambda: {name: value.tolist() for name, value in step.state_dict().items()}
step(GOOD)
before = values()
error_of(lambda: step({"x": torch.full((4, 4), float("nan"))}))
print([t.name for t in step.store.tensors if t.damaged], values() == before)
print(step(GOOD).item())
""".replace("GOOD", "{'x': torch.ones(4, 4)}")
    ends = finish(forks.start_job(2, script(text)))
    alone = forks.start(script(text)).finish()
    assert alone[0] == 0 and ends == [alone, alone]
    assert alone[1].splitlines()[0].startswith("NonFiniteLossError: step 2, ")
    assert alone[1].splitlines()[1] == "[] True"


def test_values_that_a_death_has_damaged_are_named(forks, script):
    """Nor can those of ranks that have died be put together."""
    text = """
step, batch = compile(plan="zero"), {"x": torch.ones(4, 4)}
step(batch)
from tandem.session.programs import Loaded
only(1, lambda: setattr(Loaded, "run", lambda *_: os.kill(os.getpid(), 9)))
error_of(lambda: step(batch))
print(sorted(t.name for t in step.store.tensors if t.damaged))
error_of(step.state_dict)
error_of(lambda: step(batch))
"""
    code, printed, errors = forks.start_job(2, script(text))[0].finish()
    assert code == 0, errors
    first, damaged, reading, again = printed.splitlines()
    died = r"RunError: .*process 1 \(pid \d+ on .*\) ended without a word"
    assert re.match(died, first) and re.match(died, reading), printed
    assert damaged == "['bias', 'step', 'weight']"
    assert re.match(r"RunError: process 1 \(pid \d+ on .*\) ended without a word", again)


# Two processes of two ranks each, or of one; the loss is a mean, so that a mistake in what is whose is seen.
PARTS = """
import torch.nn.functional as F
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
model = torch.nn.Linear(4, 2)
def loss(model, batch):
    made = model(batch["x"])
    return F.mse_loss(made, batch["y"]), made
def data(step):
    torch.manual_seed(step)
    return {"x": torch.randn(16, 4), "y": torch.randn(16, 2)}
has_part = "WORLD_SIZE" in os.environ and not OPTIONS["mesh"].startswith(("model", "pipe"))
process, count = (int(os.environ["RANK"]), 2) if has_part else (0, 1)
def part(step, rows=16):
    each = rows // count
    return {name: t[:rows][process * each : (process + 1) * each] for name, t in data(step).items()}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = tandem.compile(model, loss, optimizer, part(0), **OPTIONS)
for number, rows in enumerate((16, 16, 8)):
    found, made = step(part(number, rows))
    print(f"{found.item():.6f}", list(made.shape))
found, made = step.evaluate(part(5))
print(f"{found.item():.6f}", f"{made.sum().item():.4f}", [f"{t.sum().item():.5f}" for t in step.state_dict().values()])
# None leaves while the other still reads.
from tandem.base import job
job.join() and job.join().conclude("end", "")
"""


PART_MESHES = ("data=2", "data=4", "data=2,model=2", "model=2,data=2", "pipe=2", "data=2,pipe=2")


@pytest.mark.parametrize("mesh", PART_MESHES)
def test_each_process_gives_its_part_of_a_batch(forks, script, mesh):
    inside = dict(plan="pipeline", accumulate=2) if "pipe" in mesh else dict(plan="zero", micro=2)
    options = dict(mesh=mesh, **inside)
    # Where the model or a pipeline comes first, each process has ranks of all parts of the data.
    path = script(PARTS.replace("OPTIONS", repr(options)))
    ends = finish(forks.start_job(2, path))
    alone = forks.start(path).finish()
    assert [end[:2] for end in ends] == [(0, alone[1])] * 2, (alone, ends)


CHECKS = {
    # What process 1 is given in the place of its part, or of the whole; what both say.
    "local": (
        "part(0)",
        "whole(0)",
        "all 2 processes have the same rows, expected the part of each",
    ),
    "global": (
        "whole(0)",
        "part(0)",
        "process 1 has another one than process 0, expected the whole",
    ),
}


@pytest.mark.parametrize("mode", CHECKS)
def test_first_batches_are_compared(forks, script, mode):
    right, wrong, words = CHECKS[mode]
    text = f"""
process = int(os.environ["RANK"])
def rows(first): return {{"x": torch.arange(16.0).reshape(4, 4) + 100 * first}}
def part(step): return rows(process)
def whole(step): return rows(0)
step = compile(batch={mode!r}, example={right})
error_of(lambda: step({wrong}))
step = compile(batch={mode!r}, example={right})
print(step({right}).item() > 0)
"""
    text = text.replace("batch='", "mode='").replace("example=", "batch=")
    text = text.replace("compile(mode=", "compile_as(")
    text = "def compile_as(mode, batch): return tandem_compile(mode, batch)\n" + text
    text = (
        """
def tandem_compile(mode, batch):
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    return tandem.compile(model, loss, optimizer, batch, mesh="data=2", batch=mode)
"""
        + text
    )
    ends = finish(forks.start_job(2, script(text)))
    for code, printed, errors in ends:
        assert code == 0, errors
        first, last = printed.splitlines()
        assert first.startswith("JobError: batch: ") and words in first and last == "True", printed


def test_a_mesh_without_a_rank_for_each_process(forks, script):
    """Before the capture, which here would not end."""
    text = "def endless(*_):\n    while True: pass\nerror_of(lambda: compile(loss=endless, mesh='data=3'))\n"
    for code, printed, errors in finish(forks.start_job(2, script(text))):
        assert code == 0, errors
        assert "mesh data=3 has 3 ranks, and the job 2 processes (WORLD_SIZE), expected" in printed


def test_a_number_that_one_process_sets(forks, script):
    """In an attribute: an error of both if the step reads it, and nothing if not; what both set counts."""
    text = """
process = int(os.environ["RANK"])
batch = torch.ones(4, 4) * (process + 1)
class Model(torch.nn.Linear):
    beta, epoch = 1.0, 0
    def forward(self, x):
        return self.beta * super().forward(x)
def mean(model, batch):
    return model(batch).square().mean()
model = Model(4, 2)
step = tandem.compile(model, mean, torch.optim.SGD(model.parameters(), lr=0.0), batch, mesh="data=2")
first = step(batch)
model.epoch = process
assert step(batch) == first
model.beta = 0.5 + process
error_of(lambda: step(batch))
model.beta = 0.5
print(step.count, (step(batch) / first).item())
from tandem.base import job
job.join().conclude("end", "")
"""
    ends = finish(forks.start_job(2, script(text)))
    for code, printed, errors in ends:
        assert code == 0, errors
        error, last = printed.splitlines()
        assert error.startswith("JobError: process 1 has captured step "), printed
        assert "the model: attribute 'beta' is 0.5 in process 0 and 1.5 in process 1" in error
        assert last == "2 0.25"


def test_what_one_process_changes_is_an_error_of_both(forks, script):
    """Values of its model, or of its optimizer: the others would train on, by another rate or none. Values that are the step's own
    are none, whoever has them.
    """
    text = """
process = int(os.environ["RANK"])
batch = torch.ones(4, 4) * (process + 1)
def mean(model, batch):
    return model(batch).square().mean()
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
step = tandem.compile(model, mean, optimizer, batch, mesh="data=2")
step(batch)
own = step.state_dict()
if process:
    with torch.no_grad():
        model.bias.add_(1)
error_of(lambda: step(batch))
error_of(lambda: step.evaluate(batch))
if process:
    model.load_state_dict(own)
step(batch)
optimizer.param_groups[0]["lr"] = 0.1 + process
error_of(lambda: step(batch))
optimizer.param_groups[0].update(lr=0.2, momentum=0.8 + process / 10)
error_of(lambda: step(batch))
optimizer.param_groups[0]["momentum"] = 0.8
print(step.count, step(batch).item() > 0)
from tandem.base import job
job.join().conclude("end", "")
"""
    ends = finish(forks.start_job(2, script(text)))
    for process, (code, printed, errors) in enumerate(ends):
        assert code == 0, errors
        *values, rate, momentum, last = printed.splitlines()
        begin = "StateError: " if process else "JobError: process 1 ended with StateError: "
        for line in values:
            assert line.startswith(begin + "model: the values of 'bias' were changed"), printed
        words = "expected the same of all"
        assert "StateError: optimizer: lr of parameter group 0 is 0.1 in process 0 and 1.1" in rate
        assert (
            "StateError: optimizer: momentum of parameter group 0 is 0.8 in process 0 and 0.9"
            in momentum
        )
        assert words in rate and words in momentum
        assert len(values) == 2 and last == "2 True"


def test_what_one_process_cannot_begin_with_is_an_error_of_both(forks, script):
    """At once, whatever it is that it looks at before a step: the other would wait for it until its time was over. Training goes on."""
    text = """
process = int(os.environ["RANK"])
batch = {"x": torch.ones(4, 4) * (process + 1), "n": 2}
model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Linear(2, 2))
def mean(model, batch):
    return model(batch["x"]).square().mean()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = tandem.compile(model, mean, optimizer, batch, mesh="data=2")
step(batch)
options, weight = optimizer.param_groups[0], model[1].weight
def fails(begin, end):
    if process:
        begin()
    error_of(lambda: step(batch))
    end()
fails(lambda: options.update(maximize=True), lambda: options.update(maximize=False))
fails(model[1].eval, model.train)
fails(lambda: options.update(params=[weight]), lambda: options.update(params=list(model.parameters())))
fails(lambda: weight.requires_grad_(False), lambda: weight.requires_grad_(True))
fails(lambda: batch.update(n=3), lambda: batch.update(n=2))
print(step.count, step(batch).item() > 0)
from tandem.base import job
job.join().conclude("end", "")
"""
    ends = finish(forks.start_job(2, script(text)))
    for process, (code, printed, errors) in enumerate(ends):
        assert code == 0, errors
        *told, frozen, constant, last = printed.splitlines()
        begin = "StateError: " if process else "JobError: process 1 ended with StateError: "
        words = [
            "optimizer parameter group 0: maximize is True, expected False",
            "module '1': training is False, expected True",
            "optimizer parameter group 0: found 1 parameters, expected 4",
        ]
        assert len(told) == 3, printed
        for line, word in zip(told, words, strict=True):
            assert line.startswith(begin + word), printed
        words = (
            "parameter '1.weight': requires_grad is as captured in process 0 and False in process 1"
        )
        assert frozen == f"StateError: {words}, expected the same of all"
        words = "batch: constant 'n' is 2 in process 0 and 3 in process 1"
        assert constant == f"BatchError: {words}, expected the same of all"
        assert last == "1 True"


def test_parts_of_a_mesh_that_is_found_later_are_not_known(forks, script):
    text = """
model = torch.nn.Linear(4, 2)
made = model, loss, torch.optim.SGD(model.parameters(), lr=0.1), {"x": torch.ones(2, 4)}
error_of(lambda: tandem.compile(*made, mesh="auto", cluster="laptop.yaml"))
"""
    for code, printed, errors in finish(forks.start_job(2, script(text))):
        assert code == 0, errors
        words = (
            "CompileError: mesh='auto' says only after the capture which rows are a process's own"
        )
        assert printed == f"{words}, expected compile(..., batch='global')\n"


def test_a_layout_that_is_found_is_that_of_all(forks, script, tmp_path):
    """Each process has its ranks of the pipeline, and the table of layouts."""
    cluster = tmp_path / "slow.yaml"
    cluster.write_text(CLUSTER)
    text = f"""
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(8)))
data = {{"x": torch.randn(16, 64)}}
made = model, loss, torch.optim.SGD(model.parameters(), lr=0.1), data
options = dict(mesh="auto", search="tandem", cluster={str(cluster)!r}, search_time_limit=30)
step = tandem.compile(*made, batch="global", memory="150kB", **options)
losses = [float(step(data)) for _ in range(2)]
print([axis.name for axis in step.program.mesh if axis.size > 1], losses, step.compiled.layouts)
"""
    ends = finish(forks.start_job(2, script(text)))
    for code, printed, errors in ends:
        assert code == 0, errors
        assert "pipe" in printed.splitlines()[0] and "layouts: 4 devices" in printed
    assert ends[0][1] == ends[1][1]  # losses, too


def test_an_evaluation_of_rows_that_do_not_divide(forks, script):
    """A process has no rows of another's; of the whole batch each has all."""
    text = """
batch = {"x": torch.ones(4, 4) * (1 + int(os.environ["RANK"]))}
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = tandem.compile(model, loss, optimizer, batch, mesh="data=4")
batch = {"x": batch["x"][:3]}
error_of(lambda: step.evaluate(batch))
print(step.evaluate({"x": batch["x"][:2]}).shape)
print(compile(mesh="data=4").evaluate({"x": torch.ones(3, 4)}).shape)
"""
    ends = finish(forks.start_job(2, script(text)))
    for code, printed, errors in ends:
        assert code == 0, errors
        refused, *others = printed.splitlines()
        words = "BatchError: batch: this process has 3 rows, which do not divide over its 2 ranks"
        assert refused.startswith(words) and "batch='global'" in refused
        assert others == ["torch.Size([])"] * 2


def test_batches_of_other_sizes_in_each_process(forks, script):
    """An error of both before the step, in a step and in an evaluation, with one program per length or none; training goes on."""
    text = """
process = int(os.environ["RANK"])
def rows(length, count=4, dtype=torch.float32):
    return {"x": torch.ones(count, length, 4, dtype=dtype) * (process + 1)}
def mean(model, batch):
    return model(batch["x"].float()).square().mean()
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = tandem.compile(model, mean, optimizer, rows(3), mesh="data=2", accumulate=2)
step(rows(3))
step(rows(5))
error_of(lambda: step(rows(3 + 2 * process)))
error_of(lambda: step(rows(3, 4 - 2 * process)))
error_of(lambda: step.evaluate(rows(3 + process)))
error_of(lambda: step(rows(3, 4, (torch.float32, torch.int64)[process])))
print(step.count, step(rows(3)).item() > 0)
from tandem.base import job
job.join().conclude("end", "")
"""
    ends = finish(forks.start_job(2, script(text)))
    for code, printed, errors in ends:
        assert code == 0, errors
        assert printed == ends[0][1]
        length, count, evaluated, kind, last = printed.splitlines()
        words = "float32[4, 3, 4] in process 0 and float32[4, 5, 4] in process 1"
        assert length.startswith("BatchError: batch: tensor 'x' is ") and words in length
        assert (
            "float32[2, 3, 4] in process 1" in count
            and "float32[4, 4, 4] in process 1" in evaluated
        )
        assert "int64[4, 3, 4] in process 1" in kind
        assert last == "2 True"
