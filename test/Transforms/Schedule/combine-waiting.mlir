// RUN: tandem-opt %s --pass-pipeline='builtin.module(func.func(tandem-combine-waiting))' | FileCheck %s
// RUN: tandem-opt %s --pass-pipeline='builtin.module(func.func(tandem-combine-waiting))' -o %t.mlir
// RUN: tandem-interpret %t.mlir --compare %s

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh, spmd.plan = #spmd.plan<prices = <cost = 0.0 : f64, compute_slowdown = 1.0 : f64, collective_slowdown = 1.0 : f64, rates = {data = array<f64: 0.0, 0.0, 0.0, 0.0, 5.000000e-01, 0.0, 0.0, 0.0>}>>} {
  // The two all-reduces of the slot are one, which pays one latency, behind the
  // last of what makes their operands; what arrives is taken apart where it is
  // read first. The third one is of another slot, the fourth of another type.
  // CHECK-LABEL: func.func @step
  func.func @step(%x: tensor<4xf64> {nn.role = #nn.role<input>, nn.name = "x", spmd.layout = tensor<4xf64>}, %y: tensor<2x2xf64> {nn.role = #nn.role<input>, nn.name = "y", spmd.layout = tensor<2x2xf64>}, %z: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "z", spmd.layout = tensor<4xf32>})
      -> (tensor<4xf64> {spmd.layout = tensor<4xf64>}, tensor<2x2xf64> {spmd.layout = tensor<2x2xf64>}, tensor<4xf64> {spmd.layout = tensor<4xf64>}, tensor<4xf32> {spmd.layout = tensor<4xf32>}) {
    // CHECK: %[[A:.*]] = nn.exp %arg0
    // CHECK: %[[B:.*]] = nn.exp %arg1
    %a = nn.exp %x {nn.pass = #nn.pass<backward>, sched.slot = array<i64: 0, 0, 2>} : (tensor<4xf64>) -> tensor<4xf64>
    %b = nn.exp %y {nn.pass = #nn.pass<backward>, sched.slot = array<i64: 1, 0, 2>} : (tensor<2x2xf64>) -> tensor<2x2xf64>
    %c = nn.exp %z {nn.pass = #nn.pass<backward>, sched.slot = array<i64: 1, 0, 2>} : (tensor<4xf32>) -> tensor<4xf32>
    // CHECK-DAG: %[[RA:.*]] = nn.reshape %[[A]] {sched.slot = array<i64: 1, 0, 2>, spmd.change} : (tensor<4xf64>) -> tensor<1x4xf64>
    // CHECK-DAG: %[[RB:.*]] = nn.reshape %[[B]] {sched.slot = array<i64: 1, 0, 2>, spmd.change} : (tensor<2x2xf64>) -> tensor<1x4xf64>
    // CHECK: %[[P:.*]] = nn.cat %[[RA]], %[[RB]] {dim = 1 : i64, sched.slot = array<i64: 1, 0, 2>, spmd.change}
    // CHECK: %[[S:.*]] = spmd.all_reduce %[[P]] over ["data"] {nn.pass = #backward, sched.slot = array<i64: 3, 0, 1>, spmd.change, spmd.plan = #spmd.plan<seconds = 3.500000e+00>} : tensor<1x8xf64>
    // CHECK: %[[SA:.*]] = nn.slice %[[S]] {dim = 1 : i64, sched.slot = array<i64: 4, 0, 2>, spmd.change, start = 0 : i64, stop = 4 : i64}
    // CHECK: %[[GA:.*]] = nn.reshape %[[SA]] {{.*}} -> tensor<4xf64>
    // CHECK: %[[SB:.*]] = nn.slice %[[S]] {dim = 1 : i64, sched.slot = array<i64: 5, 0, 2>, spmd.change, start = 4 : i64, stop = 8 : i64}
    // CHECK: %[[GB:.*]] = nn.reshape %[[SB]] {{.*}} -> tensor<2x2xf64>
    %ga = spmd.all_reduce %a over ["data"] {nn.pass = #nn.pass<backward>, spmd.change, sched.slot = array<i64: 3, 0, 1>, spmd.plan = #spmd.plan<seconds = 2.0>} : tensor<4xf64> -> tensor<4xf64>
    %gb = spmd.all_reduce %b over ["data"] {nn.pass = #nn.pass<backward>, spmd.change, sched.slot = array<i64: 3, 0, 1>, spmd.plan = #spmd.plan<seconds = 2.0>} : tensor<2x2xf64> -> tensor<2x2xf64>
    // CHECK: spmd.all_reduce %[[A]] {{.*}}array<i64: 4, 0, 1>
    %gc = spmd.all_reduce %a over ["data"] {nn.pass = #nn.pass<backward>, spmd.change, sched.slot = array<i64: 4, 0, 1>} : tensor<4xf64> -> tensor<4xf64>
    // CHECK: spmd.all_reduce {{.*}} : tensor<4xf32>
    %gd = spmd.all_reduce %c over ["data"] {nn.pass = #nn.pass<backward>, spmd.change, sched.slot = array<i64: 3, 0, 1>} : tensor<4xf32> -> tensor<4xf32>
    // CHECK: nn.neg %[[GA]]
    // CHECK: nn.neg %[[GB]]
    %0 = nn.neg %ga {nn.pass = #nn.pass<update>, sched.slot = array<i64: 4, 0, 2>} : (tensor<4xf64>) -> tensor<4xf64>
    %1 = nn.neg %gb {nn.pass = #nn.pass<update>, sched.slot = array<i64: 5, 0, 2>} : (tensor<2x2xf64>) -> tensor<2x2xf64>
    return %0, %1, %gc, %gd : tensor<4xf64>, tensor<2x2xf64>, tensor<4xf64>, tensor<4xf32>
  }

  // A scattered sum has a row for each member. What is read by a collective, and
  // what is large, is sent by itself.
  // CHECK-LABEL: func.func @scatters
  func.func @scatters(%x: tensor<4x3xf64> {nn.role = #nn.role<input>, nn.name = "x", spmd.layout = tensor<4x3xf64>}, %y: tensor<2xf64> {nn.role = #nn.role<input>, nn.name = "y", spmd.layout = tensor<2xf64>}, %z: tensor<40000xf64> {nn.role = #nn.role<input>, nn.name = "z", spmd.layout = tensor<40000xf64>})
      -> (tensor<2x3xf64> {spmd.layout = tensor<4x3xf64, #spmd.form<#mesh, data: gather(0)>>}, tensor<1xf64> {spmd.layout = tensor<2xf64, #spmd.form<#mesh, data: gather(0)>>}, tensor<20000xf64> {spmd.layout = tensor<40000xf64, #spmd.form<#mesh, data: gather(0)>>}, tensor<2xf64> {spmd.layout = tensor<2xf64>}) {
    %a = nn.exp %x {nn.pass = #nn.pass<backward>, sched.slot = array<i64: 0, 0, 2>} : (tensor<4x3xf64>) -> tensor<4x3xf64>
    %b = nn.exp %y {nn.pass = #nn.pass<backward>, sched.slot = array<i64: 0, 0, 2>} : (tensor<2xf64>) -> tensor<2xf64>
    %c = nn.exp %z {nn.pass = #nn.pass<backward>, sched.slot = array<i64: 0, 0, 2>} : (tensor<40000xf64>) -> tensor<40000xf64>
    // CHECK: %[[P:.*]] = nn.cat {{.*}} : (tensor<2x6xf64>, tensor<2x1xf64>) -> tensor<2x7xf64>
    // CHECK: spmd.reduce_scatter %[[P]] over ["data"] dim 0 {{.*}} : tensor<2x7xf64> -> tensor<1x7xf64>
    // CHECK: -> tensor<2x3xf64>
    // CHECK: spmd.reduce_scatter {{.*}} : tensor<40000xf64> -> tensor<20000xf64>
    // CHECK: %[[F:.*]] = spmd.reduce_scatter {{.*}} : tensor<2xf64> -> tensor<1xf64>
    // CHECK: spmd.all_gather %[[F]]
    %ga = spmd.reduce_scatter %a over ["data"] dim 0 {nn.pass = #nn.pass<backward>, spmd.change, sched.slot = array<i64: 2, 0, 1>} : tensor<4x3xf64> -> tensor<2x3xf64>
    %gb = spmd.reduce_scatter %b over ["data"] dim 0 {nn.pass = #nn.pass<backward>, spmd.change, sched.slot = array<i64: 2, 0, 1>} : tensor<2xf64> -> tensor<1xf64>
    %gc = spmd.reduce_scatter %c over ["data"] dim 0 {nn.pass = #nn.pass<backward>, spmd.change, sched.slot = array<i64: 2, 0, 1>} : tensor<40000xf64> -> tensor<20000xf64>
    %gd = spmd.reduce_scatter %b over ["data"] dim 0 {nn.pass = #nn.pass<backward>, spmd.change, sched.slot = array<i64: 2, 0, 1>} : tensor<2xf64> -> tensor<1xf64>
    %ge = spmd.all_gather %gd over ["data"] dim 0 {nn.pass = #nn.pass<backward>, spmd.change, sched.slot = array<i64: 3, 0, 0>} : tensor<1xf64> -> tensor<2xf64>
    return %ga, %gb, %gc, %ge : tensor<2x3xf64>, tensor<1xf64>, tensor<20000xf64>, tensor<2xf64>
  }
}
