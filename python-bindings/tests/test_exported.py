"""`.pt2` files of torch.export: the step is the one that the exported model gives."""

import re

import pytest
import torch
import torch.nn.functional as F
from tandem.__main__ import main
from tandem.capture.export import export
from tandem.capture.exported_file import load_exported_file, optimizer_of
from tandem.errors import ModelFileError, TandemError
from torch import nn


def mse(model, batch):
    return F.mse_loss(model(batch[0]), batch[1])


def entropy(model, batch):
    return F.cross_entropy(model(batch[0]).transpose(1, 2), batch[1])


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(11, 6), nn.Linear(6, 11, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens):
        return self.head(self.table(tokens))


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        made = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return made.transpose(1, 2).flatten(2)


class First(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


def image_network():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Upsample(scale_factor=2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 1),
    )  # fmt: skip


ROWS, SEQUENCE = torch.randn(8, 6), torch.randn(4, 5, 8)
TOKENS = torch.randint(0, 11, (4, 5))
MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)), ROWS, (8, 1)),
    "norms": (
        lambda: nn.Sequential(nn.BatchNorm1d(6), nn.LayerNorm(6), nn.GELU(), nn.GroupNorm(2, 6)),
        ROWS,
        (8, 6),
    ),
    "dropout": (lambda: nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.3)), ROWS, (8, 6)),
    "image": (image_network, torch.randn(4, 3, 8, 8), (4, 1)),
    "attention": (Attending, SEQUENCE, (4, 5, 8)),
    "layer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.1, batch_first=True),
        SEQUENCE,
        (4, 5, 8),
    ),
    "lstm": (lambda: First(nn.LSTM(8, 6, batch_first=True)), SEQUENCE, (4, 5, 6)),
    "gru": (lambda: First(nn.GRU(8, 6, batch_first=True)), SEQUENCE, (4, 5, 6)),
    "shrink": (lambda: nn.Sequential(nn.Linear(6, 6), nn.Softshrink(0.1)), ROWS, (8, 6)),
    "tied": (Tied, TOKENS, None),
}


def without_places(text):
    return re.sub(r" loc\(.*\)$", "", text, flags=re.M)


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("exported")


def save(folder, name):
    """(model, batch, loss, path)."""
    make, x, target = MODELS[name]
    torch.manual_seed(1)
    model, path = make(), folder / f"{name}.pt2"
    torch.export.save(torch.export.export(model, (x,)), path)
    batch = (x, TOKENS if target is None else torch.randn(target))
    return model, batch, entropy if target is None else mse, path


@pytest.mark.parametrize("name", MODELS)
def test_the_step_is_that_of_the_model(folder, name):
    model, batch, loss, path = save(folder, name)
    file = load_exported_file(path, f"{__file__}:{loss.__name__}", "adamw,lr=1e-3")
    again = file.make_model()
    expected = export(model, loss, adamw(model), batch)
    found = export(again, file.loss, file.make_optimizer(again), batch)
    assert without_places(found.mlir) == without_places(expected.mlir)
    values, own = found.values(), expected.values()
    assert values.keys() == own.keys()
    assert all(torch.equal(values[key], own[key]) for key in own)


