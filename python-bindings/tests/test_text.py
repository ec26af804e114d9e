"""The text of a step: attributes, locations, literals; and that it does not change from run to
run.
"""

import re
import types

import pytest
import tandem
import torch
import torch.nn.functional as F
from tandem.lowering.text import attribute, dense, inherent_attribute, quote
from tandem.session.compile import compile_module
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.norm = nn.Linear(6, 4), nn.LayerNorm(4)

    def forward(self, x):
        y = self.w1(x)  # here: linear
        y = F.gelu(y)  # here: gelu
        return self.norm(y)  # here: norm


def loss(model, batch):
    y = F.dropout(model(batch["x"]), 0.5)
    return F.cross_entropy(y, batch["label"])  # here: loss


BATCH = {"x": torch.randn(8, 6), "label": torch.tensor([0, 3, 1, 1, -100, 2, 0, 0])}


def text(gradients=False):
    torch.manual_seed(0)
    model = Model()
    return tandem.export(model, loss, torch.optim.Adam(model.parameters()), BATCH, gradients).mlir


def lines_of(marker):
    with open(__file__) as file:
        return [i for i, line in enumerate(file, 1) if line.rstrip().endswith(f"# here: {marker}")]


def test_same_input_same_text():
    assert text() == text()


def test_arguments_and_results():
    found = text(gradients=True)
    for expected in (
        '%arg0: tensor<4x6xf32> {nn.role = #nn.role<parameter>, nn.name = "w1.weight"}',
        '{nn.role = #nn.role<state>, nn.name = "exp_avg_sq.norm.bias", nn.of = "norm.bias"}',
        'tensor<i64> {nn.role = #nn.role<step>, nn.name = "step"}',
        'tensor<i64> {nn.role = #nn.role<seed>, nn.name = "seed"}',
        'tensor<f64> {nn.role = #nn.role<learning_rate>, nn.name = "0"}',
        '{nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}',
        '{nn.role = #nn.role<input>, nn.name = "label", nn.batch_dim = 0 : i64, nn.range = [0, 3]}',
        'tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"}',
        'tensor<4x6xf32> {nn.role = #nn.role<parameter>, nn.name = "w1.weight", nn.updates = 0 : i64}',
        'tensor<4x6xf32> {nn.role = #nn.role<gradient>, nn.name = "w1.weight"}',
    ):
        assert expected in found, expected


@pytest.mark.parametrize(
    "operator,phase,marker",
    [
        ("gelu", "forward", "gelu"),
        ("gelu_backward", "backward", "gelu"),
        ("layer_norm", "forward", "norm"),
        ("layer_norm_backward", "backward", "norm"),
        ("log_softmax", "forward", "loss"),
        ("log_softmax_backward", "backward", "loss"),
    ],
)
def test_user_lines(operator, phase, marker):
    (line,) = [line for line in text().splitlines() if f'"nn.{operator}"' in line]
    (number,) = lines_of(marker)
    assert f"nn.pass = #nn.pass<{phase}>" in line
    assert re.search(rf'loc\(".*test_text\.py":{number}:\d+\)$', line), line


def test_matmuls_have_the_line_of_the_linear_layer():
    (number,) = lines_of("linear")
    found = [line for line in text().splitlines() if '"nn.matmul"' in line]
    assert len(found) == 2
    assert all(f":{number}:" in line for line in found)


def test_an_error_of_the_whole_step_has_the_line_of_the_loss():
    broken = text().replace("nn.updates = 0 : i64", "nn.updates = 99 : i64", 1)
    (number,) = lines_of("loss")
    message = rf"^\S*test_text\.py:{number}: result 1 updates argument 99, but there are \d+$"
    with pytest.raises(tandem.CompileError, match=message):
        compile_module(types.SimpleNamespace(mlir=broken))


def test_update_names_its_parameter():
    updates = [line for line in text().splitlines() if "nn.pass = #nn.pass<update>" in line]
    assert any(line.endswith('loc("optimizer.w1.weight")') for line in updates)
    assert {match for line in updates for match in re.findall(r'loc\("(\w+)\.', line)} == {
        "optimizer"
    }


@pytest.mark.parametrize(
    "tensor,expected",
    [
        (torch.tensor(1e-5, dtype=torch.float64), "dense<1.0e-05> : tensor<f64>"),
        (torch.tensor(-float("inf")), "dense<0xFF800000> : tensor<f32>"),
        (torch.tensor(float("inf"), dtype=torch.bfloat16), "dense<0x7F80> : tensor<bf16>"),
        (torch.tensor([True, False]), "dense<[true, false]> : tensor<2xi1>"),
        (torch.zeros(2, 3), "dense<0.0> : tensor<2x3xf32>"),
        (torch.tensor([[1], [2]]), "dense<[[1], [2]]> : tensor<2x1xi64>"),
        (torch.arange(17, dtype=torch.int32), 'dense<"0x0000000001000000'),
    ],
)
def test_constants(tensor, expected):
    assert dense(tensor).startswith(expected)


def test_attributes():
    assert [attribute(v) for v in (True, 3, 0.5, (1, 2), ())] == [
        "true", "3 : i64", "0.5 : f64", "array<i64: 1, 2>", "array<i64>",
    ]  # fmt: skip
    assert inherent_attribute("predicate", "le") == "#nn<predicate le>"
    assert quote('a"b\\c\né') == r'"a\"b\\c\0A\C3\A9"'
