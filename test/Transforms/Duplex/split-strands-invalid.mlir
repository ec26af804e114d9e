// RUN: tandem-opt %s --tandem-split-strands --split-input-file --verify-diagnostics

// expected-error @+2 {{the module has no 'spmd.mesh', expected a mesh}}
module {
  func.func @f() {
    return
  }
}

// -----

#mesh = #spmd.mesh<time micro = 2, time outer = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @two(%x: tensor<8xf32, #spmd.form<#mesh, micro: gather(0)>>) {
    // expected-error @+1 {{reform is no single local operation: changes the axes 'micro' and 'outer', expected one axis}}
    %0 = spmd.reform %x : tensor<8xf32, #spmd.form<#mesh, micro: gather(0)>> -> tensor<8xf32, #spmd.form<#mesh, outer: gather(0)>>
    return
  }
}
