// RUN: tandem-opt %s --tandem-recompute-cheap | FileCheck %s

// The activation is held for its own gradient: what follows from it is made
// again, a mask is drawn again from the same numbers, and neither is held.
// CHECK-LABEL: @activation
// CHECK: nn.matmul {{.*}}nn.pass = #forward
// CHECK: %[[HELD:.*]] = nn.matmul {{.*}}nn.pass = #forward
// CHECK: nn.gelu {{.*}}nn.pass = #forward
// CHECK: nn.philox {{.*}}nn.pass = #forward, ordinal = 3
// CHECK-DAG: %[[G:.*]] = nn.gelu none %[[HELD]] {{.*}}nn.pass = #backward
// CHECK-DAG: %[[R:.*]] = nn.philox {{.*}}nn.pass = #backward, ordinal = 3
// CHECK-DAG: %[[L:.*]] = nn.compare lt %[[R]], {{.*}}nn.pass = #backward
// CHECK-DAG: %[[M:.*]] = nn.convert %[[L]] {{.*}}nn.pass = #backward
// CHECK: %[[P:.*]] = nn.mul %[[G]], %[[M]] {{.*}}nn.pass = #backward
// CHECK: nn.matmul %[[P]], {{.*}}nn.pass = #backward
// CHECK: nn.gelu_backward {{.*}}%[[HELD]]
func.func @activation(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %g: tensor<4x4xf32>, %seed: tensor<i64>, %step: tensor<i64>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %i = nn.iota {nn.pass = #nn.pass<forward>} : tensor<16xi64>
  %j = nn.reshape %i {nn.pass = #nn.pass<forward>} : (tensor<16xi64>) -> tensor<4x4xi64>
  %c = nn.constant dense<7> : tensor<i64> {nn.pass = #nn.pass<forward>} -> tensor<i64>
  %0 = nn.matmul %x, %w {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = nn.matmul %0, %w {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = nn.gelu none %a {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = nn.philox %j, %seed, %step {ordinal = 3 : i64, nn.pass = #nn.pass<forward>} : (tensor<4x4xi64>, tensor<i64>, tensor<i64>) -> tensor<4x4xi64>
  %k = nn.compare lt %r, %c {nn.pass = #nn.pass<forward>} : (tensor<4x4xi64>, tensor<i64>) -> tensor<4x4xi1>
  %m = nn.convert %k {nn.pass = #nn.pass<forward>} : (tensor<4x4xi1>) -> tensor<4x4xf32>
  %d = nn.mul %b, %m {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = nn.matmul %d, %w {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %dw = nn.matmul %d, %g {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %da = nn.gelu_backward none %g, %a {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y, %dw, %da : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// What is held nowhere is not made of anything else: it stays as it is.
// CHECK-LABEL: @product
// CHECK: nn.exp {{.*}}nn.pass = #forward
// CHECK-NOT: nn.exp
func.func @product(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %g: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %a = nn.matmul %x, %w {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = nn.exp %a {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = nn.matmul %b, %w {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %dw = nn.matmul %b, %g {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y, %dw : tensor<4x4xf32>, tensor<4x4xf32>
}

// Scores of attention are much larger than queries and keys, which are held for
// their own gradients: they and their softmax are made again.
// CHECK-LABEL: @scores
// CHECK-SAME: %[[Q:.*]]: tensor<64x2xf32>, %[[K:.*]]: tensor<2x64xf32>, %[[V:.*]]: tensor<64x2xf32>
// CHECK-DAG: %[[S:.*]] = nn.matmul {{.*}}nn.pass = #backward{{.*}} -> tensor<64x64xf32>
// CHECK-DAG: %[[P:.*]] = nn.softmax %[[S]] {{.*}}nn.pass = #backward
// CHECK: nn.softmax_backward {{.*}}%[[P]]
func.func @scores(%q: tensor<64x2xf32>, %k: tensor<2x64xf32>, %v: tensor<64x2xf32>, %g: tensor<64x64xf32>) -> (tensor<64x2xf32>, tensor<64x64xf32>) {
  %s = nn.matmul %q, %k {nn.pass = #nn.pass<forward>} : (tensor<64x2xf32>, tensor<2x64xf32>) -> tensor<64x64xf32>
  %p = nn.softmax %s {dim = 1 : i64, safe = true, nn.pass = #nn.pass<forward>} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = nn.matmul %p, %v {nn.pass = #nn.pass<forward>} : (tensor<64x64xf32>, tensor<64x2xf32>) -> tensor<64x2xf32>
  %ds = nn.softmax_backward %g, %p {dim = 1 : i64, nn.pass = #nn.pass<backward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %y, %ds : tensor<64x2xf32>, tensor<64x64xf32>
}
