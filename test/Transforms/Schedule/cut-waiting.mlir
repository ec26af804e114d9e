// RUN: tandem-opt %s --pass-pipeline='builtin.module(func.func(tandem-cut-waiting))' | FileCheck %s
// RUN: tandem-opt %s --pass-pipeline='builtin.module(func.func(tandem-cut-waiting))' -o %t.mlir
// RUN: tandem-interpret %t.mlir --compare %s

// A quarter of the all-reduce is sent in the slot of stage 1, strand 1, the rest
// in stage 2; each piece has its slot, and pays the latency.

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh, spmd.plan = #spmd.plan<prices = <cost = 0.0 : f64, compute_slowdown = 1.0 : f64, collective_slowdown = 1.0 : f64, rates = {data = array<f64: 0.0, 0.0, 0.0, 0.0, 5.000000e-01, 0.0, 0.0, 0.0>}>>} {
  // CHECK-LABEL: func.func @step
  func.func @step(%x: tensor<4x4xf64> {nn.role = #nn.role<input>, nn.name = "x", spmd.layout = tensor<4x4xf64>}) -> (tensor<4x4xf64> {spmd.layout = tensor<4x4xf64>}, tensor<4x2xf64> {spmd.layout = tensor<4x4xf64, #spmd.form<#mesh, data: gather(1)>>}, tensor<4x8xf64> {spmd.layout = tensor<4x8xf64>}, tensor<2x8xf64> {spmd.layout = tensor<4x8xf64, #spmd.form<#mesh, data: gather(0)>>}, tensor<8x2xf64> {spmd.layout = tensor<8x4xf64, #spmd.form<#mesh, data: gather(1)>>}) {
    // CHECK: %[[FLAT:.*]] = nn.reshape %arg0 {spmd.change} : (tensor<4x4xf64>) -> tensor<16xf64>
    // CHECK: %[[A:.*]] = nn.slice %[[FLAT]] {dim = 0 : i64, spmd.change, start = 0 : i64, stop = 4 : i64}
    // CHECK: %[[RA:.*]] = spmd.all_reduce %[[A]] over ["data"] {spmd.plan = #spmd.plan<stage = 3, slots = <"1/1 1">, seconds = 7.500000e-01, latency = 5.000000e-01>}
    // CHECK: %[[B:.*]] = nn.slice %[[FLAT]] {dim = 0 : i64, spmd.change, start = 4 : i64, stop = 16 : i64}
    // CHECK: %[[RB:.*]] = spmd.all_reduce %[[B]] over ["data"] {spmd.plan = #spmd.plan<stage = 3, slots = <"2/0 1">, seconds = 1.250000e+00, latency = 5.000000e-01>}
    // CHECK: nn.cat %[[RA]], %[[RB]] {dim = 0 : i64, spmd.change, spmd.plan = #spmd.plan<stage = 3>}
    // CHECK: nn.reshape {{.*}} -> tensor<4x4xf64>
    %r = spmd.all_reduce %x over ["data"] {spmd.plan = #spmd.plan<stage = 3, slots = <"1/1 0.25, 2/0 1">, seconds = 1.5>} : tensor<4x4xf64> -> tensor<4x4xf64>
    // Members of the group are the middle dimension; the largest is cut.
    // CHECK: nn.reshape %arg0 {spmd.change} : (tensor<4x4xf64>) -> tensor<4x2x2xf64>
    // CHECK-COUNT-2: spmd.reduce_scatter {{.*}} dim 1 {{.*}} : tensor<2x2x2xf64> -> tensor<2x1x2xf64>
    %s = spmd.reduce_scatter %x over ["data"] dim 1 {spmd.plan = #spmd.plan<slots = <"1/0 0.5, 2/0 1">>} : tensor<4x4xf64> -> tensor<4x2xf64>
    // CHECK-COUNT-2: spmd.all_gather {{.*}} dim 1 {{.*}} : tensor<2x1x4xf64> -> tensor<2x2x4xf64>
    %g = spmd.all_gather %x over ["data"] dim 1 {spmd.plan = #spmd.plan<slots = <"1/0 0.5, 2/0 1">>} : tensor<4x4xf64> -> tensor<4x8xf64>
    // Of an all-to-all, what stands before, between and behind.
    // CHECK: nn.reshape %arg0 {spmd.change} : (tensor<4x4xf64>) -> tensor<1x2x2x4x1xf64>
    // CHECK-COUNT-2: spmd.all_to_all {{.*}} split 1 concat 3 {{.*}} : tensor<1x2x1x4x1xf64> -> tensor<1x1x1x8x1xf64>
    // CHECK: nn.cat {{.*}} {dim = 2 : i64, spmd.change} {{.*}} -> tensor<1x1x2x8x1xf64>
    %t = spmd.all_to_all %x over ["data"] split 0 concat 1 {spmd.plan = #spmd.plan<slots = <"1/0 0.5, 2/0 1">>} : tensor<4x4xf64> -> tensor<2x8xf64>
    // CHECK: nn.reshape %arg0 {spmd.change} : (tensor<4x4xf64>) -> tensor<1x4x1x2x2xf64>
    // CHECK-COUNT-2: spmd.all_to_all {{.*}} split 3 concat 1 {{.*}} : tensor<1x4x1x2x1xf64> -> tensor<1x8x1x1x1xf64>
    // CHECK: nn.cat {{.*}} {dim = 4 : i64, spmd.change} {{.*}} -> tensor<1x8x1x1x2xf64>
    %u = spmd.all_to_all %x over ["data"] split 1 concat 0 {spmd.plan = #spmd.plan<slots = <"1/0 0.5, 2/0 1">>} : tensor<4x4xf64> -> tensor<8x2xf64>
    return %r, %s, %g, %t, %u : tensor<4x4xf64>, tensor<4x2xf64>, tensor<4x8xf64>, tensor<2x8xf64>, tensor<8x2xf64>
  }
}
