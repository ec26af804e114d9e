"""`make zoo`: trains models of public zoos in Tandem against eager.

The zoos are timm, torchvision, diffusers, peft, x-transformers, DeepCTR-Torch, PyTorch Geometric and GPyTorch.

    scripts/zoo                                 # environment in build/zoo, then all models without a result
    scripts/zoo --only 'timm.*' --again
    scripts/zoo --report

A model of `zoo_models.json` trains two steps in float64 on `data=2`. Results are those of coverage.py and conformance.py
(trials.py).
"""

import functools
import hashlib
import sys

import trials
import zoo_cases

GOAL = 0.95
SETTINGS = [("data=2", dict(mesh={"data": 2}))]
_STEPS = 2


def _unit(name, case):
    def cases():
        return {name: functools.partial(trials.measure, case, SETTINGS, _STEPS)}

    digest = hashlib.sha256(repr((case.described, SETTINGS)).encode()).hexdigest()[:12]
    return trials.Unit(name, cases, digest)


def main():
    options = trials.make_parser(__doc__, "zoo.jsonl").parse_args()
    units = [_unit(name, case) for name, case in zoo_cases.all_cases().items()]
    if not options.report:
        import tandem  # noqa: F401 - once, before processes are forked

        zoo_cases.stand_in_for_torchvision()
    results = trials.run_wanted(trials.wanted_of(units, options), options)
    enough = trials.report(results.of(units), GOAL, "models")
    print(f"{results.minutes(units):.1f} minutes of one process")
    return 0 if enough or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
