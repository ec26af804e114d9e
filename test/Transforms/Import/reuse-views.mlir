// RUN: tandem-opt %s --tandem-reuse-views | FileCheck %s

// Forward uses the activation through one view: backward transposes that.
// CHECK-LABEL: @tokens
// CHECK: %[[T:.*]] = nn.reshape %{{.*}} -> tensor<4x64x8xf32>
// CHECK: nn.permute %[[T]] {nn.pass = #backward, permutation = array<i64: 0, 2, 1>} : (tensor<4x64x8xf32>) -> tensor<4x8x64xf32>
// CHECK-NOT: nn.permute
func.func @tokens(%x: tensor<32x4x2x8xf32>, %w: tensor<4x8x16xf32>, %g: tensor<4x64x16xf32>) -> (tensor<4x64x16xf32>, tensor<4x8x16xf32>) {
  %a = nn.exp %x {nn.pass = #nn.pass<forward>} : (tensor<32x4x2x8xf32>) -> tensor<32x4x2x8xf32>
  %p = nn.permute %a {permutation = array<i64: 1, 0, 2, 3>, nn.pass = #nn.pass<forward>} : (tensor<32x4x2x8xf32>) -> tensor<4x32x2x8xf32>
  %t = nn.reshape %p {nn.pass = #nn.pass<forward>} : (tensor<4x32x2x8xf32>) -> tensor<4x64x8xf32>
  %h = nn.matmul %t, %w {nn.pass = #nn.pass<forward>} : (tensor<4x64x8xf32>, tensor<4x8x16xf32>) -> tensor<4x64x16xf32>
  %b = nn.permute %a {permutation = array<i64: 1, 3, 0, 2>, nn.pass = #nn.pass<backward>} : (tensor<32x4x2x8xf32>) -> tensor<4x8x32x2xf32>
  %m = nn.reshape %b {nn.pass = #nn.pass<backward>} : (tensor<4x8x32x2xf32>) -> tensor<4x8x64xf32>
  %dw = nn.matmul %m, %g {nn.pass = #nn.pass<backward>} : (tensor<4x8x64xf32>, tensor<4x64x16xf32>) -> tensor<4x8x16xf32>
  return %h, %dw : tensor<4x64x16xf32>, tensor<4x8x16xf32>
}

// The activation itself is used too: views stay as they are.
// CHECK-LABEL: @direct
// CHECK: %[[A:.*]] = nn.exp
// CHECK: nn.permute %[[A]] {nn.pass = #backward
func.func @direct(%x: tensor<4x8xf32>) -> (tensor<8x4xf32>, tensor<4x8xf32>, tensor<8x4xf32>) {
  %a = nn.exp %x {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %f = nn.permute %a {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %u = nn.log %f {nn.pass = #nn.pass<forward>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %v = nn.log %a {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = nn.permute %a {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %w = nn.sqrt %b {nn.pass = #nn.pass<backward>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %u, %v, %w : tensor<8x4xf32>, tensor<4x8xf32>, tensor<8x4xf32>
}

// The backward pass keeps the reshape alone, and reshapes it back.
// CHECK-LABEL: @kept
// CHECK: %[[E:.*]] = nn.exp
// CHECK: %[[F:.*]] = nn.reshape %[[E]] {nn.pass = #forward}
// CHECK: nn.log %[[F]]
// CHECK: %[[B:.*]] = nn.reshape %[[F]] {nn.pass = #backward} : (tensor<32xf32>) -> tensor<4x8xf32>
// CHECK: nn.mul %[[B]], %{{.*}} {nn.pass = #backward}
func.func @kept(%x: tensor<4x8xf32>, %g: tensor<4x8xf32>) -> (tensor<32xf32>, tensor<4x8xf32>) {
  %a = nn.exp %x {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %f = nn.reshape %a {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<32xf32>
  %u = nn.log %f {nn.pass = #nn.pass<forward>} : (tensor<32xf32>) -> tensor<32xf32>
  %d = nn.mul %a, %g {nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %u, %d : tensor<32xf32>, tensor<4x8xf32>
}

// A permutation is another buffer: what is used stays.
// CHECK-LABEL: @permuted
// CHECK: %[[E:.*]] = nn.exp
// CHECK: nn.mul %[[E]], %{{.*}} {nn.pass = #backward}
func.func @permuted(%x: tensor<4x8xf32>, %g: tensor<4x8xf32>) -> (tensor<8x4xf32>, tensor<4x8xf32>) {
  %a = nn.exp %x {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %f = nn.permute %a {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %u = nn.log %f {nn.pass = #nn.pass<forward>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = nn.mul %a, %g {nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %u, %d : tensor<8x4xf32>, tensor<4x8xf32>
}

// What only the backward pass reads is reshaped there.
// CHECK-LABEL: @sunk
// CHECK: %[[E:.*]] = nn.exp
// CHECK-NEXT: nn.log %[[E]]
// CHECK-NEXT: nn.log
// CHECK-NEXT: %[[F:.*]] = nn.reshape %[[E]] {nn.pass = #backward}
// CHECK-NEXT: %[[R:.*]] = nn.reshape %[[F]] {nn.pass = #backward}
// CHECK-NEXT: nn.mul %[[R]], %{{.*}} {nn.pass = #backward}
func.func @sunk(%x: tensor<4x8xf32>, %g: tensor<2x16xf32>) -> (tensor<4x8xf32>, tensor<2x16xf32>) {
  %a = nn.exp %x {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %f = nn.reshape %a {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<32xf32>
  %r = nn.reshape %f {nn.pass = #nn.pass<forward>} : (tensor<32xf32>) -> tensor<2x16xf32>
  %u = nn.log %a {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %v = nn.log %u {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %d = nn.mul %r, %g {nn.pass = #nn.pass<backward>} : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
  return %v, %d : tensor<4x8xf32>, tensor<2x16xf32>
}

// One kernel would write both; the backward pass reads one.
// CHECK-LABEL: @both
// CHECK: %[[E:.*]] = nn.exp
// CHECK-NEXT: %[[F:.*]] = nn.reshape %[[E]] {nn.pass = #forward}
// CHECK-NEXT: nn.log %[[F]]
// CHECK: nn.mul %[[E]], %{{.*}} {nn.pass = #backward}
// CHECK: %[[R:.*]] = nn.reshape %[[E]] {nn.pass = #backward}
// CHECK-NEXT: nn.mul %[[R]], %{{.*}} {nn.pass = #backward}
func.func @both(%x: tensor<4x8xf32>, %g: tensor<4x8xf32>, %h: tensor<32xf32>) -> (tensor<32xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<32xf32>) {
  %a = nn.exp %x {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %f = nn.reshape %a {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<32xf32>
  %u = nn.log %f {nn.pass = #nn.pass<forward>} : (tensor<32xf32>) -> tensor<32xf32>
  %v = nn.log %a {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %d = nn.mul %a, %g {nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %e = nn.mul %f, %h {nn.pass = #nn.pass<backward>} : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  return %u, %v, %d, %e : tensor<32xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<32xf32>
}
