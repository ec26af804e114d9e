"""The cases of `make coverage`: models, batches and losses.

The list is fixed in `coverage_models.json` (models of transformers) and `coverage_layers.py` (torch.nn). A case has the
attributes of a model file that `tandem.verify` reads.
"""

import json
from pathlib import Path

import torch

MODELS = Path(__file__).with_name("coverage_models.json")
_RATE = 1e-3


def make_tensor(kind, generator):
    """A tensor of a batch, of its description: `["normal", 8, 16]`."""
    name, *sizes = kind
    if name == "normal":
        return torch.randn(sizes, generator=generator, dtype=torch.float64)
    if name == "uniform":
        return torch.rand(sizes, generator=generator, dtype=torch.float64)
    if name == "integers":  # below the first number
        return torch.randint(sizes[0], sizes[1:], generator=generator)
    if name == "columns":  # two of integers below the first number, one of real numbers
        integers = torch.randint(sizes[0], (*sizes[1:], 2), generator=generator)
        real = torch.rand((*sizes[1:], 1), generator=generator, dtype=torch.float64)
        return torch.cat([integers.to(torch.float64), real], -1)
    if name == "few":  # labels, most of them -100
        labels = torch.randint(sizes[0], sizes[1:], generator=generator)
        kept = torch.rand(sizes[1:], generator=generator) < 0.2
        kept[..., 0] = True
        return torch.where(kept, labels, -100)
    if name == "padding":  # ones, and zeros at the end of some rows
        rows, length = sizes
        ends = torch.randint(length // 2, length + 1, (rows, 1), generator=generator)
        ends[0] = length
        return (torch.arange(length) < ends).to(torch.int64)
    if name == "ones":
        return torch.ones(sizes, dtype=torch.int64)
    if name == "bools":
        return torch.rand(sizes, generator=generator) < 0.5
    raise ValueError(f"unknown kind {name!r}")


def _single(leaf):
    return leaf.float() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf


class Case:
    """`make_model`, `make_optimizer`, `loss` and `batches`, as `tandem.verify` calls them; all in float64."""

    dtype, precision, path = torch.float64, None, None

    def __init__(self, name):
        self.name = name

    def make_model(self, seed=0):
        torch.manual_seed(seed)
        return self.new_model().to(self.dtype).train()

    def make_optimizer(self, model):
        return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=_RATE)

    def in_eager(self):
        """One step in float32, as people train. Raises what eager raises, and ValueError for a loss that is not finite."""
        model = self.make_model().float()
        optimizer = self.make_optimizer(model)
        loss = self.loss(model, torch.utils._pytree.tree_map(_single, self.batches(1)[0]))
        loss.backward()
        optimizer.step()
        if not torch.isfinite(loss):
            raise ValueError(f"the loss is {loss.item()}")

    def batches(self, count):
        return [self.batch(torch.Generator().manual_seed(100 + number)) for number in range(count)]


class Model(Case):
    """Of transformers; `described` is an entry of the list."""

    def __init__(self, name, described):
        super().__init__(name)
        self.described = described

    def new_model(self):
        import transformers

        config = getattr(transformers, self.described["config"])(**self.described["sizes"])
        return getattr(transformers, self.described["class"])(config)

    def batch(self, generator):
        return {name: make_tensor(k, generator) for name, k in self.described["batch"].items()}

    def loss(self, model, batch):
        return _LOSSES[self.described["loss"]](model(**batch))


def floating_tensors(outputs):
    """The floating-point tensors among outputs."""
    if isinstance(outputs, torch.Tensor):
        return [outputs] if outputs.is_floating_point() else []
    values = outputs.values() if hasattr(outputs, "values") else outputs
    if not isinstance(outputs, (list, tuple)) and not hasattr(outputs, "values"):
        return []
    return [tensor for value in values for tensor in floating_tensors(value)]


def _contrast(outputs):
    """As CLIP is trained: each image belongs to the text of its row."""
    scores = outputs.logits_per_image
    rows = torch.arange(scores.shape[0])
    return torch.nn.functional.cross_entropy(scores, rows)


_LOSSES = {
    "loss": lambda outputs: outputs.loss,
    "square": lambda outputs: floating_tensors(outputs)[0].square().mean(),
    "maps": lambda outputs: sum(t.square().mean() for t in floating_tensors(outputs)),
    "contrast": _contrast,
}


class _Gained(torch.nn.Module):
    """What a case of torch.nn trains: its own parameters, and factors of its floating-point inputs, so that gradients of these
    are seen.
    """

    def __init__(self, function, inputs):
        super().__init__()
        self.function = function
        self.gains = torch.nn.ParameterList(
            torch.nn.Parameter(1 + 0.1 * torch.rand(t.shape[1:]))
            for t in inputs
            if t.is_floating_point()
        )

    def forward(self, *inputs):
        gains = iter(self.gains)
        return self.function(*(t * next(gains) if t.is_floating_point() else t for t in inputs))


class Layer(Case):
    """Of torch.nn: `make` gives a module or a function of tensors of the `kinds`."""

    def __init__(self, name, make, kinds):
        super().__init__(name)
        self.make, self.kinds = make, kinds

    def new_model(self):
        return _Gained(self.make(), self.batch(torch.Generator().manual_seed(0)))

    def batch(self, generator):
        return tuple(make_tensor(kind, generator) for kind in self.kinds)

    def loss(self, model, batch):
        return sum(t.square().mean() for t in floating_tensors(model(*batch)))


def all_cases():
    """{name: case}."""
    from coverage_layers import LAYERS

    models = json.loads(MODELS.read_text())
    cases = {f"transformers.{name}": Model(name, entry) for name, entry in models.items()}
    return cases | {f"torch.{name}": Layer(name, *entry) for name, entry in LAYERS.items()}
