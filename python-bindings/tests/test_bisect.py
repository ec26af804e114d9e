"""The command `bisect`: faults planted into the IR of one stage are found at their operator."""

import re
from pathlib import Path

import pytest
from tandem.__main__ import main
from tandem.capture.export import export
from tandem.capture.model_file import load_model_file
from tandem.lowering.registry import LOWERINGS
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
        for wide in re.findall(r"\((tensor<\S+f64[^>]*>)\) -> TYPE32", edited):
            edited = edited.replace("TYPE32", wide.replace("f64", "f32"))
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
            "nn.slice",
        ),
        # Another operator.
        ("schedule", r"nn\.relu", "nn.neg", "duplex", "nn.neg"),
        # A captured step has no numbers: from results to operands, of the forward pass and of the update.
        ("import", r"nn\.relu", "nn.neg", "capture", "nn.neg"),
        ("import", r"nn\.sqrt", "nn.neg", "capture", "nn.neg"),
        # A number that is not finite, with which the step fails.
        ("localize", r"nn\.relu", "nn.log", "shard", "nn.log"),
        # A cast to float32 and back.
        (
            "localize",
            r"(%\w+)( = nn\.relu .* -> )(tensor<4x5xf64, \S+>)( loc.*)",
            r"%wide\2\3\4\n%low = nn.convert %wide : (\3) -> TYPE32\4\n\1 = nn.convert %low : (TYPE32) -> \3\4",
            "shard",
            "nn.convert",
        ),
    ],
)
def test_finds_the_operator(bisect, plant, stage, pattern, text, before, operator):
    status, lines = bisect(*plant(stage, pattern, text))
    assert status == 1
    found = next(line for line in lines if line.startswith("bisect: "))
    assert found.startswith(f"bisect: {stage} differs first from {before}: {operator} at "), lines
    assert "m.py:" in found or "optimizer.0" in found


SUM = r"(%\w+) = spmd\.all_reduce (%\w+) over .*#backward.* : (.*) -> (.*) loc"


def test_finds_a_sum_that_is_missing(bisect, plant):
    """Its input in its place: copies differ, which fails the step."""
    words = plant("localize", SUM, r"\1 = nn.reshape \2 : (\3) -> \4 loc")
    status, lines = bisect(*words)
    assert status == 1
    found = next(n for n, line in enumerate(lines) if line.startswith("bisect: "))
    assert re.match(
        r"bisect: localize differs first from shard: spmd\.reform at \S*m\.py:6 \(backward, .* is missing:"
        r" nn\.\w+ at optimizer\.\S+ \(update, .* reads nn\.reshape at \S*m\.py:6 .* in its place: off by",
        lines[found],
    ), lines
    assert "points hold different values" in lines[-1]


def test_finds_a_sum_that_is_done_twice(bisect, plant):
    one = r'spmd.all_reduce {} over ["data"] : \3 -> \4'
    text = "\n".join(["%once = " + one.format(r"\2"), r"\1 = " + one.format("%once") + " loc"])
    status, lines = bisect(*plant("duplex", SUM, text))
    assert status == 1
    found = next(line for line in lines if line.startswith("bisect: "))
    assert re.match(
        r"bisect: duplex differs first from localize: spmd\.all_reduce at .*m\.py:6 .* reads spmd\.all_reduce at "
        r"\S*duplex\.mlir:\d+ .*, expected spmd\.reform",
        found,
    ), lines


@pytest.mark.parametrize(
    "stage, pattern, text, verdict",
    [
        (
            "localize",
            r"(%\w+) = nn\.relu (%\w+)( .*\n(?:.*\n)*?.*nn\.matmul )\1",
            r"\1 = nn.relu \2\3\2",
            r"nn\.matmul at .*m\.py:6 .* reads nn\.add .*, expected nn\.relu .*: off by",
        ),
        (
            "shard",
            r"(nn\.sub )(%\w+), (%\w+)",
            r"\1\3, \2",
            r"nn\.sub at .* reads .*, expected .*: off by",
        ),
    ],
)
def test_finds_what_is_read_instead(bisect, plant, stage, pattern, text, verdict):
    status, lines = bisect(*plant(stage, pattern, text))
    assert status == 1
    found = next(line for line in lines if line.startswith("bisect: "))
    assert re.search(rf"{stage} differs first from \w+: {verdict}", found), lines


@pytest.mark.parametrize(
    "stage, before", [("accumulate", "import"), ("localize", "shard"), ("schedule", "localize")]
)
def test_finds_the_operator_of_a_pipeline(bisect, plant, stage, before):
    words = plant(stage, r"nn\.relu", "nn.neg", "pipe=2,data=2", accumulate=2)
    status, lines = bisect("--mesh", "pipe=2,data=2", "--micro", "1", "--accumulate", "2", *words)
    assert status == 1
    found = next(line for line in lines if line.startswith("bisect: "))
    expected = rf"bisect: {stage} differs first from {before}: nn\.neg at \S*m\.py:6 \(forward"
    assert re.match(expected, found), lines


