"""MFU and the cost of a step, by hand: the model's products count once, whatever the plan repeats or makes again."""

import json
import subprocess

import pytest
import torch
from tandem.capture.export import export
from tandem.session.compile import compile_module
from tandem.verify.reference import find_tool
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

FAST, SLOW = 2e12, 1e12  # FLOP/s


def cluster_text(nodes, prices=("", "")):
    kinds = "\n".join(
        f"  {name}: {{rates: {{f32: {rate / 1e12} TFLOP/s, bf16: {4 * rate / 1e12} TFLOP/s}},"
        f" memory: {{size: 8 GiB, bandwidth: 100 GB/s}}, overhead: 1 us{price}}}"
        for name, rate, price in zip(("fast", "slow"), (FAST, SLOW), prices, strict=True)
    )
    return (
        f"name: two\nkinds:\n{kinds}\nnodes:\n{nodes}\nlink:\n"
        "  node: {latency: 5 us, bandwidth: 10 GB/s, per: device}\n"
        "  network: {latency: 10 us, bandwidth: 1 GB/s, per: node}\n"
    )


BOTH = "  - {count: 1, devices: {fast: 2}}\n  - {count: 1, devices: {slow: 2}}"
PRICES = ", price: 3.6 USD/h", ", price: 1.8 USD/h"


class Block(nn.Module):
    """Causal attention of 4 heads, 8 wide, on 16 positions."""

    def __init__(self, again=False):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96, bias=False), nn.Linear(32, 32, bias=False)
        self.again = again

    def attend(self, x):
        q, k, v = self.qkv(x).view(-1, 16, 3, 4, 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(-1, 16, 32)

    def forward(self, x):
        y = checkpoint(self.attend, x, use_reentrant=False) if self.again else self.attend(x)
        return self.out(y)


def mlp():
    return nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 8)), torch.randn(32, 24)


# The first product has no gradient of its input.
MLP_FLOPS = 2 * (2 * 32 * 24 * 40) + 3 * (2 * 32 * 40 * 8)
ROWS, PAIRS = 8 * 16, 16 * 17 // 2
BLOCK_FLOPS = (
    2 * (2 * ROWS * 32 * 96) + 3 * (2 * ROWS * 32 * 32) + 3 * (2 * PAIRS * 8 * 4 * (8 + 8))
)
MODELS = {
    "mlp": (mlp, MLP_FLOPS),
    "block": (lambda: (Block(), torch.randn(8, 16, 32)), BLOCK_FLOPS),
    "checkpointed": (lambda: (Block(again=True), torch.randn(8, 16, 32)), BLOCK_FLOPS),
}


def module_of(name, precision=None):
    torch.manual_seed(0)
    model, batch = MODELS[name][0]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    return export(model, lambda m, x: m(x).square().mean(), optimizer, batch, precision=precision)


