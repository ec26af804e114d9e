// RUN: tandem-opt %s --tandem-reuse-views | FileCheck %s

// Forward uses the activation through one view: backward transposes that.
// CHECK-LABEL: @tokens
// CHECK: %[[T:.*]] = nn.reshape %{{.*}} -> tensor<4x64x8xf32>
// CHECK: nn.permute %[[T]] {nn.pass = "backward", permutation = array<i64: 0, 2, 1>} : (tensor<4x64x8xf32>) -> tensor<4x8x64xf32>
// CHECK-NOT: nn.permute
func.func @tokens(%x: tensor<32x4x2x8xf32>, %w: tensor<4x8x16xf32>, %g: tensor<4x64x16xf32>) -> (tensor<4x64x16xf32>, tensor<4x8x16xf32>) {
  %a = nn.exp %x {nn.pass = "forward"} : (tensor<32x4x2x8xf32>) -> tensor<32x4x2x8xf32>
  %p = nn.permute %a {permutation = array<i64: 1, 0, 2, 3>, nn.pass = "forward"} : (tensor<32x4x2x8xf32>) -> tensor<4x32x2x8xf32>
  %t = nn.reshape %p {nn.pass = "forward"} : (tensor<4x32x2x8xf32>) -> tensor<4x64x8xf32>
  %h = nn.matmul %t, %w {nn.pass = "forward"} : (tensor<4x64x8xf32>, tensor<4x8x16xf32>) -> tensor<4x64x16xf32>
  %b = nn.permute %a {permutation = array<i64: 1, 3, 0, 2>, nn.pass = "backward"} : (tensor<32x4x2x8xf32>) -> tensor<4x8x32x2xf32>
  %m = nn.reshape %b {nn.pass = "backward"} : (tensor<4x8x32x2xf32>) -> tensor<4x8x64xf32>
  %dw = nn.matmul %m, %g {nn.pass = "backward"} : (tensor<4x8x64xf32>, tensor<4x64x16xf32>) -> tensor<4x8x16xf32>
  return %h, %dw : tensor<4x64x16xf32>, tensor<4x8x16xf32>
}

// The activation itself is used too: views stay as they are.
// CHECK-LABEL: @direct
// CHECK: %[[A:.*]] = nn.exp
// CHECK: nn.permute %[[A]] {nn.pass = "backward"
func.func @direct(%x: tensor<4x8xf32>) -> (tensor<8x4xf32>, tensor<4x8xf32>, tensor<8x4xf32>) {
  %a = nn.exp %x {nn.pass = "forward"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %f = nn.permute %a {permutation = array<i64: 1, 0>, nn.pass = "forward"} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %u = nn.log %f {nn.pass = "forward"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %v = nn.log %a {nn.pass = "forward"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = nn.permute %a {permutation = array<i64: 1, 0>, nn.pass = "backward"} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %w = nn.sqrt %b {nn.pass = "backward"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %u, %v, %w : tensor<8x4xf32>, tensor<4x8xf32>, tensor<8x4xf32>
}
