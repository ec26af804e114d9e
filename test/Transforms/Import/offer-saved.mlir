// RUN: tandem-opt %s --tandem-offer-saved | FileCheck %s

// What may be left to be summed, and a region makes again, is to be had of the
// forward pass: a product, and a view of it. Other operators are not, nor is
// what the forward pass does not compute.
// CHECK-LABEL: @offer
// CHECK: %[[A:.*]] = nn.matmul %{{.*}} {nn.id = 0 : i64, nn.pass = #forward}
// CHECK: %[[B:.*]] = nn.reshape %[[A]]
// CHECK: %[[MADE:.*]] = nn.matmul {{.*}}nn.again
// CHECK-NEXT: %[[E:.*]] = nn.either %[[A]], %[[MADE]] {nn.again, nn.id = 9 : i64, nn.pass = #backward}
// CHECK-NEXT: %[[VIEW:.*]] = nn.reshape %[[E]]
// CHECK-NEXT: %[[F:.*]] = nn.either %[[B]], %[[VIEW]] {nn.again, nn.id = 10 : i64, nn.pass = #backward}
// CHECK-NEXT: %[[T:.*]] = nn.tanh %[[F]] {nn.again
// CHECK-NEXT: nn.mul %[[T]], %[[F]]
// CHECK-NEXT: %[[OTHER:.*]] = nn.matmul {{.*}}nn.again
// CHECK-NEXT: nn.neg %[[OTHER]]
// CHECK-NOT: nn.either
func.func @offer(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %v: tensor<8x8xf32>) -> (tensor<24xf32>, tensor<24xf32>, tensor<4x8xf32>) {
  %a = nn.matmul %x, %w {nn.id = 0 : i64, nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %b = nn.reshape %a {nn.id = 1 : i64, nn.pass = #nn.pass<forward>} : (tensor<4x6xf32>) -> tensor<24xf32>
  %t = nn.tanh %b {nn.id = 2 : i64, nn.pass = #nn.pass<forward>} : (tensor<24xf32>) -> tensor<24xf32>
  %0 = nn.matmul %x, %w {nn.again, nn.id = 3 : i64, nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %1 = nn.reshape %0 {nn.again, nn.id = 4 : i64, nn.pass = #nn.pass<backward>} : (tensor<4x6xf32>) -> tensor<24xf32>
  %2 = nn.tanh %1 {nn.again, nn.id = 5 : i64, nn.pass = #nn.pass<backward>} : (tensor<24xf32>) -> tensor<24xf32>
  %3 = nn.mul %2, %1 {nn.id = 6 : i64, nn.pass = #nn.pass<backward>} : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>
  %4 = nn.matmul %x, %v {nn.again, nn.id = 7 : i64, nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %5 = nn.neg %4 {nn.id = 8 : i64, nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %t, %3, %5 : tensor<24xf32>, tensor<24xf32>, tensor<4x8xf32>
}
