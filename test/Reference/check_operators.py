"""Compares the meaning of every nn operator in the reference interpreter with PyTorch's.

One module with one operator per line; its results are saved by tandem-interpret and compared with
the function beside the line. Values are random; every operator of the dialect must occur.
"""

import re
import subprocess
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

torch.manual_seed(0)
DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
TOLERANCES = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}


def draw(shape, dtype="f64", low=-2.0, high=2.0):
    return (torch.rand(shape, dtype=torch.float64) * (high - low) + low).to(DTYPES[dtype])


def integers(shape, low, high):
    return torch.randint(low, high, shape)


def type_of(tensor):
    names = {dtype: name for name, dtype in DTYPES.items()} | {
        torch.int64: "i64",
        torch.int32: "i32",
        torch.bool: "i1",
        torch.uint8: "ui8",
        torch.int8: "i8",
    }
    return "tensor<" + "".join(f"{size}x" for size in tensor.shape) + names[tensor.dtype] + ">"


CASES = []  # name, keyword, attributes, operands, function


def case(name, function, *operands, keyword="", attributes=""):
    CASES.append((name, keyword, attributes, list(operands), function))


def add_elementwise_cases():
    x, positive = draw((4, 5)), draw((4, 5), low=0.1, high=3)
    for name in [
        "neg",
        "abs",
        "exp",
        "exp2",
        "expm1",
        "sin",
        "cos",
        "tanh",
        "sigmoid",
        "erf",
        "erfc",
        "sign",
        "floor",
        "ceil",
        "round",
        "relu",
        "reciprocal",
    ]:
        case(name, getattr(torch, name), x)
    for name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt"):
        case(name, getattr(torch, name), positive)
    case("round", torch.round, torch.tensor([0.5, 1.5, -0.5, -2.5, 2.4999], dtype=torch.float64))
    case("sign", torch.sign, torch.tensor([0.0, -0.0, 3.0, -1e-300], dtype=torch.float64))
    case("silu", F.silu, x)
    case("logical_not", torch.logical_not, x > 0)
    for form in ("none", "tanh"):
        case("gelu", lambda x, form=form: F.gelu(x, approximate=form), x, keyword=form)
        case(
            "gelu_backward",
            lambda g, x, form=form: torch.ops.aten.gelu_backward(g, x, approximate=form),
            draw((4, 5)),
            x,
            keyword=form,
        )
    case("silu_backward", torch.ops.aten.silu_backward, draw((4, 5)), x)
    y = draw((5,))
    for name in [
        "add",
        "sub",
        "mul",
        "div",
        "maximum",
        "minimum",
        "atan2",
        "copysign",
        "remainder",
        "floor_divide",
    ]:
        case(name, getattr(torch, name), x, y)
    zeros = torch.tensor([0.0, -0.0, 1.0, -torch.inf], dtype=torch.float64)
    case("copysign", torch.copysign, zeros, zeros.flip(0))
    exact = torch.tensor(
        [-1.5, 1.5, 0.6, -0.9, 1.0, torch.inf, -5.0, 1e17, -1e-300, 3.0, 0.0]
    ).double()
    divisors = torch.tensor([0.3, -0.3, 0.2, 0.3, 0.1, 0.3, torch.inf, 0.7, 1.0, 0.0, 0.0]).double()
    case("floor_divide", torch.floor_divide, exact, divisors)
    case("floor_divide", torch.floor_divide, exact.float(), divisors.float())
    case("expm1", torch.expm1, exact[:5] * 1e-12)
    case("log1p", torch.log1p, exact[:5] * 1e-12)
    case("pow", torch.pow, positive, y)
    a, b = integers((4, 5), -20, 20), integers((5,), 1, 6) * torch.tensor([1, -1, 1, -1, 1])
    for name in ["add", "sub", "mul", "maximum", "minimum", "remainder", "floor_divide"]:
        case(name, getattr(torch, name), a, b)
    case("div", lambda x, y: torch.div(x, y, rounding_mode="trunc"), a, b)
    case("pow", torch.pow, a, integers((5,), 0, 4))
    for name in ("logical_and", "logical_or", "logical_xor"):
        case(name, getattr(torch, name.replace("logical", "bitwise")), a, b)
        case(name, getattr(torch, name), x > 0, x > 1)
    for predicate in ["eq", "ne", "lt", "le", "gt", "ge"]:
        case(
            "compare",
            getattr(torch, predicate),
            a,
            integers((4, 5), -3, 3) + a % 2,
            keyword=predicate,
        )
    case("select", torch.where, x > 0, x, y)
    nan = torch.tensor([float("nan"), 1.0, 2.0], dtype=torch.float64)
    case("maximum", torch.maximum, nan, nan.flip(0))
    case("minimum", torch.minimum, nan, nan.flip(0))


