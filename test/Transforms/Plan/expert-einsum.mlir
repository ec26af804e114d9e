// RUN: tandem-opt %s --tandem-plan="mesh=data=4 preset=expert-parallel" | FileCheck %s
// RUN: tandem-opt %s --tandem-plan="mesh=data=4 preset=expert-parallel" --tandem-shard --tandem-localize -o /dev/null

// Every expert sees all tokens. `%up` is in a product with experts among its
// columns, `%mid` has a product per expert, `%down` a sum over experts: all
// three are split by experts. `%heads` has the shape of experts, but its heads
// meet none.

// CHECK: tensor<4x8x16xf32> {nn.name = "up", nn.role = #nn.role<parameter>, spmd.plan = #spmd.plan<form = <#mesh, data: gather(0)>>}
// CHECK-SAME: tensor<4x16x6xf32> {nn.name = "mid", nn.role = #nn.role<parameter>, spmd.plan = #spmd.plan<form = <#mesh, data: gather(0)>>}
// CHECK-SAME: tensor<4x6x8xf32> {nn.name = "down", nn.role = #nn.role<parameter>, spmd.plan = #spmd.plan<form = <#mesh, data: gather(0)>>}
// CHECK-SAME: tensor<4x8x2xf32> {nn.name = "heads", nn.role = #nn.role<parameter>}
module {
  func.func @step(
      %up: tensor<4x8x16xf32> {nn.role = #nn.role<parameter>, nn.name = "up"},
      %mid: tensor<4x16x6xf32> {nn.role = #nn.role<parameter>, nn.name = "mid"},
      %down: tensor<4x6x8xf32> {nn.role = #nn.role<parameter>, nn.name = "down"},
      %heads: tensor<4x8x2xf32> {nn.role = #nn.role<parameter>, nn.name = "heads"},
      %x: tensor<32x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0})
      -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"}) {
    %u0 = nn.permute %up {permutation = array<i64: 1, 0, 2>, nn.id = 0, nn.pass = #nn.pass<forward>} : (tensor<4x8x16xf32>) -> tensor<8x4x16xf32>
    %u1 = nn.reshape %u0 {nn.id = 1, nn.pass = #nn.pass<forward>} : (tensor<8x4x16xf32>) -> tensor<8x64xf32>
    // CHECK: nn.matmul {{.*}}spmd.plan = #f_g1_to_g1_plan
    %h0 = nn.matmul %x, %u1 {nn.id = 2, nn.pass = #nn.pass<forward>} : (tensor<32x8xf32>, tensor<8x64xf32>) -> tensor<32x64xf32>
    %h1 = nn.reshape %h0 {nn.id = 3, nn.pass = #nn.pass<forward>} : (tensor<32x64xf32>) -> tensor<32x4x16xf32>
    %h2 = nn.permute %h1 {permutation = array<i64: 1, 0, 2>, nn.id = 4, nn.pass = #nn.pass<forward>} : (tensor<32x4x16xf32>) -> tensor<4x32x16xf32>
    // CHECK: nn.matmul {{.*}}spmd.plan = #g0_g0_to_g0_plan
    %m0 = nn.matmul %h2, %mid {nn.id = 5, nn.pass = #nn.pass<forward>} : (tensor<4x32x16xf32>, tensor<4x16x6xf32>) -> tensor<4x32x6xf32>
    %m1 = nn.permute %m0 {permutation = array<i64: 1, 0, 2>, nn.id = 6, nn.pass = #nn.pass<forward>} : (tensor<4x32x6xf32>) -> tensor<32x4x6xf32>
    %m2 = nn.reshape %m1 {nn.id = 7, nn.pass = #nn.pass<forward>} : (tensor<32x4x6xf32>) -> tensor<32x24xf32>
    %d0 = nn.reshape %down {nn.id = 8, nn.pass = #nn.pass<forward>} : (tensor<4x6x8xf32>) -> tensor<24x8xf32>
    // CHECK: nn.matmul {{.*}}spmd.plan = #g1_g0_to_r_plan
    %y = nn.matmul %m2, %d0 {nn.id = 9, nn.pass = #nn.pass<forward>} : (tensor<32x24xf32>, tensor<24x8xf32>) -> tensor<32x8xf32>
    %q0 = nn.permute %heads {permutation = array<i64: 1, 0, 2>, nn.id = 10, nn.pass = #nn.pass<forward>} : (tensor<4x8x2xf32>) -> tensor<8x4x2xf32>
    %q1 = nn.reshape %q0 {nn.id = 11, nn.pass = #nn.pass<forward>} : (tensor<8x4x2xf32>) -> tensor<8x8xf32>
    %q = nn.matmul %y, %q1 {nn.id = 12, nn.pass = #nn.pass<forward>} : (tensor<32x8xf32>, tensor<8x8xf32>) -> tensor<32x8xf32>
    %l = nn.mul %q, %q {nn.id = 13, nn.pass = #nn.pass<forward>} : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %loss = nn.sum %l {dims = array<i64: 0, 1>, nn.id = 14, nn.pass = #nn.pass<forward>} : (tensor<32x8xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
