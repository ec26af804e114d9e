"""Bad input gives one clear line: what was found, what was expected, where."""

import re

import numpy as np
import pytest
import tandem
import torch
import torch.nn.functional as F
from tandem.capture.model_file import load_model_file, parse_sizes
from tandem.tracing.locations import Location, Place
from tandem.verify.verify import make_subject
from torch import nn

BATCH = (torch.randn(4, 6), torch.randn(4, 1))


def test_errors_that_users_see_have_public_names():
    classes = [item for item in vars(tandem.errors).values() if isinstance(item, type)]
    names = {item.__name__ for item in classes if issubclass(item, tandem.TandemError)}
    assert "JobError" in names and names <= set(tandem.__all__)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def export(loss, model=None, optimizer=None, batch=BATCH):
    model = model or nn.Linear(6, 1)
    return tandem.export(model, loss, (optimizer or sgd)(model), batch)


def mse(model, batch):
    return F.mse_loss(model(batch[0]), batch[1])


def fails(kind, pattern, *arguments, **keywords):
    with pytest.raises(kind) as caught:
        export(*arguments, **keywords)
    text = str(caught.value)
    assert re.search(pattern, text), text
    assert "\n" not in text
    return text


def line_of(marker):
    with open(__file__) as file:
        (number,) = [i for i, text in enumerate(file, 1) if text.rstrip().endswith(f"# {marker}")]
    return rf"test_errors\.py:{number}: "


def test_a_function_of_pytorch_as_the_loss_function():
    fails(
        tandem.CaptureError, r"^loss_fn: .*; it is called as loss_fn\(model, batch\)$", F.mse_loss
    )


def test_convolution_of_float16():
    def loss(model, batch):
        x, weight = batch[0][:, None].half(), model.weight.half()
        return F.conv1d(x, weight).sum()  # here: convolution

    pattern = line_of("here: convolution") + ".*found a convolution of torch.float16, expected"
    fails(tandem.UnsupportedOperatorError, pattern, loss, nn.Conv1d(1, 2, 3))


def test_a_recursion_over_lengths_is_an_operator():
    def loss(model, batch):
        scores = model(batch[0]).log_softmax(-1)  # one sample, without a dimension for the batch
        return torch.ctc_loss(scores, torch.ones(2, dtype=torch.long), [4], [2])

    pattern = r"test_errors\.py:\d+: operator aten\._ctc_loss\.default is not supported"
    fails(tandem.UnsupportedOperatorError, pattern, loss, nn.Linear(6, 5))


def test_operator_without_lowering():
    def loss(model, batch):
        return torch.linalg.eigvals(model(batch[0]).expand(4, 4)).abs().sum()  # here: eigvals

    fails(
        tandem.UnsupportedOperatorError,
        line_of("here: eigvals") + r"operator aten\.linalg_eig",
        loss,
    )


def test_item():
    def loss(model, batch):
        return model(batch[0]).sum() * float(batch[0].sum())  # here: item

    fails(tandem.CaptureError, line_of("here: item") + ".*by float.*expected item", loss)


def test_shape_of_data():
    def loss(model, batch):
        return model(batch[0][batch[0][:, 0] > 0]).cumsum(0).sum()  # here: mask

    fails(tandem.CaptureError, line_of("here: mask") + ".*depends on data", loss)


def test_random_operator_that_is_not_defined():
    def loss(model, batch):
        return (model(batch[0]) * torch.poisson(torch.ones(4, 1))).sum()  # here: poisson

    fails(tandem.UnsupportedOperatorError, line_of("here: poisson") + ".*poisson", loss)


class Late(nn.Module):
    """Makes a layer while it runs, in each step or in the first one."""

    def __init__(self, keeps):
        super().__init__()
        self.first, self.keeps = nn.Linear(6, 4), keeps

    def forward(self, x):
        last = nn.Linear(4, 5) if not hasattr(self, "last") else self.last  # here: made late
        if self.keeps:
            self.last = last
        return last(self.first(x))


@pytest.mark.parametrize("keeps", [False, True])
def test_a_layer_that_is_made_in_the_step(keeps):
    words = r"a layer or parameter is made in the step, .* expected it to be made before, in the model's __init__"
    fails(tandem.CaptureError, line_of("here: made late") + words, mse, Late(keeps))


def test_an_error_in_a_package_names_its_line_and_the_users():
    place = Place("transformers/models/bert/modeling_bert.py", 12)
    where = Location(place, Place("train.py", 3))
    text = str(tandem.UnsupportedOperatorError("aten.x", where))
    assert text.startswith("train.py:3 (in transformers/models/bert/modeling_bert.py:12): operator")


