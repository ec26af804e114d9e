// What a person may have edited before the stage: an error each, and no crash.
// RUN: tandem-opt %s --tandem-localize --split-input-file --verify-diagnostics

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{result 0 is 'reduce' on axis 'data', expected full or gather}}
  func.func @sum(%a: tensor<4xf32, #spmd.form<#mesh, data: gather(0)>>)
      -> tensor<f32, #spmd.form<#mesh, data: reduce>> {
    %0 = nn.sum %a {dims = array<i64: 0>} : (tensor<4xf32, #spmd.form<#mesh, data: gather(0)>>) -> tensor<f32, #spmd.form<#mesh, data: reduce>>
    return %0 : tensor<f32, #spmd.form<#mesh, data: reduce>>
  }
}

// -----

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{function @body has no body, expected that of a step}}
  func.func private @body(tensor<4xf32>) -> tensor<4xf32>
}

// -----

#mesh = #spmd.mesh<data = 2, time micro = 2>
#time = #spmd.mesh<time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{argument 0 has a form on the mesh #spmd.mesh<time micro = 2>, expected the module's, #spmd.mesh<data = 2, time micro = 2>}}
  func.func @twice(%a: tensor<4xf32, #spmd.form<#time, micro: gather(0)>>) {
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2, time micro = 2>
module {
  // expected-error @+1 {{argument 0 has the form #spmd.form<#spmd.mesh<data = 2, time micro = 2>, data: gather(0)>, but the module has no 'spmd.mesh'}}
  func.func @mesh(%a: tensor<4xf32, #spmd.form<#mesh, data: gather(0)>>) {
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @cast(%a: tensor<4xf32>) {
    // expected-error @+1 {{result 0 is a 'i32', expected a tensor of static shape}}
    %0 = builtin.unrealized_conversion_cast %a : tensor<4xf32> to i32
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @signature(%a: tensor<4xf32>) {
    // expected-error @+1 {{still has signatures in 'spmd.plan', expected them in the types}}
    %0 = nn.neg %a {spmd.plan = #spmd.plan<signatures = <"full -> full", "full -> full">>} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}
