"""The cases of `make zoo`: small models of public zoos, from `zoo_models.json`.

An entry has a constructor (a dotted name with `args` and `sizes`), `inputs` by position or name (kinds of
`make_tensor`; the leading dimension is the batch), and `constants`, which are made once. An argument with `make` has a
constructor of its own.
"""

import importlib
import json
from pathlib import Path

import torch
from coverage_cases import Case, floating_tensors, make_tensor

MODELS = Path(__file__).with_name("zoo_models.json")
_LIBRARIES = []


def stand_in_for_torchvision():
    """Declares operators of torchvision's compiled part, which is for CUDA's build of torch: what does not call them imports."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _LIBRARIES.append(library)  # which ends with its last reference


def _find(name):
    """Of `package.module.Class.method`; functions of this file have no dot."""
    if "." not in name:
        return globals()[name]
    parts = name.split(".")
    found = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], 2):
        if not hasattr(found, part):
            importlib.import_module(".".join(parts[:i]))
        found = getattr(found, part)
    return found


def _make(entry):
    if isinstance(entry, list):
        return [_make(value) for value in entry]
    if not isinstance(entry, dict) or "make" not in entry:
        return entry
    args = [_make(value) for value in entry.get("args", ())]
    sizes = {name: _make(value) for name, value in entry.get("sizes", {}).items()}
    return _find(entry["make"])(*args, **sizes)


def recommender(name):
    """Of DeepCTR-Torch, with two sparse features and a dense one."""
    inputs = importlib.import_module("deepctr_torch.inputs")
    columns = [inputs.SparseFeat(f"s{i}", 8, embedding_dim=4) for i in range(2)]
    columns.append(inputs.DenseFeat("d", 1))
    return _find(f"deepctr_torch.models.{name}")(columns, columns, device="cpu")


class _Process(torch.nn.Module):
    def __init__(self):
        super().__init__()
        gpytorch = importlib.import_module("gpytorch")
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()

    def forward(self, x, y):
        """The log likelihood of y, by the Cholesky factor of its covariance."""
        covariance = self.kernel(x).to_dense() + self.likelihood.noise * torch.eye(x.shape[0])
        mean = self.mean(x)
        normal = torch.distributions.MultivariateNormal(mean, covariance)
        return -normal.log_prob(y) / x.shape[0]


def adapted(model, kind="LoraConfig", **options):
    peft = importlib.import_module("peft")
    return peft.get_peft_model(model, getattr(peft, kind)(**options))


class Zoo(Case):
    def __init__(self, name, described):
        super().__init__(name)
        self.described = described
        generator = torch.Generator().manual_seed(1)
        self.constants = {
            n: make_tensor(kind, generator) for n, kind in described.get("constants", {}).items()
        }

    def new_model(self):
        return _make(self.described)

    def batch(self, generator):
        inputs = self.described["inputs"]
        if isinstance(inputs, list):
            return tuple(make_tensor(kind, generator) for kind in inputs)
        return {name: make_tensor(kind, generator) for name, kind in inputs.items()}

    def loss(self, model, batch):
        named = isinstance(batch, dict)
        outputs = model(*(() if named else batch), **(batch if named else {}), **self.constants)
        return sum(t.square().mean() for t in floating_tensors(outputs))


def all_cases():
    """{name: case}."""
    return {name: Zoo(name, entry) for name, entry in json.loads(MODELS.read_text()).items()}
