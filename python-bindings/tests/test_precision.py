"""bfloat16: what is cast, in which type it is summed and gathered, and whether it is as exact as autocast."""

import contextlib
import copy
import functools
import os
import re
import subprocess
import sys
from unittest import mock

import matrix
import pytest
import tandem
import torch
import torch.nn.functional as F
from comparing import eager_step
from matrix import Case
from tandem import _tandem
from tandem.__main__ import main
from tandem.capture.export import export
from tandem.capture.model_file import ModelFile
from tandem.errors import CaptureError
from tandem.session.compile import compile_module
from tandem.session.step import Step
from tandem.verify.compare import History
from tandem.verify.verify import judge, make_subject, run_step
from test_plans import collectives
from torch import nn

NARROW, WIDE = torch.bfloat16, torch.float32


class Net(nn.Module):
    """Its weights' gradients come from products, from sums, from two uses, and through a norm of bfloat16."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(16, 64), nn.LayerNorm(64)
        self.again, self.last = nn.Linear(64, 64), nn.Linear(64, 16)

    def forward(self, x):
        h = self.norm(F.gelu(self.first(x)))
        return self.last(self.again(self.again(h)))


def loss_of(model, batch):
    return F.mse_loss(model(batch), batch)


def under_autocast(model, batch):
    with torch.autocast("cpu", torch.bfloat16):
        return loss_of(model, batch)


ROWS = 32


def batch_of():
    return torch.randn(ROWS, 16, generator=torch.Generator().manual_seed(1))


def captured(loss=loss_of, model=None, **options):
    torch.manual_seed(0)
    model = model or Net()
    return tandem.export(model, loss, torch.optim.AdamW(model.parameters()), batch_of(), **options)


def text_of(module):
    return re.sub(r" loc\(.*", "", module.mlir)


# ---- What is cast


def test_precision_is_what_autocast_makes_of_the_loss():
    assert text_of(captured(precision="bf16")) == text_of(captured(under_autocast))
    assert text_of(captured(under_autocast, precision="bf16")) == text_of(captured(under_autocast))
    assert "bf16" not in captured().mlir


@pytest.mark.parametrize("variant", ["gpt", "bert_moe sgmoe"])
def test_products_are_narrow_and_all_that_is_kept_is_wide(variant):
    step = matrix.subject_of(Case(variant, dtype="bf16"), 1).module.step
    assert {value.dtype for value in step.parameters if value.dtype.is_floating_point} == {
        torch.float32,
        torch.float64,  # learning rates
    }
    for operator in step.operators:
        types = {value.dtype for value in (*operator.operands, *operator.results)}
        if operator.name in ("matmul", "attention"):
            assert operator.operands[0].dtype == NARROW
        if operator.phase == "update" or operator.name == "log_softmax":
            assert NARROW not in types


def test_a_norm_of_bfloat16_keeps_its_parameters_and_statistics():
    step = captured(precision="bf16").step
    (norm,) = [operator for operator in step.operators if operator.name == "layer_norm"]
    (back,) = [operator for operator in step.operators if operator.name == "layer_norm_backward"]
    assert [value.dtype for value in norm.operands] == [NARROW, WIDE, WIDE]
    assert [value.dtype for value in norm.results] == [NARROW, WIDE, WIDE]
    assert back.operands[2:4] == norm.results[1:]
    assert [value.dtype for value in back.results] == [NARROW, WIDE, WIDE]


# ---- In which type gradients are summed


def reduced_types(module, **options):
    """Element types in which gradients of parameters are summed over ranks or strands."""
    text = " ".join(compile_module(module, stop_after="shard", **options).ir[-1][1].split())
    pattern = r"spmd\.reform %\S+ {[^}]*backward[^}]*} : tensor<([\dx]*x)?(\w+), #\w*reduce"
    found = re.findall(pattern, text)
    return [element for shape, element in found if not shape.startswith(f"{ROWS}x")]


@pytest.mark.parametrize("plan", ["data-parallel", "zero"])
def test_gradients_are_made_and_summed_in_float32(plan):
    options = dict(mesh="data=2", plan=plan, micro=2)
    found = reduced_types(captured(precision="bf16"), **options)
    assert len(found) >= 8 and set(found) == {"f32"}
    found = reduced_types(captured(precision="bf16", gradient_sums="bf16"), **options)
    # The norm's gradients are made in float32.
    assert set(found) == {"bf16", "f32"} and found.count("f32") <= 4


class Images(nn.Module):
    """Convolutions of all channels, of each channel, and one that is transposed; three of one image's rows."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.each = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.back = nn.ConvTranspose2d(8, 4, 2, 2)
        self.last = nn.Linear(4, 16)

    def forward(self, x):
        x = F.gelu(self.each(F.gelu(self.first(x.unflatten(1, (1, 4, 4))))))
        return self.last(F.gelu(self.back(x)).mean((2, 3)))


