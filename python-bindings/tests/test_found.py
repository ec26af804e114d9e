"""Megatron, GShard and ZeRO are found, not given: no preset starts these searches. Asserted by signatures and
numbers of collectives per layer; docs/planner.md has the numbers that make each the cheapest."""

import functools
import re
from collections import Counter

import matrix
import pytest
from tandem import export
from tandem.capture.model_file import load_model_file
from tandem.session.compile import compile_module

LAYERS = 2
COLUMNS, ROWS = "full, gather(1) -> gather(1)", "gather(1), gather(0) -> reduce"
# What ends a sum over ranks: of all of the value, or of a part of it.
REDUCTIONS = ("all-reduce", "reduce-scatter")
# Fewer tokens than a layer's matrices have rows: activations are smaller than gradients.
FEW_TOKENS = f"layers={LAYERS},width=2048,heads=16,seq=32,batch=8,vocab=512,dropout=0.0"
MANY_TOKENS = f"layers={LAYERS},width=512,heads=8,seq=128,batch=64,vocab=512,dropout=0.0"
EXPERTS = f"layers={LAYERS},width=256,heads=4,seq=64,batch=64,experts=8,hidden=1024"


@functools.cache
def module_of(name, sizes):
    file = load_model_file(matrix.EXAMPLES / f"{name}.py", None, sizes, "float32")
    model = file.make_model(meta=True)
    return export(model, file.loss, file.make_optimizer(model), file.batches(1)[0])


class Found:
    """A plan, read from its text and its table."""

    def __init__(self, compiled):
        self.compiled = compiled
        self.cost = float(re.search(r"^cost (\S+) s$", compiled.plan, re.M)[1])
        self.peak = int(re.search(r"^peak (\d+) B$", compiled.plan, re.M)[1])

    def stored(self, role, pattern):
        """Forms of the arguments whose name matches; those that are whole have no line."""
        lines = re.findall(rf"^argument \d+ {role} (\S+): (.*)$", self.compiled.plan, re.M)
        return [form for name, form in lines if re.search(pattern, name)]

    def collectives(self):
        """{(pass, kind, of what): number}"""
        counts = Counter()
        table = self.compiled.plan_table.split("Collectives per step")[1].split("\n\n")[0]
        for line in table.splitlines()[1:]:
            columns = re.split(r"  +", line.strip())
            if columns[0] != "total":
                counts[columns[0], columns[1], columns[3]] += int(columns[4].rstrip("x"))
        return counts

    def reductions(self, phase):
        counts = self.collectives()
        return sum(counts[phase, kind, "activation"] for kind in REDUCTIONS)


@pytest.fixture
def cluster(tmp_path, root):
    """Eight V100 with NVLink, with so much memory each."""

    def write(memory="32 GiB"):
        text = (root / "examples" / "clusters" / "v100-1x8.yaml").read_text()
        assert "{size: 32 GiB, reserved: 1 GiB," in text
        path = tmp_path / "cluster.yaml"
        path.write_text(text.replace("{size: 32 GiB, reserved: 1 GiB,", f"{{size: {memory},"))
        return str(path)

    return write


def found(module, cluster, mesh, **options):
    options = {"search": "tandem", "presets": False, **options}
    return Found(compile_module(module, mesh=mesh, cluster=cluster, stop_after="plan", **options))


def preset_of(module, cluster, mesh, preset):
    return found(module, cluster, mesh, search=None, plan=preset)


@pytest.mark.parametrize("packed", [0, 1])
def test_megatron(cluster, packed):
    """A layer's gradients have 200 MB, its activations 2 MB."""
    module = module_of("gpt", f"{FEW_TOKENS},packed={packed}")
    plan = found(module, cluster(), "model=8")
    query = r"\.qkv\.weight\.part\d" if packed else r"\.[qkv]\.weight"
    assert plan.stored("parameter", query) == ["model=gather(0)"] * (3 * LAYERS)
    assert plan.stored("parameter", r"\.w1\.weight") == ["model=gather(0)"] * LAYERS
    assert plan.stored("parameter", r"\.(out|w2)\.weight") == ["model=gather(1)"] * (2 * LAYERS)
    products = re.findall(r"^operator \d+ nn.matmul: model='(.*)'$", plan.compiled.plan, re.M)
    # Two of six matrices by rows in the forward pass, the other four in the backward pass.
    assert products.count(ROWS) == 6 * LAYERS
    assert products.count(COLUMNS) >= 6 * LAYERS
    assert plan.reductions("forward") == 2 * LAYERS
    assert plan.reductions("backward") == 2 * LAYERS
    for preset in ("data-parallel", "zero"):
        assert plan.cost < 0.25 * preset_of(module, cluster(), "model=8", preset).cost


def test_packed_projections_cost_the_same(cluster):
    costs = [
        found(module_of("gpt", f"{FEW_TOKENS},packed={packed}"), cluster(), "model=8").cost
        for packed in (0, 1)
    ]
    assert costs[0] == pytest.approx(costs[1], rel=1e-3)


def test_data_parallel_where_tokens_are_many(cluster):
    plan = found(module_of("gpt", MANY_TOKENS), cluster(), "data=8")
    assert plan.stored("parameter", r"layers\..*weight") == []
    assert plan.reductions("forward") == plan.reductions("backward") == 0


def test_zero(cluster):
    """With the memory of ZeRO's preset, 97 MB, where data parallelism needs 167 MB: parameters are
    split as far as need be, and gathered in both passes."""
    module = module_of("gpt", MANY_TOKENS)
    zero = preset_of(module, cluster(), "data=8", "zero")
    assert preset_of(module, cluster(), "data=8", "data-parallel").peak > 1.5 * zero.peak
    plan = found(module, cluster(f"{zero.peak} B"), "data=8")
    assert plan.peak <= zero.peak and plan.cost <= zero.cost
    name = r"layers\.\d\..*(q|k|v|out|w1|w2)\.weight"
    assert any("gather" in form for form in plan.stored("parameter", name))
    assert any("gather" in form for form in plan.stored("state", name))
    counts = plan.collectives()
    assert counts["forward", "all-gather", "parameter"] > 0
    # Gathered again: what is kept from pass to pass would take the memory that is missing.
    assert counts["backward", "all-gather", "parameter"] > 0
    assert counts["update", "reduce-scatter", "gradient"] > 0
    assert plan.reductions("forward") == plan.reductions("backward") == 0


def test_gshard(cluster):
    module = module_of("bert_moe", EXPERTS)
    plan = found(module, cluster(), "data=8")
    experts = LAYERS // 2
    assert plan.stored("parameter", r"\.mlp\.w[12]$") == ["data=gather(0)"] * (2 * experts)
    assert plan.stored("parameter", r"\.(q|k|v|out)\.weight") == []
    counts = plan.collectives()
    for phase in ("forward", "backward"):
        assert counts[phase, "all-to-all", "activation"] == 2 * experts
        assert plan.reductions(phase) <= 1  # The table of positions.
    assert plan.cost < 0.85 * preset_of(module, cluster(), "data=8", "data-parallel").cost
