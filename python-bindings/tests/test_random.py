"""Counter-based random numbers: the published answers, and replay in eager."""

import copy

import numpy as np
import pytest
import tandem
import torch
import torch.nn.functional as F
from tandem.random import bits, keep_threshold, normal, philox, philox_words, uniform
from tandem.tracing.draws import RandomCall

# Random123's known answers for philox4x32-10: counter, key, result.
KNOWN = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize("counter,key,expected", KNOWN)
def test_known_answers(counter, key, expected):
    words = philox_words([np.array([word], dtype=np.uint64) for word in counter], key)
    assert [int(word[0]) for word in words] == expected


def test_counter_layout():
    """Index / 4 in the first two words, then ordinal and step; the seed's low word first; lane
    index mod 4.
    """
    index, seed, ordinal, step = (5 << 34) + 4 * 7 + 2, (3 << 32) + 11, 13, 17
    counter = [np.array([word], dtype=np.uint64) for word in (7, 5, ordinal, step)]
    assert philox([index], seed, ordinal, step)[0] == philox_words(counter, (11, 3))[2][0]


def test_moments():
    kept = (bits((100, 1000), 1, 0, 0) < keep_threshold(0.9)).double().mean()
    assert abs(kept - 0.9) < 0.005
    drawn = normal((100000,), torch.float64, 2, 0, 0)
    assert abs(drawn.mean()) < 0.01 and abs(drawn.std() - 1) < 0.01
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        drawn = uniform((10000,), dtype, 3, 0, 0)
        assert drawn.dtype == dtype and drawn.min() >= 0 and drawn.max() < 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_step_draws_what_replay_draws(dtype):
    def loss(model, batch):
        return F.mse_loss(model(batch), batch), torch.rand(1000, dtype=dtype)

    model, batch = torch.nn.Linear(4, 4), torch.ones(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = tandem.compile(model, loss, optimizer, batch, seed=5)
    for number in range(2):
        found = step(batch)[1]
        with tandem.random.replay(5, number):
            assert torch.equal(found, torch.rand(1000, dtype=dtype))


def test_replay_draws_for_a_parameter_of_the_model():
    """Which a model may fill anew in each step; one that it makes begins with numbers of its own."""

    class Noisy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x):
            with torch.no_grad():
                self.layer.bias.normal_(0, 0.1)
            return self.layer(x)

    def loss(model, batch):
        return model(batch).square().mean()

    model, batch = Noisy(), torch.ones(8, 4)
    twin = copy.deepcopy(model)
    step = tandem.compile(model, loss, torch.optim.SGD(model.parameters(), lr=0.0), batch, seed=5)
    for number in range(2):
        with tandem.random.replay(5, number):
            torch.nn.Linear(4, 4)
            expected = loss(twin, batch).detach()
        torch.testing.assert_close(step(batch), expected)
        torch.testing.assert_close(step.state_dict()["layer.bias"], twin.layer.bias.detach())


def test_replay_runs_attention_without_dropout():
    """PyTorch tags its fused kernel as random, whether it has dropout or not."""
    q, k, v = torch.randn(3, 2, 2, 8, 4)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    with tandem.random.replay(5, 0):
        assert torch.equal(F.scaled_dot_product_attention(q, k, v, is_causal=True), expected)


def test_mask_does_not_depend_on_the_element_type():
    masks = []
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        with tandem.random.replay(seed=7, step=3):
            masks.append(F.dropout(torch.ones(64, dtype=dtype), 0.3) != 0)
    assert torch.equal(masks[0], masks[1]) and torch.equal(masks[0], masks[2])


def test_seed_step_and_ordinal_matter():
    def drawn(seed, step, skip=0):
        with tandem.random.replay(seed, step):
            for _ in range(skip):
                torch.rand(3)
            return torch.rand(16)

    same, others = (
        drawn(1, 1),
        [drawn(2, 1), drawn(1, 2), drawn(1 + (1 << 32), 1), drawn(1, 1, skip=1)],
    )
    assert torch.equal(same, drawn(1, 1))
    assert not any(torch.equal(same, other) for other in others)


def test_replay_checks_calls():
    calls = [RandomCall("rand", (3,), torch.float32)]
    with (
        pytest.raises(tandem.ReplayError, match=r"shape \(4,\), expected \(3,\)"),
        tandem.random.replay(0, 0, calls),
    ):
        torch.rand(4)
    with (
        pytest.raises(tandem.ReplayError, match="drew 0 random tensors, expected 1"),
        tandem.random.replay(0, 0, calls),
    ):
        pass
    with (
        pytest.raises(tandem.ReplayError, match="expected 1 calls"),
        tandem.random.replay(0, 0, calls),
    ):
        torch.rand(3), torch.rand(3)
    with (
        pytest.raises(tandem.ReplayError, match="poisson.* cannot be replayed"),
        tandem.random.replay(0, 0),
    ):
        torch.poisson(torch.ones(3))
