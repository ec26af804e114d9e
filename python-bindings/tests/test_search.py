"""Plans that a search finds are as right as presets, and the options of a search."""

import copy
import re
import subprocess
from pathlib import Path

import matrix
import pytest
import tandem
import torch
from tandem.__main__ import main
from tandem.capture.model_file import load_model_file
from tandem.errors import CompileError
from tandem.session.compile import compile_module
from tandem.verify.reference import find_tool
from tandem.verify.verify import make_subject

# Of searches that would take longer; their plans are right whatever they cost.
SECONDS = 5


@pytest.mark.sample(5)
@pytest.mark.parametrize("mesh,micro", [("data=2", 1), ("data=2,model=2", 2)])
@pytest.mark.parametrize("variant", ["mlp", "gpt", "bert_moe sgmoe"])
@pytest.mark.parametrize("search", ["tandem", "presets"])
def test_equals_eager(variant, mesh, micro, search):
    subject = matrix.subject_of(matrix.Case(variant))
    compiled = compile_module(
        subject.module,
        variant,
        mesh=mesh,
        micro=micro,
        search=search,
        search_time_limit=SECONDS,
    )
    assert any(f"search {search}: cost " in remark for remark in compiled.remarks)
    rows = matrix.judge_program(subject, compiled.bytes)
    assert rows and all(row.passed for row in rows)


def test_unrolled_recurrence_equals_eager():
    """The gradient of what its steps read is one group of operators, with a leaf per step."""
    model = Path(__file__).parent / "models" / "recurrent.py"
    subject = make_subject(load_model_file(model, None, "", "float64"), 3)
    compiled = compile_module(subject.module, mesh="data=4", search="tandem")
    rows = matrix.judge_program(subject, compiled.bytes)
    assert rows and all(row.passed for row in rows)


def export_meta(path, sizes=""):
    """The step of a model file whose parameters have no values."""
    file = load_model_file(path, None, sizes, "float32")
    model = file.make_model(meta=True)
    return tandem.export(model, file.loss, file.make_optimizer(model), file.batches(1)[0])


def test_a_gated_recurrence_is_proven(root):
    """Half of its forms suit only if all steps have them: a step after the other gains nothing."""
    found = compile_module(
        export_meta(Path(__file__).parent / "models" / "gated.py"),
        mesh="data=8",
        cluster=str(root / "examples" / "clusters" / "v100-2x4.yaml"),
        micro=1,
        search="tandem",
        stop_after="plan",
    )
    assert any(remark.endswith("optimal") for remark in found.remarks), found.remarks


def test_a_bound_for_strands_is_half_of_both_sums(root, tmp_path):
    """Computation alone, or collectives alone, says little of a layer that has much of both."""
    sizes = "layers=1,width=1024,heads=16,batch=64,seq=512"
    compile_module(
        export_meta(root / "examples" / "llama.py", sizes),
        mesh="data=8,model=8",
        cluster=str(root / "examples" / "clusters" / "v100-8x8.yaml"),
        micro=2,
        search="presets",
        stop_after="plan",
        problem_out=str(tmp_path / "problem.txt"),
    )
    options = ["--gap", "1", "--search-time-limit", "60"]
    command = [find_tool("tandem-plan"), tmp_path / "problem.txt", *options]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert float(re.search(r"^gap ([0-9.]+) %", text, re.M)[1]) <= 100, text


def test_hidup_equals_eager():
    subject = matrix.subject_of(matrix.Case("mlp"))
    compiled = compile_module(subject.module, mesh="data=2", micro=2, search="hidup")
    rows = matrix.judge_program(subject, compiled.bytes)
    assert rows and all(row.passed for row in rows)


def test_is_never_worse_than_presets():
    module = matrix.subject_of(matrix.Case("mlp")).module

    def cost(search):
        plan = compile_module(module, mesh="data=4", search=search, stop_after="plan").plan
        return float(plan.partition("\ncost ")[2].split()[0])

    assert cost("tandem") <= cost("presets") * (1 + 1e-9)