def test_shapes_that_do_not_fit():
    def loss(model, batch):
        return model(batch[0][:, :5]).sum()  # here: shape

    fails(tandem.CaptureError, line_of("here: shape"), loss)


def test_error_of_autograd_names_the_line_of_its_operator():
    def loss(model, batch):
        y = model(batch[0]).exp()  # here: saved
        total = y.sum()
        y.add_(1)
        return total

    pattern = line_of("here: saved") + ".*modified by an inplace operation"
    fails(tandem.CaptureError, pattern, loss)


def test_error_of_eagers_autograd_names_no_unknown_place(tmp_path):
    path = tmp_path / "m.py"
    path.write_text(
        "import torch\n"
        "PRESETS = {'a': dict(batch=2)}\n"
        "class Fails(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x): return x.clone()\n"
        "    @staticmethod\n"
        "    def backward(ctx, g): return g[:1]\n"
        "def model(batch): return torch.nn.Linear(3, 3)\n"
        "def loss(m, b): return Fails.apply(m(b)).sum()\n"
        "optimizer = lambda m: torch.optim.SGD(m.parameters(), lr=0.1)\n"
        "def batches(batch):\n"
        "    while True: yield torch.ones(batch, 3)\n"
    )
    with pytest.raises(tandem.TandemError) as caught:
        make_subject(load_model_file(path), 1)
    assert "unknown" not in str(caught.value) and "FailsBackward" in str(caught.value)


def test_a_loss_that_is_printed():
    def loss(model, batch):
        made = mse(model, batch)
        f"{made:.3f}"  # printed
        return made

    fails(
        tandem.CaptureError,
        line_of("printed") + "a value is made text here, .*printed behind",
        loss,
    )


def test_a_loss_that_trains_itself():
    def loss(model, batch):
        made = mse(model, batch)
        made.backward()
        return made

    fails(tandem.CaptureError, "the loss function runs the backward pass itself, expected", loss)

    def stepping(model, batch):
        torch.optim.SGD(model.parameters()).step()
        return mse(model, batch)

    fails(tandem.CaptureError, "an optimizer steps within the loss function, expected", stepping)


def test_regions_of_a_profiler():
    def loss(model, batch):
        with torch.profiler.record_function("forward"):
            return mse(model, batch)

    model, batch = nn.Linear(6, 1), BATCH
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = tandem.compile(model, loss, optimizer, batch)(batch)
    torch.testing.assert_close(found, mse(model, batch).detach())


def test_loss_that_is_no_scalar():
    fails(tandem.CaptureError, r"shape \(4, 1\), expected a tensor of one", lambda m, b: m(b[0]))
    fails(tandem.CaptureError, "found float, expected", lambda m, b: 1.0)
    fails(tandem.CaptureError, "does not depend on any parameter", lambda m, b: b[0].sum())


def test_other_optimizer():
    pattern = "optimizer StepLR: expected a torch.optim.Optimizer"

    def scheduler(model):
        return torch.optim.lr_scheduler.StepLR(sgd(model), 1)

    fails(tandem.CaptureError, pattern, F.mse_loss, optimizer=scheduler)


def test_optimizer_of_another_model():
    other = nn.Linear(3, 3)
    pattern = r"group 0: parameter 0 with shape \(3, 3\) is not a parameter of the model"
    fails(tandem.CaptureError, pattern, F.mse_loss, optimizer=lambda m: sgd(other))


def test_parameters_over_one_storage():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(torch.ones(3))
            self.b = nn.Parameter(self.a.data)

    fails(
        tandem.CaptureError,
        "'a' and 'b' are different tensors over one storage",
        lambda m, b: m.a.sum(),
        Shared(),
    )


def test_model_that_is_a_script():
    model = torch.jit.script(nn.Linear(6, 1))
    with pytest.raises(tandem.CaptureError, match="found a ScriptModule, expected the torch.nn.M"):
        tandem.compile(model, mse, sgd(model), BATCH)


@pytest.mark.parametrize("make", [torch.jit.script, lambda m: torch.jit.trace(m, torch.ones(4, 6))])
def test_module_that_is_a_script(make):
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 1))
    model[0] = make(model[0])
    with pytest.raises(tandem.CaptureError, match="^module '0': found a ScriptModule, .* in its"):
        tandem.compile(model, mse, sgd(model), BATCH)


# What a capture looks for in modules of the user's is followed however deep.
DEEP = [BATCH]
for _ in range(2000):
    DEEP = [DEEP]
ROUND = [BATCH]
ROUND.append(ROUND)


