#!/usr/bin/env python3
"""Converts a search problem of the HiDup paper (JSON) to the text of a SearchProblem.

    scripts/hidup_problem.py P.json --gbit 10 [--accounting hidup-serial] -o p.txt

P.json has ranks, tensors (shapes) and operators in their fixed order (kind, flops of the whole batch, operands,
results, allowed signatures). The costs are those of the paper's published searcher (docs/plan-files.md).
"""

import argparse
import json
import sys

ACCOUNTINGS = ["hidup-serial", "hidup-overlapped"]
# Constants of the published searcher, which it measured on its own devices.
FLOPS_PER_SECOND = 4139214925014
LATENCY = 1e-4  # s, of any collective
ELEMENT_BYTES = 4  # whatever the type


def fail(message):
    sys.exit(f"hidup_problem.py: error: {message}")


def number(value):
    return repr(value).removesuffix(".0")


def rates(ranks, gbit):
    """Bytes per second of each collective on the whole tensor, truncated as the published searcher does."""
    link = gbit * 1e9 / 8
    if ranks == 1:
        fail("found 1 rank, expected at least 2: with one there is nothing to search")
    return {
        "all-gather": int(link * ranks / (ranks - 1)),
        "reduce-scatter": int(link * ranks / (ranks - 1)),
        "all-reduce": int(link * ranks / (ranks - 1) / 2),
        "all-to-all": int(link * ranks * ranks / (ranks - 1)),
    }


def seconds(operator, signature, ranks):
    """Forward computation; divided among the ranks if anything is split."""
    total = operator["flops"] / FLOPS_PER_SECOND
    forms = signature[0] + signature[1]
    return total / ranks if any(form.startswith("gather") for form in forms) else total


def signature_set(operator, ranks):
    lines = []
    for signature in operator["signatures"]:
        operands, results = (", ".join(forms) for forms in signature)
        text = " ".join(part for part in (operands, "->", results) if part)
        lines.append(f"  ranks='{text}' {number(seconds(operator, signature, ranks))} s 0 B")
    return tuple(lines)


def indices(values):
    return ",".join(map(str, values)) if values else "-"


KINDS = {"input": "input", "parameter": "resident", "operator": "compute", "output": "output"}


def word(name):
    """A name as one word of the problem's text."""
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in name)


def operator_names(problem):
    return [
        word(operator.get("name") or f"operator{i}")
        for i, operator in enumerate(problem["operators"])
    ]


def tensor_lines(problem, names):
    made_by = {}
    for operator, name in zip(problem["operators"], names, strict=True):
        for i, tensor in enumerate(operator["outputs"]):
            made_by[tensor] = f"{name}.{i}" if len(operator["outputs"]) > 1 else name
    for i, tensor in enumerate(problem["tensors"]):
        shape = "x".join(map(str, tensor["shape"])) or "scalar"
        yield f"tensor {i} {made_by.get(i, f't{i}')} {shape} {ELEMENT_BYTES} B"


def problem_text(problem, gbit, accounting):
    ranks = problem["ranks"]
    changes = " ".join(
        f"{name} {number(LATENCY)} s {number(1 / rate)} s/B"
        for name, rate in rates(ranks, gbit).items()
    )
    names = operator_names(problem)
    sets = {}
    operators = []
    for i, (operator, name) in enumerate(zip(problem["operators"], names, strict=True)):
        index = sets.setdefault(signature_set(operator, ranks), len(sets))
        operators.append(
            f"operator {i} forward {KINDS[operator['kind']]} {name} set {index}"
            f" operands {indices(operator['inputs'])} results {indices(operator['outputs'])}"
        )
    lines = [
        "tandem-problem 1",
        f"accounting {accounting}",
        "slowdown compute 1 collective 1",
        "piece 0 s",
        f"axis ranks space {ranks} queue 0 {changes}",
        *tensor_lines(problem, names),
    ]
    for signatures, index in sets.items():
        lines += [f"signatures {index}", *signatures]
    return "\n".join(lines + operators) + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("problem", help="JSON file")
    parser.add_argument("--gbit", type=float, required=True, help="bandwidth of a link in Gbit/s")
    parser.add_argument("--accounting", choices=ACCOUNTINGS, default="hidup-serial")
    parser.add_argument("-o", "--output", help="file to write; standard output if not given")
    args = parser.parse_args()
    if not args.gbit > 0:
        fail(f"found a bandwidth of {args.gbit} Gbit/s, expected more than 0")
    try:
        with open(args.problem) as file:
            text = problem_text(json.load(file), args.gbit, args.accounting)
        with open(args.output, "w") if args.output else sys.stdout as file:
            file.write(text)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")
    except (ValueError, KeyError, TypeError) as error:
        fail(f"{args.problem}: not a search problem: {error!r}")


if __name__ == "__main__":
    main()
