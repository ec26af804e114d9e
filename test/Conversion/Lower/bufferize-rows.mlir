// RUN: tandem-opt --tandem-bufferize --split-input-file %s | FileCheck %s

// Rows are added in the memory of a product that nothing else reads, also of
// another step; of the rest of the table no byte is counted.
// CHECK-LABEL: func.func @step
// CHECK: sched.gemm %{{.*}} into %[[P:.*]] on compute
// CHECK: sched.launch @rows(%arg2, %arg3, %[[P]]) into(%[[P]]) on compute stage 1 strand 0 {bytes = 168 : i64
func.func @step(%a: tensor<5x4xf32>, %b: tensor<4x4xf32>, %g: tensor<3x4xf32>, %i: tensor<3xi64>) -> tensor<5x4xf32> {
  %p, %e = sched.step on compute stage 0 strand 0 {
    %0 = sched.matmul %a, %b {batch = array<i64>, m = 5, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>} : (tensor<5x4xf32>, tensor<4x4xf32>) -> tensor<5x4xf32>
    sched.yield %0 : tensor<5x4xf32>
  } : tensor<5x4xf32>
  %r, %f = sched.step on compute stage 1 strand 0 {
    %1 = func.call @rows(%g, %i, %p) {sched.label = "rows"} : (tensor<3x4xf32>, tensor<3xi64>, tensor<5x4xf32>) -> tensor<5x4xf32>
    sched.yield %1 : tensor<5x4xf32>
  } : tensor<5x4xf32>
  return %r : tensor<5x4xf32>
}
func.func private @rows(%g: tensor<3x4xf32>, %i: tensor<3xi64>, %p: tensor<5x4xf32>) -> tensor<5x4xf32> attributes {sched.kernel} {
  %0 = nn.embedding_backward %g, %i : (tensor<3x4xf32>, tensor<3xi64>) -> tensor<5x4xf32>
  %1 = nn.add %p, %0 : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
  return %1 : tensor<5x4xf32>
}

// -----

// Not over an argument, nor over what is read once more.
// CHECK-LABEL: func.func @step
// CHECK: sched.launch @rows(%arg2, %arg3, %arg0) into(%[[A:[0-9a-z%]+]])
// CHECK: sched.gemm %{{.*}} into %[[P:.*]] on compute
// CHECK: %[[B:.*]] = sched.alloc
// CHECK: sched.launch @rows(%arg2, %arg3, %[[P]]) into(%[[B]])
func.func @step(%a: tensor<5x4xf32>, %b: tensor<4x4xf32>, %g: tensor<3x4xf32>, %i: tensor<3xi64>) -> (tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>) {
  %p, %r, %s, %e = sched.step on compute stage 0 strand 0 {
    %0 = func.call @rows(%g, %i, %a) {sched.label = "rows"} : (tensor<3x4xf32>, tensor<3xi64>, tensor<5x4xf32>) -> tensor<5x4xf32>
    %1 = sched.matmul %a, %b {batch = array<i64>, m = 5, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>} : (tensor<5x4xf32>, tensor<4x4xf32>) -> tensor<5x4xf32>
    %2 = func.call @rows(%g, %i, %1) {sched.label = "rows"} : (tensor<3x4xf32>, tensor<3xi64>, tensor<5x4xf32>) -> tensor<5x4xf32>
    sched.yield %1, %0, %2 : tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>
  } : tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>
  return %p, %r, %s : tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>
}
func.func private @rows(%g: tensor<3x4xf32>, %i: tensor<3xi64>, %p: tensor<5x4xf32>) -> tensor<5x4xf32> attributes {sched.kernel} {
  %0 = nn.embedding_backward %g, %i : (tensor<3x4xf32>, tensor<3xi64>) -> tensor<5x4xf32>
  %1 = nn.add %p, %0 : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
  return %1 : tensor<5x4xf32>
}
