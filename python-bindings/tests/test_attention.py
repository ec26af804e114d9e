"""Attention is captured as one operator, with PyTorch's meaning."""

import copy
import functools
from pathlib import Path

import pytest
import tandem
import torch
import torch.nn.functional as F
from comparing import compare
from matrix import judge_program
from tandem import _tandem
from tandem.capture.model_file import load_model_file
from tandem.errors import CaptureError
from tandem.session.compile import compile_module
from tandem.verify.verify import make_subject
from torch import nn
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.attention.flex_attention import flex_attention

HEADS, WIDTH, ROWS = 4, 4, 6


class Attention(nn.Module):
    """Projections of (batch, rows, width), and an attention of (batch, heads, rows, width)."""

    def __init__(self, attend, key_heads=HEADS):
        super().__init__()
        self.attend = attend
        self.q = nn.Linear(8, HEADS * WIDTH)
        self.k, self.v = (nn.Linear(8, key_heads * WIDTH) for _ in range(2))

    def forward(self, x):
        q, k, v = (
            layer(x).unflatten(-1, (-1, WIDTH)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        return self.attend(q, k, v)


def _square(model, x):
    return model(x).square().mean()


def _batch(dtype=torch.float64):
    return torch.randn(2, ROWS, 8, dtype=dtype)


def _export(attend, key_heads=HEADS):
    model = Attention(attend, key_heads).double()
    return tandem.export(model, _square, torch.optim.SGD(model.parameters(), lr=0.1), _batch())


def _operators(module, name="attention"):
    return [operator for operator in module.step.operators if operator.name == name]


def _check(attend, key_heads=HEADS, runs=1):
    """Compares with eager; the captured step has one attention, which it runs so often, and gives its attributes."""
    torch.manual_seed(0)
    model = Attention(attend, key_heads).double()
    optimizer = torch.optim.Adam(model.parameters())
    module = compare(model, _square, optimizer, [_batch() for _ in range(2)])
    forward, *again = _operators(module)
    assert [each.attributes for each in again] == [forward.attributes] * (runs - 1)
    assert len(_operators(module, "attention_backward")) == 1
    assert not _operators(module, "softmax")
    return forward.attributes


sdpa = F.scaled_dot_product_attention


def _half(shape):
    return torch.arange(torch.Size(shape).numel()).reshape(shape) % 3 > 0


def _window(size):
    distance = torch.arange(ROWS) - torch.arange(ROWS)[:, None]
    return (distance > -size) & (distance <= 0)


@pytest.mark.parametrize(
    "attend",
    [
        sdpa,
        lambda q, k, v: sdpa(q, k, v, scale=0.3),
        lambda q, k, v: sdpa(q[:, :, :3], k, v, is_causal=True),
        lambda q, k, v: sdpa(q, k, v, dropout_p=0.4),
        lambda q, k, v: sdpa(q, k, v, _half((ROWS, ROWS)), dropout_p=0.4),
        lambda q, k, v: sdpa(q, k, v, _half((2, 1, 1, ROWS))),
        lambda q, k, v: sdpa(q, k, v, torch.arange(ROWS)[:, None] > 1),
        lambda q, k, v: sdpa(q, k, v, torch.linspace(0, 1, ROWS, dtype=q.dtype)),
        lambda q, k, v: sdpa(q[0], k[0], v[0], _half((HEADS, ROWS, ROWS)), dropout_p=0.4),
        lambda q, k, v: sdpa(q[0, 0], k[0, 0], v[0, 0], is_causal=True),
        lambda q, k, v: sdpa(*(t.reshape(2, 2, 2, ROWS, WIDTH) for t in (q, k, v)), dropout_p=0.4),
        lambda q, k, v: sdpa(
            *(t.reshape(2, 2, 2, ROWS, WIDTH) for t in (q, k, v)), _half((2, 1, 1, ROWS))
        ),
    ],
)
def test_whole_as_in_eager(attend):
    _check(attend)


def test_grouped_queries():
    for heads in (1, 2):
        attributes = _check(lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True), heads)
        assert attributes["after"] == 0


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_one_head_of_keys_is_for_all(dropout):
    """By broadcasting, as falcon's multi_query has it; and keys of one sample for all."""
    mask = _half((2, 1, 1, ROWS))
    _check(lambda q, k, v: sdpa(q, k, v, mask, dropout_p=dropout), key_heads=1)
    _check(lambda q, k, v: sdpa(q, k[:1], v[:1], dropout_p=dropout))


def _penalty(options, attend=sdpa):
    def loss(model, x):
        x = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(_square(model, x), x, create_graph=True)
        return gradient.square().mean()

    model = Attention(lambda q, k, v: attend(q, k, v, **options)).double()
    return model, loss, torch.optim.Adam(model.parameters())


@pytest.mark.parametrize(
    "options", [dict(is_causal=True), dict(attn_mask=_half((2, 1, 1, ROWS)), scale=0.3)]
)
def test_gradients_of_its_gradient_are_the_formulas(options):
    model, loss, optimizer = _penalty(options)
    compare(model, loss, optimizer, [_batch() for _ in range(2)])


def test_gradients_of_its_gradient_where_one_is_given_three_times():
    model, loss, optimizer = _penalty({}, lambda q, k, v: sdpa(q, q, q) + k + v)
    compare(model, loss, optimizer, [_batch()])


def test_gradients_of_its_gradient_with_dropout_are_refused():
    model, loss, optimizer = _penalty(dict(dropout_p=0.3))
    with pytest.raises(CaptureError, match="a gradient of attention's gradient is asked for"):
        tandem.export(model, loss, optimizer, _batch())


def test_multi_head_attention_of_torch():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True)

        def forward(self, x):
            return self.attention(x, x, x, need_weights=False)[0]

    model = Model().double()
    module = compare(model, _square, torch.optim.Adam(model.parameters()), [_batch()])
    assert len(_operators(module)) == 1


