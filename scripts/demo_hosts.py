"""demo-hosts: one process of a job that trains a mixture-of-experts BERT; torchrun starts it on every host.

Process 0 prints the losses, the hidden share of the communication, and the path of the timeline.
"""

import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEPS, MICRO, PLAN = 10, 2, "expert-parallel"
SIZES = "layers=4,width=128,heads=4,hidden=512,seq=64,batch=32,dropout=0.0"


def train(step, batches, say):
    for number, batch in enumerate(batches, 1):
        begin = time.perf_counter()
        loss = step(batch).item()
        say(f"step {number:2} loss {loss:.4f}  {1e3 * (time.perf_counter() - begin):4.0f} ms")


def print_report(step, timeline, say):
    report = step.report(skip=1)
    total = report["total"]
    parts = {
        key: f"{1e3 * total[key]:.0f} ms" for key in ("seconds", "computation", "communication")
    }
    say(
        f"a step takes {parts['seconds']}: {parts['computation']} of computation, {parts['communication']} of"
        f" communication, of which {total['hidden_share']:.0%} lay beside computation of the same rank"
    )
    say(f"timeline of both hosts: {timeline} (https://ui.perfetto.dev)")
    say(f"why not more is hidden: build/bin/tandem-trace report {timeline}")


def main():
    import tandem
    from tandem.capture.model_file import load_model_file

    rank, hosts = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

    def say(text):
        if rank == 0:
            print(text, flush=True)

    file = load_model_file(ROOT / "examples/bert_moe.py", None, SIZES, "float32")
    model, batches = file.make_model(), file.batches(STEPS)
    mesh, optimizer = f"data={hosts}", file.make_optimizer(model)
    step = tandem.compile(
        model, file.loss, optimizer, batches[0], mesh=mesh, plan=PLAN, micro=MICRO, batch="global"
    )
    say(f"bert_moe ({SIZES}) {PLAN} on {hosts} hosts, {MICRO} microbatches")
    timeline = ROOT / "demo" / "hosts.json"
    timeline.parent.mkdir(exist_ok=True)
    with step.trace(timeline):
        train(step, batches, say)
    if rank == 0:
        print_report(step, timeline.relative_to(ROOT), say)
    return 0


if __name__ == "__main__":
    from tandem.errors import TandemError

    try:
        sys.exit(main())
    except TandemError as error:
        sys.exit(f"demo-hosts: error: {error}")