@pytest.mark.parametrize("batch", [DEEP, ROUND])
def test_batches_without_end(batch):
    words = (
        "^batch: holds itself, or containers too deep in one another, expected a tree of tensors"
    )
    fails(tandem.BatchError, words, mse, batch=batch)
    model = nn.Linear(6, 1)
    step = tandem.compile(model, mse, sgd(model), BATCH)
    for call in (step, step.evaluate):
        with pytest.raises(tandem.BatchError, match=words):
            call(batch)


def test_model_that_is_a_function():
    with pytest.raises(tandem.CaptureError, match="found function, expected a torch.nn.Module"):
        tandem.export(lambda x: x, lambda m, b: b.sum(), sgd(nn.Linear(2, 2)), torch.zeros(2, 2))


def test_optimizer_with_hooks():
    def optimizer(model):
        made = sgd(model)
        made.register_step_pre_hook(lambda *_: None)
        return made

    fails(tandem.CaptureError, "1 step hooks, expected none", mse, optimizer=optimizer)


def test_hook_behind_the_gradient():
    model = nn.Linear(6, 1)
    model.weight.register_post_accumulate_grad_hook(lambda p: None)
    fails(tandem.CaptureError, "'weight': found a hook", mse, model)


def test_sizes_may_have_any_name(tmp_path):
    """Also those of the functions' own parameters that call the file's."""
    path = tmp_path / "m.py"
    path.write_text(
        "import torch\n"
        "PRESETS = {'a': dict(name=2, self=3)}\n"
        "def model(name, self): return torch.nn.Linear(self, name)\n"
        "loss = lambda m, b: m(b).sum()\n"
        "optimizer = lambda m: torch.optim.SGD(m.parameters(), lr=0.1)\n"
        "def batches(name, self):\n"
        "    while True: yield torch.ones(name, self)\n"
    )
    file = load_model_file(path)
    assert file.make_model().weight.shape == (2, 3) and file.batches(1)[0].shape == (2, 3)


def test_empty_batch():
    batch = (torch.zeros(0, 6), torch.zeros(0, 1))
    fails(
        tandem.CaptureError,
        r"'0' has shape \[0, 6\], expected a first dimension of at least 1",
        mse,
        batch=batch,
    )


def test_generator():
    def loss(model, batch):
        weight = torch.rand(1, generator=torch.Generator().manual_seed(0))  # drawn
        return mse(model, batch) * weight.sum()

    fails(tandem.CaptureError, line_of("drawn") + "found a constant Generator", loss)


def test_model_and_batch_of_two_types():
    batch = tuple(tensor.float() for tensor in BATCH)
    pattern = r"addmm.default is applied to .*expected one floating-point type"
    fails(tandem.CaptureError, pattern, mse, nn.Linear(6, 1).double(), batch=batch)


def test_batch_without_tensor():
    words = (
        "found no tensor with a batch dimension but int, expected at least one: a tensor, or dicts"
    )
    fails(tandem.CaptureError, words, lambda m, b: m(b), batch=3)


class Held:
    """Holds a tensor that nobody sees."""

    def __init__(self):
        self.tensor = torch.ones(4)


@pytest.mark.parametrize(
    "held, kind", [(np.ones(4000), "numpy.ndarray"), (Held(), "test_errors.Held")]
)
def test_data_in_a_batch_that_is_no_tensor(held, kind):
    """Its text does not say whether the next batch has other data: of a long array it is shortened."""
    words = rf"^example batch: '2' is a {kind}, expected a tensor \(.*\), a number, text or None, or dicts"
    fails(tandem.CaptureError, words, mse, batch=(*BATCH, held))


def test_a_batch_of_arrays():
    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = tandem.compile(model, mse, optimizer, BATCH)
    with pytest.raises(tandem.BatchError, match=r"^batch: '0' is a numpy.ndarray, expected a tens"):
        step(tuple(tensor.numpy() for tensor in BATCH))


@pytest.mark.parametrize(
    "loss, words",
    [
        (None, r"loss_fn is a NoneType, expected loss_fn\(model, batch\)"),
        (
            lambda model: 0,
            r"takes other arguments \(too many .*\), expected loss_fn\(model, batch\)",
        ),
    ],
)
def test_no_loss_function(loss, words):
    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(tandem.CompileError, match=words):
        tandem.compile(model, loss, optimizer, BATCH)


def test_sparse_gradient():
    model = nn.Embedding(5, 3, sparse=True)
    loss = lambda m, b: m(b).sum()  # noqa: E731
    fails(tandem.CaptureError, "sparse=False", loss, model, batch=torch.tensor([1, 2]))


