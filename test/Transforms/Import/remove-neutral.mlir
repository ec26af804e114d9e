// RUN: tandem-opt %s --tandem-remove-neutral | FileCheck %s

// CHECK-LABEL: @neutral
// CHECK-NOT: nn.add
// CHECK-NOT: nn.mul
// CHECK-NOT: nn.div
// CHECK: %[[KEPT:.*]] = nn.sub %{{.*}}, %arg0
// CHECK: return %arg0, %[[KEPT]]
func.func @neutral(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = nn.constant dense<0.0> : tensor<f32> -> tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32> -> tensor<f32>
  %0 = nn.add %zero, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.mul %0, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = nn.div %1, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = nn.sub %zero, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %2, %3 : tensor<4xf32>, tensor<4xf32>
}