def add_convert_cases():
    x = torch.cat(
        [
            draw((20,), low=-100, high=100),
            torch.tensor([0.0, -0.0, 65520.0, 1e-8], dtype=torch.float64),
        ]
    )
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool):
        case("convert", lambda x, dtype=dtype: x.to(dtype), x)
    case("convert", lambda x: x.to(torch.int32), integers((8,), -(2**40), 2**40))
    case("convert", lambda x: x.to(torch.bfloat16), draw((50,), "f32", -1, 1))
    case("convert", lambda x: x.to(torch.float64), x > 0)
    for dtype in ("f32", "bf16", "f16"):
        x, y = draw((6, 5), dtype), draw((5, 7), dtype)
        case("matmul", torch.matmul, x, y)
        case("exp", torch.exp, x)
        case("add", torch.add, x, draw((5,), dtype))
        case("softmax", lambda x: x.softmax(1), x, attributes="{dim = 1 : i64}")
        case("sum", lambda x: x.sum(0), x, attributes="{dims = array<i64: 0>}")


def add_reduction_cases():
    x = draw((3, 4, 5))
    dims = "{dims = array<i64: 0, 2>}"
    case("sum", lambda x: x.sum((0, 2)), x, attributes=dims)
    case("max", lambda x: x.amax((0, 2)), x, attributes=dims)
    case(
        "min", lambda x: x.amin((0, 2), keepdim=True), x, attributes=dims[:-1] + ", keepdim = true}"
    )
    case("prod", lambda x: x.prod(1), x, attributes="{dims = array<i64: 1>}")
    case("max", lambda x: x.any(1), x > 1.5, attributes="{dims = array<i64: 1>}")
    case("min", lambda x: x.all(1), x > -1.5, attributes="{dims = array<i64: 1>}")
    case("argmax", lambda x: x.argmax(1), x, attributes="{dim = 1 : i64}")
    for name, function in (
        ("softmax", F.softmax),
        ("log_softmax", F.log_softmax),
        ("cumsum", torch.cumsum),
    ):
        for dim in (0, 1, 2):
            case(
                name,
                lambda x, f=function, d=dim: f(x, dim=d),
                x,
                attributes=f"{{dim = {dim} : i64}}",
            )
    masked = x.masked_fill(x > 0, -torch.inf)
    masked[0, 0] = -torch.inf
    for name, function in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
        case(name, lambda x, f=function: f(x, 2), masked, attributes="{dim = 2 : i64}")
    case(
        "softmax",
        lambda x: torch.ops.aten._safe_softmax(x, 2),
        masked,
        attributes="{dim = 2 : i64, safe = true}",
    )
    for name in ("softmax", "log_softmax"):
        output = getattr(x, name)(1)
        data = getattr(torch, f"_{name}_backward_data")
        case(
            f"{name}_backward",
            lambda g, y, f=data: f(g, y, 1, torch.float64),
            draw((3, 4, 5)),
            output,
            attributes="{dim = 1 : i64}",
        )
    case("flip", lambda x: x.flip((0, 2)), x, attributes=dims)
    case(
        "roll",
        lambda x: x.roll((1, -2), (0, 2)),
        x,
        attributes=f"{{dims = array<i64: 0, 2>, shifts = array<i64: 1, {x.shape[2] - 2}>}}",
    )
    case("topk", lambda x: tuple(torch.topk(x, 3, 1)), x, attributes="{k = 3 : i64, dim = 1 : i64}")
    case(
        "topk",
        lambda x: tuple(torch.topk(x, 2, 2, largest=False)),
        x,
        attributes="{k = 2 : i64, dim = 2 : i64, largest = false}",
    )
    ties = torch.tensor([[2, 1, 2, 1, 2]])

    def ordered(x):
        return tuple(torch.sort(x, dim=1, descending=True, stable=True))

    case("topk", ordered, ties, attributes="{k = 5 : i64, dim = 1 : i64}")
    case("argmax", lambda x: torch.tensor([0]), ties, attributes="{dim = 1 : i64}")


