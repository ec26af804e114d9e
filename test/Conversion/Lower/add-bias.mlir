// RUN: tandem-opt --tandem-add-bias --split-input-file %s | FileCheck %s

// Behind a reshape, from either side, and where views lead to libraries.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:.*]]: tensor<6x8xf32>, %[[W:.*]]: tensor<8x4xf32>, %[[B:.*]]: tensor<4xf32>
// CHECK: %[[P:.*]] = sched.matmul %[[X]], %[[W]] plus %[[B]] {
// CHECK: %[[R:.*]] = nn.reshape %[[P]]
// CHECK-NOT: nn.add
// CHECK: nn.reshape %[[R]]
func.func @step(%x: tensor<6x8xf32>, %w: tensor<8x4xf32>, %b: tensor<4xf32>, %v: tensor<4x5xf32>) -> tensor<6x5xf32> {
  %0, %e = sched.step on compute stage 0 strand 0 {
    %1 = sched.matmul %x, %w {batch = array<i64>, m = 6, n = 4, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>} : (tensor<6x8xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
    %2 = nn.reshape %1 : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
    %3 = nn.add %b, %2 : (tensor<4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
    %4 = nn.reshape %3 : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
    sched.yield %4 : tensor<6x4xf32>
  } : tensor<6x4xf32>
  %5, %f = sched.step on compute stage 1 strand 0 {
    %6 = sched.matmul %0, %v {batch = array<i64>, m = 6, n = 5, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>} : (tensor<6x4xf32>, tensor<4x5xf32>) -> tensor<6x5xf32>
    sched.yield %6 : tensor<6x5xf32>
  } : tensor<6x5xf32>
  return %5 : tensor<6x5xf32>
}

// -----

// Not where a kernel reads the sum; nor what is no row of it; nor a bias that is made later; nor into columns.
// CHECK-LABEL: func.func @step
// CHECK-NOT: plus
// CHECK-COUNT-4: nn.add
func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x4xf32>, %b: tensor<4xf32>, %c: tensor<4x1xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0:4, %e = sched.step on compute stage 0 strand 0 {
    %1 = sched.matmul %x, %w {batch = array<i64>, m = 4, n = 4, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %2 = nn.add %1, %b : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
    %3 = nn.exp %2 : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %4 = sched.matmul %x, %w {batch = array<i64>, m = 4, n = 4, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %5 = nn.add %4, %c : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x4xf32>
    %6 = sched.matmul %5, %5 {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %late = nn.exp %b : (tensor<4xf32>) -> tensor<4xf32>
    %7 = nn.add %6, %late : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
    %8 = sched.matmul %7, %7 {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 1, 4>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %9 = nn.add %8, %b : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
    %10 = sched.matmul %9, %9 {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    sched.yield %3, %10, %6, %8 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  } : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  return %0#0, %0#1, %0#2, %0#3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
