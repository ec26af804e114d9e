// RUN: tandem-opt --tandem-bufferize %s | FileCheck %s

// A slice of the input is a view; the step of the other queue waits for an
// event; the loss and what has to be true are checked before the update; results are copied at the end.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:.*]]: memref<4x4xf32> {{.*}}, %[[X:.*]]: memref<2x4xf32>
// CHECK: %[[V:.*]] = sched.view %[[X]] {offset = 4 : i64} : memref<2x4xf32> -> memref<1x4xf32>
// CHECK: %[[H:.*]] = sched.alloc : memref<1x4xf32>
// CHECK: sched.gemm %[[V]], %[[W]] into %[[H]] on compute stage 0 strand 1
// CHECK: %[[S:.*]] = sched.alloc : memref<f32>
// CHECK: sched.launch @sum(%[[H]]) into(%[[S]]) on compute stage 0 strand 1
// CHECK: %[[C:.*]] = sched.alloc : memref<i1>
// CHECK: sched.launch @above(%[[S]]) into(%[[C]]) on compute stage 0 strand 1
// CHECK: %[[E:.*]] = sched.record compute
// CHECK: sched.wait comm for %[[E]]
// CHECK: %[[L:.*]] = sched.alloc : memref<f32>
// CHECK: sched.collective all_reduce %[[S]] into %[[L]] over ["data"] on comm stage 1 strand 0
// CHECK: %[[F:.*]] = sched.record comm
// CHECK: sched.wait compute for %[[F]]
// CHECK: sched.check finite "loss" %[[L]] on compute stage 2
// CHECK: sched.check true "a.py:3: no label" %[[C]] on compute stage 2
// CHECK: %[[U:.*]] = sched.alloc : memref<4x4xf32>
// CHECK: sched.launch @double(%[[W]]) into(%[[U]])
// CHECK: %[[R:.*]] = sched.result 0 : memref<f32>
// CHECK: sched.copy %[[L]] into %[[R]]
// CHECK: %[[Q:.*]] = sched.result 2 : memref<i1>
// CHECK: sched.copy %[[C]] into %[[Q]]
// CHECK: sched.copy %[[U]] into %[[W]]
// CHECK: return %[[R]], %[[W]], %[[Q]]
module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @step(%w: tensor<4x4xf32> {nn.role = #nn.role<parameter>, nn.name = "w"}, %x: tensor<2x4xf32>)
      -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"}, tensor<4x4xf32> {nn.role = #nn.role<parameter>, nn.name = "w", nn.updates = 0 : i64}, tensor<i1> {nn.role = #nn.role<check>, nn.name = "a.py:3: no label"}) {
    %l, %c, %e = sched.step on compute stage 0 strand 1 {
      %0 = nn.slice %x {dim = 0 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<2x4xf32>) -> tensor<1x4xf32>
      %1 = sched.matmul %0, %w {batch = array<i64>, m = 1, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>} : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
      %2 = func.call @sum(%1) {sched.label = "sum"} : (tensor<1x4xf32>) -> tensor<f32>
      %5 = func.call @above(%2) {sched.label = "compare"} : (tensor<f32>) -> tensor<i1>
      sched.yield %2, %5 : tensor<f32>, tensor<i1>
    } : tensor<f32>, tensor<i1>
    %r, %f = sched.step on comm stage 1 strand 0 after(%e) {
      %3 = spmd.all_reduce %l over ["data"] : tensor<f32> -> tensor<f32>
      sched.yield %3 : tensor<f32>
    } : tensor<f32>
    %u, %g = sched.step on compute stage 2 strand 0 {
      %4 = func.call @double(%w) {sched.label = "add", nn.pass = #nn.pass<update>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      sched.yield %4 : tensor<4x4xf32>
    } : tensor<4x4xf32>
    return %r, %u, %c : tensor<f32>, tensor<4x4xf32>, tensor<i1>
  }
  func.func private @above(%a: tensor<f32>) -> tensor<i1> attributes {sched.kernel} {
    %0 = nn.constant dense<0.0> : tensor<f32> -> tensor<f32>
    %1 = nn.compare gt %a, %0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    return %1 : tensor<i1>
  }
  func.func private @sum(%a: tensor<1x4xf32>) -> tensor<f32> attributes {sched.kernel} {
    %0 = nn.sum %a {dims = array<i64: 0, 1>} : (tensor<1x4xf32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @double(%a: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {sched.kernel} {
    %0 = nn.add %a, %a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
}
