// What a person may have edited before the stage: an error each, and no crash.
// RUN: tandem-opt %s --tandem-plan="mesh=data=2" --split-input-file --verify-diagnostics

module {
  func.func @step(%a: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "a"}) -> (tensor<4xf32> {nn.role = #nn.role<output>, nn.name = "o"}) {
    // expected-error @+1 {{nn.neg has no 'nn.id': run the import stage first}}
    %0 = nn.neg %a {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

module {
  // expected-error @+1 {{the step has 0 blocks, expected one}}
  func.func private @step(tensor<4xf32>) -> tensor<4xf32>
}

// -----

module {
  // expected-error @+1 {{results 0 and 1 both update argument 0, expected one}}
  func.func @step(%a: tensor<4xf32> {nn.role = #nn.role<state>, nn.name = "a"})
      -> (tensor<4xf32> {nn.role = #nn.role<state>, nn.name = "a", nn.updates = 0 : i64},
          tensor<4xf32> {nn.role = #nn.role<state>, nn.name = "a", nn.updates = 0 : i64}) {
    return %a, %a : tensor<4xf32>, tensor<4xf32>
  }
}