def test_convolutions_give_gradients_of_weights_in_float32():
    module = captured(model=Images(), precision="bf16")
    text = compile_module(module, mesh="data=2", micro=2, stop_after="import").ir[-1][1]
    types = r"nn\.conv_weight_grad [^(]*\(tensor<[\dx]+(\w+)>[^)]*\) -> tensor<[\dx]+x(\w+)>"
    made = re.findall(types, text)
    assert made == [("bf16", "f32")] * 3
    found = reduced_types(module, mesh="data=2", plan="zero", micro=2)
    assert len(found) >= 8 and set(found) == {"f32"}


@pytest.mark.parametrize("search", ["tandem", "hidup"])
def test_no_price_makes_a_search_sum_gradients_in_bfloat16(search):
    """An all-reduce of half the bytes is cheaper, all the more with cores as slow as these."""
    cluster = matrix.cluster_file(4)
    options = dict(mesh="data=4", micro=2, search=search, cluster=cluster, search_time_limit=5)
    assert set(reduced_types(captured(precision="bf16"), **options)) <= {"f32"}


def test_a_rounding_is_no_place_to_sum_behind():
    """Split over rows, a lookup is a sum of terms; it is finished before it is rounded."""

    class Lookup(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.last = nn.Embedding(32, 16), nn.Linear(16, 4)

        def forward(self, x):
            return self.last(self.table(x))

    def loss(model, batch):
        return model(batch).square().mean()

    model = Lookup()
    module = tandem.export(
        model, loss, torch.optim.SGD(model.parameters(), lr=0.1), torch.arange(8), precision="bf16"
    )
    pins = [tandem.pin("table.weight", data="gather(0)")]
    compiled = compile_module(
        module, mesh="data=2", plan="replicate", pins=pins, stop_after="localize"
    )
    sums = re.findall(r"spmd\.all_reduce .*forward.*: tensor<8x16x(\w+)>", compiled.ir[-1][1])
    assert sums == ["f32"]


# ---- In which type parameters are gathered


def gathered_bytes(module, **options):
    program = _tandem.Program.load(compile_module(module, mesh="data=2", **options).bytes)
    return sum(size for kind, _, size in collectives(program) if kind == "all_gather")


def test_weights_are_gathered_in_bfloat16():
    """All but those of the norm, which are used as they are: half the bytes."""
    whole = gathered_bytes(captured(), plan="zero", micro=2)
    norm = gathered_bytes(captured(), plan="zero", micro=2, pins=NORM_ALONE)
    assert 0 < norm < whole / 10
    assert gathered_bytes(captured(precision="bf16"), plan="zero", micro=2) == (whole + norm) // 2


# All parameters but the norm's are whole.
NORM_ALONE = [tandem.pin(f"{name}.*", data="full") for name in ("first", "again", "last")]


_PLACES = torch.arange(32) % 16
_LISTED = {
    "multi_margin_loss": lambda y: F.multi_margin_loss(y, _PLACES),
    "multilabel_margin_loss": lambda y: F.multilabel_margin_loss(
        y, torch.cat([_PLACES[:, None], -torch.ones(32, 15, dtype=torch.long)], 1)
    ),
    "ctc_loss": lambda y: F.ctc_loss(
        y.log_softmax(-1)[:, None], torch.tensor([[1, 2, 3]]), torch.tensor([32]), torch.tensor([3])
    ),
    "cdist": lambda y: torch.cdist(y, y.detach() + 1).mean(),
    "pad": lambda y: F.pad(y, (1, 1), mode="replicate").square().mean(),
}


@pytest.mark.parametrize("name", _LISTED)
def test_what_autocast_lists_is_float32_where_a_definition_stands_for_it(name):
    def loss(model, batch):
        y = model(batch)
        assert y.dtype == torch.bfloat16
        value = _LISTED[name](y)
        assert value.dtype == torch.float32
        return value

    model = nn.Linear(16, 16)
    with torch.autocast("cpu", torch.bfloat16):
        loss(model, batch_of())
    captured(loss, model, precision="bf16")


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.layer = kind(16, 6, **options)

    def forward(self, x):
        return self.layer(x.unflatten(0, (4, 8)))


RECURRENT = {
    "lstm": lambda: Recurrent(nn.LSTM),
    "lstm, two layers, both ways": lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True),
    "lstm, batch first, no biases": lambda: Recurrent(nn.LSTM, batch_first=True, bias=False),
    "lstm, projected": lambda: Recurrent(nn.LSTM, proj_size=3),
    "gru": lambda: Recurrent(nn.GRU),
    "rnn": lambda: Recurrent(nn.RNN, num_layers=2),
}


