// RUN: tandem-opt %s --tandem-verify-plan --split-input-file --verify-diagnostics

// One case per error of what the plan stage leaves.

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @step(%x: tensor<8xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<8xf32> {nn.role = #nn.role<output>, nn.name = "y"}) {
    // expected-error @+1 {{nn.exp has 0 signatures, expected one per axis of #spmd.mesh<data = 2>}}
    %0 = nn.exp %x {nn.id = 0 : i64, nn.pass = #nn.pass<forward>} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @step(%x: tensor<8xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<8xf32> {nn.role = #nn.role<output>, nn.name = "y"}) {
    // expected-error @+1 {{nn.exp has 2 signatures, expected one per axis of #spmd.mesh<data = 2>}}
    %0 = nn.exp %x {nn.id = 0 : i64, nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<signatures = <"full -> full", "full -> full">>} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @step(%x: tensor<8xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<8xf32> {nn.role = #nn.role<output>, nn.name = "y"}) {
    // expected-error @+1 {{has signatures of 2 operands and 1 results, expected 1 and 1}}
    %0 = nn.exp %x {nn.id = 0 : i64, nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<signatures = <"full, full -> full">>} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @step(%x: tensor<8xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<8xf32> {nn.role = #nn.role<output>, nn.name = "y"}) {
    // expected-error @+1 {{nn.exp has no signature 'gather(0) -> full' on axis 'data' of size 2}}
    %0 = nn.exp %x {nn.id = 0 : i64, nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<signatures = <"gather(0) -> full">>} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
#other = #spmd.mesh<data = 4>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{argument 0 has the form #spmd.form<#spmd.mesh<data = 4>, data: gather(0)>, expected one on #spmd.mesh<data = 2>}}
  func.func @step(%x: tensor<8xf32> {nn.role = #nn.role<input>, nn.name = "x", spmd.plan = #spmd.plan<form = <#other, data: gather(0)>>}) {
    return
  }
}

// -----

// What is made as wanted depends on no tensor of the step.
#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @step(%x: tensor<8xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<8xf32> {nn.role = #nn.role<output>, nn.name = "y"}) {
    // expected-error @+1 {{nn.exp is planned 'as_wanted', expected signatures, since it depends on tensors of the step}}
    %0 = nn.exp %x {nn.id = 0 : i64, nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<as_wanted>} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// Stages follow each other.
#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @step(%x: tensor<8xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<8xf32> {nn.role = #nn.role<output>, nn.name = "y"}) {
    %0 = nn.exp %x {nn.id = 0 : i64, nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<signatures = <"full -> full">, stage = 2>} : (tensor<8xf32>) -> tensor<8xf32>
    // expected-error @+1 {{nn.neg is in stage 1, but reads what stage 2 makes, expected a stage of the plan from there on}}
    %1 = nn.neg %0 {nn.id = 1 : i64, nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<signatures = <"full -> full">, stage = 1>} : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
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
