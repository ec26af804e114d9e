// RUN: tandem-opt %s --tandem-nn-to-linalg --tandem-kernels-to-loops --tandem-kernels-to-llvm | FileCheck %s

// The hook for errors is in every kernel, and one in a code object.
// CHECK-DAG: llvm.mlir.global weak_odr @tandem_rt_report_index_hook
// CHECK-DAG: llvm.func internal @add_kernel_body
// CHECK-DAG: llvm.func @add_kernel(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr)
// CHECK-DAG: llvm.fadd
// CHECK-NOT: scf.
// CHECK-NOT: arith.
func.func @add(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {
  %0 = nn.add %x, %y : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
