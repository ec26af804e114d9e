"""The command `verify`: what it prints, its exit status, and bad input as one line."""

import pytest
from tandem.__main__ import main
from tandem.commands import verify


@pytest.fixture
def mlp(root):
    return str(root / "examples" / "mlp.py")


def test_passes_and_names_every_rule(mlp, capsys):
    options = ["--mesh", "data=2", "--plan", "zero", "--micro", "2", "--steps", "2"]
    assert main(["verify", mlp, *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    kinds = {line.split()[0] for line in lines[1:-1]}
    assert kinds == {"loss", "gradient", "parameter", "buffer", "state"}
    assert lines[-1].startswith("verify: passed")


@pytest.mark.parametrize("what", ["gradients", "parameters", "losses"])
def test_fails_with_status_1(mlp, capsys, monkeypatch, what):
    def spoilt(step, *rest):
        history = run(step, *rest)
        if what == "gradients":
            history.gradients[-1]["1.weight"] *= 1.001
        elif what == "parameters":
            history.parameters["1.weight"] *= 1 + 1e-6
        else:
            history.losses[0] *= 1 + 1e-6
        return history

    run = verify.run_step
    monkeypatch.setattr(verify, "run_step", spoilt)
    assert main(["verify", mlp]) == 1
    out = capsys.readouterr().out
    assert out.count("FAIL ") == 1 and "verify: FAILED" in out


@pytest.mark.parametrize(
    "options,words",
    [
        (["--mesh", "data=3"], "3"),
        (["--mesh", "data=two"], "two"),
        (["--plan", "magic"], "magic"),
        (["--mesh", "data=2", "--pin", "1.weight"], "1.weight"),
        (["--mesh", "data=2", "--pin", "1.weight:data=gather(9)"], "gather(9)"),
        (["--micro", "0"], "micro is 0"),
        (["--steps", "0"], "--steps is 0"),
        (["--set", "no_such=1"], "no_such"),
        (["--preset", "huge"], "huge"),
    ],
)
def test_bad_input_is_one_line(mlp, capsys, options, words):
    assert main(["verify", mlp, *options]) == 1
    captured = capsys.readouterr()
    assert words in captured.err and captured.err.count("\n") == 1


@pytest.mark.parametrize("stage", ["import", "shard", "schedule"])
def test_reference_interpreter_judges_a_stage(mlp, stage):
    options = ["--device", "reference", "--stage", stage, "--mesh", "data=2", "--micro", "2"]
    assert main(["verify", mlp, *options, "--steps", "1"]) == 0
