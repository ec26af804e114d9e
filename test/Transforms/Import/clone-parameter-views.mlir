// RUN: tandem-opt %s --tandem-clone-parameter-views | FileCheck %s

// The transposed weight is made in each pass, so that a gathered one need not
// live from forward to backward. A view of an activation stays one.
// CHECK-LABEL: @views
// CHECK: %[[F:.*]] = nn.permute %arg0 {nn.pass = #forward
// CHECK: nn.matmul %arg1, %[[F]] {nn.pass = #forward}
// CHECK: %[[B:.*]] = nn.permute %arg0 {nn.pass = #backward
// CHECK: nn.matmul %arg1, %[[B]] {nn.pass = #backward}
// CHECK-COUNT-1: nn.permute %arg1
// CHECK-NOT: nn.permute
func.func @views(%w: tensor<8x4xf32> {nn.role = #nn.role<parameter>, nn.name = "w"}, %x: tensor<4x4xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = nn.permute %w {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<forward>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %1 = nn.matmul %x, %0 {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = nn.matmul %x, %0 {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = nn.permute %x {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = nn.exp %3 {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = nn.exp %3 {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1, %2, %4, %5 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
