// RUN: tandem-opt %s --tandem-decompose-nn --tandem-nn-to-linalg --tandem-kernels-to-loops | FileCheck %s

// Equal shapes: one loop over all elements, or those of a part, which has
// whole multiples of 256.
// CHECK-LABEL: llvm.func internal @flat_kernel_body
// CHECK-SAME: llvm.noalias
// CHECK: %[[FIRST:[a-z0-9]+]]: i64
// CHECK: %[[END:[a-z0-9]+]]: i64
// CHECK: scf.for {{.*}} = %[[FIRST]] to %[[END]]
// CHECK-NOT: scf.for
// CHECK: math.exp
// CHECK: llvm.store
// CHECK: llvm.return
// CHECK-LABEL: llvm.func @flat_kernel(
// CHECK: %[[ZERO:.*]] = arith.constant 0 : i64
// CHECK: %[[COUNT:.*]] = arith.constant 3200 : i64
// CHECK: llvm.call @flat_kernel_body({{.*}}, %[[ZERO]], %[[COUNT]])
// CHECK-LABEL: llvm.func @flat_kernel_part(
// CHECK: arith.constant 13 : i64
// CHECK: arith.constant 256 : i64
// CHECK: llvm.call @flat_kernel_body(
func.func @flat(%x: tensor<4x8x100xf32>) -> tensor<4x8x100xf32> {
  %0 = nn.exp %x : (tensor<4x8x100xf32>) -> tensor<4x8x100xf32>
  return %0 : tensor<4x8x100xf32>
}

// Rows outside, and three loops over the columns: the sum, the sum of squares,
// the result. Leading dimensions are one loop.
// CHECK-LABEL: llvm.func internal @layer_norm_kernel_body
// CHECK: %[[FIRST:[a-z0-9]+]]: i64
// CHECK: %[[END:[a-z0-9]+]]: i64
// CHECK: scf.for {{.*}} = %[[FIRST]] to %[[END]]
// CHECK: scf.for {{.*}} iter_args
// CHECK: arith.addf
// CHECK: scf.for {{.*}} iter_args
// CHECK: arith.subf
// CHECK: scf.for
// CHECK-NOT: iter_args
// CHECK: llvm.store
// CHECK-NOT: scf.for
// CHECK: llvm.return
func.func @layer_norm(%x: tensor<3x4x64xf32>) -> tensor<3x4x64xf32> {
  %0:3 = nn.layer_norm %x {normalized_rank = 1 : i64, eps = 1.0e-5 : f64} : (tensor<3x4x64xf32>) -> (tensor<3x4x64xf32>, tensor<3x4x1xf32>, tensor<3x4x1xf32>)
  return %0#0 : tensor<3x4x64xf32>
}

// What costs much is kept for one row, on the stack.
// CHECK-LABEL: llvm.func internal @softmax_kernel_body
// CHECK: %[[BUFFER:.*]] = llvm.alloca
// CHECK-COUNT-1: math.exp
// CHECK: llvm.getelementptr inbounds %[[BUFFER]]
// CHECK: llvm.getelementptr inbounds %[[BUFFER]]
// CHECK-NOT: math.exp
// CHECK: llvm.return
func.func @softmax(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %0 = nn.softmax %x {dim = 1 : i64} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  return %0 : tensor<4x64xf32>
}

