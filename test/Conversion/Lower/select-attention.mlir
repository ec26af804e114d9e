// RUN: tandem-opt --tandem-select-attention --split-input-file %s | FileCheck %s

// Heads lie within rows: strides follow them on the way in, also from a slice of a packed
// projection, and on the way out. The backward reads the output where the projection behind it
// does, and its gradients lie as theirs are wanted.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x6x8xf32>, %[[KV:[^:]*]]: tensor<2x5x16xf32>, %[[G:[^:]*]]: tensor<2x6x8xf32>
// CHECK-NOT: nn.permute
// CHECK: %[[F:.*]]:2 = sched.attention %[[Q]], %[[KV]], %[[KV]] {
// CHECK-SAME: offsets = array<i64: 0, 0, 8>, operations = 1920 : i64
// CHECK-SAME: sizes = array<i64: 2, 4, 4, 6, 5, 2, 2>
// CHECK-SAME: strides = array<i64: 48, 2, 8, 80, 2, 16, 80, 2, 16, 48, 2, 8>}
// CHECK-SAME: -> (tensor<2x6x4x2xf32>, tensor<2x4x6xf32>)
// CHECK: sched.attention %[[G]], %[[Q]], %[[KV]], %[[KV]], %{{.*}}, %{{.*}} {backward
// CHECK-SAME: strides = array<i64: 48, 2, 8, 48, 2, 8, 80, 2, 16, 80, 2, 16, 48, 2, 8, 48, 2, 8, 40, 10, 2, 40, 10, 2>}
// CHECK-SAME: -> (tensor<2x6x4x2xf32>, tensor<2x4x5x2xf32>, tensor<2x4x5x2xf32>)
func.func @step(%q: tensor<2x6x8xf32>, %kv: tensor<2x5x16xf32>, %g: tensor<2x6x8xf32>)
    -> (tensor<2x6x8xf32>, tensor<2x6x8xf32>, tensor<2x4x5x2xf32>, tensor<2x4x5x2xf32>) {
  %qh, %kh, %vh, %e = sched.step on compute stage 0 strand 0 {
    %0 = nn.reshape %q : (tensor<2x6x8xf32>) -> tensor<2x6x4x2xf32>
    %1 = nn.permute %0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x6x4x2xf32>) -> tensor<2x4x6x2xf32>
    %2 = nn.slice %kv {dim = 2 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<2x5x16xf32>) -> tensor<2x5x8xf32>
    %3 = nn.reshape %2 : (tensor<2x5x8xf32>) -> tensor<2x5x4x2xf32>
    %4 = nn.permute %3 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x5x4x2xf32>) -> tensor<2x4x5x2xf32>
    %5 = nn.slice %kv {dim = 2 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<2x5x16xf32>) -> tensor<2x5x8xf32>
    %6 = nn.reshape %5 : (tensor<2x5x8xf32>) -> tensor<2x5x4x2xf32>
    %7 = nn.permute %6 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x5x4x2xf32>) -> tensor<2x4x5x2xf32>
    sched.yield %1, %4, %7 : tensor<2x4x6x2xf32>, tensor<2x4x5x2xf32>, tensor<2x4x5x2xf32>
  } : tensor<2x4x6x2xf32>, tensor<2x4x5x2xf32>, tensor<2x4x5x2xf32>
  %o, %y, %lse, %f = sched.step on compute stage 1 strand 0 {
    %8:2 = nn.attention %qh, %kh, %vh {scale = 0.5 : f64} : (tensor<2x4x6x2xf32>, tensor<2x4x5x2xf32>, tensor<2x4x5x2xf32>) -> (tensor<2x4x6x2xf32>, tensor<2x4x6xf32>)
    %9 = nn.permute %8#0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x6x2xf32>) -> tensor<2x6x4x2xf32>
    %10 = nn.reshape %9 : (tensor<2x6x4x2xf32>) -> tensor<2x6x8xf32>
    sched.yield %8#0, %10, %8#1 : tensor<2x4x6x2xf32>, tensor<2x6x8xf32>, tensor<2x4x6xf32>
  } : tensor<2x4x6x2xf32>, tensor<2x6x8xf32>, tensor<2x4x6xf32>
  %dq, %dk, %dv, %h = sched.step on compute stage 2 strand 0 {
    %11 = nn.reshape %g : (tensor<2x6x8xf32>) -> tensor<2x6x4x2xf32>
    %12 = nn.permute %11 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x6x4x2xf32>) -> tensor<2x4x6x2xf32>
    %13:3 = nn.attention_backward %12, %qh, %kh, %vh, %o, %lse {scale = 0.5 : f64} : (tensor<2x4x6x2xf32>, tensor<2x4x6x2xf32>, tensor<2x4x5x2xf32>, tensor<2x4x5x2xf32>, tensor<2x4x6x2xf32>, tensor<2x4x6xf32>) -> (tensor<2x4x6x2xf32>, tensor<2x4x5x2xf32>, tensor<2x4x5x2xf32>)
    %14 = nn.permute %13#0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x6x2xf32>) -> tensor<2x6x4x2xf32>
    %15 = nn.reshape %14 : (tensor<2x6x4x2xf32>) -> tensor<2x6x8xf32>
    sched.yield %15, %13#1, %13#2 : tensor<2x6x8xf32>, tensor<2x4x5x2xf32>, tensor<2x4x5x2xf32>
  } : tensor<2x6x8xf32>, tensor<2x4x5x2xf32>, tensor<2x4x5x2xf32>
  return %y, %dq, %dk, %dv : tensor<2x6x8xf32>, tensor<2x6x8xf32>, tensor<2x4x5x2xf32>, tensor<2x4x5x2xf32>
}

