// RUN: tandem-opt %s --tandem-plan="mesh=data=4 micro=2" | FileCheck %s --check-prefix=DATA
// RUN: tandem-opt %s --tandem-plan="mesh=data=4 preset=zero" | FileCheck %s --check-prefix=ZERO
// RUN: tandem-opt %s --tandem-plan="mesh=data=2,model=2 preset=tensor-parallel" | FileCheck %s --check-prefix=TENSOR
// RUN: tandem-opt %s --tandem-plan="mesh=data=4 preset=replicate" | FileCheck %s --check-prefix=WHOLE
// RUN: tandem-opt %s --tandem-plan="mesh=data=1 preset=zero" | FileCheck %s --check-prefix=ONE
// RUN: tandem-opt %s --tandem-plan="mesh=model=2 preset=data-parallel pins=b1:model=gather(0)" | FileCheck %s --check-prefix=PIN
// RUN: tandem-opt %s --tandem-plan="mesh=data=4 preset=zero micro=2" --tandem-print-plan 2>&1 >/dev/null | FileCheck %s --check-prefix=TABLE
// RUN: tandem-opt %s --tandem-plan="mesh=data=4 preset=zero2 micro=2" --tandem-print-plan 2>&1 >/dev/null | FileCheck %s --check-prefix=ONCE

// A feed-forward layer with a bias, its backward pass and plain SGD.

// DATA: #mesh = #spmd.mesh<data = 4, time micro = 2>
// DATA: func.func @step(%{{.*}}: tensor<8x16xf32> {nn.name = "w1", nn.role = #nn.role<parameter>}
// DATA-SAME: tensor<32x8xf32> {nn.batch_dim = 0 : i64, nn.name = "x", nn.role = #nn.role<input>, spmd.plan = #spmd.plan<form = <#mesh, data: gather(0), micro: gather(0)>>}
// ZERO: tensor<8x16xf32> {nn.name = "w1", nn.role = #nn.role<parameter>, spmd.plan = #spmd.plan<form = #gather0_data>}
// ZERO-SAME: tensor<6xf32> {nn.name = "odd", nn.role = #nn.role<parameter>}
// TENSOR: tensor<8x16xf32> {nn.name = "w1", nn.role = #nn.role<parameter>, spmd.plan = #spmd.plan<form = #gather1_model>}
// TENSOR-SAME: tensor<16xf32> {nn.name = "b1", nn.role = #nn.role<parameter>, spmd.plan = #spmd.plan<form = #gather0_model>}
// TENSOR-SAME: tensor<16x6xf32> {nn.name = "w2", nn.role = #nn.role<parameter>, spmd.plan = #spmd.plan<form = #gather0_model>}
// TENSOR-SAME: tensor<6xf32> {nn.name = "odd", nn.role = #nn.role<parameter>}
// WHOLE-NOT: gather
// ONE-NOT: gather
// PIN: tensor<16xf32> {nn.name = "b1", nn.role = #nn.role<parameter>, spmd.plan = #spmd.plan<form = #gather0_model>}

// TABLE: Plan for the mesh data=4, micro=2
// TABLE: 1x parameter w1 [8, 16]  data: gather(0)  512 B -> 128 B
// TABLE: whole on axis 'data' of size 4, since no dimension divides: odd [6]
// TABLE: Collectives per step
// TABLE-DAG: forward  all-gather  data  parameter  3x
// TABLE-DAG: backward  all-gather  data  parameter  1x
// TABLE-DAG: update  reduce-scatter  data  gradient  3x
// TABLE-DAG: update  all-reduce  data  gradient  1x  24 B
// TABLE-DAG: update  all-reduce  data  scalar  1x
// TABLE: total  9x
// TABLE: Computed whole on every rank of axis 'data' though it could be split: 0 kinds
// TABLE: Operators where the strands join
// TABLE-NOT: before

