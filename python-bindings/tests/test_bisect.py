"""The command `bisect`: faults planted into the IR of one stage are found at their operator."""

import re
from pathlib import Path

import pytest
from tandem.__main__ import main
from tandem.capture.export import export
from tandem.capture.model_file import load_model_file
from tandem.session.compile import compile_text

MODEL = """
import torch
from torch import nn
import torch.nn.functional as F
PRESETS = {"only": {}}
def loss(m, batch): return F.cross_entropy(m(batch[0]), batch[1])
def batches():
    torch.manual_seed(0)
    while True:
        yield torch.randn(8, 6), torch.randint(0, 3, (8,))
def model(): return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
def optimizer(m): return torch.optim.Adam(m.parameters(), lr=0.01)
"""
WORDS = ["--mesh", "data=2", "--micro", "2", "--steps", "1"]


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "m.py"
    path.write_text(MODEL)
    return str(path)


@pytest.fixture
def bisect(model, capsys):
    """The status and the lines of `bisect`."""

    def bisect(*words):
        status = main(["bisect", model, *WORDS, *words])
        captured = capsys.readouterr()
        return status, (captured.out + captured.err).splitlines()

    return bisect


@pytest.fixture
def plant(model, tmp_path):
    """--from for a stage, in whose IR one place was changed."""

    def plant(stage, pattern, text, mesh="data=2", **options):
        file = load_model_file(model, dtype="float64")
        made = file.make_model(0)
        batch = file.batches(1)[0]
        module = export(made, file.loss, file.make_optimizer(made), batch, True)
        options = options or {"micro": 2}
        ir = compile_text(module.mlir, model, mesh=mesh, stop_after=stage, **options).ir[-1][1]
        edited, count = re.subn(pattern, text, ir, count=1)
        assert count == 1, f"{stage} has no {pattern}"
        path = tmp_path / f"{stage}.mlir"
        path.write_text(edited)
        return ["--from", f"{stage}={path}"]

    return plant


def test_says_that_nothing_differs(bisect):
    status, lines = bisect()
    assert status == 0
    stages = [line.split()[0] for line in lines[:-1]]
    assert stages == [
        "capture",
        "import",
        "plan",
        "shard",
        "localize",
        "duplex",
        "schedule",
        "emit",
    ]
    assert lines[-1].startswith(
        "bisect: nothing differs; the largest difference of an operator: nn."
    )


def test_compares_commands_of_a_pipeline(bisect):
    status, lines = bisect("--mesh", "pipe=2,data=2", "--micro", "1", "--accumulate", "2")
    assert status == 0
    emit = next(line for line in lines if line.startswith("emit "))
    assert int(re.search(r"schedule: \S+ \((\d+) values of operators\)", emit)[1]) > 20, emit


@pytest.mark.parametrize(
    "stage, pattern, text, before, operator",
    [
        # A wrong constant: the derivative of a mean.
        ("plan", r"dense<-1\.0\d*e\+00>", "dense<-2.0>", "import", "nn.constant"),
        # Operands of a difference that have changed places.
        ("localize", r"nn\.sub (%\w+), (%\w+)", r"nn.sub \2, \1", "shard", "nn.sub"),
        # A slice that begins elsewhere.
        (
            "duplex",
            r"(nn\.slice .*)start = 2 : i64, stop = 4",
            r"\1start = 1 : i64, stop = 3",
            "localize",
            "nn.matmul",
        ),
        # Another operator.
        ("schedule", r"nn\.relu", "nn.neg", "duplex", "nn.neg"),
    ],
)
def test_finds_the_operator(bisect, plant, stage, pattern, text, before, operator):
    status, lines = bisect(*plant(stage, pattern, text))
    assert status == 1
    found = next(line for line in lines if line.startswith("bisect: "))
    assert found.startswith(f"bisect: {stage} differs first from {before}: {operator} at "), lines
    assert "m.py:" in found or "optimizer.0" in found


@pytest.mark.parametrize(
    "pattern, text, operator, command",
    [
        # A microbatch that begins elsewhere.
        (r"(sched\.view %arg\d+ \{offset = )12", r"\g<1>6", "nn.matmul", "matmul"),
        # Another function in a kernel.
        (r"nn\.relu", "nn.neg", "nn.relu", "add+relu"),
        # A weight that is read by other strides.
        (r"(strides_b = array<i64: )1, 5", r"\g<1>3, 1", "nn.matmul", "matmul"),
    ],
)
def test_finds_the_command(bisect, plant, pattern, text, operator, command):
    status, lines = bisect(*plant("lower", pattern, text))
    assert status == 1
    found = next(line for line in lines if line.startswith("bisect: "))
    assert found.startswith(f"bisect: emit differs first from schedule: {operator} at "), lines
    assert re.search(rf"m\.py:\d+ .*, written by command \d+ '[^']*{re.escape(command)}", found), (
        found
    )
    assert "beside eager: loss step 0 is off by" in lines[-1]


