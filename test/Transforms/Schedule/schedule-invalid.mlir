// What a person may have edited before the stage: an error each, and no crash.
// RUN: tandem-opt %s --tandem-schedule --split-input-file --verify-diagnostics

module {
  // expected-error @+1 {{function @body has no body, expected that of a step}}
  func.func private @body(tensor<4xf32>) -> tensor<4xf32>
}

// -----

module {
  func.func @twice(%a: tensor<4xf32>) {
    // expected-error @+1 {{operator 'sched.step' in a step, expected operators of nn and spmd}}
    %v, %e = sched.step on compute stage 0 strand 0 {
      %0 = nn.neg %a : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{argument 0 has the form #spmd.form<#spmd.mesh<data = 2, time micro = 2>, data: reduce>, expected 'full' on the space axis 'data', or 'at', behind localize}}
  func.func @form(%a: tensor<4xf32, #spmd.form<#mesh, data: reduce>>) {
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @strand(%a: tensor<4xf32>) {
    // expected-error @+1 {{has the strand 2, expected one of 2 from 0 on}}
    %0 = nn.neg %a {nn.strand = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}
