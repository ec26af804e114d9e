"""Clusters, plans and meshes of a sweep: each is compiled and simulated by the tools, a process each."""

import json
import math
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..base.native import native
from ..errors import TandemError

PLANS = ("search", "zero", "tensor-parallel", "pipeline")
# More points of a pipeline, or of tensor parallelism, are seldom of use.
_MOST_POINTS = 16
# To see what a plan takes that does not fit.
_NO_LIMIT = "1000TiB"
# Microbatches of a pipeline for each of its points: a bubble of about a fifth.
_MICROBATCHES = 4


@dataclass(frozen=True)
class Candidate:
    """What a plan may be on so many devices."""

    mesh: str
    options: tuple


@dataclass
class Row:
    """A point of a sweep. Without `seconds`, `why` says what hinders it."""

    devices: int
    bandwidth: str  # empty: one node
    plan: str
    mesh: str = ""
    of: str = ""  # of a search: the plan whose row it takes; empty: its own
    seconds: float = 0
    rate: float = 0  # items per second
    items: str = ""
    mfu: float | None = None  # None: the step has no products
    cost: float | None = None  # USD per step; None: the cluster names no price
    peak: int = 0  # bytes, of the rank that holds most
    fits: bool = False
    why: str = ""

    @property
    def order(self):
        """The best of several comes first."""
        return not self.seconds, not self.fits, self.seconds if self.fits else self.peak

    @property
    def name(self):
        """The mesh, and of a search the plan that it takes."""
        return f"{self.mesh} ({self.of})" if self.of else self.mesh

    def or_better(self, others):
        """This row of a search, or what it takes of the best of `others` if that comes first."""
        best = min([self, *others], key=lambda row: row.order)
        return self if best is self else replace(best, plan=self.plan, of=best.plan)

    def fields(self):
        return asdict(self)


# ===----------------------------------------------------------------------=== #
# Tools
# ===----------------------------------------------------------------------=== #


def _tool(name):
    """Beside the module in a build, or on the path in an installed package."""
    built = Path(native().__file__).resolve().parents[2] / "bin" / name
    found = str(built) if built.exists() else shutil.which(name)
    if found is None:
        raise TandemError(f"found no {name}, expected it on the PATH, with the compiler")
    return found


def _run(name, *arguments):
    """The error of a tool, in one line; empty after success."""
    done = subprocess.run([_tool(name), *map(str, arguments)], capture_output=True, text=True)
    if done.returncode == 0:
        return ""
    lines = [line for line in done.stderr.splitlines() if "error: " in line]
    return lines[-1].partition("error: ")[2] if lines else f"{name} ended with {done.returncode}"


# ===----------------------------------------------------------------------=== #
# Candidates
# ===----------------------------------------------------------------------=== #


def _powers(first, last):
    number = first
    while number <= last:
        yield number
        number *= 2


def _divisors(number, most):
    """From 2 to `most`."""
    return [n for n in range(2, min(number, most) + 1) if number % n == 0]


def _models(devices, in_node):
    """Points of tensor parallelism, of so many devices: none of their groups is on two nodes."""
    return _divisors(math.gcd(devices, in_node), _MOST_POINTS)


def _mesh(**axes):
    return ",".join(f"{name}={size}" for name, size in axes.items() if size > 1) or "data=1"


def _microbatches(points, rows):
    """For `points` of a pipeline, of which each data rank has `rows` rows: the most that are of use."""
    return max((n for n in _powers(1, _MICROBATCHES * points) if rows % n == 0), default=1)


