// RUN: tandem-opt %s --tandem-split-reforms | FileCheck %s --check-prefix=RATES
// RUN: sed 's/spmd.mesh = #mesh, .*{$/spmd.mesh = #mesh} {/' %s | tandem-opt --tandem-split-reforms | FileCheck %s --check-prefix=BYTES

// By bytes a sum over data costs what a slice over model, the sum of half and a gather do; by rates it is twice as
// dear where data is the slow axis.
// RATES-LABEL: func.func @sum
// RATES: %[[SLICE:.*]] = spmd.reform %{{.*}} -> tensor<1024x1024xf32, {{.*}}gather0_model>
// RATES-NEXT: %[[SUM:.*]] = spmd.reform %[[SLICE]] : {{.*}} -> tensor<1024x1024xf32, #gather0_model>
// RATES-NEXT: spmd.reform %[[SUM]] : {{.*}} -> tensor<1024x1024xf32>
// RATES-NEXT: return
// BYTES-LABEL: func.func @sum
// BYTES: spmd.reform %{{.*}} -> tensor<1024x1024xf32>
// BYTES-NEXT: return
#mesh = #spmd.mesh<data = 2, model = 2>
module attributes {spmd.mesh = #mesh, spmd.rates = {data = array<f64: 1.0e-4, 1.0e-9, 1.0e-4, 1.0e-9, 2.0e-4, 2.0e-9, 1.0e-4, 5.0e-10>, model = array<f64: 1.0e-5, 5.0e-11, 1.0e-5, 5.0e-11, 2.0e-5, 1.0e-10, 1.0e-5, 2.5e-11>}} {
  func.func @sum(%x: tensor<64x1024xf32, #spmd.form<#mesh, data: gather(0)>>) -> tensor<1024x1024xf32> {
    %t = nn.permute %x {permutation = array<i64: 1, 0>} : (tensor<64x1024xf32, #spmd.form<#mesh, data: gather(0)>>) -> tensor<1024x64xf32, #spmd.form<#mesh, data: gather(1)>>
    %g = nn.matmul %t, %x : (tensor<1024x64xf32, #spmd.form<#mesh, data: gather(1)>>, tensor<64x1024xf32, #spmd.form<#mesh, data: gather(0)>>) -> tensor<1024x1024xf32, #spmd.form<#mesh, data: reduce>>
    %0 = spmd.reform %g : tensor<1024x1024xf32, #spmd.form<#mesh, data: reduce>> -> tensor<1024x1024xf32>
    return %0 : tensor<1024x1024xf32>
  }
}
