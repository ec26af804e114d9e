"""Prints a chain of products of (sequence, batch, width): `sort-rows-deep.py LAYERS`."""

import sys

layers = int(sys.argv[1])
lines = [
    "func.func @f(%x0: tensor<6x16x4xf32> {nn.batch_dim = 1}, %w: tensor<4x4xf32>) -> tensor<6x16x4xf32> {"
]
at = ' {nn.pass = #nn.pass<forward>} : '
for i in range(layers):
    lines += [
        f"  %a{i} = nn.reshape %x{i}{at}(tensor<6x16x4xf32>) -> tensor<96x4xf32>",
        f"  %b{i} = nn.matmul %a{i}, %w{at}(tensor<96x4xf32>, tensor<4x4xf32>) -> tensor<96x4xf32>",
        f"  %c{i} = nn.reshape %b{i}{at}(tensor<96x4xf32>) -> tensor<6x16x4xf32>",
        f"  %x{i + 1} = nn.exp %c{i}{at}(tensor<6x16x4xf32>) -> tensor<6x16x4xf32>",
    ]
print("\n".join([*lines, f"  return %x{layers} : tensor<6x16x4xf32>", "}"]))
