"""`step.explain()`: why a searched plan is as it is."""

import copy
import io
import json

import pytest
import tandem
import torch
from tandem.errors import CompileError
from torch import nn


def loss_fn(model, batch):
    return nn.functional.mse_loss(model(batch["x"]), batch["y"])


def compile_step(**options):
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
    batch = {"x": torch.randn(8, 16), "y": torch.randn(8, 16)}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return tandem.compile(model, loss_fn, optimizer, batch, mesh={"data": 2}, **options), batch


@pytest.mark.parametrize(
    "options", [{"search": "tandem"}, {"plan": "zero"}, {"search": "tandem", "micro": 2}]
)
def test_prints_and_returns(options, tmp_path, capsys):
    step, batch = compile_step(**options)
    path = tmp_path / "why.json"
    explanation = step.explain(path)
    out = capsys.readouterr().out
    assert out.startswith("Time of a step on data=2") and "Parameters and states" in out
    assert json.loads(path.read_text()) == explanation
    time = explanation["time"]
    assert time["predicted"] == pytest.approx(time["computation"] + time["exposed"], rel=1e-9)
    assert (
        sum(entry["bytes"] for entry in explanation["memory"]["held"])
        == (explanation["memory"]["peak"])
    )
    stored = {form["tensor"] for form in explanation["forms"] if form["role"] == "stored"}
    assert {"0.weight", "2.weight"} <= stored
    step(batch)  # As before.


def test_says_what_the_search_proved(capsys):
    step, _ = compile_step(search="tandem")
    time = step.explain()["time"]
    plan = step.compiled.plan
    assert time["predicted"] == pytest.approx(float(plan.partition("\ncost ")[2].split()[0]))
    assert time["lower_bound"] == pytest.approx(float(plan.partition("\nbound ")[2].split()[0]))


def _methods(explanation):
    return {choice["method"] for form in explanation["forms"] for choice in form["next"]}


def test_searches_until_the_limit(capsys):
    step, _ = compile_step(search="tandem", micro=2)
    whole, limited = step.explain(), step.explain(search_time_limit=1e-9)
    assert "by a local estimate" in capsys.readouterr().out
    assert "searched" in _methods(whole) and _methods(limited) == {"local estimate"}
    assert limited["time"] == whole["time"] and limited["memory"] == whole["memory"]
    for wrong in (-1, True, "1"):
        with pytest.raises(CompileError, match=f"search_time_limit is {wrong!r}, expected seconds"):
            step.explain(search_time_limit=wrong)
    with pytest.raises(CompileError, match="search_time_limit is 10*, expected seconds"):
        step.explain(search_time_limit=10**400)


def test_what_cannot_be_written_is_said_before_the_search(tmp_path, monkeypatch):
    step, _ = compile_step()
    monkeypatch.setattr("tandem.session.explanations.native", lambda: pytest.fail("searched"))
    (tmp_path / "mine.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "none" / "why.json", tmp_path / "mine.txt", 1):
        with pytest.raises(tandem.TandemError, match="explain: cannot write to path"):
            step.explain(path=path)
    with open(tmp_path / "why.json", "wb") as binary, open(__file__) as readable:
        closed = io.StringIO()
        closed.close()
        for file in ("why.txt", binary, readable, closed):
            with pytest.raises(tandem.TandemError, match="explain: cannot write to file"):
                step.explain(file=file)


def test_without_a_plan(capsys):
    step, _ = compile_step()
    bare = copy.copy(step)
    bare._reports = copy.copy(step._reports)
    bare._reports.compiled = None
    with pytest.raises(tandem.TandemError, match="explain: the step has no plan"):
        bare.explain()


def test_fail_on_replicate():
    with pytest.raises(CompileError, match="left whole on all devices with 2048 bytes"):
        compile_step(plan="data-parallel", fail_on_replicate=1000)
    compile_step(plan="zero", fail_on_replicate=1 << 20)
    with pytest.raises(CompileError, match="fail_on_replicate is -1, expected bytes"):
        compile_step(fail_on_replicate=-1)
