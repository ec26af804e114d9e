"""`mesh="auto"` with a search weighs pipelines, and what it chooses trains as eager does."""

import io
import re

import pytest
import tandem
import torch
from test_accumulate import compile_step, train_eager

ROWS, WIDTH = 16, 64
# The network is slow, and the limit leaves no room for all layers on a machine.
MEMORY = "600kB"
# What a mixture is of.
PARTS = ("data-parallel", "zero2")
CLUSTER = """
name: slow
kinds:
  core:
    rates:
      f32: {peak: 20 GFLOP/s, efficiency: 0.9}
      f64: {peak: 10 GFLOP/s, efficiency: 0.9}
      bf16: {peak: 10 GFLOP/s, efficiency: 0.9}
    memory: {size: 3 GiB, bandwidth: 10 GB/s}
    overhead: 1 us
nodes:
  - {count: 4, devices: {core: 1}}
link:
  network: {latency: 5 us, bandwidth: 100 Mbit/s, per: node}
piece: 20 us
"""


def deep():
    """Names of layers have what a glob of a pin would read otherwise."""
    torch.manual_seed(2)
    model = torch.nn.Sequential()
    for number in range(8):
        model.add_module(f"layer[{number}]", torch.nn.Linear(WIDTH, WIDTH))
        model.add_module(f"tanh[{number}]", torch.nn.Tanh())
    return model.double()


def loss_fn(model, batch):
    return (model(batch) - batch).square().mean()


def batches(count=3, rows=ROWS):
    generator = torch.Generator().manual_seed(5)
    return [
        torch.randn(rows, WIDTH, dtype=torch.float64, generator=generator) for _ in range(count)
    ]


@pytest.fixture
def options(tmp_path):
    cluster = tmp_path / "slow.yaml"
    cluster.write_text(CLUSTER)
    return dict(mesh="auto", search="tandem", cluster=cluster, memory=MEMORY, search_time_limit=60)


def test_a_pipeline_is_chosen_and_trains_as_eager(options):
    data = batches()
    losses, gradients, values = train_eager(loss_fn, data, deep)
    step = compile_step(loss_fn, data[0], deep, **options)
    axes = {axis.name: axis.size for axis in step.program.mesh}
    assert axes["pipe"] > 1 and "accumulate" in repr(step)
    assert [float(step(batch)) for batch in data] == pytest.approx(losses, rel=1e-12)
    for name, gradient in gradients.items():
        torch.testing.assert_close(step.gradients()[name], gradient, rtol=1e-9, atol=1e-12)
    for name, value in values.items():
        torch.testing.assert_close(step.state_dict()[name], value, rtol=1e-9, atol=1e-10)
    # Batches of another size, and of any size without training.
    model = deep()
    model.load_state_dict(step.state_dict())
    whole, odd = batches(rows=2 * ROWS)[0], batches(rows=3)[0]
    assert float(step.evaluate(odd)) == pytest.approx(float(loss_fn(model, odd)), rel=1e-12)
    assert float(step(whole)) == pytest.approx(float(loss_fn(model, whole)), rel=1e-12)


def test_the_explanation_has_the_table_of_layouts(options, tmp_path):
    step = compile_step(loss_fn, batches()[0], deep, **options)
    text, path = io.StringIO(), tmp_path / "why.json"
    found = step.explain(path, text)
    table = step.compiled.layouts.splitlines()
    assert table[0].startswith("layouts: 4 devices of slow, ") and len(table) > 8
    assert text.getvalue().startswith(step.compiled.layouts)
    assert found["layouts"] == table and '"layouts"' in path.read_text()
    # An equal compilation finds the choice on the disk.
    again = compile_step(loss_fn, batches()[0], deep, **options)
    assert [stage for stage, _ in again.compiled.seconds] == ["cache"]
    assert again.compiled.layouts == step.compiled.layouts and again.bytes == step.bytes


def test_the_last_layers_stay_whole_where_gathers_take_longer_than_the_forward_pass(options):
    data = batches(rows=6144)
    losses, _, values = train_eager(loss_fn, data, deep)
    step = compile_step(loss_fn, data[0], deep, **(options | dict(memory=None)))
    rows = dict(re.findall(r"(?m)^  (\S.*?)  +step ([\d.]+) s", step.compiled.layouts))
    mixed = [float(rows[name]) for name in rows if name.endswith("layers whole")]
    assert mixed and min(mixed) < min(float(rows[f"{name} data=4"]) for name in PARTS)
    assert [float(step(batch)) for batch in data] == pytest.approx(losses, rel=1e-12)
    for name, value in values.items():
        torch.testing.assert_close(step.state_dict()[name], value, rtol=1e-9, atol=1e-10)


def normed():
    torch.manual_seed(2)
    layers = [(torch.nn.Linear(WIDTH, WIDTH), torch.nn.BatchNorm1d(WIDTH)) for _ in range(3)]
    return torch.nn.Sequential(*sum(layers, ())).double()


def test_pipelines_of_what_joins_the_batch_run_their_forward_passes_first(options):
    text = options["cluster"].read_text().replace("count: 4", "count: 2")
    options["cluster"].write_text(text)
    step = compile_step(loss_fn, batches(1)[0], normed, **options | dict(memory=None))
    rows = [line.strip() for line in step.compiled.layouts.splitlines()]
    pipelines = [row for row in rows if row.startswith("pipe=")]
    assert any("step 0." in row for row in pipelines)
    assert not any("joins the batch" in row for row in pipelines), pipelines


def test_a_mesh_or_pins_leave_nothing_to_weigh(options):
    step = compile_step(
        loss_fn,
        batches()[0],
        deep,
        **(options | dict(mesh={"model": 2}, cluster=None, memory=None)),
    )
    assert step.compiled.layouts == ""
    with pytest.raises(tandem.errors.CompileError, match="the mesh is 'auto'"):
        compile_step(loss_fn, batches()[0], deep, pins=[tandem.pin("*", pipe="at(0)")], **options)
