// RUN: tandem-opt %s --tandem-order-sums | FileCheck %s

// CHECK-LABEL: @gradients
// CHECK: %[[A:.*]] = nn.matmul %arg1
// CHECK: %[[B:.*]] = nn.matmul %arg2
// CHECK: %[[AB:.*]] = nn.add %[[A]], %[[B]] {nn.pass = #backward}
// CHECK: nn.add %[[AB]], %arg0 {nn.pass = #backward}
func.func @gradients(%r: tensor<4x4xf32>, %a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = nn.matmul %a, %a {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = nn.add %r, %0 {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = nn.matmul %b, %b {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = nn.add %1, %2 {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}

// Another use of the inner sum keeps it.
// CHECK-LABEL: @used
// CHECK: nn.add %arg0
// CHECK: nn.matmul %arg2
// CHECK: nn.add
func.func @used(%r: tensor<4x4xf32>, %a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = nn.matmul %a, %a {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = nn.add %r, %0 {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = nn.matmul %b, %b {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = nn.add %1, %2 {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1, %3 : tensor<4x4xf32>, tensor<4x4xf32>
}
