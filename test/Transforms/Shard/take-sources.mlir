// RUN: tandem-opt %s --tandem-take-sources | FileCheck %s

// Without a choice readers take what was saved, and no clone is left.
// CHECK-LABEL: @saved
// CHECK: %[[A:.*]] = nn.tanh
// CHECK-NEXT: nn.mul %{{.*}}, %[[A]]
// CHECK-NEXT: return
func.func @saved(%x: tensor<4xf32>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = nn.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
  %r = nn.tanh %x {nn.again} : (tensor<4xf32>) -> tensor<4xf32>
  %e = nn.either %a, %r : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = nn.mul %dy, %e : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %a, %g : tensor<4xf32>, tensor<4xf32>
}

// Clones of clones go as well, and so does a forward operator that only
// readers of its clone had. What another reader takes stays.
// CHECK-LABEL: @again
// CHECK: %[[A:.*]] = nn.tanh
// CHECK-NEXT: %[[Y:.*]] = nn.relu %[[A]] {nn.id = 2 : i64}
// CHECK-NEXT: %[[R:.*]] = nn.tanh {{.*}}nn.again
// CHECK-NEXT: %[[P:.*]] = nn.exp %[[R]] {nn.again
// CHECK-NEXT: %[[G:.*]] = nn.mul %{{.*}}, %[[P]]
// CHECK-NEXT: nn.mul %[[G]], %[[R]]
// CHECK-NEXT: return
func.func @again(%x: tensor<4xf32>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = nn.tanh %x {nn.id = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %b = nn.exp %a {nn.id = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %y = nn.relu %a {nn.id = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %0 = nn.tanh %x {nn.again, nn.id = 3 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.tanh %x {nn.again, nn.id = 4 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.either %a, %0, %1 {nn.id = 5 : i64, nn.source = 1 : i64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = nn.exp %2 {nn.again, nn.id = 6 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = nn.either %a, %1 {nn.id = 7 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = nn.exp %4 {nn.again, nn.id = 8 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %6 = nn.either %b, %3, %5 {nn.id = 9 : i64, nn.source = 1 : i64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %7 = nn.mul %dy, %6 {nn.id = 10 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %8 = nn.either %a, %0 {nn.id = 11 : i64, nn.source = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %9 = nn.mul %7, %8 {nn.id = 12 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y, %9 : tensor<4xf32>, tensor<4xf32>
}
