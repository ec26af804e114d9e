"""A part of the matrix in which every model, plan preset, number of ranks and of microbatches occurs."""

import itertools

import matrix
import pipeline_matrix
import pytest
from forked import Forks
from matrix import Case


def _name(case):
    return "-".join(
        [case.variant.replace(" ", "_"), case.plan, case.mesh or "one", str(case.micro), case.dtype]
    )


@pytest.mark.sample(9)
@pytest.mark.parametrize("case", matrix.small_part(), ids=_name)
def test_equals_eager(case):
    row = matrix.run_case(case, matrix.subject_of(case))
    assert not row["error"]
    assert row["passed"], row["failed"]


def test_small_part_has_everything():
    part, whole = matrix.small_part(), matrix.all_cases()
    for fact in (
        lambda c: c.variant,
        lambda c: c.plan,
        lambda c: c.ranks,
        lambda c: c.micro,
        lambda c: c.dtype,
    ):
        assert {fact(case) for case in part} == {fact(case) for case in whole}


def test_case_counts_its_ranks():
    assert Case("gpt", mesh="data=2,model=2").ranks == 4
    assert Case("gpt").ranks == 1


def test_bf16_has_every_model_preset_and_number_of_microbatches():
    cases = [case for case in matrix.all_cases() if case.dtype == "bf16"]
    assert {case.variant for case in cases} == set(matrix.VARIANTS)
    for variant in matrix.VARIANTS:
        assert {case.micro for case in cases if case.variant == variant} == {1, 2}
    presets = {plan for variant in matrix.VARIANTS for plan, _ in matrix._plans(variant)}
    assert {(case.plan, case.micro) for case in cases} == {(p, m) for p in presets for m in (1, 2)}


# Models, points, microbatches, orders, plans and types of pipelines.
PIPELINES = [
    Case("gpt", "zero", "pipe=2,data=2", dtype="bf16", accumulate=1, order="interleaved"),
    Case("llama", "tensor-parallel", "pipe=2,model=2", 2, accumulate=7, order="vee"),
    Case("bert_moe sgmoe", "data-parallel", "pipe=2", accumulate=4, order="gpipe"),
    Case("llama", "data-parallel", "pipe=2", 2, accumulate=4, order="1f1b", processes=2),
    Case("gpt", "data-parallel", "pipe=4", dtype="float32", accumulate=8, order="1f1b"),
    Case("unet", "data-parallel", "pipe=2,data=2", accumulate=4, order="1f1b"),
    Case("encoder-decoder", "data-parallel", "pipe=2", accumulate=8, order="zero bubble, vee"),
    # A tied parameter is gathered for a later section; sections of one sum; what others read moves.
    Case("gpt", "zero", "pipe=4,data=2", accumulate=1, order="1f1b"),
    Case("gpt", "data-parallel", "pipe=4,data=2", accumulate=7, order="interleaved"),
    Case("bert_moe narrow", "expert-parallel", "pipe=2,data=2", accumulate=7, order="dualpipe-v"),
]


@pytest.mark.sample(4)
@pytest.mark.parametrize("case", PIPELINES, ids=lambda case: f"{_name(case)}-{case.order}")
def test_pipelines_equal_eager(case, tmp_path):
    if case.processes > 1:
        row = matrix.run_job(case, Forks(tmp_path, {"OMP_NUM_THREADS": "1"}))
    else:
        row = matrix.run_case(case, matrix.subject_of(case))
    assert not row["error"]
    assert row["passed"], row["failed"]


def test_pipelines_have_every_pair_of_values():
    cases, factors = pipeline_matrix.pipeline_cases(), pipeline_matrix.FACTORS
    assert len(cases) <= 300 and cases == pipeline_matrix.pipeline_cases()
    for one, two in itertools.combinations(set(factors) - {"variant", "beside"}, 2):
        pairs = {(case[one], case[two]) for case in cases}
        every = itertools.product(factors[one], factors[two])
        assert pairs == {(a, b) for a, b in every if pipeline_matrix.fits({one: a, two: b})}
    # Of plans, those that a model has.
    found = {(case["variant"], case["beside"]) for case in cases}
    assert len(found) == 3 * len(factors["variant"]) + 4 + 2


def test_the_written_order_runs_every_action_once():
    for sections, row in zip(
        ("03", "12"), pipeline_matrix.write_vee(2, 3).splitlines(), strict=True
    ):
        actions = [f"{s}{kind}{m}" for s in sections for kind in "BF" for m in range(3)]
        assert sorted(row.split(",")) == sorted(actions)
