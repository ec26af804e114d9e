"""Prints a module of random chains of reforms on a random mesh.

Each chain takes an input through random forms on all axes; its value stays the
same, whatever the stages make of it.
"""

import random
import sys

SHAPE = (24, 36)


def random_mesh(rng):
    space = [(f"s{i}", rng.choice([1, 2, 3])) for i in range(rng.randint(1, 2))]
    time = [(f"t{i}", rng.choice([2, 3])) for i in range(rng.randint(0, 2))]
    return space, time


def is_divisible(forms, axes):
    parts = [1] * len(SHAPE)
    for form, (_, size) in zip(forms, axes):
        if isinstance(form, int):
            parts[form] *= size
    return all(size % part == 0 for size, part in zip(SHAPE, parts))


def random_forms(rng, axes, with_reduce):
    choices = ["full", 0, 1] + (["reduce"] if with_reduce else [])
    while True:
        forms = [rng.choice(choices) for _ in axes]
        if is_divisible(forms, axes):
            return forms


def to_type(forms, axes):
    named = [
        f"{name}: {'reduce' if form == 'reduce' else f'gather({form})'}"
        for form, (name, _) in zip(forms, axes)
        if form != "full"
    ]
    shape = "x".join(map(str, SHAPE))
    form = f", #spmd.form<#mesh, {', '.join(named)}>" if named else ""
    return f"tensor<{shape}xf64{form}>"


def main(seed):
    rng = random.Random(seed)
    space, time = random_mesh(rng)
    axes = space + time
    mesh = [f"{name} = {size}" for name, size in space]
    mesh += [f"time {name} = {size}" for name, size in time]
    chains = []
    for _ in range(10):
        inner = [random_forms(rng, axes, True) for _ in range(rng.randint(1, 3))]
        ends = [random_forms(rng, axes, False) for _ in range(2)]
        chains.append([to_type(forms, axes) for forms in [ends[0], *inner, ends[1]]])
    arguments = ", ".join(
        f'%x{i}: {chain[0]} {{nn.role = #nn.role<input>, nn.name = "x{i}"}}'
        for i, chain in enumerate(chains)
    )
    results = ", ".join(f'{chain[-1]} {{nn.role = #nn.role<gradient>}}' for chain in chains)
    print(f"#mesh = #spmd.mesh<{', '.join(mesh)}>")
    print("module attributes {spmd.mesh = #mesh} {")
    print(f"  func.func @step({arguments}) -> ({results}) {{")
    returned = []
    for i, chain in enumerate(chains):
        value = f"%x{i}"
        for j, (before, after) in enumerate(zip(chain, chain[1:])):
            if before == after:
                continue
            print(f"    %v{i}_{j} = spmd.reform {value} {{nn.pass = #nn.pass<forward>}} : {before} -> {after}")
            value = f"%v{i}_{j}"
        returned.append(value)
    types = ", ".join(chain[-1] for chain in chains)
    print(f"    return {', '.join(returned)} : {types}\n  }}\n}}")


main(int(sys.argv[1]))
