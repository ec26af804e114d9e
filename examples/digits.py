"""A convolution network on scikit-learn's digits, on a mesh and beside it in PyTorch eager: accuracy on digits not seen.

python examples/digits.py --mesh data=4
"""

import argparse
import copy

import tandem
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EXPECTED = 0.97  # of the test digits are told right


def make_model(width=32):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, 10),
    )


def load_data(test=360):
    """Images (n, 1, 8, 8) in [0, 1] with labels: for training, and `test` others."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(data.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    images, labels = images[order], labels[order]
    return TensorDataset(images[test:], labels[test:]), (images[:test], labels[:test])


def loss_fn(model, batch):
    images, labels = batch
    scores = model(images)
    return {"loss": F.cross_entropy(scores, labels), "right": (scores.argmax(1) == labels).sum()}


def make_optimizer(model, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)


def make_loader(data, batch):
    """The same batches in the same order each time it is made; the rows that are left over are left out."""
    generator = torch.Generator().manual_seed(1)
    return DataLoader(data, batch, shuffle=True, drop_last=True, generator=generator)


def train_eager(model, data, test, options):
    loader = make_loader(data, options.batch)
    optimizer, scheduler = make_optimizer(model, options.epochs * len(loader))
    for _ in range(options.epochs):
        for batch in loader:
            optimizer.zero_grad()
            loss_fn(model, batch)["loss"].backward()
            optimizer.step()
            scheduler.step()
    with torch.no_grad():
        return loss_fn(model.eval(), test)["right"].item() / len(test[1])


def train_tandem(model, data, test, options):
    loader = make_loader(data, options.batch)
    optimizer, scheduler = make_optimizer(model, options.epochs * len(loader))
    example = tuple(tensor[: options.batch] for tensor in data.tensors)
    step = tandem.compile(
        model,
        loss_fn,
        optimizer,
        example,
        mesh=options.mesh,
        plan=options.plan,
        micro=options.micro,
    )
    for epoch in range(1, options.epochs + 1):
        for batch in loader:
            result = step(batch)
            scheduler.step()
        print(f"epoch {epoch} loss {result['loss'].item():.4f}", flush=True)
    return step.evaluate(test)["right"].item() / len(test[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mesh", default="data=2")
    parser.add_argument("--plan", default="data-parallel")
    parser.add_argument("--micro", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = make_model()
    data, test = load_data()
    found = train_tandem(copy.deepcopy(model), data, test, options)
    eager = train_eager(model, data, test, options)
    print(f"accuracy {found:.2%}, eager {eager:.2%}")
    if found < EXPECTED:
        raise SystemExit(f"accuracy is {found:.2%}, expected at least {EXPECTED:.0%}")


if __name__ == "__main__":
    main()
