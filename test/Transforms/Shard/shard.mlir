// RUN: tandem-opt %s --tandem-shard | FileCheck %s
// RUN: tandem-opt %s --tandem-shard | tandem-opt | FileCheck %s
// RUN: tandem-opt %s --tandem-shard -o %t.mlir
// RUN: tandem-interpret %t.mlir --steps 2 --compare %s

// A linear model on two ranks and two microbatches. The gradient is added up
// over time before it is summed over the ranks; the parameter is stored split
// and gathered once per pass.

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @step(
  // CHECK-SAME: %[[X:.*]]: tensor<8x4xf32, #gather0_data_gather0_micro>
  // CHECK-SAME: %[[W:.*]]: tensor<4x4xf32, #gather0_data>
  // CHECK-NOT: form =
  func.func @step(
      %x: tensor<8x4xf32> {nn.role = #nn.role<input>, nn.name = "x", spmd.plan = #spmd.plan<form = <#mesh, data: gather(0), micro: gather(0)>>},
      %w: tensor<4x4xf32> {nn.role = #nn.role<parameter>, nn.name = "w", spmd.plan = #spmd.plan<form = <#mesh, data: gather(0)>>},
      %lr: tensor<f32> {nn.role = #nn.role<learning_rate>, nn.name = "0"})
      -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"},
          tensor<4x4xf32> {nn.role = #nn.role<parameter>, nn.name = "w", nn.updates = 1, spmd.plan = #spmd.plan<form = <#mesh, data: gather(0)>>}) {
    // CHECK: %[[WF:.*]] = spmd.reform %[[W]] {nn.pass = #forward} : {{.*}} -> tensor<4x4xf32>
    // CHECK: nn.matmul %[[X]], %[[WF]]
    // CHECK-NOT: signatures =
    %h = nn.matmul %x, %w {nn.pass = #nn.pass<forward>, nn.id = 0 : i64, spmd.plan = #spmd.plan<signatures = <"gather(0), full -> gather(0)", "gather(0), full -> gather(0)">>} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %hh = nn.mul %h, %h {nn.pass = #nn.pass<forward>, nn.id = 1 : i64, spmd.plan = #spmd.plan<signatures = <"gather(0), gather(0) -> gather(0)", "gather(0), gather(0) -> gather(0)">>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    // CHECK: %[[L:.*]] = nn.sum
    // CHECK-NEXT: %[[L1:.*]] = spmd.reform %[[L]] {nn.pass = #forward} : tensor<f32, #reduce_data_reduce_micro> -> tensor<f32, #reduce_data>
    // CHECK-NEXT: %[[L2:.*]] = spmd.reform %[[L1]] {nn.pass = #forward} : tensor<f32, #reduce_data> -> tensor<f32>
    %loss = nn.sum %hh {dims = array<i64: 0, 1>, nn.pass = #nn.pass<forward>, nn.id = 2 : i64, spmd.plan = #spmd.plan<signatures = <"gather(0) -> reduce", "gather(0) -> reduce">>} : (tensor<8x4xf32>) -> tensor<f32>
    %two = nn.constant dense<2.0> : tensor<f32> {nn.pass = #nn.pass<backward>, nn.id = 3 : i64, spmd.plan = #spmd.plan<signatures = <"-> full", "-> full">>} -> tensor<f32>
    %dh = nn.mul %h, %two {nn.pass = #nn.pass<backward>, nn.id = 4 : i64, spmd.plan = #spmd.plan<signatures = <"gather(0), full -> gather(0)", "gather(0), full -> gather(0)">>} : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    // CHECK: %[[XT:.*]] = nn.permute
    %xt = nn.permute %x {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<backward>, nn.id = 5 : i64, spmd.plan = #spmd.plan<signatures = <"gather(0) -> gather(1)", "gather(0) -> gather(1)">>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
    // CHECK-NEXT: %[[G:.*]] = nn.matmul %[[XT]]
    // CHECK-NEXT: %[[G1:.*]] = spmd.reform %[[G]] {nn.pass = #backward} : tensor<4x4xf32, #reduce_data_reduce_micro> -> tensor<4x4xf32, #reduce_data>
    // CHECK-NEXT: %[[G2:.*]] = spmd.reform %[[G1]] {nn.pass = #backward} : {{.*}} -> tensor<4x4xf32, #gather0_data>
    %dw = nn.matmul %xt, %dh {nn.pass = #nn.pass<backward>, nn.id = 6 : i64, spmd.plan = #spmd.plan<signatures = <"gather(1), gather(0) -> reduce", "gather(1), gather(0) -> reduce">>} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    // CHECK-NEXT: nn.mul %[[G2]]
    %scaled = nn.mul %dw, %lr {nn.pass = #nn.pass<update>, nn.id = 7 : i64, spmd.plan = #spmd.plan<signatures = <"gather(0), full -> gather(0)", "full, full -> full">>} : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    // CHECK-NEXT: %[[NEW:.*]] = nn.sub %[[W]]
    %new = nn.sub %w, %scaled {nn.pass = #nn.pass<update>, nn.id = 8 : i64, spmd.plan = #spmd.plan<signatures = <"gather(0), gather(0) -> gather(0)", "full, full -> full">>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    // CHECK-NEXT: return %[[L2]], %[[NEW]] : tensor<f32>, tensor<4x4xf32, #gather0_data>
    return %loss, %new : tensor<f32>, tensor<4x4xf32>
  }
}
