// RUN: tandem-opt %s --tandem-schedule | FileCheck %s
// RUN: tandem-opt %s --tandem-schedule -o %t.mlir
// RUN: tandem-interpret %t.mlir --compare %s
// RUN: tandem-opt %s --tandem-schedule -o %t.again.mlir
// RUN: cmp %t.mlir %t.again.mlir

// Two strands with a collective each, a gathered parameter, a gradient: HiDup's
// lock step. While strand 1 communicates, strand 0 computes.

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @step(
      %x: tensor<4x4xf64> {nn.role = #nn.role<input>, nn.name = "x", spmd.layout = tensor<8x4xf64, #spmd.form<#mesh, data: gather(0), micro: gather(0)>>},
      %w: tensor<2x4xf64> {nn.role = #nn.role<parameter>, nn.name = "w", spmd.layout = tensor<4x4xf64, #spmd.form<#mesh, data: gather(0)>>})
      -> (tensor<f64> {nn.role = #nn.role<loss>, nn.name = "loss", spmd.layout = tensor<f64>},
          tensor<2x4xf64> {nn.role = #nn.role<parameter>, nn.name = "w", nn.updates = 1, spmd.layout = tensor<4x4xf64, #spmd.form<#mesh, data: gather(0)>>}) {
    // CHECK: %[[W:.*]], %[[EW:.*]] = sched.step on comm stage 0 strand 0 {
    // CHECK-NEXT: spmd.all_gather %arg1
    %two = nn.constant dense<2.0> : tensor<f64> {nn.pass = #nn.pass<forward>, nn.id = 9 : i64} -> tensor<f64>
    %wf = spmd.all_gather %w over ["data"] dim 0 {nn.pass = #nn.pass<forward>, spmd.change} : tensor<2x4xf64> -> tensor<4x4xf64>
    // CHECK: %[[H0:.*]]:2, %[[E0:.*]] = sched.step on compute stage 0 strand 0 after(%[[EW]]) {
    // CHECK-NEXT: nn.slice %arg0
    // CHECK-NEXT: nn.matmul %{{.*}}, %[[W]]
    %x0 = nn.slice %x {dim = 0 : i64, start = 0 : i64, stop = 2 : i64, nn.pass = #nn.pass<forward>, nn.strand = 0 : i64, spmd.change} : (tensor<4x4xf64>) -> tensor<2x4xf64>
    %h0 = nn.matmul %x0, %wf {nn.pass = #nn.pass<forward>, nn.id = 0 : i64, nn.strand = 0 : i64} : (tensor<2x4xf64>, tensor<4x4xf64>) -> tensor<2x4xf64>
    // CHECK: %[[H1:.*]]:2, %[[E1:.*]] = sched.step on compute stage 0 strand 1 {
    %x1 = nn.slice %x {dim = 0 : i64, start = 2 : i64, stop = 4 : i64, nn.pass = #nn.pass<forward>, nn.strand = 1 : i64, spmd.change} : (tensor<4x4xf64>) -> tensor<2x4xf64>
    %h1 = nn.matmul %x1, %wf {nn.pass = #nn.pass<forward>, nn.id = 0 : i64, nn.strand = 1 : i64} : (tensor<2x4xf64>, tensor<4x4xf64>) -> tensor<2x4xf64>
    // CHECK: %[[C0:.*]], %[[EC0:.*]] = sched.step on comm stage 1 strand 0 after(%[[E0]]) {
    // CHECK-NEXT: spmd.all_to_all %[[H0]]#1
    %c0 = spmd.all_to_all %h0 over ["data"] split 0 concat 1 {nn.pass = #nn.pass<forward>, nn.strand = 0 : i64, spmd.change} : tensor<2x4xf64> -> tensor<1x8xf64>
    %c1 = spmd.all_to_all %h1 over ["data"] split 0 concat 1 {nn.pass = #nn.pass<forward>, nn.strand = 1 : i64, spmd.change} : tensor<2x4xf64> -> tensor<1x8xf64>
    // The constant is made again in each step that reads it.
    // CHECK: %[[R0:.*]]:2, %[[ER0:.*]] = sched.step on compute stage 1 strand 0 after(%[[EC0]]) {
    // CHECK-NEXT: nn.constant
    // CHECK-NEXT: nn.mul %[[C0]]
    // CHECK: %[[C1:.*]], %[[EC1:.*]] = sched.step on comm stage 1 strand 1 after(%[[E1]]) {
    // CHECK: sched.step on compute stage 1 strand 1 after(%[[EC1]]) {
    // CHECK-NEXT: nn.constant
    // CHECK-NEXT: nn.mul %[[C1]]
    %d0 = nn.mul %c0, %two {nn.pass = #nn.pass<forward>, nn.id = 1 : i64, nn.strand = 0 : i64} : (tensor<1x8xf64>, tensor<f64>) -> tensor<1x8xf64>
    %d1 = nn.mul %c1, %two {nn.pass = #nn.pass<forward>, nn.id = 1 : i64, nn.strand = 1 : i64} : (tensor<1x8xf64>, tensor<f64>) -> tensor<1x8xf64>
    %l0 = nn.sum %d0 {dims = array<i64: 0, 1>, nn.pass = #nn.pass<forward>, nn.id = 2 : i64, nn.strand = 0 : i64} : (tensor<1x8xf64>) -> tensor<f64>
    %l1 = nn.sum %d1 {dims = array<i64: 0, 1>, nn.pass = #nn.pass<forward>, nn.id = 2 : i64, nn.strand = 1 : i64} : (tensor<1x8xf64>) -> tensor<f64>
    %l = nn.add %l0, %l1 {nn.pass = #nn.pass<forward>, spmd.change} : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %loss = spmd.all_reduce %l over ["data"] {nn.pass = #nn.pass<forward>, spmd.change} : tensor<f64> -> tensor<f64>
    // What waits comes behind the last strand's collectives of the next stage.
    // CHECK: sched.step on comm stage 3 strand 1 after(%{{.*}}) {
    // CHECK-NEXT: spmd.all_reduce
    // CHECK-NEXT: spmd.reduce_scatter
    %t0 = nn.permute %x0 {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<backward>, nn.id = 3 : i64, nn.strand = 0 : i64} : (tensor<2x4xf64>) -> tensor<4x2xf64>
    %t1 = nn.permute %x1 {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<backward>, nn.id = 3 : i64, nn.strand = 1 : i64} : (tensor<2x4xf64>) -> tensor<4x2xf64>
    %g0 = nn.matmul %t0, %h0 {nn.pass = #nn.pass<backward>, nn.id = 4 : i64, nn.strand = 0 : i64} : (tensor<4x2xf64>, tensor<2x4xf64>) -> tensor<4x4xf64>
    %g1 = nn.matmul %t1, %h1 {nn.pass = #nn.pass<backward>, nn.id = 4 : i64, nn.strand = 1 : i64} : (tensor<4x2xf64>, tensor<2x4xf64>) -> tensor<4x4xf64>
    %g = nn.add %g0, %g1 {nn.pass = #nn.pass<backward>, spmd.change} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
    %gr = spmd.reduce_scatter %g over ["data"] dim 0 {nn.pass = #nn.pass<backward>, spmd.change} : tensor<4x4xf64> -> tensor<2x4xf64>
    // Weight decay waits for the gradient, to be one kernel with the update.
    // CHECK: sched.step on compute stage 4 strand 0 after(%{{.*}}) {
    // CHECK: nn.mul %arg1
    // CHECK-NEXT: nn.sub
    // CHECK-NEXT: nn.sub
    // CHECK: return
    %decay = nn.mul %w, %two {nn.pass = #nn.pass<update>, nn.id = 5 : i64} : (tensor<2x4xf64>, tensor<f64>) -> tensor<2x4xf64>
    %n0 = nn.sub %w, %gr {nn.pass = #nn.pass<update>, nn.id = 6 : i64} : (tensor<2x4xf64>, tensor<2x4xf64>) -> tensor<2x4xf64>
    %n = nn.sub %n0, %decay {nn.pass = #nn.pass<update>, nn.id = 7 : i64} : (tensor<2x4xf64>, tensor<2x4xf64>) -> tensor<2x4xf64>
    return %loss, %n : tensor<f64>, tensor<2x4xf64>
  }
}
