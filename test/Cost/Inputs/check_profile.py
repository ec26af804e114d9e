"""Checks that the numbers of a profile are those of some computer."""

import re
import sys

UNITS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
text = open(sys.argv[1]).read()


def values(key, unit):
    found = re.findall(rf"\b{key}: ([0-9.e+-]+) ([numkMGT]?){unit}(?![\w/])", text)
    assert found, f"no {key} in {unit}"
    return [float(number) * UNITS[prefix] for number, prefix in found]


def check(key, unit, low, high):
    for value in values(key, unit):
        assert low <= value <= high, f"{key}: {value} {unit}, expected {low} to {high}"


check("peak", "FLOP/s", 1e7, 1e14)
check("size", "B", 1e8, 1e14)
check("bandwidth", "B/s", 1e6, 1e13)
check("overhead", "s", 1e-9, 1e-3)
check("latency", "s", 0, 1)
check("piece", "s", 0, 1)
check("time", "s", 1e-8, 10)
for factor in re.findall(r"^  (?:computation|collective): ([0-9.]+)$", text, re.M):
    assert 1 <= float(factor) <= 1000, factor

# 256 times the bytes take longer, however busy the machine is.
kinds = re.findall(r"collective: ([\w-]+), .* bytes: ([0-9.]+) (\w?)B, time: ([0-9.]+) (\w?)s", text)
for name in {kind[0] for kind in kinds}:
    points = sorted(
        (float(size) * UNITS[p], float(time) * UNITS[q])
        for kind, size, p, time, q in kinds
        if kind == name
    )
    assert len(points) == 3 and points[-1][0] >= 100 * points[0][0], points
    assert points[-1][1] > points[0][1], (name, points)