def test_plan_file_of_a_search_gives_the_same_program(tmp_path):
    module = matrix.subject_of(matrix.Case("mlp")).module
    found = compile_module(module, mesh="data=2,model=2", micro=2, search="tandem")
    path = tmp_path / "plan.txt"
    path.write_text(found.plan)
    again = compile_module(module, plan=str(path))
    assert again.bytes == found.bytes and again.plan == found.plan


def test_stages_left_out_are_chosen(tmp_path):
    module = matrix.subject_of(matrix.Case("mlp")).module
    found = compile_module(module, mesh="data=2", micro=2, search="tandem", presets=False)
    lines = found.plan.splitlines()
    kept = [line for line in lines if line.split()[0] not in ("stage", "copy", "wait")]
    assert len(kept) < len(lines)
    path, whole = tmp_path / "plan.txt", tmp_path / "whole.txt"
    path.write_text("\n".join([*kept[:-1], f"end {len(kept) - 2}", ""]))
    chosen = compile_module(module, plan=str(path))
    assert "\nstage " in chosen.plan
    whole.write_text(chosen.plan)
    assert compile_module(module, plan=str(whole)).bytes == chosen.bytes


def test_a_kernel_is_changed_as_a_whole(tmp_path):
    module = matrix.subject_of(matrix.Case("mlp")).module
    found = compile_module(module, mesh="data=2", micro=2, search="tandem", stop_after="plan")
    lines = found.plan.splitlines()
    products = re.findall(r"nn\.matmul .*nn\.id = (\d+)", found.ir[-1][1])
    path, errors = tmp_path / "plan.txt", []
    for product in products:
        line = f"operator {product} nn.matmul: data='full, gather(1) -> gather(1)'"
        others = [other for other in lines[:-1] if not other.startswith(line.split(":")[0])]
        path.write_text("\n".join([*others, line, f"end {len(others)}", ""]))
        try:
            compile_module(module, plan=str(path), stop_after="plan")
        except CompileError as error:
            errors.append(str(error))
    # The weight's transpose belongs to its product.
    pattern = r"operator \d+ nn.matmul takes operand 1 as 'gather\(1\)' on axis 'data', but operator \d+ nn.permute"
    assert any(re.search(pattern, e) and "one kernel computes both" in e for e in errors), errors
    assert all(f"plan.txt', line {len(others) + 1}: " in e for e in errors)


@pytest.mark.parametrize(
    "options,words",
    [
        ({"search": "magic"}, "search 'magic'"),
        ({"search": "tandem", "plan": "zero"}, "beside the plan 'zero'"),
        ({"search": "tandem", "cluster": "/no/such.yaml"}, "/no/such.yaml"),
        ({"search": "tandem", "search_time_limit": -1}, "search_time_limit is -1"),
    ],
)
def test_bad_options(options, words):
    module = matrix.subject_of(matrix.Case("mlp")).module
    with pytest.raises(CompileError, match=words):
        compile_module(module, mesh="data=2", **options)


def test_command_line(root, capsys):
    mlp = str(root / "examples" / "mlp.py")
    assert main(["verify", mlp, "--mesh", "data=2", "--search", "tandem", "--steps", "1"]) == 0
    out = capsys.readouterr().out
    assert "search tandem: cost " in out and "verify: passed" in out


