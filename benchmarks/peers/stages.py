"""torch.distributed.pipelining on a host: reads what to run from standard input, a JSON object in a line.

{"schedule": "Schedule1F1B", "sizes": {...}, "microbatches": 8, "layers": [2, 2, 2, 2], "steps": 7, ...}

With "actions", seconds of [F, I, W] of each section, and "update", seconds of each point, modules sleep: rank 0 answers
with the seconds of steps. Without, they compute: it answers with losses. "sections" are the numbers of each point's.
"order" is the text of an order for which torch has no class.
"""

import tempfile
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from tandem.capture.model_file import load_model_file
from torch import nn
from torch.distributed import pipelining
from torch.distributed.pipelining import schedules

from . import sleeping
from .worker import ROOT, WARM_UP, serve


class Layers(nn.Module):
    """A section of examples/llama.py."""

    def __init__(self, module, model, first, count):
        super().__init__()
        self._rotary, self._size, self._theta = module.rotary, model.size, model.theta
        self.tokens = model.tokens if first == 0 else nn.Identity()
        self.layers = model.layers[first : first + count]
        is_last = first + count == len(model.layers)
        self.after = nn.Sequential(model.norm, model.head) if is_last else nn.Identity()

    def forward(self, x):
        x = self.tokens(x)
        cos, sin = self._rotary(x.shape[1], self._size, self._theta, x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.after(x)


class Sleeping(nn.Module):
    """A section whose F, I and W take the given seconds; F gives a tensor of `shape`. I and W are nodes of their own,
    behind one that takes no time: torch runs the node where they meet in both parts of a split backward pass.
    """

    def __init__(self, clock, shape, seconds):
        super().__init__()
        self._clock, self._shape, self._seconds = clock, shape, seconds
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        forward, of_input, of_weight = self._seconds
        if not x.requires_grad:  # tokens: torch does all of the first section in W
            of_input, of_weight = 0.0, of_input + of_weight
        own = sleeping.Sleep.apply(self._clock, (1,), 0.0, of_weight, self.weight)
        x = sleeping.Sleep.apply(self._clock, (1,), forward, of_input, x)
        return sleeping.Sleep.apply(self._clock, self._shape, 0.0, 0.0, x, own)


def make_sections(request, file, model, clock):
    """Those of this point, by their numbers."""
    sizes, layers = request["sizes"], request["layers"]
    rows = sizes["batch"] // request["microbatches"]
    for number in request["sections"][dist.get_rank()]:
        if "actions" not in request:
            yield number, Layers(file.module, model, sum(layers[:number]), layers[number])
            continue
        width = 256 if number == len(layers) - 1 else sizes["width"]
        yield (
            number,
            Sleeping(clock, (rows, sizes["seq"], width), request["actions"][number]),
        )


def make_loss(request):
    if "actions" in request:  # its time is that of the last section
        return lambda logits, targets: logits[
            0, 0, 0
        ].clone()  # torch detaches it, which a view refuses
    return lambda logits, targets: F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def make_schedule(request, sections):
    kind = getattr(schedules, request["schedule"])
    stages = [
        pipelining.PipelineStage(module, number, len(request["layers"]), device=torch.device("cpu"))
        for number, module in sections
    ]
    is_single = issubclass(kind, schedules.PipelineScheduleSingle)
    schedule = kind(
        stages[0] if is_single else stages, request["microbatches"], loss_fn=make_loss(request)
    )
    if "order" in request:
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write(request["order"])
            file.flush()
            schedule._load_csv(file.name)
    return schedule


def run(request):
    timed, clock = "actions" in request, sleeping.Clock()
    sizes = {key: request["sizes"][key] for key in ("batch", "seq")} if timed else request["sizes"]
    file = load_model_file(ROOT / "examples/llama.py", None, sizes, "float32")
    sections = list(make_sections(request, file, None if timed else file.make_model(), clock))
    schedule = make_schedule(request, sections)
    step = Step(schedule, sections)
    batches = file.batches(request["steps"] + (WARM_UP if timed else 0))
    if not timed:
        optimizer = file.module.optimizer(nn.ModuleList(module for _, module in sections))
        return {"losses": [step.train(*batch, optimizer) for batch in batches]}
    update = request["update"][dist.get_rank()]
    return {"seconds": [step.sleep(*batch, clock, update) for batch in batches][WARM_UP:]}


class Step:
    def __init__(self, schedule, sections):
        self._schedule, self._sections = schedule, sections
        numbers = [number for number, _ in sections]
        self._is_first = 0 in numbers
        stages = getattr(schedule, "_stages", None) or [schedule._stage]
        self._is_last = any(stage.is_last for stage in stages)

    def run(self, tokens, targets):
        """The losses of the microbatches, on the last point."""
        for _, module in self._sections:
            module.zero_grad(set_to_none=True)
        losses = [] if self._is_last else None
        self._schedule.step(
            *([tokens] if self._is_first else []),
            target=targets if self._is_last else None,
            losses=losses,
            return_outputs=False,
        )
        return losses

    def train(self, tokens, targets, optimizer):
        losses = self.run(tokens, targets)
        optimizer.step()
        loss = torch.stack(losses).mean().detach() if losses else torch.zeros(())
        dist.all_reduce(loss)
        return loss.item()

    def sleep(self, tokens, targets, clock, update):
        clock.start()
        begin = time.perf_counter()
        self.run(tokens, targets)
        # As Tandem's verdict on gradients, and as a norm over all of them: no point writes before all have theirs.
        dist.all_reduce(torch.zeros(1))
        clock.sleep(update)
        return time.perf_counter() - begin


if __name__ == "__main__":
    serve(run)
