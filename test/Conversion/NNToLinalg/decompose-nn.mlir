// RUN: tandem-opt %s --tandem-decompose-nn | FileCheck %s

// A row that is all -inf gives NaN.
// CHECK-LABEL: func.func @softmax
// CHECK: %[[MAX:.*]] = nn.max %arg0 {dims = array<i64: 1>, keepdim = true}
// CHECK-NEXT: nn.sub %arg0, %[[MAX]]
// CHECK-NEXT: nn.exp
// CHECK-NEXT: %[[SUM:.*]] = nn.sum
// CHECK-NEXT: nn.reciprocal %[[SUM]]
// CHECK-NEXT: nn.mul
// CHECK-NOT: nn.softmax
func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.softmax %x {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// A row that is all -inf: the maximum counts as 0, and a sum of 0 as 1.
// CHECK-LABEL: func.func @safe_softmax
// CHECK: nn.max %arg0 {dims = array<i64: 1>, keepdim = true}
// CHECK: nn.compare eq
// CHECK: nn.select
// CHECK: nn.sub
// CHECK: nn.exp
// CHECK: nn.sum
// CHECK: nn.select
// CHECK: nn.reciprocal
// CHECK: nn.mul
// CHECK-NOT: nn.softmax
func.func @safe_softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.softmax %x {dim = 1 : i64, safe = true} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// Computed in f32, rounded once.
// CHECK-LABEL: func.func @narrow
// CHECK: nn.convert %arg0 : (tensor<4x8xbf16>) -> tensor<4x8xf32>
// CHECK: nn.convert %arg1 : (tensor<4x8xbf16>) -> tensor<4x8xf32>
// CHECK: nn.sum {{.*}} : (tensor<4x8xf32>) -> tensor<4x1xf32>
// CHECK: %[[WIDE:.*]] = nn.mul {{.*}} -> tensor<4x8xf32>
// CHECK-NEXT: nn.convert %[[WIDE]] : (tensor<4x8xf32>) -> tensor<4x8xbf16>
func.func @narrow(%dy: tensor<4x8xbf16>, %y: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %0 = nn.softmax_backward %dy, %y {dim = 1 : i64} : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return %0 : tensor<4x8xbf16>
}

// Sums over the row for the input, over the rows for weight and bias.
// CHECK-LABEL: func.func @layer_norm_backward
// CHECK-COUNT-2: dims = array<i64: 1>, keepdim = true
// CHECK-COUNT-2: dims = array<i64: 0>}
func.func @layer_norm_backward(%dy: tensor<4x8xf32>, %x: tensor<4x8xf32>, %m: tensor<4x1xf32>, %r: tensor<4x1xf32>, %w: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0:3 = nn.layer_norm_backward %dy, %x, %m, %r, %w {normalized_rank = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
  return %0#0, %0#1, %0#2 : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
}
