// RUN: tandem-opt %s --tandem-verify-sharded --split-input-file --verify-diagnostics

// expected-error @+2 {{the module has no 'spmd.mesh', expected a mesh}}
module {
  func.func @f() {
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2, model = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @two(%x: tensor<8xf32, #spmd.form<#mesh, data: gather(0)>>) {
    // expected-error @+1 {{reform is no single collective: changes the axes 'data' and 'model', expected one axis}}
    %0 = spmd.reform %x : tensor<8xf32, #spmd.form<#mesh, data: gather(0)>> -> tensor<8xf32, #spmd.form<#mesh, model: gather(0)>>
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2, model = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @major(%x: tensor<8xf32, #spmd.form<#mesh, data: gather(0), model: gather(0)>>) {
    // expected-error @+1 {{reform is no single collective: axis 'data' is not the minor-most one on dimension 0}}
    %0 = spmd.reform %x : tensor<8xf32, #spmd.form<#mesh, data: gather(0), model: gather(0)>> -> tensor<8xf32, #spmd.form<#mesh, model: gather(0)>>
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @reduce(%x: tensor<8xf32, #spmd.form<#mesh, data: gather(0)>>) {
    // expected-error @+1 {{reform is no single collective: makes 'reduce' of 'gather(0)', expected of 'full'}}
    %0 = spmd.reform %x : tensor<8xf32, #spmd.form<#mesh, data: gather(0)>> -> tensor<8xf32, #spmd.form<#mesh, data: reduce>>
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
#other = #spmd.mesh<data = 4>
module attributes {spmd.mesh = #mesh} {
  func.func @mesh(%x: tensor<8xf32>) {
    // expected-error @+1 {{has a form on the mesh #spmd.mesh<data = 4>, expected the module's, #spmd.mesh<data = 2>}}
    %0 = spmd.reform %x : tensor<8xf32> -> tensor<8xf32, #spmd.form<#other, data: gather(0)>>
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @left(%x: tensor<8xf32>) {
    // expected-error @+1 {{still has signatures in 'spmd.plan', expected them in the types}}
    %0 = nn.neg %x {spmd.plan = #spmd.plan<signatures = <"full -> full">>} : (tensor<8xf32>) -> tensor<8xf32>
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
  func.func @call(%x: tensor<8xf32>) {
    // expected-error @+1 {{operator 'func.call' has no signatures, expected operators of nn}}
    %0 = func.call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return
  }
}

// -----

// An update happens once per step.
#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{argument 0, a state, is 'gather(0)' on the time axis 'micro', expected full: an update happens once per step}}
  func.func @state(%x: tensor<8xf32, #spmd.form<#mesh, micro: gather(0)>> {nn.role = #nn.role<state>, nn.name = "m"}) {
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{result 0 is 'reduce' on axis 'data', expected full or gather}}
  func.func @loss(%x: tensor<8xf32, #spmd.form<#mesh, data: gather(0)>> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<f32, #spmd.form<#mesh, data: reduce>> {nn.role = #nn.role<loss>}) {
    %0 = nn.sum %x {dims = array<i64: 0>} : (tensor<8xf32, #spmd.form<#mesh, data: gather(0)>>) -> tensor<f32, #spmd.form<#mesh, data: reduce>>
    return %0 : tensor<f32, #spmd.form<#mesh, data: reduce>>
  }
}

// -----

// Without what says that it updates, a parameter would not be trained.
module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  // expected-error @+1 {{result 0, a parameter, has no 'nn.updates': the argument whose new value it is}}
  func.func @step(%w: tensor<8xf32> {nn.name = "w", nn.role = #nn.role<parameter>})
      -> (tensor<8xf32> {nn.name = "w", nn.role = #nn.role<parameter>}) {
    return %w : tensor<8xf32>
  }
}
