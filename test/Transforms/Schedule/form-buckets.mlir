// RUN: tandem-opt %s --split-input-file --tandem-form-buckets=bucket=16 | FileCheck %s

// The updates of stage 3, one of a parameter each, are two stages. What needs nothing of the
// host goes with what reads it (%d); stages behind are numbered anew.
// CHECK-LABEL: func.func @buckets
func.func @buckets(%g: tensor<4xf32>, %b: tensor<4xf32>,
                   %m: tensor<4xf32> {nn.role = #nn.role<state>, nn.name = "m.a", nn.of = "a", spmd.host},
                   %v: tensor<4xf32> {nn.role = #nn.role<state>, nn.name = "v.a", nn.of = "a"},
                   %n: tensor<4xf32> {nn.role = #nn.role<state>, nn.name = "m.b", nn.of = "b", spmd.host})
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK: nn.exp {{.*}}sched.slot = array<i64: 0, 0, 2>
  %e = nn.exp %g {nn.pass = #nn.pass<backward>, sched.slot = array<i64: 2, 0, 2>} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: nn.neg {{.*}}sched.slot = array<i64: 2, 0, 2>
  %d = nn.neg %b {nn.pass = #nn.pass<update>, sched.slot = array<i64: 3, 0, 2>} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: nn.add %arg2{{.*}}sched.slot = array<i64: 1, 0, 2>
  %m1 = nn.add %m, %e {nn.pass = #nn.pass<update>, sched.slot = array<i64: 3, 0, 2>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: nn.add %arg3{{.*}}sched.slot = array<i64: 1, 0, 2>
  %v1 = nn.add %v, %m1 {nn.pass = #nn.pass<update>, sched.slot = array<i64: 3, 0, 2>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: nn.add %arg4{{.*}}sched.slot = array<i64: 2, 0, 2>
  %n1 = nn.add %n, %d {nn.pass = #nn.pass<update>, sched.slot = array<i64: 3, 0, 2>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: nn.exp {{.*}}sched.slot = array<i64: 3, 0, 2>
  %r = nn.exp %n1 {nn.pass = #nn.pass<update>, sched.slot = array<i64: 4, 0, 2>} : (tensor<4xf32>) -> tensor<4xf32>
  return %v1, %m1, %r : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Nothing lies on the host.
// CHECK-LABEL: func.func @none
func.func @none(%g: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: sched.slot = array<i64: 2, 0, 2>
  %e = nn.exp %g {nn.pass = #nn.pass<update>, sched.slot = array<i64: 2, 0, 2>} : (tensor<4xf32>) -> tensor<4xf32>
  return %e : tensor<4xf32>
}

// -----

// The gradient of b comes first, and so does its bucket. Each sum is in the stage of its bucket,
// so that the first update does not wait for both.
#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @arrival
  func.func @arrival(%a: tensor<4xf32>, %b: tensor<4xf32>,
                     %m: tensor<4xf32> {nn.role = #nn.role<state>, nn.name = "m.a", nn.of = "a", spmd.host},
                     %n: tensor<4xf32> {nn.role = #nn.role<state>, nn.name = "m.b", nn.of = "b", spmd.host})
      -> (tensor<4xf32>, tensor<4xf32>) {
    // CHECK: spmd.all_reduce {{.*}}sched.slot = array<i64: 0, 0, 1>
    %h = spmd.all_reduce %b over ["data"] {nn.pass = #nn.pass<backward>, sched.slot = array<i64: 0, 0, 1>} : tensor<4xf32> -> tensor<4xf32>
    // CHECK: spmd.all_reduce {{.*}}sched.slot = array<i64: 1, 0, 1>
    %g = spmd.all_reduce %a over ["data"] {nn.pass = #nn.pass<backward>, sched.slot = array<i64: 0, 0, 1>} : tensor<4xf32> -> tensor<4xf32>
    // CHECK: nn.add %arg2{{.*}}sched.slot = array<i64: 1, 0, 2>
    %m1 = nn.add %m, %g {nn.pass = #nn.pass<update>, sched.slot = array<i64: 1, 0, 2>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    // CHECK: nn.add %arg3{{.*}}sched.slot = array<i64: 0, 0, 2>
    %n1 = nn.add %n, %h {nn.pass = #nn.pass<update>, sched.slot = array<i64: 1, 0, 2>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %m1, %n1 : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// A sum beside which something is computed stays where it is. What is made of a gradient is in its bucket.
#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @early
  func.func @early(%a: tensor<4xbf16>, %b: tensor<4xf32>,
                   %m: tensor<4xf32> {nn.role = #nn.role<state>, nn.name = "m.a", nn.of = "a", spmd.host},
                   %n: tensor<4xf32> {nn.role = #nn.role<state>, nn.name = "m.b", nn.of = "b", spmd.host})
      -> (tensor<4xf32>, tensor<4xf32>) {
    // CHECK: spmd.all_reduce {{.*}}sched.slot = array<i64: 0, 0, 1>
    %h = spmd.all_reduce %b over ["data"] {nn.pass = #nn.pass<backward>, sched.slot = array<i64: 0, 0, 1>} : tensor<4xf32> -> tensor<4xf32>
    // CHECK: nn.exp {{.*}}sched.slot = array<i64: 0, 0, 2>
    %e = nn.exp %a {nn.pass = #nn.pass<backward>, sched.slot = array<i64: 0, 0, 2>} : (tensor<4xbf16>) -> tensor<4xbf16>
    // CHECK: spmd.all_reduce {{.*}}sched.slot = array<i64: 2, 0, 1>
    %g = spmd.all_reduce %e over ["data"] {nn.pass = #nn.pass<backward>, sched.slot = array<i64: 1, 0, 1>} : tensor<4xbf16> -> tensor<4xbf16>
    // CHECK: nn.convert {{.*}}sched.slot = array<i64: 2, 0, 2>
    %w = nn.convert %g {nn.pass = #nn.pass<backward>, sched.slot = array<i64: 2, 0, 2>} : (tensor<4xbf16>) -> tensor<4xf32>
    // CHECK: nn.add %arg2{{.*}}sched.slot = array<i64: 2, 0, 2>
    %m1 = nn.add %m, %w {nn.pass = #nn.pass<update>, sched.slot = array<i64: 2, 0, 2>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    // CHECK: nn.add %arg3{{.*}}sched.slot = array<i64: 1, 0, 2>
    %n1 = nn.add %n, %h {nn.pass = #nn.pass<update>, sched.slot = array<i64: 2, 0, 2>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %m1, %n1 : tensor<4xf32>, tensor<4xf32>
  }
}
