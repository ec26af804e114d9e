"""The matrix of pipelines: models, points, microbatches, strands, orders, what lies beside the pipe axis, types, and what ranks are.

`pipeline_cases()` covers every pair of values of two factors that go together. The choice is seeded, so the list
is the same on every machine: `scripts/verify-matrix --pipelines --list` prints it.
"""

import itertools
import random

SEED = 42
# name: (file, size preset, --set); `gpt` has tied embeddings.
VARIANTS = {
    "gpt": ("gpt", None, "layers=4,width=16,seq=8"),
    "llama": ("llama", None, "layers=4,width=16,hidden=32,seq=8"),
    "bert_moe sgmoe": ("bert_moe", None, "gate=sgmoe,layers=4"),
    # Sections of equal FLOPs cut through its experts.
    "bert_moe narrow": ("bert_moe", None, "gate=sgmoe,layers=4,width=16,hidden=32,seq=8"),
    "encoder-decoder": ("skipping", "encoder-decoder", ""),
    "unet": ("skipping", "unet", ""),
}
# What is beside the pipe axis: (plan, axis).
BESIDE = {
    "alone": ("data-parallel", ""),
    "data": ("data-parallel", "data=2"),
    "zero": ("zero", "data=2"),
    "model": ("tensor-parallel", "model=2"),
    "experts": ("expert-parallel", "data=2"),
}
# Those that `order=` knows.
NAMED_ORDERS = (
    "1f1b",
    "gpipe",
    "interleaved",
    "aiao",
    "zb-h1",
    "zb-h2",
    "interleaved-zb",
    "zb-v",
    "dualpipe-v",
)
# One that is written: two sections per point in a V, with whole backward passes.
WRITTEN_ORDER = "vee"
FACTORS = {
    "variant": tuple(VARIANTS),
    "points": (2, 4),
    "accumulate": (1, 4, 7, 8),
    # Of each action, beside each other.
    "micro": (1, 2),
    "order": (*NAMED_ORDERS, WRITTEN_ORDER),
    "beside": tuple(BESIDE),
    "dtype": ("float64", "float32", "bf16"),
    # Threads of one process, or processes over sockets.
    "ranks": ("threads", "gloo"),
}
# Processes of a job: on four points beside another axis each has two ranks, elsewhere one.
MOST_PROCESSES = 4


def fits(case):
    """Whether a model has what the plan splits, and passes in its type on one device, and whether the order has enough
    microbatches.
    """
    is_short = case.get("accumulate", 8) < 2 * case.get("points", 2)
    if case.get("order") == "dualpipe-v" and is_short:
        return False
    if case.get("variant") == "bert_moe narrow" and case.get("dtype") == "bf16":
        return False
    # Many parts: eager's own errors in bf16, which are of whole batches, are no measure. Bits are those of one strand.
    if case.get("micro") == 2 and case.get("dtype") == "bf16":
        return False
    if case.get("beside") == "model":
        return case.get("variant", "gpt") not in ("encoder-decoder", "unet")
    return case.get("beside") != "experts" or "moe" in case.get("variant", "moe")


def _pairs(case):
    return set(itertools.combinations(case.items(), 2))


def pipeline_cases(tries=30):
    """Dicts with a value of each factor, such that every pair that fits is in one of them."""
    choose, missing = random.Random(SEED), set()
    for (one, ones), (two, twos) in itertools.combinations(FACTORS.items(), 2):
        missing |= {((one, a), (two, b)) for a in ones for b in twos if fits({one: a, two: b})}
    cases = []
    while missing:
        start = dict(choose.choice(sorted(missing, key=str)))
        candidates = []
        for _ in range(tries):
            case = {name: start.get(name, choose.choice(FACTORS[name])) for name in FACTORS}
            candidates += [case] if fits(case) else []
        if candidates:
            cases.append(max(candidates, key=lambda case: len(_pairs(case) & missing)))
            missing -= _pairs(cases[-1])
    return cases


def write_vee(points, microbatches):
    """The text of the written order: each point takes the first pass that can run, backward passes first."""
    of = [*range(points), *reversed(range(points))]
    rows, done, last = [[] for _ in range(points)], set(), len(of) - 1
    waiting = [(k, s, m) for k in "BF" for m in range(microbatches) for s in range(len(of))]

    def can_run(action):
        kind, s, m = action
        if kind == "F":
            return s == 0 or ("F", s - 1, m) in done
        return ("F", s, m) in done and (s == last or ("B", s + 1, m) in done)

    while waiting:
        ready = [action for action in waiting if can_run(action)]
        begun = {of[action[1]]: action for action in reversed(ready)}
        for point, (kind, s, m) in begun.items():
            rows[point].append(f"{s}{kind}{m}")
            waiting.remove((kind, s, m))
        done |= set(begun.values())
    return "".join(",".join(row) + "\n" for row in rows)
