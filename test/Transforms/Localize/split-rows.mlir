// RUN: not tandem-interpret %s 2>&1 | FileCheck %s
// RUN: tandem-opt %s --tandem-localize -o %t.mlir
// RUN: not tandem-interpret %t.mlir 2>&1 | FileCheck %s
// RUN: tandem-opt %t.mlir --tandem-duplex -o %t.duplex.mlir
// RUN: not tandem-interpret %t.duplex.mlir 2>&1 | FileCheck %s

// A row that no shard holds is looked up by the index that the user gave, and
// not by one of a shard's own, on each axis.
// CHECK: reads index 21, expected one in
#mesh = #spmd.mesh<data = 2, model = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @step(%w: tensor<16x4xf64, #spmd.form<#mesh, data: gather(0), model: gather(0), micro: gather(0)>> {nn.name = "w", nn.role = #nn.role<input>})
      -> (tensor<4x4xf64> {nn.role = #nn.role<output>}) {
    %i = nn.constant dense<[0, 21, 15, 3]> : tensor<4xi64> {nn.pass = #nn.pass<forward>} -> tensor<4xi64>
    %0 = nn.embedding %w, %i {nn.pass = #nn.pass<forward>} : (tensor<16x4xf64, #spmd.form<#mesh, data: gather(0), model: gather(0), micro: gather(0)>>, tensor<4xi64>) -> tensor<4x4xf64, #spmd.form<#mesh, data: reduce, model: reduce, micro: reduce>>
    %1 = spmd.reform %0 {nn.pass = #nn.pass<forward>} : tensor<4x4xf64, #spmd.form<#mesh, data: reduce, model: reduce, micro: reduce>> -> tensor<4x4xf64, #spmd.form<#mesh, data: reduce, model: reduce>>
    %2 = spmd.reform %1 {nn.pass = #nn.pass<forward>} : tensor<4x4xf64, #spmd.form<#mesh, data: reduce, model: reduce>> -> tensor<4x4xf64, #spmd.form<#mesh, data: reduce>>
    %3 = spmd.reform %2 {nn.pass = #nn.pass<forward>} : tensor<4x4xf64, #spmd.form<#mesh, data: reduce>> -> tensor<4x4xf64>
    return %3 : tensor<4x4xf64>
  }
}
