"""`make conformance`: trains PyTorch's samples of operators, modules and optimizers in Tandem against eager.

    python benchmarks/conformance.py                               # all cases without a result
    python benchmarks/conformance.py --only 'op.linalg.*' --again  # these, with or without results
    python benchmarks/conformance.py --shard 1/8 --jobs 2
    python benchmarks/conformance.py --failed                      # failed cases again
    python benchmarks/conformance.py --report                      # the table of results

Samples are those of `op_db`, `module_db` and `optim_db` (torch.testing._internal), in float64: at most three of an
operator or module, every configuration of an optimizer. A sample is a training step (conformance_cases.py), compiled
for one rank and for `data=2`. Loss and gradients are compared with eager's (docs/rationale/verify.md). For optimizers,
so are parameters and states after some steps.

A case works, is refused for a reason of the table (trials.py, and here), is WRONG, or unclear: an internal error, or a
message without a known reason. A case does not count if eager does not train it, or gives no finite number.
"""

import functools
import hashlib
import sys

import conformance_cases
import torch
import trials

GOAL = 0.95
SETTINGS = [("one rank", {}), ("data=2", dict(mesh={"data": 2}))]
_STEPS = {"optim": 4}  # of other cases one
# Beside those of trials.py, and before them.
REASONS = [
    (
        "optimizer that needs closures",
        r"updates parameters by their dense gradients, once per step",
    ),
    ("sparse tensors", r"(?i)sparse|_to_dense"),
    ("rows that data chooses", r"no tensor among its outputs"),
    ("complex numbers", r"complex numbers are supported"),
    *trials.REASONS,
]

# It evaluates the loss several times in a step, as often as its search wants.
EXCEPTED = ("optim.LBFGS",)


def _measured(steps, cases):
    return {
        name: functools.partial(trials.measure, case, SETTINGS, steps, REASONS)
        for name, case in cases().items()
    }


def _unit(name, cases, *arguments):
    digest = hashlib.sha256(f"{torch.__version__} {SETTINGS} 1".encode()).hexdigest()[:12]
    steps = _STEPS.get(name.partition(".")[0], 1)
    cases = functools.partial(cases, *arguments)
    return trials.Unit(name, functools.partial(_measured, steps, cases), digest)


def all_units():
    cases = conformance_cases
    units = [_unit(n, cases.operator_cases, infos) for n, infos in cases.operators().items()]
    units += [_unit(n, cases.module_cases, n, *info) for n, info in cases.modules().items()]
    return units + [_unit(n, cases.optimizer_cases, n, i) for n, i in cases.optimizers().items()]


def _report(units, results):
    """A table for each of the three; whether all are enough."""
    enough = []
    for kind, what in (("op", "operators"), ("module", "modules"), ("optim", "optimizers")):
        own = [unit for unit in units if unit.name.startswith(f"{kind}.")]
        print(f"---- {what}: {len(own)}, {results.minutes(own):.1f} minutes of one process")
        enough.append(trials.report(results.of(own), GOAL, what, excepted=EXCEPTED))
    return all(enough)


def main():
    options = trials.make_parser(__doc__, "conformance.jsonl").parse_args()
    units = all_units()
    if not options.report:
        import tandem  # noqa: F401 - once, before processes are forked
    results = trials.run_wanted(trials.wanted_of(units, options), options)
    enough = _report(units, results)
    return 0 if enough or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
