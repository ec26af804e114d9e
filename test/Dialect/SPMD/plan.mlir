// What a plan decided is one attribute. It prints as it parses; with
// signatures under a name that says them.
// RUN: tandem-opt %s | tandem-opt | FileCheck %s

#mesh = #spmd.mesh<data = 2, time micro = 2>
// CHECK: #stage3_g0_g0_to_g0_and_f_f_to_f_plan = #spmd.plan<signatures = <"gather(0), gather(0) -> gather(0)", "full, full -> full">, waits = [<"0 full, full in 20/1 0.25, 21/0 1 then 21/0 1">, <"0 gather(0), full">], stage = 3, seconds = 1.000000e-03>
// CHECK: module attributes {{.*}}spmd.plan = #spmd.plan<prices = <cost = 1.500000e-03 : f64, compute_slowdown = 1.000000e+00 : f64, collective_slowdown = 1.250000e+00 : f64, rates = {data = array<f64: 1.000000e-05, 1.000000e-10, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00>}>>
module attributes {spmd.mesh = #mesh, spmd.plan = #spmd.plan<prices = <cost = 1.5e-03 : f64, compute_slowdown = 1.0 : f64, collective_slowdown = 1.25 : f64, rates = {data = array<f64: 1.0e-05, 1.0e-10, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0>}>>} {
  // CHECK: func.func @step(%{{.*}}: tensor<4xf32> {spmd.plan = #spmd.plan<form = <#mesh, data: gather(0)>, copies = [<"0 forward kept gather(0), full -> full, full">]>})
  // CHECK-SAME: -> (tensor<4xf32> {spmd.plan = #spmd.plan<stage = 7>}) attributes {spmd.plan = #spmd.plan<in_turn = [2, 4]>}
  func.func @step(%x: tensor<4xf32> {spmd.plan = #spmd.plan<form = #spmd.form<#mesh, data: gather(0)>, copies = [#spmd.copy<"0 forward kept gather(0), full -> full, full">]>})
      -> (tensor<4xf32> {spmd.plan = #spmd.plan<stage = 7>}) attributes {spmd.plan = #spmd.plan<in_turn = [2, 4]>} {
    // CHECK: nn.constant {{.*}}spmd.plan = #spmd.plan<as_wanted>
    %c = nn.constant dense<0.5> : tensor<4xf32> {spmd.plan = #spmd.plan<as_wanted>} -> tensor<4xf32>
    // CHECK: nn.mul {{.*}}spmd.plan = #stage3_g0_g0_to_g0_and_f_f_to_f_plan
    %0 = nn.mul %x, %c {spmd.plan = #spmd.plan<seconds = 1.0e-03, stage = 3, waits = [<"0 full, full in 20/1 0.25, 21/0 1 then 21/0 1">, <"0 gather(0), full">], signatures = <"gather(0), gather(0)->gather(0)", "full,full -> full">>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    // CHECK: spmd.all_reduce {{.*}}spmd.plan = #spmd.plan<stage = 5, joins, slots = <"4/1 0.5, 5/0 1">, seconds = 2.000000e+00, latency = 5.000000e-01>
    %1 = spmd.all_reduce %0 over ["data"] {spmd.plan = #spmd.plan<joins, latency = 0.5, seconds = 2.0, slots = <"4/1 0.5, 5/0 1">, stage = 5>} : tensor<4xf32> -> tensor<4xf32>
    // No slot: the schedule takes the next one.
    // CHECK: spmd.all_reduce {{.*}}spmd.plan = #spmd.plan<stage = 6, slots = <"">>
    %2 = spmd.all_reduce %1 over ["data"] {spmd.plan = #spmd.plan<stage = 6, slots = <"">>} : tensor<4xf32> -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}