def add_norm_cases():
    x, grad = draw((3, 4, 5)), draw((3, 4, 5))
    for rank, affine in ((1, 2), (2, 1), (1, 0), (3, 2)):
        shape = x.shape[3 - rank :]
        weights = [draw(shape) for _ in range(affine)]
        full = (weights + [None, None])[:2]

        def function(x, *w, s=shape, n=affine):
            return tuple(
                torch.ops.aten.native_layer_norm(x, s, *(list(w) + [None, None])[:2], 1e-5)
            )

        case(
            "layer_norm",
            function,
            x,
            *weights,
            attributes=f"{{normalized_rank = {rank} : i64, eps = 1.0e-5 : f64}}",
        )
        _, mean, rstd = torch.ops.aten.native_layer_norm(x, shape, *full, 1e-5)

        def backward(g, x, mean, rstd, *w, s=shape):
            weight = w[0] if w else None
            mask = [True, bool(w), bool(w)]
            zero = torch.zeros_like(weight) if w else None
            results = torch.ops.aten.native_layer_norm_backward(
                g, x, s, mean, rstd, weight, zero, mask
            )
            return tuple(results) if w else results[0]

        case(
            "layer_norm_backward",
            backward,
            grad,
            x,
            mean,
            rstd,
            *weights[:1],
            attributes=f"{{normalized_rank = {rank} : i64}}",
        )


def add_shape_cases():
    x = draw((4, 6))
    case(
        "constant",
        lambda: torch.full((2, 3), 1.5, dtype=torch.float64),
        attributes="dense<1.5> : tensor<2x3xf64>",
    )
    case(
        "constant",
        lambda: torch.tensor([[1, -2], [3, 4]]),
        attributes="dense<[[1, -2], [3, 4]]> : tensor<2x2xi64>",
    )
    case(
        "constant",
        lambda: torch.tensor([True, False]),
        attributes="dense<[true, false]> : tensor<2xi1>",
    )
    case("iota", lambda: torch.arange(7))
    case("either", lambda x, *_: x, x, x, x)
    case("either", lambda x, *_: x, *[torch.tensor([0.0, -0.0, torch.nan, 1.0])] * 2)
    case("to_host", lambda x: x, x)
    case("from_host", lambda x: x, x)
    case("reshape", lambda x: x.reshape(3, 8), x)
    case(
        "permute",
        lambda x: x.permute(2, 0, 1),
        draw((2, 3, 4)),
        attributes="{permutation = array<i64: 2, 0, 1>}",
    )
    case("expand", lambda x: x.expand(2, 4, 3), draw((4, 1)))
    case(
        "slice",
        lambda x: x[:, 1:6:2],
        x,
        attributes="{dim = 1 : i64, start = 1 : i64, stop = 6 : i64, step = 2 : i64}",
    )
    case(
        "pad",
        lambda x: F.pad(x, (0, 0, 2, 1)),
        x,
        attributes="{dim = 0 : i64, low = 2 : i64, high = 1 : i64}",
    )

    def spread(x):
        out = x.new_zeros(4, 13)
        out[:, 1:12:2] = x
        return out

    case(
        "pad",
        spread,
        x,
        attributes="{dim = 1 : i64, low = 1 : i64, high = 1 : i64, step = 2 : i64}",
    )
    case("cat", lambda *x: torch.cat(x, 1), x, draw((4, 2)), x, attributes="{dim = 1 : i64}")