@pytest.mark.parametrize("is_by_name", [False, True])
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_recomputed_attention_drops_the_same(is_by_name, use_reentrant):
    """The backward pass runs it again, also one that was imported by its name."""

    def again(*tensors):
        attend = sdpa if is_by_name else F.scaled_dot_product_attention
        return attend(*tensors, dropout_p=0.4).sin()

    def attend(q, k, v):
        return torch.utils.checkpoint.checkpoint(again, q, k, v, use_reentrant=use_reentrant)

    _check(attend, runs=2)


@pytest.mark.parametrize(
    "mask, before, after",
    [
        (_window(ROWS), None, 0),
        (_window(3), 2, 0),
        (torch.zeros(ROWS, ROWS).masked_fill(~_window(2), -torch.inf).double(), 1, 0),
        (torch.ones(ROWS, ROWS).double().triu(1) * torch.finfo(torch.float64).min, None, 0),
        (_window(3) | _window(3).T, 2, 2),
        (_window(3)[None, None].expand(2, HEADS, ROWS, ROWS), 2, 0),
        (torch.ones(ROWS, ROWS, dtype=torch.bool), None, None),
    ],
)
def test_mask_of_positions_is_a_band(mask, before, after):
    attributes = _check(lambda q, k, v: sdpa(q, k, v, mask))
    assert "masked" not in attributes
    assert (attributes.get("before"), attributes.get("after")) == (before, after)


@pytest.mark.parametrize("make, after", [(causal_upper_left, 0), (causal_lower_right, 2)])
def test_bias_of_torch_is_a_band(make, after):
    """Made before, or in the step, which no mode of PyTorch's lets eager do."""
    bias = make(ROWS - 2, ROWS)
    assert _check(lambda q, k, v: sdpa(q[:, :, 2:], k, v, bias)) == {"scale": 0.5, "after": after}
    (forward,) = _operators(_export(lambda q, k, v: sdpa(q[:, :, 2:], k, v, make(ROWS - 2, ROWS))))
    assert forward.attributes == {"scale": 0.5, "after": after}


