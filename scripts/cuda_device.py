"""The GPU of this machine, or the emulated one."""

import ctypes
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def has_gpu():
    """Whether NVIDIA's driver is here and finds a GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return (
        driver.cuInit(0) == 0
        and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
        and count.value > 0
    )


def choose_device():
    """The name of what runs it; the emulated GPU's libraries are named before any is loaded."""
    os.environ["TANDEM_SHARE_GPU"] = "1"
    if not os.environ.get("TANDEM_CUDA_LIBRARIES"):
        if has_gpu():
            return "the GPU"
        build = Path(os.environ.get("TANDEM_BUILD", ROOT / "build"))
        os.environ["TANDEM_CUDA_LIBRARIES"] = str(build / "emulator")
    return "the emulated GPU"
