"""Trains a model some steps in eager and by its captured step, and compares (contracts: *Comparing
with eager*).
"""

import contextlib
import copy
import os
import subprocess
from pathlib import Path

import tandem
import torch
from evaluator import run_step
from torch.nn.attention import SDPBackend, sdpa_kernel

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}


@contextlib.contextmanager
def eager(seed, step, calls):
    with sdpa_kernel(SDPBackend.MATH), tandem.random.replay(seed, step, calls):
        yield


def verify_text(text):
    """Lets the dialect's verifier read the text."""
    root = Path(__file__).resolve().parents[2]
    tool = Path(os.environ.get("TANDEM_BUILD", root / "build")) / "bin" / "tandem-opt"
    done = subprocess.run([tool, "-", "-o", os.devnull], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]


def largest(tensor):
    return tensor.abs().max().item() if tensor.numel() else 0.0


def check_gradients(found, expected, tolerance):
    overall = max((largest(g) for g in expected.values()), default=0.0)
    for name, gradient in expected.items():
        scale = max(largest(gradient), 1e-3 * overall)
        difference = largest(found[name].double() - gradient.double())
        assert difference <= tolerance * scale, f"gradient {name}: {difference:.3g} of {scale:.3g}"
    return 1e-3 * overall


def check_parameters(found, model, certain, tolerance, rate_times_steps):
    """`certain` says by name which elements are compared; all, where it does not."""
    for name, expected in model.named_parameters():
        difference = (found[name].double() - expected.detach().double()).abs()
        if name in certain:
            difference = difference[certain[name]]
        scale = max(largest(expected), rate_times_steps)
        assert largest(difference) <= tolerance * scale, (
            f"parameter {name}: {largest(difference):.3g} of {scale:.3g}"
        )


def compare(model, loss_fn, optimizer, batches, seed=5):
    """Raises AssertionError where captured and eager differ. Returns the StepModule."""
    before = copy.deepcopy(model.state_dict())
    module = tandem.export(model, loss_fn, optimizer, batches[0], gradients=True)
    verify_text(module.mlir)
    tolerance = TOLERANCE[module.precision]
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), f"export changed {name}"
    values = {key: tensor.clone() for key, tensor in module.values().items()} | {
        "seed/seed": torch.tensor(seed)
    }
    rate = max(group["lr"] for group in optimizer.param_groups)
    adam = not isinstance(optimizer, torch.optim.SGD)
    # Adam divides by what a gradient is: one that was rounding error has moved its element anywhere, for good.
    certain = {}
    for count, batch in enumerate(batches):
        start = int(values["step/step"])
        results = run_step(module.step, values | module.inputs(batch))
        with eager(seed, start, module.random_calls):
            optimizer.zero_grad(set_to_none=True)
            loss = loss_fn(model, batch)
            loss.backward()
        gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        optimizer.step()
        found = {r.name: tensor for r, tensor in results if r.role == "gradient"}
        assert set(found) == set(gradients)
        difference = abs(results[0][1].item() - loss.item())
        assert difference <= tolerance * max(1.0, abs(loss.item())), (
            f"loss at step {count}: {difference}"
        )
        floor = check_gradients(found, gradients, tolerance)
        if adam:
            for name, gradient in gradients.items():
                certain[name] = certain.get(name, True) & (gradient.abs() >= floor)
        for result, tensor in results:
            if result.updates is not None:
                values[module.arguments[result.updates].key] = tensor
        parameters = {
            key.partition("/")[2]: v for key, v in values.items() if key.startswith("parameter/")
        }
        check_parameters(parameters, model, certain, tolerance, rate * (count + 1))
        for name, buffer in model.named_buffers():
            if f"buffer/{name}" in values:
                torch.testing.assert_close(
                    values[f"buffer/{name}"], buffer, rtol=tolerance, atol=tolerance
                )
        assert int(values["step/step"]) == start + 1
    return module


def eager_step(model, loss_fn, optimizer, batch):
    """The loss of a step in eager."""
    optimizer.zero_grad()
    loss = loss_fn(model, batch)
    loss.backward()
    optimizer.step()
    return loss.detach()


def train_beside(step, model, loss_fn, optimizer, batches, rtol=1e-9, atol=1e-12):
    """Trains a step and its twin in eager: every loss is the same, and at the end every value."""
    for batch in batches:
        found = step(batch)
        expected = eager_step(model, loss_fn, optimizer, batch)
        torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)
    values = step.state_dict()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(values[name], value, rtol=rtol, atol=atol, msg=name)
