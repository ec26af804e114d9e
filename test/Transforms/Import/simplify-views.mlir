// RUN: tandem-opt %s --tandem-simplify-views | FileCheck %s

// CHECK-LABEL: @identity
// CHECK-NEXT: return %arg0
func.func @identity(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.reshape %x {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = nn.expand %0 {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = nn.convert %1 {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = nn.slice %2 {dim = 0, start = 0, stop = 4, nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = nn.permute %3 {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %5 = nn.permute %4 {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<forward>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return %5 : tensor<4x8xf32>
}

// CHECK-LABEL: @joined
// CHECK-NEXT: nn.reshape %arg0 {nn.pass = #backward} : (tensor<4x8xf32>) -> tensor<2x2x8xf32>
// CHECK-NEXT: return
func.func @joined(%x: tensor<4x8xf32>) -> tensor<2x2x8xf32> {
  %0 = nn.reshape %x {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<32xf32>
  %1 = nn.reshape %0 {nn.pass = #nn.pass<backward>} : (tensor<32xf32>) -> tensor<2x2x8xf32>
  return %1 : tensor<2x2x8xf32>
}

// A permutation of dimensions of size 1 moves nothing.
// CHECK-LABEL: @units
// CHECK-NEXT: nn.reshape {{.*}} -> tensor<1x4x8xf32>
func.func @units(%x: tensor<4x1x8xf32>) -> tensor<1x4x8xf32> {
  %0 = nn.permute %x {permutation = array<i64: 1, 0, 2>, nn.pass = #nn.pass<forward>} : (tensor<4x1x8xf32>) -> tensor<1x4x8xf32>
  return %0 : tensor<1x4x8xf32>
}

// Merged heads come apart before they are transposed.
// CHECK-LABEL: @heads
// CHECK-NEXT: nn.permute %arg0 {{.*}}permutation = array<i64: 0, 1, 3, 2>
// CHECK-NEXT: nn.reshape {{.*}} -> tensor<8x16x5xf32>
func.func @heads(%x: tensor<2x4x5x16xf32>) -> tensor<8x16x5xf32> {
  %0 = nn.reshape %x {nn.pass = #nn.pass<forward>} : (tensor<2x4x5x16xf32>) -> tensor<8x5x16xf32>
  %1 = nn.permute %0 {permutation = array<i64: 0, 2, 1>, nn.pass = #nn.pass<forward>} : (tensor<8x5x16xf32>) -> tensor<8x16x5xf32>
  return %1 : tensor<8x16x5xf32>
}

// CHECK-LABEL: @elementwise
// CHECK: nn.mul %arg0, %arg1 {{.*}} : (tensor<2x4x5xf32>, tensor<5xf32>) -> tensor<2x4x5xf32>
// CHECK-NEXT: nn.reshape {{.*}} -> tensor<8x5xf32>
func.func @elementwise(%x: tensor<2x4x5xf32>, %s: tensor<5xf32>) -> tensor<8x5xf32> {
  %0 = nn.reshape %x {nn.pass = #nn.pass<forward>} : (tensor<2x4x5xf32>) -> tensor<8x5xf32>
  %1 = nn.mul %0, %s {nn.pass = #nn.pass<forward>} : (tensor<8x5xf32>, tensor<5xf32>) -> tensor<8x5xf32>
  return %1 : tensor<8x5xf32>
}

// A merged dimension that the other operand has too stays merged.
// CHECK-LABEL: @not_elementwise
// CHECK-NEXT: nn.reshape
// CHECK-NEXT: nn.mul
func.func @not_elementwise(%x: tensor<2x4x5xf32>, %s: tensor<8x1xf32>) -> tensor<8x5xf32> {
  %0 = nn.reshape %x {nn.pass = #nn.pass<forward>} : (tensor<2x4x5xf32>) -> tensor<8x5xf32>
  %1 = nn.mul %0, %s {nn.pass = #nn.pass<forward>} : (tensor<8x5xf32>, tensor<8x1xf32>) -> tensor<8x5xf32>
  return %1 : tensor<8x5xf32>
}

// CHECK-LABEL: @broadcast
// CHECK-NEXT: nn.add %arg0, %arg1 {{.*}} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
func.func @broadcast(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = nn.expand %b {nn.pass = #nn.pass<forward>} : (tensor<8xf32>) -> tensor<4x8xf32>
  %1 = nn.add %x, %0 {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// Nothing else has the whole shape: the expansion stays.
// CHECK-LABEL: @not_broadcast
// CHECK-NEXT: nn.expand
func.func @not_broadcast(%b: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = nn.expand %b {nn.pass = #nn.pass<forward>} : (tensor<8xf32>) -> tensor<4x8xf32>
  %1 = nn.add %0, %0 {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
