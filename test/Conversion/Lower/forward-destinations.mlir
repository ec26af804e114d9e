// RUN: tandem-opt --tandem-forward-destinations --split-input-file %s | FileCheck %s

// After the check of the loss and after the other reader, the update is written
// over the parameter.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:.*]]: memref<8xf32>, %[[G:.*]]: memref<8xf32>, %[[LOSS:.*]]: memref<f32>)
// CHECK-NOT: sched.alloc
// CHECK: sched.check finite
// CHECK: sched.launch @sub(%[[W]], %[[G]]) into(%[[W]])
// CHECK-NOT: sched.copy
func.func @step(%w: memref<8xf32>, %g: memref<8xf32>, %loss: memref<f32>) -> memref<8xf32> {
  sched.check finite "loss" %loss on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<f32>
  %0 = sched.alloc : memref<8xf32>
  sched.launch @sub(%w, %g) into(%0) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<8xf32>) -> memref<8xf32>
  sched.copy %0 into %w on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<8xf32> -> memref<8xf32>
  return %w : memref<8xf32>
}
func.func private @sub(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> attributes {sched.kernel} {
  %0 = nn.sub %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Before the check of the loss an argument is not written.
// CHECK-LABEL: func.func @step
// CHECK: sched.alloc
// CHECK: sched.check finite
// CHECK: sched.copy
func.func @step(%w: memref<8xf32>, %g: memref<8xf32>, %loss: memref<f32>) -> memref<8xf32> {
  %0 = sched.alloc : memref<8xf32>
  sched.launch @sub(%w, %g) into(%0) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<8xf32>) -> memref<8xf32>
  sched.check finite "loss" %loss on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<f32>
  sched.copy %0 into %w on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<8xf32> -> memref<8xf32>
  return %w : memref<8xf32>
}
func.func private @sub(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> attributes {sched.kernel} {
  %0 = nn.sub %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// A later command, and one of the other queue that no event orders, still read
// the old value.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-2: sched.copy
module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
func.func @step(%w: memref<8xf32>, %v: memref<8xf32>, %g: memref<8xf32>) -> (memref<8xf32>, memref<8xf32>) {
  %0 = sched.alloc : memref<8xf32>
  %1 = sched.alloc : memref<8xf32>
  %2 = sched.alloc : memref<8xf32>
  %3 = sched.alloc : memref<8xf32>
  sched.launch @sub(%w, %g) into(%0) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<8xf32>) -> memref<8xf32>
  sched.launch @sub(%w, %g) into(%1) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<8xf32>) -> memref<8xf32>
  sched.launch @sub(%v, %g) into(%2) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<8xf32>) -> memref<8xf32>
  sched.collective all_reduce %v into %3 over ["data"] on comm stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<8xf32> -> memref<8xf32>
  %e = sched.record comm
  sched.wait compute for %e
  sched.copy %0 into %w on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<8xf32> -> memref<8xf32>
  sched.copy %2 into %v on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<8xf32> -> memref<8xf32>
  return %w, %v : memref<8xf32>, memref<8xf32>
}
func.func private @sub(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> attributes {sched.kernel} {
  %0 = nn.sub %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
}

// -----

// A product reads its operands more than once: it never writes over one.
// CHECK-LABEL: func.func @step
// CHECK: sched.copy
func.func @step(%w: memref<4x4xf32>) -> memref<4x4xf32> {
  %0 = sched.alloc : memref<4x4xf32>
  sched.gemm %w, %w into %0 on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0, batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>} : memref<4x4xf32>, memref<4x4xf32> into memref<4x4xf32>
  sched.copy %0 into %w on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<4x4xf32> -> memref<4x4xf32>
  return %w : memref<4x4xf32>
}

// -----

// The result is a part of the buffer, which depends on the rank: the buffer
// does not become the result.
// CHECK-LABEL: func.func @step
// CHECK: sched.copy
#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @step(%w: memref<8xf32>, %g: memref<4xf32>) -> memref<4xf32> {
    %0 = sched.alloc : memref<8xf32>
    sched.launch @sub(%w, %w) into(%0) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<8xf32>) -> memref<8xf32>
    %1 = sched.view %0 {axes = ["data"], coefficients = array<i64: 4>} : memref<8xf32> -> memref<4xf32>
    sched.copy %1 into %g on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<4xf32> -> memref<4xf32>
    return %g : memref<4xf32>
  }
  func.func private @sub(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> attributes {sched.kernel} {
    %0 = nn.sub %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
