"""`make coverage`: trains models of transformers, and modules, losses and functions of torch.nn, against eager.

    python benchmarks/coverage.py                              # all cases without a result
    python benchmarks/coverage.py --only 'torch.*' --again     # these, with or without results
    python benchmarks/coverage.py --shard 1/8 --jobs 2
    python benchmarks/coverage.py --report                     # the table of results

A case trains three steps in float64 (where eager's losses are finite), mesh `data=2`, two microbatches. Every third
case also runs with the plan `zero` on four ranks, and with a searched plan on two axes. It works if losses, gradients,
parameters, buffers and states equal eager's (docs/rationale/verify.md). Cases that do not train one step in eager do
not count. Each case has its own process and time limit. Results are written after each case, and a case with a result
is not run again (trials.py).
"""

import functools
import hashlib
import sys

import trials
from coverage_cases import Layer, all_cases

GOAL = 0.95
# [(name, options of the compiler)]; those behind the first are for every third case.
SETTINGS = [
    ("data-parallel", dict(mesh={"data": 2}, micro=2)),
    ("zero", dict(mesh={"data": 4}, plan="zero", micro=2)),
    ("searched", dict(mesh={"data": 2, "model": 2}, search="tandem", micro=2)),
]


def _digest(case, settings):
    described = case.kinds if isinstance(case, Layer) else case.described
    return hashlib.sha256(repr((described, settings)).encode()).hexdigest()[:12]


def _unit(name, case, settings):
    def cases():
        return {name: functools.partial(trials.measure, case, settings)}

    return trials.Unit(name, cases, _digest(case, settings))


def units_of(cases, first):
    """Every third one has all settings, counted in the list as a whole, unless only the `first` is wanted."""
    return [
        _unit(name, case, SETTINGS if i % 3 == 0 and not first else SETTINGS[:1])
        for i, (name, case) in enumerate(cases.items())
    ]


def main():
    parser = trials.make_parser(__doc__, "coverage.jsonl")
    parser.add_argument("--first", action="store_true", help="the first setting only")
    options = parser.parse_args()
    units = units_of(all_cases(), options.first)
    if not options.report:
        import tandem  # noqa: F401 - once, before processes are forked
        import transformers

        transformers.logging.set_verbosity_error()
    results = trials.run_wanted(trials.wanted_of(units, options), options)
    enough = trials.report(results.of(units), GOAL, "cases")
    print(f"{results.minutes(units):.1f} minutes of one process")
    return 0 if enough or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
