"""TANDEM_CHECK=nan names the command that makes a number which is not finite."""

import os
import re

import pytest
import tandem
import torch
from forked import Forks
from test_cuda import BUILD, run_python
from test_cuda import pytestmark as needs_emulator


def compiled(loss, batch, **options):
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return tandem.compile(model, loss, optimizer, batch, mesh="data=2", batch="global", **options)


def log_of_relu(model, x):
    return model(x).relu().log().square().mean()


def overflowing(model, x):
    return model(x).square().mean() + (x * 1e37).sum()  # 2.4e38 on each rank


def test_a_sum_over_ranks_that_overflows_is_named(monkeypatch):
    monkeypatch.setenv("TANDEM_CHECK", "nan")
    batch = torch.ones(8, 6)
    step = compiled(overflowing, batch)
    with pytest.raises(tandem.RunError, match=r"'all_reduce.*makes inf .*from finite operands"):
        step(batch)


def zero_over_zero(model, x):
    return ((model(x) * 0) / (x[:, :4] * 0)).square().mean()


def log_of_negative(model, x):
    return (-1 - model(x).square()).log().square().mean()


def root_of_negative(model, x):
    return (-1 - model(x).square()).sqrt().square().mean()


# With what the first fault makes.
FAULTS = {
    log_of_relu: "inf",
    zero_over_zero: "nan",
    log_of_negative: "nan",
    root_of_negative: "nan",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_names_what_makes_it(fault, monkeypatch):
    monkeypatch.setenv("TANDEM_CHECK", "nan")
    batch = torch.randn(8, 6)
    step = compiled(fault, batch)
    with pytest.raises(tandem.RunError, match=rf"nan_check.py:\d+\): makes {FAULTS[fault]} at "):
        step(batch)


ON_GPU = """
import sys
sys.path[:0] = {places!r}
import tandem, torch, test_nan_check
for fault, made in test_nan_check.FAULTS.items():
    batch = torch.randn(8, 6)
    step = test_nan_check.compiled(fault, batch, device="cuda")
    try:
        step(batch)
    except tandem.RunError as error:
        print(fault.__name__, made, error, flush=True)
"""


@needs_emulator
def test_names_what_makes_it_on_a_gpu(tmp_path):
    script = tmp_path / "faults.py"
    script.write_text(ON_GPU.format(places=[str(BUILD / "python"), os.path.dirname(__file__)]))
    done = run_python(script, TANDEM_CHECK="nan")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for (fault, made), line in zip(FAULTS.items(), lines, strict=True):
        assert line.startswith(f"{fault.__name__} {made} ")
        assert f"nan_check.py:{fault.__code__.co_firstlineno + 1}" in line, line
        assert f"): makes {made} at element " in line and "from finite operands" in line


def lines_of(message):
    """Those of this file that an error names."""
    (text,) = re.findall(r"test_nan_check\.py:([\d,-]+)\)", message)
    parts = [[int(number) for number in part.split("-")] for part in text.split(",")]
    return {line for part in parts for line in range(part[0], part[-1] + 1)}


def test_names_all_lines_of_a_kernel(monkeypatch):
    """The fault is not in the last one."""

    def loss(model, x):
        y = model(x).relu().log()
        z = (y * 0).exp()
        return (z + 1).square().mean()

    monkeypatch.setenv("TANDEM_CHECK", "nan")
    batch = torch.randn(8, 6)
    step = compiled(loss, batch)
    with pytest.raises(tandem.RunError) as error:
        step(batch)
    assert loss.__code__.co_firstlineno + 1 in lines_of(str(error.value))


@pytest.mark.parametrize("momentum", [0, 0.9])
def test_names_the_parameter_of_an_update(momentum, monkeypatch):
    """Of a gradient that is finite, times a rate beyond the type."""
    monkeypatch.setenv("TANDEM_CHECK", "nan")
    model, batch = torch.nn.Linear(6, 4), torch.randn(8, 6)
    step = tandem.compile(
        model,
        lambda m, x: (m(x) * 1e3).square().mean(),
        torch.optim.SGD(model.parameters(), lr=3e38, momentum=momentum),
        batch,
    )
    words = r"\(optimizer\.(weight|bias).*\): makes inf at .* of argument 'parameter/(weight|bias)'"
    with pytest.raises(tandem.RunError, match=words):
        step(batch)


def masked(model, x):
    scores = model(x).masked_fill(x[:, :4] > 0.5, float("-inf"))
    return scores.softmax(-1).square().mean()


def test_names_the_line(monkeypatch):
    monkeypatch.setenv("TANDEM_CHECK", "nan")
    batch = torch.randn(8, 6)
    step = compiled(log_of_relu, batch)
    with pytest.raises(
        tandem.RunError, match=r"rank \d, .*log.*test_nan_check.py:\d+\): makes inf"
    ):
        step(batch)


def test_masks_are_no_fault(monkeypatch):
    monkeypatch.setenv("TANDEM_CHECK", "nan")
    batch = torch.rand(8, 6)
    batch[:, 0] = 0
    step = compiled(masked, batch)
    assert torch.isfinite(step(batch))


def hidden_rows(model, x):
    query = model(x).reshape(2, 1, 4, 4)
    seen = torch.ones(4, 4, dtype=torch.bool)
    seen[2] = False
    out = torch.nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=seen)
    return out.nan_to_num().square().mean()


def test_hidden_rows_are_no_fault(monkeypatch):
    monkeypatch.setenv("TANDEM_CHECK", "nan")
    batch = torch.randn(8, 6)
    step = compiled(hidden_rows, batch)
    assert torch.isfinite(step(batch))


def test_other_words_are_refused(monkeypatch):
    monkeypatch.setenv("TANDEM_CHECK", "inf")
    with pytest.raises(tandem.TandemError, match="TANDEM_CHECK is 'inf', expected nan"):
        compiled(log_of_relu, torch.randn(8, 6))


IN_PROCESSES = """
import sys
sys.path[:0] = {places!r}
import tandem, torch, test_nan_check
batch = torch.ones(8, 6)
batch[:, 0] = 0
step = test_nan_check.compiled(getattr(test_nan_check, {fault!r}), batch, **{options!r})
try:
    print(step(batch).isfinite().item())
except tandem.RunError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    environment = {"OMP_NUM_THREADS": "1", "TANDEM_CHECK": "nan"}
    return Forks(tmp_path_factory.mktemp("processes"), environment)


def run_processes(forks, tmp_path, fault, **options):
    """What two processes print of a step."""
    script = tmp_path / "fault.py"
    places = [str(BUILD / "python"), os.path.dirname(__file__)]
    script.write_text(IN_PROCESSES.format(places=places, fault=fault.__name__, options=options))
    ends = [child.finish() for child in forks.start_job(2, [script])]
    assert [code for code, _, _ in ends] == [0, 0], ends
    return [out.strip() for _, out, _ in ends]


@pytest.mark.parametrize(
    "fault, made, options",
    [
        (overflowing, r"rank \d, .*'all_reduce.*makes inf .*from finite operands", {}),
        (log_of_relu, r"rank \d, .*nan_check.py:\d+\): makes inf at ", {"plan": "zero"}),
    ],
    ids=["sum", "kernel"],
)
def test_names_what_makes_it_in_processes(forks, tmp_path, fault, made, options):
    """Each process says what the first one that failed has found."""
    texts = run_processes(forks, tmp_path, fault, **options)
    assert texts[0] == texts[1] and re.search(made, texts[0]), texts


def test_masks_are_no_fault_in_processes(forks, tmp_path):
    assert run_processes(forks, tmp_path, masked) == ["True", "True"]
