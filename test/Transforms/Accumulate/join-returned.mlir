// RUN: tandem-opt %s --tandem-join-returned | FileCheck %s
// RUN: tandem-opt %s --tandem-join-returned --tandem-form-loops --tandem-verify-accumulated

#mesh = #spmd.mesh<time accumulate = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @step(%x: tensor<4x2xf64, #spmd.form<#mesh, accumulate: gather(0)>> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<2x3xf64> {nn.role = #nn.role<parameter>, nn.name = "w"})
      -> (tensor<3xf64> {nn.role = #nn.role<output>, nn.name = "u"}) {
    // CHECK: %[[H:.*]] = nn.matmul
    %h = nn.matmul %x, %w {nn.pass = #nn.pass<forward>} : (tensor<4x2xf64, #spmd.form<#mesh, accumulate: gather(0)>>, tensor<2x3xf64>) -> tensor<4x3xf64, #spmd.form<#mesh, accumulate: gather(0)>>
    // CHECK: %[[M:.*]] = spmd.reform
    %s = nn.sum %h {dims = array<i64: 0>, nn.pass = #nn.pass<forward>} : (tensor<4x3xf64, #spmd.form<#mesh, accumulate: gather(0)>>) -> tensor<3xf64, #spmd.form<#mesh, accumulate: reduce>>
    %m = spmd.reform %s {nn.pass = #nn.pass<forward>} : tensor<3xf64, #spmd.form<#mesh, accumulate: reduce>> -> tensor<3xf64>
    // CHECK: %[[ALL:.*]] = spmd.reform %[[H]] {{.*}} -> tensor<4x3xf64>{{$}}
    // CHECK: %[[C:.*]] = nn.mul %[[ALL]], %[[M]]
    // CHECK: %[[T:.*]] = nn.sum %[[C]] {{.*}} -> tensor<3xf64>{{$}}
    // CHECK-NOT: spmd.reform
    // CHECK: return %[[T]]
    %c = nn.mul %h, %m {nn.pass = #nn.pass<forward>} : (tensor<4x3xf64, #spmd.form<#mesh, accumulate: gather(0)>>, tensor<3xf64>) -> tensor<4x3xf64, #spmd.form<#mesh, accumulate: gather(0)>>
    %t = nn.sum %c {dims = array<i64: 0>, nn.pass = #nn.pass<forward>} : (tensor<4x3xf64, #spmd.form<#mesh, accumulate: gather(0)>>) -> tensor<3xf64, #spmd.form<#mesh, accumulate: reduce>>
    %u = spmd.reform %t {nn.pass = #nn.pass<forward>} : tensor<3xf64, #spmd.form<#mesh, accumulate: reduce>> -> tensor<3xf64>
    return %u : tensor<3xf64>
  }
}