def test_finds_the_collective(bisect, plant):
    """It sums the gradient of one strand in place of both."""
    pattern = (
        r"(, (%\d+)\) into\((%\d+)\) .*\n.*memref<5xf64>\) -> (?:.*\n)*?.*all_reduce )\3( into)"
    )
    status, lines = bisect(*plant("lower", pattern, r"\1\2\4"))
    assert status == 1
    found = next(line for line in lines if line.startswith("bisect: "))
    assert found.startswith("bisect: emit differs first from schedule: spmd.all_reduce at "), lines
    assert re.search(r"m\.py:\d+ .*written by command \d+ 'all_reduce'", found), found


def test_finds_the_transfer(bisect, plant):
    """The second microbatch sends what the first one has."""
    pattern = r"(sched\.send )(%\w+)( to 1 tag 0.*\n(?:.*\n)*?.*sched\.send )%\w+( to 1 tag 1)"
    words = plant("lower", pattern, r"\1\2\3\2\4", "pipe=2,data=2", accumulate=2)
    status, lines = bisect("--mesh", "pipe=2,data=2", "--micro", "1", "--accumulate", "2", *words)
    assert status == 1
    found = next(line for line in lines if line.startswith("bisect: "))
    assert found.startswith("bisect: emit differs first from schedule: sched.receive at "), lines
    assert re.search(r"m\.py:\d+ .*written by command \d+ 'receive'", found), found


def test_names_what_makes_a_step_fail(bisect, plant):
    """Parts of a log-softmax have no value of their own: what reads them first does."""
    status, lines = bisect(*plant("lower", r"nn\.exp ", "nn.log "))
    assert status == 1
    found = next(line for line in lines if line.startswith("bisect: "))
    assert re.search(
        r"emit differs first from schedule: nn\.\w+ at .*m\.py:6 .*by command \d", found
    )
    assert lines[-1].startswith("  then: ") and "loss is nan" in lines[-1]


CLIPPED = (
    MODEL[: MODEL.index("def optimizer")]
    + """
class Clipped(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, dict(lr=0.1))
    @torch.no_grad()
    def step(self):
        own = self.param_groups[0]["params"]
        nn.utils.clip_grad_norm_(own, 0.01)
        for p in own:
            p.sub_(0.1 * p.grad)
def optimizer(m): return Clipped(m.parameters())
"""
)


@pytest.mark.parametrize(
    "pattern, text, operator",
    [
        # The sum of other values.
        (
            r"(\n.* = spmd\.all_reduce )(%\w+)( .*#update)",
            r"\n%wrong = nn.add \2, \2 {nn.pass = #update} : (tensor<f64>, tensor<f64>) -> tensor<f64>"
            r"\1%wrong\3",
            "spmd.all_reduce",
        ),
        # What reads the sum.
        (r"(spmd\.all_reduce .*#update.*\n.*)nn\.sqrt", r"\1nn.neg", "nn.neg"),
    ],
)
def test_finds_the_sum_of_the_update(bisect, plant, model, pattern, text, operator):
    """The norm of gradients: none of its numbers is below the floor."""
    Path(model).write_text(CLIPPED)
    words = plant("duplex", pattern, text, plan="zero", micro=2)
    status, lines = bisect("--plan", "zero", *words)
    assert status == 1
    found = next((line for line in lines if line.startswith("bisect: ")), lines)
    expected = (
        rf"bisect: duplex differs first from localize: {re.escape(operator)} at .* \(update, "
    )
    assert re.match(expected, found), lines


@pytest.mark.parametrize(
    "words, message",
    [
        (["--from", "plan"], "--from is 'plan', expected STAGE=FILE"),
        (["--from", "plan=absent.mlir"], "absent.mlir: No such file or directory"),
        (["--steps", "0"], "--steps is 0, expected at least 1"),
        (["--from", "plans=FILE"], "unknown stage 'plans', expected one of import,"),
    ],
)
def test_bad_input_is_one_line(bisect, tmp_path, words, message):
    file = tmp_path / "some.mlir"
    file.write_text("module {}")
    status, lines = bisect(*[word.replace("FILE", str(file)) for word in words])
    assert status == 1
    assert len(lines) == 1
    assert message in lines[0]
