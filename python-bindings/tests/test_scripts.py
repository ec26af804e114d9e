"""The examples that are scripts of their own: fine-tuning a GPT-2, and digits beside eager. Demos."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from forked import Forks

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
FINETUNE = [EXAMPLES / "gpt2_finetune.py", "--layers=1", "--width=32", "--length=16", "--every=2"]


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripts")
    text = folder / "text.txt"
    text.write_text("".join(f"{number} is {number * number}. " for number in range(400)))
    forks = Forks(folder, {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"})
    forks.text = f"--text={text}"
    return forks


def finetune(forks, *arguments):
    """The lines that it prints."""
    code, output, errors = forks.start([*FINETUNE, forks.text, *arguments]).finish(120)
    assert code == 0, errors
    return output.splitlines()


def evaluation(line):
    return float(re.fullmatch(r"step \d+ evaluation (\S+) perplexity \S+", line)[1])


def test_finetuning_learns_goes_on_and_comes_back(forks, tmp_path):
    """Four steps, of which two in a second process on another plan, are four; what they save is what was evaluated."""
    whole = finetune(forks, "--mesh=data=2", "--steps=4", "--save", tmp_path / "whole")
    assert [line.split()[2] for line in whole] == ["loss", "loss", "evaluation"] * 2
    assert evaluation(whole[5]) < evaluation(whole[2])
    parts = ["--mesh=data=2", "--save", tmp_path / "parts"]
    first = finetune(forks, *parts, "--steps=2")
    jobs = forks.start_job(2, [*FINETUNE, forks.text, *parts, "--steps=4"], timeout=60)
    ends = [job.finish(120) for job in jobs]
    assert [code for code, _, _ in ends] == [0, 0], ends
    assert first + ends[0][1].splitlines() == whole and ends[1][1] == ""

    again = ["--from", tmp_path / "parts" / "model", "--mesh=data=2", "--steps=2"]
    lines = finetune(forks, *again)
    assert evaluation(lines[2]) < evaluation(whole[5])
    config = json.loads((tmp_path / "parts" / "model" / "config.json").read_text())
    assert config["n_layer"] == 1


def test_finetuning_says_what_does_not_fit(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setenv("WORLD_SIZE", "3")
    from gpt2_finetune import Batches

    def make(batch):
        Batches(torch.zeros(1000), SimpleNamespace(batch=batch, length=16))

    with pytest.raises(SystemExit, match="^--batch is 8, expected a multiple of 3 processes$"):
        make(8)
    with pytest.raises(SystemExit, match="^the text has 1000 tokens, expected at least 1440$"):
        make(9)


def test_digits_are_told_as_in_eager(forks):
    code, output, errors = forks.start([EXAMPLES / "digits.py", "--epochs=6"]).finish(300)
    assert code == 0, output + errors
    found, eager = re.search(r"accuracy (\S+)%, eager (\S+)%", output).groups()
    assert float(found) >= 97 and abs(float(found) - float(eager)) < 1.5


@pytest.mark.parametrize(
    "argument,code,words", [("--help", 0, "usage: demo-cuda"), ("--fast", 2, "arguments: --fast")]
)
def test_demo_cuda_reads_its_command_line(forks, argument, code, words):
    found, output, errors = forks.start([ROOT / "scripts" / "demo_cuda.py", argument]).finish(60)
    assert found == code and words in output + errors


def test_demo_pipeline_draws_what_each_point_does(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import demo_pipeline

    sizes = "layers=4,width=32,heads=4,seq=16,batch=16,dropout=0.0"
    monkeypatch.setattr(demo_pipeline, "SIZES", sizes)
    monkeypatch.setattr("sys.argv", ["demo-pipeline", str(tmp_path)])
    assert demo_pipeline.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    rows = [re.fullmatch(r"point \d \|(.*)\| +\d+% bubble", line)[1] for line in lines[4:8]]
    # The first F comes later on each point, and none is as late as the last W.
    assert [row.index("F") for row in rows] == sorted(row.index("F") for row in rows)
    assert all(row.rindex("F") < row.rindex("W") < row.index("U") for row in rows)
    assert (tmp_path / "pipeline.svg").read_text().count("W weights") == 1
