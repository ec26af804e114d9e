// RUN: tandem-opt %s --tandem-nn-to-linalg --tandem-kernels-to-loops --tandem-fast-math | FileCheck %s

// Not nnan and ninf. Integers have no flags.
// CHECK: arith.addf %{{.*}}, %{{.*}} fastmath<reassoc,nsz,contract> : f32
func.func @f(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = nn.add %x, %x : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
