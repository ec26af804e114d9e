"""Batches of a job: each process passes its own part, or with `batch="global"` the whole batch.

Parts are as a DistributedSampler gives them. A step covers the whole batch. Processes whose ranks have equal
coordinates on the axes that split the batch have the same rows. Rows are in the order of microbatches, then of those
coordinates.
"""

import contextlib
import hashlib
import itertools
import json
import math

import torch

from ..base import job as jobs
from ..base import tree
from ..base.meshes import axes_of
from ..base.native import native
from ..base.options import batch_of_plan
from ..base.reading import guarded
from ..errors import BatchError, CompileError, JobError, RunError, StateError, shown
from ..tracing.arguments import kind_of, text_of
from .rows import count_rows, map_rows

MODES = ("local", "global")
# What a report does not name.
_CAPTURED = "as captured"


def check_processes(mesh, processes):
    """JobError before the capture unless the ranks of the mesh, a list of (axis, size), divide over the processes."""
    ranks = math.prod(size for _, size in mesh)
    if ranks % processes:
        named = ", ".join(f"{name}={size}" for name, size in mesh)
        raise JobError(
            f"mesh {named or 'of one rank'} has {ranks} ranks, and the job {processes} processes (WORLD_SIZE), expected"
            f" a mesh of {processes} ranks or a multiple"
        )


def _axes_of_batch(mesh, plan):
    """The indices of the axes over which a plan is taken to split the batch; it is checked when it is there. All points of
    a pipeline have the same batch.
    """
    kinds, batch = native().PresetBatch, batch_of_plan(plan)
    inside = [index for index, (name, _) in enumerate(mesh) if name != "pipe"]
    if batch == kinds.ALL:
        return inside
    if batch == kinds.WHOLE or (batch == kinds.DATA_OF_SEVERAL and len(inside) == 1):
        return []
    named = [index for index in inside if mesh[index][0] == "data"]
    return named or (inside if len(inside) == 1 else [])


