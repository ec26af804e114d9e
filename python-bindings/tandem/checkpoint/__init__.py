"""Checkpoints: the complete state of a step, in a folder.

    checkpoint.json                              the index, written last (index.py)
    <token>-00000-of-00002.safetensors, ...      one shard per process (shards.py) with its boxes (layout.py)
    <token>.saving                               exists while a save runs (marks.py)

A save writes shards under new names, then replaces the index, and then removes files that no index names. If a save is
interrupted, one of the two checkpoints is whole.
"""

import contextlib
import json
import os
import secrets

import torch

from ..base import job as jobs
from ..base import outputs
from ..base.notices import tell
from ..errors import CheckpointError
from ..tracing.arguments import text_of
from . import files, layout, marks, plain, shards
from . import index as indices
from .fit import fit
from .training import Training

_MOST_NAMES = 3  # of parameters in a warning


class StoredValues:
    """The values of a step that outlive it: `places` {key: (session, its argument)}, `wholes`, `unused` {key: tensor}
    those that the Program does not use, and `missing` {key: argument} of these what has no value yet.
    """

    def __init__(self, step):
        self.ranks, self.places, self.wholes = list(step._session.ranks), {}, {}
        arguments = step._arguments
        self.sessions = step._programs.sessions
        for session in self.sessions:
            for index, whole in enumerate(session.arguments):
                key = f"{whole.role}/{whole.name}"
                if whole.role in indices.STORED and key not in self.places and key in arguments:
                    self.places[key], self.wholes[key] = (session, index), whole
        beside = {
            key: argument if argument.value is None else argument.value
            for key, argument in arguments.items()
            if argument.role in ("parameter", "buffer") and key not in self.places
        } | step._kept
        stored = {k: v for k, v in beside.items() if k.startswith(("parameter/", "buffer/"))}
        self.unused = {k: v for k, v in stored.items() if isinstance(v, torch.Tensor)}
        self.missing = {k: v for k, v in stored.items() if k not in self.unused}

    def describe(self):
        """{key: (type, shape)} of those that have values."""
        described = {k: (w.type, tuple(w.shape)) for k, w in self.wholes.items()}
        return described | {
            k: (layout.name_of(t.dtype), tuple(t.shape)) for k, t in self.unused.items()
        }

    def describe_missing(self, key):
        argument = self.missing[key]
        return layout.name_of(argument.dtype), tuple(argument.shape)


def _path_of(folder, instead=""):
    try:
        name = os.fsdecode(os.fspath(folder))
        if not name or "\0" in name:
            raise ValueError("no name of a file")
        return os.path.abspath(name)
    except (TypeError, ValueError):
        raise CheckpointError(
            f"checkpoint: folder is {text_of(folder)}, expected a path{instead}"
        ) from None


def _training_of(step, scheduler):
    names = dict(step._parameters_in_order())
    return Training(step._optimizer, names, scheduler, step._check_groups)


def _ranks(job, ranks):
    """The ranks of all processes."""
    if job is None:
        return [ranks]
    return [json.loads(text) for text in job.exchange("ranks", json.dumps(ranks))]


# Saving


def _encoded(extra):
    try:
        return plain.encode(extra, "extra")
    except RecursionError:
        raise CheckpointError(
            "extra: is nested too deep, or holds itself, expected what a checkpoint can hold"
        ) from None


def save(step, folder, scheduler=None, extra=None):
    """What `Step.save` says."""
    job, folder = jobs.join(), _path_of(folder)
    what = f"checkpoint {folder!r}"

    def begin():
        _check_whole(step, what)
        notes = _encoded(extra)
        counts = {n: step._counts.of(n, step.count) for n in step._programs.updated}
        return _training_of(step, scheduler).save() | {"counts": counts}, notes

    training, extra = jobs.together(job, "save", begin)
    values = StoredValues(step)
    shares = layout.share_out(values, _ranks(job, values.ranks))
    process = 0 if job is None else job.process
    with _saving_in(job, folder, what) as token:
        name = marks.shard_name(token, process, len(shares))
        shard = _write_shard(job, folder, name, shares[process], what)
        # From here on process 0 may name the shard: what ends this save leaves it for the next one to remove.
        index = _index_of(values, shares, _exchange(job, shard), training, extra)

        def finish():
            if process == 0:
                with _told_as_error(what, indices.NAME):
                    indices.write(folder, index, token)

        jobs.together(job, "save", finish)
    if process == 0:
        with contextlib.suppress(OSError):
            indices.remove_unnamed(folder)


def _write_shard(job, folder, name, parts, what):
    def write(stop):
        with _told_as_error(what, name):
            return shards.write(folder, name, parts, stop)

    try:
        return jobs.keep_together(job, "save", write)
    except BaseException:
        files.remove(os.path.join(folder, name))
        raise


def _check_whole(step, what):
    step._check_values()
    damaged = [f"{t.role}/{t.name}" for t in step.store.tensors if t.damaged]
    if damaged:
        raise CheckpointError(
            f"{what}: {damaged[0]!r} is damaged by a step that failed, expected values that are whole: load them first"
        )


