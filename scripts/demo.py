"""demo: trains a mixture-of-experts BERT on four ranks and in PyTorch, and shows hidden communication.

Writes the captured step, the plan with its explanation, the Program, a picture of its timeline and a report page to demo/
(or to the given folder).
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEPS, SEED = 20, 0
MESH, MICRO, PRESET = "data=4", 2, "expert-parallel"
CLUSTER = ROOT / "examples" / "clusters" / "ethernet-4x1.yaml"
BUILD = Path(os.environ.get("TANDEM_BUILD", ROOT / "build"))
SIZES = "layers=4,width=128,heads=4,seq=64,batch=32"


class Bar:
    """A progress bar; where the output is not a terminal, one line at the end."""

    WIDTH = 30

    def __init__(self, title, steps):
        self.title, self.steps, self.begin = title, steps, time.perf_counter()

    def show(self, done, loss):
        full = self.WIDTH * done // self.steps
        pace = (time.perf_counter() - self.begin) / done
        text = f"{self.title:8} [{'#' * full}{'.' * (self.WIDTH - full)}] {done:3}/{self.steps}"
        text += f"  loss {loss:.4f}  {pace:.2f} s/step"
        last = done == self.steps
        if sys.stdout.isatty():
            print("\r" + text, end="\n" if last else "", flush=True)
        elif last:
            print(text, flush=True)


def train(title, batches, one):
    """The losses of one(number, batch) on each batch."""
    bar, losses = Bar(title, len(batches)), []
    for number, batch in enumerate(batches):
        losses.append(one(number, batch).item())
        bar.show(number + 1, losses[-1])
    return losses


def load(folder):
    """The model file and what is captured of it, written to step.mlir and step.safetensors."""
    from tandem import export
    from tandem.capture.model_file import load_model_file

    file = load_model_file(ROOT / "examples" / "bert_moe.py", None, SIZES, "float32")
    model = file.make_model(SEED)
    optimizer = file.make_optimizer(model)
    batches = file.batches(STEPS)
    module = export(model, file.loss, optimizer, batches[0])
    (folder / "step.mlir").write_text(module.mlir)
    module.save_values(folder / "step.safetensors", batches[:4], SEED)
    print(f"captured examples/bert_moe.py ({SIZES}): {len(module.step.operators)} operators")
    return file, model, optimizer, batches, module


def run_tool(name, *arguments):
    subprocess.run([BUILD / "bin" / name, *arguments], check=True)


def compile_variant(folder, module, name, **options):
    """Compiles the step as `name`.tdm; returns what is compiled, and the report on the timeline that CLUSTER's
    prices predict for it."""
    from tandem import report
    from tandem.session.compile import compile_module

    compiled = compile_module(module, "step.mlir", mesh=MESH, cluster=CLUSTER, **options)
    program, table, timeline = (folder / f"{name}{end}" for end in (".tdm", ".times", ".json"))
    program.write_bytes(compiled.bytes)
    run_tool("tandem-profile", "--price", program, "--cluster", CLUSTER, "-o", table)
    run_tool("tandem-trace", "predict", program, "--times", table, "-o", timeline)
    table.unlink()
    return compiled, report(timeline)["total"]


def print_variants(variants):
    """A row per variant: how long a step takes, and how much of its communication lies beside computation."""
    print(f"a step on {CLUSTER.relative_to(ROOT)} (four machines, 2.5 Gbit/s), as predicted:")
    print(f"  {'':34}    step  computation  communication  hidden")
    for what, total in variants:
        times = "".join(
            f"{1e3 * total[key]:{width}.1f} ms"
            for key, width in (("seconds", 5), ("computation", 10), ("communication", 12))
        )
        print(f"  {what:34}{times}  {total['hidden_share']:6.0%}")


def compile_step(folder, module):
    """The step in two strands, beside the same in one, and beside the plan that a search finds."""
    from tandem import picture

    _, alone = compile_variant(folder, module, "one-strand", plan=PRESET)
    compiled, duplex = compile_variant(folder, module, "duplex", plan=PRESET, micro=MICRO)
    found, searched = compile_variant(folder, module, "searched", search="tandem", micro=MICRO)
    (folder / "plan.txt").write_text(found.plan)
    print_variants(
        [
            (f"{PRESET}, one strand", alone),
            (f"{PRESET}, duplex", duplex),
            (f"plan searched for {MICRO} strands", searched),
        ]
    )
    for note in (remark for remark in found.remarks if "warning: " in remark):
        print(f"  {note}")
    picture(folder / "duplex.json", folder / "duplex.svg", ranks=[0])
    return compiled


def train_in_tandem(folder, step, batches):
    with step.trace(folder / "timeline.json"):
        return train("Tandem", batches, lambda _, batch: step(batch))


def write_page(folder, compiled):
    """The report of the training, as a page."""
    from tandem import page

    plan, html = folder / "duplex.plan.txt", folder / "report.html"
    plan.write_text(compiled.plan)
    files = dict(predicted=folder / "duplex.json", program=folder / "duplex.tdm", plan=plan)
    page(folder / "timeline.json", html, **files)
    return html


def train_in_torch(file, model, optimizer, batches, random_calls):
    import torch
    from tandem import random
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def one(number, batch):
        optimizer.zero_grad(set_to_none=True)
        with sdpa_kernel(SDPBackend.MATH), random.replay(SEED, number, random_calls):
            loss = file.loss(model, batch)
            loss.backward()
        optimizer.step()
        return loss.detach()

    torch.set_num_threads(1)
    return train("PyTorch", batches, one)


def main():
    from tandem import Step

    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "demo").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    file, model, optimizer, batches, module = load(folder)
    compiled = compile_step(folder, module)
    step = Step(module, compiled.bytes, model, optimizer, compiled, seed=SEED)
    losses = train_in_tandem(folder, step, batches)
    expected = train_in_torch(file, model, optimizer, batches, module.random_calls)
    largest = max(abs(a - b) for a, b in zip(losses, expected, strict=True))
    print(f"largest difference of a loss to PyTorch's in {STEPS} steps: {largest:.1e}")
    print(f"in {folder}:")
    for name, what in {
        "duplex.svg": "a predicted step of one rank: two strands, two colours; one computes while the other communicates",
        "step.mlir": "the captured training step; its values and batches are in step.safetensors",
        "plan.txt": "the plan found, for tandem-compile --plan-file; --explain says why it is so (docs/explanations.md)",
        "duplex.tdm": "the Program that trained: tandem-run duplex.tdm --data step.safetensors --steps 3",
        "timeline.json": "what the four ranks did here, sharing this machine's cores: https://ui.perfetto.dev",
    }.items():
        print(f"  {name:14} {what}")
    print(
        f"what each rank did, beside its prediction, for a browser: {write_page(folder, compiled)}"
    )
    return 0


if __name__ == "__main__":
    from tandem.errors import TandemError

    try:
        sys.exit(main())
    except TandemError as error:
        sys.exit(f"demo: error: {error}")
