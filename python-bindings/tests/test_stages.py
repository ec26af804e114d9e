"""IR of any stage, edited by hand or not, makes a Program."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import matrix
import pytest
from tandem.errors import CompileError
from tandem.session.compile import compile_module
from tandem.verify.reference import find_tool

STAGES = ["import", "accumulate", "plan", "shard", "localize", "duplex", "schedule", "lower"]
WIDTH = 160


def compile_text(text, **options):
    return compile_module(SimpleNamespace(mlir=text), **options)


@pytest.fixture(scope="module", params=["mlp", "gpt", "bert_moe sgmoe"])
def exported(request):
    return matrix.subject_of(matrix.Case(request.param, dtype="float32")).module


@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("plan", ["data-parallel", "zero"])
def test_every_stage_can_be_left_and_entered(exported, plan, micro):
    """What is printed behind a stage says all that the stages behind it need."""
    options = {"mesh": "data=2", "plan": plan, "micro": micro}
    found = compile_module(exported, print_after=STAGES, **options)
    assert [stage for stage, _ in found.ir] == STAGES
    for stage, text in found.ir:
        own = options if stage in ("import", "accumulate") else {}
        again = compile_text(text, from_stage=stage, print_after=STAGES[-1:], **own)
        assert again.bytes == found.bytes, stage


def test_a_searched_plan_can_be_left_and_entered(exported):
    """Its stages, copies and pieces of collectives are in the IR, and the cluster's memory is."""
    options = {"mesh": "data=4", "micro": 2, "search": "tandem"}
    cluster = matrix.cluster_file(4)
    found = compile_module(exported, print_after=STAGES, cluster=cluster, **options)
    for stage, text in found.ir[2:]:
        assert "spmd.memory = " in text
        assert compile_text(text, from_stage=stage).bytes == found.bytes, stage


# ---- What is refused


@pytest.fixture(scope="module")
def mlp():
    return matrix.subject_of(matrix.Case("mlp", dtype="float32"))


@pytest.fixture(scope="module")
def stages(mlp):
    """{stage: IR} of a step in which each stage has something to do."""
    options = {"mesh": "data=2", "plan": "zero", "micro": 2}
    return dict(compile_module(mlp.module, print_after=STAGES, **options).ir)


@pytest.mark.parametrize("left", STAGES)
@pytest.mark.parametrize("named", ["", *STAGES])
def test_ir_of_another_stage_is_refused(stages, left, named):
    # With one iteration, `accumulate` leaves the step as it comes.
    form, expected = ("import" if stage == "accumulate" else stage for stage in (left, named))
    if form == expected or (form, expected) == ("import", ""):
        return
    with pytest.raises(CompileError) as error:
        compile_text(stages[left], from_stage=named)
    assert str(error.value).endswith(f": compile it with --from {form}")
    assert "\n" not in str(error.value)


def test_a_stage_that_does_not_run_is_refused(stages):
    with pytest.raises(CompileError, match="^stage 'plan' does not run behind 'shard'"):
        compile_text(stages["shard"], from_stage="shard", stop_after="plan")
    with pytest.raises(CompileError, match="^stage 'shard' is left already"):
        compile_text(stages["shard"], from_stage="shard", stop_after="shard")
    with pytest.raises(CompileError, match="^unknown stage 'sharding', expected one of import"):
        compile_text(stages["shard"], from_stage="sharding")


def test_an_error_behind_a_stage_names_the_users_line(stages):
    """The IR was printed and read again; the line is that of the model's file."""
    gather = r'(spmd\.all_gather %\S+ over \["data"\] dim) 0'
    broken, count = re.subn(gather, r"\1 1", stages["duplex"], count=1)
    assert count == 1
    with pytest.raises(CompileError, match=r"mlp\.py:\d+: .*all_gather"):
        compile_text(broken, from_stage="duplex")


def test_an_error_in_an_update_names_the_parameter(stages):
    """No line of the user's wrote it."""
    broken = stages["duplex"].replace(
        "nn.pass = #update", "nn.pass = #update, nn.strand = 9 : i64", 1
    )
    with pytest.raises(CompileError, match=r"^optimizer\.\S+: has the strand 9"):
        compile_text(broken, from_stage="duplex")


def test_a_layout_is_not_left_out(stages):
    """Without it a Program would take the part of a device for the whole."""
    for stage in ("duplex", "schedule", "lower"):
        text = re.sub(
            r",\s+spmd\.layout = tensor<32xf32, #gather0_data>", "", stages[stage], count=1
        )
        with pytest.raises(CompileError, match="has no 'spmd.layout', expected the type of the"):
            compile_text(text, from_stage=stage)


