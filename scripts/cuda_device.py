"""The GPU of this machine, or the emulated one."""

import ctypes
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


EMULATED_GPUS = 8


def count_gpus():
    """Those of the device that choose_device() has chosen, here or in the process that has started this one."""
    if os.environ.get("TANDEM_CUDA_LIBRARIES"):
        return int(os.environ.get("TANDEM_EMULATED_GPUS", 1))
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return 0
    return count.value


def choose_device():
    """The name of what runs it; the emulated GPU's libraries are named before any is loaded."""
    os.environ["TANDEM_SHARE_GPU"] = "1"
    if not os.environ.get("TANDEM_CUDA_LIBRARIES"):
        if count_gpus():
            return "the GPU"
        build = Path(os.environ.get("TANDEM_BUILD", ROOT / "build"))
        os.environ["TANDEM_CUDA_LIBRARIES"] = str(build / "emulator")
        os.environ.setdefault("TANDEM_EMULATED_GPUS", str(EMULATED_GPUS))
    return "the emulated GPU"
