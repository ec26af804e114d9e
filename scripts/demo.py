"""demo: trains a mixture-of-experts BERT on four ranks, and the same in PyTorch.

Leaves the captured step, the plan with its explanation, the Program and a timeline in demo/ (or in the
folder given), and prints twenty lines.
"""

import re
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEPS, SEED = 30, 0
MESH, MICRO = "data=4", 2
CLUSTER = ROOT / "examples" / "clusters" / "laptop.yaml"
PRESETS = ("data-parallel", "zero", "tensor-parallel", "expert-parallel")
SIZES = "layers=4,width=128,heads=4,seq=64,batch=16"


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
    from tandem.model_file import load_model_file

    file = load_model_file(ROOT / "examples" / "bert_moe.py", None, SIZES, "float32")
    model = file.make_model(SEED)
    optimizer = file.make_optimizer(model)
    batches = file.batches(STEPS)
    module = export(model, file.loss, optimizer, batches[0])
    (folder / "step.mlir").write_text(module.mlir)
    module.save_values(folder / "step.safetensors", batches[:4], SEED)
    print(f"captured examples/bert_moe.py ({SIZES}): {len(module.step.operators)} operators")
    return file, model, optimizer, batches, module


def number_in(plan, key):
    """The number behind `key` in a plan file."""
    return float(re.search(rf"^{key} (\S+)", plan, re.M)[1])


def print_costs(module, plan):
    """What the plan costs, and what the presets would."""
    from tandem.compile import compile_module

    cost = number_in(plan, "cost")
    print(f"what a step costs on {CLUSTER.relative_to(ROOT)}, and needs per rank:")
    rows = [("found", plan)]
    for preset in PRESETS:
        options = {"mesh": MESH, "micro": MICRO, "cluster": CLUSTER, "stop_after": "plan"}
        rows.append((preset, compile_module(module, "step.mlir", plan=preset, **options).plan))
    for name, text in rows:
        seconds, peak = number_in(text, "cost"), number_in(text, "peak")
        share = seconds / cost - 1
        print(f"  {name:16} {seconds:8.4f} s {share:+6.1%} {peak / 2**20:7.1f} MiB")
    gap = cost / number_in(plan, "bound") - 1
    print(f"no plan is more than {gap:.1%} cheaper than what was found")


def compile_step(folder, module):
    from tandem.compile import compile_module

    begin = time.perf_counter()
    options = {"mesh": MESH, "micro": MICRO, "search": "tandem", "cluster": CLUSTER}
    compiled = compile_module(module, "step.mlir", **options)
    (folder / "plan.txt").write_text(compiled.plan)
    (folder / "table.txt").write_text(compiled.plan_table)
    (folder / "step.tdm").write_bytes(compiled.bytes)
    seconds = time.perf_counter() - begin
    print(
        f"plan searched and step compiled for {MESH}, {MICRO} microbatches in {seconds:.1f} s"
        f" (plan {dict(compiled.seconds)['plan']:.1f} s)"
    )
    print_costs(module, compiled.plan)
    return compiled


def train_in_tandem(folder, step, batches):
    with step.trace(folder / "timeline.json"):
        losses = train("Tandem", batches, lambda _, batch: step(batch))
    return losses, step.hidden_share()


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


def make_step(folder, module, model, optimizer, compiled):
    """The step, and why its plan is as it is."""
    from tandem import Step

    step = Step(module, compiled.bytes, model, optimizer, compiled, seed=SEED, cluster=CLUSTER)
    with open(folder / "why.txt", "w") as text:
        step.explain(folder / "why.json", file=text)
    return step


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "demo").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    file, model, optimizer, batches, module = load(folder)
    compiled = compile_step(folder, module)
    step = make_step(folder, module, model, optimizer, compiled)
    losses, hidden = train_in_tandem(folder, step, batches)
    expected = train_in_torch(file, model, optimizer, batches, module.random_calls)
    largest = max(abs(a - b) for a, b in zip(losses, expected, strict=True))
    print(
        f"loss {losses[0]:.4f} -> {losses[-1]:.4f}; largest difference to PyTorch in {STEPS} steps: {largest:.1e}"
    )
    print(f"{hidden:.0%} of the communication time lay beside computation of the same rank")
    print("  (no claim of speed: the four ranks share this machine's cores)")
    print(f"in {folder}:")
    for name, what in {
        "step.mlir": "the captured training step; its values and batches are in step.safetensors",
        "plan.txt": "the plan, for tandem-compile --plan-file; table.txt says what is split how",
        "why.txt": "why the plan is as it is (docs/planner.md says how to read it); also why.json",
        "step.tdm": "the Program: tandem-run step.tdm --data step.safetensors --steps 3",
        "timeline.json": "every command of every rank: open in https://ui.perfetto.dev",
    }.items():
        print(f"  {name:14} {what}")
    return 0


if __name__ == "__main__":
    from tandem.errors import TandemError

    try:
        sys.exit(main())
    except TandemError as error:
        sys.exit(f"demo: error: {error}")
