"""Tensors without dimensions, which an operator along a dimension takes for one element, and tensors without elements."""

import pytest
import tandem
import torch
import torch.nn.functional as F
from evaluator import run_step
from torch import nn

FIRST = torch.tensor([0])
NONE = torch.zeros(0, dtype=torch.int64)
NOWHERE = torch.zeros(4, 0, dtype=torch.int64)

WITHOUT_DIMENSIONS = {
    "index_select": lambda a: a.index_select(0, FIRST),
    "index_add": lambda a: a.index_add(0, FIRST, a.detach()),
    "index_copy": lambda a: a.index_copy(0, FIRST, a.detach()) + a,
    "index_fill": lambda a: a.index_fill(0, FIRST, 2.0) + a,
    "gather": lambda a: a.gather(0, torch.tensor(0)),
    "scatter": lambda a: a.scatter(0, torch.tensor(0), a * 2),
    "scatter_add": lambda a: a.scatter_add(-1, torch.tensor(0), a),
    "take": lambda a: a.take(FIRST),
    "unfold": lambda a: a.unfold(0, 1, 1),
    "transpose": lambda a: a.transpose(0, -1),
    "cummax": lambda a: a.cummax(0)[0],
    "cumsum": lambda a: a.cumsum(0) + a.cumprod(0) + a.logcumsumexp(0),
    "topk": lambda a: a.topk(1)[0] + a.sort()[0] + a.kthvalue(1)[0],
    "median": lambda a: a.median(0)[0] + a.quantile(0.5),
    "argsort": lambda a: a * (a.argsort() + a.argmax(0) + a.argmin()),
    "softmax": lambda a: a.softmax(0) * a + a.log_softmax(-1) + a.logsumexp(0),
    "max": lambda a: a.max(0)[0] + a.amax(0) + a.prod(0) + a.nansum(0),
    "any": lambda a: a * (a > 0).any(0) * (a > 0).all(),
    "linspace": lambda a: (
        a + torch.linspace(a.detach(), 3, 4, dtype=a.dtype) + torch.linspace(2, 3, 1)
    ),
    "pdist": lambda a: F.pdist(a.reshape(1, 1)).sum() + a,
    "views": lambda a: a[None] + a.expand(3) + a.squeeze(0) + a.unsqueeze(-1).flip(0),
}


def write_nowhere(x):
    y = x.clone()
    y[:, []] = 1.0
    y[NONE] = x[:0]
    y[:, :0] = 3
    y[:, 1:1].mul_(x[:, :0])
    return y


WITHOUT_ELEMENTS = {
    "slice": lambda x: x[:, 3:3].sum() + x,
    "cat": lambda x: torch.cat([x[:, :0], x, x.new_zeros(4, 0)], 1).cumsum(1),
    "cat of none": lambda x: x + torch.cat([x[:, :0], x[:, :0]], 1).sum(),
    "old cat": lambda x: torch.cat([torch.tensor([], dtype=x.dtype), x]),
    "split": lambda x: torch.cat(x.split([0, 3], 1), 1) + x.tensor_split(4, 1)[0],
    "pad": lambda x: x + F.pad(x, (-3, 0)).sum() + F.pad(x[:, :0], (1, 2)),
    "matmul": lambda x: x + x[:, :0] @ x[:0] + (x[:0] @ x.T).sum(),
    "linear": lambda x: x + F.linear(x[:, :0], x.new_zeros(3, 0), x[0]),
    "products": lambda x: x * x[:0].prod() * torch.linalg.det(x[:0, :0]),
    "any": lambda x: x + x[:0].any() * 2 + (x[:0] > 0).all(0),
    "logsumexp": lambda x: x + x[:, :0].logsumexp(1, keepdim=True).exp() + x[:0].norm(),
    "mean": lambda x: x + x[:0].mean().nan_to_num() + x[:0].var(0).nan_to_num(),
    "writes": write_nowhere,
    "places": lambda x: (
        torch.cat([x[NONE], x]).index_add(0, NONE, x[:0]).index_copy(0, NONE, x[:0])
    ),
    "scatter": lambda x: x.scatter(1, NOWHERE, x[:, :0]).scatter_add(1, NOWHERE, x[:, :0]),
    "gather": lambda x: x + x.gather(1, NOWHERE).sum() + F.embedding(NONE, x).sum(),
    "order": lambda x: x + x[:, :0].sort(1)[0].sum() + x.topk(0, 1)[0].sum(),
    "norms": lambda x: x + F.layer_norm(x[:0], (3,), x[0], x[1]).sum() + x[:0].softmax(1).sum(),
    "mask": lambda x: x + x[torch.zeros(4, 3, dtype=torch.bool)].sum() + x[:, :1].diff(dim=1).sum(),
    "convolution": lambda x: x + F.conv1d(x[:0, None], x[:1, None]).sum(),
    "attention": lambda x: x + F.scaled_dot_product_attention(x[None, :0], x[None], x[None]).sum(),
    "loss": lambda x: x + F.cross_entropy(x[:0], NONE, reduction="sum"),
    "random": lambda x: x + torch.rand(0, 3).sum() + F.dropout(x[:0], 0.5).sum(),
}


