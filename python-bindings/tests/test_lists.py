"""Functions of lists of tensors are those of each tensor."""

import copy

import pytest
import tandem
import torch
from comparing import train_beside
from tandem.formulas import lists
from torch import nn

NAMES = sorted(n.removeprefix(lists.PREFIX) for n in dir(torch) if n.startswith(lists.PREFIX))
TWO = {"add", "clamp_max", "clamp_min", "copy", "div", "maximum", "minimum", "mul", "pow", "sub"}


def tensors(seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(n, n, generator=generator).double() + 0.1 for n in (2, 3)]


def calls(name):
    """[(arguments, keywords)] of each way to call it."""
    kind = name.rstrip("_")
    if kind == "mm" or kind == "copy":
        return [((tensors(1),), {})]
    if kind in ("addcdiv", "addcmul"):
        values = (
            {},
            {"value": 0.5},
            {"scalars": [0.5, 2.0]},
            {"scalars": torch.tensor([0.5, 2.0])},
        )
        return [((tensors(1), tensors(2)), words) for words in values]
    if kind == "lerp":
        return [((tensors(1), weight), {}) for weight in (0.3, [0.3, 0.4], tensors(2))]
    if kind in ("norm", "powsum"):
        return [((), {}), ((3,), {})]
    if kind in TWO:
        more = [((tensors(1),), {"alpha": 0.5})] if kind in ("add", "sub") else []
        return [((other,), {}) for other in (0.5, [0.5, 2.0], tensors(1))] + more
    return [((), {})]


@pytest.mark.parametrize("name", NAMES)
def test_of_each_tensor(name):
    for args, words in calls(name):
        own, theirs = tensors(0), tensors(0)
        found = lists.each(name, (own, *args), words, lambda f, a, k: f(*a, **k))
        expected = getattr(torch, lists.PREFIX + name)(theirs, *args, **words)
        torch.testing.assert_close(found, theirs if name.endswith("_") else list(expected))
        torch.testing.assert_close(own, theirs)


class Averaged(nn.Module):
    """With an average of its weights that the forward pass makes."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6).double()
        self.slow = copy.deepcopy(self.layer).requires_grad_(False)

    def forward(self, x):
        pair = list(self.slow.parameters()), list(self.layer.parameters())
        with torch.no_grad():
            torch._foreach_lerp_(*pair, 0.1)
        scaled = torch._foreach_mul(pair[1], 2.0)
        return (self.layer(x) - self.slow(x) + sum(s.sum() for s in scaled)).square().mean()


def test_an_average_in_the_forward_pass():
    model = Averaged()
    twin = copy.deepcopy(model)
    sgd = [torch.optim.SGD(m.layer.parameters(), lr=0.01) for m in (model, twin)]
    batches = [
        torch.randn(4, 6, generator=torch.Generator().manual_seed(i)).double() for i in (0, 1)
    ]
    step = tandem.compile(model, lambda m, b: m(b), sgd[0], batches[0], mesh="data=2")
    train_beside(step, twin, lambda m, b: m(b), sgd[1], batches)
