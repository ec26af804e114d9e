// RUN: tandem-opt --tandem-place-buffers --tandem-verify-lowered --tandem-emit=output=%t.tdm -o /dev/null %s
// RUN: tandem-run %t.tdm --print | FileCheck %s

// A kernel that sums columns has a partial sum per thread in a scratch. It lies
// where %a was, so that the arena is as large as %a and %b together.
// CHECK: arena 0 in host 131072 bytes
// CHECK-NOT: arena 1
// CHECK: launch 'sum' {{.*}} workspace arena[0][
func.func @step(%x: memref<128x128xf32> {nn.name = "x", nn.role = #nn.role<input>, spmd.layout = tensor<128x128xf32>})
    -> (memref<128xf32> {nn.role = #nn.role<output>, spmd.layout = tensor<128xf32>}) {
  %r = sched.result 0 : memref<128xf32>
  %a = sched.alloc : memref<128x128xf32>
  sched.launch @exp(%x) into(%a) on compute stage 0 strand 0 {label = "exp", flops = 0, bytes = 0} : (memref<128x128xf32>) -> memref<128x128xf32>
  %b = sched.alloc : memref<128x128xf32>
  sched.launch @exp(%a) into(%b) on compute stage 0 strand 0 {label = "exp", flops = 0, bytes = 0} : (memref<128x128xf32>) -> memref<128x128xf32>
  %c = sched.alloc : memref<128xf32>
  sched.launch @sum(%b) into(%c) on compute stage 0 strand 0 {label = "sum", flops = 0, bytes = 0} : (memref<128x128xf32>) -> memref<128xf32>
  sched.copy %c into %r on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<128xf32> -> memref<128xf32>
  return %r : memref<128xf32>
}
func.func private @exp(%a: tensor<128x128xf32>) -> tensor<128x128xf32> attributes {sched.kernel} {
  %0 = nn.exp %a : (tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}
func.func private @sum(%a: tensor<128x128xf32>) -> tensor<128xf32> attributes {sched.kernel} {
  %0 = nn.sum %a {dims = array<i64: 0>} : (tensor<128x128xf32>) -> tensor<128xf32>
  return %0 : tensor<128xf32>
}
