"""One of each kind of harm to the processes of a job; `make faults` does a hundred."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
faults = pytest.importorskip("faults")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    faults.SLACK = 20.0  # a machine that tests is busier than one that looks for faults
    bench, without_hosts = faults.prepare(tmp_path_factory.mktemp("faults"), timeout=3)
    yield bench, without_hosts
    bench.close()


def test_faults_end_in_one_error_or_in_the_right_numbers(prepared):
    bench, without_hosts = prepared
    if without_hosts:
        print(f"skipped: {', '.join(faults.ON_HOSTS)}: {without_hosts}")
    kinds = faults.kinds_of(12, (), without_hosts)
    lines = []
    done = list(faults.run_all(bench, kinds, seed=0, report=lines.append))
    assert len(done) == 12
    assert not [fault.wrong for fault in done if fault.wrong], "\n".join(lines)
    # Something was lost, and something was not.
    assert {bool(fault.said) for fault in done} == {True, False}


def test_a_job_that_does_wrong_is_seen(prepared):
    """Each check, on a job that was not harmed, against what it is not."""
    bench, _ = prepared
    job = faults.Job(bench, bench.programs[0], 2)
    job.start()
    assert job.wait(faults.time.monotonic() + 60)
    job.check_none_left()
    job.check_success()
    with pytest.raises(faults.Broken, match="ends with 0, says None"):
        job.check_errors(job.processes, "process 1")
    job.saved.write_bytes(b"half")
    with pytest.raises(faults.Broken, match="neither the old one nor the right one"):
        job.check_file()
    text = job.processes[0].output.read_text()
    job.processes[0].output.write_text(text.replace("step 2", "step 3"))
    with pytest.raises(faults.Broken, match="prints other losses"):
        job.check_numbers()
