// RUN: tandem-opt %s --tandem-merge-equal | FileCheck %s

// Equal within a pass becomes one; another pass keeps its own; random numbers
// differ by ordinal; what nothing uses goes.
// CHECK-LABEL: @equal
// CHECK-COUNT-2: nn.exp
// CHECK-NOT: nn.exp
// CHECK-NOT: nn.log
// CHECK-COUNT-2: nn.philox
// CHECK-NOT: nn.philox
func.func @equal(%x: tensor<4xf32>, %i: tensor<4xi64>, %s: tensor<i64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi64>, tensor<4xi64>, tensor<4xi64>) {
  %0 = nn.exp %x {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.exp %x {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.exp %x {nn.pass = #nn.pass<backward>} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = nn.log %x {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = nn.log %3 {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  %5 = nn.philox %i, %s, %s {ordinal = 0, nn.pass = #nn.pass<forward>} : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  %6 = nn.philox %i, %s, %s {ordinal = 0, nn.pass = #nn.pass<forward>} : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  %7 = nn.philox %i, %s, %s {ordinal = 1, nn.pass = #nn.pass<forward>} : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  return %0, %1, %2, %5, %6, %7 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi64>, tensor<4xi64>, tensor<4xi64>
}

// What is made again stays as it is.
// CHECK-LABEL: @again
// CHECK-COUNT-3: nn.exp
func.func @again(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = nn.exp %x {nn.pass = #nn.pass<backward>} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.exp %x {nn.again, nn.pass = #nn.pass<backward>} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.exp %x {nn.again, nn.pass = #nn.pass<backward>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