def test_complex_numbers():
    pattern = r"aten\.log\.default is not supported \(complex numbers are supported in a few"
    fails(tandem.CaptureError, pattern, lambda m, b: torch.fft.fft(m(b[0])).log().abs().sum())
    batch = (*BATCH, torch.ones(4, dtype=torch.complex64))
    pattern = "input '2': element type torch.complex64, expected two real"
    fails(tandem.CaptureError, pattern, lambda m, b: m(b[0]).sum(), batch=batch)
    model = nn.Linear(6, 1, dtype=torch.complex64)
    pattern = "parameter 'weight': element type torch.complex64, expected two real"
    fails(tandem.CaptureError, pattern, lambda m, b: m(b[0] + 0j).abs().sum(), model)


def test_export_leaves_the_model_usable():
    model = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    export(lambda m, b: F.mse_loss(m(b[0]), b[1]), model)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert all(p.grad is None and p.requires_grad for p in model.parameters())


# Model files


def model_file(tmp_path, text):
    path = tmp_path / "file.py"
    path.write_text(text)
    return path


GOOD = """
import torch
PRESETS = {"tiny": dict(width=2, batch=2)}
def model(width, **_): return torch.nn.Linear(width, 1)
def loss(model, batch): return model(batch).sum()
def optimizer(model): return torch.optim.SGD(model.parameters(), lr=0.1)
def batches(width, batch, **_):
    for _ in range(2):
        yield torch.ones(batch, width)
"""


def test_sizes():
    assert parse_sizes("layers=4,gate=switch,p=0.5,packed=True") == dict(
        layers=4, gate="switch", p=0.5, packed=True
    )
    with pytest.raises(tandem.ModelFileError, match="found 'layers', expected name=value"):
        parse_sizes("layers")


@pytest.mark.parametrize(
    "text,options,pattern",
    [
        ("x = (", {}, "cannot be imported: SyntaxError"),
        ("PRESETS = {}", {}, "has no model, loss, optimizer, batches"),
        (GOOD.replace('{"tiny": dict(width=2, batch=2)}', "{}"), {}, "PRESETS is {}, expected"),
        (GOOD, dict(preset="big"), "no preset 'big', expected one of tiny"),
        (GOOD, dict(sizes="witdh=3"), "unknown size 'witdh', expected one of batch, width"),
        (GOOD, dict(dtype="float8"), "dtype 'float8': expected one of float64"),
    ],
)
def test_bad_model_files(tmp_path, text, options, pattern):
    with pytest.raises(tandem.ModelFileError, match=pattern):
        load_model_file(model_file(tmp_path, text), **options)


def test_model_file_that_fails_inside(tmp_path):
    path = model_file(tmp_path, GOOD.replace("torch.nn.Linear(width, 1)", "1 / 0"))
    with pytest.raises(
        tandem.ModelFileError, match=r"file\.py:4: model\(\) fails: ZeroDivisionError"
    ):
        load_model_file(path).make_model()
    with pytest.raises(tandem.ModelFileError, match="yields 2 batches, expected at least 3"):
        load_model_file(model_file(tmp_path, GOOD)).batches(3)


def test_batch_that_fails_in_eager(tmp_path):
    from tandem.verify.verify import make_subject

    text = GOOD.replace("torch.nn.Linear(width, 1)", "torch.nn.Embedding(width, 1)").replace(
        "yield torch.ones(batch, width)", "yield torch.full((batch,), 7)"
    )
    with pytest.raises(
        tandem.ModelFileError, match=r"file\.py:5: step 0 in eager fails: IndexError: index out of"
    ):
        make_subject(load_model_file(model_file(tmp_path, text)), 2)


def test_model_file_with_a_dataclass(tmp_path):
    text = GOOD.replace(
        "def loss", "@dataclasses.dataclass\nclass Sizes:\n    width: int = 1\n\ndef loss"
    )
    text = "from __future__ import annotations\nimport dataclasses\n" + text.lstrip()
    load_model_file(model_file(tmp_path, text)).make_model()


def test_equal_code_in_two_files_has_two_places(tmp_path):
    from tandem.tracing.locations import location_of_traceback

    places = []
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text("def f():\n    raise ValueError\n")
        scope = {}
        exec(
            compile((tmp_path / f"{name}.py").read_text(), str(tmp_path / f"{name}.py"), "exec"),
            scope,
        )
        with pytest.raises(ValueError) as caught:
            scope["f"]()
        places.append(str(location_of_traceback(caught.value.__traceback__.tb_next)))
    assert [
        place.endswith(f"{name}.py:2") for place, name in zip(places, ("one", "two"), strict=True)
    ] == [True] * 2


