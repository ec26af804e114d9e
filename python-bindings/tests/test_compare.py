"""The judge: what it must pass, and what it must not."""

import copy

import pytest
import torch
from tandem.verify.compare import Gradients, History, Training, compare, exempt_elements, table


def make_history(seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)

    def random(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    history = History(losses=[2.5, 2.4])
    history.gradients = [{"w": random(8, 4), "b": 1e-5 * random(4)} for _ in range(2)]
    history.choices, history.margins = [[], []], [[], []]
    history.parameters = {"w": random(8, 4), "b": torch.zeros(4, dtype=dtype), "frozen": random(3)}
    history.buffers = {"mean": random(4), "count": torch.tensor(2)}
    history.states = {"exp_avg.w": random(8, 4), "exp_avg_sq.w": random(8, 4) ** 2}
    return history


def training(tolerance=1e-9, adam=True):
    return Training(tolerance, adam, 2, {"w": 1e-3, "b": 1e-3})


def failures(found, expected, how=None, twins=()):
    rows = compare(found, expected, how or training(), exact=True, twins=twins)
    assert table(rows, 1e-9).count("\n") == len(rows)
    return sorted({(row.kind, row.name) for row in rows if not row.passed})


@pytest.fixture
def expected():
    return make_history()


@pytest.fixture
def found(expected):
    return copy.deepcopy(expected)


def test_equal_runs_pass(found, expected):
    assert failures(found, expected) == []


def test_rounding_passes(found, expected):
    found.gradients[1]["w"] += 1e-13
    found.parameters["w"] *= 1 + 1e-14
    assert failures(found, expected) == []


@pytest.mark.parametrize("dtype,tolerance", [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_gradient_scaled_by_1001_fails(dtype, tolerance):
    expected = make_history(dtype=dtype)
    found = copy.deepcopy(expected)
    found.gradients[0]["w"] *= 1.001
    assert failures(found, expected, training(tolerance)) == [("gradient", "w")]


def test_small_gradient_is_judged_by_the_largest_of_the_model(found, expected):
    largest = max(g.abs().max().item() for g in expected.gradients[0].values())
    found.gradients[0]["b"] += 0.9e-12 * largest
    assert failures(found, expected) == []
    found.gradients[0]["b"] += 0.2e-12 * largest
    assert failures(found, expected) == [("gradient", "b")]


def test_a_second_moment_has_twice_the_tolerance_of_a_gradient(found, expected):
    """A gradient may be off by the tolerance, and its square by twice that."""
    found.gradients[1]["w"] *= 1 + 0.9e-9
    found.states["exp_avg_sq.w"] *= 1 + 1.9e-9
    assert failures(found, expected) == []
    found.states["exp_avg_sq.w"] *= 1 + 0.2e-9
    assert failures(found, expected) == [("state", "exp_avg_sq.w")]


def noisy(history, size, seed):
    """A twin: eager in a coarser type."""
    generator, twin = torch.Generator().manual_seed(seed), copy.deepcopy(history)
    for step in twin.gradients:
        for gradient in step.values():
            noise = torch.randn(gradient.shape, generator=generator, dtype=torch.float64)
            gradient += size * noise.clamp(-2, 2)
    return twin


@pytest.fixture
def wide():
    """With a gradient of many elements, and one that is zero in exact arithmetic."""
    history = make_history()
    for step in history.gradients:
        generator = torch.Generator().manual_seed(1)
        step["w"] = torch.randn(64, 64, generator=generator, dtype=torch.float64)
        step["b"] = torch.zeros(4, dtype=torch.float64)
    history.parameters["w"] = torch.zeros(64, 64, dtype=torch.float64)
    return history


def test_as_exact_as_eager_passes_and_less_exact_fails(wide):
    twins = [noisy(wide, 1e-3, seed) for seed in range(3)]
    for size, failed in ((1e-3, []), (1.9e-3, []), (2.2e-3, ["w"]), (1e-2, ["b", "w"])):
        found = noisy(wide, size, 9)
        # "w" by its root mean square, "b" by its largest element.
        names = [
            name
            for kind, name in failures(found, wide, training(1e-6), twins)
            if kind == "gradient"
        ]
        assert names == failed, size
    assert ("gradient", "b") in failures(noisy(wide, 1e-3, 9), wide, training(1e-6))


def test_one_wrong_element_among_many_fails(wide):
    twins = [noisy(wide, 1e-3, seed) for seed in range(3)]
    found = noisy(wide, 1e-3, 9)
    found.gradients[1]["w"][3, 5] += 1e-2
    assert failures(found, wide, training(1e-6), twins) == [("gradient", "w")]


def test_gradient_scaled_by_1001_fails_beside_float32_twins(wide):
    twins = [noisy(wide, 1e-6, seed) for seed in range(3)]
    found = noisy(wide, 1e-6, 9)
    assert failures(found, wide, training(1e-4), twins) == []
    found.gradients[0]["w"] *= 1.001
    assert failures(found, wide, training(1e-4), twins) == [("gradient", "w")]


def test_a_twin_that_is_not_finite_excuses_nothing(wide):
    twins = [noisy(wide, 1e-3, seed) for seed in range(3)]
    twins[0].gradients[0]["w"][0, 0] = float("nan")
    found = noisy(wide, 1e-3, 9)
    assert ("gradient", "w") in failures(found, wide, training(1e-6), twins)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_fails(found, expected, value):
    found.gradients[0]["w"][0, 0] = value
    found.losses[1] = value
    found.parameters["w"][0, 0] = value
    assert failures(found, expected) == [("gradient", "w"), ("loss", "step 1"), ("parameter", "w")]


def test_infinities_of_one_sign_are_equal_and_are_no_scale(found, expected):
    for history in (found, expected):
        history.buffers["mask"] = torch.tensor([0.0, -torch.inf, 1.0], dtype=torch.float64)
    assert failures(found, expected) == []
    found.buffers["mask"] = torch.tensor([1e-8, -torch.inf, 1.0], dtype=torch.float64)
    assert failures(found, expected) == [("buffer", "mask")]
    found.buffers["mask"] = torch.tensor([0.0, torch.inf, 1.0], dtype=torch.float64)
    assert failures(found, expected) == [("buffer", "mask")]


def test_choices_among_masked_values_are_judged_by_the_finite_ones(found, expected):
    values = torch.tensor([[0.5, 0.6, -torch.inf, -torch.inf]])
    expected.choices[0], expected.margins[0] = [torch.tensor([[1, 2]])], [values]

    def passed(choice):
        found.choices[0] = [torch.tensor([choice])]
        rows = compare(found, expected, training(1e-4), exact=False)
        return all(row.passed for row in rows if row.kind == "choice")

    assert passed([1, 3]) and not passed([0, 2]) and not passed([2, 3])


def test_an_infinite_twin_excuses_nothing(wide):
    twins = [noisy(wide, 1e-3, seed) for seed in range(3)]
    twins[0].gradients[0]["w"][0, 0] = float("inf")
    found = noisy(wide, 1e-3, 9)
    assert ("gradient", "w") in failures(found, wide, training(1e-6), twins)


def test_decay_in_the_gradient_carries_an_exempt_element_into_its_state(found, expected):
    for history in (found, expected):
        for state, value in (("exp_avg", 1e-9), ("exp_avg_sq", 1e-18)):
            history.states[f"{state}.b"] = torch.full((4,), value, dtype=torch.float64)
    found.parameters["b"] += 1e-3
    found.states["exp_avg.b"] += 0.9e-5
    found.states["exp_avg_sq.b"] += 0.9e-10
    how = training()
    both = [("state", "exp_avg.b"), ("state", "exp_avg_sq.b")]
    assert failures(found, expected, how) == both
    how.decays = {"b": 1e-2}
    assert failures(found, expected, how) == []
    how.steps = 1
    assert failures(found, expected, how) == both
    how.steps = 2
    # Twice what the decay makes of the difference; the square's bound has the floor of gradients in it.
    found.states["exp_avg.b"] += 0.9e-5
    found.states["exp_avg_sq.b"] += 1e-7
    assert failures(found, expected, how) == both


def test_missing_and_further_names_fail(found, expected):
    del found.gradients[1]["w"]
    found.parameters["other"] = torch.zeros(2)
    del found.states["exp_avg.w"]
    assert failures(found, expected) == [
        ("gradient", "w"),
        ("parameter", "other"),
        ("state", "exp_avg.w"),
    ]


def test_other_shape_fails(found, expected):
    found.parameters["w"] = found.parameters["w"].T
    assert failures(found, expected) == [("parameter", "w")]


def test_parameter_near_zero_is_judged_by_the_learning_rate(found, expected):
    for step in expected.gradients:
        step["b"].fill_(1.0)
    found.gradients = copy.deepcopy(expected.gradients)
    found.parameters["b"] += 1e-3 * 2 * 0.9e-9
    assert failures(found, expected) == []
    found.parameters["b"] += 1e-3 * 2 * 0.2e-9
    assert failures(found, expected) == [("parameter", "b")]


def test_adam_exempts_elements_with_tiny_gradients_and_counts_them(found, expected):
    assert exempt_elements("b", Gradients(expected.gradients)).all()
    found.parameters["b"] += 1e-3
    rows = compare(found, expected, training(), exact=True)
    (row,) = [row for row in rows if row.name == "b" and row.kind == "parameter"]
    assert row.passed and "4/4 exempt (4 beyond)" in row.rule
    assert failures(found, expected, training(adam=False)) == [("parameter", "b")]


def test_adam_exempts_elements_whose_sign_is_rounding_for_eager_too(found, expected):
    """Below what eager's error excuses in the gradient, and only there."""
    for step in expected.gradients:
        step["w"][0, 0], step["w"][0, 1] = 1e-2, 1.0
    found.gradients = copy.deepcopy(expected.gradients)
    twins = [copy.deepcopy(expected) for _ in range(2)]
    twins[1].gradients[0]["w"][5, 3] += 5e-3
    found.parameters["w"][0, 0] += 2e-3
    assert failures(found, expected, training(1e-6)) == [("parameter", "w")]
    assert failures(found, expected, training(1e-6), twins) == []
    found.parameters["w"][0, 1] += 2e-3
    assert failures(found, expected, training(1e-6), twins) == [("parameter", "w")]
    twins[0].gradients[0]["w"][5, 3] = float("inf")
    found.parameters["w"][0, 1] -= 2e-3
    assert failures(found, expected, training(1e-6), twins) == [("parameter", "w")]


def test_parameter_without_gradient_stays_to_the_bit(found, expected):
    found.parameters["frozen"][0] *= 1 + 1e-15
    assert failures(found, expected) == [("parameter", "frozen")]


def test_update_done_twice_fails(found, expected):
    found.parameters["w"] -= 1e-3 * torch.sign(expected.gradients[0]["w"])
    found.states["exp_avg.w"] *= 1.9
    found.buffers["count"] += 1
    assert failures(found, expected) == [
        ("buffer", "count"),
        ("parameter", "w"),
        ("state", "exp_avg.w"),
    ]


def test_choices_may_differ_only_within_the_margin_and_not_in_float64(found, expected):
    values = torch.tensor([[0.5, 0.5 + 1e-6], [0.1, 0.9]])
    expected.choices[0], expected.margins[0] = [torch.tensor([[1], [1]])], [values]
    found.choices[0] = [torch.tensor([[0], [1]])]
    rule = training(1e-4)

    def passed(exact):
        return all(
            row.passed for row in compare(found, expected, rule, exact) if row.kind == "choice"
        )

    assert passed(exact=False) and not passed(exact=True)
    found.choices[0] = [torch.tensor([[1], [0]])]
    assert not passed(exact=False)


def test_choices_may_differ_by_what_eager_is_wrong_by(found, expected):
    values = torch.tensor([[0.5, 0.6], [0.1, 0.9]])
    expected.choices[0], expected.margins[0] = [torch.tensor([[1], [1]])], [values]
    found.choices[0] = [torch.tensor([[0], [1]])]

    def passed(error):
        twin = copy.deepcopy(expected)
        twin.margins[0] = [values + error]
        rows = compare(found, expected, training(1e-4), False, [twin])
        (row,) = [row for row in rows if row.kind == "choice"]
        assert row.rule.startswith("1/2 differ")
        return row.passed

    assert passed(0.02) and not passed(0.01)


def test_running_mean_may_follow_an_exempt_bias(found, expected):
    found.parameters["b"] += 1e-3
    found.buffers["mean"] += 0.9e-3
    assert failures(found, expected) == []
    assert ("buffer", "mean") in failures(found, expected, training(adam=False))
    found.buffers["mean"] += 0.2e-3
    assert failures(found, expected) == [("buffer", "mean")]


def test_buffer_near_zero_is_judged_by_its_module(found, expected):
    for history in (found, expected):
        history.buffers |= {"n.mean": torch.zeros(4).double(), "n.var": torch.ones(4).double()}
    found.buffers["n.mean"] += 0.9e-12
    assert failures(found, expected) == []
    found.buffers["n.mean"] += 0.2e-12
    assert failures(found, expected) == [("buffer", "n.mean")]


def test_parameter_that_the_model_writes_to_is_judged_by_its_size(found, expected):
    how = training(adam=False)
    how.written = frozenset({"frozen"})
    found.parameters["frozen"] *= 1 + 0.9e-9
    assert failures(found, expected, how) == []
    found.parameters["frozen"] *= 1 + 0.2e-9
    assert failures(found, expected, how) == [("parameter", "frozen")]
