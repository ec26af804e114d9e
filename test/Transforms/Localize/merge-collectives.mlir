// RUN: tandem-opt %s --tandem-merge-collectives | FileCheck %s

#mesh = #spmd.mesh<data = 2, model = 2>
module attributes {spmd.mesh = #mesh} {
  // A sum has no order; the axes come in the order of the mesh.
  // CHECK-LABEL: func.func @sum
  // CHECK-NEXT: spmd.all_reduce %arg0 over ["data", "model"] {nn.pass = #backward}
  // CHECK-NEXT: return
  func.func @sum(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = spmd.all_reduce %x over ["model"] {nn.pass = #nn.pass<backward>} : tensor<8xf32> -> tensor<8xf32>
    %1 = spmd.all_reduce %0 over ["data"] {nn.pass = #nn.pass<backward>} : tensor<8xf32> -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }

  // The minor axis is gathered first.
  // CHECK-LABEL: func.func @gather
  // CHECK-NEXT: spmd.all_gather %arg0 over ["data", "model"] dim 0 : tensor<2xf32> -> tensor<8xf32>
  // CHECK-NEXT: return
  func.func @gather(%x: tensor<2xf32>) -> tensor<8xf32> {
    %0 = spmd.all_gather %x over ["model"] dim 0 : tensor<2xf32> -> tensor<4xf32>
    %1 = spmd.all_gather %0 over ["data"] dim 0 : tensor<4xf32> -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }

  // The major axis is scattered first.
  // CHECK-LABEL: func.func @scatter
  // CHECK-NEXT: spmd.reduce_scatter %arg0 over ["data", "model"] dim 0 : tensor<8xf32> -> tensor<2xf32>
  // CHECK-NEXT: return
  func.func @scatter(%x: tensor<8xf32>) -> tensor<2xf32> {
    %0 = spmd.reduce_scatter %x over ["data"] dim 0 : tensor<8xf32> -> tensor<4xf32>
    %1 = spmd.reduce_scatter %0 over ["model"] dim 0 : tensor<4xf32> -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }

  // Another order of members, another dimension, another reader, another pass.
  // CHECK-LABEL: func.func @not
  // CHECK-COUNT-8: spmd.all_{{reduce|gather}}
  func.func @not(%x: tensor<2x2xf32>) -> (tensor<8x2xf32>, tensor<4x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
    %0 = spmd.all_gather %x over ["data"] dim 0 : tensor<2x2xf32> -> tensor<4x2xf32>
    %1 = spmd.all_gather %0 over ["model"] dim 0 : tensor<4x2xf32> -> tensor<8x2xf32>
    %2 = spmd.all_gather %x over ["model"] dim 0 : tensor<2x2xf32> -> tensor<4x2xf32>
    %3 = spmd.all_gather %2 over ["data"] dim 1 : tensor<4x2xf32> -> tensor<4x4xf32>
    %4 = spmd.all_reduce %x over ["data"] : tensor<2x2xf32> -> tensor<2x2xf32>
    %5 = spmd.all_reduce %4 over ["model"] : tensor<2x2xf32> -> tensor<2x2xf32>
    %6 = spmd.all_reduce %x over ["data"] {nn.pass = #nn.pass<forward>} : tensor<2x2xf32> -> tensor<2x2xf32>
    %7 = spmd.all_reduce %6 over ["model"] {nn.pass = #nn.pass<backward>} : tensor<2x2xf32> -> tensor<2x2xf32>
    return %1, %3, %4, %5, %7 : tensor<8x2xf32>, tensor<4x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
  }
}
