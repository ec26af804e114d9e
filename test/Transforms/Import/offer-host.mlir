// RUN: tandem-opt %s '--tandem-offer-recomputation=host' | FileCheck %s
// RUN: tandem-opt %s '--tandem-offer-recomputation=host' --tandem-take-sources | FileCheck %s --check-prefix=SAVED
// RUN: tandem-opt %s '--tandem-offer-recomputation=host' -o %t.mlir
// RUN: tandem-interpret %t.mlir --entry chain --compare %s

// What the backward pass reads is sent behind its last reader of the forward
// pass, and fetched in front of its first one of the backward pass. The sum of
// a row is 32 times smaller and stays.
// CHECK-LABEL: @chain
// CHECK: %[[A:.*]] = nn.mul %arg0, %arg1
// CHECK-NEXT: %[[B:.*]] = nn.exp %[[A]]
// CHECK-NEXT: %[[HA:.*]] = nn.to_host %[[A]] {nn.again, nn.pass = #forward}
// CHECK-NEXT: nn.sum
// CHECK-NEXT: %[[C:.*]] = nn.tanh %[[B]]
// CHECK-NEXT: %[[HB:.*]] = nn.to_host %[[B]] {nn.again, nn.pass = #forward}
// CHECK-DAG: %[[FA:.*]] = nn.from_host %[[HA]] {nn.again, nn.pass = #backward}
// CHECK-DAG: %[[FB:.*]] = nn.from_host %[[HB]] {nn.again, nn.pass = #backward}
// CHECK: nn.either %[[B]], {{.*}}%[[FB]] {nn.pass
// CHECK: nn.either %[[A]], {{.*}}%[[FA]] {nn.pass

// SAVED-NOT: host
func.func @chain(%x: tensor<4x64xf32> {nn.role = #nn.role<input>}, %w: tensor<4x64xf32> {nn.role = #nn.role<parameter>}, %dy: tensor<4x64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %a = nn.mul %x, %w {nn.pass = #nn.pass<forward>} : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %b = nn.exp %a {nn.pass = #nn.pass<forward>} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %s = nn.sum %b {dims = array<i64: 1>, nn.pass = #nn.pass<forward>} : (tensor<4x64xf32>) -> tensor<4xf32>
  %c = nn.tanh %b {nn.pass = #nn.pass<forward>} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %g = nn.mul %dy, %b {nn.pass = #nn.pass<backward>} : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %r = nn.reshape %s {nn.pass = #nn.pass<backward>} : (tensor<4xf32>) -> tensor<4x1xf32>
  %t = nn.mul %g, %r {nn.pass = #nn.pass<backward>} : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  %h = nn.mul %t, %a {nn.pass = #nn.pass<backward>} : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  return %c, %h : tensor<4x64xf32>, tensor<4x64xf32>
}

// A copy begins two library calls in front of its reader, and is held from there on.
// CHECK-LABEL: @beside
// CHECK: nn.matmul
// CHECK-NEXT: nn.from_host
// CHECK-NEXT: nn.matmul
// CHECK-NEXT: nn.matmul
// CHECK: nn.mul
func.func @beside(%x: tensor<64x64xf32> {nn.role = #nn.role<input>}, %w: tensor<64x64xf32> {nn.role = #nn.role<parameter>}, %dy: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %a = nn.exp %x {nn.pass = #nn.pass<forward>} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %m1 = nn.matmul %dy, %w {nn.pass = #nn.pass<backward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %m2 = nn.matmul %m1, %w {nn.pass = #nn.pass<backward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %m3 = nn.matmul %m2, %w {nn.pass = #nn.pass<backward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h = nn.mul %m3, %a {nn.pass = #nn.pass<backward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %h : tensor<64x64xf32>
}
