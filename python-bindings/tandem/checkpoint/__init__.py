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
    """The values of a step that outlive it: `places` {key: (session, index)} with their `arguments` there, `unused` {key: tensor}
    those that the Program does not use, and `missing` {key: argument} of these what has no value yet.
    """

    def __init__(self, values):
        """`values` are the `Values` of the step."""
        self.ranks, self.places, self.arguments = list(values.ranks), {}, {}
        known = values.arguments
        self.sessions = values.sessions
        for session in self.sessions:
            for index, argument in enumerate(session.arguments):
                key = f"{argument.role}/{argument.name}"
                if argument.role in indices.STORED and key not in self.places and key in known:
                    self.places[key], self.arguments[key] = (session, index), argument
        beside = {
            key: argument if argument.value is None else argument.value
            for key, argument in known.items()
            if argument.role in ("parameter", "buffer") and key not in self.places
        } | values.kept
        stored = {k: v for k, v in beside.items() if k.startswith(("parameter/", "buffer/"))}
        self.unused = {k: v for k, v in stored.items() if isinstance(v, torch.Tensor)}
        self.missing = {k: v for k, v in stored.items() if k not in self.unused}

    def describe(self):
        """{key: (type, shape)} of those that have values."""
        described = {k: (a.type, tuple(a.shape)) for k, a in self.arguments.items()}
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


def _training_of(state, scheduler):
    own = state.optimizer_dict
    return Training(own.optimizer, dict(own.parameters()), scheduler, own.check_groups)


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


def save(state, folder, scheduler=None, extra=None):
    """What `Step.save` says, of the `TrainState` of a step."""
    job, folder = jobs.join(), _path_of(folder)
    what = f"checkpoint {folder!r}"

    def begin():
        _check_whole(state.values, what)
        notes = _encoded(extra)
        counting, own = state.optimizer_dict.counting, state.values
        counts = {n: counting.of(n, own.count) for n in own.updated}
        return _training_of(state, scheduler).save() | {"counts": counts}, notes

    training, extra = jobs.together(job, "save", begin)
    values = StoredValues(state.values)
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


def _write_shard(job, folder, name, boxes, what):
    def write(stop):
        with _told_as_error(what, name):
            return shards.write(folder, name, boxes, stop)

    try:
        return jobs.keep_together(job, "save", write)
    except BaseException:
        files.remove(os.path.join(folder, name))
        raise


def _check_whole(values, what):
    values.check_missing()
    damaged = values.damaged
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
        for box, begin in zip(share, shards.begins(share), strict=True):
            piece = indices.Piece(number, begin, box.offsets, box.extents)
            tensors[box.key].pieces.append(piece)
    return indices.Index(tensors, every, training, extra)


# Loading


def load(state, folder, scheduler=None):
    """What `Step.load` says, of the `TrainState` of a step."""
    instead = " (values of torch objects: step.load(model=..., optimizer=...))"
    job, folder = jobs.join(), _path_of(folder, instead)
    what = f"checkpoint {folder!r}"
    values = StoredValues(state.values)

    def check():
        index, digest = indices.read(folder)
        training = _training_of(state, scheduler)
        fitted = fit(state, values, index, training, what)
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
            _read(state.values, values, fitted, shards.Reader(folder, index.shards), stop)
        except OSError as error:
            raise CheckpointError(f"{what}: cannot be read: {error.strerror}") from error

    jobs.keep_together(job, "load", read)
    for session in values.sessions:
        session.end_loading()
    state.optimizer_dict.counting.load(fitted.counts, state.values.count)
    training.restore(fitted.training)
    state.values.forget_missing()
    state.watching.took_over()
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


def _read(values, stored, fitted, reader, stop):
    """Reads what the ranks of this process have, box by box, into the `stored` ones of `values`."""
    tensors, own = fitted.tensors, set(stored.ranks)

    def box(key, offsets, extents):
        if stop():
            raise shards.Stopped
        if key in tensors:
            return reader.box(tensors[key], offsets, extents)
        ranges = (slice(o, o + e) for o, e in zip(offsets, extents, strict=True))
        return fitted.fresh[key][tuple(ranges)]

    for key, (session, number) in stored.places.items():
        if key not in tensors and key not in fitted.fresh:
            continue
        for (offsets, extents), places in layout.boxes(session, number).items():
            here = [place for place in places if place[1] in own]
            if here and 0 not in extents:
                data = layout.as_bytes(box(key, offsets, extents))
                for member, rank in here:
                    session.write_slice(member, rank, 0, data)
    for key in (*stored.unused, *stored.missing):
        if key in tensors:
            shape = tensors[key].shape
            values.keep(key, box(key, (0,) * len(shape), shape).clone())
