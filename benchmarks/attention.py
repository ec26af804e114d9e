"""Time of attention, forward and backward: Tandem's commands against PyTorch's fused CPU kernel.

Float32 on one pinned core. Both take turns in one process, so that they see the same machine; a ratio is taken per
turn. Tandem's times are those of the commands on its timeline. Memory is what a step holds: linear in positions.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import tandem
import torch
import torch.nn.functional as F
from torch import nn

COMMANDS = ("attention", "attention_backward")
TARGET = 1.3


class Attention(nn.Module):
    """Query, key and value are parameters; the loss is linear in the output."""

    def __init__(self, heads, positions, width, causal):
        super().__init__()
        shape = (heads, heads, positions, width)
        self.q, self.k, self.v = (nn.Parameter(torch.randn(shape)) for _ in range(3))
        self.causal = causal

    def forward(self, gradient):
        y = F.scaled_dot_product_attention(self.q, self.k, self.v, is_causal=self.causal)
        return (y * gradient).sum()


def tandem_turn(step, gradient, folder):
    """Seconds of both commands in one step."""
    path = Path(folder) / "trace.json"
    step._session.start_trace()
    step(gradient)
    step._session.stop_trace()
    step._session.write_trace(str(path))
    events = json.loads(path.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    found = [
        next(event["dur"] for event in events if event.get("name") == name) for name in COMMANDS
    ]
    return [duration * 1e-6 for duration in found]


def torch_turn(model, gradient):
    tensors = [t.detach().requires_grad_() for t in (model.q, model.k, model.v)]
    start = time.perf_counter()
    y = F.scaled_dot_product_attention(*tensors, is_causal=model.causal)
    middle = time.perf_counter()
    y.backward(gradient)
    return [middle - start, time.perf_counter() - middle]


def measure(heads, positions, width, causal, turns):
    """The medians of Tandem and PyTorch, forward and backward, and the median ratio of the sums."""
    model = Attention(heads, positions, width, causal)
    gradient = torch.randn(heads, heads, positions, width)
    step = tandem.compile(
        model, lambda m, g: m(g), torch.optim.SGD(model.parameters(), lr=0.0), gradient
    )
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(turns + 1):
            pair = tandem_turn(step, gradient, folder), torch_turn(model, gradient)
            if turn:
                pairs.append(pair)
    own, other = (
        [statistics.median(turn[i] for turn in turns) for i in range(2)]
        for turns in zip(*pairs, strict=True)
    )
    return own, other, statistics.median(sum(b) / sum(a) for a, b in pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--positions", type=int, nargs="+", default=[512, 1024, 4096])
    parser.add_argument("--heads", type=int, default=8, help="and batches")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--causal", action="store_true")
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    print(
        "positions   tandem ms (forward, backward)   torch ms (forward, backward)   torch / tandem"
    )
    low = False
    for positions in options.positions:
        own, other, ratio = measure(
            options.heads, positions, options.width, options.causal, options.turns
        )
        times = [f"{1e3 * time:13.1f}" for time in (*own, *other)]
        print(f"{positions:9}   {times[0]} {times[1]}     {times[2]} {times[3]}   {ratio:14.2f}")
        low |= ratio < TARGET
    return low


if __name__ == "__main__":
    sys.exit(main())
