"""The processes of a job, started by torchrun, srun or mpirun to train one model."""

import contextlib
import json
import os
import secrets
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, fields
from datetime import timedelta

from .. import errors
from .native import native

# Seconds until a process that does a long piece of work says again that it lives.
_LONGEST_PAUSE = 1.0


def join():
    """What connects this process with the others of its job; None if it is alone."""
    if native().num_processes() == 1:
        return None
    _ask_launcher()
    job = native().Processes.join()
    _tell_of_errors()
    return job


def _ask_launcher():
    """MASTER_PORT is that of torchrun's own store. It tells the port of the job, and the secret, which process 0 makes: what
    the environment does not say.
    """
    named = {"TANDEM_PORT": _listen, "TANDEM_JOB_SECRET": secrets.token_hex}
    missing = [name for name in named if name not in os.environ]
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" or not missing:
        return
    from torch.distributed import TCPStore

    address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    count = os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)
    seconds = float(os.environ.get("TANDEM_TIMEOUT", 30))
    try:
        store = TCPStore(address, int(port), is_master=False, timeout=timedelta(seconds=seconds))
        for name in missing:
            key = f"tandem/{count}/{name}"
            if os.environ.get("RANK") == "0":
                store.set(key, named[name]())
            os.environ[name] = store.get(key).decode()
    except (RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise errors.JobError(
            f"job: torchrun's store at {address} port {port} does not tell Tandem's port and secret ({reason});"
            " expected TANDEM_PORT with a free one of the first host, and TANDEM_JOB_SECRET"
        ) from error


def _listen():
    return str(native().listen_for_processes())


_tells = False


def _tell_of_errors():
    """From now on an exception that ends this process is an error of all, at once."""
    global _tells
    if _tells:
        return
    _tells, print_error = True, sys.excepthook

    def tell(kind, error, trace):
        try:
            print_error(kind, error, trace)
        finally:
            native().Processes.leave(_words(error))

    sys.excepthook = tell


def _words(error):
    """An exception on one line, as Python prints it."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def together(job, what, call):
    """What `call` returns. All processes of a job come here, and go on if none has an error; else it is
    that of all.
    """
    if job is None:
        return call()
    try:
        result = call()
    except BaseException as error:
        with contextlib.suppress(errors.JobError):
            job.conclude(what, _words(error))
        raise
    job.conclude(what, "")
    return result


def attempt(make):
    """(the text that `make` gives, None), or what tells other processes of its error, with the error: for an exchange."""
    try:
        return make(), None
    except BaseException as error:
        return f"error {_words(error)}", error


def raise_told(texts):
    """JobError if the text of a process tells of an error."""
    for process, text in enumerate(texts):
        if text.startswith("error "):
            raise errors.JobError(f"process {process} ended with {text.removeprefix('error ')}")


def keep_together(job, what, work):
    """What `work(stop)` returns, which may take long: meanwhile the processes of the job tell each other that they live,
    and an error of one is that of all. `stop()` is true once there is one, and then `work` should end.
    """
    if job is None:
        return work(lambda: False)
    stop = threading.Event()
    with ThreadPoolExecutor(1, f"tandem-{what}") as pool:
        try:
            return _beat(job, what, pool.submit(work, stop.is_set))
        finally:
            stop.set()


def _beat(job, what, future):
    pause = 0.01
    while True:
        try:
            wait([future], pause)
            error = future.exception() if future.done() else None
            state = "done" if future.done() else "busy"
            states = job.exchange(what, f"error {_words(error)}" if error else state)
        except errors.JobError:
            raise
        except BaseException as interruption:
            with contextlib.suppress(errors.JobError):
                job.exchange(what, f"error {_words(interruption)}")
            raise
        if error:
            raise error
        raise_told(states)
        if set(states) == {"done"}:
            return future.result()
        pause = min(2 * pause, _LONGEST_PAUSE)


def check_same(job, what, make_texts):
    """That all processes have the same {name: text}; one error for all names what is not."""
    if job is None:
        return
    own = together(job, what, make_texts)
    every = [json.loads(texts) for texts in job.exchange(what, json.dumps(own))]
    for name in dict.fromkeys(name for texts in every for name in texts):
        expected, *others = (texts.get(name, "nothing") for texts in every)
        for process, found in enumerate(others, 1):
            if found != expected:
                raise errors.JobError(
                    f"process {process} has {name} {found}, expected {expected} as process 0"
                )


def check_module(job, module):
    """That all processes have captured the same step, wherever its files are."""
    check_same(job, "step", lambda: {"captured step": native().hash_step(module.mlir, "step.mlir")})


@dataclass
class Compiled:
    """What process 0 has compiled, on the others: all that it has itself."""

    bytes: bytes
    plan: str
    plan_table: str
    layouts: str
    explanation: str
    explanation_json: str
    ir: list
    remarks: list
    seconds: list


def compile_once(job, compile_step):
    """Process 0 compiles for all; an error is that of all."""
    if job is None:
        return compile_step()
    if job.process != 0:
        head, _, program = job.broadcast(b"").partition(b"\0")
        head = json.loads(head)
        if "error" in head:
            raise errors.JobError(f"process 0 ended with {head['error']}")
        return Compiled(program, **head)
    try:
        result = compile_step()
    except BaseException as error:
        with contextlib.suppress(errors.JobError):
            job.broadcast(json.dumps({"error": _words(error)}).encode() + b"\0")
        raise
    names = [field.name for field in fields(Compiled) if field.name != "bytes"]
    head = json.dumps({name: getattr(result, name) for name in names})
    job.broadcast(head.encode() + b"\0" + result.bytes)
    return result