def eager_has_lstm():
    """PyTorch gives LSTMs of bfloat16 to oneDNN, which has none for processors without AVX-512."""
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        try:
            RECURRENT["lstm"]()(batch_of())
        except RuntimeError as error:
            return "primitive descriptor for the LSTM" not in str(error)
    return True


def skip_what_eager_lacks(name):
    if name.startswith("lstm") and "projected" not in name and not eager_has_lstm():
        pytest.skip("eager has no LSTM of bfloat16 on this processor")


def types_of_recurrent(results):
    """Of the outputs and of the last states."""
    output, last = results
    return [t.dtype for t in (output, *(last if isinstance(last, tuple) else (last,)))]


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_have_the_types_of_autocast(name):
    skip_what_eager_lacks(name)
    found = []

    def loss(model, batch):
        results = model(batch)
        found.append(types_of_recurrent(results))
        return results[0].float().square().mean()

    with torch.autocast("cpu", torch.bfloat16):
        expected = types_of_recurrent(RECURRENT[name]()(batch_of()))
    captured(loss, RECURRENT[name](), precision="bf16")
    assert found[0] == expected


class Added(nn.Module):
    """Products with what is added to them, of a batch of them, and summed over it."""

    def __init__(self):
        super().__init__()
        self.left = nn.Parameter(torch.randn(4, 16, 8) / 4)
        self.one, self.each = nn.Parameter(torch.randn(8, 8)), nn.Parameter(torch.randn(4, 1, 8))

    def forward(self, x):
        x = x.unflatten(0, (4, 8))
        one = torch.addbmm(self.one, x, self.left, beta=0.5, alpha=2)
        each = torch.baddbmm(self.each, x, self.left, alpha=0.5)
        return one, each


def test_what_is_added_to_products_is_of_their_type():
    def loss(model, batch):
        one, each = model(batch)
        assert one.dtype == each.dtype == torch.bfloat16
        return one.float().square().mean() + each.float().square().mean()

    step = captured(loss, Added(), precision="bf16").step
    products = [operator for operator in step.operators if operator.name == "matmul"]
    assert {operator.operands[0].dtype for operator in products} == {NARROW}


# ---- Whether it is as exact as autocast


