"""demo-cuda: trains a mixture-of-experts BERT on four ranks of the CUDA device, on the CPU device and in PyTorch.

The device is this machine's GPU, else the emulated one, which is correct and slow. Four ranks share it.
"""

import argparse
import sys
import time
from pathlib import Path

from cuda_device import choose_device

ROOT = Path(__file__).resolve().parents[1]
STEPS, MESH, MICRO, PLAN = 10, "data=4", 2, "expert-parallel"
SIZES = "layers=2,width=64,heads=4,hidden=128,seq=32,batch=16,vocab=256,dropout=0.0"


def train(title, batches, one):
    """The losses of one(batch) on each batch."""
    begin = time.perf_counter()
    losses = [one(batch).item() for batch in batches]
    seconds = (time.perf_counter() - begin) / len(batches)
    print(f"{title:17} loss {losses[0]:.6f} -> {losses[-1]:.6f}  {seconds:.2f} s/step", flush=True)
    return losses


def train_in_tandem(title, file, batches, device, timeline=None):
    """Losses, and the parameters behind the last step."""
    import contextlib

    import tandem

    model = file.make_model()
    step = tandem.compile(
        model,
        file.loss,
        file.make_optimizer(model),
        batches[0],
        mesh=MESH,
        plan=PLAN,
        micro=MICRO,
        device=device,
    )
    with step.trace(timeline) if timeline else contextlib.nullcontext():
        losses = train(title, batches, step)
    return losses, step.state_dict()


def train_in_torch(file, batches):
    model = file.make_model()
    optimizer = file.make_optimizer(model)

    def one(batch):
        optimizer.zero_grad(set_to_none=True)
        loss = file.loss(model, batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return train("PyTorch", batches, one), model.state_dict()


def print_differences(name, found, expected):
    losses, values = (
        max(abs(a - b) for a, b in zip(found[0], expected[0], strict=True)),
        max((found[1][key] - value).abs().max().item() for key, value in expected[1].items()),
    )
    print(f"largest difference to {name}: losses {losses:.1e}, parameters {values:.1e}")


def main():
    argparse.ArgumentParser(prog="demo-cuda", description=__doc__).parse_args()
    device = choose_device()
    from tandem.capture.model_file import load_model_file

    file = load_model_file(ROOT / "examples" / "bert_moe.py", None, SIZES, "float32")
    batches = file.batches(STEPS)
    print(f"bert_moe ({SIZES}) {PLAN} on {MESH}, {MICRO} microbatches; CUDA is {device}")
    timeline = ROOT / "demo" / "cuda.json"
    timeline.parent.mkdir(exist_ok=True)
    on_cuda = train_in_tandem(device, file, batches, "cuda", timeline)
    on_cpu = train_in_tandem("the CPU device", file, batches, "cpu")
    print_differences("the CPU device", on_cuda, on_cpu)
    print_differences("PyTorch", on_cuda, train_in_torch(file, batches))
    print(f"timeline of the streams: {timeline.relative_to(ROOT)} (https://ui.perfetto.dev)")
    return 0


if __name__ == "__main__":
    from tandem.errors import TandemError

    try:
        sys.exit(main())
    except TandemError as error:
        sys.exit(f"demo-cuda: error: {error}")
