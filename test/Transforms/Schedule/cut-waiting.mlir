// RUN: tandem-opt %s --pass-pipeline='builtin.module(func.func(tandem-cut-waiting))' --split-input-file --verify-diagnostics | FileCheck %s
// RUN: sed '/^\/\/ -----/,$d' %s > %t.source.mlir
// RUN: tandem-opt %t.source.mlir --pass-pipeline='builtin.module(func.func(tandem-cut-waiting))' -o %t.mlir
// RUN: tandem-interpret %t.mlir --compare %t.source.mlir

// A quarter of the all-reduce is sent in the slot of stage 1, strand 1, the rest
// in stage 2; each piece has its slot. An all-to-all is not cut.

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh, sched.prices = {piece = 1.000000e-03 : f64}} {
  // CHECK-LABEL: func.func @step
  func.func @step(%x: tensor<4x4xf64> {nn.role = "input", nn.name = "x", spmd.layout = tensor<4x4xf64>}) -> (tensor<4x4xf64> {spmd.layout = tensor<4x4xf64>}, tensor<4x2xf64> {spmd.layout = tensor<4x4xf64, #spmd.form<#mesh, data: gather(1)>>}, tensor<4x8xf64> {spmd.layout = tensor<4x8xf64>}, tensor<2x8xf64> {spmd.layout = tensor<4x8xf64, #spmd.form<#mesh, data: gather(0)>>}) {
    // CHECK: %[[FLAT:.*]] = nn.reshape %arg0 : (tensor<4x4xf64>) -> tensor<1x1x16xf64>
    // CHECK: %[[A:.*]] = nn.slice %[[FLAT]] {dim = 2 : i64, start = 0 : i64, stop = 4 : i64}
    // CHECK: %[[RA:.*]] = spmd.all_reduce %[[A]] over ["data"] {sched.seconds = 2.500000e-01 : f64, sched.stage = 3 : i64, sched.waits = array<f64: 1.000000e+00, 1.000000e+00, 1.000000e+00>}
    // CHECK: %[[B:.*]] = nn.slice %[[FLAT]] {dim = 2 : i64, start = 4 : i64, stop = 16 : i64}
    // CHECK: %[[RB:.*]] = spmd.all_reduce %[[B]] over ["data"] {sched.latency = 1.000000e-03 : f64, sched.seconds = 7.510000e-01 : f64, sched.stage = 3 : i64, sched.waits = array<f64: 2.000000e+00, 0.000000e+00, 1.000000e+00>}
    // CHECK: nn.cat %[[RA]], %[[RB]] {dim = 2 : i64, sched.stage = 3 : i64}
    // CHECK: nn.reshape {{.*}} -> tensor<4x4xf64>
    %r = spmd.all_reduce %x over ["data"] {sched.seconds = 1.0 : f64, sched.stage = 3 : i64, sched.waits = array<f64: 1.0, 1.0, 0.25, 2.0, 0.0, 1.0>} : tensor<4x4xf64> -> tensor<4x4xf64>
    // Members of the group are the middle dimension.
    // CHECK: nn.reshape %arg0 : (tensor<4x4xf64>) -> tensor<4x2x2xf64>
    // CHECK-COUNT-2: spmd.reduce_scatter {{.*}} dim 1 {{.*}} : tensor<4x2x1xf64> -> tensor<4x1x1xf64>
    %s = spmd.reduce_scatter %x over ["data"] dim 1 {sched.waits = array<f64: 1.0, 0.0, 0.5, 2.0, 0.0, 1.0>} : tensor<4x4xf64> -> tensor<4x2xf64>
    // CHECK-COUNT-2: spmd.all_gather {{.*}} dim 1 {{.*}} -> tensor<4x2x2xf64>
    %g = spmd.all_gather %x over ["data"] dim 1 {sched.waits = array<f64: 1.0, 0.0, 0.5, 2.0, 0.0, 1.0>} : tensor<4x4xf64> -> tensor<4x8xf64>
    // CHECK: spmd.all_to_all %arg0
    // CHECK-NOT: spmd
    %t = spmd.all_to_all %x over ["data"] split 0 concat 1 {sched.waits = array<f64: 1.0, 0.0, 0.5, 2.0, 0.0, 1.0>} : tensor<4x4xf64> -> tensor<2x8xf64>
    return %r, %s, %g, %t : tensor<4x4xf64>, tensor<4x2xf64>, tensor<4x8xf64>, tensor<2x8xf64>
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @step(%x: tensor<4xf64>) -> tensor<4xf64> {
    // expected-error @+1 {{has 2 numbers in 'sched.waits', expected stage, strand and share per piece}}
    %r = spmd.all_reduce %x over ["data"] {sched.waits = array<f64: 1.0, 1.0>} : tensor<4xf64> -> tensor<4xf64>
    return %r : tensor<4xf64>
  }
}
