"""A slice of `make conformance`: PyTorch's samples of some operators, modules and optimizers; and what its results mean."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import trials  # noqa: E402

# A unit of each kind: elementwise, reduction, index, product, factorisation, random, convolution, loss, state.
SLICE = """
    op.addcmul op.logsumexp op.baddbmm op.linalg.qr op.nn.functional.dropout3d op.nn.functional.conv_transpose2d
    op.nn.functional.huber_loss module.GRUCell optim.Adamax
""".split()  # noqa: SIM905 - a list of words is easier to read


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """{unit: {case: result}}, of a process of its own: PyTorch's lists change what the one that imports them does."""
    path = tmp_path_factory.mktemp("conformance") / "results.jsonl"
    options = ["--only", *SLICE, "--results", str(path)]
    subprocess.run([sys.executable, BENCHMARKS / "conformance.py", *options], check=True)
    lines = map(json.loads, path.read_text().splitlines())
    return {line["unit"]: line["cases"] for line in lines}


@pytest.mark.parametrize("name", SLICE)
def test_samples(results, name):
    fine = (trials.WORKS, trials.REFUSED)
    bad = {case: r for case, r in results[name].items() if r["status"] not in fine}
    assert not bad
    assert any(r["status"] == trials.WORKS for r in results[name].values())


@pytest.mark.parametrize(
    ("status", "is_enough"),
    [(trials.REFUSED, True), (trials.WRONG, False), (trials.UNCLEAR, False)],
)
def test_an_exception_is_for_what_is_refused(status, is_enough):
    results = {"a": {"a#0": {"status": trials.WORKS}}, "b": {"b#0": {"status": status}}}
    assert trials.report(results, 0.95, excepted=("b",)) == is_enough
    assert not trials.report(results, 0.95)


class _Case:
    """As Layer of coverage_cases.py, of any function."""

    dtype, precision, path = torch.float64, None, None

    def __init__(self, function):
        self.function = function

    def in_eager(self):
        self.loss(self.make_model(), self.batches(1)[0]).backward()

    def make_model(self, seed=0):
        torch.manual_seed(seed)
        return torch.nn.Linear(3, 2).double()

    def make_optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=0.1)

    def batches(self, count):
        return [torch.ones(4, 3).double()] * count

    def loss(self, model, batch):
        return self.function(model(batch))


@pytest.mark.parametrize(
    ("status", "function"),
    [
        (trials.WORKS, lambda y: y.square().sum()),
        (trials.REFUSED, lambda y: y.sum() * y.detach().unique().sum()),
        (trials.NOT_TRIED, lambda y: (y / 0).sum().nope()),
        (trials.UNCLEAR, lambda y: torch.ops.aten.hash_tensor(y).sum() * y.sum()),
    ],
)
def test_statuses(status, function):
    reasons = [("shape from data", "shape depends on data")]
    result = trials.measure(_Case(function), [("one rank", {})], 1, reasons)
    assert result["status"] == status, result


def _ends():
    os._exit(3)


def test_a_process_that_ends_takes_one_case(tmp_path):
    works = functools.partial(dict, status=trials.WORKS, text="")
    unit = trials.Unit("unit", lambda: {"a": works, "b": _ends, "c": works}, "digest")
    results = trials.Results(tmp_path / "results.jsonl")
    trials.run([unit], 1, 20, 4 << 30, results.add)
    again = trials.Results(tmp_path / "results.jsonl")
    assert again.is_done(unit) and not again.is_done(unit, failed=True)
    found = {name: r["status"] for name, r in again.of([unit])["unit"].items()}
    assert found == {"a": trials.WORKS, "b": trials.ENDED, "c": trials.WORKS}
    assert not again.is_done(trials.Unit("unit", unit.cases, "other digest"))


def test_a_line_that_breaks_off_is_left_out(tmp_path, capsys):
    """As of a process that was killed while it wrote: what comes before and behind it counts."""
    path = tmp_path / "results.jsonl"
    units = [trials.Unit(name, dict, "digest") for name in "abc"]
    trials.Results(path).add(units[0], {}, 1)
    with path.open("a") as file:
        file.write('{"unit": "b", "dig')
    assert [trials.Results(path).is_done(unit) for unit in units] == [True, False, False]
    assert "left out a line that breaks off" in capsys.readouterr().err
    trials.Results(path).add(units[2], {}, 1)
    assert [trials.Results(path).is_done(unit) for unit in units] == [True, False, True]


@pytest.mark.parametrize(
    "option",
    [("--shard", "0/2"), ("--shard", "3/2"), ("--shard", "x"), ("--jobs", "0"), ("--jobs", "-1")],
)
def test_shards_and_jobs_are_counted_from_1(option, capsys):
    with pytest.raises(SystemExit):
        trials.make_parser("Results.", "results.jsonl").parse_args([*option])
    assert f"argument {option[0]}: found {option[1]!r}, expected" in capsys.readouterr().err


def test_shards_share_all_units():
    units = [trials.Unit(str(i), dict, "") for i in range(7)]
    parse = trials.make_parser("Results.", "results.jsonl").parse_args
    parts = [trials.wanted_of(units, parse(["--shard", f"{i}/3"])) for i in (1, 2, 3)]
    assert sorted(unit.name for part in parts for unit in part) == [u.name for u in units]
    with pytest.raises(SystemExit, match="nothing is named 'x'"):
        trials.wanted_of(units, parse(["--only", "3", "x"]))


def test_a_reason_excuses_no_internal_error():
    assert trials.reason_of("operator aten.x is not supported") == "operator"
    assert trials.reason_of("nn.topk is planned 'as_wanted', element type") is None
    assert trials.reason_of("IndexError: list index out of range") is None
