"""Checkpoints: `step.save` and `step.load`. The truth is the same training without a break."""

import contextlib
import copy
import errno
import hashlib
import json
import math
import os
import random
import resource
import shutil
import signal
import warnings
from types import SimpleNamespace

import pytest
import tandem
import torch
import torch.nn.functional as F
from forked import Forks
from safetensors import safe_open
from tandem.checkpoint import covers, files, index, marks, shards
from torch import nn
from torch.optim import lr_scheduler

VOCABULARY = 8


class Net(nn.Module):
    """Tied tables, statistics, dropout, a parameter that is not used, and a buffer of no state dict."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, 16)
        self.norm = nn.BatchNorm1d(16)
        self.hidden, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
        self.head = nn.Linear(16, VOCABULARY)
        self.head.weight = self.table.weight
        self.unused = nn.Parameter(torch.randn(3))
        self.register_buffer("scale", torch.rand(16), persistent=False)

    def forward(self, tokens):
        x = self.norm(self.table(tokens)) * self.scale
        return self.head(F.dropout(self.down(F.gelu(self.hidden(x))), 0.25))


def loss_fn(model, batch):
    return F.cross_entropy(model(batch["x"]), batch["y"])


def batch_of(number, size=16):
    generator = torch.Generator().manual_seed(number)
    x, y = torch.randint(VOCABULARY, (2, size), generator=generator)
    return {"x": x, "y": y}


def of_two_rates(parameters):
    first, *rest = parameters
    return torch.optim.SGD([{"params": first}, {"params": rest, "lr": 0.01}], lr=0.1, momentum=0.9)


OPTIMIZERS = {
    "two rates": of_two_rates,
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=1e-2, amsgrad=True),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-2),
}


class Run:
    """A step with its model, optimizer and schedule; `seed` makes other values to start from."""

    def __init__(self, optimizer="AdamW", seed=1, dtype=torch.float64, model=Net, **how):
        torch.manual_seed(seed)
        self.model = model().to(dtype)
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.scheduler = lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        how = {"mesh": "data=2", "seed": seed, "batch": "global"} | how
        self.step = tandem.compile(self.model, loss_fn, self.optimizer, batch_of(0), **how)

    def train(self, first, last):
        losses = []
        for number in range(first, last):
            losses.append(self.step(batch_of(number)).item())
            with warnings.catch_warnings(action="ignore"):  # that no optimizer.step() came before
                self.scheduler.step()
        return losses

    def values(self):
        return {a.key: self.step.value(a.key) for a in self.step.module.arguments if is_stored(a)}


def is_stored(argument):
    return argument.role in ("parameter", "state", "buffer", "step", "seed")


def assert_same(found, expected):
    """To the bit."""
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.equal(found[key], value), key


# Going on


@pytest.mark.parametrize(
    "optimizer,dtype",
    [(name, torch.float64) for name in OPTIMIZERS]
    + [("AdamW", torch.float32), ("AdamW", torch.bfloat16)],
)
def test_training_goes_on_to_the_bit(tmp_path, optimizer, dtype):
    run = Run(optimizer, dtype=dtype)
    run.train(0, 3)
    run.step.save(tmp_path, extra={"epoch": 3, "best": (0.5, float("inf"))})
    saved, schedule = run.values(), copy.deepcopy(run.scheduler.state_dict())
    losses = run.train(3, 6)
    assert len(set(losses)) == 3

    other = Run(optimizer, seed=2, dtype=dtype)
    other.train(0, 1)
    extra = other.step.load(tmp_path)
    assert extra == {"epoch": 3, "best": (0.5, float("inf"))}
    assert_same(other.values(), saved)
    assert other.step.count == 3
    assert other.scheduler.state_dict() == schedule
    assert schedule["_last_lr"] == [group["lr"] for group in other.optimizer.param_groups]
    assert other.train(3, 6) == losses
    assert_same(other.values(), run.values())


# Saved as, loaded as. Other plans have other kernels and sums: the last digits differ.
MOVES = {
    "more ranks": (dict(mesh="data=2"), dict(mesh="data=4")),
    "alone": (dict(mesh="data=4", plan="zero"), dict()),
    "zero to tensors": (
        dict(mesh="data=2", plan="zero"),
        dict(mesh="model=2", plan="tensor-parallel"),
    ),
    "tensors to zero": (
        dict(mesh="model=2", plan="tensor-parallel"),
        dict(mesh="data=4", plan="zero"),
    ),
    "two axes": (
        dict(mesh="data=2", plan="zero"),
        dict(mesh="data=2,model=2", plan="tensor-parallel"),
    ),
    "microbatches": (dict(mesh="data=2"), dict(mesh="data=2", micro=2)),
    "zero": (dict(mesh="data=2"), dict(mesh="data=2", plan="zero")),
    "pins": (
        dict(mesh="data=2", pins=[tandem.pin("hidden.weight", data="gather(0)")]),
        dict(mesh="data=2", pins=[tandem.pin("hidden.weight", data="gather(1)")]),
    ),
}


@pytest.mark.sample(4)
@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("move", MOVES)
def test_another_mesh_plan_and_micro(tmp_path, move):
    first, second = MOVES[move]
    run = Run(**first)
    run.train(0, 3)
    run.step.save(tmp_path)
    saved = run.values()
    other = Run(seed=2, **({"mesh": None} | second))
    other.step.load(tmp_path)
    assert_same(other.values(), saved)
    losses = other.train(3, 6)
    assert losses == pytest.approx(run.train(3, 6), rel=1e-9)
    assert len(set(losses)) == 3


def test_a_checkpoint_is_replaced_by_the_next(tmp_path):
    run = Run()
    for _ in range(3):
        run.train(0, 1)
        run.step.save(str(tmp_path) + "/a/b")
    assert len(os.listdir(tmp_path / "a/b")) == 2
    other = Run(seed=2)
    other.step.load(tmp_path / "a/b")
    assert other.step.count == 3


def test_what_is_written_is_safetensors(tmp_path):
    run = Run(mesh="data=2", plan="zero")
    run.train(0, 2)
    run.step.save(tmp_path)
    (name,) = (n for n in os.listdir(tmp_path) if n != index.NAME)
    found = {}
    with safe_open(tmp_path / name, "pt") as file:
        for key in file.keys():  # noqa: SIM118 - no dict
            found[key] = file.get_tensor(key)
    whole = {key: value for key, value in run.values().items() if key in found}
    assert_same({key: found[key] for key in whole}, whole)
    halves = [found[f"parameter/hidden.weight[{rows}, 0:16]"] for rows in ("0:16", "16:32")]
    assert torch.equal(torch.cat(halves), run.step.state_dict()["hidden.weight"])


def test_a_model_without_values_gets_them(tmp_path):
    run = Run()
    run.train(0, 2)
    run.step.save(tmp_path)
    with torch.device("meta"):
        model = Net().double()
    model.scale = torch.zeros(16, dtype=torch.float64)
    optimizer = OPTIMIZERS["AdamW"](model.parameters())
    step = tandem.compile(model, loss_fn, optimizer, batch_of(0), mesh="data=2")
    step.load(tmp_path, scheduler=())
    for name, value in run.step.state_dict().items():
        assert torch.equal(step.state_dict()[name], value), name
    with pytest.raises(tandem.StateError, match="'unused' is on the meta device"):
        fresh = tandem.compile(model, loss_fn, optimizer, batch_of(0), mesh="data=2")
        fresh.save(tmp_path)


SCHEDULERS = {
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda n: 0.9**n),
    "multiplicative": lambda o: lr_scheduler.MultiplicativeLR(o, lambda n: 0.9),
    "multi step": lambda o: lr_scheduler.MultiStepLR(o, [1, 5, 5], 0.5),
    "constant": lambda o: lr_scheduler.ConstantLR(o, 0.5, 4),
    "linear": lambda o: lr_scheduler.LinearLR(o, 0.1, 1.0, 5),
    "exponential": lambda o: lr_scheduler.ExponentialLR(o, 0.8),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 5),
    "restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
    "polynomial": lambda o: lr_scheduler.PolynomialLR(o, 8),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0, cooldown=1),
    "cyclic": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 2, cycle_momentum=False),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.1, 9, cycle_momentum=False),
    "sequential": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1), lr_scheduler.ExponentialLR(o, 0.5)], [4]
    ),
    "sequential of one kind": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1), lr_scheduler.LinearLR(o, 0.5)], [4]
    ),
    "chained": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.LinearLR(o, 0.1), lr_scheduler.ExponentialLR(o, 0.5)]
    ),
}


@pytest.fixture(scope="module")
def two_steps():
    """Two steps of equal models, made once."""

    def make():
        torch.manual_seed(0)
        model = nn.Linear(4, 4).double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        batch = torch.ones(4, 4, dtype=torch.float64)
        step = tandem.compile(model, lambda m, x: m(x).square().mean(), optimizer, batch)
        return optimizer, lambda: step(batch).item(), step

    return make(), make()


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", SCHEDULERS)
@pytest.mark.filterwarnings("ignore")
def test_every_schedule_goes_on(two_steps, tmp_path, kind):
    (optimizer, run, step), (second_optimizer, second_run, second) = two_steps

    def reset(optimizer, rate):
        optimizer.param_groups[0].clear()
        optimizer.param_groups[0].update(
            torch.optim.SGD(parameters[optimizer], lr=rate).param_groups[0]
        )

    parameters = {o: o.param_groups[0]["params"] for o in (optimizer, second_optimizer)}

    def train(run, scheduler, count):
        history = []
        for _ in range(count):
            history.append((run(), float(scheduler.optimizer.param_groups[0]["lr"])))
            plateau = isinstance(scheduler, lr_scheduler.ReduceLROnPlateau)
            scheduler.step(1.0) if plateau else scheduler.step()
        return history

    reset(optimizer, 0.1), reset(second_optimizer, 0.1)
    scheduler, second_scheduler = SCHEDULERS[kind](optimizer), SCHEDULERS[kind](second_optimizer)
    train(run, scheduler, 3)
    step.save(tmp_path)
    expected = train(run, scheduler, 4)
    second.load(tmp_path)
    found = train(second_run, second_scheduler, 4)
    assert found == expected
    assert len({rate for _, rate in found}) > 1 or kind == "constant"


def test_a_schedule_that_is_given_counts(tmp_path):
    run = Run()
    first = lr_scheduler.ExponentialLR(run.optimizer, 0.5)
    second = lr_scheduler.ExponentialLR(run.optimizer, 0.25)
    with pytest.raises(
        tandem.CheckpointError, match="found 2 ExponentialLR of the optimizer.*scheduler="
    ):
        run.step.save(tmp_path)
    run.step.save(tmp_path, scheduler=[first, second])
    first.last_epoch = 7
    run.step.load(tmp_path, scheduler=[first, second])
    assert first.last_epoch == 0
    run.step.save(tmp_path, scheduler=second)
    with pytest.raises(
        tandem.CheckpointError, match="scheduler is int, expected one of torch.optim"
    ):
        run.step.save(tmp_path, scheduler=3)


# Going on in other processes


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    return Forks(tmp_path_factory.mktemp("processes"), {"OMP_NUM_THREADS": "1"})


TRAINS = """
import os, sys, torch, tandem
from test_saving import *
how, task, folder, first, last = sys.argv[1:]
run = Run(seed=1 if task == "save" else 2, **eval(how))
if task == "load":
    run.step.load(folder)
