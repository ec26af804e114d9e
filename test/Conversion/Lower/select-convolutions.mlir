// RUN: tandem-opt --tandem-select-convolutions %s | FileCheck %s

// Channels that lie last are read so, and the result lies as it is wanted; a weight that is expanded has no
// elements of its own and is made. The gradients follow views as well, also out of another step.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x5x3xf32>, %[[W:[^:]*]]: tensor<4x3x3xf32>, %[[G:[^:]*]]: tensor<2x5x4xf32>
// CHECK-NOT: nn.permute
// CHECK: %[[Y:.*]] = sched.conv forward %[[X]], %[[W]] {
// CHECK-SAME: input = array<i64: 2, 3, 5>, offsets = array<i64: 0, 0>, output = array<i64: 2, 4, 5>
// CHECK-SAME: strides = array<i64: 15, 1, 3, 9, 3, 1, 20, 1, 4>
// CHECK-SAME: -> tensor<2x5x4xf32>
// CHECK: %[[ONES:.*]] = nn.expand
// CHECK: sched.conv forward %{{.*}}, %[[ONES]] {
// CHECK: sched.conv input_gradient %[[G]], %[[W]] {
// CHECK-SAME: strides = array<i64: 15, 1, 3, 9, 3, 1, 20, 1, 4>
// CHECK: sched.conv weight_gradient %[[X]], %[[G]] {
// CHECK-SAME: strides = array<i64: 15, 1, 3, 9, 3, 1, 20, 1, 4>
func.func @step(%x: tensor<2x5x3xf32>, %w: tensor<4x3x3xf32>, %g: tensor<2x5x4xf32>, %one: tensor<f32>)
    -> (tensor<2x5x4xf32>, tensor<2x3x5xf32>, tensor<2x5x3xf32>, tensor<4x3x3xf32>) {
  %xc, %e = sched.step on compute stage 0 strand 0 {
    %0 = nn.permute %x {permutation = array<i64: 0, 2, 1>} : (tensor<2x5x3xf32>) -> tensor<2x3x5xf32>
    sched.yield %0 : tensor<2x3x5xf32>
  } : tensor<2x3x5xf32>
  %y, %a, %f = sched.step on compute stage 1 strand 0 {
    %1 = nn.conv %xc, %w {stride = array<i64: 1>, padding = array<i64: 1>, dilation = array<i64: 1>} : (tensor<2x3x5xf32>, tensor<4x3x3xf32>) -> tensor<2x4x5xf32>
    %2 = nn.permute %1 {permutation = array<i64: 0, 2, 1>} : (tensor<2x4x5xf32>) -> tensor<2x5x4xf32>
    %3 = nn.expand %one : (tensor<f32>) -> tensor<3x1x3xf32>
    %4 = nn.conv %xc, %3 {stride = array<i64: 1>, padding = array<i64: 1>, dilation = array<i64: 1>} : (tensor<2x3x5xf32>, tensor<3x1x3xf32>) -> tensor<2x3x5xf32>
    sched.yield %2, %4 : tensor<2x5x4xf32>, tensor<2x3x5xf32>
  } : tensor<2x5x4xf32>, tensor<2x3x5xf32>
  %dx, %dw, %h = sched.step on compute stage 2 strand 0 {
    %5 = nn.permute %g {permutation = array<i64: 0, 2, 1>} : (tensor<2x5x4xf32>) -> tensor<2x4x5xf32>
    %6 = nn.conv_input_grad %5, %w {stride = array<i64: 1>, padding = array<i64: 1>, dilation = array<i64: 1>} : (tensor<2x4x5xf32>, tensor<4x3x3xf32>) -> tensor<2x3x5xf32>
    %7 = nn.permute %6 {permutation = array<i64: 0, 2, 1>} : (tensor<2x3x5xf32>) -> tensor<2x5x3xf32>
    %8 = nn.conv_weight_grad %xc, %5 {stride = array<i64: 1>, padding = array<i64: 1>, dilation = array<i64: 1>} : (tensor<2x3x5xf32>, tensor<2x4x5xf32>) -> tensor<4x3x3xf32>
    sched.yield %7, %8 : tensor<2x5x3xf32>, tensor<4x3x3xf32>
  } : tensor<2x5x3xf32>, tensor<4x3x3xf32>
  return %y, %a, %dx, %dw : tensor<2x5x4xf32>, tensor<2x3x5xf32>, tensor<2x5x3xf32>, tensor<4x3x3xf32>
}
