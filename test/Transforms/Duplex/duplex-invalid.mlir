// What a person may have edited before the stage: an error each, and no crash.
// RUN: tandem-opt %s --tandem-duplex --split-input-file --verify-diagnostics

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{result 0 is 'reduce' on the time axis 'micro', expected full or gather}}
  func.func @sum(%a: tensor<4xf32, #spmd.form<#mesh, micro: reduce>>
                     {spmd.layout = tensor<4xf32, #spmd.form<#mesh, micro: reduce>>})
      -> (tensor<4xf32, #spmd.form<#mesh, micro: reduce>>
              {spmd.layout = tensor<4xf32, #spmd.form<#mesh, micro: reduce>>}) {
    return %a : tensor<4xf32, #spmd.form<#mesh, micro: reduce>>
  }
}

// -----

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{function @body has no body, expected that of a step}}
  func.func private @body(tensor<4xf32>) -> tensor<4xf32>
}

// -----

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{function @blocks has 2 blocks, expected one}}
  func.func @blocks() {
    return
  ^bb1:
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{argument 0 is a 'f32', expected a tensor of static shape}}
  func.func @scalar(%a: f32) -> f32 {
    return %a : f32
  }
}

// -----

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{argument 0 has the encoding "x", expected a form}}
  func.func @encoding(%a: tensor<4xf32, "x">) -> tensor<4xf32, "x"> {
    return %a : tensor<4xf32, "x">
  }
}

// -----

#mesh = #spmd.mesh<data = 2, time micro = 2>
#other = #spmd.mesh<a = 2, b = 2, c = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{argument 0 has a form on the mesh #spmd.mesh<a = 2, b = 2, c = 2, time micro = 2>, expected the module's, #spmd.mesh<data = 2, time micro = 2>}}
  func.func @other(%a: tensor<4xf32, #spmd.form<#other, micro: gather(0)>>) {
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // The stage before was left out.
  // expected-error @+1 {{argument 0 has the form #spmd.form<#spmd.mesh<data = 2, time micro = 2>, data: gather(0)>, expected 'full' on the space axis 'data', or 'at', behind localize}}
  func.func @sharded(%a: tensor<4xf32, #spmd.form<#mesh, data: gather(0)>>) {
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2, time micro = 2>
#other = #spmd.mesh<a = 2, b = 2, c = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{argument 0 has the layout 'tensor<8xf32, #spmd.form<#spmd.mesh<a = 2, b = 2, c = 2, time micro = 2>, c: gather(0)>>', expected a form on the mesh #spmd.mesh<data = 2, time micro = 2>}}
  func.func @layout(%a: tensor<4xf32> {spmd.layout = tensor<8xf32, #spmd.form<#other, c: gather(0)>>}) {
    return
  }
}

// -----

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @steps(%a: tensor<4xf32> {spmd.layout = tensor<4xf32>}) {
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
  // Nothing to do is no error.
  func.func @empty() {
    return
  }
}
