// RUN: tandem-opt --tandem-check-lowerable --split-input-file --verify-diagnostics %s

#mesh = #spmd.mesh<time micro = 2>
// expected-error@+1 {{has a value of type 'tensor<8xf32, #spmd.form<#spmd.mesh<time micro = 2>, micro: gather(0)>>', expected no form to be left (see --tandem-duplex)}}
func.func @step(%x: tensor<8xf32, #spmd.form<#mesh, micro: gather(0)>>) {
  return
}

// -----

func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{operator 'nn.exp' stands outside of a sched.step}}
  %0 = nn.exp %x : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0, %e = sched.step on compute stage 0 strand 0 {
    // expected-error@+1 {{operator 'func.call' has no kernel (see docs/adding-an-operator.md)}}
    %1 = func.call @other(%x) : (tensor<8xf32>) -> tensor<8xf32>
    sched.yield %1 : tensor<8xf32>
  } : tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @other(tensor<8xf32>) -> tensor<8xf32>

// -----

// expected-error@+1 {{module has no function @step with a body}}
module {}

// -----

func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0, %e = sched.step on compute stage 0 strand 0 {
    %1 = nn.exp %x : (tensor<8xf32>) -> tensor<8xf32>
    sched.yield %1 : tensor<8xf32>
  } : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0, %e = sched.step on compute stage 0 strand 0 {
    // expected-error@+1 {{has a value of element type 'ui8', expected a floating-point type, i64, i32, i8 or i1}}
    %1 = nn.convert %x : (tensor<8xf32>) -> tensor<8xui8>
    %2 = nn.convert %1 : (tensor<8xui8>) -> tensor<8xf32>
    sched.yield %2 : tensor<8xf32>
  } : tensor<8xf32>
  return %0 : tensor<8xf32>
}
