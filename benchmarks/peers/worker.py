"""A peer's process on a host: reads what to run from its standard input, a JSON object in a line; rank 0 answers so.

{"way": "ddp", "model": "gpt", "sizes": {...}, "bucket_mb": 4, "seconds": 0.1, "steps": 7}   a step's seconds, timed
{"way": "ddp", ..., "seconds": null}                                                         the losses, computed
{"way": "bytes", "bytes": 4194304}                                what collectives send, and what would be needed
"""

import gc
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from tandem.capture.model_file import load_model_file

from . import fallbacks, models, sleeping

ROOT = Path(__file__).resolve().parents[2]
WARM_UP = 2


def load(request):
    file = load_model_file(
        ROOT / "examples" / f"{request['model']}.py", None, request["sizes"], "float32"
    )
    return file, file.make_model()


def run(request):
    """Steps of a model: {"losses"} where they are computed, else {"seconds", "bytes"} of each."""
    file, model = load(request)
    model = models.WAYS[request["way"]](model, request.get("bucket_mb", 25), file.module)
    if request["seconds"] is None:
        return compute(request, file, model, file.batches(request["steps"]))
    schedule = sleeping.Schedule(request["seconds"])
    models.put_to_sleep(model, file.module, schedule)
    return measure(request, file, model, file.batches(request["steps"] + WARM_UP), schedule)


def compute(request, file, model, batches):
    optimizer, losses = file.make_optimizer(model), []
    for group in optimizer.param_groups:
        group["foreach"] = False  # which takes no tensors of several kinds
    for batch in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = models.get_loss(file.module, model, request["way"], batch)
        loss.backward()
        optimizer.step()
        whole = loss.detach().clone()
        dist.all_reduce(whole)
        losses.append(whole.item() / dist.get_world_size())
    return {"losses": losses}


def measure(request, file, model, batches, schedule):
    seconds, sent = [], []
    for batch in batches:
        schedule.begin()
        begin, before = time.perf_counter(), fallbacks.bytes_sent()
        model.zero_grad(set_to_none=True)
        models.get_loss(file.module, model, request["way"], batch).backward()
        seconds.append(time.perf_counter() - begin)
        sent.append(fallbacks.bytes_sent() - before)
    return {"seconds": seconds[WARM_UP:], "bytes": sent[WARM_UP:]}


def answer(request):
    if request["way"] == "bytes":
        return fallbacks.measure(request["bytes"])
    try:
        return run(request)
    finally:
        gc.collect()


def serve(answer):
    """Answers the requests of standard input, a line each."""
    torch.set_num_threads(1)
    # What libraries print is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    dist.init_process_group("gloo")
    for line in sys.stdin:
        result = answer(json.loads(line))
        if dist.get_rank() == 0:
            print(json.dumps(result), file=answers, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    serve(answer)
