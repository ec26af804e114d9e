// RUN: tandem-opt %s --tandem-verify-duplexed --split-input-file --verify-diagnostics

#mesh = #spmd.mesh<time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{argument 0 has the form #spmd.form<#spmd.mesh<time micro = 2>, micro: gather(0)>, expected 'full' on the time axis 'micro' behind duplex}}
  func.func @argument(%x: tensor<8xf32, #spmd.form<#mesh, micro: gather(0)>>) {
    return
  }
}

// -----

#mesh = #spmd.mesh<time micro = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @value() {
    // expected-error @+1 {{result 0 has the form #spmd.form<#spmd.mesh<time micro = 2>, micro: gather(0)>, expected 'full' on the time axis 'micro' behind duplex}}
    %0 = nn.iota : tensor<8xi64, #spmd.form<#mesh, micro: gather(0)>>
    return
  }
}

// -----

#mesh = #spmd.mesh<time micro = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @strand(%x: tensor<8xf32>) {
    // expected-error @+1 {{has the strand 2, expected one of 2 from 0 on}}
    %0 = nn.neg %x {nn.strand = 2 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    return
  }
}

// -----

// Each exit looks at what a step says about itself (Analysis/StepFacts.h).
module {
  // expected-error @+1 {{argument 0 has no 'nn.role'}}
  func.func @step(%x: tensor<8xf32>) {
    %0 = nn.neg %x {nn.pass = #nn.pass<forward>} : (tensor<8xf32>) -> tensor<8xf32>
    %1 = nn.neg %0 {nn.pass = #nn.pass<forward>} : (tensor<8xf32>) -> tensor<8xf32>
    return
  }
}

// -----

module {
  func.func @step(%x: tensor<8xf32> {nn.name = "x", nn.role = #nn.role<input>, spmd.layout = tensor<8xf32>}) {
    // expected-error @+1 {{nn.neg has no 'nn.pass'}}
    %0 = nn.neg %x : (tensor<8xf32>) -> tensor<8xf32>
    return
  }
}

// -----

#mesh = #spmd.mesh<time micro = 4>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{no operator is in strand 2 of the axis 'micro', expected all of 4}}
  func.func @missing(%x: tensor<8xf32>) {
    %0 = nn.neg %x {nn.strand = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    %1 = nn.neg %x {nn.strand = 1 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    return
  }
}