// The backward pass takes what the forward pass gathered.
// ONCE-NOT: backward  all-gather
// ONCE: forward  all-gather  data  parameter  3x
// ONCE: total  8x
module {
  func.func @step(
      %w1: tensor<8x16xf32> {nn.role = #nn.role<parameter>, nn.name = "w1"},
      %b1: tensor<16xf32> {nn.role = #nn.role<parameter>, nn.name = "b1"},
      %w2: tensor<16x6xf32> {nn.role = #nn.role<parameter>, nn.name = "w2"},
      %odd: tensor<6xf32> {nn.role = #nn.role<parameter>, nn.name = "odd"},
      %lr: tensor<f32> {nn.role = #nn.role<learning_rate>, nn.name = "0"},
      %x: tensor<32x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0})
      -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"},
          tensor<8x16xf32> {nn.role = #nn.role<parameter>, nn.name = "w1", nn.updates = 0},
          tensor<16xf32> {nn.role = #nn.role<parameter>, nn.name = "b1", nn.updates = 1},
          tensor<16x6xf32> {nn.role = #nn.role<parameter>, nn.name = "w2", nn.updates = 2},
          tensor<6xf32> {nn.role = #nn.role<parameter>, nn.name = "odd", nn.updates = 3}) {
    // DATA: nn.matmul {{.*}}spmd.plan = #g0_f_to_g0_plan
    // ZERO: nn.matmul {{.*}}spmd.plan = #g0_f_to_g0_plan
    // TENSOR: nn.matmul {{.*}}spmd.plan = #g0_f_to_g0_and_f_g1_to_g1_plan
    %0 = nn.matmul %x, %w1 {nn.id = 0, nn.pass = #nn.pass<forward>} : (tensor<32x8xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
    // TENSOR: nn.add {{.*}}spmd.plan = #g0_f_to_g0_and_g1_g0_to_g1_plan
    %1 = nn.add %0, %b1 {nn.id = 1, nn.pass = #nn.pass<forward>} : (tensor<32x16xf32>, tensor<16xf32>) -> tensor<32x16xf32>
    %2 = nn.relu %1 {nn.id = 2, nn.pass = #nn.pass<forward>} : (tensor<32x16xf32>) -> tensor<32x16xf32>
    // TENSOR: nn.matmul {{.*}}spmd.plan = #g0_f_to_g0_and_g1_g0_to_r_plan
    %3 = nn.matmul %2, %w2 {nn.id = 3, nn.pass = #nn.pass<forward>} : (tensor<32x16xf32>, tensor<16x6xf32>) -> tensor<32x6xf32>
    // TENSOR: nn.add {{.*}}spmd.plan = #g0_f_to_g0_and_f_f_to_f_plan
    %4 = nn.add %3, %odd {nn.id = 4, nn.pass = #nn.pass<forward>} : (tensor<32x6xf32>, tensor<6xf32>) -> tensor<32x6xf32>
    %5 = nn.mul %4, %4 {nn.id = 5, nn.pass = #nn.pass<forward>} : (tensor<32x6xf32>, tensor<32x6xf32>) -> tensor<32x6xf32>
    // DATA: nn.sum {{.*}}spmd.plan = #g0_to_r_plan
    %loss = nn.sum %5 {dims = array<i64: 0, 1>, nn.id = 6, nn.pass = #nn.pass<forward>} : (tensor<32x6xf32>) -> tensor<f32>
    %dy = nn.add %4, %4 {nn.id = 7, nn.pass = #nn.pass<backward>} : (tensor<32x6xf32>, tensor<32x6xf32>) -> tensor<32x6xf32>
    %w2t = nn.permute %w2 {permutation = array<i64: 1, 0>, nn.id = 8, nn.pass = #nn.pass<backward>} : (tensor<16x6xf32>) -> tensor<6x16xf32>
    %dh = nn.matmul %dy, %w2t {nn.id = 9, nn.pass = #nn.pass<backward>} : (tensor<32x6xf32>, tensor<6x16xf32>) -> tensor<32x16xf32>
    %ht = nn.permute %2 {permutation = array<i64: 1, 0>, nn.id = 10, nn.pass = #nn.pass<backward>} : (tensor<32x16xf32>) -> tensor<16x32xf32>
    // DATA: nn.matmul {{.*}}spmd.plan = #g1_g0_to_r_plan
    // TENSOR: spmd.plan = #g1_g0_to_r_and_g0_f_to_g0_plan
    %dw2 = nn.matmul %ht, %dy {nn.id = 11, nn.pass = #nn.pass<backward>} : (tensor<16x32xf32>, tensor<32x6xf32>) -> tensor<16x6xf32>
    %zero = nn.constant dense<0.0> : tensor<f32> {nn.id = 12, nn.pass = #nn.pass<backward>} -> tensor<f32>
    %mask = nn.compare gt %1, %zero {nn.id = 13, nn.pass = #nn.pass<backward>} : (tensor<32x16xf32>, tensor<f32>) -> tensor<32x16xi1>
    %da = nn.select %mask, %dh, %zero {nn.id = 14, nn.pass = #nn.pass<backward>} : (tensor<32x16xi1>, tensor<32x16xf32>, tensor<f32>) -> tensor<32x16xf32>
    %xt = nn.permute %x {permutation = array<i64: 1, 0>, nn.id = 15, nn.pass = #nn.pass<backward>} : (tensor<32x8xf32>) -> tensor<8x32xf32>
    %dw1 = nn.matmul %xt, %da {nn.id = 16, nn.pass = #nn.pass<backward>} : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
    %db1 = nn.sum %da {dims = array<i64: 0>, nn.id = 17, nn.pass = #nn.pass<backward>} : (tensor<32x16xf32>) -> tensor<16xf32>
    %dodd = nn.sum %dy {dims = array<i64: 0>, nn.id = 18, nn.pass = #nn.pass<backward>} : (tensor<32x6xf32>) -> tensor<6xf32>
    // Updates see the finished gradient, on what is stored.
    // DATA: nn.mul {{.*}}nn.pass = #update, spmd.plan = #f_f_to_f_plan
    // ZERO: nn.mul {{.*}}nn.pass = #update, spmd.plan = #f_g0_to_g0_plan
    // TENSOR: nn.mul {{.*}}nn.pass = #update, spmd.plan = #f_f_to_f_and_f_g1_to_g1_plan
    %u1 = nn.mul %lr, %dw1 {nn.id = 19, nn.pass = #nn.pass<update>} : (tensor<f32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %n1 = nn.sub %w1, %u1 {nn.id = 20, nn.pass = #nn.pass<update>} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %u2 = nn.mul %lr, %db1 {nn.id = 21, nn.pass = #nn.pass<update>} : (tensor<f32>, tensor<16xf32>) -> tensor<16xf32>
    %n2 = nn.sub %b1, %u2 {nn.id = 22, nn.pass = #nn.pass<update>} : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %u3 = nn.mul %lr, %dw2 {nn.id = 23, nn.pass = #nn.pass<update>} : (tensor<f32>, tensor<16x6xf32>) -> tensor<16x6xf32>
    %n3 = nn.sub %w2, %u3 {nn.id = 24, nn.pass = #nn.pass<update>} : (tensor<16x6xf32>, tensor<16x6xf32>) -> tensor<16x6xf32>
    %u4 = nn.mul %lr, %dodd {nn.id = 25, nn.pass = #nn.pass<update>} : (tensor<f32>, tensor<6xf32>) -> tensor<6xf32>
    %n4 = nn.sub %odd, %u4 {nn.id = 26, nn.pass = #nn.pass<update>} : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    return %loss, %n1, %n2, %n3, %n4 : tensor<f32>, tensor<8x16xf32>, tensor<16xf32>, tensor<16x6xf32>, tensor<6xf32>
  }
}
