// RUN: tandem-opt %s --tandem-decompose-nn --tandem-nn-to-linalg --tandem-kernels-to-loops | FileCheck %s

module attributes {sched.device = #sched.device<cuda>} {

// Nothing is reduced: an element is a thread's. One buffer that it reads, one
// that it writes, and where an index would be reported.
// CHECK-LABEL: llvm.func @flat_kernel_0(
// CHECK-SAME: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i64) attributes {nvvm.kernel}
// CHECK: nvvm.read.ptx.sreg.ctaid.x
// CHECK: scf.for
// CHECK-NOT: scf.for
// CHECK: math.exp
// CHECK: llvm.store
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.return
func.func @flat(%x: tensor<4x8x100xf32>) -> tensor<4x8x100xf32> {
  %0 = nn.exp %x : (tensor<4x8x100xf32>) -> tensor<4x8x100xf32>
  return %0 : tensor<4x8x100xf32>
}

// A row is a block's: its threads reduce by a tree, once for the largest
// element and once for the sum.
// CHECK-LABEL: llvm.func @softmax_kernel_0(
// CHECK: scf.for
// CHECK: scf.for {{.*}} iter_args
// CHECK: arith.maximumf
// CHECK: nvvm.barrier
// CHECK: scf.if
// CHECK: arith.maximumf
// CHECK: nvvm.barrier
// CHECK: scf.for {{.*}} iter_args
// CHECK: arith.addf
// CHECK: nvvm.barrier
// CHECK: llvm.return
func.func @softmax(%x: tensor<12x64xf32>) -> tensor<12x64xf32> {
  %0 = nn.softmax %x {dim = 1 : i64} : (tensor<12x64xf32>) -> tensor<12x64xf32>
  return %0 : tensor<12x64xf32>
}

// Sums over rows: each block has its own, in the scratch, and a second part
// adds them up in the order of blocks.
// CHECK-LABEL: llvm.func @columns_kernel_0(
// CHECK: nvvm.barrier
// CHECK: arith.addf
// CHECK-LABEL: llvm.func @columns_kernel_1(
// CHECK: scf.for
// CHECK: %[[BLOCKS:.*]] = arith.constant 128 : i64
// CHECK: scf.for {{.*}} to %[[BLOCKS]]
// CHECK: arith.addf
// CHECK: llvm.store
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.return
func.func @columns(%x: tensor<1000x64xf32>) -> tensor<64xf32> {
  %0 = nn.sum %x {dims = array<i64: 0>} : (tensor<1000x64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

}