losses = run.train(int(first), int(last))
if task == "save":
    run.step.save(folder)
    losses = run.train(int(last), 6)
print(losses)
"""


@pytest.fixture
def train(forks, tmp_path):
    """Runs TRAINS in so many processes; all print the same losses."""
    script = tmp_path / "trains.py"
    script.write_text(TRAINS)

    def run(processes, *arguments):
        arguments = [script, *map(str, arguments)]
        job = forks.start_job(processes, arguments) if processes > 1 else [forks.start(arguments)]
        ends = [process.finish(120) for process in job]
        assert all(code == 0 for code, _, _ in ends), ends
        assert len({printed for _, printed, _ in ends}) == 1
        return eval(ends[0][1])

    return run


@pytest.mark.parametrize("plan", ["data-parallel", "zero"])
def test_other_numbers_of_processes(train, tmp_path, plan):
    """1 -> 2 -> 1, equal to the bit, as sums are those of ranks."""
    how, folder = dict(mesh="data=2", plan=plan), tmp_path / "folder"
    expected = train(1, how, "save", folder, 0, 3)
    assert train(2, how, "load", folder, 3, 6) == expected
    assert train(2, how, "save", tmp_path / "two", 0, 3) == expected
    assert train(1, how, "load", tmp_path / "two", 3, 6) == expected
    sizes = [s.bytes for s in index.read(str(tmp_path / "two"))[0].shards]
    assert len(sizes) == 2 and max(sizes) < 1.5 * min(sizes), "each writes its part"
    other = dict(mesh="data=4", plan="zero", micro=2)
    assert train(2, other, "load", tmp_path / "two", 3, 6) == pytest.approx(expected, rel=1e-9)


HOLDS = """
import os, sys, torch, tandem
from test_saving import *
from tandem.session.values import Values
how = dict(mesh="data=2", plan="zero")
run = Run(**how)
run.step.save(sys.argv[1])
whole = sum(v.nbytes for v in run.values().values())
def refuse(*_):
    raise AssertionError("a whole value")
box, read = shards.Reader.box, []
def count(*args):
    read.append(box(*args))
    return read[-1]
