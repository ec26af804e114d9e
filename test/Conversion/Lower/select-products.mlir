// RUN: tandem-opt --tandem-select-products --split-input-file %s | FileCheck %s

// The transposed weight is read where it lies, and the batch is part of the rows.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:.*]]: tensor<2x3x8xf32>, %[[W:.*]]: tensor<5x8xf32>
// CHECK-NOT: nn.permute
// CHECK: sched.matmul %[[X]], %[[W]] {batch = array<i64>, k = 8 : i64, m = 6 : i64, n = 5 : i64
// CHECK-SAME: strides_a = array<i64: 8, 1>, strides_b = array<i64: 1, 8>, strides_c = array<i64: 5, 1>
func.func @step(%x: tensor<2x3x8xf32>, %w: tensor<5x8xf32>) -> tensor<2x3x5xf32> {
  %0, %e = sched.step on compute stage 0 strand 0 {
    %1 = nn.permute %w {permutation = array<i64: 1, 0>} : (tensor<5x8xf32>) -> tensor<8x5xf32>
    %2 = nn.expand %1 : (tensor<8x5xf32>) -> tensor<2x8x5xf32>
    %3 = nn.matmul %x, %2 : (tensor<2x3x8xf32>, tensor<2x8x5xf32>) -> tensor<2x3x5xf32>
    sched.yield %3 : tensor<2x3x5xf32>
  } : tensor<2x3x5xf32>
  return %0 : tensor<2x3x5xf32>
}

// -----

// Heads are a batch dimension with strides, on the way in and on the way out; the
// constant factor becomes alpha. The view stands in another step.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[P:.*]]: tensor<2x4x4x4xf32>, %[[V:.*]]: tensor<8x12xf32>
// CHECK-NOT: nn.permute
// CHECK: sched.matmul %[[P]], %[[V]] {alpha = 2.000000e+00 : f64, batch = array<i64: 2, 4>, k = 4 : i64, m = 4 : i64, n = 3 : i64
// CHECK-SAME: strides_a = array<i64: 64, 16, 4, 1>, strides_b = array<i64: 48, 3, 12, 1>, strides_c = array<i64: 48, 3, 12, 1>
// CHECK-SAME: -> tensor<2x4x4x3xf32>
func.func @step(%p: tensor<2x4x4x4xf32>, %v: tensor<8x12xf32>) -> tensor<2x4x12xf32> {
  %0, %e = sched.step on compute stage 0 strand 0 {
    %1 = nn.reshape %v : (tensor<8x12xf32>) -> tensor<2x4x4x3xf32>
    %2 = nn.permute %1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x4x3xf32>) -> tensor<2x4x4x3xf32>
    sched.yield %2 : tensor<2x4x4x3xf32>
  } : tensor<2x4x4x3xf32>
  %3, %f = sched.step on compute stage 1 strand 0 {
    %c = nn.constant dense<2.0> : tensor<f32> -> tensor<f32>
    %4 = nn.mul %0, %c : (tensor<2x4x4x3xf32>, tensor<f32>) -> tensor<2x4x4x3xf32>
    %5 = nn.matmul %p, %4 : (tensor<2x4x4x4xf32>, tensor<2x4x4x3xf32>) -> tensor<2x4x4x3xf32>
    %6 = nn.permute %5 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x4x3xf32>) -> tensor<2x4x4x3xf32>
    %7 = nn.reshape %6 : (tensor<2x4x4x3xf32>) -> tensor<2x4x12xf32>
    sched.yield %7 : tensor<2x4x12xf32>
  } : tensor<2x4x12xf32>
  return %3 : tensor<2x4x12xf32>
}

// -----