def test_lazy_parameter_without_a_shape():
    model = torch.nn.LazyLinear(3)
    with pytest.raises(tandem.CaptureError, match="parameter 'weight': found no shape yet"):
        tandem.export(model, lambda m, x: m(x).sum(), None, torch.ones(2, 2))


def test_error_of_the_model_logs_nothing(capfd):
    model = torch.nn.Linear(5, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(tandem.CaptureError, match="must have same reduction dim"):
        tandem.export(model, lambda m, x: m(x).sum(), optimizer, torch.ones(8, 6))
    assert capfd.readouterr().err == ""


def test_tensors_of_a_type_without_kernels():
    model = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = {"image": torch.zeros(8, 6, dtype=torch.uint16)}
    pattern = r"input 'image': found torch.uint16, expected a float.*torch\.uint8, torch\.int16"
    with pytest.raises(tandem.CaptureError, match=pattern):
        tandem.export(model, lambda m, b: m(b["image"].float()).sum(), optimizer, batch)
    model.register_buffer("table", torch.zeros(6, dtype=torch.uint8))
    pattern = "buffer 'table': found torch.uint8, expected a float.*torch.int32, torch.int8"
    with pytest.raises(tandem.CaptureError, match=pattern):
        tandem.export(model, lambda m, b: m(b["image"].float()).sum(), optimizer, batch)


def test_product_in_float16():
    def loss(model, batch):
        return model(batch[0].half()).float().sum()  # here: half

    pattern = line_of("here: half") + r".*a product of torch\.float16, expected .*torch\.bfloat16"
    fails(tandem.UnsupportedOperatorError, pattern, loss, nn.Linear(6, 1).half())


@pytest.mark.parametrize(
    "text,expected",
    [
        ("module attributes {a = " + "[" * 100_000, "step.mlir:1: .*nested more than 256 deep"),
        ("", "has no function @step"),
    ],
)
def test_texts_that_ended_the_parser(text, expected):
    from tandem.base.native import native

    with pytest.raises(tandem.CompileError, match=expected):
        native().compile(text, "step.mlir", native().CompileOptions())


@pytest.mark.parametrize(
    "option,value,expected",
    [
        ("micro", 10**30, "micro is 10*, expected an integer from 1 to 16777216"),
        ("micro", 2.5, "micro is 2.5, expected an integer from 1"),
        ("threads", 10**10, "threads is 10*, expected an integer from 1 to 4096"),
        ("threads", -1, "threads is -1, expected an integer from 1 to 4096"),
        ("threads", 1.5, "threads is 1.5, expected"),
        ("plan", 5, "plan is 5, expected a preset"),
        ("plan", "zero\n", r"plan is 'zero\\n', expected a preset"),
        ("plan", "none.txt", "cannot read the plan file 'none.txt': No such file"),
        pytest.param("micro", 10**5000, "micro is <int>, expected an integer", id="long"),
        ("micro", torch.ones(3, 3), r"micro is tensor\(\[\[1., 1., 1.\], .*expected an integer"),
        ("recompute", "no", "recompute is 'no', expected True or False"),
        ("presets", 1, "presets is 1, expected True or False"),
        ("gradients", "all", "gradients is 'all', expected True or False"),
        ("graph", None, "graph is None, expected True or False"),
        ("search", 5, "search is 5, expected the name of an algorithm"),
        ("cluster", 5, "cluster is 5, expected the path of a file"),
        ("cluster", "", "cluster is '', expected the path of a file, or None for none"),
        ("cluster", "/dev/zero", "/dev/zero: has more than 16777216 bytes"),
        ("plan", "/dev/zero", "cannot read the plan file '/dev/zero': has more than"),
        ("device", "sim", "device 'sim' computes no values, expected 'cpu' or 'cuda'"),
    ],
)
def test_options_of_another_kind(option, value, expected):
    model = nn.Linear(6, 1)
    search = {"search": "tandem"} if option == "cluster" else {}
    with pytest.raises(tandem.CompileError, match=expected) as caught:
        tandem.compile(model, mse, sgd(model), BATCH, **{option: value}, **search)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content,expected",
    [
        (b"\xff\x1b[31m\n", "is no plan, expected a first line 'tandem-plan 3'"),
        (b"tandem-plan 3\nmicro \xff\nend 1\n", r"line 2: micro is '\\xff', expected a number"),
    ],
)
def test_bytes_that_are_no_text(content, expected, tmp_path):
    (tmp_path / "plan.txt").write_bytes(content)
    model = nn.Linear(6, 1)
    with pytest.raises(tandem.CompileError, match=expected):
        tandem.compile(model, mse, sgd(model), BATCH, plan=tmp_path / "plan.txt")
