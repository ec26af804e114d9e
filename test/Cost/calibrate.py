"""Compares tables of seconds: calibrate.py TIMES CALIBRATED BEFORE."""

import json
import sys

times, calibrated, before = (
    [table for program in json.load(open(path))["seconds"] for table in program.values()]
    for path in sys.argv[1:]
)
ratio = sum(calibrated) / sum(times)
assert abs(ratio - 1) < 0.1, ratio
far = [(a, b) for a, b in zip(calibrated, times, strict=True) if not 0.5 <= a / b <= 2]
assert not far, far
print(
    "as long as those of the other cluster, each within a factor of 2; before,"
    f" {sum(times) / sum(before):.0f} times shorter"
)
