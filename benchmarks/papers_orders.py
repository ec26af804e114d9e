"""Layouts of papers whose passes have published times: an order of sections, simulated by tandem-order.

* *Fold3D*: forward and backward passes take the times of tables 2 and 3, and the sum of all gradients takes Megatron's.
  What crosses points is one part for each rank of a tensor-parallel group.
* *TransGAN*: layers take the times that AMP profiled, backward passes twice as long; sections are those that it cut.
"""

import itertools
import re

import planner_papers
from harness import measure_process

HALF = 2  # bytes
SEQUENCE = 1024
# Of Fold3D's systems: the order, and whether it has several sections for each point.
SYSTEMS = {
    "fold3d": ("aiao", True),
    "megatron": ("interleaved", True),
    "deepspeed3d": ("1f1b", False),
}


class Orders:
    """Seconds of steps."""

    def __init__(self, folder, data):
        self.folder, self.data = folder, data

    def time_order(self, name, points, microbatches, sections, transfers):
        """What tandem-order prints. A section has seconds (forward, backward, sum); a transfer is behind a section."""
        order, partition = self.folder / "order.csv", self.folder / "sections.txt"
        sizes = ["--points", points, "--microbatches", microbatches]
        several = ["--sections-per-point", len(sections) // points] if name != "1f1b" else []
        made = measure_process([planner_papers.ORDER_TOOL, "--make", name, *sizes, *several])
        order.write_text(made["text"])
        lines = [
            f"section {i} point {i % points} F {forward!r} B {backward!r} sum {total!r}"
            for i, (forward, backward, total) in enumerate(sections)
        ]
        lines += [f"edge {i} {i + 1} comm {seconds!r}" for i, seconds in enumerate(transfers)]
        partition.write_text("\n".join(lines) + "\n")
        return measure_process([planner_papers.ORDER_TOOL, order, "--sections", partition])["text"]

    def get_fold3d(self, model, system):
        given = self.data["fold3d"][model]
        name, is_split = SYSTEMS[system]
        sections = given["segments"] if is_split else 1
        forward, backward = (
            seconds / given["microbatches"] / sections for seconds in given["passes"][system]
        )
        section = (forward, backward, given["sum"] / sections if system == "fold3d" else 0.0)
        # The ranks of a tensor-parallel group share the link of their machine: together they send the whole activation.
        moved = given["rows"] * SEQUENCE * given["width"] * HALF / given["bandwidth"]
        count = given["points"] * sections
        text = self.time_order(
            name, given["points"], given["microbatches"], [section] * count, [moved] * (count - 1)
        )
        if system == "fold3d":
            return find(r"gradient sums .*step of (\S+)", text) or find(r"sums end (\S+)", text)
        # The others sum all gradients behind the last backward pass.
        return find(r"makespan (\S+)", text) + given["sum"]

    def get_transgan(self, rows, model, data, ends):
        """Rows of a microbatch, degrees, and where AMP's sections end."""
        given, share = self.data["transgan"], data * model  # devices of a point
        layers, seconds = planner_papers.describe_layers("transgan"), given["forward"][str(model)]
        sections, transfers = [], []
        for point, (begin, end) in enumerate(itertools.pairwise([0, *ends])):
            forward = rows * sum(seconds[begin:end])
            summed = self.time_sum(sum(layers[i][0] for i in range(begin, end)), data, model)
            sections.append((forward, 2 * forward, summed))
            is_inside = point * share // given["nodes"] == (point + 1) * share // given["nodes"]
            # Devices of a machine send at once.
            link = given["node"] if is_inside else given["network"] / min(share, given["nodes"])
            transfers.append(rows * layers[end - 1][1] / link)
        microbatches = given["batch"] // (data * rows)
        text = self.time_order("1f1b", len(ends), microbatches, sections, transfers[:-1])
        return find(r"sums end (\S+)", text) or find(r"makespan (\S+)", text)

    def time_sum(self, weights, data, model):
        """Seconds of a ring of `data` devices. Where rings cross machines, all of a machine share its link."""
        given = self.data["transgan"]
        is_inside = data * model <= given["nodes"]
        busy, link = (weights / model, given["node"]) if is_inside else (weights, given["network"])
        return 2 * (data - 1) / data * busy / link

    def get(self, kind, *what):
        return self.get_fold3d(*what) if kind == "fold3d" else self.get_transgan(*what)


def find(pattern, text):
    found = re.search(pattern, text)
    return float(found[1]) if found else None
