// RUN: tandem-opt --tandem-place-buffers --tandem-verify-lowered --split-input-file %s | FileCheck %s

// On one queue the third buffer takes the place of the first.
// CHECK: module attributes {sched.arena = 128 : i64}
// CHECK: %[[A:.*]] = sched.alloc at 0
// CHECK: %[[B:.*]] = sched.alloc at 64
// CHECK: %[[C:.*]] = sched.alloc at 0
func.func @step(%x: memref<16xf32> {nn.name = "x", nn.role = #nn.role<input>, spmd.layout = tensor<16xf32>})
    -> (memref<16xf32> {nn.role = #nn.role<output>, spmd.layout = tensor<16xf32>}) {
  %r = sched.result 0 : memref<16xf32>
  %a = sched.alloc : memref<16xf32>
  sched.launch @exp(%x) into(%a) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<16xf32>) -> memref<16xf32>
  %b = sched.alloc : memref<16xf32>
  sched.launch @exp(%a) into(%b) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<16xf32>) -> memref<16xf32>
  %c = sched.alloc : memref<16xf32>
  sched.launch @exp(%b) into(%c) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<16xf32>) -> memref<16xf32>
  sched.copy %c into %r on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<16xf32> -> memref<16xf32>
  return %r : memref<16xf32>
}
func.func private @exp(%a: tensor<16xf32>) -> tensor<16xf32> attributes {sched.kernel} {
  %0 = nn.exp %a : (tensor<16xf32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

// -----

// The collective may still read %a while %c is written: only after its event
// may the bytes be used again, by %d.
// CHECK: module attributes {sched.arena = 192 : i64, spmd.mesh = #mesh}
// CHECK: %[[A:.*]] = sched.alloc at 0
// CHECK: %[[B:.*]] = sched.alloc at 64
// CHECK: %[[C:.*]] = sched.alloc at 128
// CHECK: %[[D:.*]] = sched.alloc at 0
module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
func.func @step(%x: memref<16xf32> {nn.name = "x", nn.role = #nn.role<input>, spmd.layout = tensor<16xf32>})
    -> (memref<16xf32> {nn.role = #nn.role<output>, spmd.layout = tensor<16xf32>}) {
  %r = sched.result 0 : memref<16xf32>
  %a = sched.alloc : memref<16xf32>
  %b = sched.alloc : memref<16xf32>
  %c = sched.alloc : memref<16xf32>
  %d = sched.alloc : memref<16xf32>
  sched.launch @exp(%x) into(%a) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<16xf32>) -> memref<16xf32>
  %e = sched.record compute
  sched.wait comm for %e
  sched.collective all_reduce %a into %b over ["data"] on comm stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<16xf32> -> memref<16xf32>
  %f = sched.record comm
  sched.launch @exp(%x) into(%c) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<16xf32>) -> memref<16xf32>
  sched.wait compute for %f
  sched.launch @add(%b, %c) into(%d) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<16xf32>, memref<16xf32>) -> memref<16xf32>
  sched.copy %d into %r on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<16xf32> -> memref<16xf32>
  return %r : memref<16xf32>
}
func.func private @exp(%a: tensor<16xf32>) -> tensor<16xf32> attributes {sched.kernel} {
  %0 = nn.exp %a : (tensor<16xf32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}
func.func private @add(%a: tensor<16xf32>, %b: tensor<16xf32>) -> tensor<16xf32> attributes {sched.kernel} {
  %0 = nn.add %a, %b : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}
}

// -----

// A workspace is the command's own while it runs, and anybody's before and
// behind it: %a lies where it was.
// CHECK: module attributes {sched.arena = 192 : i64}
// CHECK: %[[W:.*]] = sched.alloc at 0 : memref<100xi8>
// CHECK: %[[C:.*]] = sched.alloc at 128 : memref<4x4xf32>
// CHECK: %[[A:.*]] = sched.alloc at 0 : memref<4x4xf32>
func.func @step(%x: memref<4x4xf32> {nn.name = "x", nn.role = #nn.role<input>, spmd.layout = tensor<4x4xf32>})
    -> (memref<4x4xf32> {nn.role = #nn.role<output>, spmd.layout = tensor<4x4xf32>}) {
  %r = sched.result 0 : memref<4x4xf32>
  %w = sched.alloc : memref<100xi8>
  %c = sched.alloc : memref<4x4xf32>
  sched.gemm %x, %x into %c workspace %w on compute stage 0 strand 0 {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, label = "", flops = 0, bytes = 0} : memref<4x4xf32>, memref<4x4xf32> into memref<4x4xf32> workspace memref<100xi8>
  %a = sched.alloc : memref<4x4xf32>
  sched.gemm %c, %c into %a on compute stage 0 strand 0 {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, label = "", flops = 0, bytes = 0} : memref<4x4xf32>, memref<4x4xf32> into memref<4x4xf32>
  sched.copy %a into %r on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<4x4xf32> -> memref<4x4xf32>
  return %r : memref<4x4xf32>
}
