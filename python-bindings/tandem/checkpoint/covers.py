"""Test that boxes cover a tensor, each element once."""

import secrets
from collections import defaultdict

_PRIME = 2**61 - 1


def is_cover(boxes, shape):
    """Whether boxes, pairs of offsets and extents, cover a tensor of this shape, none overlapping another, none beyond it.

    With a variable per dimension and coordinate, a box stands for the product over its dimensions of the end's less the
    begin's. Products of other unions of boxes are other polynomials, so the sum is that of the whole exactly if each
    element is covered once. Both are evaluated at a random point modulo a prime: they agree by chance with a probability of
    dimensions / 2^61 (Schwartz 1980, Zippel 1979). So many boxes cost a sum, and not all pairs of them.
    """
    at = defaultdict(lambda: secrets.randbelow(_PRIME))

    def stands_for(offsets, extents):
        product = 1
        for dim, (begin, extent) in enumerate(zip(offsets, extents, strict=True)):
            product = product * (at[dim, begin + extent] - at[dim, begin]) % _PRIME
        return product

    if not all(shape):
        return not any(all(extents) for _, extents in boxes)
    if any(len(offsets) != len(shape) for offsets, _ in boxes):
        return False
    total = sum(stands_for(*box) for box in boxes)
    return (total - stands_for((0,) * len(shape), shape)) % _PRIME == 0
