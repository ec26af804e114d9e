import collections
import math
import os
import signal
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
# With the compiled module, if it is built.
BUILT = Path(os.environ.get("TANDEM_BUILD", ROOT / "build")) / "python"
PACKAGE = BUILT if any(BUILT.glob("tandem/_tandem*")) else ROOT / "python-bindings"
for folder in (PACKAGE, Path(__file__).parent):
    sys.path.insert(0, str(folder))


# A cache and a secret of the tests' own, not the user's, for what they start as well.
os.environ["TANDEM_CACHE_DIR"] = os.environ.get(
    "TANDEM_TEST_CACHE_DIR", str(BUILT.parent / "test-cache")
)
os.environ["TANDEM_JOB_SECRET"] = "of the tests alone"


# What runs in the background of a shell without job control ignores Ctrl-C, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def one_thread():
    torch.manual_seed(0)
    torch.set_num_threads(1)


@pytest.fixture
def root():
    return ROOT


def pytest_addoption(parser):
    parser.addoption(
        "--every-case", action="store_true", help="with those that `sample` leaves out"
    )


def _spread(count, most):
    """Indices below `count`, `most` of them, that change along every axis of a product of cases."""
    step = next(step for step in range(int(0.618 * count), count) if math.gcd(step, count) == 1)
    return {index * step % count for index in range(most)}


def pytest_collection_modifyitems(config, items):
    """`sample(N)` takes N cases of a test, and all of them with --every-case, as `make verify` does."""
    if config.getoption("--every-case"):
        return
    cases = collections.defaultdict(list)
    for item in items:
        if mark := item.get_closest_marker("sample"):
            cases[item.function, mark.args[0]].append(item)
    left = set()
    for (_, most), family in cases.items():
        # A case that is named alone is run.
        if len(family) > most:
            taken = _spread(len(family), most)
            left.update(item for index, item in enumerate(family) if index not in taken)
    config.hook.pytest_deselected(items=list(left))
    items[:] = [item for item in items if item not in left]
