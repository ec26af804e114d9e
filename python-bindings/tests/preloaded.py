"""What a server of forks has loaded: PyTorch loads a good part of itself when a step is captured."""

import sklearn.datasets  # noqa: F401 - of the examples
import tandem
import torch

torch.set_num_threads(1)
_model = torch.nn.Linear(2, 2)
tandem.export(
    _model,
    lambda model, batch: model(batch).square().mean(),
    torch.optim.SGD(_model.parameters(), lr=0.1),
    torch.ones(2, 2),
)
