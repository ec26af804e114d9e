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

// expected-error @+1 {{unknown device 'abacus', expected one of cpu}}
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
