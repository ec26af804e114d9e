import os
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


@pytest.fixture(autouse=True)
def one_thread():
    torch.manual_seed(0)
    torch.set_num_threads(1)


@pytest.fixture
def root():
    return ROOT