// -----

// A mask is broadcast by strides of 0. A transposed operand has no contiguous rows: it is copied. A scale is no
// view of attention's.
// CHECK-LABEL: func.func @step
// CHECK: nn.permute
// CHECK: nn.mul
// CHECK: sched.attention
// CHECK-SAME: mask_strides = array<i64: 5, 0, 0, 1>, offsets = array<i64: 0, 0, 0>
// CHECK-SAME: strides = array<i64: 24, 12, 2, 20, 10, 2, 20, 10, 2, 24, 12, 2>}
func.func @step(%q: tensor<2x2x2x6xf32>, %k: tensor<2x2x5x2xf32>, %mask: tensor<2x1x1x5xi1>) -> tensor<2x2x6x2xf32> {
  %o, %e = sched.step on compute stage 0 strand 0 {
    %0 = nn.permute %q {permutation = array<i64: 0, 1, 3, 2>} : (tensor<2x2x2x6xf32>) -> tensor<2x2x6x2xf32>
    %c = nn.constant dense<2.0> : tensor<f32> -> tensor<f32>
    %1 = nn.mul %k, %c : (tensor<2x2x5x2xf32>, tensor<f32>) -> tensor<2x2x5x2xf32>
    %2:2 = nn.attention %0, %1, %k, %mask {scale = 0.5 : f64, masked = true} : (tensor<2x2x6x2xf32>, tensor<2x2x5x2xf32>, tensor<2x2x5x2xf32>, tensor<2x1x1x5xi1>) -> (tensor<2x2x6x2xf32>, tensor<2x2x6xf32>)
    sched.yield %2#0 : tensor<2x2x6x2xf32>
  } : tensor<2x2x6x2xf32>
  return %o : tensor<2x2x6x2xf32>
}

// -----

// Of 36 pairs of positions a causal attention has 21.
// CHECK-LABEL: func.func @step
// CHECK: sched.attention {{.*}} {after = 0 : i64
// CHECK-SAME: operations = 1344 : i64
func.func @step(%q: tensor<2x4x6x2xf32>, %p: tensor<6xi64>) -> tensor<2x4x6x2xf32> {
  %o, %e = sched.step on compute stage 0 strand 0 {
    %0:2 = nn.attention %q, %q, %q, %p {scale = 0.5 : f64, after = 0 : i64} : (tensor<2x4x6x2xf32>, tensor<2x4x6x2xf32>, tensor<2x4x6x2xf32>, tensor<6xi64>) -> (tensor<2x4x6x2xf32>, tensor<2x4x6xf32>)
    sched.yield %0#0 : tensor<2x4x6x2xf32>
  } : tensor<2x4x6x2xf32>
  return %o : tensor<2x4x6x2xf32>
}