class OwnFile(ModelFile):
    """A model file without a file."""

    precision = "bf16"
    dtype = torch.float32

    def __init__(self, model, loss, batches, optimizer):
        self.make, self.loss_fn, self.make_batches, self.optimize = model, loss, batches, optimizer

    loss = property(lambda self: self.loss_fn)

    def build(self, seed=0, meta=False):
        torch.manual_seed(seed)
        return self.make()

    def make_optimizer(self, model):
        return self.optimize(model.parameters())

    def batches(self, count):
        generator = torch.Generator().manual_seed(0)
        return [torch.randn(self.make_batches, generator=generator) for _ in range(count)]


class Residual(nn.Module):
    """Products of 256 terms."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(32, 256), nn.LayerNorm(256), nn.Linear(256, 32)

    def forward(self, x):
        return x + self.last(self.norm(F.gelu(self.first(x))))


TARGETS = torch.arange(256) * 7 % 32


def cross_entropy(model, batch):
    return F.cross_entropy(model(batch), TARGETS)


@pytest.fixture(scope="module")
def subject():
    file = OwnFile(
        Residual, cross_entropy, (256, 32), lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0)
    )
    return make_subject(file)


def trained(subject, module=None, **options):
    compiled = compile_module((module or subject.module), **options)
    step = Step(module or subject.module, compiled.bytes, subject.model, subject.optimizer)
    return run_step(step, subject.batches)


def failed(subject, found):
    return [f"{row.kind} {row.name}" for row in judge(subject, found) if not row.passed]


@pytest.mark.parametrize("options", [{}, {"mesh": "data=4", "micro": 2, "plan": "zero"}])
def test_a_right_run_passes(subject, options):
    assert not failed(subject, trained(subject, **options))


def sum_of_squares(model, batch):
    return sum(value.float().square().mean() for value in model(batch)[:1])


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_are_as_exact(name):
    skip_what_eager_lacks(name)
    own = OwnFile(RECURRENT[name], sum_of_squares, (32, 16), lambda p: torch.optim.SGD(p, lr=0.1))
    subject = make_subject(own)
    assert not failed(subject, trained(subject, mesh="data=2", plan="replicate"))


def test_convolutions_are_as_exact():
    subject = make_subject(OwnFile(Images, loss_of, (32, 16), lambda p: torch.optim.SGD(p, lr=0.1)))
    assert not failed(subject, trained(subject, mesh="data=2", plan="zero", micro=2))


def test_what_is_added_to_products_is_as_exact():
    def loss(model, batch):
        return sum(value.float().square().mean() for value in model(batch))

    subject = make_subject(OwnFile(Added, loss, (32, 16), lambda p: torch.optim.SGD(p, lr=0.1)))
    assert not failed(subject, trained(subject))


def captured_again(subject, loss=None, **options):
    module = export(
        subject.model,
        loss or subject.file.loss,
        subject.optimizer,
        subject.batches[0],
        True,
        "bf16",
        **options,
    )
    return module


@contextlib.contextmanager
def of_linear(product):
    """Eager whose linear layers multiply by `product(x, y)`, three times each."""

    class Linear(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, bias):
            ctx.save_for_backward(x, weight)
            return product(x, weight.T) + bias

        @staticmethod
        def backward(ctx, grad):
            x, weight = ctx.saved_tensors
            return product(grad, weight), product(grad.T, x), grad.sum(0)

    def linear(x, weight, bias):
        tensors = (x, weight, bias)
        if x.dtype != torch.float64:  # the reference
            tensors = [tensor.bfloat16() for tensor in tensors]
        return Linear.apply(*tensors)

    with mock.patch.object(F, "linear", linear), torch.autocast("cpu", enabled=False):
        yield


def rounded_after(terms):
    """A product whose sum is rounded to bfloat16 whenever so many terms have been added."""

    def product(x, y):
        parts = range(0, x.shape[-1], terms)
        parts = [x[:, k : k + terms].float() @ y[k : k + terms].float() for k in parts]
        return functools.reduce(
            lambda total, part: (total + part).bfloat16().float(), parts
        ).bfloat16()

    return product


def trained_in_eager(subject, wrong):
    """What eager leaves, run within `wrong`."""
    run, found, values = subject.eager(torch.float32), History(), []
    for number, batch in enumerate(subject.batches):
        with wrong():
            step = run.step(batch, number)
        for name in ("losses", "gradients", "choices", "margins"):
            getattr(found, name).extend(getattr(step, name))
        values.append(step.after(0))
    found.take(values)
    return found


def test_eager_itself_passes(subject):
    assert not failed(subject, trained_in_eager(subject, contextlib.nullcontext))
    assert not failed(subject, trained_in_eager(subject, lambda: of_linear(rounded_after(10**6))))


def test_products_accumulated_in_bfloat16_are_found(subject):
    names = failed(subject, trained_in_eager(subject, lambda: of_linear(rounded_after(1))))
    assert {"gradient first.weight", "gradient last.weight"} <= set(names)


def test_a_loss_in_bfloat16_is_found(subject):
    module = captured_again(subject, lambda model, batch: cross_entropy(model, batch).bfloat16())
    names = failed(subject, trained(subject, module))
    assert any(name.startswith("loss") for name in names)


@pytest.mark.parametrize("kind", ["parameters", "states"])
def test_values_that_are_kept_in_bfloat16_are_found(subject, kind):
    found = trained(subject)
    for values in (found, *found.earlier):
        tensors = getattr(values, kind)
        for name, tensor in tensors.items():
            tensors[name] = tensor.bfloat16().float()
    names = failed(subject, found)
    if kind == "parameters":
        assert {"parameter first.weight", "parameter last.weight"} <= set(names)
    else:
        # A moment is a tenth of a gradient that is rounded itself: one rounding more is within the bound.
        assert not [name for name in names if name.startswith("gradient")]


def test_an_optimizer_in_bfloat16_is_found(subject):
    """Its step would be lost in the last place of the parameter."""
    found = trained(subject)
    for number, values in enumerate([*found.earlier, found]):
        before = found.after(number - 1).parameters if number else None
        if before:
            values.parameters.update(before)
    assert failed(subject, found)


def test_a_scaled_gradient_is_found(subject):
    found = trained(subject)
    for gradients in found.gradients:
        gradients["first.weight"] *= 1.05
    assert "gradient first.weight" in failed(subject, found)


def test_gradients_summed_in_bfloat16_are_seen_in_types_only(subject):
    """Eight terms that are rounded before and after they are added are within the bound of all the other
    roundings: the tests of types above see it, `verify` does not.
    """
    options = dict(mesh="data=4", micro=2)
    module = captured_again(subject, gradient_sums="bf16")
    assert not failed(subject, trained(subject, module, **options))


# ---- Command lines


MLP = str(matrix.EXAMPLES / "mlp.py")


def test_verify_takes_it(capsys):
    options = ["--precision", "bf16", "--mesh", "data=2", "--micro", "2", "--steps", "2"]
    assert main(["verify", MLP, *options]) == 0
    out = capsys.readouterr().out
    assert "times 0.0001" in out and "eager's error" in out
    assert main(["verify", MLP, *options, "--gradient-sums", "bf16"]) == 0


def test_export_takes_it(tmp_path):
    path = tmp_path / "step.mlir"
    assert main(["export", MLP, "--precision", "bf16", "-o", str(path)]) == 0
    assert "bf16" in path.read_text() and "sums_first" not in path.read_text()
    options = ["--precision", "bf16", "--gradient-sums", "bf16", "-o", str(path)]
    assert main(["export", MLP, *options]) == 0
    assert "sums_first" in path.read_text()


def test_precision_beside_another_type_is_one_line(capsys):
    assert main(["verify", MLP, "--precision", "bf16", "--dtype", "float64"]) == 1
    error = capsys.readouterr().err
    assert "expected torch.float32 with precision='bf16'" in error and error.count("\n") == 1


# ---- Bad input


def line_of(marker):
    with open(__file__) as file:
        (number,) = [i for i, text in enumerate(file, 1) if text.rstrip().endswith(f"# {marker}")]
    return rf"test_precision\.py:{number}: "


def test_autocast_to_float16():
    def loss(model, batch):
        with torch.autocast("cpu", torch.float16):  # here: float16
            return loss_of(model, batch)

    pattern = line_of("here: float16") + r"autocast to torch\.float16, expected torch\.bfloat16$"
    with pytest.raises(CaptureError, match=pattern):
        captured(loss)

    def off(model, batch):
        with torch.autocast("cpu", torch.float16, enabled=False):
            return loss_of(model, batch)

    assert text_of(captured(off)) == text_of(captured())


def _switch(enabled, dtype):
    torch.set_autocast_enabled("cpu", enabled)
    torch.set_autocast_dtype("cpu", dtype)


def test_autocast_to_float16_that_was_switched_on_by_hand():
    def loss(model, batch):
        _switch(True, torch.float16)
        try:
            return loss_of(model, batch)
        finally:
            _switch(False, torch.bfloat16)

    with pytest.raises(CaptureError) as error:
        captured(loss)
    assert "\n" not in str(error.value)
    assert str(error.value).endswith("autocast to torch.float16, expected torch.bfloat16")
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize(
    "options,pattern",
    [
        ({"precision": "fp16"}, r"precision is 'fp16', expected 'bf16', or None"),
        ({"precision": ["bf16"]}, r"precision is \['bf16'\], expected 'bf16', or None"),
        ({"gradient_sums": "f16"}, r"gradient_sums is 'f16', expected 'f32' or 'bf16'"),
    ],
)
def test_unknown_names(options, pattern):
    with pytest.raises(CaptureError, match=pattern):
        captured(**options)


def test_parameters_that_autocast_does_not_cast():
    model = Net().double()
    batch = batch_of().double()
    pattern = r"parameter 'first\.weight' has type torch\.float64, expected torch\.float32"
    with pytest.raises(CaptureError, match=pattern):
        tandem.export(model, loss_of, torch.optim.SGD(model.parameters()), batch, precision="bf16")


WITHOUT = """
import warnings, torch, tandem
from test_precision import Net, batch_of, loss_of
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    step = tandem.compile(model, loss_of, optimizer, batch_of(), mesh="data=2", precision="bf16")
    for _ in range(3):
        loss = step(batch_of())
