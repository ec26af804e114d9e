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


# What runs in the background of a shell without job control ignores Ctrl-C, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def one_thread():
    torch.manual_seed(0)
    torch.set_num_threads(1)


@pytest.fixture
def root():
    return ROOT