// A sum of the products of a batch is a longer sum.
// CHECK-LABEL: func.func @step
// CHECK-NOT: nn.sum
// CHECK: sched.matmul {{.*}} {batch = array<i64>, k = 6 : i64, m = 4 : i64, n = 5 : i64
// CHECK-SAME: strides_a = array<i64: 1, 4>, strides_b = array<i64: 5, 1>
func.func @step(%x: tensor<2x3x4xf32>, %g: tensor<2x3x5xf32>) -> tensor<4x5xf32> {
  %0, %e = sched.step on compute stage 0 strand 0 {
    %1 = nn.permute %x {permutation = array<i64: 0, 2, 1>} : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
    %2 = nn.matmul %1, %g : (tensor<2x4x3xf32>, tensor<2x3x5xf32>) -> tensor<2x4x5xf32>
    %3 = nn.sum %2 {dims = array<i64: 0>} : (tensor<2x4x5xf32>) -> tensor<4x5xf32>
    sched.yield %3 : tensor<4x5xf32>
  } : tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

// Columns with a step cannot be read: the slice stays.
// CHECK-LABEL: func.func @step
// CHECK: %[[S:.*]] = nn.slice
// CHECK: sched.matmul %[[S]]
func.func @step(%x: tensor<3x8xf32>, %w: tensor<4x5xf32>) -> tensor<3x5xf32> {
  %0, %e = sched.step on compute stage 0 strand 0 {
    %1 = nn.slice %x {dim = 1 : i64, start = 0 : i64, stop = 8 : i64, step = 2 : i64} : (tensor<3x8xf32>) -> tensor<3x4xf32>
    %2 = nn.matmul %1, %w : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
    sched.yield %2 : tensor<3x5xf32>
  } : tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}

// -----

// Every second row from the second on: the offset is a row, the stride two.
// CHECK-LABEL: func.func @step
// CHECK-NOT: nn.slice
// CHECK: sched.matmul %{{.*}}, %{{.*}} {{{.*}}offset_a = 4 : i64{{.*}}strides_a = array<i64: 8, 1>
func.func @step(%x: tensor<6x4xf32>, %w: tensor<4x5xf32>) -> tensor<3x5xf32> {
  %0, %e = sched.step on compute stage 0 strand 0 {
    %1 = nn.slice %x {dim = 0 : i64, start = 1 : i64, stop = 6 : i64, step = 2 : i64} : (tensor<6x4xf32>) -> tensor<3x4xf32>
    %2 = nn.matmul %1, %w : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
    sched.yield %2 : tensor<3x5xf32>
  } : tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}

// -----

// A slice of columns begins at an offset.
// CHECK-LABEL: func.func @step
// CHECK: sched.matmul %{{.*}}, %{{.*}} {{{.*}}offset_a = 4 : i64{{.*}}strides_a = array<i64: 8, 1>
func.func @step(%x: tensor<3x8xf32>, %w: tensor<4x5xf32>) -> tensor<3x5xf32> {
  %0, %e = sched.step on compute stage 0 strand 0 {
    %1 = nn.slice %x {dim = 1 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<3x8xf32>) -> tensor<3x4xf32>
    %2 = nn.matmul %1, %w : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
    sched.yield %2 : tensor<3x5xf32>
  } : tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}

// -----

// The gradient of a query is written within rows, as the one product wants it; the other reads it transposed where it
// lies.
// CHECK-LABEL: func.func @step
// CHECK: %[[G:.*]], %{{.*}}, %{{.*}} = nn.attention_backward
// CHECK: %[[P:.*]] = nn.permute %[[G]] {permutation = array<i64: 0, 2, 1, 3>}
// CHECK: sched.matmul %[[P]], %{{.*}} {{{.*}}strides_a = array<i64: 1, 8>
// CHECK: sched.matmul %[[P]], %{{.*}} {{{.*}}strides_a = array<i64: 8, 1>
func.func @step(%q: tensor<2x2x3x4xf32>, %s: tensor<2x2x3xf32>, %x: tensor<6x5xf32>, %w: tensor<8x5xf32>) -> (tensor<8x5xf32>, tensor<6x5xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) {
  %0:4, %e = sched.step on compute stage 0 strand 0 {
    %1:3 = nn.attention_backward %q, %q, %q, %q, %q, %s {scale = 0.5 : f64} : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3xf32>) -> (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>)
    %2 = nn.permute %1#0 {permutation = array<i64: 1, 3, 0, 2>} : (tensor<2x2x3x4xf32>) -> tensor<2x4x2x3xf32>
    %3 = nn.reshape %2 : (tensor<2x4x2x3xf32>) -> tensor<8x6xf32>
    %4 = nn.matmul %3, %x : (tensor<8x6xf32>, tensor<6x5xf32>) -> tensor<8x5xf32>
    %5 = nn.permute %1#0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x2x3x4xf32>) -> tensor<2x3x2x4xf32>
    %6 = nn.reshape %5 : (tensor<2x3x2x4xf32>) -> tensor<6x8xf32>
    %7 = nn.matmul %6, %w : (tensor<6x8xf32>, tensor<8x5xf32>) -> tensor<6x5xf32>
    sched.yield %4, %7, %1#1, %1#2 : tensor<8x5xf32>, tensor<6x5xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>
  } : tensor<8x5xf32>, tensor<6x5xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>
  return %0#0, %0#1, %0#2, %0#3 : tensor<8x5xf32>, tensor<6x5xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>
}