def add_product_cases():
    case("matmul", torch.matmul, draw((2, 3, 4, 5)), draw((2, 3, 5, 6)))
    case("matmul", torch.matmul, integers((3, 4), -9, 9), integers((4, 2), -9, 9))
    indices = integers((3, 4), 0, 7)
    case("embedding", lambda w, i: w[i], draw((7, 2, 3)), indices)

    def backward(g, i):
        return g.new_zeros(7, 2).index_add_(0, i.reshape(-1), g.reshape(-1, 2))

    case("embedding_backward", backward, draw((3, 4, 2)), indices)
    index = integers((3, 6), 0, 4)
    case("gather", lambda x, i: x.gather(1, i), draw((3, 4)), index, attributes="{dim = 1 : i64}")
    case(
        "scatter_add",
        lambda x, i: x.new_zeros(3, 4).scatter_add(1, i, x),
        draw((3, 6)),
        index,
        attributes="{dim = 1 : i64}",
    )

    def philox(index, seed, step):
        from tandem.random import philox

        return torch.from_numpy(philox(index.numpy(), int(seed), 3, int(step)).astype("int64"))

    case(
        "philox",
        philox,
        torch.tensor([[0, 1, 2, 3], [5, 1000, 2**33, 2**40 + 7]]),
        torch.tensor(2**40 + 11),
        torch.tensor(17),
        attributes="{ordinal = 3 : i64}",
    )


