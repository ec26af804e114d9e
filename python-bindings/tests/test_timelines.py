"""Timelines of steps: what was hidden, of one process and of several, after errors, and what no timeline is."""

import json
import os
import re
import subprocess

import pytest
import tandem
import torch
from forked import Forks
from tandem.verify.reference import find_tool

MESH = {"mesh": "data=2", "micro": 2, "batch": "global"}


def make():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(8, 16)
    return tandem.compile(
        model, lambda m, x: m(x).square().mean(), optimizer, batch, plan="zero", **MESH
    ), batch


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    step, batch = make()
    path = tmp_path_factory.mktemp("timelines") / "timeline.json"
    with step.trace(path):
        for _ in range(5):
            step(batch)
    return step, path


def test_a_report_is_the_timeline_of_the_step(recorded):
    step, path = recorded
    report = step.report()
    assert [entry["step"] for entry in report["steps"]] == [1, 2, 3, 4, 5]
    assert report["mesh"] == {"data": 2} and report["missing"] == []
    commands = {c.id: c for c in step.program.rank_programs[0].commands}
    reported = report["collectives"] + report["commands"]
    waiting = {c.id for c in commands.values() if c.kind in ("record_event", "wait_event")}
    assert {entry["id"] for entry in reported} == set(commands) - waiting
    for entry in reported:
        assert (entry["name"], entry["kind"]) == (
            commands[entry["id"]].name,
            commands[entry["id"]].kind,
        )
    assert {entry["kind"] for entry in report["collectives"]} >= {"all_gather", "reduce_scatter"}
    assert str(report) == str(tandem.report(path))
    assert report == tandem.report(path)
    assert len(tandem.report(path, skip=3)["steps"]) == 2
    assert str(report).startswith(f"5 steps of program {report['program']} on 2 ranks (data=2)")


def slices_of(path):
    timeline = json.loads(path.read_text())
    return [event for event in timeline["traceEvents"] if event["ph"] == "X"]


def test_computation_is_the_sum_of_computing_commands(recorded):
    step, path = recorded
    computing = {c["id"] for c in step.report()["commands"]}
    for rank in range(2):
        sums = {n: 0.0 for n in range(1, 6)}
        for event in slices_of(path):
            if event["pid"] == rank and event["args"]["id"] in computing:
                sums[event["args"]["step"]] += event["dur"]
        expected = sorted(sums.values())[2] * 1e-6
        assert step.report()["ranks"][rank]["computation"] == pytest.approx(expected, rel=1e-6)


def write_table(step, path, change=lambda table: None):
    """Every computing command takes a millisecond, every collective two."""
    report = step.report()
    table = {
        "program": report["program"],
        "from": "a test",
        "seconds": [{str(c["id"]): 1e-3 for c in report["commands"]}],
        "collectives": [{str(c["id"]): 2e-3 for c in report["collectives"]}],
    }
    change(table)
    path.write_text(json.dumps(table))
    return path


def test_a_timeline_replaces_no_other_file(tmp_path):
    """It is said before the steps, which are not lost."""
    step, batch = make()
    path, other = tmp_path / "timeline.json", tmp_path / "package.json"
    other.write_text('{"name": "mine"}')
    for place, words in [
        (other, "found a file that is not a timeline, expected none, or one to replace"),
        (tmp_path, "expected a regular file"),
        (tmp_path / "none" / "t.json", "No such file or directory"),
    ]:
        with (
            pytest.raises(tandem.TandemError, match=f"^cannot write '{place}': {words}$"),
            step.trace(place),
        ):
            raise AssertionError("not reached")
    assert other.read_text() == '{"name": "mine"}'
    for _ in range(2):
        with step.trace(path):
            step(batch)


def test_predictions_stand_beside(recorded, tmp_path):
    step, _ = recorded
    report = step.report(predicted=write_table(step, tmp_path / "table.json"))
    assert report["predicted_from"] == "a test"
    count, moves = len(report["commands"]), len(report["collectives"])
    predicted = report["total"]["predicted"]
    assert predicted["computation"] == pytest.approx(count * 1e-3)
    assert predicted["communication"] == pytest.approx(moves * 2e-3)
    assert max(count, 2 * moves) * 1e-3 <= predicted["seconds"] <= (count + 2 * moves) * 1e-3
    assert all(c["predicted"]["seconds"] == pytest.approx(1e-3) for c in report["commands"])
    other = write_table(step, tmp_path / "other.json", lambda table: table.update(program="12"))
    with pytest.raises(tandem.TimelineError, match="is for program 12, expected "):
        step.report(predicted=other)


def write_named(path, target, machine):
    timeline = json.loads(path.read_text())
    assert timeline["tandem"]["machine"].endswith(" processors")
    timeline["tandem"]["machine"] = machine
    target.write_text(json.dumps(timeline))
    return target