def _pipelines(devices, in_node, batch, accumulate):
    for points in _divisors(devices, _MOST_POINTS):
        for model in (1, *_models(devices // points, in_node)[-1:]):
            data = devices // points // model
            if batch % data:
                continue
            count = accumulate or _microbatches(points, batch // data)
            # Neighbours talk most: the axis of the products is the last one.
            yield Candidate(
                _mesh(pipe=points, data=data, model=model),
                ("--plan", "tensor-parallel" if model > 1 else "data-parallel")
                + ("--sections", points, "--accumulate", count),
            )


def candidates(plan, devices, per_node, batch, accumulate, search_seconds):
    """What `plan` may be; nothing where no mesh is possible."""
    parts = ("--accumulate", accumulate) if accumulate else ()
    in_node = min(devices, per_node)
    if plan == "search":
        limit = ("--search-time-limit", search_seconds)
        yield Candidate("auto", ("--search", "tandem", *limit, *parts))
    elif plan == "zero":
        yield Candidate(_mesh(data=devices), ("--plan", "zero", *parts))
    elif plan == "tensor-parallel":
        for model in _models(devices, in_node):
            mesh = _mesh(data=devices // model, model=model)
            yield Candidate(mesh, ("--plan", plan, *parts))
    else:
        yield from _pipelines(devices, in_node, batch, accumulate)


# ===----------------------------------------------------------------------=== #
# Points
# ===----------------------------------------------------------------------=== #


class Sweep:
    """All that a sweep of one step needs; `close()` removes its files."""

    def __init__(self, step, cluster, bandwidths, accumulate, search_seconds):
        self.step, self.cluster, self.bandwidths = step, cluster, bandwidths
        self.accumulate, self.search_seconds = accumulate, search_seconds
        self.batch = _batch_of(step)
        self.kind, self.per_node, self.network = _nodes_of(cluster, any(bandwidths))
        self._folder = tempfile.TemporaryDirectory(prefix="tandem-sweep-")
        self.folder = Path(self._folder.name)

    def close(self):
        self._folder.cleanup()

    def make_cluster(self, devices, bandwidth):
        """The file of the machines with so many devices. TandemError where there is none."""
        own = min(devices, self.per_node)
        if devices % own:
            raise TandemError(f"{devices} devices, expected a multiple of {own}, those of a node")
        name = re.sub(r"[^\w.]", "", bandwidth) or "given"
        path = self.folder / f"{devices}-{name}.yaml"
        values = [f"nodes.0.count={devices // own}", f"nodes.0.devices.{self.kind}={own}"]
        if bandwidth:
            values.append(f"{self.network}.bandwidth={bandwidth}")
        sets = [word for value in values for word in ("--set", value)]
        if error := _run("tandem-profile", "--show", self.cluster, *sets, "-o", path):
            raise TandemError(error)
        return path

    def rows(self, plans, devices):
        """The best of each plan for each bandwidth. Where devices are in one node, no bandwidth matters.

        The search comes last: it takes the fastest row of the others where its own is slower.
        """
        bandwidths = [""] if devices <= self.per_node else self.bandwidths
        others = {bandwidth: [] for bandwidth in bandwidths}
        for plan in sorted(plans, key=lambda plan: plan == "search"):
            for row in self._rows(plan, devices, bandwidths):
                if plan == "search":
                    row = row.or_better(others[row.bandwidth])
                others[row.bandwidth].append(row)
                yield row

    def _rows(self, plan, devices, bandwidths):
        try:
            machines = [(each, self.make_cluster(devices, each)) for each in bandwidths]
        except TandemError as error:
            yield from (Row(devices, each, plan, why=str(error)) for each in bandwidths)
            return
        # A preset is the same whatever the network is.
        groups = [[machine] for machine in machines] if plan == "search" else [machines]
        for group in groups:
            yield from self._best_rows(plan, devices, group)

    def _best_rows(self, plan, devices, machines):
        found = {bandwidth: [] for bandwidth, _ in machines}
        for candidate in candidates(
            plan, devices, self.per_node, self.batch, self.accumulate, self.search_seconds
        ):
            program, error = self._compile(candidate, machines[0][1])
            for bandwidth, cluster in machines:
                row = Row(devices, bandwidth, plan, candidate.mesh, why=error)
                if not error:
                    self._simulate(program, cluster, row)
                found[bandwidth].append(row)
        for bandwidth, rows in found.items():
            why = f"no mesh of {devices} devices, {self.per_node} in a node, for a batch of {self.batch}"
            none = Row(devices, bandwidth, plan, why=why)
            yield min(rows, key=lambda row: row.order, default=none)

    def _compile(self, candidate, cluster):
        program = self.folder / "step.tdm"
        words = [self.step, "--mesh", candidate.mesh, *candidate.options, "--cluster", cluster]
        words += ["--device", "sim", "-o", program]
        error = _run("tandem-compile", *words)
        if error and _run("tandem-compile", *words, "--memory", _NO_LIMIT) == "":
            error = ""  # what it takes is seen, and that it does not fit
        return program, error

    def _simulate(self, program, cluster, row):
        path = self.folder / "simulated.json"
        row.why = _run(
            "tandem-run", program, "--device=sim", f"--cluster={cluster}", "--json", path
        )
        if row.why:
            return
        told = json.loads(path.read_text())
        row.mesh = _mesh(**told["mesh"])
        row.seconds, row.mfu, row.cost = told["seconds"], told["mfu"], told["cost"]
        row.items, row.rate = told["item_name"], told["items"] / told["seconds"]
        row.peak = max(rank["held"] for rank in told["memory"])
        row.fits = all(rank["held"] <= rank["room"] for rank in told["memory"])


def _batch_of(step):
    """Rows of the batch of a captured step."""
    try:
        with open(step, encoding="utf-8", errors="replace") as file:
            for line in file:
                found = re.search(r"tensor<(\d+)[x>].*nn\.role<input>.*nn\.batch_dim = 0", line)
                if found:
                    return int(found[1])
    except OSError as error:
        raise TandemError(f"cannot read '{step}': {error.strerror}") from None
    raise TandemError(f"{step}: found no input with a batch, expected a step of `tandem export`")


def _nodes_of(cluster, is_varied):
    """Kind of device, how many a node has, and the key of the network's link, which may be the nodes' own.

    TandemError for machines that differ, and for measured times of a network that is varied.
    """
    if not os.path.exists(cluster):
        raise TandemError(f"cannot read '{cluster}': No such file or directory")
    with tempfile.TemporaryDirectory(prefix="tandem-sweep-") as folder:
        path = Path(folder) / "read.yaml"  # as it is always printed
        if error := _run("tandem-profile", "--show", cluster, "-o", path):
            raise TandemError(error)
        text = path.read_text()
    groups = re.findall(r"^ *devices: \{(.*)\}$", text, re.MULTILINE)
    kinds = re.findall(r"'?([^',]+?)'?: (\d+)", groups[0]) if len(groups) == 1 else []
    if len(kinds) != 1:
        raise TandemError(f"{cluster}: machines differ, expected one group of nodes with one kind")
    if is_varied and re.search(r"^ *- \{collective: .* link: network,", text, re.MULTILINE):
        raise TandemError(
            f"{cluster}: has measured collectives of the network, which hold for one bandwidth:"
            " expected no --bandwidth, or a file without them"
        )
    own = re.search(r"^nodes:\n(?: .*\n)*      network:$", text, re.MULTILINE)
    network = "nodes.0.link.network" if own else "link.network"
    return kinds[0][0].strip(), int(kinds[0][1]), network
