"""`python -m tandem export` and `ops`, in this process."""

import errno
import os
import resource

import pytest
import torch
from safetensors.torch import load_file
from tandem.__main__ import main
from tandem.base import outputs


def test_export(root, tmp_path, capsys):
    output = tmp_path / "step.mlir"
    arguments = [
        "export",
        str(root / "examples" / "gpt.py"),
        "--set",
        "layers=1",
        "--dtype",
        "float32",
        "--seed",
        "4",
    ]
    assert main([*arguments, "--gradients", "--batches", "2", "-o", str(output)]) == 0
    assert 'nn.role = #nn.role<gradient>, nn.name = "tokens.weight"' in output.read_text()
    values = load_file(tmp_path / "step.safetensors")
    assert values["parameter/tokens.weight"].shape == (256, 32)
    assert values["state/exp_avg.tokens.weight"].abs().max() == 0
    assert {"step/step", "seed/seed", "learning_rate/0", "learning_rate/1"} < set(values)
    assert values["seed/seed"].item() == 4
    assert values["batch.1/targets"].shape == (16, 16)
    assert "batch.2/targets" not in values
    assert "operators" in capsys.readouterr().out


def test_export_to_a_device_has_no_values_beside_it(root, capsys):
    assert main(["export", str(root / "examples" / "mlp.py"), "-o", "/dev/null"]) == 0
    assert "note: /dev/null is no regular file: exported without val" in capsys.readouterr().err
    assert not os.path.exists("/dev/null.safetensors")


def test_export_writes_as_many_batches_as_there_are(tmp_path, capsys):
    file, output = tmp_path / "two.py", tmp_path / "step.mlir"
    file.write_text(
        "import torch\nPRESETS = {'only': {}}\ndef model(): return torch.nn.Linear(2, 2)\n"
        "def loss(m, batch): return m(batch).mean()\n"
        "def optimizer(m): return torch.optim.SGD(m.parameters(), lr=0.1)\n"
        "def batches(): return iter([torch.ones(4, 2), torch.zeros(4, 2)])\n"
    )
    words = ["export", str(file), "-o", str(output)]
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith(" 2 batches")
    assert main([*words, "--batches", "3"]) == 1
    error = capsys.readouterr().err
    assert error.endswith("two.py: batches() yields 2 batches, expected at least 3\n")


def test_export_without_values(root, tmp_path):
    output = tmp_path / "step.mlir"
    assert main(["export", str(root / "examples" / "llama.py"), "--meta", "-o", str(output)]) == 0
    assert "xf32>" in output.read_text() and not (tmp_path / "step.safetensors").exists()


def test_export_without_values_of_an_optimizer_that_begins_with_state(tmp_path):
    file, output = tmp_path / "own.py", tmp_path / "step.mlir"
    file.write_text(
        "import torch\nPRESETS = {'only': {}}\ndef model(): return torch.nn.Linear(2, 2)\n"
        "def loss(model, batch): return model(batch).square().mean()\n"
        "def optimizer(model): return torch.optim.Adagrad(model.parameters())\n"
        "def batches(): return iter([torch.ones(4, 2)])\n"
    )
    words = ["export", str(file), "--batches", "1", "-o", str(output)]
    assert main([*words, "--meta"]) == 0
    without = output.read_text()
    assert main(words) == 0 and output.read_text() == without


@pytest.mark.parametrize(
    "arguments,expected",
    [
        (["export", "missing.py"], "tandem export: error: missing.py: no such model file"),
        (
            ["export", "{examples}/mlp.py", "--preset", "huge"],
            "no preset 'huge', expected one of tiny, bench",
        ),
        (["export", "{examples}/mlp.py", "--set", "depth=3"], "unknown size 'depth'"),
        (["export", "{examples}/gpt.py", "--set", "text=missing"], "FileNotFoundError"),
        (
            ["export", "{examples}/bert_moe.py", "--set", "gate=best"],
            "gate = 'best', expected one of sgmoe, switch",
        ),
        (
            ["export", "{examples}/mlp.py", "-o", "/no/such/folder/step.mlir"],
            "/no/such/folder/step.mlir: No such file",
        ),
        (
            ["export", "{examples}/mlp.py", "--batches", "-1"],
            "--batches is -1, expected at least 1",
        ),
        (["export", "{examples}/mlp.py", "--seed", "9" * 30], "expected an integer of 64 bits"),
        (["export", "/dev/zero"], "/dev/zero: no such model file"),
    ],
)
def test_errors_are_one_line(root, capsys, arguments, expected):
    assert main([argument.format(examples=root / "examples") for argument in arguments]) == 1
    error = capsys.readouterr().err
    assert expected in error and error.count("\n") == 1


def test_ops(capsys):
    assert main(["ops", "--decomposed"]) == 0
    out = capsys.readouterr().out
    for expected in (
        "aten.mm ",
        "aten.native_layer_norm_backward ",
        "lowered to nn (random)",
        "decomposed by PyTorch",
    ):
        assert expected in out


def test_a_full_disk_names_the_file(root, capsys):
    assert main(["export", str(root / "examples" / "mlp.py"), "-o", "/dev/full"]) == 1
    assert capsys.readouterr().err == "tandem export: error: /dev/full: No space left on device\n"


@pytest.fixture
def small_files():
    """No file takes more than so many bytes: as on a full disk, the system refuses the rest."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, most))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def test_values_that_do_not_fit_name_their_file(root, tmp_path, capsys, small_files):
    """Nothing is said of the part beside it, and none is left."""
    output = tmp_path / "step.mlir"
    words = ["--set", "width=256", "-o", str(output)]
    assert main(["export", str(root / "examples" / "mlp.py"), *words]) == 1
    values = output.with_suffix(".safetensors")
    assert capsys.readouterr().err == f"tandem export: error: {values}: File too large\n"
    assert list(tmp_path.iterdir()) == [output]


def test_a_text_that_does_not_fit_names_its_file(root, tmp_path, capsys, small_files):
    output = tmp_path / "step.mlir"
    words = ["--set", "layers=8", "-o", str(output)]
    assert main(["export", str(root / "examples" / "gpt.py"), *words]) == 1
    assert capsys.readouterr().err == f"tandem export: error: {output}: File too large\n"
    assert not list(tmp_path.iterdir())


def test_a_part_that_cannot_be_made_names_the_file(tmp_path):
    path = tmp_path / "absent" / "step.mlir"
    with pytest.raises(FileNotFoundError) as raised:
        outputs.write(path, lambda part: part.write_text(""))
    assert raised.value.filename == str(path)


def test_tensors_replace_no_device(tmp_path):
    os.mkfifo(path := tmp_path / "fifo")
    with pytest.raises(OSError, match="expected a regular file"):
        outputs.write_tensors(path, {"a": torch.zeros(2)})
    assert path.is_fifo()


def test_an_error_without_a_file_names_none(monkeypatch, capsys):
    def fail(_):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr("tandem.commands.ops.run", fail)
    assert main(["ops"]) == 1
    assert capsys.readouterr().err == "tandem ops: error: Cannot allocate memory\n"


def test_no_command_names_them(capsys):
    with pytest.raises(SystemExit) as raised:
        main([])
    assert raised.value.code == 2
    assert capsys.readouterr().err == (
        "tandem: error: expected a command, one of bisect, export, ops, report, sweep, verify; or --help\n"
    )