def test_a_profile_of_another_machine_is_a_warning(recorded, tmp_path):
    step, path = recorded
    table = write_table(step, tmp_path / "table.json", lambda table: table.update(machine="A"))
    here, there = (write_named(path, tmp_path / f"{name}.json", name) for name in ("A", "B"))
    assert tandem.report(here, predicted=table)["warning"] is None
    assert "warning" not in str(tandem.report(here, predicted=table))
    report = tandem.report(there, predicted=table)
    words = "predicted by a profile of another machine, 'A', than ran the step, 'B'"
    assert report["warning"] == words and f"\nwarning: {words}\n" in str(report)
    # Who wrote a table by hand, or had no profile, names none.
    other = write_table(step, tmp_path / "other.json")
    assert tandem.report(there, predicted=other)["warning"] is None


def test_a_picture_has_all_that_takes_time(recorded, tmp_path):
    _, path = recorded
    tandem.picture(path, tmp_path / "step.svg", step=2, ranks=[1])
    svg = (tmp_path / "step.svg").read_text()
    assert svg.startswith("<svg ") and "rank 1" in svg and "rank 0" not in svg
    assert "strand 1 computes" in svg
    with pytest.raises(tandem.TimelineError, match="step 9 was not recorded"):
        tandem.picture(path, tmp_path / "none.svg", step=9)
    assert not (tmp_path / "none.svg").exists()


@pytest.mark.parametrize(
    "text,message",
    [
        ("", "is no whole timeline"),
        ('{"traceEvents": []}', "is no timeline of Tandem"),
        ('{"tandem": {"version": 7}, "traceEvents": []}', "is a timeline of version 7, expected"),
    ],
)
def test_what_is_no_timeline(tmp_path, text, message):
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(tandem.TimelineError, match=message):
        tandem.report(path)


def test_nothing_recorded_is_an_error(tmp_path):
    step, _ = make()
    assert step.report() is None
    with step.trace(tmp_path / "t.json"):
        pass
    with pytest.raises(tandem.TimelineError, match="nothing was recorded"):
        step.report()


def test_a_failed_step_leaves_what_there_is(tmp_path):
    step, batch = make()
    with pytest.raises(tandem.NonFiniteLossError), step.trace(tmp_path / "t.json"):
        step(batch)
        step(batch * float("nan"))
    assert [entry["complete"] for entry in step.report()["steps"]] == [True, False]
    with pytest.raises(ZeroDivisionError), step.trace(tmp_path / "t.json"):
        step(batch)
        step(batch / (1 // 0))
    assert len(step.report()["steps"]) == 1


def test_what_cannot_be_written(tmp_path):
    step, batch = make()
    with (
        pytest.raises(tandem.RunError, match="cannot write '/dev/full': No space left"),
        step.trace("/dev/full"),
    ):
        step(batch)
    step(batch)


JOB = """
import os, sys, tandem
sys.path.insert(0, sys.argv[1])
from test_timelines import make
step, batch = make()
rank, path = int(os.environ["RANK"]), sys.argv[2]
with step.trace(path):
    for _ in range(3):
        step(batch)
report = step.report()
assert (report is None) == (rank == 1)
if rank == 0:
    print(report, flush=True)
try:
    with step.trace(path):
        step(batch)
        if rank == 1:
            raise KeyError("only here")
        step(batch)
except tandem.RunError as error:
    print(error, flush=True)
"""


def test_two_processes_have_one_timeline(tmp_path):
    """And where one fails alone the other has its own events, and says why the rest is missing."""
    script, path = tmp_path / "job.py", tmp_path / "timelines" / "t.json"
    script.write_text(JOB)
    path.parent.mkdir()
    forks = Forks(tmp_path, {"OMP_NUM_THREADS": "1"})
    children = forks.start_job(2, [script, os.path.dirname(__file__), path])
    ends = [child.finish() for child in children]
    assert [end[0] for end in ends] == [0, 1], ends
    printed = ends[0][1]
    assert re.search(r"^clocks of 2 processes within [\d.]+ [um]s$", printed, re.M), printed
    assert re.search(r"^rank 1 +\d", printed, re.M), printed
    assert "KeyError: 'only here'" in printed.splitlines()[-1], printed
    assert [entry["rank"] for entry in tandem.report(path)["missing"]] == [1]
    assert os.listdir(path.parent) == ["t.json"]


def test_the_tool_says_the_same(recorded):
    step, path = recorded
    tool = find_tool("tandem-trace")
    run = subprocess.run([tool, "report", str(path)], capture_output=True, text=True)
    assert run.stdout == str(step.report())
    run = subprocess.run([tool, "report", str(path), "--json"], capture_output=True, text=True)
    assert json.loads(run.stdout) == step.report()
    run = subprocess.run([tool, "report", "none"], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == "tandem-trace: error: cannot read 'none': No such file or directory\n"
