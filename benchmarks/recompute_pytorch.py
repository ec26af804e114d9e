#!/usr/bin/env python3
"""What PyTorch holds and makes again in the steps of recompute_steps.py: the yardstick of benchmarks/recompute.py.

    benchmarks/recompute_pytorch.py [--steps gpt,llama] [-o benchmarks/recompute_pytorch.json]

Two ways: the min-cut partitioner at several values of `activation_memory_budget`, and `torch.utils.checkpoint` around
each block or half block. Tensors are fake: nothing is computed.

*Peak*: parameters, and the most bytes of storages that are alive in a graph. A storage lives from the operator that
makes it to its last reader; gradients live to the end. Inputs and the optimizer do not count. *FLOPs*: those that
FlopCounterMode counts, which are products. It does not count the CPU's attention, but what attention with dropout is
decomposed into. `attention` has the FLOPs that it leaves out.
"""

import argparse
import collections
import pathlib

import recompute_steps
import torch
import torch._functorch.config
from functorch.compile import aot_function, make_boxed_func, min_cut_rematerialization_partition
from harness import ROOT, write_tables
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import (
    FlopCounterMode,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

YARDSTICK = ROOT / "benchmarks/recompute_pytorch.json"
BUDGETS = [1.0, 0.9, 0.75, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05, 0.02, 0.0]
# Steps by the names that tables give them, and the sizes that differ from the preset's.
STEPS = {
    "gpt": {},
    "gpt dropout": {"dropout": 0.1},
    "llama": {},
    "vit_moe": {},
    "vit_moe dropout": {"dropout": 0.1},
}
REGIONS = ["none", "block", "half"]
ATTENTION = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_, **__: (
        sdpa_flop_count(q, k, v)
    ),
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: lambda dy, q, k, v, *_, **__: (
        sdpa_backward_flop_count(dy, q, k, v)
    ),
}


def get_sizes(step, regions="none"):
    preset = recompute_steps.PRESETS[step.split()[0]]
    return preset | STEPS[step] | {"regions": regions}


def get_storages(value):
    """Bytes of the storages of tensors in `value`, by the storages' identity."""
    storages = (t.untyped_storage() for t in tree_leaves(value) if isinstance(t, torch.Tensor))
    return {storage._cdata: storage.nbytes() for storage in storages}


class Liveness:
    """Runs a graph on fake tensors; `peak` is the most bytes alive, without the storages in `ignored`; `flops` are those of
    products, `attention` others. `values` keeps all results, so that no two storages have one identity.
    """

    def __init__(self, module, arguments, ignored):
        self.module, self.ignored, self.values = module, ignored, {}
        self.holders, self.alive, self.peak = collections.Counter(), 0, 0
        arguments = iter(arguments)
        nodes = list(module.graph.nodes)
        last = {operand: node for node in nodes for operand in node.all_input_nodes}
        with FlopCounterMode(display=False, custom_mapping=ATTENTION) as counter:
            for node in nodes:
                if node.op == "output":
                    break
                self.values[node] = self._run(node, arguments)
                self._hold(node)
                for each in {*node.all_input_nodes, node}:
                    if last.get(each, each) is node:
                        self._release(each)
        counts = counter.get_flop_counts().get("Global", {})
        self.attention = sum(counts.get(operator, 0) for operator in ATTENTION)
        self.flops = sum(counts.values()) - self.attention

    def _run(self, node, arguments):
        if node.op == "placeholder":
            return next(arguments)
        if node.op == "get_attr":
            return getattr(self.module, node.target)
        args, kwargs = map_arg((node.args, node.kwargs), self.values.__getitem__)
        return node.target(*args, **kwargs)

    def _get_storages(self, node):
        storages = get_storages(self.values[node])
        return {key: size for key, size in storages.items() if key not in self.ignored}

    def _hold(self, node):
        for key, size in self._get_storages(node).items():
            self.alive += size if self.holders[key] == 0 else 0
            self.holders[key] += 1
        self.peak = max(self.peak, self.alive)

    def _release(self, node):
        for key, size in self._get_storages(node).items():
            self.holders[key] -= 1
            self.alive -= size if self.holders[key] == 0 else 0


