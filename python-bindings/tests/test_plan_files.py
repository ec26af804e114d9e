"""A plan's own file is accepted on the module that it came from, at any stage before shard."""

from types import SimpleNamespace

import matrix
import pytest
from printed import operators_of
from tandem.errors import CompileError
from tandem.session.compile import compile_module

PLANS = {
    "preset": {"plan": "zero", "mesh": "data=2,model=2", "micro": 2},
    "search": {"search": "presets", "mesh": "data=2,model=2", "micro": 2},
    # Masks are wanted in several forms: shard makes them once for each.
    "tandem": {"search": "tandem", "mesh": "data=4", "micro": 2},
}


@pytest.fixture(scope="module", params=["mlp", "gpt", "bert_moe sgmoe"])
def exported(request):
    return matrix.subject_of(matrix.Case(request.param, dtype="float32")).module


@pytest.fixture(scope="module", params=PLANS)
def found(request, exported):
    return compile_module(exported, print_after=["import", "plan", "shard"], **PLANS[request.param])


def stages_of(exported, found):
    """Modules of the step at each stage that a plan can be made at."""
    texts = {stage: SimpleNamespace(mlir=text) for stage, text in found.ir}
    return {"export": exported, "import": texts["import"], "plan": texts["plan"]}


@pytest.fixture
def path(found, tmp_path):
    (tmp_path / "plan.txt").write_text(found.plan)
    return str(tmp_path / "plan.txt")


@pytest.mark.parametrize("stage", ["export", "import", "plan"])
def test_own_file_is_accepted(exported, found, path, stage):
    again = compile_module(stages_of(exported, found)[stage], plan=path, print_after=["shard"])
    assert again.plan == found.plan
    assert again.ir == [pair for pair in found.ir if pair[0] == "shard"]
    assert again.bytes == found.bytes


@pytest.mark.sample(4)
@pytest.mark.parametrize("stage", ["import", "plan"])
@pytest.mark.parametrize("other", PLANS)
def test_the_file_of_another_plan_is_accepted_behind_a_plan(
    exported, found, stage, other, tmp_path
):
    """The IR that one plan wrote takes the file of another, as the step itself does."""
    text = compile_module(exported, stop_after="plan", **PLANS[other]).plan
    (tmp_path / "other.txt").write_text(text)
    path = str(tmp_path / "other.txt")
    expected = compile_module(exported, plan=path, stop_after="plan")
    again = compile_module(stages_of(exported, found)[stage], plan=path, stop_after="plan")
    assert again.ir == expected.ir and again.plan == expected.plan


def test_the_plan_stage_changes_no_operator(found):
    imported, planned = (
        [line.split("{")[0] for line in operators_of(dict(found.ir)[stage])]
        for stage in ("import", "plan")
    )
    assert planned == imported and imported


@pytest.mark.parametrize("stage", ["shard", "localize"])
def test_is_refused_behind_shard(stage, tmp_path):
    """Where a plan splits something, the graph is another one from there on."""
    module = matrix.subject_of(matrix.Case("gpt", dtype="float32")).module
    found = compile_module(module, stop_after=stage, **PLANS["preset"])
    ((_, text),) = found.ir
    (tmp_path / "plan.txt").write_text(found.plan)
    with pytest.raises(CompileError, match="static shape|expected operators of nn|for the graph"):
        compile_module(SimpleNamespace(mlir=text), plan=str(tmp_path / "plan.txt"))