Values.read, shards.Reader.box = refuse, count
run.step.save(sys.argv[1])
run.step.load(sys.argv[1])
print(sum(v.nbytes for v in read) / whole)
"""


def test_no_process_holds_the_whole_model(forks, tmp_path):
    """Nor puts a value together: each writes and reads what its ranks have, here half of nearly all."""
    script = tmp_path / "holds.py"
    script.write_text(HOLDS)
    ends = [p.finish() for p in forks.start_job(2, [script, tmp_path / "folder"])]
    assert [code for code, _, _ in ends] == [0, 0], ends
    assert all(0.4 < float(printed) < 0.6 for _, printed, _ in ends), ends
    total = sum(s.bytes for s in index.read(str(tmp_path / "folder"))[0].shards)
    assert max(s.bytes for s in index.read(str(tmp_path / "folder"))[0].shards) < 0.6 * total


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
@pytest.mark.parametrize("first", [True, False], ids=["before compile", "behind compile"])
def test_betas_and_momentum_of_a_cycle_go_on(tmp_path, optimizer, first):
    """As the rate does. The numbers of a fresh optimizer are those of the cycle's begin."""
    make = OPTIMIZERS[optimizer]

    class Cycled(Run):
        def __init__(self, seed):
            torch.manual_seed(seed)
            self.model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)).double()
            self.optimizer = make(self.model.parameters())
            if first:
                self.schedule()
            batch = torch.ones(4, 4, dtype=torch.float64)
            mse = lambda m, x: (m(x) - x).square().mean()  # noqa: E731
            self.step = tandem.compile(self.model, mse, self.optimizer, batch)
            if not first:
                self.schedule()

        def schedule(self):
            self.scheduler = lr_scheduler.OneCycleLR(self.optimizer, 0.1, total_steps=9)

        def train(self, first, last):
            found = []
            for number in range(first, last):
                group = self.optimizer.param_groups[0]
                batch = torch.full((4, 4), 1.0 + number, dtype=torch.float64)
                found.append((self.step(batch).item(), group.get("momentum"), group.get("betas")))
                self.scheduler.step()
            return found

    run, other = Cycled(1), Cycled(2)
    run.train(0, 3)
    run.step.save(tmp_path)
    expected = run.train(3, 6)
    other.step.load(tmp_path)
    assert other.train(3, 6) == expected and len(set(expected)) == 3
    assert_same(other.values(), run.values())


# Saving that ends too early


class Crash(BaseException):
    """The machine stops: from here on nothing changes on the disk."""


class Disk:
    """Counts what changes the disk, and stops at one such call, for good, or with an error of that call."""

    CALLS = ("open", "pwrite", "fsync", "replace", "unlink", "mkdir")

    def __init__(self, monkeypatch):
        self.count, self.stop, self.error, self.log = 0, None, None, []
        for name in self.CALLS:
            monkeypatch.setattr(os, name, self.watching(name, getattr(os, name)))

    def watching(self, name, call):
        def run(*args, **options):
            if name == "open" and not args[1] & os.O_CREAT:
                return call(*args, **options)
            if (
                self.stop is not None
                and self.count >= self.stop
                and (self.error is None or self.count == self.stop)
            ):
                self.count += 1
                raise self.error or Crash
            self.count += 1
            self.log.append((name, *args))
            return call(*args, **options)

        return run


def test_whatever_call_a_machine_stops_at_a_checkpoint_is_whole(tmp_path, monkeypatch):
    run, other = Run(), Run(seed=2)
    run.train(0, 1)
    run.step.save(tmp_path / "old")
    old = run.values()
    run.train(1, 2)
    new, seen, stop, ended = run.values(), [], 0, False
    while not ended:
        folder = tmp_path / str(stop)
        shutil.copytree(tmp_path / "old", folder)
        with monkeypatch.context() as patch:
            disk = Disk(patch)
            disk.stop = stop
            with contextlib.suppress(Crash):
                run.step.save(folder)
            ended = disk.count <= stop
        other.step.load(folder)
        seen.append(other.step.count)
        assert_same(other.values(), old if seen[-1] == 1 else new)
        run.step.save(folder)
        assert len(os.listdir(folder)) == 2, (
            "what a save that did not end has left goes with the next"
        )
        stop += 1
    assert seen.count(1) > 5 and seen == sorted(seen) and seen[-1] == 2, seen


