// RUN: tandem-opt %s --tandem-nn-to-linalg --tandem-kernels-to-loops --tandem-approximate-math | FileCheck %s

// CHECK-LABEL: llvm.func internal @single_kernel_body
// CHECK-NOT: math.exp
// CHECK: llvm.return
func.func @single(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = nn.exp %x : (tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// CHECK-LABEL: llvm.func internal @error_kernel_body
// CHECK-NOT: math.erf
// CHECK-NOT: arith.divf
// CHECK: math.copysign
// CHECK: llvm.return
func.func @error(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = nn.erf %x : (tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// f64 stays with the C library, and so do sin and cos, whose polynomials are
// wrong for large angles.
// CHECK-LABEL: llvm.func internal @exact_kernel_body
// CHECK-DAG: math.exp {{.*}} : f64
// CHECK-DAG: math.sin {{.*}} : f32
func.func @exact(%x: tensor<64xf64>, %y: tensor<64xf32>) -> (tensor<64xf64>, tensor<64xf32>) {
  %0 = nn.exp %x : (tensor<64xf64>) -> tensor<64xf64>
  %1 = nn.sin %y : (tensor<64xf32>) -> tensor<64xf32>
  return %0, %1 : tensor<64xf64>, tensor<64xf32>
}

// Rounded to nearest even by integer arithmetic, alike on every CPU.
// CHECK-LABEL: llvm.func internal @round_kernel_body
// CHECK-NOT: arith.truncf
// CHECK: llvm.return
func.func @round(%x: tensor<64xf32>) -> tensor<64xbf16> {
  %0 = nn.convert %x : (tensor<64xf32>) -> tensor<64xbf16>
  return %0 : tensor<64xbf16>
}