class Net(nn.Module):
    """`function` of a parameter of `shape`, 1.5, times the mean of a batch of rows."""

    def __init__(self, function, *shape):
        super().__init__()
        self.w = nn.Parameter(1.5 + torch.arange(1.0 * torch.Size(shape).numel()).reshape(shape))
        self.function = function
        self.double()

    def forward(self, x):
        return self.function(self.w * x.mean())


def loss_fn(model, x):
    return (model(x).double() * 1.5).square().sum()


def expected(model, x):
    loss = loss_fn(model, x)
    (gradient,) = torch.autograd.grad(loss, [model.w])
    return loss.detach(), gradient


def check(function, *shape):
    """The captured step, run operator by operator, against eager."""
    model, x = Net(function, *shape), torch.rand(2, 1, dtype=torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    module = tandem.export(model, loss_fn, optimizer, x, gradients=True)
    assert not any(
        0 in value.shape
        for operator in module.step.operators
        for value in (*operator.operands, *operator.results)
    )
    values = module.values() | {"seed/seed": torch.tensor(0)} | module.inputs(x)
    results = {r.role: tensor for r, tensor in run_step(module.step, values) if r.role != "state"}
    loss, gradient = expected(model, x)
    torch.testing.assert_close(results["loss"], loss, rtol=1e-12, atol=0)
    torch.testing.assert_close(results["gradient"], gradient, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", WITHOUT_DIMENSIONS)
def test_without_dimensions(name):
    check(WITHOUT_DIMENSIONS[name])


@pytest.mark.parametrize("name", WITHOUT_ELEMENTS)
def test_without_elements(name):
    check(WITHOUT_ELEMENTS[name], 4, 3)


@pytest.mark.parametrize(
    ("functions", "shape"), [(WITHOUT_DIMENSIONS, ()), (WITHOUT_ELEMENTS, (4, 3))]
)
def test_all_of_them_compiled(functions, shape):
    model = Net(lambda a: sum(f(a).sum() for f in functions.values()), *shape)
    x = torch.rand(2, 1, dtype=torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step = tandem.compile(model, loss_fn, optimizer, x, mesh="data=2", gradients=True)
    loss, gradient = expected(model, x)
    torch.testing.assert_close(step(x), loss, rtol=1e-9, atol=0)
    torch.testing.assert_close(step.gradients()["w"], gradient, rtol=1e-9, atol=1e-9)


class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.none = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(0, 3))
        self.register_buffer("past", torch.zeros(0, 3))
        self.register_buffer("other", torch.zeros(0, 3))

    def forward(self, x):
        self.past = self.past * 2
        self.other.add_(1)
        return torch.cat([self.past, x * self.w, self.none * x[:0]])


def test_values_without_elements_are_kept_and_returned():
    model, x = Cache(), torch.rand(4, 3)

    def with_others(model, x):
        y = model(x)
        return {"loss": y.square().sum(), "none": y[:0], "rows": y[:, :0].double()}

    optimizer = torch.optim.Adam(model.parameters())
    step = tandem.compile(model, with_others, optimizer, x, gradients=True)
    found, wanted = step(x), with_others(model, x)
    torch.testing.assert_close(found, {name: t.detach() for name, t in wanted.items()})
    assert list(step.gradients()) == ["w"]
    assert step.state_dict()["past"].shape == (0, 3)


def test_a_loss_that_no_parameter_decides_has_no_gradients():
    model, x = nn.Linear(3, 1), torch.rand(4, 3)

    def constant(model, x):
        return (model(x).detach().sum() + x.sum()).requires_grad_()

    step = tandem.compile(
        model, constant, torch.optim.SGD(model.parameters(), 0.1), x, gradients=True
    )
    step(x)
    assert step.gradients() == {}
