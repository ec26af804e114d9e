"""Fine-tunes a GPT-2 of `transformers` on a text, with evaluation and checkpoints: alone, or in several processes.

python examples/gpt2_finetune.py --mesh data=2 --save tuned          # random weights, bytes of this repository's license
python examples/gpt2_finetune.py --from gpt2 --text book.txt --mesh data=4 --plan zero --save tuned
torchrun --nproc-per-node=2 examples/gpt2_finetune.py --save tuned
python examples/gpt2_finetune.py --mesh data=4 --save tuned --steps 200     # goes on from the checkpoint in `tuned`

`--from` takes what `from_pretrained` takes: a folder, or a name where there is a network. In the folder of `--save` are
afterwards `checkpoint`, from which the same command goes on, here on any mesh, and `model`, for `from_pretrained`.
"""

import argparse
import math
import os
from pathlib import Path

import tandem
import torch
from example_data import text_bytes
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

EVALUATED = 0.1  # of the text, at its end


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="source", help="weights; default: random ones, and bytes")
    parser.add_argument("--text", help="a file; default: this repository's license")
    parser.add_argument("--mesh", help="such as data=4; default: one rank per process")
    parser.add_argument("--plan", default="zero")
    parser.add_argument("--micro", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8, help="of all processes together")
    parser.add_argument("--length", type=int, default=64, help="tokens of a sequence")
    parser.add_argument("--steps", type=int, default=100, help="of all, also those before")
    parser.add_argument("--every", type=int, default=50, help="steps to evaluation and checkpoint")
    parser.add_argument("--layers", type=int, default=2, help="of random weights")
    parser.add_argument("--width", type=int, default=64, help="of random weights")
    parser.add_argument("--save", metavar="FOLDER", help="goes on from what is there")
    return parser.parse_args()


def load(options):
    """The model and the text as tokens."""
    if options.source is None:
        config = GPT2Config(
            vocab_size=256, n_positions=options.length, n_embd=options.width,
            n_layer=options.layers, n_head=4, bos_token_id=0, eos_token_id=0,
        )  # fmt: skip
        return GPT2LMHeadModel(config), text_bytes(options.text)
    model = GPT2LMHeadModel.from_pretrained(options.source)
    if options.length > model.config.n_positions:
        raise SystemExit(
            f"--length is {options.length}, expected at most {model.config.n_positions} for {options.source}"
        )
    if model.config.vocab_size == 256:  # one that was made here of bytes
        return model, text_bytes(options.text)
    text = bytes(text_bytes(options.text).to(torch.uint8).tolist()).decode(errors="replace")
    return model, AutoTokenizer.from_pretrained(options.source)(text, return_tensors="pt")[
        "input_ids"
    ][0]


class Batches:
    """Random windows of the training part, whole ones of the rest: this process' rows of each batch."""

    def __init__(self, tokens, options):
        cut = int(len(tokens) * (1 - EVALUATED))
        self.training, self.rest = tokens[:cut], tokens[cut:]
        self.batch, self.length = options.batch, options.length
        process, count = (int(os.environ.get(n, d)) for n, d in (("RANK", 0), ("WORLD_SIZE", 1)))
        if options.batch % count:
            raise SystemExit(
                f"--batch is {options.batch}, expected a multiple of {count} processes"
            )
        self.rows = slice(process * self.batch // count, (process + 1) * self.batch // count)
        needed = self.batch * self.length
        if len(self.rest) < needed:
            raise SystemExit(
                f"the text has {len(tokens)} tokens, expected at least {math.ceil(needed / EVALUATED)}"
            )

    def train(self, number):
        """The batch of a step, which is the same whenever it is asked for."""
        generator = torch.Generator().manual_seed(number)
        last = len(self.training) - self.length
        return self._windows(self.training, torch.randint(last, (self.batch,), generator=generator))

    def evaluate(self, most=4):
        """The first batches of the part that is not trained on."""
        count = min(most, len(self.rest) // (self.batch * self.length))
        starts = torch.arange(count * self.batch) * self.length
        return [self._windows(self.rest, some) for some in starts.split(self.batch)]

    def _windows(self, tokens, starts):
        ids = torch.stack([tokens[start : start + self.length] for start in starts[self.rows]])
        return {"input_ids": ids, "labels": ids}


def loss_fn(model, batch):
    return model(**batch, use_cache=False).loss


def main():
    options = parse()
    torch.manual_seed(0)
    model, tokens = load(options)
    batches = Batches(tokens, options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.01)
    warm_up = max(1, options.every // 5)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1, (n + 1) / warm_up))
    step = tandem.compile(
        model,
        loss_fn,
        optimizer,
        batches.train(0),
        mesh=options.mesh or f"data={os.environ.get('WORLD_SIZE', 1)}",
        plan=options.plan,
        micro=options.micro,
        clip_grad_norm=1.0,
    )
    folder = Path(options.save) if options.save else None
    is_first = os.environ.get("RANK", "0") == "0"
    start = 0
    if folder and (folder / "checkpoint").exists():
        start = step.load(folder / "checkpoint")["steps"]
    for number in range(start, options.steps):
        loss = step(batches.train(number))
        scheduler.step()
        done = number + 1
        if is_first:
            print(f"step {done} loss {loss.item():.6g}", flush=True)
        if done % options.every and done != options.steps:
            continue
        losses = [step.evaluate(batch).item() for batch in batches.evaluate()]
        mean = sum(losses) / len(losses)
        if is_first:
            print(f"step {done} evaluation {mean:.6g} perplexity {math.exp(mean):.5g}", flush=True)
        if folder:
            step.save(folder / "checkpoint", extra={"steps": done})
    if folder:
        step.sync_to(model)
        if is_first:
            model.save_pretrained(folder / "model")


if __name__ == "__main__":
    main()
