// RUN: tandem-opt %s --split-input-file --verify-diagnostics

func.func @queue(%x: tensor<8xf32>) {
  // expected-error @+1 {{expected 'compute' or 'comm'}}
  %e = sched.step on copy stage 0 strand 0 {
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

