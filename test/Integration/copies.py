"""Usage: copies.py TIMELINE 'NAME: MICROSECONDS ...' ...: the longest command of that name on each rank."""

import json
import sys

events = json.load(open(sys.argv[1]))["traceEvents"]
for expected in sys.argv[2:]:
    name, _, rest = expected.partition(": ")
    longest = {}
    for event in events:
        if event["ph"] == "X" and event["name"] == name:
            longest[event["pid"]] = max(longest.get(event["pid"], 0), event["dur"])
    found = [round(longest[rank]) for rank in sorted(longest)]
    assert found == [int(word) for word in rest.split()], f"{name}: found {found}, expected {rest}"