own = [str(w.message) for w in caught if "bf16" in str(w.message)]
print(len(own), own[0] if own else "", f"{loss.item():.9e}", sep="|")
"""


def _run_with(isa):
    folder = os.path.dirname(__file__)
    environment = {**os.environ, "PYTHONPATH": folder} | ({"DNNL_MAX_CPU_ISA": isa} if isa else {})
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    count, warning, loss = run.stdout.strip().splitlines()[-1].split("|")
    return int(count), warning, float(loss)


def test_without_instructions_it_works_with_one_warning():
    """AVX2 has no bfloat16; what has AVX-512 alone emulates it."""
    count, warning, loss = _run_with("AVX2")
    assert count == 1
    assert "this CPU has no instructions for bf16" in warning
    _, _, expected = _run_with("")
    assert loss == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    "wide, narrow",
    [(torch.float64, torch.float32), (torch.float64, torch.float16), (WIDE, NARROW)],
)
def test_a_rounding_that_the_model_asks_for_counts(wide, narrow):
    """Also where the value is widened again at once, as in a simulation of narrow weights."""
    torch.manual_seed(0)
    models = [nn.Linear(4, 3).to(wide)]
    models.append(copy.deepcopy(models[0]))
    batch = torch.randn(8, 4).to(wide)

    def loss(model, batch):
        counts = torch.arange(257, 265).to(narrow).to(wide)  # not all are numbers of bfloat16
        return (model(batch).to(narrow).to(wide).T * counts).square().mean()

    optimizers = [torch.optim.SGD(m.parameters(), lr=1e-6) for m in models]
    step = tandem.compile(models[0], loss, optimizers[0], batch)
    for _ in range(2):
        expected = eager_step(models[1], loss, optimizers[1], batch)
        exact = dict(rtol=1e-12 if wide == torch.float64 else 1e-6, atol=0)
        torch.testing.assert_close(step(batch), expected, **exact)