def simulate(folder, compiled, cluster):
    program, numbers = folder / "step.tdm", folder / "step.json"
    program.write_bytes(compiled.bytes)
    words = [find_tool("tandem-run"), program, "--device", "sim", "--cluster", cluster]
    done = subprocess.run([*words, "--json", numbers], check=True, capture_output=True, text=True)
    return json.loads(numbers.read_text()), done.stdout


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "options",
    [
        {"mesh": "data=4"},
        {"mesh": "data=2,model=2", "plan": "zero"},
        {"mesh": "data=4", "micro": 2, "plan": "zero2"},
        {"mesh": "data=4", "accumulate": 1, "search": "tandem"},
        {"mesh": "data=2,model=2", "accumulate": 2},
        {"mesh": "pipe=2,data=2", "accumulate": 2, "sections": "2"},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_products_count_once(model, options, tmp_path):
    cluster = tmp_path / "two.yaml"
    cluster.write_text(cluster_text(BOTH, PRICES))
    compiled = compile_module(module_of(model), device="sim", cluster=cluster, **options)
    told, text = simulate(tmp_path, compiled, cluster)
    flops = MODELS[model][1]
    assert told["model_flops"] == {"f32": flops}
    peaks = 2 * FAST + 2 * SLOW
    assert told["mfu"] == pytest.approx(flops / (told["seconds"] * peaks), rel=1e-6)
    assert told["cost"] == pytest.approx(told["seconds"] * 2 * (3.6 + 1.8) / 3600, rel=1e-6)
    assert f"MFU: {100 * told['mfu']:.1f} % of the peak rates" in text and "remark" not in text


def test_types_have_peaks_of_their_own(tmp_path):
    cluster = tmp_path / "two.yaml"
    cluster.write_text(cluster_text(BOTH))
    compiled = compile_module(
        module_of("mlp", precision="bf16"), device="sim", cluster=cluster, mesh="data=4"
    )
    told, _ = simulate(tmp_path, compiled, cluster)
    assert told["model_flops"] == {"bf16": MLP_FLOPS}
    peaks = 4 * (2 * FAST + 2 * SLOW)
    assert told["mfu"] == pytest.approx(MLP_FLOPS / (told["seconds"] * peaks), rel=1e-6)


@pytest.mark.parametrize(
    "prices, cost, remark",
    [
        (PRICES, True, ""),
        (("", ""), False, ""),
        ((PRICES[0], ""), False, "cluster 'two' has no price of 'slow'"),
        (("", PRICES[1]), False, "cluster 'two' has no price of 'fast'"),
    ],
)
def test_a_cost_needs_all_prices(prices, cost, remark, tmp_path):
    cluster = tmp_path / "two.yaml"
    cluster.write_text(cluster_text(BOTH, prices))
    compiled = compile_module(module_of("mlp"), device="sim", cluster=cluster, mesh="data=4")
    told, text = simulate(tmp_path, compiled, cluster)
    assert (told["cost"] is not None) == cost == ("USD per step" in text)
    assert remark in text and ("remark:" in text) == bool(remark) == bool(told["remarks"])


def test_a_step_without_products_has_no_mfu(tmp_path):
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(8))

        def forward(self, x):
            return x * self.w

    model = Scale()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    module = export(model, lambda m, x: m(x).sum(), optimizer, torch.randn(4, 8))
    cluster = tmp_path / "two.yaml"
    cluster.write_text(cluster_text(BOTH))
    compiled = compile_module(module, device="sim", cluster=cluster, mesh="data=4")
    told, text = simulate(tmp_path, compiled, cluster)
    assert told["mfu"] is None and "MFU:" not in text
    assert "remark: MFU is left out: the Program does not say" in text


class Looked(nn.Module):
    """Rows of a table for 12 indices a row."""

    def __init__(self, pool, width):
        super().__init__()
        self.table, self.pool, self.head = nn.Embedding(50, 8), pool, nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.pool(self.table(x)))


INDICES = torch.randint(50, (8, 12))
MANY_CLASSES = {"x": torch.randn(8, 6), "y": torch.randint(2, (8, 3))}
ITEMS = {
    "sequences": (Looked(lambda rows: rows.mean(1), 8), INDICES, 8 * 12, "tokens"),
    "columns": (Looked(lambda rows: rows.relu().flatten(1), 96), INDICES, 8, "samples"),
    "targets": (nn.Linear(6, 3), MANY_CLASSES, 8, "samples"),
}


@pytest.mark.parametrize("case", ITEMS)
def test_tokens_are_positions_of_sequences(case, tmp_path):
    model, batch, count, name = ITEMS[case]

    def loss(model, batch):
        if case != "targets":
            return model(batch).square().mean()
        return F.binary_cross_entropy_with_logits(model(batch["x"]), batch["y"].float())

    module = export(model, loss, torch.optim.SGD(model.parameters(), lr=0.1), batch)
    cluster = tmp_path / "two.yaml"
    cluster.write_text(cluster_text(BOTH))
    compiled = compile_module(module, mesh="data=4", device="sim", cluster=cluster)
    told, text = simulate(tmp_path, compiled, cluster)
    assert (told["items"], told["item_name"]) == (count, name)
    assert f"\n{name} per second: " in text
