// What a person may have edited before the stage: an error each, and no crash.
// RUN: tandem-opt %s --tandem-lower --split-input-file --verify-diagnostics

// expected-error @+1 {{module has no function @step with a body}}
module {
  func.func @other() {
    return
  }
}

// -----

module {
  // expected-error @+1 {{result 1 is a '!sched.event', expected a tensor of static shape}}
  func.func @step(%a: tensor<4xf32>) -> (tensor<4xf32>, !sched.event) {
    %v, %e = sched.step on compute stage 0 strand 0 {
      %0 = nn.neg %a : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    return %v, %e : tensor<4xf32>, !sched.event
  }
}

// -----

module {
  // expected-error @+1 {{argument 0 is a '!sched.event', expected a tensor of static shape}}
  func.func @step(%e: !sched.event) {
    return
  }
}

// -----

module {
  func.func @step(%a: tensor<4xf32>) -> (tensor<f32> {nn.role = #nn.role<loss>}) {
    // expected-error @+1 {{operator 'nn.sum' outside of a step, expected steps only}}
    %0 = nn.sum %a {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}

// -----

// A loss without a name is checked all the same.
module {
  func.func @step(%a: tensor<4xf32> {nn.name = "a", nn.role = #nn.role<input>, spmd.layout = tensor<4xf32>})
      -> (tensor<f32> {nn.role = #nn.role<loss>, spmd.layout = tensor<f32>}) {
    %v, %e = sched.step on compute stage 0 strand 0 {
      %0 = nn.sum %a {nn.pass = #nn.pass<forward>, dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
      sched.yield %0 : tensor<f32>
    } : tensor<f32>
    return %v : tensor<f32>
  }
}
