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

// Rows of a softmax stay one behind the other, whatever is behind it: here the gradient of a cross entropy of (n, classes,
// positions), whose rows of ones and zeros are made in that order, too. The target alone is moved.
// CHECK-LABEL: @rows
// CHECK: %[[C:.*]] = nn.convert %arg0 {{.*}} -> tensor<2x3x5xf32>
// CHECK: %[[S:.*]] = nn.log_softmax %[[C]] {dim = 2 : i64
// CHECK: nn.permute %[[S]]
// CHECK: nn.reshape %arg1 {{.*}} -> tensor<2x1x3x1xi64>
// CHECK: %[[H:.*]] = nn.compare eq {{.*}} -> tensor<2x1x3x5xi1>
// CHECK: %[[O:.*]] = nn.select %[[H]]
// CHECK: %[[G:.*]] = nn.reshape %[[O]] {{.*}} -> tensor<2x3x5xf32>
// CHECK: %[[B:.*]] = nn.log_softmax_backward %[[G]], %[[S]] {dim = 2 : i64
// CHECK: nn.convert %[[B]]
// CHECK-NOT: nn.permute
// CHECK: return
func.func @rows(%x: tensor<2x3x5xbf16>, %t: tensor<2x1x1x3xi64>) -> (tensor<2x5x3xf32>, tensor<2x3x5xbf16>) {
  %0 = nn.permute %x {permutation = array<i64: 0, 2, 1>, nn.pass = #nn.pass<forward>} : (tensor<2x3x5xbf16>) -> tensor<2x5x3xbf16>
  %1 = nn.convert %0 {nn.pass = #nn.pass<forward>} : (tensor<2x5x3xbf16>) -> tensor<2x5x3xf32>
  %2 = nn.log_softmax %1 {dim = 1, nn.pass = #nn.pass<forward>} : (tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  %3 = nn.iota {nn.pass = #nn.pass<backward>} : tensor<5xi64>
  %4 = nn.reshape %3 {nn.pass = #nn.pass<backward>} : (tensor<5xi64>) -> tensor<1x5x1x1xi64>
  %5 = nn.compare eq %4, %t {nn.pass = #nn.pass<backward>} : (tensor<1x5x1x1xi64>, tensor<2x1x1x3xi64>) -> tensor<2x5x1x3xi1>
  %6 = nn.constant dense<1.0> : tensor<f32> {nn.pass = #nn.pass<backward>} -> tensor<f32>
  %7 = nn.constant dense<0.0> : tensor<f32> {nn.pass = #nn.pass<backward>} -> tensor<f32>
  %8 = nn.select %5, %6, %7 {nn.pass = #nn.pass<backward>} : (tensor<2x5x1x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x5x1x3xf32>
  %9 = nn.reshape %8 {nn.pass = #nn.pass<backward>} : (tensor<2x5x1x3xf32>) -> tensor<2x5x3xf32>
  %10 = nn.log_softmax_backward %9, %2 {dim = 1, nn.pass = #nn.pass<backward>} : (tensor<2x5x3xf32>, tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  %11 = nn.convert %10 {nn.pass = #nn.pass<backward>} : (tensor<2x5x3xf32>) -> tensor<2x5x3xbf16>
  %12 = nn.permute %11 {permutation = array<i64: 0, 2, 1>, nn.pass = #nn.pass<backward>} : (tensor<2x5x3xbf16>) -> tensor<2x3x5xbf16>
  return %2, %12 : tensor<2x5x3xf32>, tensor<2x3x5xbf16>
}

// A conversion between permutations goes before them, unless another reads it, too: there would be two of it.
// CHECK-LABEL: @conversions
// CHECK-NEXT: %[[C:.*]] = nn.convert %arg0 {{.*}} -> tensor<2x3x5xf32>
// CHECK-NEXT: %[[P:.*]] = nn.permute %arg1
// CHECK-NEXT: %[[D:.*]] = nn.convert %[[P]]
// CHECK-NEXT: %[[Q:.*]] = nn.permute %[[D]]
// CHECK-NEXT: %[[R:.*]] = nn.permute %[[C]] {{.*}}array<i64: 2, 0, 1>
// CHECK-NEXT: return %[[C]], %[[D]], %[[Q]], %[[R]]
func.func @conversions(%x: tensor<2x3x5xbf16>, %y: tensor<2x3x5xbf16>) -> (tensor<2x3x5xf32>, tensor<2x5x3xf32>, tensor<2x3x5xf32>, tensor<5x2x3xf32>) {
  %0 = nn.permute %x {permutation = array<i64: 0, 2, 1>, nn.pass = #nn.pass<forward>} : (tensor<2x3x5xbf16>) -> tensor<2x5x3xbf16>
  %1 = nn.convert %0 {nn.pass = #nn.pass<forward>} : (tensor<2x5x3xbf16>) -> tensor<2x5x3xf32>
  %2 = nn.permute %1 {permutation = array<i64: 0, 2, 1>, nn.pass = #nn.pass<forward>} : (tensor<2x5x3xf32>) -> tensor<2x3x5xf32>
  %3 = nn.permute %y {permutation = array<i64: 0, 2, 1>, nn.pass = #nn.pass<forward>} : (tensor<2x3x5xbf16>) -> tensor<2x5x3xbf16>
  %4 = nn.convert %3 {nn.pass = #nn.pass<forward>} : (tensor<2x5x3xbf16>) -> tensor<2x5x3xf32>
  %5 = nn.permute %4 {permutation = array<i64: 0, 2, 1>, nn.pass = #nn.pass<forward>} : (tensor<2x5x3xf32>) -> tensor<2x3x5xf32>
  %6 = nn.permute %1 {permutation = array<i64: 1, 0, 2>, nn.pass = #nn.pass<forward>} : (tensor<2x5x3xf32>) -> tensor<5x2x3xf32>
  return %2, %4, %5, %6 : tensor<2x3x5xf32>, tensor<2x5x3xf32>, tensor<2x3x5xf32>, tensor<5x2x3xf32>
}

// A permutation that brings rows together stays before them.
// CHECK-LABEL: @not_rows
// CHECK-NEXT: nn.permute
// CHECK-NEXT: nn.softmax
func.func @not_rows(%x: tensor<2x5x3xf32>) -> tensor<2x3x5xf32> {
  %0 = nn.permute %x {permutation = array<i64: 0, 2, 1>, nn.pass = #nn.pass<forward>} : (tensor<2x5x3xf32>) -> tensor<2x3x5xf32>
  %1 = nn.softmax %0 {dim = 2, nn.pass = #nn.pass<forward>} : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  return %1 : tensor<2x3x5xf32>
}

// What is made of less is made in the order that is asked for, also behind a dimension that is taken apart.
// CHECK-LABEL: @makes_more
// CHECK-NEXT: nn.reshape %arg1 {{.*}} -> tensor<1x5xf32>
// CHECK-NEXT: nn.reshape %arg0 {{.*}} -> tensor<6x1xf32>
// CHECK-NEXT: nn.mul {{.*}} -> tensor<6x5xf32>
// CHECK-NEXT: nn.reshape {{.*}} -> tensor<2x3x5xf32>
// CHECK-NEXT: return
func.func @makes_more(%x: tensor<1x6xf32>, %y: tensor<5x1xf32>) -> tensor<2x3x5xf32> {
  %0 = nn.mul %y, %x {nn.pass = #nn.pass<forward>} : (tensor<5x1xf32>, tensor<1x6xf32>) -> tensor<5x6xf32>
  %1 = nn.reshape %0 {nn.pass = #nn.pass<forward>} : (tensor<5x6xf32>) -> tensor<5x2x3xf32>
  %2 = nn.permute %1 {permutation = array<i64: 1, 2, 0>, nn.pass = #nn.pass<forward>} : (tensor<5x2x3xf32>) -> tensor<2x3x5xf32>
  return %2 : tensor<2x3x5xf32>
}

// A permutation that takes a dimension apart is left, and so is one of what is there already, or is read twice.
// CHECK-LABEL: @apart
// CHECK: nn.permute {{.*}} : (tensor<5x2x3xf32>) -> tensor<2x5x3xf32>
// CHECK: nn.mul %arg2
// CHECK-NEXT: nn.permute
// CHECK: nn.permute {{.*}} : (tensor<5x6xf32>) -> tensor<6x5xf32>
func.func @apart(%x: tensor<1x6xf32>, %y: tensor<5x1xf32>, %z: tensor<5x6xf32>)
    -> (tensor<2x5x3xf32>, tensor<6x5xf32>, tensor<5x6xf32>, tensor<6x5xf32>) {
  %0 = nn.mul %y, %x {nn.pass = #nn.pass<forward>} : (tensor<5x1xf32>, tensor<1x6xf32>) -> tensor<5x6xf32>
  %1 = nn.reshape %0 {nn.pass = #nn.pass<forward>} : (tensor<5x6xf32>) -> tensor<5x2x3xf32>
  %2 = nn.permute %1 {permutation = array<i64: 1, 0, 2>, nn.pass = #nn.pass<forward>} : (tensor<5x2x3xf32>) -> tensor<2x5x3xf32>
  %3 = nn.mul %z, %x {nn.pass = #nn.pass<forward>} : (tensor<5x6xf32>, tensor<1x6xf32>) -> tensor<5x6xf32>
  %4 = nn.permute %3 {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<forward>} : (tensor<5x6xf32>) -> tensor<6x5xf32>
  %5 = nn.add %y, %x {nn.pass = #nn.pass<forward>} : (tensor<5x1xf32>, tensor<1x6xf32>) -> tensor<5x6xf32>
  %6 = nn.permute %5 {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<forward>} : (tensor<5x6xf32>) -> tensor<6x5xf32>
  return %2, %4, %5, %6 : tensor<2x5x3xf32>, tensor<6x5xf32>, tensor<5x6xf32>, tensor<6x5xf32>
}
