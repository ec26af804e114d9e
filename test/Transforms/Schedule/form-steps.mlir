// RUN: tandem-opt %s --tandem-form-steps --split-input-file --verify-diagnostics | FileCheck %s

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @steps
  func.func @steps(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
    // CHECK-NEXT: %[[A:.*]], %{{.*}} = sched.step on compute stage 0 strand 0 {
    // CHECK-NEXT: %[[C:.*]] = nn.constant dense<3.000000e+00>
    // CHECK-NEXT: %[[M:.*]] = nn.mul %arg0, %[[C]]
    // CHECK-NEXT: nn.exp %[[M]]
    // CHECK-NEXT: sched.yield
    // CHECK: %[[R:.*]], %{{.*}} = sched.step on comm stage 1 strand 0 {
    // CHECK-NEXT: spmd.all_reduce %[[A]]
    // CHECK: %[[B:.*]]:2, %{{.*}} = sched.step on compute stage 1 strand 0 {
    // CHECK: return %[[B]]#0, %[[B]]#1
    %c = nn.constant dense<3.0> : tensor<f32> -> tensor<f32>
    %0 = nn.mul %x, %c {sched.slot = array<i64: 0, 0, 2>} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %1 = nn.exp %0 {sched.slot = array<i64: 0, 0, 2>} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = spmd.all_reduce %1 over ["data"] {sched.slot = array<i64: 1, 0, 0>} : tensor<4xf32> -> tensor<4xf32>
    %3 = nn.mul %2, %c {sched.slot = array<i64: 1, 0, 2>} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    return %3, %c : tensor<4xf32>, tensor<f32>
  }
}

// -----

