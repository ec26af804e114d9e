// RUN: tandem-opt %s --tandem-localize-space --split-input-file --verify-diagnostics

#mesh = #spmd.mesh<data = 2, model = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @two(%x: tensor<8xf32, #spmd.form<#mesh, data: gather(0)>>) {
    // expected-error @+1 {{reform is no single collective: changes the axes 'data' and 'model', expected one axis}}
    %0 = spmd.reform %x : tensor<8xf32, #spmd.form<#mesh, data: gather(0)>> -> tensor<8xf32, #spmd.form<#mesh, model: gather(0)>>
    return
  }
}

// -----

// expected-error @+2 {{the module has no 'spmd.mesh', expected a mesh}}
module {
  func.func @f() {
    return
  }
}
