"""Prices every command of a listing (tandem-run --print) by plain.yaml, and compares with a table of tandem-profile --price."""

import json
import pathlib
import re
import sys

listing = pathlib.Path(sys.argv[1]).read_text()
table = json.loads(pathlib.Path(sys.argv[2]).read_text())
# Steps of a collective of two ranks.
STEPS = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1}
COMMAND = re.compile(r"^ +(\d+) \w+ (\w+) .* flops (\d+) bytes (\d+)", re.M)
SHAPE = re.compile(r"batch \[\] m (\d+) n (\d+) k (\d+)")

expected, measured = {"seconds": {}, "collectives": {}}, 0
for match in COMMAND.finditer(listing):
    number, kind, flops, size = match[1], match[2], int(match[3]), int(match[4])
    line = match[0]
    if kind in STEPS:
        expected["collectives"][number] = STEPS[kind] * 10e-6 + size / 1e9
    elif kind not in ("record_event", "wait_event"):
        shape = SHAPE.search(line)
        isMeasured = shape and shape.groups() == ("2", "4", "16")
        measured += bool(isMeasured)
        expected["seconds"][number] = 77e-6 if isMeasured else max(flops, size) / 1e9 + 1e-6
assert expected["collectives"] and measured, (expected, measured)
for key, prices in expected.items():
    (found,) = table[key]
    assert found.keys() == prices.keys(), (key, found.keys() ^ prices.keys())
    for number, price in prices.items():
        assert abs(found[number] - price) < 1e-12, (key, number, found[number], price)
print("all commands cost what their FLOPs and bytes say")
slowdowns = table["slowdowns"]
print(f"from {table['from']}, slow-downs {slowdowns['computation']} and {slowdowns['collectives']}")
