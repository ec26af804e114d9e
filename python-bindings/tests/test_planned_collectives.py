"""What an explanation says of a preset is what its Program does: the collectives, and about the time of a step."""

import json
import re
import subprocess
from collections import Counter

import pytest
import torch
from tandem.capture.export import export
from tandem.session.compile import compile_module
from tandem.verify.reference import find_tool
from torch import nn

# The network is slow beside the links of a node, and devices of a node share it.
QUAD = """name: quad
kinds:
  core: {rates: {f32: 1 TFLOP/s}, memory: {size: 8 GiB, bandwidth: 100 GB/s}, overhead: 1 us}
nodes:
  - {count: 2, devices: {core: 2}}
link:
  node: {latency: 10 us, bandwidth: 10 GB/s, per: device}
  network: {latency: 100 us, bandwidth: 1 GB/s, per: node}
"""


def line():
    return nn.Linear(512, 512, bias=False), torch.randn(64, 512)


def mlp():
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))
    return model, torch.randn(32, 256)


def module_of(make):
    torch.manual_seed(0)
    model, batch = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return export(model, lambda m, x: m(x).square().mean(), optimizer, batch)


def sent_by_program(folder, compiled, mesh):
    """Elements of each kind of collective along each axis; what a gather makes, and a scatter takes."""
    program = folder / "step.tdm"
    program.write_bytes(compiled.bytes)
    words = [find_tool("tandem-run"), program, "--print"]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found = re.findall(
        r"(all_reduce|all_gather|reduce_scatter|all_to_all) .*\{(.*?)\} f32\[(.*?)\]", text
    )
    sizes = dict(axis.split("=") for axis in mesh.split(","))
    sent = Counter()
    for kind, axes, shape in found:
        elements = 1
        for size in filter(None, shape.split(", ")):
            elements *= int(size)
        for axis in axes.split(", "):
            whole = elements * (int(sizes[axis]) if kind == "all_gather" else 1)
            sent[kind.replace("_", "-"), axis] += whole
    return sent


def sent_by_plan(explanation):
    sent = Counter()
    for entry in json.loads(explanation)["collectives"]:
        sent[entry["kind"], entry["axis"]] += entry["total_bytes"] // 4
    return sent


@pytest.mark.parametrize("make", [line, mlp])
@pytest.mark.parametrize(
    "plan, mesh",
    [
        ("data-parallel", "data=2,model=2"),
        ("zero", "data=2,model=2"),
        ("zero2", "data=2,model=2"),
        ("data-parallel", "data=4"),
        ("zero", "data=4"),
    ],
)
def test_a_preset_sends_what_its_explanation_says(make, plan, mesh, tmp_path):
    cluster = tmp_path / "quad.yaml"
    cluster.write_text(QUAD)
    module = module_of(make)
    options = {"plan": plan, "mesh": mesh, "cluster": cluster, "device": "sim"}
    compiled = compile_module(module, explain=True, timeline=True, **options)
    sent = sent_by_program(tmp_path, compiled, mesh)
    planned = sent_by_plan(compiled.explanation_json)
    large = {key: size for key, size in planned.items() if size > 64}
    assert large and {key: sent[key] for key in large} == pytest.approx(large, abs=64)
    remarks = "\n".join(compiled.remarks)
    cost = float(re.search(r"cost (\S+) s", remarks)[1])
    step = float(re.search(r"timeline (\S+) s", remarks)[1])
    assert step == pytest.approx(cost, rel=0.1)
    # An explanation changes nothing.
    assert compile_module(module, **options).bytes == compiled.bytes


def test_a_sum_over_the_network_is_sliced_in_the_node(tmp_path):
    cluster = tmp_path / "quad.yaml"
    cluster.write_text(QUAD)
    compiled = compile_module(module_of(line), mesh="data=2,model=2", cluster=cluster, device="sim")
    sent = sent_by_program(tmp_path, compiled, "data=2,model=2")
    assert sent["all-reduce", "data"] < 0.6 * 512 * 512
    assert sent["all-gather", "model"] == 512 * 512
