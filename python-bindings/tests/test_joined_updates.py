"""Many parameters are updated by few launches, which read what was sent together where it lies, and copy nothing."""

import matrix
import pytest
import torch
from tandem import _tandem, export
from tandem.capture.model_file import load_model_file
from test_models import mse, regression
from test_optimizers import TRACED
from torch import nn

OPTIMIZERS = TRACED | {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1),
}


def commands_of_updates(compiled):
    """The commands behind the check."""
    commands = list(_tandem.Program.load(compiled.bytes).rank_programs[0].commands)
    kinds = [command.kind for command in commands]
    return commands[kinds.index("check_finite") + 1 :]


def count(commands, kind):
    return sum(command.kind == kind for command in commands)


def compile_layers(make_optimizer, depth):
    model = nn.Sequential(*(nn.Linear(6, 6) for _ in range(depth)), nn.Linear(6, 1)).double()
    module = export(model, mse, make_optimizer(model.parameters()), regression(1)[0])
    return matrix.compile_module(module)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_launches_do_not_grow_with_the_layers(name):
    """Copies are numbers that many parameters share (ASGD), means over rows (Adafactor), and what is chosen of the
    ways of a first step and of later ones (Rprop).
    """
    few, many = (commands_of_updates(compile_layers(OPTIMIZERS[name], depth)) for depth in (2, 6))
    assert count(few, "launch") == count(many, "launch") <= 5
    if name not in ("asgd", "rprop") and not name.startswith("adafactor"):
        assert count(many, "copy") == 0


@pytest.mark.parametrize("plan", ["data-parallel", "zero"])
@pytest.mark.parametrize("name", ["gpt", "bert_moe"])
def test_sent_together_and_read_where_it_lies(name, plan):
    """One launch for each stage and event that updates wait for, two for their numbers, and no copy."""
    file = load_model_file(matrix.EXAMPLES / f"{name}.py", None, "", "float32")
    model = file.make_model(meta=True)
    module = export(model, file.loss, file.make_optimizer(model), file.batches(1)[0])
    commands = commands_of_updates(matrix.compile_module(module, mesh="data=2", plan=plan))
    waits, turns = 0, set()
    for command in commands:
        waits += command.kind == "wait_event"
        if command.kind == "launch":
            turns.add((command.stage, waits))
    assert count(commands, "copy") == 0
    assert count(commands, "launch") <= len(turns) + 2
