"""The command `verify`: what it prints, its exit status, and bad input as one line."""

import ast
import re
from pathlib import Path

import pytest
import tandem
import torch
from safetensors.torch import load_file
from tandem.__main__ import main
from tandem.capture.model_file import load_model_file
from tandem.commands import verify
from tandem.verify import eager
from tandem.verify.verify import make_subject

HEAD = """
import torch
from torch import nn
import torch.nn.functional as F
PRESETS = {"only": {}}
def loss(m, batch): return F.cross_entropy(m(batch[0]), batch[1])
def batches():
    torch.manual_seed(0)
    while True:
        yield torch.randn(8, 6), torch.randint(0, 3, (8,))
def layers(): return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
def optimizer(m): return torch.optim.SGD(m.parameters(), lr=0.5)
"""


@pytest.fixture
def write(tmp_path):
    """A model file of HEAD and `text`."""

    def write(text):
        path = tmp_path / "m.py"
        path.write_text(HEAD + text)
        return str(path)

    return write


@pytest.fixture
def mlp(root):
    return str(root / "examples" / "mlp.py")


def test_passes_and_names_every_rule(mlp, capsys):
    options = ["--mesh", "data=2", "--plan", "zero", "--micro", "2", "--steps", "2"]
    assert main(["verify", mlp, *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    kinds = {line.split()[0] for line in lines[1:-1]}
    assert kinds == {"loss", "gradient", "parameter", "buffer", "state"}
    assert lines[-1].startswith("verify: passed")


def test_pipelines_take_orders(write, capsys, tmp_path):
    order = tmp_path / "order.csv"
    order.write_text("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")
    words = ["--mesh", "pipe=2", "--accumulate", "2", "--steps", "2"]
    words += ["--pin", "0.*:pipe=at(0)", "--pin", "2.*:pipe=at(1)"]
    path = write("def model(): return layers()\n")
    for name in ("gpipe", str(order)):
        assert main(["verify", path, *words, "--order", name]) == 0
        assert capsys.readouterr().out.splitlines()[-1].startswith("verify: passed")
    order.write_text("0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n")
    assert main(["verify", path, *words, "--order", str(order)]) == 1
    assert "order.csv:2: found no '1B1', nor its I and W" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["gradients", "parameters", "losses"])
def test_fails_with_status_1(mlp, capsys, monkeypatch, what):
    def spoilt(subject, *rest):
        history = run(subject, *rest)
        if what == "gradients":
            history.gradients[-1]["1.weight"] *= 1.001
        elif what == "parameters":
            history.parameters["1.weight"] *= 1 + 1e-6
        else:
            history.losses[0] *= 1 + 1e-6
        return history

    run = verify.run_program
    monkeypatch.setattr(verify, "run_program", spoilt)
    assert main(["verify", mlp]) == 1
    out = capsys.readouterr().out
    assert out.count("FAIL ") == 1 and "verify: FAILED" in out


@pytest.mark.parametrize(
    "options,words",
    [
        (["--mesh", "data=3"], "3"),
        (["--mesh", "data=two"], "two"),
        (["--plan", "magic"], "magic"),
        (["--mesh", "data=2", "--pin", "1.weight"], "1.weight"),
        (["--mesh", "data=2", "--pin", "1.weight:data=gather(9)"], "gather(9)"),
        (["--micro", "0"], "micro is 0"),
        (["--steps", "0"], "--steps is 0"),
        (["--set", "no_such=1"], "no_such"),
        (["--preset", "huge"], "huge"),
    ],
)
def test_bad_input_is_one_line(mlp, capsys, options, words):
    assert main(["verify", mlp, *options]) == 1
    captured = capsys.readouterr()
    assert words in captured.err and captured.err.count("\n") == 1


@pytest.mark.parametrize("stage", ["import", "shard", "schedule"])
def test_reference_interpreter_judges_a_stage(mlp, stage):
    options = ["--device", "reference", "--stage", stage, "--mesh", "data=2", "--micro", "2"]
    assert main(["verify", mlp, *options, "--steps", "1"]) == 0


HOOKS = """
def model():
    m = layers()
    for p in m.parameters():
        p.register_hook(lambda g: g.clamp(-1e-3, 1e-3))
    return m
"""


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_eager_has_the_hooks_of_the_users_parameters(write, dtype):
    subject = make_subject(load_model_file(write(HOOKS), dtype=dtype), steps=1)
    for gradient in subject.expected.gradients[0].values():
        assert gradient.abs().max() <= 1e-3
    assert main(["verify", write(HOOKS), "--dtype", dtype]) == 0


def test_a_capture_without_hooks_would_fail(write, capsys, monkeypatch):
    def without(tensor, hook):
        if isinstance(tensor, torch._subclasses.FakeTensor):
            return None
        return register(tensor, hook)

    register = torch.Tensor.register_hook
    monkeypatch.setattr(torch.Tensor, "register_hook", without)
    assert main(["verify", write(HOOKS)]) == 1
    assert "verify: FAILED" in capsys.readouterr().out


def test_a_parameter_that_no_optimizer_has_is_compared(write, capsys):
    text = """
def model(): return layers()
def optimizer(m): return torch.optim.SGD(m[0].parameters(), lr=0.5)
"""
    assert main(["verify", write(text)]) == 0
    assert "gradient  2.weight" in capsys.readouterr().out


def test_learning_rate_as_a_tensor(write):
    text = """
def model(): return layers()
def optimizer(m): return torch.optim.SGD(m.parameters(), lr=torch.tensor(0.05), momentum=0.8)
"""
    assert main(["verify", write(text)]) == 0


def test_a_buffer_that_the_first_forward_registers(write):
    text = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.other = layers(), nn.Linear(6, 3)
        self.register_buffer("bias", None)
        self.register_buffer("now", self.other.bias.detach())
    def forward(self, x):
        if self.bias is None:
            self.register_buffer("bias", torch.arange(3) / 3)
        return self.layers(x) + self.bias + self.other(x) * self.now
def model(): return Net()
"""
    assert main(["verify", write(text), "--mesh", "data=2", "--micro", "2"]) == 0


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_numbers_in_states_and_groups_are_compared(write, capsys, dtype):
    """Eager keeps them as numbers; below float64 it goes on from those of the step. The rate of the optimizer is None."""
    path = write("""
class Own(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, dict(lr=None, d=1e-2, k=0))
    @torch.no_grad()
    def step(self):
        group = self.param_groups[0]
        total = 0.0
        for p in group["params"]:
            state = self.state[p]
            if not state:
                state["p0"], state["t"] = p.flatten().clone(), 0
            state["t"] += 0.5
            total += torch.dot(p.grad.flatten(), state["p0"] - p.flatten()).item()
            p.sub_(p.grad * group["d"] / state["t"])
        group["d"] = max(group["d"], min(total, 1.1 * group["d"]))
        group["k"] += 1
def model(): return layers()
def optimizer(m): return Own(m.parameters())
""")
    assert main(["verify", path, "--steps", "3", "--dtype", dtype]) == 0
    out = capsys.readouterr().out
    assert all(f"state     {name}" in out for name in ("group:d.0.weight", "group:k.0.weight"))
    assert all(f"{name}.2.bias" in out for name in ("p0", "t"))


def test_an_attribute_of_float32_beside_rows_of_float64(write):
    """It keeps its type, whatever verify widens in the model's own calls."""
    path = write(
        "class M(nn.Linear):\n"
        "    def __init__(self): super().__init__(6, 3); self.w = torch.rand(8)\n"
        "    def forward(self, x): return self.w.view(-1, 1) * super().forward(x)\n"
        "def model(): return M()\n"
    )
    assert main(["verify", path]) == 0


def test_values_that_are_no_numbers_in_a_mask(write):
    text = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 3)
        self.register_buffer("mask", torch.full((3, 3), -torch.inf).triu(1))
    def forward(self, x):
        return self.a(x) @ self.mask.softmax(-1)
