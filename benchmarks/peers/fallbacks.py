"""Bytes that gloo sends per collective, counted at the network interface, against the bytes needed."""

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

INTERFACE = os.environ.get("GLOO_SOCKET_IFNAME", "lo")
REPETITIONS = 3


def bytes_sent():
    """With headers and acknowledgements: about 4 % more than the payload."""
    return int(Path(f"/sys/class/net/{INTERFACE}/statistics/tx_bytes").read_text())


def _calls(total):
    """{name: (share of `total` that each process has to send, call)} of collectives on a tensor of `total` bytes."""
    size = dist.get_world_size()
    whole, part = torch.zeros(size, total // 4 // size), torch.zeros(total // 4 // size)
    mesh = init_device_mesh("cpu", (size,))
    rows = DTensor.from_local(torch.zeros(size, total // 4 // size // size), mesh, [Shard(0)])
    blocks, moved = part.clone(), torch.zeros_like(part)
    others = (size - 1) / size
    return {
        "all_reduce": (2 * others, lambda: dist.all_reduce(whole)),
        "all_gather_into_tensor": (
            others,
            lambda: dist.all_gather_into_tensor(whole.view(-1), part),
        ),
        "reduce_scatter_tensor": (others, lambda: dist.reduce_scatter_tensor(part, whole.view(-1))),
        "all_to_all_single": (others / size, lambda: dist.all_to_all_single(moved, blocks)),
        "DTensor, Shard(0) to Shard(1)": (
            others / size,
            lambda: rows.redistribute(placements=[Shard(1)]).to_local(),
        ),
    }


def measure(total):
    """{name: [bytes that rank 0 has sent, bytes that are needed]} per collective."""
    calls = _calls(total)
    found = {}
    for name, (share, call) in calls.items():
        call()
        dist.barrier()
        before = bytes_sent()
        for _ in range(REPETITIONS):
            call()
        dist.barrier()  # so that all of it is behind the interface
        found[name] = [(bytes_sent() - before) / REPETITIONS, share * total]
    return found
