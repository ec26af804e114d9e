"""Trains an example: alone, or in several processes on any number of hosts.

python examples/train.py --mesh data=2
python examples/train.py --mesh data=2 --save saved --save-every 100        # checkpoints, of which the last one counts
python examples/train.py --mesh data=4 --resume saved --steps 20            # goes on, here on more ranks
torchrun --nproc-per-node=2 examples/train.py
torchrun --nnodes=2 --nproc-per-node=2 --rdzv-endpoint=HOST:29400 examples/train.py --model gpt
"""

import argparse
import importlib
import itertools
import os

import tandem
import torch


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="mlp", help="an example: mlp, gpt, bert_moe, ...")
    parser.add_argument("--preset", default="tiny", help="its size")
    parser.add_argument("--mesh", help="such as data=4; default: one rank per process")
    parser.add_argument("--plan", default="data-parallel")
    parser.add_argument("--micro", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10, help="of all, also those before")
    parser.add_argument("--save", metavar="FOLDER", help="write a checkpoint there at the end")
    parser.add_argument("--save-every", type=int, default=0, metavar="N", help="and after N steps")
    parser.add_argument("--resume", metavar="FOLDER", help="go on from a checkpoint")
    parser.add_argument("--save-model", metavar="FILE", help="where rank 0 writes the model")
    return parser.parse_args()


def main():
    options = parse()
    example = importlib.import_module(options.model)
    preset = example.PRESETS[options.preset]
    torch.manual_seed(0)
    model = example.model(**preset)
    optimizer = example.optimizer(model)
    batches = example.batches(**preset)  # without end
    first = next(batches)
    mesh = options.mesh or f"data={os.environ.get('WORLD_SIZE', 1)}"
    step = tandem.compile(
        model,
        example.loss,
        optimizer,
        first,
        mesh=mesh,
        plan=options.plan,
        micro=options.micro,
        batch="global",  # every process makes the same
    )
    is_first = os.environ.get("RANK", "0") == "0"
    start = step.load(options.resume)["steps"] if options.resume else 0
    batches = itertools.islice(itertools.chain([first], batches), start, options.steps)
    for number, batch in enumerate(batches, start + 1):
        loss = step(batch)
        if is_first:
            print(f"step {number} loss {loss.item():.10g}", flush=True)
        if options.save and options.save_every and number % options.save_every == 0:
            step.save(options.save, extra={"steps": number})
    if options.save:
        step.save(options.save, extra={"steps": max(start, options.steps)})
    if options.save_model:
        state = step.state_dict(rank=0)
        if is_first:
            torch.save(state, options.save_model)


if __name__ == "__main__":
    main()