// In turn are the collectives of the first strand of the stages that the plan
// names, not what waits before them.

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @in_turn
  func.func @in_turn(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) attributes {spmd.plan = #spmd.plan<in_turn = [2]>} {
    // CHECK: sched.step on comm stage 1 strand 0 {
    // CHECK: } : tensor<4xf32>
    // CHECK: sched.step on comm stage 2 strand 0 {
    // CHECK: } : tensor<4xf32>
    // CHECK: sched.step on comm stage 2 strand 0 {
    // CHECK: } {spmd.plan = #spmd.plan<in_turn = [2]>} : tensor<4xf32>
    // CHECK: sched.step on comm stage 2 strand 1 {
    // CHECK: } : tensor<4xf32>
    %0 = spmd.all_reduce %x over ["data"] {sched.slot = array<i64: 1, 0, 0>} : tensor<4xf32> -> tensor<4xf32>
    %1 = spmd.all_reduce %x over ["data"] {sched.slot = array<i64: 2, 0, -1>} : tensor<4xf32> -> tensor<4xf32>
    %2 = spmd.all_reduce %x over ["data"] {sched.slot = array<i64: 2, 0, 0>} : tensor<4xf32> -> tensor<4xf32>
    %3 = spmd.all_reduce %x over ["data"] {sched.slot = array<i64: 2, 1, 0>} : tensor<4xf32> -> tensor<4xf32>
    return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// What is made again of earlier values is a step of its own, which waits for no
// collective of its stage.

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @ahead
  // CHECK-NOT: spmd.ahead
  func.func @ahead(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) attributes {spmd.ahead = array<i64: 1>} {
    // CHECK: sched.step on comm stage 1 strand 0 {
    // CHECK: sched.step on compute stage 1 strand 0 {
    // CHECK-NEXT: nn.exp %arg0
    // CHECK-NEXT: nn.neg
    // CHECK-NEXT: nn.matmul
    // CHECK-NEXT: sched.yield
    // CHECK: sched.step on compute stage 1 strand 0 {
    // CHECK-NEXT: nn.exp
    // CHECK-NEXT: nn.mul
    %a = nn.neg %x {sched.slot = array<i64: 0, 0, 2>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = spmd.all_reduce %x over ["data"] {sched.slot = array<i64: 1, 0, 0>} : tensor<4x4xf32> -> tensor<4x4xf32>
    %e = nn.exp %r {sched.slot = array<i64: 1, 0, 2>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // What it reads of arguments alone comes with it.
    %f = nn.exp %x {sched.slot = array<i64: 1, 0, 2>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %g = nn.neg %f {sched.slot = array<i64: 1, 0, 2>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %m = nn.matmul %a, %g {nn.again, sched.slot = array<i64: 1, 0, 2>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %u = nn.mul %e, %m {sched.slot = array<i64: 1, 0, 2>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %u, %m : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// What is copied from the host ends a step, also where something runs ahead:
// what runs ahead behind it waits for no collective either.

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @ahead_of_host
  func.func @ahead_of_host(%x: tensor<4x4xf32>, %w: tensor<4x4xf32> {spmd.host}) -> (tensor<4x4xf32>, tensor<4x4xf32>) attributes {spmd.ahead = array<i64: 1>} {
    // CHECK: sched.step on comm stage 1 strand 0 {
    // CHECK: sched.step on copy
    // CHECK-NEXT: sched.from_host %arg1
    // CHECK: sched.step on compute stage 1 strand 0 {
    // CHECK-NEXT: nn.matmul
    // CHECK-NEXT: sched.yield
    // CHECK: sched.step on compute stage 1 strand 0 {
    // CHECK-NEXT: nn.exp
    // CHECK-NEXT: nn.mul
    %a = nn.neg %x {sched.slot = array<i64: 0, 0, 2>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = spmd.all_reduce %x over ["data"] {sched.slot = array<i64: 1, 0, 0>} : tensor<4x4xf32> -> tensor<4x4xf32>
    %e = nn.exp %r {sched.slot = array<i64: 1, 0, 2>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %v = nn.from_host %w {sched.slot = array<i64: 1, 0, 2>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %m = nn.matmul %a, %v {nn.again, sched.slot = array<i64: 1, 0, 2>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %u = nn.mul %e, %m {sched.slot = array<i64: 1, 0, 2>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %u, %m : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// Random masks make the positions that they read, a table's reader does not.

// CHECK-LABEL: func.func @positions
func.func @positions(%seed: tensor<i64>, %step: tensor<i64>, %table: tensor<8x2xf32>) -> (tensor<4xi64>, tensor<4xi64>, tensor<4x2xf32>) {
  // CHECK: %[[A:.*]]:2, %{{.*}} = sched.step on compute stage 0 strand 0 {
  // CHECK: %[[I:.*]] = nn.iota
  // CHECK: %[[P:.*]] = nn.mul %[[I]]
  // CHECK: %[[R:.*]] = nn.philox %[[P]]
  // CHECK: sched.yield %[[P]], %[[R]]
  // CHECK: sched.step on compute stage 1 strand 0 {
  // CHECK: %[[J:.*]] = nn.iota
  // CHECK: %[[Q:.*]] = nn.mul %[[J]]
  // CHECK: nn.philox %[[Q]]
  // CHECK: nn.embedding %arg2, %[[A]]#0
  %i = nn.iota : tensor<4xi64>
  %c = nn.constant dense<2> : tensor<i64> -> tensor<i64>
  %p = nn.mul %i, %c {sched.slot = array<i64: 0, 0, 2>} : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  %0 = nn.philox %p, %seed, %step {ordinal = 0 : i64, sched.slot = array<i64: 0, 0, 2>} : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  %1 = nn.philox %p, %seed, %step {ordinal = 1 : i64, sched.slot = array<i64: 1, 0, 2>} : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  %2 = nn.embedding %table, %p {sched.slot = array<i64: 1, 0, 2>} : (tensor<8x2xf32>, tensor<4xi64>) -> tensor<4x2xf32>
  return %0, %1, %2 : tensor<4xi64>, tensor<4xi64>, tensor<4x2xf32>
}

// -----

func.func @no_slot(%x: tensor<4xf32>) {
  // expected-error @+1 {{has no slot ('sched.slot': stage, strand, lane), expected one}}
  %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  return
}
