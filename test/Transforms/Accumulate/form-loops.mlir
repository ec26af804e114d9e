// RUN: tandem-opt %s --tandem-form-loops --tandem-verify-accumulated --split-input-file --verify-diagnostics | FileCheck %s

#mesh = #spmd.mesh<time accumulate = 2>
module attributes {spmd.mesh = #mesh} {
  // An input has a dimension of iterations. What depends on arguments alone is
  // made in the loop; the sum leaves it.
  // CHECK-LABEL: func.func @step(
  // CHECK-SAME: %arg0: tensor<2x2x2xf64> {nn.batch_dim = 1 : i64
  // CHECK: spmd.iterated = 0 : i64}
  // CHECK: spmd.iterations = 2 : i64
  func.func @step(%x: tensor<4x2xf64, #spmd.form<#mesh, accumulate: gather(0)>> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %w: tensor<2xf64> {nn.role = #nn.role<parameter>, nn.name = "w"})
      -> (tensor<2xf64> {nn.role = #nn.role<output>, nn.name = "u"}) {
    // CHECK: %[[OWN:.*]] = spmd.enter %arg0 {{{.*}}spmd.loop = 0 : i64} : tensor<2x2x2xf64> -> tensor<2x2xf64>
    // CHECK: %[[E:.*]] = nn.exp %arg1 {{{.*}}spmd.loop = 0 : i64}
    %e = nn.exp %w {nn.pass = #nn.pass<forward>} : (tensor<2xf64>) -> tensor<2xf64>
    // CHECK: %[[Y:.*]] = nn.mul %[[OWN]], %[[E]] {{{.*}}spmd.loop = 0 : i64}
    %y = nn.mul %x, %e {nn.pass = #nn.pass<forward>} : (tensor<4x2xf64, #spmd.form<#mesh, accumulate: gather(0)>>, tensor<2xf64>) -> tensor<4x2xf64, #spmd.form<#mesh, accumulate: gather(0)>>
    // CHECK: %[[S:.*]] = nn.sum %[[Y]]
    %s = nn.sum %y {dims = array<i64: 0>, nn.pass = #nn.pass<forward>} : (tensor<4x2xf64, #spmd.form<#mesh, accumulate: gather(0)>>) -> tensor<2xf64, #spmd.form<#mesh, accumulate: reduce>>
    // CHECK: %[[T:.*]] = spmd.carry %[[S]] {{{.*}}spmd.loop = 0 : i64}
    %t = spmd.reform %s {nn.pass = #nn.pass<forward>} : tensor<2xf64, #spmd.form<#mesh, accumulate: reduce>> -> tensor<2xf64>
    // CHECK-NOT: spmd.loop
    // CHECK: nn.mul %[[T]], %arg1
    %u = nn.mul %t, %w {nn.pass = #nn.pass<forward>} : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
    return %u : tensor<2xf64>
  }
}

// -----

#mesh = #spmd.mesh<time accumulate = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @step(%x: tensor<4x2xf64, #spmd.form<#mesh, accumulate: gather(0)>> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<2x3xf64> {nn.role = #nn.role<parameter>, nn.name = "w"})
      -> (tensor<3xf64> {nn.role = #nn.role<output>, nn.name = "u"}) {
    %h = nn.matmul %x, %w {nn.pass = #nn.pass<forward>} : (tensor<4x2xf64, #spmd.form<#mesh, accumulate: gather(0)>>, tensor<2x3xf64>) -> tensor<4x3xf64, #spmd.form<#mesh, accumulate: gather(0)>>
    // expected-error @+1 {{accumulate=2: 'nn.sum' joins the batch: what iterations compute depends on its sum over all of them}}
    %s = nn.sum %h {dims = array<i64: 0>, nn.pass = #nn.pass<forward>} : (tensor<4x3xf64, #spmd.form<#mesh, accumulate: gather(0)>>) -> tensor<3xf64, #spmd.form<#mesh, accumulate: reduce>>
    %m = spmd.reform %s {nn.pass = #nn.pass<forward>} : tensor<3xf64, #spmd.form<#mesh, accumulate: reduce>> -> tensor<3xf64>
    %c = nn.mul %h, %m {nn.pass = #nn.pass<backward>} : (tensor<4x3xf64, #spmd.form<#mesh, accumulate: gather(0)>>, tensor<3xf64>) -> tensor<4x3xf64, #spmd.form<#mesh, accumulate: gather(0)>>
    %t = nn.sum %c {dims = array<i64: 0>, nn.pass = #nn.pass<backward>} : (tensor<4x3xf64, #spmd.form<#mesh, accumulate: gather(0)>>) -> tensor<3xf64, #spmd.form<#mesh, accumulate: reduce>>
    %u = spmd.reform %t {nn.pass = #nn.pass<backward>} : tensor<3xf64, #spmd.form<#mesh, accumulate: reduce>> -> tensor<3xf64>
    return %u : tensor<3xf64>
  }
}
