"""Fails unless two files hold the same parameters, up to rounding in float32."""

import sys

from safetensors.torch import load_file

TOLERANCE = 1e-5

actual, expected = load_file(sys.argv[1]), load_file(sys.argv[2])
names = [name for name in expected if name.startswith("parameter/")]
if not names:
    sys.exit("no parameters to compare")
for name in names:
    difference = (actual[name] - expected[name]).abs().max().item()
    scale = expected[name].abs().max().item()
    if not difference <= TOLERANCE * scale:
        sys.exit(f"{name} differs by {difference}, expected at most {TOLERANCE * scale}")