def model(): return Net()
"""
    assert main(["verify", write(text)]) == 0


def test_weight_decay_of_adam_beside_gradients_that_are_zero(write):
    text = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.MultiheadAttention(6, 2, batch_first=True), nn.Linear(6, 3)
    def forward(self, x):
        x = x.view(2, 4, 6)
        return self.b(x + self.a(x, x, x)[0]).view(8, 3)
def model(): return Net()
def optimizer(m): return torch.optim.Adam(m.parameters(), lr=1e-2, weight_decay=1e-2)
"""
    assert main(["verify", write(text), "--mesh", "data=2"]) == 0


def test_what_is_in_float16_is_compared(write):
    text = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 3)
    def forward(self, x):
        return self.a(x).half().to(x.dtype)
def model(): return Net()
"""
    assert main(["verify", write(text)]) == 0


@pytest.mark.parametrize(
    "text,words",
    [
        ("M = layers()\ndef model(): return M\n", "same parameter '0.weight'"),
        (
            "N = []\ndef model():\n    N.append(1)\n    return nn.Sequential(*[nn.Linear(6, 6)] * (len(N) > 1),"
            " nn.Linear(6, 3))\n",
            "when called again",
        ),
    ],
)
def test_models_that_are_not_made_anew_are_one_line(write, capsys, text, words):
    assert main(["verify", write(text)]) == 1
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


CHOOSING = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.score, self.layer = nn.Embedding(3, 6), nn.Linear(6, 1), nn.Linear(6, 3)
    def forward(self, x):
        rows = self.table((x.abs() * 2).long() % 3)
        scores, indices = self.score(rows)[..., 0].topk(3, sorted=SORTED)
        if ORDERED:
            indices, order = indices.sort()
            scores = scores.gather(1, order)
        rows = rows.gather(1, indices[..., None].expand(-1, -1, 6))
        places = torch.arange(3, dtype=rows.dtype) + indices.to(rows.dtype)
        return self.layer((rows * scores.sigmoid()[..., None] * places[..., None]).sum(1))
def model(): return Net()
"""


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_ties_and_orders_that_pytorch_leaves_open(write, capsys, is_sorted, ordered, dtype):
    """Equal tokens have equal scores; the same indices, and their order, are chosen in eager."""
    text = CHOOSING.replace("SORTED", str(is_sorted)).replace("ORDERED", str(ordered))
    status = main(["verify", write(text), "--mesh", "data=2", "--dtype", dtype])
    out = capsys.readouterr().out
    assert status == 0, out
    assert len([line for line in out.splitlines() if line.startswith("choice")]) >= 1 + ordered