def _attention(q, k, v, bias=None, kept=None):
    """By PyTorch's own function but for dropout, and the log-sum-exp; `bias` is added to scores."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = 0.5 * q @ k.mT + (0 if bias is None else bias)
    if kept is None:
        output = F.scaled_dot_product_attention(q, k, v, bias, scale=0.5)
    else:
        output = (torch.ops.aten._safe_softmax(scores, -1) * kept) @ v
    return output, scores.logsumexp(-1)


def _as_bias(hidden):
    return torch.zeros(hidden.shape, dtype=torch.float64).masked_fill(hidden, -torch.inf)


def add_attention_case(attributes, tensors, others, bias, kept=None):
    """Forward, and backward of what the forward gives. `bias` and `kept` are made of the others."""
    attributes = f"{{scale = 0.5 : f64{attributes}}}"

    def forward(q, k, v, *others):
        return _attention(q, k, v, bias(*others), kept(*others) if kept else None)

    def backward(grad, q, k, v, output, logsumexp, *others):
        operands = [t.detach().requires_grad_() for t in (q, k, v)]
        return torch.autograd.grad(forward(*operands, *others)[0], operands, grad)

    case("attention", forward, *tensors, *others, attributes=attributes)
    output, logsumexp = forward(*tensors, *others)
    grad = draw(output.shape)
    case(
        "attention_backward",
        backward,
        *(grad, *tensors, output, logsumexp, *others),
        attributes=attributes,
    )


def add_attention_cases():
    from tandem.random import philox

    tensors = draw((2, 4, 5, 3)), draw((2, 2, 6, 3)), draw((2, 2, 6, 2))
    add_attention_case("", tensors, [], lambda: None)
    seen = torch.rand(2, 1, 5, 6) < 0.6
    seen[1, 0, 2] = False
    add_attention_case(", masked = true", tensors, [seen], lambda seen: _as_bias(~seen))
    add_attention_case(", masked = true", tensors, [draw((1, 4, 1, 6))], lambda bias: bias)
    distance = torch.arange(6) - (torch.arange(5) + 1)[:, None]
    for before, after in ((None, 0), (2, 0), (1, 1), (0, None)):
        ends = {"before": before, "after": after}
        names = [f", {name} = {end} : i64" for name, end in ends.items() if end is not None]
        hidden = (distance < -(6 if before is None else before)) | (
            distance > (6 if after is None else after)
        )
        add_attention_case(
            "".join(names),
            tensors,
            [torch.arange(5) + 1],
            lambda positions, hidden=hidden: _as_bias(hidden),
        )

    def kept(rows, seed, step):
        index = rows[..., None] * 6 + torch.arange(6)
        bits = torch.from_numpy(philox(index.numpy(), int(seed), 4, int(step)).astype("int64"))
        return (bits < int(0.75 * 2**32)).double() / 0.75

    rows = torch.randperm(1000)[:40].reshape(2, 4, 5)
    add_attention_case(
        ", dropout = 0.25 : f64, ordinal = 4 : i64",
        tensors,
        [rows, torch.tensor(2**40 + 11), torch.tensor(17)],
        lambda *_: None,
        kept,
    )


def add_convolution_case(input, weight, stride, padding, dilation, groups=1, dtype="f64"):
    """The operator and both its gradients; shapes without batch and channels are spatial."""
    x, w = draw(input, dtype), draw(weight, dtype)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(stride) - 1]

    def forward(x, w):
        return convolve(x, w, None, stride, padding, dilation, groups)

    def gradient(number, x, w, grad):
        operands = [x.detach().requires_grad_(), w.detach().requires_grad_()]
        return torch.autograd.grad(forward(*operands), operands, grad)[number]

    def numbers(values):
        return "array<i64: " + ", ".join(map(str, values)) + ">"

    grad = draw(forward(x, w).shape, dtype)
    attributes = (
        f"{{stride = {numbers(stride)}, padding = {numbers(padding)},"
        f" dilation = {numbers(dilation)}}}"
    )
    case("conv", forward, x, w, attributes=attributes)
    case(
        "conv_input_grad",
        lambda grad, w: gradient(0, torch.zeros_like(x), w, grad),
        grad,
        w,
        attributes=attributes,
    )
    case(
        "conv_weight_grad",
        lambda x, grad: gradient(1, x, torch.zeros_like(w), grad),
        x,
        grad,
        attributes=attributes,
    )


def add_convolution_cases():
    add_convolution_case((2, 3, 9), (4, 3, 3), (2,), (1,), (2,))
    add_convolution_case((2, 4, 6, 5), (6, 2, 3, 2), (1, 2), (1, 0), (1, 2), groups=2)
    add_convolution_case((2, 4, 6, 5), (4, 1, 3, 3), (2, 1), (1, 1), (1, 1), groups=4)
    add_convolution_case((1, 2, 4, 5, 3), (3, 2, 2, 3, 1), (1, 2, 1), (0, 1, 0), (1, 1, 1))
    add_convolution_case((2, 3, 6, 6), (4, 3, 3, 3), (1, 1), (1, 1), (1, 1), dtype="bf16")


def add_pooling_cases():
    x = draw((2, 3, 6, 7))
    x[0, 1, 2, 3] = x[1, 0, 5, 6] = torch.nan
    ties = draw((2, 3, 6, 7)).round()
    for tensor in (x, ties, draw((3, 6, 7), "bf16")):
        case(
            "max_pool",
            lambda x: F.max_pool2d(x, (3, 2), 2, (1, 0), (1, 2), return_indices=True),
            tensor,
            attributes="{kernel = array<i64: 3, 2>, stride = array<i64: 2, 2>,"
            " padding = array<i64: 1, 0>, dilation = array<i64: 1, 2>}",
        )
    case(
        "max_pool",
        lambda x: F.max_pool3d(x, 2, 1, return_indices=True),
        draw((2, 3, 2, 4)),
        attributes="{kernel = array<i64: 2, 2, 2>, stride = array<i64: 1, 1, 1>,"
        " padding = array<i64: 0, 0, 0>, dilation = array<i64: 1, 1, 1>}",
    )


def results_of(function, operands):
    found = function(*operands)
    return list(found) if isinstance(found, (tuple, list)) else [found]


def print_module(expected):
    arguments, lines, values, types = [], [], [], []
    for i, (name, keyword, attributes, operands, _) in enumerate(CASES):
        arguments += [
            f'%a{i}_{j}: {type_of(operand)} {{nn.role = #nn.role<parameter>, nn.name = "{i}.{j}"}}'
            for j, operand in enumerate(operands)
        ]
        names = ", ".join(f"%a{i}_{j}" for j in range(len(operands)))
        ins = "(" + ", ".join(map(type_of, operands)) + ")"
        outs = [type_of(result) for result in expected[i]]
        left = f"%r{i}:{len(outs)}" if len(outs) > 1 else f"%r{i}"
        signature = {"constant": f"-> {outs[0]}", "iota": f": {outs[0]}"}.get(
            name, f": {ins} -> " + (outs[0] if len(outs) == 1 else "(" + ", ".join(outs) + ")")
        )
        lines.append(f"  {left} = nn.{name} {keyword} {names} {attributes} {signature}")
        values += [f"%r{i}#{j}" if len(outs) > 1 else f"%r{i}" for j in range(len(outs))]
        types += outs
    return (
        "func.func @step("
        + ", ".join(arguments)
        + ") -> ("
        + ", ".join(types)
        + ") {\n"
        + "\n".join(lines)
        + "\n  return "
        + ", ".join(values)
        + " : "
        + ", ".join(types)
        + "\n}\n"
    )


def is_close(expected, found):
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return False
    if not expected.dtype.is_floating_point:
        return torch.equal(expected, found)
    scale = expected.double().abs().nan_to_num(posinf=1).max().item() if expected.numel() else 1
    return torch.allclose(
        expected.double(),
        found.double(),
        rtol=0,
        atol=TOLERANCES[expected.dtype] * max(scale, 1),
        equal_nan=True,
    )


def main(folder, operators):
    for add in (
        add_elementwise_cases,
        add_convert_cases,
        add_reduction_cases,
        add_norm_cases,
        add_shape_cases,
        add_product_cases,
        add_attention_cases,
        add_convolution_cases,
        add_pooling_cases,
    ):
        add()
    expected = [results_of(function, operands) for *_, operands, function in CASES]
    (folder / "operators.mlir").write_text(print_module(expected))
    save_file(
        {
            f"parameter/{i}.{j}": operand.contiguous().clone()
            for i, (*_, operands, _) in enumerate(CASES)
            for j, operand in enumerate(operands)
        },
        folder / "operators.safetensors",
    )
    subprocess.run(
        [
            "tandem-interpret",
            folder / "operators.mlir",
            "--data",
            folder / "operators.safetensors",
            "--save-results",
            folder / "results.safetensors",
        ],
        check=True,
    )
    found = load_file(folder / "results.safetensors")
    wrong, number = [], 0
    for (name, keyword, attributes, _, _), results in zip(CASES, expected, strict=False):
        for result in results:
            if not is_close(result, found[f"result/{number}"]):
                wrong.append(
                    f"nn.{name} {keyword}{attributes}: {found[f'result/{number}']}, expected {result}"
                )
            number += 1
    missing = set(operators) - {name for name, *_ in CASES}
    wrong += [f"nn.{name} has no case" for name in sorted(missing)]
    print(
        "\n".join(wrong)
        or f"{number} results of {len(set(operators))} operators agree with PyTorch"
    )
    return 1 if wrong else 0


def operators_of(source):
    """Mnemonics in the dialect's definitions."""
    texts = (path.read_text() for path in (source / "include/tandem/Dialect/NN").glob("*.td"))
    return [
        name for text in texts for name in re.findall(r"def NN_\w+Op\s*:\s*NN_\w+<\"(\w+)\"", text)
    ]


if __name__ == "__main__":
    source, folder = map(Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    sys.exit(main(folder, operators_of(source)))
