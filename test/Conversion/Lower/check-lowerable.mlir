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
    %1 = sched.zeros : tensor<8xui8>
    sched.yield %x : tensor<8xf32>
  } : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Kernels convert to and from float16, but libraries do not know it.

func.func @step(%x: tensor<8x8xf16>) -> tensor<8x8xf16> {
  %0, %e = sched.step on compute stage 0 strand 0 {
    // expected-error@+1 {{matrix product of 'f16', expected f64, f32 or bf16}}
    %1 = nn.matmul %x, %x : (tensor<8x8xf16>, tensor<8x8xf16>) -> tensor<8x8xf16>
    sched.yield %1 : tensor<8x8xf16>
  } : tensor<8x8xf16>
  return %0 : tensor<8x8xf16>
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @step(%x: tensor<8xf16>) -> tensor<8xf16> {
    %0, %e = sched.step on comm stage 0 strand 0 {
      // expected-error@+1 {{collective 'spmd.all_reduce' sums 'f16', expected f64, f32, bf16, i64, i32 or i8}}
      %1 = spmd.all_reduce %x over ["data"] : tensor<8xf16> -> tensor<8xf16>
      sched.yield %1 : tensor<8xf16>
    } : tensor<8xf16>
    return %0 : tensor<8xf16>
  }
}

// -----

func.func @step(%x: tensor<8xf16>) -> (tensor<f16> {nn.role = #nn.role<loss>, nn.name = "loss"}) {
  // expected-error@+1 {{loss has element type 'f16', expected f64, f32 or bf16}}
  %0, %e = sched.step on compute stage 0 strand 0 {
    %1 = nn.sum %x {dims = array<i64: 0>} : (tensor<8xf16>) -> tensor<f16>
    sched.yield %1 : tensor<f16>
  } : tensor<f16>
  return %0 : tensor<f16>
}

// -----

func.func @step(%x: tensor<8xf32>) -> (tensor<f32> {nn.role = #nn.role<check>, nn.name = "positive"}) {
  // expected-error@+1 {{check has element type 'f32', expected i1}}
  %0, %e = sched.step on compute stage 0 strand 0 {
    %1 = nn.sum %x {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
    sched.yield %1 : tensor<f32>
  } : tensor<f32>
  return %0 : tensor<f32>
}
