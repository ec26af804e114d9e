// RUN: tandem-opt %s --split-input-file --verify-diagnostics

// One case per error of the attributes that sched declares (Facts.cpp).

func.func @case1(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' has the unknown attribute 'sched.slots', did you mean 'sched.slot'}}
  %0 = nn.exp %x {sched.slots = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{argument 0 has 'sched.slot', which stands on an operator, not on an argument}}
func.func @case2(%x: tensor<4xf32> {sched.slot = array<i64: 0, 0, 0>}) {
  return
}

// -----

func.func @case9(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' has the 'sched.slot' array<i64: 1, 0>, expected stage, strand and lane}}
  %0 = nn.exp %x {sched.slot = array<i64: 1, 0>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{'func.func' has the 'sched.kernel' true, expected no value}}
func.func @case10() attributes {sched.kernel = true} {
  return
}

// -----

func.func @case11(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' has the 'sched.label' 1 : i64, expected a string}}
  %0 = nn.exp %x {sched.label = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{'builtin.module' has the 'sched.arena' -64 : i64, expected an i64 from 0 on}}
module attributes {sched.arena = -64 : i64} {}
