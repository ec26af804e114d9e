// RUN: tandem-opt %s --tandem-verify-accumulated --split-input-file --verify-diagnostics

func.func @outside(%x: tensor<2x4xf32>) -> tensor<4xf32> attributes {spmd.iterations = 2 : i64} {
  // expected-error @+1 {{operator 'spmd.enter' is in no loop, expected one ('spmd.loop')}}
  %0 = spmd.enter %x : tensor<2x4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @behind(%x: tensor<2x4xf32>) -> tensor<4xf32> attributes {spmd.iterations = 2 : i64} {
  %0 = spmd.enter %x {spmd.loop = 0 : i64} : tensor<2x4xf32> -> tensor<4xf32>
  // expected-error @+1 {{reads what 'spmd.enter' makes in loop 0, expected 'spmd.carry' or 'spmd.collect' between the two}}
  %1 = nn.exp %0 : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

func.func @within(%x: tensor<2x4xf32>) -> tensor<4xf32> attributes {spmd.iterations = 2 : i64} {
  %0 = spmd.enter %x {spmd.loop = 0 : i64} : tensor<2x4xf32> -> tensor<4xf32>
  %1 = spmd.carry %0 {spmd.loop = 0 : i64} : tensor<4xf32> -> tensor<4xf32>
  // expected-error @+1 {{reads what 'spmd.carry' makes in loop 0, expected readers behind the loop}}
  %2 = nn.exp %1 {spmd.loop = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = spmd.carry %2 {spmd.loop = 0 : i64} : tensor<4xf32> -> tensor<4xf32>
  return %3 : tensor<4xf32>
}

// -----

func.func @once(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{is in a loop, but the function has no 'spmd.iterations', expected 2 at least}}
  %0 = spmd.carry %x {spmd.loop = 0 : i64} : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @shape(%x: tensor<3x4xf32>) -> tensor<4xf32> attributes {spmd.iterations = 2 : i64} {
  // expected-error @+1 {{has the tensors 'tensor<3x4xf32>' of all and 'tensor<4xf32>' of one of 2 iterations, expected them to differ in a dimension 0 that counts iterations}}
  %0 = spmd.enter %x {spmd.loop = 0 : i64} : tensor<3x4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