SCRIPT = """
import torch, torch.nn.functional as F
PRESETS = {"small": dict(rows=8)}
def loss(model, batch):
    return F.mse_loss(model(batch[0]), batch[1])
def of_inputs(model, batch):
    return model(batch).square().mean()
def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
def batches(rows, **_):
    torch.manual_seed(rows)
    while True:
        yield torch.randn(rows, 6), torch.randn(rows, 1)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script_of_pt2.py"
    path.write_text(SCRIPT)
    return path


def test_commands(folder, script, tmp_path, capsys):
    _, _, _, path = save(folder, "mlp")
    output = tmp_path / "step.mlir"
    assert main(["export", str(path), "-o", str(output)]) == 0
    text = output.read_text()
    assert "role<output>" in text and "role<loss>" not in text and "role<state>" not in text
    training = [str(path), "--loss", f"{script}:loss"]
    assert (
        main(
            ["export", *training, "--optimizer", "adam,lr=1e-3,betas=(0.8,0.9)", "-o", str(output)]
        )
        == 0
    )
    assert 'nn.name = "exp_avg.0.weight"' in output.read_text()
    assert main(["export", *training, "-o", str(output)]) == 0
    assert "momentum_buffer" in output.read_text() and "tensor<8x6xf32>" in output.read_text()
    assert main(["export", *training, "--set", "rows=4", "-o", str(output)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "8" in error, error
    own = [str(path), "--loss", f"{script}:of_inputs"]
    script.write_text(SCRIPT.replace("def batches", "def other"))
    assert main(["verify", *own, "--optimizer", "adamw,lr=1e-2", "--mesh", "data=2"]) == 0
    assert "passed" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments,expected",
    [
        (["export", "{folder}/none.pt2"], "none.pt2: no such file"),
        (["export", "{script}.pt2"], "found no exported program, expected what torch.export.save"),
        (["export", "{pt2}", "--optimizer", "adam"], "option of training without --loss"),
        (["export", "{pt2}", "--loss", "loss"], "--loss: found 'loss', expected FILE.py:function"),
        (["export", "{pt2}", "--loss", "{script}:none"], "has no function 'none'"),
        (
            ["export", "{pt2}", "--loss", "{script}:loss", "--optimizer", "best"],
            "found 'best', exp",
        ),
        (
            ["export", "{pt2}", "--loss", "{script}:loss", "--optimizer", "adam,lr"],
            "--optimizer: found 'lr', expected name=value",
        ),
        (
            ["export", "{pt2}", "--loss", "{script}:loss", "--optimizer", "adam,lr=-1"],
            "--optimizer adam,lr=-1: ValueError: Invalid learning rate",
        ),
        (["verify", "{pt2}"], "has no loss, expected --loss FILE.py:function"),
        (
            ["export", "{script}", "--loss", "{script}:loss"],
            "--loss and --optimizer with a .pt2 file",
        ),
        (["export", "{pt2}", "-o", "{pt2}"], "it is the input, expected another file"),
        (["export", "{pt2}", "-o", "{script}"], "found a file that is not a step as text"),
        (["export", "{pt2}", "-o", "{folder}"], "expected a regular file"),
        (["export", "{pt2}", "-o", ""], "-o '': names no file, expected one such as step.mlir"),
        (
            ["export", "{pt2}", "-o", "x.safetensors"],
            "is where the values go, expected another suf",
        ),
        (["verify", "{pt2}", "--steps", str(2**63)], "expected at most"),
    ],
)
def test_errors_are_one_line(folder, script, capsys, arguments, expected):
    path = folder / "mlp.pt2"
    path = path if path.exists() else save(folder, "mlp")[-1]
    (script.parent / f"{script.name}.pt2").write_text("no program")
    before = script.read_text()
    names = dict(folder=folder, script=script, pt2=path)
    assert main([argument.format(**names) for argument in arguments]) == 1
    error = capsys.readouterr().err
    assert expected in error and error.count("\n") == 1
    assert script.read_text() == before and path.stat().st_size > 1000


def test_values_of_others_stay(folder, tmp_path, capsys):
    """`-o model.mlir` would put the step's values where the user's weights are."""
    from safetensors.torch import load_file, save_file

    _, _, _, path = save(folder, "mlp")
    save_file({"weight": torch.ones(3)}, tmp_path / "model.safetensors")
    assert main(["export", str(path), "-o", str(tmp_path / "model.mlir")]) == 1
    assert (
        "model.safetensors': found a file that is not the values of a step"
        in capsys.readouterr().err
    )
    assert load_file(tmp_path / "model.safetensors")["weight"].sum() == 3
    assert not (tmp_path / "model.mlir").exists()


def test_an_optimizer_as_text():
    made = optimizer_of("AdamW,lr=1e-3,betas=(0.8,0.9),amsgrad=True")(nn.Linear(2, 2))
    assert type(made) is torch.optim.AdamW
    assert made.defaults["betas"] == (0.8, 0.9) and made.defaults["amsgrad"] is True
    with pytest.raises(
        ModelFileError, match="--optimizer: found 'adamw2', expected one of .*adamw"
    ):
        optimizer_of("adamw2")
    assert issubclass(ModelFileError, TandemError)
