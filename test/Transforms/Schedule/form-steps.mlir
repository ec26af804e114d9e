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

func.func @no_slot(%x: tensor<4xf32>) {
  // expected-error @+1 {{has no slot ('sched.slot': stage, strand, lane), expected one}}
  %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  return
}