// Sums over rows are accumulated in the result, which begins with zeros. So few
// are not done in parts.
// CHECK-LABEL: llvm.func internal @columns_kernel_body
// CHECK: scf.for
// CHECK: llvm.store
// CHECK: scf.for
// CHECK: scf.for
// CHECK: %[[SOFAR:.*]] = llvm.load
// CHECK: arith.addf %[[SOFAR]]
// CHECK: llvm.store
// CHECK-NOT: @columns_kernel_part
// CHECK-LABEL: llvm.func internal @tables_kernel_body
func.func @columns(%x: tensor<4x64xf32>) -> tensor<64xf32> {
  %0 = nn.sum %x {dims = array<i64: 0>} : (tensor<4x64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// The check of each table's indices is one of the rows, not of the columns: the
// nest of three tables at a constant index is that of one.
// CHECK-COUNT-2: scf.for
// CHECK-NOT: scf.for
// CHECK: llvm.return
func.func @tables(%x: tensor<4x8x32xf32>, %a: tensor<64x32xf32>, %b: tensor<64x32xf32>, %c: tensor<64x32xf32>) -> tensor<4x8x32xf32> {
  %z = nn.constant dense<0> : tensor<i64> -> tensor<i64>
  %i = nn.expand %z : (tensor<i64>) -> tensor<4x8xi64>
  %0 = nn.embedding %a, %i : (tensor<64x32xf32>, tensor<4x8xi64>) -> tensor<4x8x32xf32>
  %1 = nn.add %x, %0 : (tensor<4x8x32xf32>, tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
  %2 = nn.embedding %b, %i : (tensor<64x32xf32>, tensor<4x8xi64>) -> tensor<4x8x32xf32>
  %3 = nn.add %1, %2 : (tensor<4x8x32xf32>, tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
  %4 = nn.embedding %c, %i : (tensor<64x32xf32>, tensor<4x8xi64>) -> tensor<4x8x32xf32>
  %5 = nn.add %3, %4 : (tensor<4x8x32xf32>, tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
  return %5 : tensor<4x8x32xf32>
}

// In memory bf16 is i16: no value of LLVM's has that type.
// CHECK-LABEL: llvm.func internal @narrow_kernel_body
// CHECK: llvm.load {{.*}} -> i16
// CHECK: arith.bitcast {{.*}} : i16 to bf16
// CHECK: arith.bitcast {{.*}} : bf16 to i16
// CHECK: llvm.store {{.*}} : i16
func.func @narrow(%x: tensor<64xbf16>) -> tensor<64xbf16> {
  %0 = nn.exp %x : (tensor<64xbf16>) -> tensor<64xbf16>
  return %0 : tensor<64xbf16>
}

// Parts have blocks of rows, each with sums of its own in the scratch, which one
// thread adds up in their order.
// CHECK-LABEL: llvm.func internal @blocks_kernel_body_0
// CHECK-SAME: %[[X:[a-z0-9]+]]: !llvm.ptr {llvm.noalias}, %[[Y:[a-z0-9]+]]: !llvm.ptr {llvm.noalias}, %[[SUMS:[a-z0-9]+]]: !llvm.ptr {llvm.noalias}, %[[FIRST:[a-z0-9]+]]: i64, %[[END:[a-z0-9]+]]: i64
// CHECK: scf.for %[[BLOCK:.*]] = %[[FIRST]] to %[[END]]
// CHECK: %[[ROW:.*]] = arith.muli %[[BLOCK]], %{{.*}}
// CHECK: %[[LAST:.*]] = arith.minsi
// CHECK: %[[OWN:.*]] = llvm.getelementptr inbounds %[[SUMS]]
// CHECK: scf.for
// CHECK: llvm.getelementptr inbounds %[[OWN]]
// CHECK: llvm.store
// CHECK: scf.for %{{.*}} = %[[ROW]] to %[[LAST]]
// CHECK: scf.for
// CHECK: llvm.getelementptr inbounds %[[OWN]]
// CHECK: arith.addf
// CHECK: llvm.store
// CHECK: llvm.return
// CHECK-LABEL: llvm.func internal @blocks_kernel_body_1
// CHECK: llvm.store
// CHECK: scf.for
// CHECK: scf.for
// CHECK: arith.addf
// CHECK: llvm.store
// CHECK-LABEL: llvm.func @blocks_kernel(
// CHECK: llvm.call @blocks_kernel_body_0(
// CHECK: llvm.call @blocks_kernel_body_1(
// CHECK-LABEL: llvm.func @blocks_kernel_phase(
// CHECK: llvm.mlir.global external constant @blocks_kernel_phases(dense<[2, 1]>
func.func @blocks(%x: tensor<600x64xf32>) -> tensor<64xf32> {
  %0 = nn.sum %x {dims = array<i64: 0>} : (tensor<600x64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// Columns are shared where there are many of them.
// CHECK-LABEL: llvm.func internal @many_columns_kernel_body
// CHECK: scf.for
// CHECK: scf.for %{{.*}} = %{{.*}} to %
// CHECK-LABEL: llvm.func @many_columns_kernel_part(
func.func @many_columns(%x: tensor<40x1025xf32>) -> tensor<1025xf32> {
  %0 = nn.sum %x {dims = array<i64: 0>} : (tensor<40x1025xf32>) -> tensor<1025xf32>
  return %0 : tensor<1025xf32>
}

// Numbers behind sums of different loops: blocks have that of the loop they are
// of, and the thread that adds them up makes the others.
// CHECK-LABEL: llvm.func internal @numbers_kernel_body_0
// CHECK: llvm.getelementptr inbounds %arg0
// CHECK-NOT: llvm.getelementptr inbounds %arg1
// CHECK-LABEL: llvm.func internal @numbers_kernel_body_1
// CHECK: scf.for
// CHECK: llvm.getelementptr inbounds %arg1
// CHECK: math.exp
// CHECK: llvm.return
// CHECK-LABEL: llvm.func @numbers_kernel(
func.func @numbers(%x: tensor<1003x32xf32>, %y: tensor<32xf32>, %z: tensor<4xf32>) -> tensor<f32> {
  %0 = nn.sum %x {dims = array<i64: 0, 1>} : (tensor<1003x32xf32>) -> tensor<f32>
  %1 = nn.exp %0 : (tensor<f32>) -> tensor<f32>
  %2 = nn.sum %y {dims = array<i64: 0>} : (tensor<32xf32>) -> tensor<f32>
  %3 = nn.exp %2 : (tensor<f32>) -> tensor<f32>
  %4 = nn.sum %z {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %5 = nn.exp %4 : (tensor<f32>) -> tensor<f32>
  %6 = nn.add %1, %3 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %7 = nn.add %6, %5 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %7 : tensor<f32>
}
