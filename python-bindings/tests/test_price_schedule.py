"""A schedule takes no longer than its plan costs, with the durations of the plan."""

import functools

import matrix
import pytest

LAPTOP, SLOW_CORES = None, matrix.SLOW_CORES
MODELS = [
    (variant, SLOW_CORES) for variant in ("mlp", "gpt", "llama", "bert_moe sgmoe", "vit_moe switch")
] + [("bert_moe switch", LAPTOP)]
# Steps one after the other, with collectives of single numbers that wait.
WITHOUT_STRANDS = [
    ("gpt", SLOW_CORES, "data=2,model=2", 1),
    ("bert_moe switch", LAPTOP, "data=4", 1),
    ("bert_moe switch", LAPTOP, "data=4", 2),
]
CASES = [
    (search, mesh, micro)
    for mesh in ("data=4", "data=2,model=2")
    for search, micro in (("tandem", 1), ("tandem", 2), ("presets", 2), ("hidup", 2))
    if search != "hidup" or mesh == "data=4"
]


@functools.cache
def _module(variant):
    return matrix.subject_of(matrix.Case(variant, dtype="float32")).module


@pytest.mark.sample(2)
@pytest.mark.parametrize("variant,cluster", MODELS, ids=lambda value: str(value)[-16:])
def test_is_never_longer_than_the_cost(variant, cluster):
    communicates = waits = 0
    for search, mesh, micro in CASES:
        schedule, cost, compiled = matrix.price_schedule(
            _module(variant),
            mesh=mesh,
            micro=micro,
            search=search,
            cluster=cluster,
            search_time_limit=2,
        )
        print(f"{variant:16} {mesh:14} {micro} {search:8} {schedule:.6e} <= {cost:.6e} s")
        assert 0 < schedule <= cost * (1 + 1e-9), (search, mesh, micro)
        communicates += "sched.step on comm" in compiled.ir[0][1]
        waits += "\nwait operator " in compiled.plan
    if cluster is SLOW_CORES and variant != "mlp":
        assert communicates and waits


@pytest.mark.sample(1)
@pytest.mark.parametrize("variant,cluster,mesh,micro", WITHOUT_STRANDS)
def test_is_never_longer_without_strands(variant, cluster, mesh, micro):
    schedule, cost, _ = matrix.price_schedule(
        _module(variant), mesh=mesh, micro=micro, search="tandem", cluster=cluster
    )
    assert 0 < schedule <= cost * (1 + 1e-9)


def test_says_nothing_without_being_asked():
    compiled = matrix.compile_module(
        _module("mlp"), mesh="data=4", micro=2, search="tandem", stop_after="schedule"
    )
    assert not any("schedule " in text for text in compiled.remarks)
    assert "seconds =" not in compiled.ir[0][1]
