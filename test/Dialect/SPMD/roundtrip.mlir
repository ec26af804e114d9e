// RUN: tandem-opt %s | tandem-opt | FileCheck %s

#mesh = #spmd.mesh<data = 4, model = 2, time micro = 2>
// CHECK: #mesh = #spmd.mesh<data = 4, model = 2, time micro = 2>
// CHECK: spmd.mesh = #mesh
module attributes {spmd.mesh = #mesh} {
  // CHECK: #gather0_data_gather0_micro
  func.func @f(%x: tensor<16x8xf32, #spmd.form<#mesh, data: gather(0), micro: gather(0)>>,
               %g: tensor<8x4xf32, #spmd.form<#mesh, data: reduce>>) {
    // CHECK: spmd.reform
    %0 = spmd.reform %g : tensor<8x4xf32, #spmd.form<#mesh, data: reduce>> -> tensor<8x4xf32>
    // CHECK: spmd.all_gather %{{.*}} over ["data", "model"] dim 0
    %1 = spmd.all_gather %0 over ["data", "model"] dim 0 : tensor<8x4xf32> -> tensor<64x4xf32>
    // CHECK: spmd.all_to_all %{{.*}} over ["model"] split 0 concat 1
    %2 = spmd.all_to_all %0 over ["model"] split 0 concat 1 : tensor<8x4xf32> -> tensor<4x8xf32>
    // CHECK: spmd.coordinate "data" : tensor<i64>
    %3 = spmd.coordinate "data" : tensor<i64>
    return
  }
}
