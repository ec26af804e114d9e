"""Resampling of images and volumes, where PyTorch has no formula (definitions.py)."""

import functools
import itertools
import math

import torch

# ---- Smaller, without aliases


def _triangle(x):
    return (1 - x.abs()).clamp(min=0)


def _cubic(x):
    """Keys' kernel with a = -1/2, as Pillow has it."""
    x = x.abs()
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x < 1, near, torch.where(x < 2, far, 0.0))


# What weighs, and up to which distance.
_KERNELS = {"bilinear": (_triangle, 1), "bicubic": (_cubic, 2)}


def _weights(kernel, size, count, align_corners, factor):
    """[count, size]: what each of `count` places takes of `size`."""
    weigh, reach = _KERNELS[kernel]
    if align_corners:
        scale = (size - 1) / (count - 1) if count > 1 else 0.0
    else:
        scale = size / count if factor is None else 1 / factor
    wide = max(scale, 1.0)
    weights = torch.zeros(count, size, dtype=torch.float64)
    for i in range(count):
        center = scale * (i + 0.5)
        begin = max(int(center - reach * wide + 0.5), 0)
        end = min(int(center + reach * wide + 0.5), size)
        places = torch.arange(begin, end, dtype=torch.float64)
        row = weigh((places - center + 0.5) / wide)
        weights[i, begin:end] = row / row.sum()
    return weights


def resize(kernel, x, size, align_corners, factors=None):
    """A product per dimension."""
    if size is None:
        size = [int(x.shape[2 + d] * factors[d]) for d in range(2)]
    factors = factors or (None, None)
    for d in (1, 0):
        table = _weights(kernel, x.shape[2 + d], size[d], align_corners, factors[d])
        table = torch.tensor(table.t().tolist(), dtype=x.dtype)
        x = x @ table if d else (x.transpose(-1, -2) @ table).transpose(-1, -2)
    return x


# What F.interpolate calls in torch._C._nn.
RESIZING = {
    "_upsample_bilinear2d_aa": functools.partial(resize, "bilinear"),
    "_upsample_bicubic2d_aa": functools.partial(resize, "bicubic"),
}


# ---- Volumes at places of a grid


def _reflect(x, low, high):
    """Places beyond [low, high], at the border again and again."""
    if low == high:
        return torch.zeros_like(x)
    span = high - low
    away = (x - low).abs()
    flips = (away / span).floor()
    rest = away - flips * span
    return torch.where(flips % 2 == 0, rest + low, high - rest)


def _place(x, size, padding, align_corners):
    """From [-1, 1] to places of voxels."""
    x = (x + 1) / 2 * (size - 1) if align_corners else ((x + 1) * size - 1) / 2
    if padding == "reflection":
        bounds = (0, size - 1) if align_corners else (-0.5, size - 0.5)
        x = _reflect(x, *bounds)
    return x if padding == "zeros" else x.clamp(0, size - 1)


def held_at_edges(grid, sizes, padding, align_corners):
    """A grid that has no gradient where a place is at the edge, or moved there, as PyTorch defines it. `sizes` are those of the
    grid's last dimension.
    """
    if padding == "zeros":
        return grid
    held = []
    for x, size in zip(grid.unbind(-1), sizes, strict=True):
        place = _place(x.detach(), size, padding, align_corners)
        held.append(torch.where((place <= 0) | (place >= size - 1), x.detach(), x))
    return torch.stack(held, -1)


def sample_volumes(x, grid, mode, padding, align_corners):
    """`F.grid_sample` of [n, c, depth, height, width]; a sum over the eight voxels round each place, or the nearest."""
    sizes = x.shape[2:]
    # The grid has width, height, depth.
    places = [_place(grid[..., 2 - d], sizes[d], padding, align_corners) for d in range(3)]
    flat = x.flatten(2)

    def voxels(corner):
        inside = torch.ones(grid.shape[:-1], dtype=torch.bool)
        index = torch.zeros(grid.shape[:-1], dtype=torch.int64)
        for at, size in zip(corner, sizes, strict=True):
            inside = inside & (at >= 0) & (at < size)
            index = index * size + at.clamp(0, size - 1).to(torch.int64)
        chosen = flat.gather(2, index.flatten(1)[:, None].expand(-1, x.shape[1], -1))
        chosen = chosen.reshape(*x.shape[:2], *grid.shape[1:-1])
        return torch.where(inside[:, None], chosen, 0.0)

    if mode == "nearest":
        return voxels([place.detach().round() for place in places])
    lower = [place.detach().floor() for place in places]
    shares = [(1 - (place - low), place - low) for place, low in zip(places, lower, strict=True)]
    total = None
    for steps in itertools.product((0, 1), repeat=3):
        corner = [low + step for low, step in zip(lower, steps, strict=True)]
        weight = math.prod(share[step] for share, step in zip(shares, steps, strict=True))
        term = voxels(corner) * weight[:, None]
        total = term if total is None else total + term
    return total
