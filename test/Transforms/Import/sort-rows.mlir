// RUN: tandem-opt %s --tandem-sort-rows | FileCheck %s

// (sequence, batch, width): the batch comes first in the rows of the product,
// and second again in what its users see.
// CHECK-LABEL: @rows
// CHECK: %[[P:.*]] = nn.permute %arg0 {{.*}}permutation = array<i64: 1, 0, 2>
// CHECK: %[[R:.*]] = nn.reshape %[[P]] {{.*}} -> tensor<96x16xf32>
// CHECK: %[[M:.*]] = nn.matmul %[[R]], %arg1
// CHECK: %[[U:.*]] = nn.reshape %[[M]] {{.*}} -> tensor<16x6x4xf32>
// CHECK: nn.permute %[[U]] {{.*}}permutation = array<i64: 1, 0, 2>
// CHECK: return
func.func @rows(%x: tensor<6x16x16xf32> {nn.batch_dim = 1}, %w: tensor<16x4xf32>) -> tensor<6x16x4xf32> {
  %0 = nn.reshape %x {nn.pass = #nn.pass<forward>} : (tensor<6x16x16xf32>) -> tensor<96x16xf32>
  %1 = nn.matmul %0, %w {nn.pass = #nn.pass<forward>} : (tensor<96x16xf32>, tensor<16x4xf32>) -> tensor<96x4xf32>
  %2 = nn.reshape %1 {nn.pass = #nn.pass<forward>} : (tensor<96x4xf32>) -> tensor<6x16x4xf32>
  return %2 : tensor<6x16x4xf32>
}

// Attention with its weights: one reshape splits the batch from the heads and
// merges it with the positions. The batch is split off in front of the
// permutation, so that it comes first in the rows.
// CHECK-LABEL: @split
// CHECK: %[[S:.*]] = nn.reshape %arg0 {{.*}} -> tensor<16x4x6x5xf32>
// CHECK: %[[P:.*]] = nn.permute %[[S]] {{.*}}permutation = array<i64: 0, 2, 1, 3>
// CHECK: %[[R:.*]] = nn.reshape %[[P]] {{.*}} -> tensor<96x20xf32>
// CHECK: %[[M:.*]] = nn.matmul %[[R]], %arg1
// CHECK: %[[U:.*]] = nn.reshape %[[M]] {{.*}} -> tensor<16x6x8xf32>
// CHECK: nn.permute %[[U]] {{.*}}permutation = array<i64: 1, 0, 2>
func.func @split(%x: tensor<64x6x5xf32> {nn.batch_dim = 0}, %w: tensor<20x8xf32>) -> tensor<6x16x8xf32> {
  %0 = nn.permute %x {permutation = array<i64: 1, 0, 2>, nn.pass = #nn.pass<forward>} : (tensor<64x6x5xf32>) -> tensor<6x64x5xf32>
  %1 = nn.reshape %0 {nn.pass = #nn.pass<forward>} : (tensor<6x64x5xf32>) -> tensor<96x20xf32>
  %2 = nn.matmul %1, %w {nn.pass = #nn.pass<forward>} : (tensor<96x20xf32>, tensor<20x8xf32>) -> tensor<96x8xf32>
  %3 = nn.reshape %2 {nn.pass = #nn.pass<forward>} : (tensor<96x8xf32>) -> tensor<6x16x8xf32>
  return %3 : tensor<6x16x8xf32>
}

// CHECK-LABEL: @contraction
// CHECK: nn.permute %arg0 {{.*}}permutation = array<i64: 2, 1, 0>
// CHECK: nn.permute %arg1 {{.*}}permutation = array<i64: 1, 0, 2>
// CHECK: nn.matmul
func.func @contraction(%g: tensor<6x16x4xf32> {nn.batch_dim = 1}, %x: tensor<6x16x8xf32> {nn.batch_dim = 1}) -> tensor<4x8xf32> {
  %0 = nn.permute %g {permutation = array<i64: 2, 0, 1>, nn.pass = #nn.pass<backward>} : (tensor<6x16x4xf32>) -> tensor<4x6x16xf32>
  %1 = nn.reshape %0 {nn.pass = #nn.pass<backward>} : (tensor<4x6x16xf32>) -> tensor<4x96xf32>
  %2 = nn.reshape %x {nn.pass = #nn.pass<backward>} : (tensor<6x16x8xf32>) -> tensor<96x8xf32>
  %3 = nn.matmul %1, %2 {nn.pass = #nn.pass<backward>} : (tensor<4x96xf32>, tensor<96x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// CHECK-LABEL: @sum
// CHECK-NEXT: nn.sum %arg0 {dims = array<i64: 0, 1>
func.func @sum(%g: tensor<6x16x4xf32>) -> tensor<4xf32> {
  %0 = nn.reshape %g {nn.pass = #nn.pass<backward>} : (tensor<6x16x4xf32>) -> tensor<96x4xf32>
  %1 = nn.sum %0 {dims = array<i64: 0>, nn.pass = #nn.pass<backward>} : (tensor<96x4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// The batch is first already.
// CHECK-LABEL: @sorted
// CHECK-NEXT: nn.reshape
// CHECK-NEXT: nn.matmul
// CHECK-NEXT: return
func.func @sorted(%x: tensor<16x6x16xf32> {nn.batch_dim = 0}, %w: tensor<16x4xf32>) -> tensor<96x4xf32> {
  %0 = nn.reshape %x {nn.pass = #nn.pass<forward>} : (tensor<16x6x16xf32>) -> tensor<96x16xf32>
  %1 = nn.matmul %0, %w {nn.pass = #nn.pass<forward>} : (tensor<96x16xf32>, tensor<16x4xf32>) -> tensor<96x4xf32>
  return %1 : tensor<96x4xf32>
}
