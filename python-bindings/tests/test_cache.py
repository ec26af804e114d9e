"""What an equal compilation has found is found again, on the disk, and by nothing that is not equal."""

import os
import stat
import sys

import pytest
import tandem
import torch
from tandem.session.compile import compile_module

STAGES = ["parse", "import", "accumulate", "plan", "shard", "localize", "duplex", "schedule"]
STAGES += ["lower", "emit"]


def loss_fn(model, batch):
    return (model(batch) - batch).square().mean()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where files of the cache lie."""
    monkeypatch.setenv("TANDEM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "compiled"


def make_module(width=16):
    torch.manual_seed(0)
    model = torch.nn.Linear(width, width)
    return tandem.export(
        model, loss_fn, torch.optim.SGD(model.parameters(), 0.1), torch.ones(8, width)
    )


@pytest.fixture(scope="module")
def module():
    return make_module()


def compile_again(module, **options):
    """What was compiled, and whether it was found."""
    compiled = compile_module(module, cache=True, **options)
    stages = [stage for stage, _ in compiled.seconds]
    assert stages in (STAGES, ["cache"])
    return compiled, stages == ["cache"]


def test_is_what_was_compiled(module):
    options = dict(mesh="data=2", plan="zero", timeline=True)
    first, found = compile_again(module, **options)
    assert not found and first.remarks
    second, found = compile_again(module, **options)
    assert found
    for part in ("bytes", "plan", "plan_table", "remarks", "explanation"):
        assert getattr(second, part) == getattr(first, part), part
    assert second.bytes == compile_module(module, **options).bytes


def test_only_if_asked(module, folder):
    for _ in range(2):
        compiled = compile_module(module)
        assert [stage for stage, _ in compiled.seconds] == STAGES
    assert not list(folder.glob("*.program"))


@pytest.mark.parametrize(
    "other",
    [
        dict(mesh="data=4"),
        dict(mesh="data=2", micro=2),
        dict(mesh="data=2", plan="zero"),
        dict(mesh="data=2", pins=["weight:data=gather(0)"]),
        dict(mesh="data=2", recompute=True),
        dict(mesh="data=2", search="tandem"),
        dict(mesh="data=2", timeline=True),
        dict(mesh="data=2", fail_on_replicate=10**9),
    ],
)
def test_other_options_are_others(module, other):
    assert not compile_again(module, mesh="data=2")[1]
    assert not compile_again(module, **other)[1]
    assert compile_again(module, mesh="data=2")[1]


def test_another_step_is_another(module):
    assert not compile_again(module)[1]
    assert not compile_again(make_module(width=8))[1]


def test_files_count_by_what_is_in_them(module, tmp_path):
    plan, found = tmp_path / "plan.txt", []
    presets = ("zero", "replicate", "zero")
    for preset in presets:
        plan.write_text(compile_module(module, mesh="data=2", plan=preset).plan)
        found.append(compile_again(module, plan=str(plan)))
    assert [is_found for _, is_found in found] == [False, False, True]
    zero, replicated, again = (compiled.bytes for compiled, _ in found)
    assert zero == again != replicated
    plan.unlink()
    with pytest.raises(tandem.CompileError, match="plan.txt"):
        compile_again(module, plan=str(plan))


def test_an_error_is_not_kept(module):
    for _ in range(2):
        with pytest.raises(tandem.CompileError, match="nonsense"):
            compile_again(module, plan="nonsense")


def test_a_damaged_file_is_compiled_anew(module, folder):
    first, _ = compile_again(module)
    (file,) = folder.glob("*.program")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    again, found = compile_again(module)
    assert not found and again.bytes == first.bytes
    assert compile_again(module)[1]


def test_a_limit_that_is_no_number(module, monkeypatch):
    monkeypatch.setenv("TANDEM_CACHE_MB", "much")
    with pytest.raises(
        tandem.CompileError,
        match="^environment variable TANDEM_CACHE_MB is 'much', expected a whole number of megabytes$",
    ):
        compile_again(module)


# Captures


def capture(factor=1.0, width=16, rows=8, lr=0.1, table=None, cache=True, **options):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Dropout(0.5))
    optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=factor)

    def loss(model, batch):
        scaled = model(batch) * factor
        return (scaled + table if table is not None else scaled).square().mean()

    batch = torch.ones(rows, width)
    return tandem.export(model, loss, optimizer, batch, cache=cache, **options)


VARIANTS = {
    "same": {},
    "number": dict(factor=2.0),
    "constant": dict(table=torch.arange(16.0)),
    "another constant": dict(table=-torch.arange(16.0)),
    "width": dict(width=8),
    "batch": dict(rows=4),
    "gradients": dict(gradients=True),
    "precision": dict(precision="bf16"),
    "sums": dict(precision="bf16", gradient_sums="bf16"),
}


def tables_of(module):
    arguments = [(a.key, a.shape, a.dtype, a.of, a.batch_dim) for a in module.arguments]
    return module.mlir, arguments, module.results, module.random_calls, module.starts


def test_captures_are_those_without_it(folder, monkeypatch):
    """Each of these is another step: none is taken for another one, and each is found again."""
    expected = {name: tables_of(capture(cache=False, **how)) for name, how in VARIANTS.items()}
    assert len({tables[0] for tables in expected.values()}) == len(VARIANTS)
    first = {name: tables_of(capture(**how)) for name, how in VARIANTS.items()}
    assert first == expected and len(list(folder.glob("*.capture"))) == len(VARIANTS)

    def lower(trace):
        raise AssertionError("captured anew")

    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["tandem.capture.export"], "lower", lower)
        again = {name: capture(**how) for name, how in VARIANTS.items()}
    assert {name: tables_of(module) for name, module in again.items()} == expected
    for name, how in VARIANTS.items():
        operators = capture(cache=False, **how).step.operators
        assert [o.name for o in again[name].step.operators] == [o.name for o in operators]


def test_another_version_captures_anew(folder, monkeypatch):
    capture()
    monkeypatch.setattr("tandem.capture.capture_cache._sources", lambda: "others")
    capture()
    assert len(list(folder.glob("*.capture"))) == 2


def test_a_damaged_capture_is_captured_anew(folder):
    expected = tables_of(capture())
    (file,) = folder.glob("*.capture")
    file.write_bytes(file.read_bytes().replace(b"matmul", b"matmux"))
    assert tables_of(capture()) == expected
    assert b"matmux" not in file.read_bytes()


def test_what_a_user_decomposes_is_not_kept(folder, monkeypatch):
    from torch._decomp import decomposition_table

    def rule(x):
        return x * 2

    monkeypatch.setitem(decomposition_table, torch.ops.aten.mul.Tensor, rule)
    key_of = []
    monkeypatch.setattr("tandem.capture.capture_cache.write", lambda key, *_: key_of.append(key))
    capture(factor=2.0)
    assert key_of == [None]


def test_steps_use_it(folder):
    torch.manual_seed(0)
    losses = []
    for number in range(2):
        torch.manual_seed(0)
        model = torch.nn.Linear(16, 16)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        step = tandem.compile(model, loss_fn, optimizer, torch.ones(8, 16), mesh="data=2")
        losses.append([step(torch.ones(8, 16)).item() for _ in range(2)])
        assert ([stage for stage, _ in step.compiled.seconds] == ["cache"]) == (number == 1)
    assert losses[0] == losses[1] and len(list(folder.glob("*.program"))) == 1


# Whose files these are


def run(width=8):
    torch.manual_seed(0)
    model = torch.nn.Linear(width, width)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return tandem.compile(model, loss_fn, optimizer, torch.ones(4, width))


def test_only_its_own_files_are_removed(folder, monkeypatch):
    """Oldest first, whatever the limit: but nothing that the cache has not made."""
    run()
    own = set(folder.iterdir())
    others = [folder.parent / name for name in ("thesis.tex", "0" * 32 + ".o", "data.safetensors")]
    others += [
        folder / name for name in ("notes.txt", "0" * 31 + ".o", "0" * 32, "0" * 32 + ".o.txt")
    ]
    for path in others:
        path.write_text("of somebody")
    (folder / ("1" * 32 + ".o")).symlink_to(others[0])
    (folder / ("2" * 32 + ".program")).mkdir()
    for path in [*others, *own]:
        os.utime(path, (0, 0))
    monkeypatch.setenv("TANDEM_CACHE_MB", "0")
    run(width=4)
    left = [path for path in own if path.exists()]  # of them some were used again
    assert len(left) < len(own) and all(path.stat().st_mtime > 0 for path in left)
    assert all(path.read_text() == "of somebody" for path in others)
    assert (folder / ("1" * 32 + ".o")).is_symlink()


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda base, own: base.chmod(0o777), "can be written by other users .mode 0777."),
        (lambda base, own: own.chmod(0o775), "can be written by other users .mode 0775."),
        (lambda base, own: os.chown(base, 12345, -1), "belongs to user 12345, expected user 0"),
        (lambda base, own: os.chown(own, 12345, -1), "belongs to user 12345, expected user 0"),
        (lambda base, own: own.symlink_to(own.rename(base / "there")), "is no folder"),
    ],
)
def test_a_folder_that_others_write_is_refused(folder, change, words):
    """By the capture, which comes first, and by the compiler alone."""
    if "belongs" in words and os.geteuid() != 0:
        pytest.skip("only root gives files to others")
    run()
    change(folder.parent, folder)
    with pytest.raises(tandem.CompileError, match=f"^cache folder '.*' {words}.* is run as code; "):
        run()
    module = capture(cache=False)
    with pytest.raises(tandem.CompileError, match=f"^cache folder '.*' {words}"):
        compile_module(module, cache=True)


@pytest.mark.parametrize("make", ["exchanged", "endless"])
def test_an_entry_of_another_name_is_not_read(folder, make):
    """Entries whose contents are whole, but not what their names say, and files without an end."""
    run(width=4)
    run()
    files = sorted(folder.iterdir(), key=lambda path: (path.suffix, path.name))
    contents = [path.read_bytes() for path in files]
    for path, content in zip(files, contents[1:] + contents[:1], strict=True):
        path.write_bytes(content)
        if make == "endless":
            os.truncate(path, 2**40)
    step = run()
    assert [stage for stage, _ in step.compiled.seconds] == STAGES
    torch.manual_seed(0)
    expected = loss_fn(torch.nn.Linear(8, 8), torch.ones(4, 8)).item()
    assert step(torch.ones(4, 8)).item() == pytest.approx(expected)


@pytest.mark.parametrize("make", ["other's", "open", "link"])
def test_an_entry_of_somebody_else_is_not_read(folder, make, tmp_path):
    if make == "other's" and os.geteuid() != 0:
        pytest.skip("only root gives files to others")
    run()
    before = {path: path.stat().st_ino for path in folder.iterdir()}
    for path in before:
        if make == "other's":
            os.chown(path, 12345, -1)
        elif make == "open":
            path.chmod(0o666)
        else:
            path.symlink_to(path.rename(tmp_path / path.name))
    step = run()
    assert [stage for stage, _ in step.compiled.seconds] == STAGES
    for path, number in before.items():
        info = path.lstat()
        assert (info.st_uid, info.st_mode & 0o777) == (os.geteuid(), 0o600), path
        assert stat.S_ISREG(info.st_mode) and info.st_ino != number


def test_a_folder_that_all_share_has_one_of_each_users(tmp_path, monkeypatch):
    """As /tmp: with the sticky bit, nobody removes what is another's."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    monkeypatch.setenv("TANDEM_CACHE_DIR", str(tmp_path / "shared"))
    run()
    (made,) = (tmp_path / "shared").iterdir()
    assert made.name == "compiled" and made.stat().st_mode & 0o777 == 0o700
