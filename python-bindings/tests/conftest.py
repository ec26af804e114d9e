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