@pytest.mark.parametrize(
    "pattern, text, operator",
    [
        (r"nn\.relu", "nn.neg", r"nn\.neg at \S*m\.py:6 \(forward"),
        # An iteration adds to the gradient of a bias twice what it has to.
        (
            r"\n(.* = spmd\.carry )(%\w+)( .* : tensor<3xf64>)",
            r"\n%twice = nn.add \2, \2 {nn.pass = #backward, nn.id = 999 : i64, spmd.loop = 1 : i64}"
            r" : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>\n\1%twice\3",
            r"nn\.add at \S*accumulate\.mlir:\d+ \(backward",
        ),
    ],
)
def test_finds_the_operator_of_an_iteration(bisect, plant, pattern, text, operator):
    words = plant("accumulate", pattern, text, accumulate=2)
    status, lines = bisect("--micro", "1", "--accumulate", "2", *words)
    assert status == 1
    found = next(line for line in lines if line.startswith("bisect: "))
    assert re.match(f"bisect: accumulate differs first from import: {operator}", found), lines


# Its counters of random numbers are made in another order in iterations.
DROPPED = (
    MODEL.replace("F.cross_entropy(m(batch[0]), batch[1])", "m(batch[0]).square().mean()")
    .replace("(8, 6)", "(8, 4, 6)")
    .replace("nn.ReLU()", "nn.ReLU(), nn.Dropout(0.5)")
)


@pytest.mark.parametrize("text", [MODEL, DROPPED], ids=["plain", "dropout"])
def test_an_accumulated_step_is_compared_by_operators(bisect, model, text):
    Path(model).write_text(text)
    status, lines = bisect("--micro", "1", "--accumulate", "2")
    assert status == 0
    line = next(line for line in lines if line.startswith("accumulate "))
    assert int(re.search(r"import: \S+ \((\d+) values of operators\)", line)[1]) > 20, line


@pytest.mark.parametrize(
    "name, instead, verdict",
    [
        ("relu", "neg", r"no value is what relu at \S*m\.py:6 gives"),
        (
            "threshold_backward",
            None,
            r"no value is the gradient of what linear at \S*m\.py:6 gives to relu at \S*m\.py:6",
        ),
    ],
)
def test_finds_the_call_that_is_captured_otherwise(bisect, monkeypatch, name, instead, verdict):
    def wrong(b, gradient, *_):
        return gradient

    monkeypatch.setitem(LOWERINGS, name, LOWERINGS[instead] if instead else wrong)
    status, lines = bisect()
    assert status == 1
    found = next(line for line in lines if line.startswith("bisect: "))
    assert re.match(f"bisect: capture differs first: {verdict}", found), lines


def test_names_a_stage_that_those_behind_refuse(bisect, plant):
    """Nothing writes what is read."""
    words = plant("lower", r"sched\.gemm (.|\n)*?loc\(.*\)\n", "")
    status, lines = bisect(*words)
    assert status == 1
    expected = "bisect: lower differs first: the stages behind refuse it: "
    assert lines[-1].startswith(expected) and "no command wrote" in lines[-1], lines


def test_takes_what_it_saves(bisect, tmp_path):
    folder = tmp_path / "stages"
    status, lines = bisect("--save", str(folder))
    assert status == 0
    assert lines[0] == f"{folder}/import.mlir: IR behind import"
    assert {path.stem for path in folder.iterdir()} >= {"import", "localize", "schedule", "lower"}
    for stage in ("localize", "lower"):
        status, lines = bisect("--from", f"{stage}={folder / stage}.mlir")
        assert status == 0 and lines[-1].startswith("bisect: nothing differs"), lines


def exported(model, dtype="float64", gradients=True, mesh="data=2"):
    """IR behind localize of a step captured otherwise."""
    file = load_model_file(model, dtype=dtype)
    made = file.make_model(0)
    module = export(made, file.loss, file.make_optimizer(made), file.batches(1)[0], gradients)
    return compile_text(module.mlir, model, mesh=mesh, micro=2, stop_after="localize").ir[-1][1]


@pytest.mark.parametrize(
    "given, message",
    [
        ({"gradients": False}, "has no result gradient/0.weight, expected tensor<5x6xf64>"),
        (
            {"dtype": "float32"},
            "has argument parameter/0.weight tensor<5x6xf32>, expected tensor<5x6xf64>",
        ),
        ({"mesh": "data=4"}, "has mesh data=4, expected data=2"),
    ],
)
def test_refuses_a_stage_of_another_step(bisect, model, tmp_path, given, message):
    path = tmp_path / "e.mlir"
    path.write_text(exported(model, **given))
    status, (line,) = bisect("--from", f"localize={path}")
    words = " ".join(["bisect", model, *WORDS])
    command = f"`python -m tandem {words} --save FOLDER`"
    assert status == 1
    assert line == f"tandem bisect: error: {path}: {message}, as in what {command} writes"


def test_refuses_what_does_not_verify(bisect, plant):
    """A reform is left out."""
    words = plant(
        "shard",
        r"( spmd\.reform )(%\w+) \{.*\} : (\S+ \S+|\S+) -> .* loc",
        r" nn.neg \2 : (\3) -> \3 loc",
    )
    status, lines = bisect(*words)
    assert status == 1
    path = words[1].removeprefix("shard=")
    expected = f"tandem bisect: error: {path}: is no IR that verifies behind shard: {path}:"
    assert len(lines) == 1 and lines[0].startswith(expected)


def test_refuses_a_loss_that_eager_has_not(bisect, model):
    Path(model).write_text(MODEL.replace("m(batch[0])", "m(batch[0]).abs().neg().log()"))
    status, lines = bisect()
    assert status == 1
    assert lines == ["tandem bisect: error: eager's loss of step 0 is nan, expected a finite value"]


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
            "nn.add",
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
        (["--save", "x", "--from", "plan=FILE"], "--save with --from, expected one of both"),
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
