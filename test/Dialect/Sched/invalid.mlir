// RUN: tandem-opt %s --split-input-file --verify-diagnostics

func.func @queue(%x: tensor<8xf32>) {
  // expected-error @+1 {{found queue 'disk', expected 'compute', 'comm' or 'copy'}}
  %e = sched.step on disk stage 0 strand 0 {
    sched.yield
  }
  return
}

// -----

func.func @yield(%x: tensor<8xf32>) {
  // expected-error @+1 {{'sched.step' op yields 'tensor<8xf32>', but its results are 'tensor<4xf32>'}}
  %0, %e = sched.step on compute stage 0 strand 0 {
    sched.yield %x : tensor<8xf32>
  } : tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{unknown device 'abacus', expected one of cpu, cuda, cuda.sm_80, cuda.sm_90, cuda.emulated}}
module attributes {sched.device = #sched.device<abacus>} {
}

// -----

// expected-error @+1 {{'builtin.module' has the 'sched.queues' [#sched.queue<comm>, #sched.queue<comm[1]>], expected a list of #sched.queue<...>, those of a role numbered from 0 on, and one that computes}}
module attributes {sched.queues = [#sched.queue<comm>, #sched.queue<comm[1]>]} {
}

// -----

// expected-error @+1 {{'builtin.module' has the 'sched.queues' [#sched.queue<compute>, #sched.queue<comm[1]>], expected a list of #sched.queue<...>, those of a role numbered from 0 on, and one that computes}}
module attributes {sched.queues = [#sched.queue<compute>, #sched.queue<comm[1]>]} {
}

// -----

func.func @sum(%x: tensor<4x8xf32>, %g: tensor<8x5xf32>, %y: tensor<20xf32>) {
  // expected-error @+1 {{'sched.matmul' op adds to 'tensor<20xf32>', expected 'tensor<4x5xf32>'}}
  %a = sched.matmul %x, %g onto %y {batch = array<i64>, m = 4, n = 5, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>} : (tensor<4x8xf32>, tensor<8x5xf32>, tensor<20xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @bias(%x: tensor<4x8xf32>, %g: tensor<8x5xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{'sched.matmul' op has a bias of 4 elements of 'f32', expected 5 of 'f32'}}
  %a = sched.matmul %x, %g plus %y {batch = array<i64>, m = 4, n = 5, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>} : (tensor<4x8xf32>, tensor<8x5xf32>, tensor<4xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @gradient(%x: tensor<4x8xf32>, %g: tensor<8x5xf32>) {
  // expected-error @+1 {{'sched.matmul' op has epilogue 'gelu_gradient' and no pre-activation to read}}
  %a = sched.matmul %x, %g {batch = array<i64>, m = 4, n = 5, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>, epilogue = #sched<epilogue gelu_gradient>} : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @pre_activation(%x: tensor<4x8xf32>, %g: tensor<8x5xf32>, %p: tensor<4x5xf32>) {
  // expected-error @+1 {{'sched.matmul' op has epilogue 'gelu' and a pre-activation to read}}
  %a = sched.matmul %x, %g at %p {batch = array<i64>, m = 4, n = 5, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>, epilogue = #sched<epilogue gelu>} : (tensor<4x8xf32>, tensor<8x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @size(%x: tensor<4x8xf32>, %g: tensor<8x5xf32>, %p: tensor<4xf32>) {
  // expected-error @+1 {{'sched.matmul' op has a pre-activation of 4 elements of 'f32', expected 20 of 'f32'}}
  %a = sched.matmul %x, %g at %p {batch = array<i64>, m = 4, n = 5, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>, epilogue = #sched<epilogue gelu_gradient>} : (tensor<4x8xf32>, tensor<8x5xf32>, tensor<4xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @second(%x: tensor<4x8xf32>, %g: tensor<8x5xf32>) {
  // expected-error @+1 {{'sched.matmul' op has a second result, expected epilogue 'gelu' or sums}}
  %a:2 = sched.matmul %x, %g {batch = array<i64>, m = 4, n = 5, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>} : (tensor<4x8xf32>, tensor<8x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>)
  return
}

// -----

func.func @sums(%x: tensor<4x8xf32>, %g: tensor<8x5xf32>) {
  // expected-error @+1 {{'sched.matmul' op has sums of 5 elements of 'f32', expected 4 of 'f32'}}
  %a:2 = sched.matmul %x, %g {batch = array<i64>, m = 4, n = 5, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>, summed = #sched<summed lhs>} : (tensor<4x8xf32>, tensor<8x5xf32>) -> (tensor<4x5xf32>, tensor<5xf32>)
  return
}

// -----

func.func @nowhere(%x: tensor<4x8xf32>, %g: tensor<8x5xf32>) {
  // expected-error @+1 {{'sched.matmul' op sums 'rhs' and has no place for it}}
  %a = sched.matmul %x, %g {batch = array<i64>, m = 4, n = 5, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>, summed = #sched<summed rhs>} : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @both(%x: tensor<4x8xf32>, %g: tensor<8x5xf32>) {
  // expected-error @+1 {{'sched.matmul' op has an epilogue and sums, expected one of them}}
  %a:2 = sched.matmul %x, %g {batch = array<i64>, m = 4, n = 5, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>, epilogue = #sched<epilogue gelu>, summed = #sched<summed rhs>} : (tensor<4x8xf32>, tensor<8x5xf32>) -> (tensor<4x5xf32>, tensor<5xf32>)
  return
}

// -----

func.func @batch(%x: tensor<2x4x8xf32>) {
  // expected-error @+1 {{'sched.matmul' op has a pre-activation or sums and a batch, expected no batch}}
  %a:2 = sched.matmul %x, %x {batch = array<i64: 2>, m = 4, n = 4, k = 8, strides_a = array<i64: 32, 8, 1>, strides_b = array<i64: 32, 1, 8>, strides_c = array<i64: 16, 4, 1>, epilogue = #sched<epilogue gelu>} : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> (tensor<2x4x4xf32>, tensor<2x4x4xf32>)
  return
}

// -----

func.func @step(%x: memref<16xf32>) -> memref<16xf32> {
  %r = sched.result 0 : memref<16xf32>
  // expected-error @+1 {{'sched.launch' op calls @exp, which does not exist}}
  sched.launch @exp(%x) into(%r) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<16xf32>) -> memref<16xf32>
  return %r : memref<16xf32>
}

// -----

func.func @step(%x: memref<16xf32>) -> memref<16xf32> {
  %r = sched.result 0 : memref<16xf32>
  // expected-error @+1 {{'sched.launch' op calls @exp, which is no kernel, expected a function with 'sched.kernel'}}
  sched.launch @exp(%x) into(%r) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<16xf32>) -> memref<16xf32>
  return %r : memref<16xf32>
}
func.func private @exp(%a: tensor<16xf32>) -> tensor<16xf32> {
  return %a : tensor<16xf32>
}

// -----

func.func @declared(%x: memref<16xf32>) -> memref<16xf32> {
  %r = sched.result 0 : memref<16xf32>
  // expected-error @+1 {{'sched.launch' op calls @exp, which has no body, expected that of a kernel}}
  sched.launch @exp(%x) into(%r) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<16xf32>) -> memref<16xf32>
  return %r : memref<16xf32>
}
func.func private @exp(tensor<16xf32>) -> tensor<16xf32> attributes {sched.kernel}

// -----

// A name that nobody would read.
func.func @product(%a: memref<4x4xf32>, %b: memref<4x4xf32>) {
  // expected-error @+1 {{'sched.gemm' has the unknown attribute 'acumulate', did you mean 'accumulate'}}
  sched.gemm %a, %a into %b on compute stage 0 strand 0 {acumulate, batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, label = "", flops = 0, bytes = 0} : memref<4x4xf32>, memref<4x4xf32> into memref<4x4xf32>
  return
}

// -----

func.func @view(%a: memref<16xf32>) {
  // expected-error @+1 {{'sched.view' has the unknown attribute 'ofset', did you mean 'offset'}}
  %0 = sched.view %a {ofset = 8 : i64} : memref<16xf32> -> memref<8xf32>
  return
}

// -----

func.func @stage(%x: tensor<8xf32>) {
  // expected-error @+1 {{attribute 'stage' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative whose maximum value is 2147483647}}
  %e = sched.step on compute stage -1 strand 0 {
    sched.yield
  }
  return
}

// -----

func.func @late(%x: tensor<8xf32>) {
  // expected-error @+1 {{attribute 'stage' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative whose maximum value is 2147483647}}
  %e = sched.step on compute stage 2147483648 strand 0 {
    sched.yield
  }
  return
}

// -----

func.func @flops(%a: memref<16xf32>, %b: memref<16xf32>) {
  // expected-error @+1 {{attribute 'flops' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  sched.copy %a into %b on compute stage 0 strand 0 {label = "", flops = -1, bytes = 0} : memref<16xf32> -> memref<16xf32>
  return
}

// -----

func.func @bytes(%a: memref<16xf32>, %b: memref<16xf32>) {
  // expected-error @+1 {{attribute 'bytes' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  sched.copy %a into %b on compute stage 0 strand 0 {label = "", flops = 0, bytes = -1} : memref<16xf32> -> memref<16xf32>
  return
}

// -----

// A view moves with the rank, and is within its source on every one.
module attributes {spmd.mesh = #spmd.mesh<data = 3>} {
  func.func @wraps(%a: memref<16xf32>) {
    // expected-error @+1 {{'sched.view' op moves by more elements than 64 bits can count, expected offset and coefficients within its source}}
    %0 = sched.view %a {axes = ["data"], coefficients = array<i64: 4611686018427387904>} : memref<16xf32> -> memref<4xf32>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 3>} {
  func.func @leaves(%a: memref<16xf32>) {
    // expected-error @+1 {{'sched.view' op has elements 0 to 20 of 16, expected a range within its source}}
    %0 = sched.view %a {axes = ["data"], coefficients = array<i64: 8>} : memref<16xf32> -> memref<4xf32>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 3>} {
  func.func @before(%a: memref<16xf32>) {
    // expected-error @+1 {{'sched.view' op has elements -6 to 12 of 16, expected a range within its source}}
    %0 = sched.view %a {axes = ["data"], coefficients = array<i64: -7>, offset = 8 : i64} : memref<16xf32> -> memref<4xf32>
    return
  }
}

// -----

// A collective's shapes follow from its kind, dimensions and group.
module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @gathers(%a: memref<64x16xf32>, %b: memref<64x32xf32>) {
    // expected-error @+1 {{'sched.collective' op gives 'memref<64x32xf32>', expected 'memref<128x16xf32>'}}
    sched.collective all_gather %a into %b over ["data"] on comm stage 0 strand 0 {concat_dim = 0, label = "", flops = 0, bytes = 0} : memref<64x16xf32> -> memref<64x32xf32>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @scatters(%a: memref<64x16xf32>, %b: memref<32x16xf32>) {
    // expected-error @+1 {{'sched.collective' op gives 'memref<32x16xf32>', expected 'memref<64x8xf32>'}}
    sched.collective reduce_scatter %a into %b over ["data"] on comm stage 0 strand 0 {split_dim = 1, label = "", flops = 0, bytes = 0} : memref<64x16xf32> -> memref<32x16xf32>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @elements(%a: memref<64x16xf32>, %b: memref<64x16xi32>) {
    // expected-error @+1 {{'sched.collective' op gives 'memref<64x16xi32>', expected 'memref<64x16xf32>'}}
    sched.collective all_reduce %a into %b over ["data"] on comm stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<64x16xf32> -> memref<64x16xi32>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @needless(%a: memref<64x16xf32>, %b: memref<32x16xf32>) {
    // expected-error @+1 {{'sched.collective' op has a 'concat_dim', for which a reduce_scatter has no use, expected none}}
    sched.collective reduce_scatter %a into %b over ["data"] on comm stage 0 strand 0 {split_dim = 0, concat_dim = 1, label = "", flops = 0, bytes = 0} : memref<64x16xf32> -> memref<32x16xf32>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @lacks(%a: memref<64x16xf32>, %b: memref<64x32xf32>) {
    // expected-error @+1 {{'sched.collective' op dimension -1 does not exist in 'memref<64x16xf32>'}}
    sched.collective all_gather %a into %b over ["data"] on comm stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<64x16xf32> -> memref<64x32xf32>
    return
  }
}

// -----

func.func @attention_sizes(%q: tensor<1x2x3x4xf32>) {
  // expected-error @+1 {{'sched.attention' op has 6 sizes and 12 strides, expected 7 and 12}}
  %0:2 = sched.attention %q, %q, %q {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 1, 2, 2, 3, 3, 4>, strides = array<i64: 24, 12, 4, 24, 12, 4, 24, 12, 4, 24, 12, 4>, operations = 1 : i64, scale = 0.5 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  return
}

// -----

func.func @attention_offsets(%q: tensor<1x2x3x4xf32>) {
  // expected-error @+1 {{'sched.attention' op has 2 offsets, expected 3}}
  %0:2 = sched.attention %q, %q, %q {offsets = array<i64: 0, 0>, sizes = array<i64: 1, 2, 2, 3, 3, 4, 4>, strides = array<i64: 24, 12, 4, 24, 12, 4, 24, 12, 4, 24, 12, 4>, operations = 1 : i64, scale = 0.5 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  return
}

// -----

func.func @attention_inputs(%q: tensor<1x2x3x4xf32>) {
  // expected-error @+1 {{'sched.attention' op has 3 inputs, expected 4}}
  %0:2 = sched.attention %q, %q, %q {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 1, 2, 2, 3, 3, 4, 4>, strides = array<i64: 24, 12, 4, 24, 12, 4, 24, 12, 4, 24, 12, 4>, after = 0 : i64, operations = 1 : i64, scale = 0.5 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  return
}

// -----

func.func @attention_results(%q: tensor<1x2x3x4xf32>) {
  // expected-error @+1 {{'sched.attention' op has 1 results, expected 2}}
  %0 = sched.attention %q, %q, %q {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 1, 2, 2, 3, 3, 4, 4>, strides = array<i64: 24, 12, 4, 24, 12, 4, 24, 12, 4, 24, 12, 4>, operations = 1 : i64, scale = 0.5 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @attention_reach(%q: tensor<1x2x3x4xf32>) {
  // expected-error @+1 {{'sched.attention' op tensor 1 reaches element 25, expected at most 24}}
  %0:2 = sched.attention %q, %q, %q {offsets = array<i64: 0, 1, 0>, sizes = array<i64: 1, 2, 2, 3, 3, 4, 4>, strides = array<i64: 24, 12, 4, 24, 12, 4, 24, 12, 4, 24, 12, 4>, operations = 1 : i64, scale = 0.5 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  return
}

// -----

func.func @conv_counts(%x: tensor<2x3x8xf32>, %w: tensor<5x3x3xf32>) {
  // expected-error @+1 {{'sched.conv' op has shapes of 3, 3 and 3 dimensions, 8 strides and 1, 1 and 1 numbers of windows, expected 3 to 5 dimensions, a stride for each and numbers for all but two}}
  %0 = sched.conv forward %x, %w {input = array<i64: 2, 3, 8>, weight = array<i64: 5, 3, 3>, output = array<i64: 2, 5, 8>, stride = array<i64: 1>, padding = array<i64: 1>, dilation = array<i64: 1>, strides = array<i64: 24, 8, 1, 9, 3, 1, 40, 8>, offsets = array<i64: 0, 0>} : (tensor<2x3x8xf32>, tensor<5x3x3xf32>) -> tensor<2x5x8xf32>
  return
}

// -----

func.func @conv_offsets(%x: tensor<2x3x8xf32>, %w: tensor<5x3x3xf32>) {
  // expected-error @+1 {{'sched.conv' op has 1 offsets, expected 2}}
  %0 = sched.conv forward %x, %w {input = array<i64: 2, 3, 8>, weight = array<i64: 5, 3, 3>, output = array<i64: 2, 5, 8>, stride = array<i64: 1>, padding = array<i64: 1>, dilation = array<i64: 1>, strides = array<i64: 24, 8, 1, 9, 3, 1, 40, 8, 1>, offsets = array<i64: 0>} : (tensor<2x3x8xf32>, tensor<5x3x3xf32>) -> tensor<2x5x8xf32>
  return
}

// -----

func.func @conv_reach(%x: tensor<2x3x8xf32>, %g: tensor<2x5x8xf32>) {
  // expected-error @+1 {{'sched.conv' op output reaches element 84, expected at most 80}}
  %0 = sched.conv weight_gradient %x, %g {input = array<i64: 2, 3, 8>, weight = array<i64: 5, 3, 3>, output = array<i64: 2, 5, 8>, stride = array<i64: 1>, padding = array<i64: 1>, dilation = array<i64: 1>, strides = array<i64: 24, 8, 1, 9, 3, 1, 40, 8, 1>, offsets = array<i64: 0, 4>} : (tensor<2x3x8xf32>, tensor<2x5x8xf32>) -> tensor<5x3x3xf32>
  return
}

// -----

func.func @conv_written(%x: tensor<2x3x8xf32>, %w: tensor<5x3x3xf32>) {
  // expected-error @+1 {{'sched.conv' op writes 80 elements, expected 96}}
  %0 = sched.conv forward %x, %w {input = array<i64: 2, 3, 8>, weight = array<i64: 5, 3, 3>, output = array<i64: 2, 5, 8>, stride = array<i64: 1>, padding = array<i64: 1>, dilation = array<i64: 1>, strides = array<i64: 24, 8, 1, 9, 3, 1, 40, 8, 1>, offsets = array<i64: 0, 0>} : (tensor<2x3x8xf32>, tensor<5x3x3xf32>) -> tensor<2x6x8xf32>
  return
}

// -----

func.func @a_check_of_another_type(%a: memref<4xf32>) {
  // expected-error @+1 {{asks whether 'f32' is true, expected i1}}
  sched.check true "all are positive" %a on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<4xf32>
  return
}

// -----

func.func @a_boolean_that_is_finite(%a: memref<4xi1>) {
  // expected-error @+1 {{asks whether 'i1' is finite, expected a floating-point type}}
  sched.check finite "loss" %a on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<4xi1>
  return
}