def test_what_did_not_end_makes_room_for_the_next(tmp_path):
    """Before that is written: it may have filled the disk. What an index names stays, also one that cannot be read."""
    step, left = small_run(), tmp_path / f"{'0' * 16}-00000-of-00001.safetensors.part"
    left.write_text("half")
    write = shards.write

    def look(folder, *args):
        assert not left.exists() and (tmp_path / "mine.safetensors").exists()
        return write(folder, *args)

    (tmp_path / "mine.safetensors").write_text("mine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "write", look)
        step.save(tmp_path)
    (tmp_path / index.NAME).write_text("damaged")
    left.write_text("half")
    index.remove_unnamed(str(tmp_path))
    assert left.exists() and len(os.listdir(tmp_path)) == 4


@pytest.mark.parametrize("when", ["before its index", "behind its index"])
def test_two_jobs_save_into_one_folder(tmp_path, monkeypatch, when):
    """The whole save of another job falls into that of the first. The last index counts, and all that it names is there."""
    first, second = Run(), Run(seed=2, mesh=None)
    first.train(0, 1), second.train(0, 2)
    Run(seed=3).step.save(tmp_path)
    module, name = (index, "write") if when == "before its index" else (index, "remove_unnamed")
    call, calls = getattr(module, name), []

    def with_other(*args):
        calls.append(name)
        if len(calls) == (1 if name == "write" else 2):
            second.step.save(tmp_path)
        return call(*args)

    monkeypatch.setattr(module, name, with_other)
    first.step.save(tmp_path)
    monkeypatch.undo()
    other, last = Run(seed=4), first if when == "before its index" else second
    other.step.load(tmp_path)
    assert_same(other.values(), last.values())
    assert len(os.listdir(tmp_path)) == 2
    second.step.save(tmp_path)
    assert len(os.listdir(tmp_path)) == 2


def test_a_save_that_was_killed_is_over(tmp_path):
    """Its lock ends with it, and what it has left goes; what one that runs has there stays."""
    step, token = small_run(), "0" * 16
    shard = tmp_path / (marks.shard_name(token, 0, 1) + marks.PART)
    shard.write_text("half")
    with marks.marked(str(tmp_path), token):
        step.save(tmp_path)
        assert shard.exists() and os.path.exists(marks.path_of(str(tmp_path), token))
        index.remove_unnamed(str(tmp_path))
        assert shard.exists()
    step.save(tmp_path)
    assert len(os.listdir(tmp_path)) == 2
    shard.write_text("half")
    (tmp_path / f"{token}.saving").touch()
    step.save(tmp_path)
    assert len(os.listdir(tmp_path)) == 2


def test_the_order_of_what_is_made_durable(tmp_path, monkeypatch):
    """A file is on the disk before it gets its name, the shard's name before the index gets its own, and the old shard
    goes last.
    """
    run = Run()
    run.step.save(tmp_path)
    (old,) = (name for name in os.listdir(tmp_path) if name != index.NAME)
    disk = Disk(monkeypatch)
    run.step.save(tmp_path)
    log = [call for call in disk.log if call[0] in ("fsync", "replace", "unlink")]
    first, second = (i for i, (name, *_) in enumerate(log) if name == "replace")
    for place in (first, second):
        assert log[place - 1][0] == log[place + 1][0] == "fsync"
    assert log[first][2].endswith(".safetensors") and log[second][2].endswith(index.NAME)
    assert first + 1 < second - 1
    assert log[-1] == ("unlink", str(tmp_path / old))


@pytest.mark.sample(6)
@pytest.mark.parametrize("call", range(1, 9))
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_an_error_of_the_disk_is_one_line_and_nothing_is_lost(tmp_path, monkeypatch, call, code):
    run = small_run()
    run.save(tmp_path)
    before = sorted(os.listdir(tmp_path))
    with monkeypatch.context() as patch:
        disk = Disk(patch)
        disk.stop, disk.error = call, OSError(code, os.strerror(code))
        try:
            run.save(tmp_path)
            return  # the call was one of those whose error does not matter
        except tandem.CheckpointError as error:
            text = str(error)
    assert text.startswith(f"checkpoint '{tmp_path}': cannot write '") and "\n" not in text
    assert text.endswith(f": {os.strerror(code)}; a checkpoint that was there is as it was")
    assert set(before) <= set(os.listdir(tmp_path))
    run.load(tmp_path)
    run.save(tmp_path)
    assert len(os.listdir(tmp_path)) == 2


_SMALL = []


def small_run():
    """A step that is made once."""
    if not _SMALL:
        model = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        batch = torch.ones(4, 4)
        _SMALL.append(tandem.compile(model, lambda m, x: m(x).square().mean(), optimizer, batch))
    return _SMALL[0]


def test_a_full_disk(tmp_path):
    """As far as a process can have one of its own: files of at most so many bytes."""
    run = Run()
    run.step.save(tmp_path)
    before = sorted(os.listdir(tmp_path))
    run.train(0, 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        with pytest.raises(
            tandem.CheckpointError,
            match="cannot write '.*safetensors': File too large; a checkpoint that was",
        ):
            run.step.save(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(os.listdir(tmp_path)) == before
    run.step.load(tmp_path)
    assert run.step.count == 0


ENDS = """
import os, sys, signal, resource, time, torch, tandem
from test_saving import *
from tandem.checkpoint import shards
task, folder = sys.argv[1:]
run = Run(mesh="data=2", plan="zero")
run.step.save(folder)
run.train(0, 1)
process, write = int(os.environ["RANK"]), shards.write
def write_or_not(*args):
    if process == 1 and task == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if process == 1 and task == "slow":
        time.sleep(9)
    if process == 1 and task == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2**40))
    return write(*args)
shards.write = write_or_not
try:
    run.step.save(folder)
    print("saved")
except tandem.TandemError as error:
    print(f"{type(error).__name__}: {error}")
if task == "full":
    print(run.step(batch_of(1)).item() > 0)
"""


def test_an_error_of_one_process_is_that_of_all(forks, tmp_path):
    script, folder = tmp_path / "ends.py", tmp_path / "folder"
    script.write_text(ENDS)
    ends = [p.finish() for p in forks.start_job(2, [script, "full", folder])]
    assert [code for code, _, _ in ends] == [0, 0], ends
    own = f"CheckpointError: checkpoint '{folder}': cannot write '"
    assert ends[1][1].startswith(own) and "File too large" in ends[1][1]
    assert ends[0][1].startswith(f"JobError: process 1 ended with {own}")
    assert all(printed.endswith("\nTrue\n") for _, printed, _ in ends), "both can go on"
    run = Run(seed=2)
    run.step.load(folder)
    assert run.step.count == 0


def test_a_process_that_writes_for_long_is_waited_for(forks, tmp_path):
    """For longer than the timeout of the job."""
    script, folder = tmp_path / "ends.py", tmp_path / "folder"
    script.write_text(ENDS)
    ends = [p.finish() for p in forks.start_job(2, [script, "slow", folder], timeout=5)]
    assert [end[:2] for end in ends] == [(0, "saved\n")] * 2, ends
    run = Run(seed=2)
    run.step.load(folder)
    assert run.step.count == 1


def test_a_killed_process_leaves_the_last_checkpoint(forks, tmp_path):
    script, folder = tmp_path / "ends.py", tmp_path / "folder"
    script.write_text(ENDS)
    ends = [p.finish() for p in forks.start_job(2, [script, "killed", folder])]
    assert ends[1][0] == -signal.SIGKILL
    assert "JobError: " in ends[0][1] and "process 1" in ends[0][1], ends
    run = Run(seed=2)
    run.step.load(folder)
    assert run.step.count == 0


def test_processes_with_different_folders(forks, tmp_path):
    script = tmp_path / "apart.py"
    script.write_text(
        f"import os; from test_saving import *\n"
        f"folder = '{tmp_path}/' + os.environ['RANK']\n"
        "run = Run(plan='zero')\n"
        "for call in (run.step.save, run.step.load):\n"
        "    try: call(folder)\n"
        "    except tandem.TandemError as error: print(error)\n"
    )
    ends = [p.finish() for p in forks.start_job(2, [script])]
    assert [code for code, _, _ in ends] == [0, 0], ends
    for _, printed, _ in ends:
        assert "is another folder than that of process 0, expected one that all" in printed


# Checkpoints that are not right


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A run and the folder of its checkpoint, which tests copy."""
    run = Run(mesh="data=2", plan="zero")
    run.train(0, 2)
    folder = tmp_path_factory.mktemp("good")
    run.step.save(folder)
    return run, folder


@pytest.fixture
def spoiled(good, tmp_path):
    """A copy of the folder, the path of its shard, and the function that loads it."""
    run, folder = good
    names = os.listdir(folder)
    for name in names:
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (shard,) = (name for name in names if name != index.NAME)
    return run, tmp_path, tmp_path / shard


def expect(run, folder, match, error=tandem.CheckpointError, **options):
    """An error of one line, behind which all is as before."""
    before, rates = run.values(), copy.deepcopy(run.optimizer.state_dict()["param_groups"])
    schedule = copy.deepcopy(run.scheduler.state_dict())
    with pytest.raises(error, match=match) as caught:
        run.step.load(folder, **options)
    assert "\n" not in str(caught.value) and str(caught.value).startswith(
        f"checkpoint '{folder}': "
    )
    assert_same(run.values(), before)
    assert run.optimizer.state_dict()["param_groups"] == rates
    assert run.scheduler.state_dict() == schedule
    assert not any(tensor.damaged for tensor in run.step.store.tensors)


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def rewrite(folder, change, sign=True):
    """The index with a change of its content, and the hash that goes with it."""
    path = folder / index.NAME
    document = json.loads(path.read_text())
    change(document)
    if sign:
        document["sha256"] = index._hash(document["content"])
    path.write_text(json.dumps(document))


def identity_of(path):
    """Which file it is, and what it holds, but for when it was last read."""
    found = path.lstat()
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: p.write_text('{"of": "others"}'), "found a file that is not the index of a ch"),
        (os.mkfifo, "found none, expected a regular file"),
        (os.mkdir, "found none, expected a regular file"),
    ],
)
def test_what_is_not_an_index_stays(good, tmp_path, make, words):
    run, _ = good
    path = tmp_path / index.NAME
    make(path)
    before = identity_of(path)
    with pytest.raises(tandem.CheckpointError, match=rf"cannot write '{index.NAME}': {words}"):
        run.step.save(tmp_path)
    assert identity_of(path) == before and os.listdir(tmp_path) == [index.NAME]


def test_an_index_takes_the_place_of_an_empty_file(good, tmp_path):
    run, _ = good
    (tmp_path / index.NAME).touch()
    run.step.save(tmp_path)
    run.step.load(tmp_path)


@pytest.mark.parametrize("at", [0, 20, 5000, -1])
def test_a_shard_with_another_bit(spoiled, at):
    run, folder, shard = spoiled
    flip(shard, at)
    expect(run, folder, r"shard '.*' is damaged: bytes 0 to \d+ are not those that were saved")


def test_a_shard_that_becomes_shorter_while_it_is_read(tmp_path):
    """In place of SIGBUS, where a box is put together of what others hold."""
    count = 8192
    (tmp_path / "shard").write_bytes(torch.rand(count).numpy().tobytes())
    piece = SimpleNamespace(shard=0, begin=0, offsets=(0,), extents=(count,))
    stored = SimpleNamespace(type="f32", pieces=[piece])
    reader = shards.Reader(os.fspath(tmp_path), [SimpleNamespace(name="shard")])
    assert reader.box(stored, (1,), (count - 1,)).isfinite().all()
    os.truncate(tmp_path / "shard", 4096)
    with pytest.raises(
        tandem.RunError, match="shard 'shard' lies in a file that has become shorter"
    ):
        reader.box(stored, (1,), (count - 1,))


def test_a_truncated_shard(spoiled):
    run, folder, shard = spoiled
    size = shard.stat().st_size
    os.truncate(shard, size - 1)
    expect(run, folder, f"shard '.*' has {size - 1} bytes, expected {size}: it is truncated")


def test_a_missing_shard(spoiled):
    run, folder, shard = spoiled
    shard.unlink()
    expect(run, folder, "shard '.*' cannot be read: No such file or directory")


def test_a_shard_of_another_save(spoiled):
    run, folder, shard = spoiled
    run.train(2, 3)
    run.step.save(folder / "next")
    (other,) = (n for n in os.listdir(folder / "next") if n != index.NAME)
    os.replace(folder / "next" / other, shard)
    expect(run, folder, "is damaged: bytes")


def test_a_half_written_one(spoiled):
    run, folder, shard = spoiled
    (folder / index.NAME).unlink()
    expect(run, folder, "half-written: has '.*' and no checkpoint.json, which comes last")


def test_no_checkpoint_at_all(good, tmp_path):
    run, _ = good
    expect(run, tmp_path, "has no checkpoint.json, expected a folder that step.save")
    expect(run, tmp_path / "none", "found nothing there, expected a folder")
    (tmp_path / "file").write_text("x")
    expect(run, tmp_path / "file", "found a file, expected a folder")


def test_a_damaged_index(spoiled):
    run, folder, _ = spoiled
    path = folder / index.NAME
    text = path.read_text()
    for cut in (0, 1, len(text) // 2, len(text) - 1):
        path.write_text(text[:cut])
        expect(run, folder, "checkpoint.json is damaged: not JSON")
    path.write_text(text.replace('"step/step"', '"step/stop"'))
    expect(run, folder, "checkpoint.json is damaged: its hash is not that of its content")
    path.write_bytes(b"\xff\xfe" + text.encode())
    expect(run, folder, "checkpoint.json is damaged: not JSON")
    path.write_text("[" * 100000)
    expect(run, folder, "checkpoint.json is damaged: not JSON")
    for other in ("[]", "{}", '{"format": "tandem checkpoint", "version": "1"}'):
        path.write_text(other)
        expect(run, folder, "checkpoint.json is none that step.save")


def test_a_newer_version(spoiled):
    run, folder, _ = spoiled
    rewrite(folder, lambda document: document.update(version=3), sign=False)
    expect(run, folder, "is of version 3, expected at most 2: a newer Tandem has written it")


STRANGE = {
    "no shards": lambda c: c.pop("shards"),
    "a shard elsewhere": lambda c: c["shards"][0].update(name="../../etc/passwd"),
    "a piece outside": lambda c: c["tensors"]["parameter/hidden.weight"]["pieces"][0].update(
        offsets=[99, 0]
    ),
    "a piece too few": lambda c: c["tensors"]["parameter/hidden.weight"]["pieces"].pop(),
    "no such shard": lambda c: c["tensors"]["parameter/hidden.weight"]["pieces"][0].update(shard=7),
    "a negative place": lambda c: c["tensors"]["parameter/hidden.weight"]["pieces"][0].update(
        begin=-8
    ),
    "a place behind the end": lambda c: c["tensors"]["parameter/hidden.weight"]["pieces"][0].update(
        begin=2**40
    ),
    "a type that is none": lambda c: c["tensors"]["step/step"].update(type="i65"),
    "a role that is none": lambda c: c["tensors"].update({"hidden": c["tensors"]["step/step"]}),
    "more dimensions than a tensor has": lambda c: c["tensors"]["step/step"].update(
        shape=[2**62] * 10**5
    ),
    "chunks that fill the memory": lambda c: c["shards"][0].update(chunk=2**62),
    "one shard twice": lambda c: c["shards"].append(c["shards"][0]),
    "the same rows twice": lambda c: [
        p.update(offsets=[0, 0]) for p in c["tensors"]["parameter/hidden.weight"]["pieces"]
    ],
    "two tensors in one place": lambda c: c["tensors"]["state/exp_avg.hidden.bias"].update(
        pieces=c["tensors"]["parameter/hidden.bias"]["pieces"]
    ),
    "no training": lambda c: c["training"].pop("groups"),
    "no groups": lambda c: c["training"].update(groups=[]),
    "hashes by name": lambda c: c["shards"][0].update(hashes={"x": c["shards"][0]["hashes"][0]}),
    "no counts": lambda c: c["training"].pop("counts"),
    "a count that is none": lambda c: c["training"]["counts"].update({"hidden.bias": "3"}),
    "a count too few": lambda c: c["training"]["counts"].pop("hidden.bias"),
    "counts of another model": lambda c: c["training"]["counts"].update(other=3),
    "an optimizer of two lines": lambda c: c["training"].update(optimizer="Adam\nW"),
    "no extra": lambda c: c.update(extra={"dict": 3}),
    "a hyperparameter without a name": lambda c: c["training"]["groups"][0]["dict"].append([0, 0]),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_an_index_that_was_not_saved(spoiled, kind):
    run, folder, _ = spoiled
    rewrite(folder, lambda document: STRANGE[kind](document["content"]))
    expect(run, folder, "checkpoint.json is none that step.save")


def test_pieces_in_the_header(spoiled):
    """All of them lie one behind the other, but eight bytes before where their elements are."""
    run, folder, shard = spoiled

    def shift(document):
        content = document["content"]
        content["shards"][0]["bytes"] -= 8
        for stored in content["tensors"].values():
            for piece in stored["pieces"]:
                piece["begin"] -= 8
        data = shard.read_bytes()[:-8]
        shard.write_bytes(data)
        content["shards"][0]["hashes"] = [index.make_hash(data)]

    rewrite(folder, shift)
    expect(run, folder, r"has a header of \d+ bytes, expected \d+: its index is that of another")


def group_with(name, value):
    """The first parameter group with another hyperparameter, as an index has it."""

    def change(content):
        pairs = content["training"]["groups"][0]["dict"]
        content["training"]["groups"][0]["dict"] = [
            [key, value if key == name else old] for key, old in pairs
        ]

    return change


def group_without(name):
    def change(content):
        group = content["training"]["groups"][0]
        group["dict"] = [pair for pair in group["dict"] if pair[0] != name]

    return change


def schedule_with(name, value):
    def change(content):
        pairs = content["training"]["schedulers"][0]["state"]["dict"]
        content["training"]["schedulers"][0]["state"]["dict"] = [
            [key, value if key == name else old] for key, old in pairs
        ]

    return change


WRONG_TYPES = {
    "a rate that is a text": (group_with("lr", "fast"), "lr is 'fast', expected a number like"),
    "a rate that is yes": (group_with("lr", True), "lr is True, expected a number like"),
    "a rate of lines": (
        group_with("lr", {"tensor": {"type": "int8", "shape": [9, 9], "bytes": "AAAA" * 27}}),
        "lr is tensor.*, expected a number like",
    ),
    "betas that are a number": (group_with("betas", 0.9), "betas is 0.9, expected a list like"),
    "betas of a text": (
        group_with("betas", {"tuple": [0.9, "x"]}),
        r"betas\[1\] is 'x', expected a number like 0.999",
    ),
    "a number for yes": (group_with("maximize", 1), "maximize is 1, expected True or False"),
    "a list for none": (group_with("foreach", [1]), r"foreach is \[1\], expected a single value"),
    "a rate without end": (group_with("lr", math.inf), "lr is inf, expected finite numbers like"),
    "a beta that is none": (
        group_with("betas", {"tuple": [0.9, math.nan]}),
        "betas is .*nan.*, expected finite numbers like",
    ),
    "no eps": (group_without("eps"), "has no eps, expected a number like 1e-08"),
    "another rate to begin with": (
        group_with("initial_lr", []),
        "initial_lr is .*, expected a numb",
    ),
    "a step that is a text": (
        schedule_with("last_epoch", "x"),
        "last_epoch is 'x', expected a numb",
    ),
    "rates of more groups": (
        schedule_with("base_lrs", [1, 2]),
        "base_lrs is .*, expected a list li",
    ),
}


@pytest.mark.parametrize("kind", WRONG_TYPES)
def test_hyperparameters_of_other_types(spoiled, kind):
    run, folder, _ = spoiled
    change, words = WRONG_TYPES[kind]
    rewrite(folder, lambda document: change(document["content"]))
    expect(run, folder, words)


@pytest.mark.parametrize("name", [index.NAME, "shard"])
def test_what_is_no_file_is_not_waited_for(spoiled, name):
    run, folder, shard = spoiled
    path = shard if name == "shard" else folder / name
    for make, kind in [
        (os.mkfifo, "a FIFO"),
        (lambda p: os.symlink("/dev/zero", p), "a device"),
        (os.mkdir, "a folder"),
    ]:
        path.rename(folder / "aside")
        make(path)
        expect(run, folder, f"cannot.* read.*: found {kind}, expected a regular file")
        path.rmdir() if path.is_dir() else path.unlink()
        (folder / "aside").rename(path)


def test_an_index_without_end(spoiled, monkeypatch):
    run, folder, _ = spoiled
    monkeypatch.setattr(index, "_LARGEST", 2**20)
    os.truncate(folder / index.NAME, 2**40)
    expect(run, folder, "checkpoint.json has more than the 1048576 bytes expected")


def random_boxes(chance, shape, count):
    """Boxes that cover a tensor: cut in two again and again."""
    boxes = [((0,) * len(shape), tuple(shape))]
    for _ in range(count):
        offsets, extents = boxes.pop(chance.randrange(len(boxes)))
        dim = chance.randrange(len(shape))
        at = chance.randint(0, extents[dim])
        first, second = list(extents), list(extents)
        first[dim], second[dim], begin = at, extents[dim] - at, list(offsets)
        begin[dim] += at
        boxes += [(offsets, tuple(first)), (tuple(begin), tuple(second))]
    return boxes


def test_boxes_cover_a_tensor_once():
    """The truth is a count of every element."""
    chance, refused = random.Random(7), 0
    for _ in range(300):
        shape = [chance.randint(1, 5) for _ in range(chance.randint(1, 3))]
        boxes = random_boxes(chance, shape, chance.randint(0, 6))
        if chance.random() < 0.5:
            offsets, extents = boxes.pop(chance.randrange(len(boxes)))
            moved = [chance.randint(0, s - e) for s, e in zip(shape, extents, strict=True)]
            boxes.append((tuple(moved), extents))
        count = torch.zeros(shape, dtype=torch.int64)
        for offsets, extents in boxes:
            count[tuple(slice(o, o + e) for o, e in zip(offsets, extents, strict=True))] += 1
        assert covers.is_cover(boxes, shape) == bool((count == 1).all())
        refused += not (count == 1).all()
    assert 30 < refused < 200
    assert covers.is_cover([((), ())], ()) and not covers.is_cover([], ())
    assert covers.is_cover([], (0, 3)) and not covers.is_cover([((0, 0), (1, 3))], (0, 3))
    assert not covers.is_cover([((0,), (5,))], (4,)) and not covers.is_cover([((0,), (4,))], (4, 1))


def places_of(value):
    """[(container, key)] of all that is in a document."""
    entries = list(value.items() if isinstance(value, dict) else enumerate(value))
    found = [(value, key) for key, _ in entries]
    inner = [entry for entry in dict(entries).values() if isinstance(entry, (dict, list))]
    return found + [place for entry in inner for place in places_of(entry)]


def test_mutated_indexes(spoiled):
    """Whatever an index says, there is an error of one line, or it loads."""
    run, folder, _ = spoiled
    text = (folder / index.NAME).read_text()
    chance, refused = random.Random(4), 0
    for _ in range(200):

        def change(document):
            container, key = chance.choice(places_of(document["content"]))
            others = [None, -1, 2**70, 0.5, "x", [], {}, [3], {"dict": [[[], 1]]}, {"tensor": {}}]
            container[key] = chance.choice(others)

        (folder / index.NAME).write_text(text)
        rewrite(folder, change)
        try:
            run.step.load(folder)
        except tandem.StateError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > 100
    (folder / index.NAME).write_text(text)
    run.step.load(folder)


class Wider(Net):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(16, 32, bias=False)
        self.other = nn.Linear(16, 16)

    def forward(self, tokens):
        return super().forward(tokens) + 0 * self.other(self.table(tokens)).sum()


class Longer(Net):
    def __init__(self):
        super().__init__()
        self.unused = nn.Parameter(torch.randn(5))


def test_one_of_another_model(good, tmp_path):
    run, folder = good
    Run(model=Wider).step.save(tmp_path)
    expect(run, tmp_path, "is of another model: it has no parameter 'hidden.bias'")
    other = Run(model=Wider)
    expect(other, folder, "is of another model: it has no parameter 'other.weight'")
    text = (folder / index.NAME).read_text()
    try:
        rewrite(
            folder,
            lambda d: d["content"]["tensors"].update(
                {"parameter/more": {"type": "f64", "shape": [0], "pieces": []}}
            ),
        )
        expect(run, folder, "is of another model: it has parameter 'more', the step has not")
    finally:
        (folder / index.NAME).write_text(text)
    Run(model=Longer).step.save(tmp_path)
    expect(run, tmp_path, r"is of another model: parameter 'unused' is f64\[5\], expected f64\[3\]")
    Run(dtype=torch.float32).step.save(tmp_path)
    expect(run, tmp_path, r"is of another model: parameter '.*' is f32\[.*\], expected f64\[")


def test_one_of_another_optimizer(good, tmp_path):
    run, folder = good
    Run("SGD").step.save(tmp_path)
    expect(run, tmp_path, "is of another optimizer: SGD, expected AdamW")
    other = Run()
    other.optimizer.param_groups[0]["maximize"] = True
    other.step.save(tmp_path)
    expect(
        run,
        tmp_path,
        "optimizer parameter group 0: maximize is True, expected False",
        tandem.StateError,
    )


def test_one_of_other_groups(tmp_path):
    def run_of(order):
        run = Run.__new__(Run)
        torch.manual_seed(0)
        run.model = nn.Linear(2, 2)
        parameters = [getattr(run.model, name) for name in order]
        run.optimizer = torch.optim.SGD([{"params": [p]} for p in parameters], lr=0.1)
        run.scheduler = lr_scheduler.StepLR(run.optimizer, 2)
        batch = torch.ones(2, 2)
        run.step = tandem.compile(run.model, lambda m, x: m(x).sum(), run.optimizer, batch)
        return run

    run_of(["weight", "bias"]).step.save(tmp_path)
    expect(
        run_of(["bias", "weight"]),
        tmp_path,
        "its parameter group 0 has 'weight' where 'bias' is expected",
    )


def test_schedules_that_differ(good, tmp_path):
    run, folder = good
    run.step.save(tmp_path, scheduler=())
    expect(run, tmp_path, "its schedulers are none, the optimizer has StepLR; expected the same")
    other = lr_scheduler.ExponentialLR(run.optimizer, 0.5)
    rates = run.optimizer.param_groups[0]["lr"]
    expect(
        run, folder, "its schedulers are StepLR, the optimizer has ExponentialLR", scheduler=other
    )
    run.optimizer.param_groups[0]["lr"] = rates
    run.step.load(folder, scheduler=())


def test_a_schedule_inside_of_another(two_steps, tmp_path):
    """Its state is looked at as the outer one's is."""
    (optimizer, _, step), _ = two_steps
    scheduler = SCHEDULERS["sequential"](optimizer)
    step.save(tmp_path, scheduler=scheduler)
    before = copy.deepcopy(scheduler.state_dict())

    def inner_of(document):
        (state,) = (s["state"]["dict"] for s in document["content"]["training"]["schedulers"])
        return next(value for key, value in state if key == "_schedulers")[1]["dict"]

    for change, words in [
        (lambda pairs: pairs.pop(), "scheduler 1 inside: lacks '.*', expected the entries"),
        (lambda pairs: pairs[0].__setitem__(1, "x"), "scheduler 1 inside: gamma is 'x', expected"),
    ]:
        text = (tmp_path / index.NAME).read_text()
        rewrite(tmp_path, lambda document, change=change: change(inner_of(document)))
        with pytest.raises(tandem.CheckpointError, match=words):
            step.load(tmp_path, scheduler=scheduler)
        (tmp_path / index.NAME).write_text(text)
    assert scheduler.state_dict() == before


class Wrapped(nn.Module):
    """As DistributedDataParallel and torch.compile name what they wrap."""

    def __init__(self):
        super().__init__()
        self.module = nn.Module()
        self.module._orig_mod = Net()

    def forward(self, tokens):
        return self.module._orig_mod(tokens)


def test_names_of_wrapped_models(tmp_path):
    run, wrapped, other = Run(), Run(seed=2, model=Wrapped), Run(seed=3)
    run.train(0, 2)
    run.step.save(tmp_path)
    wrapped.step.load(tmp_path)
    prefix = "module._orig_mod."
    for name, value in run.step.state_dict().items():
        assert torch.equal(wrapped.step.state_dict()[prefix + name], value), name
    losses = run.train(2, 4)
    assert wrapped.train(2, 4) == losses
    wrapped.step.save(tmp_path)
    other.step.load(tmp_path)
    assert_same(other.values(), run.values())
    other.step.load_state_dict(wrapped.step.state_dict(), wrapped.step.optimizer_state_dict())
    assert_same(other.values(), run.values())
    state = wrapped.step.state_dict()
    state["module.more"] = torch.zeros(1)
    with pytest.raises(tandem.StateError, match="state dict: has 'module.more', expected only"):
        other.step.load_state_dict(state)


def test_values_of_wrapped_models(tmp_path):
    run, wrapped = Run(), Run(seed=2, model=Wrapped)
    run.train(0, 2)
    model, plain = Wrapped().double(), Net().double()
    run.step.sync_to(model)
    for name, value in run.step.state_dict().items():
        assert torch.equal(model.state_dict()["module._orig_mod." + name], value), name
    wrapped.step.load(model=model)
    wrapped.step.sync_to(plain)
    for name, value in run.step.state_dict().items():
        assert torch.equal(plain.state_dict()[name], value), name
    other = Run(seed=3)
    other.step.load(model=model)
    for name, value in run.step.state_dict().items():
        assert torch.equal(other.step.state_dict()[name], value), name
    model.module.more = nn.Parameter(torch.zeros(1))
    with pytest.raises(tandem.StateError, match="model: has 'module.more', expected the names"):
        other.step.load(model=model)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: {"model": state, "epoch": 3}, "; pass the dict that it has as 'model'$"),
        (
            lambda state: {f"net.{k}": v for k, v in state.items()},
            "; take the prefix 'net.' off its names$",
        ),
    ],
)
def test_state_dicts_under_other_names(change, words):
    step = Run().step
    with pytest.raises(tandem.StateError, match=words):
        step.load_state_dict(change(step.state_dict()))