def test_positions_may_be_one_result_of_several():
    def attend(q, k, v):
        positions = torch.stack([torch.arange(ROWS), torch.zeros(ROWS).long()]).max(0)[0]
        return sdpa(q, k, v, positions <= positions[:, None])

    assert _check(attend) == {"scale": 0.5, "after": 0}


def test_padding_beside_a_window_keeps_its_size():
    """As `transformers` write it."""

    def attend(q, k, v):
        padding = (k[:, 0, :, 0].detach() > -9) & (torch.arange(ROWS) < 5)
        mask = (_window(3)[None, None] & padding[:, None, None, :]).expand(2, 1, ROWS, ROWS)
        return sdpa(q, k, v, mask)

    assert _check(attend) == {"scale": 0.5, "masked": True, "before": 2, "after": 0}
    (forward,) = _operators(_export(attend))
    assert forward.operands[3].shape == (2, 1, 1, ROWS)


@pytest.mark.parametrize(
    "mask",
    [
        _window(3).T & False,
        torch.roll(_window(3), 1, 1),
        torch.stack([_window(2), _window(3)])[:, None],
        0.5 * _window(ROWS).double(),
    ],
)
def test_other_masks_stay(mask):
    assert _check(lambda q, k, v: sdpa(q, k, v, mask))["masked"]


def _by_hand(q, k, v):
    return (q @ k.mT).softmax(-1) @ v


class Biased(Attention):
    """Its mask is learned."""

    def __init__(self):
        super().__init__(lambda q, k, v: sdpa(q, k, v, self.bias))
        self.bias = nn.Parameter(torch.zeros(ROWS, ROWS))


class Blind(Biased):
    """A row sees nothing."""

    def __init__(self):
        super().__init__()
        self.attend = lambda q, k, v: sdpa(
            q, k, v, self.bias.masked_fill(torch.arange(ROWS)[:, None] == 1, -torch.inf)
        )


def test_what_is_no_whole_attention_stays_a_formula():
    assert not _operators(_export(_by_hand))
    assert not _operators(_export(lambda q, k, v: sdpa(q, k, v, dropout_p=1.0)))
    model = Biased().double()
    module = compare(model, _square, torch.optim.Adam(model.parameters()), [_batch()])
    assert not _operators(module)


def test_a_row_that_sees_nothing_is_zero_in_a_formula():
    model = Blind().double()
    module = compare(model, _square, torch.optim.Adam(model.parameters()), [_batch()])
    assert not _operators(module)


def test_scale_that_is_no_number():
    with pytest.raises(CaptureError, match=r"attention's scale is inf, expected a finite number"):
        _export(lambda q, k, v: sdpa(q, k, v, scale=float("inf")))


def test_groups_that_do_not_divide():
    with pytest.raises(CaptureError) as error:
        _export(lambda q, k, v: sdpa(q, k[:, :3], v[:, :3], enable_gqa=True))
    expected = "keys or values have 3 heads, expected a number that divides the 4 of the queries"
    assert str(error.value).endswith(expected)
    assert "test_attention.py:" in str(error.value)


def test_flex_attention_is_refused_with_the_reason_of_torch():
    with pytest.raises(CaptureError) as error:
        _export(flex_attention)
    assert "test_attention.py:" in str(error.value)
    assert "captured: NotImplementedError: FlexAttention does not support" in str(error.value)


def test_mask_that_does_not_broadcast():
    with pytest.raises(CaptureError) as error:
        _export(lambda q, k, v: sdpa(q, k, v, _half((3, ROWS))))
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(
        "attention mask has shape (3, 6), expected one that broadcasts to (2, 4, 6, 6)"
    )
    assert "test_attention.py:" in str(error.value)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(dropout_p=-0.5), "dropout_p is -0.5, expected 0 to 1"),
        (
            dict(attn_mask=torch.ones(6, 6, dtype=torch.int64)),
            "attention mask has type torch.int64, expected torch.bool or torch.float64",
        ),
    ],
)
def test_what_pytorch_refuses(options, message):
    tensor = torch.ones(1, 1, 6, 4, dtype=torch.float64)
    with pytest.raises(RuntimeError):
        sdpa(tensor, tensor, tensor, **options)
    with pytest.raises(CaptureError) as error:
        _export(lambda q, k, v: sdpa(q, k, v, **options))
    assert "\n" not in str(error.value) and str(error.value).endswith(message)