class ProcessBatches:
    def __init__(self, mode, job, mesh=None, plan=None):
        """`job` is None for a process that is alone, which has all rows. `mesh` is that of `tandem.compile`."""
        if mode not in MODES:
            raise CompileError(f"batch is {shown(mode)}, expected one of {', '.join(MODES)}")
        self._job, self._mesh = job, axes_of(mesh)
        # Of all processes; 0: found later.
        self.num_ranks = 0 if mesh == "auto" else math.prod(size for _, size in self._mesh)
        self._is_first = job is not None
        self._is_local = job is not None and mode == "local"
        self.parts, self._slices = 1, 1
        if job is None:
            return
        if mesh == "auto":
            if self._is_local:
                raise CompileError(
                    "mesh='auto' says only after the capture which rows are a process's own, expected"
                    " compile(..., batch='global')"
                )
            return
        self._processes = native().num_processes()
        check_processes(self._mesh, self._processes)
        if self._is_local:
            axes = _axes_of_batch(self._mesh, plan)
            self.parts, own, _ = self._split(axes, [size for _, size in self._mesh])
            self._slices = len(own)

    def _split(self, axes, sizes):
        """(how many parts processes have together, the slices of this process, those of every process): of a dimension
        that `axes` of a mesh of these sizes split.
        """
        coordinates = list(itertools.product(*(range(size) for size in sizes)))
        each = len(coordinates) // self._processes
        slices = []
        for process in range(self._processes):
            ranks = coordinates[process * each : (process + 1) * each]
            numbers = set()
            for rank in ranks:
                number = 0
                for axis in axes:
                    number = number * sizes[axis] + rank[axis]
                numbers.add(number)
            slices.append(sorted(numbers))
        total = math.prod(sizes[axis] for axis in axes)
        own = slices[self._job.process]
        if any(len(s) != len(own) or (set(s) & set(own) and s != own) for s in slices):
            raise JobError(
                "batch: the ranks of a process have rows that overlap those of another, expected batch='global'"
            )
        return total // len(own), own, slices

    def widen(self, batch):
        """A batch of the whole one's shapes, in which the rows of other processes are arbitrary."""
        if self.parts == 1:
            return batch
        return map_rows(lambda t: torch.cat([t] * self.parts), batch)

    def check_divides(self, batch):
        """BatchError unless the ranks of this process, which cannot compute those of others, have equal parts of its rows."""
        rows = count_rows(batch)
        if rows and rows % self._slices:
            raise BatchError(
                f"batch: this process has {rows} rows, which do not divide over its {self._slices} ranks that split the"
                " batch, expected a multiple; drop the rest, or fill it up, or give whole batches with"
                " compile(..., batch='global')"
            )

    def place(self, batch, inputs, program):
        """`inputs`, pairs of a key and the tensor in the widened batch, with the rows of `batch` where `program` has the
        ranks of this process take them.
        """
        if self.parts == 1:
            return inputs
        forms = {f"input/{a.name}": a.form for a in program.arguments if a.role == "input"}
        sizes = [axis.size for axis in program.mesh]
        paths, _ = tree.flatten(batch)
        own = {f"input/{tree.name_of_path(path)}": leaf for path, leaf in paths}
        placed = []
        for key, tensor in inputs:
            form, local = forms.get(key), own[key]
            if form is not None and local.shape != tensor.shape:
                tensor = self._place(key, local, tensor, form.dims[0], sizes)
            placed.append((key, tensor))
        return placed

    def _place(self, key, local, tensor, form, sizes):
        parts, slices, _ = self._split(list(form.axes), sizes)
        if parts != self.parts:
            raise JobError(
                f"batch: the plan gives the processes {parts} parts of {key.partition('/')[2]!r}, expected"
                f" {self.parts}, one for each part of the axis 'data'; give whole batches, with batch='global'"
            )
        count = len(slices) * parts  # in all
        rows = tensor.shape[0] // (form.time_factor * count)
        shape = tensor.shape[1:]
        whole = tensor.reshape(form.time_factor, count, rows, *shape).clone()
        whole[:, slices] = local.reshape(form.time_factor, len(slices), rows, *shape)
        return whole.reshape(tensor.shape)

    def check_alike(self, batch, make_report):
        """The reports of all processes, of which each makes its own; an error of that is the error of all. BatchError, in all of
        them, unless their batches have the same names, types, sizes and constants: each size has a Program of its own, and two that
        meet in a collective would wait for each other, or add what does not belong together. StateError unless the reports'
        "alike" are the same: each process would train its ranks by its own. RunError, as in the step itself, if one does not come.
        """
        if self._job is None:
            return [make_report()]
        text, failure = jobs.attempt(lambda: json.dumps([_kinds(batch), make_report()]))
        try:
            texts = self._job.exchange("batch", text)
        except JobError as error:
            raise failure or RunError(str(error)) from None
        if failure is not None:
            raise failure
        jobs.raise_told(texts)
        kinds, reports = zip(*map(json.loads, texts), strict=True)
        for process, name, here, first in _differing(kinds):
            how = ": pad to one length, and drop the rows that are left over"
            raise BatchError(
                f"batch: {name} is {first} in process 0 and {here} in process {process}, expected the same"
                f" of all{how if name.startswith('tensor') else ''}"
            )
        for process, name, here, first in _differing([r["alike"] for r in reports], _CAPTURED):
            raise StateError(
                f"{name} is {first} in process 0 and {here} in process {process}, expected the same of all"
            )
        return reports

    def check_first(self, batch):
        """JobError if the first batches are not what the mode says: equal ones, or parts that are not."""
        if not self._is_first:
            return
        self._is_first = False
        every = self._job.exchange("first batch", _digest(batch))
        own = every[self._job.process]
        if not self._is_local or self.parts == 1:
            for process, digest in enumerate(every):
                if digest != every[0]:
                    raise JobError(
                        f"batch: process {process} has another one than process 0, expected the whole batch on all"
                        f" of them{'' if self._is_local else ', as batch=' + repr('global') + ' says'}"
                    )
            return
        axes = _axes_of_batch(self._mesh, None)
        _, _, slices = self._split(axes, [size for _, size in self._mesh])
        for process, digest in enumerate(every):
            if slices[process] == slices[self._job.process] and digest != own:
                raise JobError(
                    f"batch: processes {self._job.process} and {process} have the same part of the axis 'data', and"
                    " different rows, expected equal ones"
                )
        if len(set(every)) == 1:
            raise JobError(
                f"batch: all {len(every)} processes have the same rows, expected the part of each, as a"
                " DistributedSampler gives it; give whole batches with compile(..., batch='global')"
            )


def _differing(every, missing="not there"):
    """(process, name, its value there, that of process 0) of entries that are not those of process 0."""
    for process, entries in enumerate(every):
        for name in {**every[0], **entries}:
            here, first = (e.get(name, missing) for e in (entries, every[0]))
            if repr(here) != repr(first):  # NaN is itself.
                yield process, name, here, first


@contextlib.contextmanager
def told_with(settings):
    """Lets a JobError say what was set otherwise since the step was captured; `settings` are those of all processes."""
    try:
        yield
    except JobError as error:
        for process, name, here, first in _differing(settings, _CAPTURED):
            raise JobError(
                f"{error}: {name} is {first} in process 0 and {here} in process {process}"
            ) from None
        raise


def _kinds(batch):
    """{tensor or constant: type and sizes, or text}."""
    kinds = {}
    for path, leaf in tree.flatten(batch)[0]:
        name = tree.name_of_path(path)
        if isinstance(leaf, torch.Tensor):
            where = " on the meta device" if leaf.is_meta else ""
            kinds[f"tensor {name!r}"] = f"{kind_of(leaf)}{where}"
        else:
            kinds[f"constant {name!r}"] = text_of(leaf)
    return kinds


def _digest(batch):
    digest = hashlib.sha256()
    for path, leaf in tree.flatten(batch)[0]:
        if isinstance(leaf, torch.Tensor) and not leaf.is_meta:
            name = tree.name_of_path(path)
            with guarded(f"batch tensor {name!r}", leaf):
                data = leaf.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
                data = data.numpy().tobytes()
            digest.update(f"{name} {leaf.dtype} {tuple(leaf.shape)}".encode())
            digest.update(data)
    return digest.hexdigest()
