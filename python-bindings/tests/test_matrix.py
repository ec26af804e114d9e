"""A part of the matrix in which every model, plan preset, number of ranks and of microbatches occurs."""

import matrix
import pytest
from matrix import Case


def _name(case):
    return "-".join(
        [case.variant.replace(" ", "_"), case.plan, case.mesh or "one", str(case.micro), case.dtype]
    )


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