# ---- A schedule that is edited

STEP = re.compile(
    r"^    (?P<results>%\S+, )(?P<event>%\S+) = sched\.step on (?P<queue>\w+) stage (?P<stage>\d+) "
    r"strand (?P<strand>\d+)(?: after\((?P<after>[^)]*)\))? \{\n(?P<body>.*?)^    \}[^\n]*\n(?:     [^\n]*\n)*",
    re.MULTILINE | re.DOTALL,
)


def steps_of(text, queue):
    return [step for step in STEP.finditer(text) if step["queue"] == queue]


def gather_earlier(text):
    """An argument is gathered right behind the collective before it, beside other computation, and waits for
    nothing: it needs nothing that is computed.
    """
    steps = steps_of(text, "comm")
    index = next(
        i for i, s in enumerate(steps) if i and s["after"] and "all_gather %arg" in s["body"]
    )
    before, moved = steps[index - 1], steps[index]
    step = moved[0].replace(f" after({moved['after']})", "", 1)
    step = step.replace(f"stage {moved['stage']} strand", f"stage {before['stage']} strand", 1)
    rest = text[before.end() : moved.start()] + text[moved.end() :]
    return text[: before.end()] + step + rest


def test_an_edited_schedule_runs_and_equals_eager(mlp, stages):
    edited = gather_earlier(stages["schedule"])
    unedited = compile_text(stages["schedule"], from_stage="schedule")
    program = compile_text(edited, from_stage="schedule")
    assert program.bytes != unedited.bytes
    rows = matrix.judge_program(mlp, program.bytes)
    assert rows and all(row.passed for row in rows)


def without_wait(text):
    """The first computation that reads what was gathered, without the event."""
    step = next(s for s in steps_of(text, "compute") if s["after"])
    return (
        text[: step.start()] + re.sub(r" after\([^)]*\)", "", step[0], count=1) + text[step.end() :]
    )


def in_wrong_order(text):
    """Two steps of one queue change places."""
    first, second = next(
        (a, b)
        for a, b in zip(steps_of(text, "compute"), steps_of(text, "compute")[1:], strict=False)
        if a.end() == b.start() and not a["after"] and not b["after"]
    )
    return text[: first.start()] + second[0] + first[0] + text[second.end() :]


BROKEN = {
    without_wait: "reads a value of stage .* but no awaited event says that it is done",
    in_wrong_order: "comes after the one of stage 8, strand 0 on the same queue",
}


@pytest.mark.parametrize("edit", BROKEN, ids=lambda edit: edit.__name__)
def test_a_broken_schedule_is_refused(stages, edit):
    with pytest.raises(CompileError) as error:
        compile_text(edit(stages["schedule"]), from_stage="schedule")
    assert re.search(r"^\S*mlp\.py:\d+: the step of stage .*" + BROKEN[edit], str(error.value))
    assert "--from" not in str(error.value)  # it is IR of this stage
    assert "\n" not in str(error.value)


# ---- What is printed


@pytest.mark.parametrize("plan", ["zero", "tandem"])
def test_lines_fit_on_a_screen(plan):
    """Of a GPT with two layers; passes, forms and plans of operators have names, which MLIR's printer gives them."""
    module = matrix.subject_of(matrix.Case("gpt", dtype="float32")).module
    how = {"plan": plan} if plan == "zero" else {"search": plan}
    found = compile_module(module, mesh="data=4", micro=2, print_after=["plan", "schedule"], **how)
    for stage, text in found.ir:
        lines = text.splitlines()
        assert max(map(len, lines)) <= WIDTH, stage
        operators = [line for line in lines if re.match(r" +%\S+ = nn\.", line)]
        assert len(operators) > 700
        written = re.compile(r"#nn\.pass<|#spmd\.form<|#spmd\.plan<signatures")
        assert not [line for line in operators if written.search(line)], stage


def test_the_document_says_what_happens(tmp_path):
    """The commands of docs/editing-a-schedule.md print what it says."""
    (tmp_path / "examples").symlink_to(matrix.EXAMPLES)
    folders = [
        Path(sys.executable).parent,
        Path(find_tool("tandem-compile")).parent,
        os.environ["PATH"],
    ]
    environment = os.environ | {"PATH": os.pathsep.join(map(str, folders))}
    document = matrix.ROOT / "docs" / "editing-a-schedule.md"
    check = matrix.ROOT / "test" / "Explain" / "check_document.py"
    done = subprocess.run(
        [sys.executable, check, document, "Example", tmp_path],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "9 commands\n"