def test_a_run_that_parts_at_a_tie_is_judged_step_by_step(write, capsys, monkeypatch):
    """Eager takes the last one of equal values: the steps are comparable with the run's choices only."""

    def topk(x, k, dim=-1, **_):
        values, indices = x.flip(dim).sort(dim=dim, descending=True, stable=True)
        return values.narrow(dim, 0, k), x.shape[dim] - 1 - indices.narrow(dim, 0, k)

    monkeypatch.setattr(eager, "_topk", topk)
    path = write(CHOOSING.replace("SORTED", "True").replace("ORDERED", "False"))
    assert main(["verify", path]) == 0
    assert "differ, by margin" in capsys.readouterr().out


ROTARY = """
class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
        angles = torch.arange(4.0)
        self.register_buffer("turns", torch.polar(torch.ones(4), angles))
        self.register_buffer("seen", torch.zeros(4, dtype=torch.complex64))
    def forward(self, x):
        z = torch.view_as_complex(self.inner(x).reshape(-1, 4, 2)) * self.turns
        with torch.no_grad():
            self.seen.add_(z.sum(0))
        return self.head(torch.view_as_real(z).flatten(1))
def model(): return Rotary()
"""


def test_complex_buffers_keep_their_imaginary_parts(write, capsys, tmp_path):
    path = write(ROTARY)
    assert main(["verify", path, "--mesh", "data=2"]) == 0
    assert "buffer    seen" in capsys.readouterr().out
    assert main(["export", path, "-o", str(tmp_path / "step.mlir")]) == 0
    turns = load_file(tmp_path / "step.safetensors")["buffer/turns"]
    assert torch.equal(torch.view_as_complex(turns), torch.polar(torch.ones(4), torch.arange(4.0)))


def test_a_conversion_that_changes_the_model_is_seen(write, capsys, monkeypatch):
    """Eager makes, and converts, a model of its own."""
    monkeypatch.setattr(
        "tandem.verify.verify.as_dtype", lambda model, dtype: halved(model).to(dtype)
    )
    path = write("def model(): return layers()\n")
    assert main(["verify", path]) == 1
    assert "FAIL" in capsys.readouterr().out


def halved(model):
    with torch.no_grad():
        model[0].weight.mul_(0.5)
    return model


def modules_imported_by(path, top):
    """Files of the package that a module's relative imports name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = path.parents[node.level - 1] / (node.module or "").replace(".", "/")
            for place in [folder, *(folder / alias.name for alias in node.names)]:
                for file in (place.with_suffix(".py"), place / "__init__.py"):
                    if file.is_file() and top in file.parents and file != top / "__init__.py":
                        yield file


def test_the_reference_shares_no_code_with_a_capture():
    """Of what judges, only what holds no numbers is imported by what is judged."""
    top = Path(tandem.__file__).parent
    pending, found = [Path(eager.__file__), top / "random.py"], set()
    while pending:
        path = pending.pop()
        if path not in found:
            found.add(path)
            pending += modules_imported_by(path, top)
    names = {str(path.relative_to(top).with_suffix("")) for path in found}
    assert "verify/eager" in names and "tracing/locations" in names
    captures = {"definitions", "formulas", "losses"}
    captures = {f"formulas/{name}" for name in captures} | {
        "capture/functional",
        "lowering/__init__",
        "capture/trace",
        "tracing/experts",
        "tracing/masks",
    }
    assert all((top / f"{name}.py").is_file() for name in captures)
    assert not names & captures


RESULTS = """
def model(): return layers()
def loss(m, batch):
    y = m(batch[0])
    found = F.cross_entropy(y, batch[1], reduction="sum").reshape(1)
    return {"right": y.argmax(-1) == batch[1], "loss": found, "spread": y.std()}
"""


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_loss_among_other_results(write, capsys, device, dtype):
    words = ["--dtype", dtype, "--device", device, "--mesh", "data=2", "--steps", "2"]
    assert main(["verify", write(RESULTS), *words]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^loss ", out, re.MULTILINE), out
    assert re.search(r"^choice ", out, re.MULTILINE), out
