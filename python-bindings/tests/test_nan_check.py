"""TANDEM_CHECK=nan names the command that makes a number which is not finite."""

import pytest
import tandem
import torch


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