def test_command_line_has_all_options_of_the_planner(root, tmp_path, capsys):
    mlp = str(root / "examples" / "mlp.py")
    plan, problem = tmp_path / "plan.txt", tmp_path / "problem.txt"
    module = matrix.subject_of(matrix.Case("mlp")).module
    options = {"mesh": "data=2", "micro": 2, "recompute": True}
    found = compile_module(module, stop_after="plan", search="tandem", presets=False, **options)
    plan.write_text(found.plan)
    arguments = ["verify", mlp, "--mesh", "data=2", "--micro", "2", "--recompute", "--steps", "1"]
    search = ["--search", "tandem", "--start", str(plan), "--no-presets", "--timeline", "--explain"]
    assert main([*arguments, *search, "--problem-out", str(problem)]) == 0
    out = capsys.readouterr().out
    assert "verify: passed" in out and "Parameters and states" in out
    assert "timeline" in out and problem.read_text().startswith("tandem-problem 1")
    # Without the flag, the file asks for it.
    assert main(["verify", mlp, "--plan", str(plan), "--steps", "1"]) == 0
    assert "verify: passed" in capsys.readouterr().out
    assert main([*arguments, "--plan", str(plan), "--fail-on-replicate", "10"]) == 1
    assert "is left whole on all devices" in capsys.readouterr().err


def test_compiled_step_explains_what_it_makes_again(capsys):
    first = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8))

    def loss(model, batch):
        return (model(batch) - batch).square().mean()

    def compiled(recompute):
        model = copy.deepcopy(first)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        options = {"mesh": {"data": 2}, "search": "tandem", "recompute": recompute}
        return tandem.compile(model, loss, optimizer, batch, **options)

    batch = torch.randn(4, 8)
    steps = [compiled(recompute) for recompute in (False, True)]
    # The plan of the second is one for its own graph alone.
    graphs = [step.compiled.plan.split()[3] for step in steps]
    assert graphs[0] != graphs[1]
    assert all(step.explain()["memory"]["peak"] > 0 for step in steps)
    torch.testing.assert_close(steps[0](batch), steps[1](batch))


# One of each search, mesh and number of microbatches; `make verify` runs all.
SLOW_CORES = [
    matrix.Case("gpt", "", "data=4", 2, search="tandem"),
    matrix.Case("llama", "", "data=2,model=2", 2, search="tandem"),
    matrix.Case("bert_moe sgmoe", "", "data=4", 2, search="hidup"),
    matrix.Case("vit_moe switch", "", "data=2,model=2", 1, search="tandem"),
    matrix.Case("hf gpt2", "", "data=2", 2, search="hidup"),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", SLOW_CORES, ids=lambda case: f"{case.variant}-{case.search}")
def test_plans_that_communicate_equal_eager(case):
    row = matrix.run_case(case, matrix.subject_of(case))
    assert not row["error"]
    assert row["passed"], row["failed"]


def test_every_case_of_a_search_is_listed():
    assert len(matrix.all_searches()) == len(matrix.VARIANTS) * (6 + 2)


def test_mesh_auto_trains(root):
    """The mesh comes from the cluster, and an old plan is a start for it."""
    subject = matrix.subject_of(matrix.Case("mlp"))
    cluster = root / "examples" / "clusters" / "laptop.yaml"
    found = compile_module(subject.module, mesh="auto", micro=2, cluster=cluster)
    table = [remark for remark in found.remarks if "  data=" in remark]
    assert any("mesh auto: 4 devices" in remark for remark in found.remarks)
    assert len(table) == 2 and {"data=4 ", "data=2,model=2 "} == {
        mesh for mesh in ("data=4 ", "data=2,model=2 ") if any(mesh in line for line in table)
    }
    rows = matrix.judge_program(subject, found.bytes)
    assert rows and all(row.passed for row in rows)


def test_start_is_never_left_for_worse(tmp_path, root):
    module = matrix.subject_of(matrix.Case("mlp")).module
    options = {"mesh": "data=4", "micro": 2, "stop_after": "plan"}
    first = compile_module(module, search="tandem", **options).plan
    path = tmp_path / "plan.txt"
    path.write_text(first)
    again = compile_module(module, search="tandem", start=path, presets=False, **options).plan

    def cost(plan):
        return float(plan.partition("\ncost ")[2].split()[0])

    assert cost(again) <= cost(first) * (1 + 1e-12)
    with pytest.raises(CompileError, match="with no search, expected tandem or ilp"):
        compile_module(module, start=path, **options)
