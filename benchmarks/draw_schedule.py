"""Prints the text of a figure (scripts/figures): what each point of a pipeline does in a step, as predicted and as measured.

    benchmarks/draw_schedule.py PREDICTED.json MEASURED.json

Both are timelines of one Program, as benchmarks/pipeline.py leaves them in build/bench/pipeline. Of several steps it takes
the one of median length. A point is its first rank. An action lasts from its first to its last computing command.
"""

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path

WAITING = ("wait", "transfer", "check_finite")
COLUMNS = 100


def read_steps(path):
    """{step: {rank: {action: (begin, end)}}}, in microseconds."""
    steps = defaultdict(lambda: defaultdict(dict))
    for event in json.loads(Path(path).read_text())["traceEvents"]:
        action = event["ph"] == "X" and re.match(r"\d+[FIW]\d+(?= )", event["name"])
        if not action or event["cat"] in WAITING or event["tid"] != 0:
            continue
        actions = steps[event["args"]["step"]][event["pid"]]
        begin, end = event["ts"], event["ts"] + event["dur"]
        known = actions.get(action[0], (begin, end))
        actions[action[0]] = min(begin, known[0]), max(end, known[1])
    return steps


def get_span(ranks):
    spans = [span for actions in ranks.values() for span in actions.values()]
    return min(begin for begin, _ in spans), max(end for _, end in spans)


def choose_step(steps):
    """That of median length; times in milliseconds from its begin."""

    def get_length(ranks):
        begin, end = get_span(ranks)
        return end - begin

    ordered = sorted(steps.values(), key=get_length)
    ranks = ordered[len(ordered) // 2]
    first, _ = get_span(ranks)
    return {
        rank: {name: [(at - first) / 1e3 for at in span] for name, span in actions.items()}
        for rank, actions in ranks.items()
    }


def print_row(name, actions):
    line = name
    for action, (begin, end) in sorted(actions.items(), key=lambda entry: entry[1]):
        words = f" {action} {begin:.1f} {end:.1f}"
        if len(line + words) > COLUMNS:
            print(line)
            line = name
        line += words
    print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("predicted")
    parser.add_argument("measured")
    options = parser.parse_args()
    predicted = choose_step(read_steps(options.predicted))
    measured = choose_step(read_steps(options.measured))
    print("schedule")
    for point, rank in enumerate(sorted(predicted)):
        print_row(f"point_{point}_predicted", predicted[rank])
        print_row(f"point_{point}_measured", measured[rank])


if __name__ == "__main__":
    main()
