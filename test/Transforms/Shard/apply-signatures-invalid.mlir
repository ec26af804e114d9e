// RUN: tandem-opt %s --tandem-apply-signatures --split-input-file --verify-diagnostics

// expected-error @+2 {{the module has no 'spmd.mesh', expected a mesh: run the plan stage first}}
module {
  func.func @f() {
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @f(%x: tensor<4xf32>) {
    // expected-error @+1 {{has no signatures in 'spmd.plan', expected one per axis: run the plan stage first}}
    %0 = nn.neg %x : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @f(%x: tensor<4xf32>) {
    // expected-error @+1 {{has 2 signatures, expected one per axis of #spmd.mesh<data = 2>}}
    %0 = nn.neg %x {spmd.plan = #spmd.plan<signatures = <"full -> full", "full -> full">>} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @f(%x: tensor<4xf32>) {
    // expected-error @+1 {{found 'full', expected 'FORMS -> FORMS'}}
    %0 = nn.neg %x {spmd.plan = #spmd.plan<signatures = <"full">>} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @f(%x: tensor<4xf32>) {
    // expected-error @+1 {{has signatures of 2 operands and 1 results, expected 1 and 1}}
    %0 = nn.neg %x {spmd.plan = #spmd.plan<signatures = <"full, full -> full">>} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @f(%x: tensor<4xf32>) {
    // expected-error @+1 {{found 'full -> split(0)', expected 'FORMS -> FORMS'}}
    %0 = nn.neg %x {spmd.plan = #spmd.plan<signatures = <"full -> split(0)">>} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 4>
module attributes {spmd.mesh = #mesh} {
  func.func @f(%x: tensor<6xf32>) {
    // expected-error @+1 {{operand 0: dimension 0 of size 6 cannot be split into 4 equal parts (axis 'data')}}
    %0 = nn.neg %x {spmd.plan = #spmd.plan<signatures = <"gather(0) -> gather(0)">>} : (tensor<6xf32>) -> tensor<6xf32>
    return
  }
}

// -----

// No signature of the operator: its own verifier says which ones it has.
#mesh = #spmd.mesh<data = 4>
module attributes {spmd.mesh = #mesh} {
  func.func @f(%x: tensor<8xf32>) {
    // expected-error @+1 {{has no signature 'full -> gather(0)' on axis 'data' of size 4; expected one of: full -> full; gather(0) -> gather(0)}}
    %0 = nn.exp %x {spmd.plan = #spmd.plan<signatures = <"full -> gather(0)">>} : (tensor<8xf32>) -> tensor<8xf32>
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 4>
#other = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{argument 0 has the form #spmd.form<#spmd.mesh<data = 2>, data: gather(0)>, expected a form on the mesh #spmd.mesh<data = 4>}}
  func.func @f(%x: tensor<8xf32> {spmd.plan = #spmd.plan<form = <#other, data: gather(0)>>}) {
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 4>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{result 0: dimension 0 of size 6 cannot be split into 4 equal parts (axis 'data')}}
  func.func @f(%x: tensor<6xf32>) -> (tensor<6xf32> {spmd.plan = #spmd.plan<form = <#mesh, data: gather(0)>>}) {
    return %x : tensor<6xf32>
  }
}
