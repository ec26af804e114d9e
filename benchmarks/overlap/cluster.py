"""Cluster files of a test bed: measured links, given devices."""

import re

# Computation is timed, so that any device will do; that of a step of the models here takes about as long as its
# communication at 1 Gbit/s. `scale` makes all of it slower.
RATE, MEMORY, OVERHEAD = 100e9, 20e9, 5e-6


def format_devices(scale=1.0):
    return f"""kinds:
  host:
    rates: {{f32: {RATE / scale / 1e9:.6g} GFLOP/s}}
    memory: {{size: 4 GiB, bandwidth: {MEMORY / scale / 1e9:.6g} GB/s}}
    overhead: {OVERHEAD * scale * 1e6:.6g} us
"""


def write_devices(path, hosts):
    """A file of which tandem-profile takes the devices; its link is not used."""
    path.write_text(
        f"name: devices\n{format_devices()}nodes:\n  - {{count: {hosts}, devices: {{host: 1}}}}\n"
        "link:\n  network: {latency: 100 us, bandwidth: 1 Gbit/s, per: node}\n"
    )
    return path


def write_scaled(profile, path, scale):
    """The cluster of a profile with devices so many times as slow."""
    text, count = re.subn(
        r"^kinds:\n(?:  .*\n)*", lambda _: format_devices(scale), profile.read_text(), flags=re.M
    )
    if count != 1:
        raise ValueError(f"{profile}: found 'kinds:' {count} times, expected it once")
    path.write_text(text)
    return path
