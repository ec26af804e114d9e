// RUN: tandem-opt --tandem-group-heads --split-input-file %s | FileCheck %s

// Two heads of keys and values for four of the query: nothing is repeated, and no sum is left, also where the
// repetition and the sum stand in other steps.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x4x6x8xf32>, %[[K:[^:]*]]: tensor<2x2x6x8xf32>
// CHECK-NOT: nn.expand
// CHECK: nn.attention %[[Q]], {{.*}} : (tensor<2x4x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>)
// CHECK: nn.attention_backward {{.*}} -> (tensor<2x4x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>)
// CHECK-NOT: nn.sum
func.func @step(%q: tensor<2x4x6x8xf32>, %k: tensor<2x2x6x8xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>) {
  %2, %e = sched.step on compute stage 0 strand 0 {
    %0 = nn.reshape %k : (tensor<2x2x6x8xf32>) -> tensor<2x2x1x6x8xf32>
    %1 = nn.expand %0 : (tensor<2x2x1x6x8xf32>) -> tensor<2x2x2x6x8xf32>
    %r = nn.reshape %1 : (tensor<2x2x2x6x8xf32>) -> tensor<2x4x6x8xf32>
    sched.yield %r : tensor<2x4x6x8xf32>
  } : tensor<2x4x6x8xf32>
  %dq, %dk, %dv, %f = sched.step on compute stage 1 strand 0 {
    %3:2 = nn.attention %q, %2, %2 {scale = 0.5 : f64} : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x4x6xf32>)
    %4:3 = nn.attention_backward %q, %q, %2, %2, %3#0, %3#1 {scale = 0.5 : f64} : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>)
    sched.yield %4#0, %4#1, %4#2 : tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>
  } : tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>
  %sk, %sv, %g = sched.step on compute stage 2 strand 0 {
    %5 = nn.reshape %dk : (tensor<2x4x6x8xf32>) -> tensor<2x2x2x6x8xf32>
    %6 = nn.sum %5 {dims = array<i64: 2>} : (tensor<2x2x2x6x8xf32>) -> tensor<2x2x6x8xf32>
    %7 = nn.reshape %dv : (tensor<2x4x6x8xf32>) -> tensor<2x2x2x6x8xf32>
    %8 = nn.sum %7 {dims = array<i64: 2>} : (tensor<2x2x2x6x8xf32>) -> tensor<2x2x6x8xf32>
    sched.yield %6, %8 : tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>
  } : tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>
  return %dq, %sk, %sv : tensor<2x4x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>
}

// -----

// A gradient that is used in another way than by a sum leaves the backward as it is. What is repeated along another
// dimension are no groups.
// CHECK-LABEL: func.func @step
// CHECK: nn.attention {{.*}} : (tensor<2x4x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>)
// CHECK: nn.attention_backward {{.*}} -> (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>)
// CHECK: nn.attention {{.*}} : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>)
func.func @step(%q: tensor<2x4x6x8xf32>, %k: tensor<2x2x6x8xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>) {
  %a, %b, %e = sched.step on compute stage 0 strand 0 {
    %0 = nn.reshape %k : (tensor<2x2x6x8xf32>) -> tensor<2x2x1x6x8xf32>
    %1 = nn.expand %0 : (tensor<2x2x1x6x8xf32>) -> tensor<2x2x2x6x8xf32>
    %2 = nn.reshape %1 : (tensor<2x2x2x6x8xf32>) -> tensor<2x4x6x8xf32>
    %3:2 = nn.attention %q, %2, %2 {scale = 0.5 : f64} : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x4x6xf32>)
    %4:3 = nn.attention_backward %q, %q, %2, %2, %3#0, %3#1 {scale = 0.5 : f64} : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>)
    %5 = nn.reshape %k : (tensor<2x2x6x8xf32>) -> tensor<2x1x2x6x8xf32>
    %6 = nn.expand %5 : (tensor<2x1x2x6x8xf32>) -> tensor<2x2x2x6x8xf32>
    %7 = nn.reshape %6 : (tensor<2x2x2x6x8xf32>) -> tensor<2x4x6x8xf32>
    %8:2 = nn.attention %q, %7, %7 {scale = 0.5 : f64} : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x4x6xf32>)
    sched.yield %4#1, %8#0 : tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>
  } : tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>
  return %a, %b : tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>
}

// -----

// Keys that are repeated four times and values that are repeated twice: both stay repeated.
// CHECK-LABEL: func.func @step
// CHECK: nn.attention {{.*}} : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>)
func.func @step(%q: tensor<2x4x6x8xf32>, %k: tensor<2x1x6x8xf32>, %v: tensor<2x2x6x8xf32>) -> tensor<2x4x6x8xf32> {
  %a, %e = sched.step on compute stage 0 strand 0 {
    %0 = nn.reshape %k : (tensor<2x1x6x8xf32>) -> tensor<2x1x1x6x8xf32>
    %1 = nn.expand %0 : (tensor<2x1x1x6x8xf32>) -> tensor<2x1x4x6x8xf32>
    %2 = nn.reshape %1 : (tensor<2x1x4x6x8xf32>) -> tensor<2x4x6x8xf32>
    %3 = nn.reshape %v : (tensor<2x2x6x8xf32>) -> tensor<2x2x1x6x8xf32>
    %4 = nn.expand %3 : (tensor<2x2x1x6x8xf32>) -> tensor<2x2x2x6x8xf32>
    %5 = nn.reshape %4 : (tensor<2x2x2x6x8xf32>) -> tensor<2x4x6x8xf32>
    %6:2 = nn.attention %q, %2, %5 {scale = 0.5 : f64} : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x4x6xf32>)
    sched.yield %6#0 : tensor<2x4x6x8xf32>
  } : tensor<2x4x6x8xf32>
  return %a : tensor<2x4x6x8xf32>
}
