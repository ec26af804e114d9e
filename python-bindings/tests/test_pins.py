"""Pins of what operators make: how they are called, what they fix, and that the step stays the same."""

import inspect
import re

import pytest
import tandem
import torch
from printed import operators_of
from tandem.session.compile import compile_module
from test_models import mse, normal
from test_training import train_both
from torch import nn


class Layer(nn.Module):
    """A feed-forward layer behind attention of one head, each operator on a line of its own."""

    def __init__(self, width=8):
        super().__init__()
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)
        self.first, self.second = nn.Linear(width, 16), nn.Linear(16, width)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(-1, -2)
        weights = torch.softmax(scores, -1)
        x = weights @ x
        h = torch.tanh(self.first(x))
        return self.second(h)


def make():
    torch.manual_seed(0)
    model = Layer().double()
    batches = [(normal(4, 6, 8), normal(4, 6, 8)) for _ in range(2)]
    return model, torch.optim.AdamW(model.parameters(), lr=0.01), batches


@pytest.fixture(scope="module")
def module():
    model, optimizer, batches = make()
    return tandem.export(model, mse, optimizer, batches[0])


def planned(module, pins, **how):
    """The lines of operators in the IR of the plan stage."""
    options = {"mesh": "data=2,model=2", "stop_after": "plan", "pins": pins} | how
    ((_, text),) = compile_module(module, **options).ir
    return operators_of(text)


def results_of(lines, kind):
    """Per operator of this kind, its result's form on each axis."""
    found = []
    for line in lines:
        if f" nn.{kind} " in line:
            texts = re.findall(r'"([^"]*)"', re.search(r'signatures = <(".*?")>', line)[1])
            found.append(tuple(text.split("-> ")[1].split(", ")[0] for text in texts))
    return found


HOW = {
    "preset": {},
    "preset in strands": {"micro": 2},
    "search": {"search": "tandem"},
    "search in strands": {"search": "tandem", "micro": 2},
}
PINS = {
    # What no preset splits: the batch whole over `data`, the rows of the scores over `model`.
    "rows": tandem.pin("nn.softmax@*test_pins.py:*", data="full", model="gather(1)"),
    "hidden": tandem.pin("nn.tanh@*test_pins.py:*", data="full", model="gather(0)"),
}
KINDS = {"rows": "softmax", "hidden": "tanh"}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("pin", PINS)
def test_is_made_as_pinned(module, pin, how):
    forms = tuple(form for _, form in PINS[pin].forms)
    made = results_of(planned(module, [PINS[pin]], **HOW[how]), KINDS[pin])
    assert made and all(found[:2] == forms for found in made)
    free = results_of(planned(module, [], **HOW[how]), KINDS[pin])
    assert not any(found[:2] == forms for found in free)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("pin", PINS)
def test_is_the_same_step(pin, how):
    model, optimizer, batches = make()
    options = {"mesh": "data=2,model=2", "pins": [PINS[pin]]} | HOW[how]
    train_both(model, mse, optimizer, batches, **options)


def number_of(module, kind):
    (line,) = [text for text in planned(module, []) if f" nn.{kind} " in text]
    return re.search(r"nn\.id = (\d+)", line)[1]


def test_may_be_named_by_number(module):
    name = f"nn.softmax#{number_of(module, 'softmax')}"
    (made,) = results_of(planned(module, [tandem.pin(name, model="gather(1)")]), "softmax")
    assert made[1] == "gather(1)"


def test_a_sum_may_be_left_open(module):
    """The product of the last line, whose inner dimension is split, is not summed where it is made."""
    lines, first = inspect.getsourcelines(Layer.forward)
    name = f"nn.matmul@*test_pins.py:{first + len(lines) - 1}"
    how = {"mesh": "data=2,model=2", "pins": [tandem.pin(name, model="reduce")]}
    made = results_of(planned(module, how["pins"]), "matmul")
    assert "reduce" in {axes[1] for axes in made}
    assert "reduce" not in {axes[1] for axes in results_of(planned(module, []), "matmul")}
    model, optimizer, batches = make()
    train_both(model, mse, optimizer, batches, **how)


BAD = [
    ("nn.softmax@nowhere.py:1", "gather(1)", r"matches nothing that an operator makes; close names are 'nn\."),
    ("*@*test_pins.py:*", "full", r"matches tensors of several kinds, 'nn\.\w+#\d+' and 'nn\.\w+#\d+', expected one kind"),
    ("nn.softmax@*", "gather(2)", r"'nn.softmax#\d+' of type .* cannot be made as gather\(2\) on axis 'model'; expected one of: full, gather\(0\), gather\(1\)"),
    ("nn.softmax@*", "gather(9)", r"cannot be made as gather\(9\)"),
    ("no.such.weight", "full", r"matches no parameter, buffer or input; .* what operators make is called as in 'nn.softmax#17'"),
    ("first.weight", "reduce", "asks for 'reduce' on axis 'model', expected 'full' or 'gather"),
    ("nn.constant#*", "full", "which is made in every form that is wanted"),
]  # fmt: skip


@pytest.mark.parametrize("search", [None, "tandem"])
@pytest.mark.parametrize("glob,form,words", BAD)
def test_bad_pins(module, glob, form, words, search):
    with pytest.raises(tandem.CompileError, match=words) as error:
        planned(module, [tandem.pin(glob, model=form)], search=search)
    assert "\n" not in str(error.value)


def test_two_pins_that_differ(module):
    pins = [tandem.pin("nn.softmax@*", model=form) for form in ("full", "gather(0)")]
    with pytest.raises(tandem.CompileError, match="but a pin before it as full: remove one"):
        planned(module, pins)


def test_pins_stand_in_the_plan_and_are_obeyed_again(module, tmp_path):
    how = {"mesh": "data=2,model=2", "pins": [PINS["rows"]], "search": "tandem"}
    found = compile_module(module, **how)
    assert f"\npins {PINS['rows']}\n" in found.plan
    path = tmp_path / "plan.txt"
    path.write_text(found.plan)
    again = compile_module(module, plan=str(path), timeline=True)
    assert f"\npins {PINS['rows']}\n" in again.plan and again.bytes == found.bytes


class Packed(nn.Module):
    """Queries, keys and values come from one product, so that what reads it is decided together."""

    def __init__(self):
        super().__init__()
        self.packed, self.last = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        rows, positions, _ = x.shape
        q, k, v = self.packed(x).view(rows, positions, 3, 2, 8).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.last(y.transpose(1, 2).reshape(rows, positions, 16))


@pytest.mark.parametrize("micro", [1, 2])
def test_a_plan_found_under_a_pin(tmp_path, micro):
    """Its operator stands alone, also where the plan is read back or another search starts from it."""
    model = Packed().double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    module = tandem.export(model, mse, optimizer, (normal(4, 6, 16), normal(4, 6, 16)))
    how = {"mesh": "data=2", "micro": micro, "search": "tandem"}
    pins = [tandem.pin("nn.attention@*", data="gather(2)")]
    found = compile_module(module, stop_after="plan", pins=pins, **how)
    (made,) = results_of(operators_of(found.ir[0][1]), "attention")
    assert made[0] == "gather(2)"
    file = tmp_path / "plan.txt"
    file.write_text(found.plan)
    again = compile_module(module, stop_after="plan", plan=str(file))
    assert again.ir == found.ir and again.plan == found.plan
    free = compile_module(module, stop_after="plan", start=str(file), **how)
    assert free.ir != found.ir
