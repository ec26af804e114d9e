// RUN: tandem-interpret %s --entry whole --print-results | FileCheck %s
// RUN: tandem-interpret %s --entry split --print-results | FileCheck %s
// RUN: tandem-interpret %s --entry local --print-results | FileCheck %s

// One function on one device, with forms, and on per-device shapes: one meaning.
// CHECK: result/0 : tensor<4x2xf64> sum -0.478585, sum of magnitudes 4.84367, first -1.16059 -0.0779086 -0.140882 0.527313
#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @whole(%x: tensor<8x4xf64>, %y: tensor<8x2xf64>) -> tensor<4x2xf64> {
    %0 = nn.permute %x {permutation = array<i64: 1, 0>} : (tensor<8x4xf64>) -> tensor<4x8xf64>
    %1 = nn.matmul %0, %y : (tensor<4x8xf64>, tensor<8x2xf64>) -> tensor<4x2xf64>
    return %1 : tensor<4x2xf64>
  }

  func.func @split(%x: tensor<8x4xf64, #spmd.form<#mesh, data: gather(0), micro: gather(0)>>,
                   %y: tensor<8x2xf64, #spmd.form<#mesh, data: gather(0), micro: gather(0)>>) -> tensor<4x2xf64> {
    %0 = nn.permute %x {permutation = array<i64: 1, 0>} : (tensor<8x4xf64, #spmd.form<#mesh, data: gather(0), micro: gather(0)>>) -> tensor<4x8xf64, #spmd.form<#mesh, data: gather(1), micro: gather(1)>>
    %1 = nn.matmul %0, %y : (tensor<4x8xf64, #spmd.form<#mesh, data: gather(1), micro: gather(1)>>, tensor<8x2xf64, #spmd.form<#mesh, data: gather(0), micro: gather(0)>>) -> tensor<4x2xf64, #spmd.form<#mesh, data: reduce, micro: reduce>>
    %2 = spmd.reform %1 : tensor<4x2xf64, #spmd.form<#mesh, data: reduce, micro: reduce>> -> tensor<4x2xf64, #spmd.form<#mesh, data: reduce>>
    %3 = spmd.reform %2 : tensor<4x2xf64, #spmd.form<#mesh, data: reduce>> -> tensor<4x2xf64>
    return %3 : tensor<4x2xf64>
  }

  func.func @local(%x: tensor<4x4xf64, #spmd.form<#mesh, micro: gather(0)>> {spmd.layout = tensor<8x4xf64, #spmd.form<#mesh, data: gather(0), micro: gather(0)>>},
                   %y: tensor<4x2xf64, #spmd.form<#mesh, micro: gather(0)>> {spmd.layout = tensor<8x2xf64, #spmd.form<#mesh, data: gather(0), micro: gather(0)>>})
      -> (tensor<4x2xf64> {spmd.layout = tensor<4x2xf64>}) {
    %0 = nn.permute %x {permutation = array<i64: 1, 0>} : (tensor<4x4xf64, #spmd.form<#mesh, micro: gather(0)>>) -> tensor<4x4xf64, #spmd.form<#mesh, micro: gather(1)>>
    %1 = nn.matmul %0, %y : (tensor<4x4xf64, #spmd.form<#mesh, micro: gather(1)>>, tensor<4x2xf64, #spmd.form<#mesh, micro: gather(0)>>) -> tensor<4x2xf64, #spmd.form<#mesh, micro: reduce>>
    %2 = spmd.reform %1 : tensor<4x2xf64, #spmd.form<#mesh, micro: reduce>> -> tensor<4x2xf64>
    %3 = spmd.all_reduce %2 over ["data"] : tensor<4x2xf64> -> tensor<4x2xf64>
    return %3 : tensor<4x2xf64>
  }
}
