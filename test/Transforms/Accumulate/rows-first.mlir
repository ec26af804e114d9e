// RUN: tandem-opt %s --tandem-rows-first --split-input-file | FileCheck %s

// Two batches in one: their rows lie side by side, and so do their halves.
// CHECK-LABEL: func.func @step(
func.func @step(%x: tensor<4x2xf64> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %y: tensor<4x2xf64> {nn.role = #nn.role<input>, nn.name = "y", nn.batch_dim = 0 : i64}, %w: tensor<2x3xf64> {nn.role = #nn.role<parameter>, nn.name = "w"})
    -> (tensor<4x3xf64> {nn.role = #nn.role<output>, nn.name = "u"}) {
  // CHECK: %[[X:.*]] = nn.reshape %arg0 {{.*}} -> tensor<4x1x2xf64>
  // CHECK: %[[Y:.*]] = nn.reshape %arg1 {{.*}} -> tensor<4x1x2xf64>
  // CHECK: %[[BOTH:.*]] = nn.cat %[[X]], %[[Y]] {dim = 1 : i64
  // CHECK: %[[ROWS:.*]] = nn.reshape %[[BOTH]] {{.*}} -> tensor<8x2xf64>
  %xy = nn.cat %x, %y {dim = 0 : i64, nn.pass = #nn.pass<forward>} : (tensor<4x2xf64>, tensor<4x2xf64>) -> tensor<8x2xf64>
  // CHECK: %[[H:.*]] = nn.matmul %[[ROWS]], %arg2
  %h = nn.matmul %xy, %w {nn.pass = #nn.pass<forward>} : (tensor<8x2xf64>, tensor<2x3xf64>) -> tensor<8x3xf64>
  // CHECK: %[[ALL:.*]] = nn.reshape %[[H]] {{.*}} -> tensor<4x2x3xf64>
  // CHECK: %[[PIECE:.*]] = nn.slice %[[ALL]] {dim = 1 : i64, nn.pass = #{{.*}}, start = 1 : i64, stop = 2 : i64}
  // CHECK: %[[U:.*]] = nn.reshape %[[PIECE]] {{.*}} -> tensor<4x3xf64>
  %u = nn.slice %h {dim = 0 : i64, start = 4 : i64, stop = 8 : i64, nn.pass = #nn.pass<forward>} : (tensor<8x3xf64>) -> tensor<4x3xf64>
  // CHECK: return %[[U]]
  return %u : tensor<4x3xf64>
}

// -----

// A sequence in front of the batch: what reads positions gets them as they were.
// CHECK-LABEL: func.func @step(
func.func @step(%x: tensor<3x4x2xf64> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 1 : i64})
    -> (tensor<12x2xf64> {nn.role = #nn.role<output>, nn.name = "u"}) {
  // CHECK: %[[P:.*]] = nn.permute {{.*}} -> tensor<1x4x3x2xf64>
  // CHECK: %[[M:.*]] = nn.reshape %[[P]] {{.*}} -> tensor<12x2xf64>
  %m = nn.reshape %x {nn.pass = #nn.pass<forward>} : (tensor<3x4x2xf64>) -> tensor<12x2xf64>
  // CHECK: %[[S:.*]] = nn.softmax %[[M]]
  // CHECK: %[[B:.*]] = nn.reshape %[[S]] {{.*}} -> tensor<4x3x1x2xf64>
  // CHECK: %[[BACK:.*]] = nn.permute %[[B]] {{.*}} -> tensor<3x4x1x2xf64>
  // CHECK: %[[U:.*]] = nn.reshape %[[BACK]] {{.*}} -> tensor<12x2xf64>
  %u = nn.softmax %m {dim = 1 : i64, nn.pass = #nn.pass<forward>} : (tensor<12x2xf64>) -> tensor<12x2xf64>
  // CHECK: return %[[U]]
  return %u : tensor<12x2xf64>
}

// -----

// Rows that move by one are in no place that all of them have.
// CHECK-LABEL: func.func @step(
func.func @step(%x: tensor<4x2xf64> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64})
    -> (tensor<3x2xf64> {nn.role = #nn.role<output>, nn.name = "u"}) {
  // CHECK-NOT: nn.reshape
  // CHECK: %[[U:.*]] = nn.slice %arg0 {dim = 0 : i64
  %u = nn.slice %x {dim = 0 : i64, start = 1 : i64, stop = 4 : i64, nn.pass = #nn.pass<forward>} : (tensor<4x2xf64>) -> tensor<3x2xf64>
  // CHECK-NEXT: return %[[U]]
  return %u : tensor<3x2xf64>
}

// -----

// A sequence as long as the batch: its positions are those of no row, though they
// are the same numbers.
// CHECK-LABEL: func.func @step(
func.func @step(%x: tensor<4x4xi64> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64})
    -> (tensor<4x4xi64> {nn.role = #nn.role<output>, nn.name = "u"}, tensor<4xi64> {nn.role = #nn.role<output>, nn.name = "v"}) {
  // CHECK-NOT: nn.permute
  %p = nn.iota {nn.pass = #nn.pass<forward>} : tensor<4xi64>
  %column = nn.reshape %p {nn.pass = #nn.pass<forward>} : (tensor<4xi64>) -> tensor<4x1xi64>
  %y = nn.add %x, %column {nn.pass = #nn.pass<forward>} : (tensor<4x4xi64>, tensor<4x1xi64>) -> tensor<4x4xi64>
  %row = nn.reshape %p {nn.pass = #nn.pass<forward>} : (tensor<4xi64>) -> tensor<1x4xi64>
  %z = nn.add %y, %row {nn.pass = #nn.pass<forward>} : (tensor<4x4xi64>, tensor<1x4xi64>) -> tensor<4x4xi64>
  // CHECK: nn.reshape %{{.*}} -> tensor<16xi64>
  %flat = nn.reshape %z {nn.pass = #nn.pass<forward>} : (tensor<4x4xi64>) -> tensor<16xi64>
  %u = nn.reshape %flat {nn.pass = #nn.pass<forward>} : (tensor<16xi64>) -> tensor<4x4xi64>
  %v = nn.sum %u {dims = array<i64: 0>, nn.pass = #nn.pass<forward>} : (tensor<4x4xi64>) -> tensor<4xi64>
  return %u, %v : tensor<4x4xi64>, tensor<4xi64>
}
