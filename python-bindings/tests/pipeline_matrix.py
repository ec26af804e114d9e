"""The matrix of pipelines: models, points, microbatches, orders, what lies beside the pipe axis, types, and what ranks are.

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
# Those that `order=` knows, with a section per point.
NAMED_ORDERS = ("gpipe", "1f1b")
# Those that are written: how a point's sections lie, and the kinds of passes, the ones it takes first in front.
WRITTEN_ORDERS = {
    "vee": ("vee", "BF"),
    "interleaved": ("loops", "BF"),
    "zero bubble": ("chain", "IFW"),
    "zero bubble, vee": ("vee", "IFW"),
}
FACTORS = {
    "variant": tuple(VARIANTS),
    "points": (2, 4),
    "accumulate": (1, 4, 7, 8),
    "order": (*NAMED_ORDERS, *WRITTEN_ORDERS),
    "beside": tuple(BESIDE),
    "dtype": ("float64", "float32", "bf16"),
    # Threads of one process, or processes over sockets.
    "ranks": ("threads", "gloo"),
}
# Processes of a job: on four points beside another axis each has two ranks, elsewhere one.
MOST_PROCESSES = 4


def _fits(case):
    """Whether a model has what the plan splits, and passes in its type on one device."""
    if case.get("variant") == "bert_moe narrow" and case.get("dtype") == "bf16":
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
        missing |= {((one, a), (two, b)) for a in ones for b in twos if _fits({one: a, two: b})}
    cases = []
    while missing:
        start = dict(choose.choice(sorted(missing, key=str)))
        candidates = []
        for _ in range(tries):
            case = {name: start.get(name, choose.choice(FACTORS[name])) for name in FACTORS}
            candidates += [case] if _fits(case) else []
        if candidates:
            cases.append(max(candidates, key=lambda case: len(_pairs(case) & missing)))
            missing -= _pairs(cases[-1])
    return cases


def place(order, points):
    """The point of each section."""
    there, back = [*range(points)], [*reversed(range(points))]
    return there + {"chain": [], "vee": back, "loops": there}[WRITTEN_ORDERS[order][0]]


def write_order(order, points, microbatches):
    """The text of an order that is written: each point takes the first pass that can run, of the first kind that has
    one.
    """
    of, kinds = place(order, points), WRITTEN_ORDERS[order][1]
    back, last = kinds[0], len(of) - 1
    rows, done = [[] for _ in range(points)], set()
    waiting = [(kind, s, m) for kind in kinds for m in range(microbatches) for s in range(len(of))]

    def can_run(action):
        kind, s, m = action
        if kind == "F":
            return s == 0 or ("F", s - 1, m) in done
        if kind == "W":
            return ("I", s, m) in done
        return ("F", s, m) in done and (s == last or (back, s + 1, m) in done)

    while waiting:
        ready = [action for action in waiting if can_run(action)]
        begun = {of[action[1]]: action for action in reversed(ready)}
        for point, (kind, s, m) in begun.items():
            rows[point].append(f"{s}{kind}{m}")
            waiting.remove((kind, s, m))
        done |= set(begun.values())
    return "".join(",".join(row) + "\n" for row in rows)
