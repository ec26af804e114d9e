"""Batches that differ: in length, in their last rows, in kind; and what models come in."""

import copy
import dataclasses
import os
import re
import warnings
from collections import UserDict

import pytest
import tandem
import torch
import torch.distributed.fsdp
import torch.distributed.tensor
import torch.nn.functional as F
from tandem.base import tree
from test_models import normal, small
from test_training import HOW
from torch import nn

SPLIT = dict(mesh="data=2", plan="zero", micro=2)


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=0.05)


def tokens(rows, length):
    return dict(x=torch.randint(0, 11, (rows, length)), y=torch.randint(0, 11, (rows, length)))


def token_loss(model, batch):
    return F.cross_entropy(model(batch["x"]).transpose(1, 2), batch["y"])


class Steps:
    """A step of a model, and a copy that eager trains."""

    def __init__(self, model, loss_fn, batch, **how):
        self.twin, self.loss_fn = copy.deepcopy(model), loss_fn
        self.optimizer = adam(self.twin)
        self.step = tandem.compile(model, loss_fn, adam(model), batch, **how)

    def train(self, batch, eager_loss=None):
        found = self.step(batch)
        self.optimizer.zero_grad()
        loss = (eager_loss or self.loss_fn)(self.twin, batch)
        loss.backward()
        self.optimizer.step()
        torch.testing.assert_close(found, loss.detach(), rtol=1e-9, atol=0)
        for name, value in self.twin.state_dict().items():
            torch.testing.assert_close(self.step.state_dict()[name], value, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("how", HOW)
def test_lengths_and_numbers_of_rows(how):
    model = nn.Sequential(nn.Embedding(11, 6), nn.LayerNorm(6), nn.Linear(6, 11)).double()
    steps = Steps(model, token_loss, tokens(8, 5), **HOW[how])
    for rows, length in [(8, 5), (8, 7), (4, 5), (8, 7), (16, 3), (8, 5)]:
        steps.train(tokens(rows, length))


def narrow(rows):
    def draw(low, high, dtype):
        return torch.randint(low, high, (rows, 6), dtype=dtype)

    return draw(0, 2**8, torch.uint8), draw(-(2**15), 2**15, torch.int16)


def narrow_loss(model, batch):
    image, sound = batch
    small = image.double() / 255 + sound.double() / 2**15
    over = (image * 3 - 7).double() / 255 + (-sound * 40).double() / 2**15
    signed, most = (
        image.to(torch.int8).double() / 128,
        (image.sum(1, True) + sound.amax(1, True)) / 2**15,
    )
    return F.mse_loss(
        model(small + over + signed), most + (image[:, :1] > 99) + ~image[:, 1:2] / 255
    )


@pytest.mark.parametrize("how", HOW)
def test_batches_of_narrow_integers(how):
    """Images are bytes, and sound is int16: what is computed in these types overflows as in eager."""
    steps = Steps(small(nn.Tanh()), narrow_loss, narrow(8), **HOW[how])
    for batch in (narrow(8), narrow(16), narrow(8)):
        steps.train(batch)
    batch = narrow(4)
    torch.testing.assert_close(
        steps.step.evaluate(batch), narrow_loss(steps.twin, batch).detach(), rtol=1e-9, atol=0
    )
    image, sound = narrow(8)
    with pytest.raises(tandem.BatchError, match=r"'0' is int32\[8, 6\], expected uint8\[8, 6\]"):
        steps.step((image.int(), sound))


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 1)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        made = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(made.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("plan", ["zero", "tensor-parallel", "tandem"])
def test_packed_parameters_keep_their_parts(plan):
    how = dict(search="tandem") if plan == "tandem" else dict(plan=plan)
    axis = "model=2" if plan == "tensor-parallel" else "data=2"
    steps = Steps(
        Packed().double(), lambda m, x: m(x).square().mean(), normal(4, 5, 8), mesh=axis, **how
    )
    for length in (5, 6, 5):
        steps.train(normal(4, length, 8))
    assert any(a.part for a in steps.step.program.arguments)


class PackedByLength(nn.Module):
    """Long batches use the three parts of the weight each for itself, short ones only all of it."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        made = self.qkv(x)
        if x.shape[1] < 6:
            made = made.softmax(-1)
        q, k, v = made.chunk(3, -1)
        return self.out(q * k.tanh() + v)


@pytest.mark.parametrize("plan", ["zero", "tensor-parallel"])
@pytest.mark.parametrize("first", [5, 7])
def test_parameters_that_are_packed_in_some_batches_only(first, plan):
    how = dict(mesh="data=2,model=2", plan=plan)
    loss = lambda m, x: m(x).square().mean()  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short batches have nothing to split on the axis
        steps = Steps(PackedByLength().double(), loss, normal(4, first, 8), **how)
        for length in (first, 12 - first, first, 12 - first):
            steps.train(normal(4, length, 8))
            x = normal(4, length, 8)
            torch.testing.assert_close(steps.step.evaluate(x), loss(steps.twin, x).detach())
    assert any(a.part for a in steps.step.program.arguments) == (first == 7)


def regression(rows):
    return normal(rows, 6), normal(rows, 1)


def mse(model, batch):
    return F.mse_loss(model(batch[0]), batch[1])


def weighted(model, batch, weights):
    each = (model(batch[0]) - batch[1]).square().squeeze(-1)
    return (each * weights).sum() / weights.sum()


def test_a_last_batch_that_does_not_divide_is_an_error():
    steps = Steps(small(nn.Tanh()), mse, regression(8), **SPLIT)
    words = r"has 6 rows, which do not divide into 4 equal parts \(data=2, micro=2\)"
    with pytest.raises(tandem.BatchError, match=words):
        steps.step(regression(6))
    steps.train(regression(4))


def test_a_larger_batch_that_does_not_divide_is_an_error():
    for mode in ("error", "drop"):
        steps = Steps(small(nn.Tanh()), mse, regression(8), last_batch=mode, **SPLIT)
        words = r"has 10 rows, .* \(data=2, micro=2\), expected a multiple, as the 8 of the example batch$"
        with pytest.raises(tandem.BatchError, match=words):
            steps.step(regression(10))
        steps.train(regression(12))


def test_a_batch_that_the_model_cannot_take_is_named():
    """By the tensor that differs from the example's, on one line, behind a step and behind an evaluation."""
    steps = Steps(small(nn.Tanh()), mse, regression(8), **SPLIT)
    x, y = regression(8)
    words = r"^batch: tensor '0' is float64\[8, 5\], and float64\[8, 6\] in the example batch: .*RuntimeError.*$"
    for call in (steps.step, steps.step.evaluate):
        with pytest.raises(tandem.BatchError, match=words):
            call((x[:, :5], y))
    words = r"^batch: tensor '1' is not there, and float64\[8, 1\] in the example batch: .*$"
    with pytest.raises(tandem.BatchError, match=words):
        steps.step.evaluate((x,))
    steps.train((x, y))


def test_a_batch_without_rows():
    for mode in ("error", "drop"):
        steps = Steps(small(nn.Tanh()), mse, regression(8), last_batch=mode, **SPLIT)
        calls = [steps.step.evaluate] + [steps.step] * (mode == "error")
        for call in calls:
            with pytest.raises(tandem.BatchError, match="batch: has 0 rows, expected at least one"):
                call(regression(0))
    assert steps.step(regression(0)) is None and steps.step.count == 0


def test_no_batch_is_none_that_is_left_out():
    step = Steps(small(nn.Tanh()), mse, regression(8)).step
    with pytest.raises(tandem.BatchError, match="batch: is None, expected one like"):
        step(None)


def test_a_last_batch_is_dropped():
    steps = Steps(small(nn.Tanh()), mse, regression(8), last_batch="drop", **SPLIT)
    steps.train(regression(8))
    before = steps.step.state_dict()
    assert steps.step(regression(3)) is None
    for name, value in steps.step.state_dict().items():
        assert torch.equal(value, before[name])
    steps.train(regression(4))


@pytest.mark.parametrize("how", HOW)
def test_a_last_batch_is_filled_up(how):
    model = small(nn.Tanh())
    twin = copy.deepcopy(model)
    optimizer = adam(twin)
    step = tandem.compile(model, weighted, adam(model), regression(8), last_batch="pad", **HOW[how])
    for rows in (8, 3, 8, 1, 7):
        batch = regression(rows)
        found, loss = step(batch), weighted(twin, batch, torch.ones(rows))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.testing.assert_close(found, loss.detach(), rtol=1e-9, atol=0)
        twin_loss = weighted(twin, batch, torch.ones(rows)).detach()
        torch.testing.assert_close(step.evaluate(batch), twin_loss, rtol=1e-9, atol=0)
    assert len(step._programs._others) == 4  # evaluations of four sizes: one Program trains


def test_a_loss_without_weights_cannot_have_its_last_batch_filled_up():
    model = small(nn.Tanh())
    with pytest.raises(tandem.CompileError, match=r"'pad': .* expected loss_fn\(model, batch, wei"):
        tandem.compile(model, mse, adam(model), regression(8), last_batch="pad")


def test_rows_that_fill_up_would_count_in_a_batch_norm():
    model = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).double()
    with pytest.raises(tandem.CompileError, match="'pad': module '1', a BatchNorm1d, would also"):
        tandem.compile(model, weighted, adam(model), regression(8), last_batch="pad")
    model[1].eval()
    batch = regression(3)
    step = tandem.compile(model, weighted, adam(model), regression(8), last_batch="pad")
    expected = weighted(model, batch, torch.ones(3)).detach()
    torch.testing.assert_close(step(batch), expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize(
    "option, words",
    [
        (dict(last_batch="keep"), "last_batch is 'keep', expected one of error, drop, pad"),
        (dict(batch="whole"), "batch is 'whole', expected one of local, global"),
    ],
)
def test_bad_options(option, words):
    model = small(nn.Tanh())
    with pytest.raises(tandem.CompileError, match=words):
        tandem.compile(model, mse, adam(model), regression(8), **option)


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    rest: dict


class Encoding(UserDict):
    """As the BatchEncoding of transformers: a dict with attributes."""

    def __getattr__(self, name):
        return self.data[name]


KINDS = {
    "dataclass": (lambda x, y: Batch(x, {"y": y}), lambda m, b: mse(m, (b.x, b.rest["y"]))),
    "dict of its own": (lambda x, y: Encoding(x=x, y=y), lambda m, b: mse(m, (b.x, b["y"]))),
    "nested": (
        lambda x, y: [Encoding(b=Batch(x, {"y": y}))],
        lambda m, b: mse(m, (b[0].b.x, b[0].b.rest["y"])),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_batches(kind):
    make, loss = KINDS[kind]
    batches = [make(*regression(8)) for _ in range(2)]
    steps = Steps(small(nn.Tanh()), loss, batches[0], **SPLIT)
    for batch in [*batches, make(*regression(4))]:
        steps.train(batch)


def test_wrapped_models():
    class DistributedDataParallel(nn.Module):  # the real one wants a process group
        def __init__(self, module):
            super().__init__()
            self.module = module

    DistributedDataParallel.__module__ = "torch.nn.parallel.distributed"
    model = DistributedDataParallel(small(nn.Tanh()))
    with pytest.raises(
        tandem.CaptureError, match="model: found a DistributedDataParallel.*model.module"
    ):
        tandem.compile(model, mse, adam(model), regression(8))
    outer = nn.Sequential(nn.Linear(6, 6).double(), nn.DataParallel(small(nn.Tanh())))
    with pytest.raises(tandem.CaptureError, match="module '1': found a DataParallel"):
        tandem.compile(outer, mse, adam(outer), regression(8))


def test_split_models():
    """They hold tensors of which each process has a part."""
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        sharded, split = small(nn.Tanh()), small(nn.Tanh())
        torch.distributed.fsdp.fully_shard(sharded)
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
        torch.distributed.tensor.distribute_module(split[0], mesh)
        for model, words in [
            (sharded, "model: found a FSDPModule.*before fully_shard"),
            (split, r"parameter '0\.weight': found a DTensor.*before it was split"),
        ]:
            with pytest.raises(tandem.CaptureError, match=words):
                tandem.compile(model, mse, adam(model), regression(8))
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("way", ["function", "method", "part", "loss"])
def test_compiled_models(way):
    """What torch.compile has wrapped is captured as it was written, under the names that the wrapped model has."""
    plain = small(nn.Tanh())
    twin, batch = copy.deepcopy(plain), regression(8)
    model, loss = plain, mse
    if way == "function":
        model = torch.compile(plain)
    elif way == "method":
        model.compile()
    elif way == "part":
        model[0] = torch.compile(model[0])
    else:
        loss = torch.compile(mse)
    step = tandem.compile(model, loss, adam(model), batch, **SPLIT)
    assert step.state_dict().keys() == model.state_dict().keys()
    torch.testing.assert_close(step(batch), mse(twin, batch).detach(), rtol=1e-9, atol=0)


def x_of(batch):
    """Of whatever structure."""
    while not isinstance(batch, torch.Tensor):
        batch = next(iter(batch.values() if hasattr(batch, "values") else batch))
    return batch


@dataclasses.dataclass
class Sample:
    x: object


def test_a_batch_of_another_structure():
    """Its tensors have the names of the example's, but the loss function would see something else."""
    model, rows = small(nn.Tanh()), normal(8, 6)
    loss = lambda model, batch: model(x_of(batch)).square().mean()  # noqa: E731
    step = tandem.compile(model, loss, adam(model), {"0": rows, "1": rows})
    step({"1": rows, "0": rows})
    for batch in ([rows, rows], (rows, rows), {0: rows, 1: rows}):
        with pytest.raises(tandem.BatchError, match=r"^batch: is .*, expected {'0': tensor, '1"):
            step(batch)
    step.evaluate([rows, rows])
    step = tandem.compile(model, loss, adam(model), [rows, {"a": {"b": rows}}])
    step((rows, {"a": {"b": rows}}))
    with pytest.raises(
        tandem.BatchError, match=r"{'a.b': tensor}\], expected \[tensor, {'a': {'b'"
    ):
        step([rows, {"a.b": rows}])
    step = tandem.compile(model, loss, adam(model), rows)
    with pytest.raises(tandem.BatchError, match=r"batch: is \[tensor\], expected tensor as the ex"):
        step([rows])
    assert tree.outline(Sample(rows)) != tree.outline({"x": rows})


def test_batches_that_are_not_dense():
    model, rows = small(nn.Tanh()), normal(8, 6)
    nested = torch.nested.nested_tensor([normal(6), normal(5)])
    quantized = torch.quantize_per_tensor(rows.float(), 0.1, 0, torch.qint8)
    loss = lambda model, batch: model(batch).square().mean()  # noqa: E731
    step = tandem.compile(model, loss, adam(model), rows)
    for batch, words in [
        (rows.to_sparse(), "is sparse_coo, expected a dense one .Tensor.to_dense makes"),
        (rows.to_sparse_csr(), "is sparse_csr, expected a dense one"),
        (rows[:4].to_sparse(), "is sparse_coo, expected a dense one"),
        (nested, "is nested, expected a dense one .Tensor.to_padded_tensor makes one"),
        (quantized, "is quantized, expected a dense one .Tensor.dequantize makes one"),
    ]:
        calls = [step, step.evaluate, lambda b: tandem.compile(model, loss, adam(model), b)]
        for call in calls:
            with pytest.raises(tandem.BatchError, match=rf"^batch: tensor '0' {words}"):
                call(batch)
        with pytest.raises(tandem.CaptureError, match=f"^example batch: tensor '0' {words}"):
            tandem.export(model, loss, adam(model), batch)


def test_an_example_without_values():
    model, rows = small(nn.Tanh()), normal(8, 6)
    loss = lambda model, batch: model(batch).square().mean()  # noqa: E731
    expected = loss(model, rows).item()
    step = tandem.compile(model, loss, adam(model), rows.to("meta"))
    assert step(rows).item() == pytest.approx(expected)


def test_a_step_says_what_it_is():
    steps = Steps(small(nn.Tanh()), mse, regression(8), **SPLIT)
    assert repr(steps.step) == (
        "<tandem.Step of Sequential: 65 parameters; AdamW; mesh data=2; plan zero; micro 2; batch 0 float64[8, 6],"
        " 1 float64[8, 1]>"
    )
    step = Steps(small(nn.Tanh()), mse, regression(8), accumulate=2, search="tandem").step
    assert "; search tandem; accumulate 2; micro 1; " in repr(step)


def test_the_version_is_that_of_the_build(root):
    text = (root / "CMakeLists.txt").read_text()
    assert re.search(r"project\(tandem VERSION (\S+) ", text)[1] == tandem.__version__


def test_a_batch_whose_file_becomes_shorter_is_an_error(tmp_path):
    """In place of SIGBUS; the step goes on with what is there."""
    path = tmp_path / "rows.bin"
    rows = torch.rand(64, 64)
    path.write_bytes(rows.numpy().tobytes())
    mapped = torch.from_file(str(path), size=64 * 64).view(64, 64)
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = tandem.compile(model, lambda model, x: model(x).square().mean(), optimizer, rows)
    step(mapped)
    os.truncate(path, 4096)
    for _ in range(2):
        with pytest.raises(tandem.RunError, match="' lies in a file that has become shorter"):
            step(mapped)
    assert step(rows).isfinite()
