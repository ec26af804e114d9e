// RUN: tandem-opt %s --tandem-number-operators | FileCheck %s

// CHECK: nn.exp {{.*}}nn.id = 0 : i64
// CHECK: nn.log {{.*}}nn.id = 1 : i64
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.exp %x {nn.id = 7} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.log %0 : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
