// RUN: tandem-opt %s --tandem-nn-to-linalg --tandem-kernels-to-loops --tandem-fast-math | FileCheck %s

// Not nnan and ninf. Integers have no flags.
// CHECK-LABEL: llvm.func internal @f_kernel_body
// CHECK: arith.addf %{{.*}}, %{{.*}} fastmath<nsz> : f32
func.func @f(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = nn.add %x, %x : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// What a loop carries is summed in any order; the terms are computed as they are written.
// CHECK-LABEL: llvm.func internal @sum_kernel_body
// CHECK: scf.for {{.*}} iter_args(%[[SUM:.*]] = %{{.*}}) -> (f32)
// CHECK: %[[TERM:.*]] = arith.addf %{{.*}}, %{{.*}} fastmath<nsz> : f32
// CHECK: arith.addf %{{.*}} fastmath<reassoc,nsz,contract> : f32
func.func @sum(%x: tensor<8x64xf32>) -> tensor<8xf32> {
  %0 = nn.add %x, %x : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = nn.sum %0 {dims = array<i64: 1>} : (tensor<8x64xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// A product that is such a term is fused with the sum, and no other is.
// CHECK-LABEL: llvm.func internal @squares_kernel_body
// CHECK: arith.mulf %{{.*}}, %{{.*}} fastmath<nsz> : f32
// CHECK: arith.mulf %{{.*}}, %{{.*}} fastmath<nsz,contract> : f32
// CHECK: arith.addf %{{.*}} fastmath<reassoc,nsz,contract> : f32
func.func @squares(%x: tensor<8x64xf32>) -> tensor<8xf32> {
  %0 = nn.mul %x, %x : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = nn.mul %0, %x : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = nn.sum %1 {dims = array<i64: 1>} : (tensor<8x64xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}
