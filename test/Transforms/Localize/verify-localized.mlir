// RUN: tandem-opt %s --tandem-verify-localized --split-input-file --verify-diagnostics

// expected-error @+2 {{the module has no 'spmd.mesh', expected a mesh}}
module {
  func.func @f() {
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{argument 0 has the form #spmd.form<#spmd.mesh<data = 2>, data: gather(0)>, expected 'full' on the space axis 'data', or 'at', behind localize}}
  func.func @form(%x: tensor<8xf32, #spmd.form<#mesh, data: gather(0)>> {spmd.layout = tensor<8xf32, #spmd.form<#mesh, data: gather(0)>>}) {
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @inner() {
    // expected-error @+1 {{result 0 has the form #spmd.form<#spmd.mesh<data = 2>, data: gather(0)>, expected 'full' on the space axis 'data', or 'at', behind localize}}
    %0 = nn.iota : tensor<8xi64, #spmd.form<#mesh, data: gather(0)>>
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{argument 0 has no 'spmd.layout', expected the type of the global tensor}}
  func.func @layout(%x: tensor<8xf32>) {
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{argument 0 has the type 'tensor<8xf32>', which is no device's part of its layout 'tensor<8xf32, #spmd.form<#spmd.mesh<data = 2>, data: gather(0)>>'}}
  func.func @part(%x: tensor<8xf32> {spmd.layout = tensor<8xf32, #spmd.form<#mesh, data: gather(0)>>}) {
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{result 0 has no 'spmd.layout', expected the type of the global tensor}}
  func.func @result() -> tensor<8xi64> {
    %0 = nn.iota : tensor<8xi64>
    return %0 : tensor<8xi64>
  }
}

// -----

// Without what says that it updates, a parameter would not be trained.
module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  // expected-error @+1 {{result 0, a parameter, has no 'nn.updates': the argument whose new value it is}}
  func.func @step(%w: tensor<8xf32> {nn.name = "w", nn.role = #nn.role<parameter>, spmd.layout = tensor<8xf32>})
      -> (tensor<8xf32> {nn.name = "w", nn.role = #nn.role<parameter>, spmd.layout = tensor<8xf32>}) {
    return %w : tensor<8xf32>
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{argument 0 has the type 'tensor<4xf32>', which is no device's part of its layout 'tensor<8xf64, #spmd.form<#spmd.mesh<data = 2>, data: gather(0)>>'}}
  func.func @step(%x: tensor<4xf32> {spmd.layout = tensor<8xf64, #spmd.form<#mesh, data: gather(0)>>}) {
    return
  }
}
