// RUN: tandem-opt %s --tandem-unfold-products --tandem-simplify-views | FileCheck %s

// Attention as ATen decomposes it: batch and heads are merged for `bmm`.
// CHECK-LABEL: @scores
// CHECK-NEXT: nn.matmul %arg0, %arg1 {nn.pass = #forward} : (tensor<2x4x5x16xf32>, tensor<2x4x16x5xf32>) -> tensor<2x4x5x5xf32>
// CHECK-NEXT: nn.softmax
// CHECK-NEXT: return
func.func @scores(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x16x5xf32>) -> tensor<2x4x5x5xf32> {
  %0 = nn.reshape %q {nn.pass = #nn.pass<forward>} : (tensor<2x4x5x16xf32>) -> tensor<8x5x16xf32>
  %1 = nn.reshape %k {nn.pass = #nn.pass<forward>} : (tensor<2x4x16x5xf32>) -> tensor<8x16x5xf32>
  %2 = nn.matmul %0, %1 {nn.pass = #nn.pass<forward>} : (tensor<8x5x16xf32>, tensor<8x16x5xf32>) -> tensor<8x5x5xf32>
  %3 = nn.reshape %2 {nn.pass = #nn.pass<forward>} : (tensor<8x5x5xf32>) -> tensor<2x4x5x5xf32>
  %4 = nn.softmax %3 {dim = 3, nn.pass = #nn.pass<forward>} : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  return %4 : tensor<2x4x5x5xf32>
}

// Only one operand tells how.
// CHECK-LABEL: @one_side
// CHECK: nn.matmul {{.*}} (tensor<2x4x5x16xf32>, tensor<2x4x16x3xf32>) -> tensor<2x4x5x3xf32>
func.func @one_side(%q: tensor<2x4x5x16xf32>, %k: tensor<8x16x3xf32>) -> tensor<8x5x3xf32> {
  %0 = nn.reshape %q {nn.pass = #nn.pass<forward>} : (tensor<2x4x5x16xf32>) -> tensor<8x5x16xf32>
  %1 = nn.matmul %0, %k {nn.pass = #nn.pass<forward>} : (tensor<8x5x16xf32>, tensor<8x16x3xf32>) -> tensor<8x5x3xf32>
  return %1 : tensor<8x5x3xf32>
}

// CHECK-LABEL: @unit
// CHECK: nn.matmul {{.*}} (tensor<6x4xf32>, tensor<4x3xf32>) -> tensor<6x3xf32>
func.func @unit(%x: tensor<1x6x4xf32>, %w: tensor<1x4x3xf32>) -> tensor<1x6x3xf32> {
  %0 = nn.matmul %x, %w {nn.pass = #nn.pass<forward>} : (tensor<1x6x4xf32>, tensor<1x4x3xf32>) -> tensor<1x6x3xf32>
  return %0 : tensor<1x6x3xf32>
}

// Rows may be merged: batch is the major part of them.
// CHECK-LABEL: @rows
// CHECK: nn.matmul {{.*}} (tensor<10x16xf32>, tensor<16x3xf32>)
func.func @rows(%x: tensor<2x5x16xf32>, %w: tensor<16x3xf32>) -> tensor<10x3xf32> {
  %0 = nn.reshape %x {nn.pass = #nn.pass<forward>} : (tensor<2x5x16xf32>) -> tensor<10x16xf32>
  %1 = nn.matmul %0, %w {nn.pass = #nn.pass<forward>} : (tensor<10x16xf32>, tensor<16x3xf32>) -> tensor<10x3xf32>
  return %1 : tensor<10x3xf32>
}