class Step:
    """A step on fake tensors, as a function of its parameters that returns the loss."""

    def __init__(self, sizes):
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        batch = next(recompute_steps.batches(**sizes))
        with self.mode:
            torch.manual_seed(0)
            self.model = recompute_steps.model(**sizes).train()
        self.batch = torch.utils._pytree.tree_map(self.mode.from_tensor, batch)
        named = dict(self.model.named_parameters())
        self.names, self.parameters = list(named), list(named.values())
        self.parameter_bytes = sum(get_storages(self.parameters).values())

    def get_loss(self, batch, *parameters):
        """A module's `forward` is that of the loss, so that parameters can be exchanged."""
        call = _Loss(self.model)
        named = {f"model.{name}": value for name, value in zip(self.names, parameters, strict=True)}
        return torch.func.functional_call(call, named, (batch,))


class _Loss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, batch):
        return recompute_steps.loss(self.model, batch)


def split(step, budget):
    """The graphs of both passes, and the arguments of the forward pass."""
    found = []

    def keep(module, arguments):
        found.append((module, arguments))
        return make_boxed_func(module.forward)

    with torch._functorch.config.patch(activation_memory_budget=budget), step.mode:
        function = aot_function(
            step.get_loss, keep, keep, partition_fn=min_cut_rematerialization_partition
        )
        function(step.batch, *step.parameters).backward()
    (forward, arguments), (backward, tangents) = found
    return forward, backward, arguments, tangents


def get_results(module):
    """The nodes that a graph returns, by name."""
    (results,) = next(iter(reversed(module.graph.nodes))).args
    return {node.name: node for node in results if node is not None}


def measure_budget(step, budget):
    """A saved value of the forward pass is an argument of the same name in the backward pass."""
    forward, backward, arguments, others = split(step, budget)
    ignored = set(get_storages(arguments))
    with step.mode:
        first = Liveness(forward, arguments, ignored)
        saved = {name: first.values[node] for name, node in get_results(forward).items()}
        places = [node.name for node in backward.graph.nodes if node.op == "placeholder"]
        given = [saved.get(name, other) for name, other in zip(places, others, strict=True)]
        second = Liveness(backward, given, ignored)
    kept = get_storages([value for name, value in saved.items() if name in places])
    return {
        "how": f"budget {budget:g}",
        "saved": sum(size for key, size in kept.items() if key not in ignored),
        "peak": step.parameter_bytes + max(first.peak, second.peak),
        "flops": first.flops + second.flops,
        "attention": first.attention + second.attention,
    }


def measure_regions(sizes, regions):
    """Eager, in the order of its operators."""
    step = Step(sizes | {"regions": regions})

    def run(batch, *parameters):
        loss = step.get_loss(batch, *parameters)
        return loss, torch.autograd.grad(loss, parameters, allow_unused=True)

    with step.mode:
        module = make_fx(run)(step.batch, *step.parameters)
        arguments = tree_leaves((step.batch, step.parameters))
        both = Liveness(module, arguments, set(get_storages(arguments)))
    return {
        "how": "eager" if regions == "none" else f"checkpoint per {regions}",
        "peak": step.parameter_bytes + both.peak,
        "flops": both.flops,
        "attention": both.attention,
    }


def measure(sizes):
    step = Step(sizes)
    yield from (measure_budget(step, budget) for budget in BUDGETS)
    yield from (measure_regions(sizes, regions) for regions in REGIONS)


def measure_step(name):
    """The table of a step: each row with the share of FLOPs that it makes again."""
    sizes, rows = get_sizes(name), []
    for row in measure(sizes):
        rows.append(row | {"again": row["flops"] / (rows[0] if rows else row)["flops"] - 1})
        saved = f"{row['saved'] / 1e6:9.1f}" if "saved" in row else f"{'-':>9}"
        print(
            f"{name:16} {row['how']:22} {saved} {row['peak'] / 1e6:9.1f} {rows[-1]['again']:8.2%}",
            flush=True,
        )
    return {"sizes": [f"{key}={value}" for key, value in sizes.items()], "rows": rows}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", default=",".join(STEPS))
    parser.add_argument("-o", "--output", type=pathlib.Path, default=YARDSTICK)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}\n{'':39} saved/MB   peak/MB    again")
    for name in options.steps.split(","):
        write_tables(options.output, {name: measure_step(name) | {"torch": [torch.__version__]}})


if __name__ == "__main__":
    main()