def _check_place(folder, what):
    """That the index takes the place of nothing, or of another one. Raises OSError."""
    path = os.path.join(folder, indices.NAME)
    if not os.path.lexists(path):
        return
    reason = "found none, expected a regular file"
    if os.path.isfile(path):
        reason = outputs.reason_against(path, outputs.CHECKPOINT)
    if reason:
        raise CheckpointError(
            f"{what}: cannot write {indices.NAME!r}: {reason}; save to another folder"
        )


@contextlib.contextmanager
def _told_as_error(what, name):
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"{what}: cannot write {name!r}: {error.strerror}; a checkpoint that was there is as it was"
        ) from error


@contextlib.contextmanager
def _saving_in(job, folder, what):
    """Makes the folder, which has to be one for all processes, and yields a token for the names in it, which no other save
    has. Within it the save is marked as one that runs.
    """
    token = secrets.token_hex(8)
    if job is not None:
        token = job.exchange("token", token)[0]
    first, mark = job is None or job.process == 0, marks.path_of(folder, token)

    def make():
        if os.path.exists(folder) and not os.path.isdir(folder):
            raise CheckpointError(
                f"{what}: found a file, expected a folder, or nothing, to save in"
            )
        with _told_as_error(what, os.path.basename(mark)):
            _check_place(folder, what)
            files.make_folder(folder)
            indices.remove_unnamed(folder)
            stack.enter_context(marks.marked(folder, token))

    def look():
        if not os.path.exists(mark):
            raise CheckpointError(
                f"{what}: is another folder than that of process 0, expected one that all processes share"
            )

    with contextlib.ExitStack() as stack:
        jobs.together(job, "save", make if first else lambda: None)
        jobs.together(job, "save", look)
        yield token


def _exchange(job, shard):
    """The shards of all processes."""
    if job is None:
        return [shard]
    texts = job.exchange("shard", json.dumps(vars(shard)))
    return [indices.Shard(**json.loads(text)) for text in texts]


def _index_of(values, shares, every, training, extra):
    tensors = {
        key: indices.Stored(type_name, shape, [])
        for key, (type_name, shape) in values.describe().items()
    }
    for number, share in enumerate(shares):
        for part, begin in zip(share, shards.begins(share), strict=True):
            piece = indices.Piece(number, begin, part.offsets, part.extents)
            tensors[part.key].pieces.append(piece)
    return indices.Index(tensors, every, training, extra)


# Loading


def load(step, folder, scheduler=None):
    """What `Step.load` says."""
    instead = " (values of torch objects: step.load(model=..., optimizer=...))"
    job, folder = jobs.join(), _path_of(folder, instead)
    what = f"checkpoint {folder!r}"
    values = StoredValues(step)

    def check():
        index, digest = indices.read(folder)
        training = _training_of(step, scheduler)
        fitted = fit(step, values, index, training, what)
        shards.check_sizes(folder, index.shards)
        return index, digest, training, fitted

    index, digest, training, fitted = jobs.together(job, "load", check)
    jobs.check_same(job, "load", lambda: {"a checkpoint with hash": digest})
    process, count = (0, 1) if job is None else (job.process, len(job.exchange("load", "")))
    jobs.keep_together(
        job, "load", lambda stop: shards.check_hashes(folder, index, process, count, stop)
    )
    for session in values.sessions:
        session.begin_loading(what)

    def read(stop):
        try:
            _read(step, values, fitted, shards.Reader(folder, index.shards), stop)
        except OSError as error:
            raise CheckpointError(f"{what}: cannot be read: {error.strerror}") from error

    jobs.keep_together(job, "load", read)
    for session in values.sessions:
        session.end_loading()
    step._counts.load(fitted.counts, step.count)
    training.restore(fitted.training)
    step._missing.clear()
    step._took_over()
    if fitted.frozen and process == 0:
        _tell_of_frozen(what, fitted.frozen)
    return fitted.extra


def _tell_of_frozen(what, names):
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    listed = ", ".join(map(repr, names[:_MOST_NAMES]))
    tell(
        f"{what}: was saved when {listed}{more} did not train; what the optimizer keeps of"
        f" {'them' if len(names) > 1 else 'it'} begins anew"
    )


def _read(step, values, fitted, reader, stop):
    """What the ranks of this process have, box by box."""
    tensors, own = fitted.tensors, set(values.ranks)

    def box(key, offsets, extents):
        if stop():
            raise shards.Stopped
        if key in tensors:
            return reader.box(tensors[key], offsets, extents)
        ranges = (slice(o, o + e) for o, e in zip(offsets, extents, strict=True))
        return fitted.fresh[key][tuple(ranges)]

    for key, (session, number) in values.places.items():
        if key not in tensors and key not in fitted.fresh:
            continue
        for (offsets, extents), places in layout.boxes(session, number).items():
            here = [place for place in places if place[1] in own]
            if here and 0 not in extents:
                data = layout.as_bytes(box(key, offsets, extents))
                for member, rank in here:
                    session.write_slice(member, rank, 0, data)
    for key in (*values.unused, *values.missing):
        if key in tensors:
            shape = tensors[key].shape
            step._keep(key, box(key, (0,) * len(shape), shape).clone())
