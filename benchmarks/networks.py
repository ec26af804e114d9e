#!/usr/bin/env python3
"""A training step of image networks on one core, in Tandem and in PyTorch.

    benchmarks/networks.py [--only resnet vit] [--without torch.compile] [--turns 5] [--check] [--json FILE]

ResNet-18 with images of 64 x 64, batch 32 (examples/resnet.py), and ViT-tiny (width 192, 12 layers, patches of 16) with
images of 224 x 224, batch 8; float32, SGD with momentum, one thread. The contestants are Tandem, eager, eager in
channels_last, and `torch.compile`. They take turns in one process on one pinned core. A ratio to PyTorch's best is
taken per turn, and the medians count.
"""

import copy
import os
import statistics
import time

import tandem
import torch
import torch.nn.functional as F
from harness import ROOT, Report, make_parser
from tandem.capture.model_file import load_model_file

# Of a step: to the best of PyTorch's.
MOST = 1.0
SKIPPED = 2  # steps of each before the first turn


def resnet():
    file = load_model_file(ROOT / "examples" / "resnet.py", "bench", "", "float32")
    return file.make_model(), file.loss, file.batches(1)[0]


def vit():
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    sizes = dict(
        hidden_size=192, num_hidden_layers=12, num_attention_heads=3, intermediate_size=768
    )
    model = ViTForImageClassification(ViTConfig(**sizes, num_labels=1000))
    batch = torch.randn(8, 3, 224, 224), torch.randint(0, 1000, (8,))
    return model, lambda model, batch: F.cross_entropy(model(batch[0]).logits, batch[1]), batch


MODELS = {"resnet": resnet, "vit": vit}


def make_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)


def in_pytorch(model, loss_fn, batch, prepare):
    """A step in PyTorch; `prepare(model, images)` gives those that it takes."""
    model, images = prepare(copy.deepcopy(model), batch[0])
    optimizer = make_optimizer(model)

    def step():
        optimizer.zero_grad()
        loss_fn(model, (images, batch[1])).backward()
        optimizer.step()

    return step


def in_tandem(model, loss_fn, batch):
    model = copy.deepcopy(model)
    step = tandem.compile(model, loss_fn, make_optimizer(model), batch)
    return lambda: step(batch)


def _last(model, images):
    layout = torch.channels_last
    return model.to(memory_format=layout), images.to(memory_format=layout)


PYTORCH = {
    "eager": lambda model, images: (model, images),
    "channels_last": _last,
    "torch.compile": lambda model, images: (torch.compile(model), images),
}


def seconds_of(step):
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


def measure(name, options):
    """One row: milliseconds of each, and Tandem's ratio to the best of the others."""
    model, loss_fn, batch = MODELS[name]()
    others = {n: prepare for n, prepare in PYTORCH.items() if n not in options.without}
    steps = {"tandem": in_tandem(model, loss_fn, batch)}
    steps |= {n: in_pytorch(model, loss_fn, batch, prepare) for n, prepare in others.items()}
    for step in steps.values():
        for _ in range(SKIPPED):
            step()
    turns = [{n: seconds_of(step) for n, step in steps.items()} for _ in range(options.turns)]
    row = {n: 1e3 * statistics.median(turn[n] for turn in turns) for n in steps}
    ratios = [turn["tandem"] / min(turn[n] for n in others) for turn in turns]
    return {"model": name} | row | {"ratio": statistics.median(ratios)}


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--only", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--without", nargs="*", default=[], choices=list(PYTORCH))
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    report, rows = Report(), []
    print("a step on one core, ms")
    for name in options.only:
        rows.append(measure(name, options))
        times = "   ".join(
            f"{n} {t:7.1f}" for n, t in rows[-1].items() if n not in ("model", "ratio")
        )
        print(f"  {name:7} {times}   ratio {rows[-1]['ratio']:.2f}", flush=True)
    report.add("networks of images on one core", rows)
    for row in rows:
        report.limit(f"{row['model']}, to the best of PyTorch's", row["ratio"], MOST, "")
    report.finish(options)


if __name__ == "__main__":
    main()
