"""many_updates.py COUNT: a step for a GPU that updates so many parameters, by launches of three buffers."""

import sys

TYPE, FLAT = "memref<8xf32>", "tensor<8xf32>"
names = [f"%p{i}" for i in range(int(sys.argv[1]))]
print("module attributes {sched.device = #sched.device<cuda>} {")
print(f"func.func @step({', '.join(f'{name}: {TYPE}' for name in [*names, '%g'])}) {{")
for name in names:
    print(f"  sched.launch @sub({name}, %g) into({name}) on compute stage 0 strand 0")
    print(f'    {{label = "", flops = 0, bytes = 0}} : ({TYPE}, {TYPE}) -> {TYPE}')
print("  return\n}")
print(f"func.func private @sub(%x: {FLAT}, %y: {FLAT}) -> {FLAT} attributes {{sched.kernel}} {{")
print(f"  %0 = nn.sub %x, %y : ({FLAT}, {FLAT}) -> {FLAT}")
print(f"  return %0 : {FLAT}\n}}\n}}")
