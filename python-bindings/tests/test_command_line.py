"""`python -m tandem export` and `ops`, in this process."""

import os

import pytest
from safetensors.torch import load_file
from tandem.__main__ import main


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


def test_export_without_values(root, tmp_path):
    output = tmp_path / "step.mlir"
    assert main(["export", str(root / "examples" / "llama.py"), "--meta", "-o", str(output)]) == 0
    assert "xf32>" in output.read_text() and not (tmp_path / "step.safetensors").exists()


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
