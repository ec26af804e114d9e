"""The processes that torchrun, srun or mpirun has started: they train one model together."""

import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from datetime import timedelta

from . import errors
from .native import native


def join():
    """What connects this process with the others of its job; None if it is alone."""
    if native().num_processes() == 1:
        return None
    _find_port()
    return native().Processes.join()


def _find_port():
    """MASTER_PORT is that of torchrun's own store, which tells ours."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" or "TANDEM_PORT" in os.environ:
        return
    from torch.distributed import TCPStore

    address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    key = f"tandem/port/{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}"
    seconds = float(os.environ.get("TANDEM_TIMEOUT", 30))
    try:
        store = TCPStore(address, int(port), is_master=False, timeout=timedelta(seconds=seconds))
        if os.environ.get("RANK") == "0":
            store.set(key, str(native().listen_for_processes()))
        os.environ["TANDEM_PORT"] = store.get(key).decode()
    except (RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise errors.JobError(
            f"job: torchrun's store at {address} port {port} does not tell Tandem's port ({reason});"
            " expected TANDEM_PORT with a free one of the first host"
        ) from error


def check_module(job, module):
    """That all processes have captured the same step, wherever its files are."""
    text = re.sub(r"loc\(.*|\"[^\"]*\.py\":\d+(:\d+)?", "", module.mlir)
    job.agree("captured step", hashlib.sha256(text.encode()).hexdigest())


@dataclass
class Compiled:
    """What process 0 has compiled, on the others."""

    bytes: bytes
    plan: str
    plan_table: str
    remarks: list = field(default_factory=list)


def compile_once(job, compile_step):
    """Process 0 compiles for all; an error is that of all."""
    result, error, payload = None, None, b""
    if job.process == 0:
        try:
            result = compile_step()
            head = {key: getattr(result, key) for key in ("plan", "plan_table", "remarks")}
            payload = json.dumps(head).encode() + b"\0" + result.bytes
        except errors.TandemError as raised:
            error = raised
            head = {"error": type(raised).__name__, "message": str(raised)}
            payload = json.dumps(head).encode() + b"\0"
    head, _, program = job.broadcast(payload).partition(b"\0")
    if error is not None:
        raise error
    if result is not None:
        return result
    head = json.loads(head)
    if "error" in head:
        raise errors.CompileError(f"process 0: {head['message']}")
    return Compiled(program, **head)