MODEL = Path(__file__).parent / "models" / "attending.py"
KINDS = {
    "plain": "",
    "groups": "key_heads=2,causal=1",
    "one head of keys": "key_heads=1",
    "padding": "padded=1",
    "window": "window=5,dropout=0.3",
    "covered": "padded=1,lowest=-3e38",
    "covered, dropout": "padded=1,lowest=-3e38,dropout=0.3",
    "dropout": "dropout=0.3,causal=1",
}


@functools.cache
def _subject(kind, dtype):
    return make_subject(load_model_file(MODEL, None, KINDS[kind], dtype), 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "dtype, mesh, micro, plan",
    [
        ("float64", "", 1, "data-parallel"),
        ("float64", "data=2", 2, "zero"),
        ("float64", "model=4", 1, "tensor-parallel"),
        ("float32", "data=2,model=2", 2, "tensor-parallel"),
        ("bfloat16", "data=2", 2, "data-parallel"),
    ],
)
def test_compiled_as_in_eager(kind, dtype, mesh, micro, plan):
    subject = _subject(kind, dtype)
    compiled = compile_module(subject.module, kind, mesh=mesh, micro=micro, plan=plan)
    failed = [row for row in judge_program(subject, compiled.bytes) if not row.passed]
    assert not failed


def _commands(compiled):
    program = _tandem.Program.load(compiled.bytes)
    return [command for rank in program.rank_programs for command in rank.commands]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("rows", [1, ROWS], ids=["of one row", "of equal rows"])
def test_one_key_for_all_queries(rows, dtype):
    """One key, as of pooled images, and one that is repeated by a stride of 0."""

    def attend(q, k, v):
        k, v = (t[:, :, :1].expand(-1, -1, rows, -1) for t in (k, v))
        return F.scaled_dot_product_attention(q, k, v)

    model = Attention(attend).to(dtype)
    batches = [torch.randn(4, ROWS, 8, dtype=dtype) for _ in range(2)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = tandem.compile(
        model, lambda m, x: m(x).square().mean(), optimizer, batches[0], mesh={"data": 2}
    )
    step_eager = copy.deepcopy(model)
    optimizer = torch.optim.SGD(step_eager.parameters(), lr=0.1)
    for batch in batches:
        loss = step(batch)
        optimizer.zero_grad()
        expected = step_eager(batch).square().mean()
        expected.backward()
        optimizer.step()
        torch.testing.assert_close(loss, expected.detach(), check_dtype=False)
    for name, tensor in step_eager.state_dict().items():
        torch.testing.assert_close(step.state_dict()[name], tensor)


@pytest.mark.parametrize("kind", ["plain", "window", "dropout", "padding"])
def test_query_positions_may_be_split(kind):
    """Gradients of keys and values are sums over parts then."""
    subject = _subject(kind, "float64")
    pins = [tandem.pin("nn.attention@*", data="gather(2)")]
    compiled = compile_module(subject.module, kind, mesh="data=2", pins=pins)
    assert not [row for row in judge_program(subject, compiled.bytes) if not row.passed]
    assert "attention" in {command.kind for command in _commands(compiled)}


def test_memory_is_linear_in_positions():
    def held(rows):
        file = load_model_file(MODEL, None, f"rows={rows},dropout=0.3,window=9,batch=2", "float32")
        compiled = compile_module(make_subject(file, 1).module, "rows")
        (rank,) = _tandem.Program.load(compiled.bytes).rank_programs
        return sum(arena.bytes for arena in rank.arenas)

    assert held(1024) < 2.1 * held(512)


def test_under_autocast_it_is_in_its_type():
    def attend(q, k, v):
        with torch.autocast("cpu", torch.bfloat16):
            return sdpa(q.float(), k.float(), v.to(torch.bfloat16)).to(q.dtype)

    (forward,) = _operators(_export(attend))
    assert {operand.dtype for operand in forward.operands} == {torch.bfloat16}