def test_runs_may_make_a_folder_above_theirs_at_one_time(tmp_path, monkeypatch):
    make = os.mkdir
    monkeypatch.setattr(os, "mkdir", lambda folder: [make(folder), make(folder)])
    files.make_folder(tmp_path / "runs" / "first")
    assert (tmp_path / "runs" / "first").is_dir()


def test_folders_that_cannot_be_saved_to(tmp_path):
    step = small_run()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(
        tandem.CheckpointError, match="found a file, expected a folder, or nothing, to save in"
    ):
        step.save(tmp_path / "file")
    with pytest.raises(
        tandem.CheckpointError, match="cannot write '.*': Not a directory; a checkpoint"
    ):
        step.save(tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == "mine"
    for name in (3, "", "\0"):
        with pytest.raises(tandem.CheckpointError, match="folder is .*, expected a path"):
            step.save(name)
    words = (
        r"^checkpoint: folder is a torch\S*Sequential, expected a path \(.*step.load\(model=.*\)$"
    )
    with pytest.raises(tandem.CheckpointError, match=words):
        step.load(nn.Sequential(nn.Linear(2, 2)))
    with pytest.raises(tandem.CheckpointError, match="cannot write '.*': .*; a checkpoint"):
        step.save("/proc/nothing")


def test_a_folder_without_permission(tmp_path, monkeypatch):
    """Root may write everywhere: there the call itself says no."""
    step = small_run()
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    if os.geteuid() == 0:
        disk = Disk(monkeypatch)
        disk.stop, disk.error = 0, PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    with pytest.raises(
        tandem.CheckpointError, match="cannot write '.*': Permission denied; a checkpoint"
    ):
        step.save(folder)


def test_what_no_checkpoint_can_hold(tmp_path):
    step = small_run()
    with pytest.raises(
        tandem.CheckpointError,
        match=r"extra\['a'\]\[0\] is builtins.object, expected numbers, texts",
    ):
        step.save(tmp_path, extra={"a": [object()]})
    with pytest.raises(
        tandem.CheckpointError, match="extra is a tensor of shape .* on the meta device"
    ):
        step.save(tmp_path, extra=torch.empty(3, device="meta"))
    ring = []
    ring.append(ring)
    with pytest.raises(tandem.CheckpointError, match="extra: is nested too deep, or holds itself"):
        step.save(tmp_path, extra=ring)
    extra = {
        "t": torch.arange(3),
        4: [None, True, -0.0, float("nan")],
        "b": torch.zeros((), dtype=torch.bfloat16),
    }
    step.save(tmp_path, extra=extra)
    found = step.load(tmp_path)
    assert torch.equal(found["t"], extra["t"]) and found["b"].dtype == torch.bfloat16
    assert repr(found[4]) == repr(extra[4])


def test_values_that_are_damaged_are_not_saved(tmp_path):
    step = small_run()
    step.save(tmp_path)
    step._programs.main.session.begin_loading("a test")
    with pytest.raises(tandem.CheckpointError, match="is damaged by a step that failed"):
        step.save(tmp_path)
    step.load(tmp_path)
    step(torch.ones(4, 4))


def test_a_disk_that_fails_while_values_are_read(tmp_path, monkeypatch):
    """What is half loaded is no model: the next step says so, until it is loaded whole."""
    run = Run()
    run.step.save(tmp_path)
    with monkeypatch.context() as patch:
        box, count = shards.Reader.box, []

        def fail(*args):
            count.append(1)
            if len(count) > 4:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return box(*args)

        patch.setattr(shards.Reader, "box", fail)
        with pytest.raises(tandem.CheckpointError, match="cannot be read: Input/output error"):
            run.step.load(tmp_path)
    with pytest.raises(
        tandem.RunError, match=r"values are damaged: .* may be half loaded from checkpoint '"
    ):
        run.step(batch_of(0))
    run.step.load(tmp_path)
    run.step(batch_of(0))


def test_many_chunks(tmp_path, monkeypatch):
    """Tensors that begin and end in the middle of what is written at once."""
    monkeypatch.setattr(shards, "CHUNK", 257)
    run = Run()
    run.train(0, 2)
    run.step.save(tmp_path)
    saved = run.values()
    (shard,) = index.read(str(tmp_path))[0].shards
    assert len(shard.hashes) > 20 and shard.chunk == 257
    monkeypatch.undo()
    other = Run(seed=2, plan="zero")
    other.step.load(tmp_path)
    assert_same(other.values(), saved)
    flip(tmp_path / shard.name, 1000)
    with pytest.raises(tandem.CheckpointError, match="bytes 771 to 1028 are not those"):
        other.step.load(tmp_path)


def test_version_1_has_other_hashes(tmp_path):
    run = Run()
    run.train(0, 2)
    run.step.save(tmp_path)
    (shard,) = index.read(str(tmp_path))[0].shards
    digest = hashlib.sha256((tmp_path / shard.name).read_bytes()).hexdigest()

    def older(document):
        document["version"] = 1
        document["content"]["shards"][0]["hashes"] = [digest]

    rewrite(tmp_path, older)
    other = Run(seed=2)
    other.step.load(tmp_path)
    assert_same(other.values(), run.values())
    flip(tmp_path / shard.name, 1000)
    with pytest.raises(tandem.CheckpointError, match="are not those that were saved"):
        other.step.load(tmp_path)


def test_files_reads_what_there_is(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with open(path, "rb") as file:
        assert files.read_at(file.fileno(), 4, 3) == b"456"
        assert files.read_at(file.fileno(), 8, 5) == b"89"


def test_the_document(root, tmp_path, monkeypatch):
    """Its code runs, block after block."""
    monkeypatch.chdir(tmp_path)
    text = (root / "docs/checkpoints.md").read_text()
    values = {}
    with warnings.catch_warnings(action="ignore"):
        for block in text.split("```python\n")[1:]:
            exec(block.split("```")[0], values)
    assert values["done"] == 10 and values["step"].count == 20
    assert values["scheduler"].last_epoch == 20
    state = torch.load(tmp_path / "model.pt")
    assert torch.equal(state["0.weight"], values["step"].state_dict()["0.weight"])
