// RUN: tandem-opt %s --tandem-plan="mesh=data=4 preset=expert-parallel micro=2" | FileCheck %s
// RUN: tandem-opt %s --tandem-plan="mesh=data=4 preset=expert-parallel micro=2" --tandem-print-plan 2>&1 >/dev/null | FileCheck %s --check-prefix=TABLE
// RUN: tandem-opt %s --tandem-plan="mesh=data=2,expert=4 preset=expert-parallel" | FileCheck %s --check-prefix=TWO
// RUN: tandem-opt %s --tandem-plan="mesh=data=8 preset=expert-parallel" | FileCheck %s --check-prefix=MANY

// One matrix per expert, split by experts; tokens are split by batch before and
// after: two all-to-alls per pass and strand.

// CHECK: tensor<4x8x16xf32> {nn.name = "w", nn.role = #nn.role<parameter>, spmd.plan = #spmd.plan<form = #gather0_data>}
// CHECK-SAME: tensor<4x1x16xf32> {nn.name = "b", nn.role = #nn.role<parameter>, spmd.plan = #spmd.plan<form = #gather0_data>}
// CHECK-SAME: spmd.plan = #spmd.plan<form = <#mesh, data: gather(0), micro: gather(0)>>
// TWO: tensor<4x8x16xf32> {nn.name = "w", nn.role = #nn.role<parameter>, spmd.plan = #spmd.plan<form = #gather0_expert>}
// TWO-SAME: spmd.plan = #spmd.plan<form = <#mesh, data: gather(0), expert: gather(0)>>
// Four experts do not divide over eight ranks: they stay whole.
// MANY: tensor<4x8x16xf32> {nn.name = "w", nn.role = #nn.role<parameter>}

// TABLE-DAG: forward  all-to-all  data  activation  4x
// TABLE-DAG: backward  all-to-all  data  activation  4x
module {
  func.func @step(
      %w: tensor<4x8x16xf32> {nn.role = #nn.role<parameter>, nn.name = "w"},
      %b: tensor<4x1x16xf32> {nn.role = #nn.role<parameter>, nn.name = "b"},
      %g: tensor<8xf32> {nn.role = #nn.role<parameter>, nn.name = "g"},
      %lr: tensor<f32> {nn.role = #nn.role<learning_rate>, nn.name = "0"},
      %x: tensor<32x4x2x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0})
      -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"},
          tensor<4x8x16xf32> {nn.role = #nn.role<parameter>, nn.name = "w", nn.updates = 0},
          tensor<4x1x16xf32> {nn.role = #nn.role<parameter>, nn.name = "b", nn.updates = 1},
          tensor<8xf32> {nn.role = #nn.role<parameter>, nn.name = "g", nn.updates = 2}) {
    %a = nn.mul %x, %g {nn.id = 0, nn.pass = #nn.pass<forward>} : (tensor<32x4x2x8xf32>, tensor<8xf32>) -> tensor<32x4x2x8xf32>
    %p = nn.permute %a {permutation = array<i64: 1, 0, 2, 3>, nn.id = 1, nn.pass = #nn.pass<forward>} : (tensor<32x4x2x8xf32>) -> tensor<4x32x2x8xf32>
    %t = nn.reshape %p {nn.id = 2, nn.pass = #nn.pass<forward>} : (tensor<4x32x2x8xf32>) -> tensor<4x64x8xf32>
    // CHECK: nn.matmul {{.*}}spmd.plan = #g0_g0_to_g0_and_g1_f_to_g1_plan
    %h = nn.matmul %t, %w {nn.id = 3, nn.pass = #nn.pass<forward>} : (tensor<4x64x8xf32>, tensor<4x8x16xf32>) -> tensor<4x64x16xf32>
    // CHECK: nn.add {{.*}}spmd.plan = #g0_g0_to_g0_and_g1_f_to_g1_plan
    %hb = nn.add %h, %b {nn.id = 4, nn.pass = #nn.pass<forward>} : (tensor<4x64x16xf32>, tensor<4x1x16xf32>) -> tensor<4x64x16xf32>
    %r = nn.reshape %hb {nn.id = 5, nn.pass = #nn.pass<forward>} : (tensor<4x64x16xf32>) -> tensor<4x32x2x16xf32>
    %q = nn.permute %r {permutation = array<i64: 1, 0, 2, 3>, nn.id = 6, nn.pass = #nn.pass<forward>} : (tensor<4x32x2x16xf32>) -> tensor<32x4x2x16xf32>
    // Mixing experts is along a dimension that stays whole.
    // CHECK: nn.softmax {{.*}}spmd.plan = #g0_to_g0_plan
    %s = nn.softmax %q {dim = 1, nn.id = 7, nn.pass = #nn.pass<forward>} : (tensor<32x4x2x16xf32>) -> tensor<32x4x2x16xf32>
    %l = nn.mul %s, %s {nn.id = 8, nn.pass = #nn.pass<forward>} : (tensor<32x4x2x16xf32>, tensor<32x4x2x16xf32>) -> tensor<32x4x2x16xf32>
    %loss = nn.sum %l {dims = array<i64: 0, 1, 2, 3>, nn.id = 9, nn.pass = #nn.pass<forward>} : (tensor<32x4x2x16xf32>) -> tensor<f32>
    %ds = nn.add %s, %s {nn.id = 10, nn.pass = #nn.pass<backward>} : (tensor<32x4x2x16xf32>, tensor<32x4x2x16xf32>) -> tensor<32x4x2x16xf32>
    %dq = nn.softmax_backward %ds, %s {dim = 1, nn.id = 11, nn.pass = #nn.pass<backward>} : (tensor<32x4x2x16xf32>, tensor<32x4x2x16xf32>) -> tensor<32x4x2x16xf32>
    %dr = nn.permute %dq {permutation = array<i64: 1, 0, 2, 3>, nn.id = 12, nn.pass = #nn.pass<backward>} : (tensor<32x4x2x16xf32>) -> tensor<4x32x2x16xf32>
    %dh = nn.reshape %dr {nn.id = 13, nn.pass = #nn.pass<backward>} : (tensor<4x32x2x16xf32>) -> tensor<4x64x16xf32>
    %tt = nn.permute %t {permutation = array<i64: 0, 2, 1>, nn.id = 14, nn.pass = #nn.pass<backward>} : (tensor<4x64x8xf32>) -> tensor<4x8x64xf32>
    // CHECK: nn.matmul {{.*}}spmd.plan = #g0_g0_to_g0_and_g2_g1_to_r_plan
    %dw = nn.matmul %tt, %dh {nn.id = 15, nn.pass = #nn.pass<backward>} : (tensor<4x8x64xf32>, tensor<4x64x16xf32>) -> tensor<4x8x16xf32>
    %db = nn.sum %dh {dims = array<i64: 1>, keepdim = true, nn.id = 16, nn.pass = #nn.pass<backward>} : (tensor<4x64x16xf32>) -> tensor<4x1x16xf32>
    %wt = nn.permute %w {permutation = array<i64: 0, 2, 1>, nn.id = 21, nn.pass = #nn.pass<backward>} : (tensor<4x8x16xf32>) -> tensor<4x16x8xf32>
    %dt = nn.matmul %dh, %wt {nn.id = 22, nn.pass = #nn.pass<backward>} : (tensor<4x64x16xf32>, tensor<4x16x8xf32>) -> tensor<4x64x8xf32>
    %dp = nn.reshape %dt {nn.id = 23, nn.pass = #nn.pass<backward>} : (tensor<4x64x8xf32>) -> tensor<4x32x2x8xf32>
    %da = nn.permute %dp {permutation = array<i64: 1, 0, 2, 3>, nn.id = 24, nn.pass = #nn.pass<backward>} : (tensor<4x32x2x8xf32>) -> tensor<32x4x2x8xf32>
    %xda = nn.mul %x, %da {nn.id = 25, nn.pass = #nn.pass<backward>} : (tensor<32x4x2x8xf32>, tensor<32x4x2x8xf32>) -> tensor<32x4x2x8xf32>
    %dg = nn.sum %xda {dims = array<i64: 0, 1, 2>, nn.id = 26, nn.pass = #nn.pass<backward>} : (tensor<32x4x2x8xf32>) -> tensor<8xf32>
    // CHECK: nn.mul {{.*}}nn.pass = #update, spmd.plan = #f_g0_to_g0_and_f_f_to_f_plan
    %uw = nn.mul %lr, %dw {nn.id = 17, nn.pass = #nn.pass<update>} : (tensor<f32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %nw = nn.sub %w, %uw {nn.id = 18, nn.pass = #nn.pass<update>} : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %ub = nn.mul %lr, %db {nn.id = 19, nn.pass = #nn.pass<update>} : (tensor<f32>, tensor<4x1x16xf32>) -> tensor<4x1x16xf32>
    %nb = nn.sub %b, %ub {nn.id = 20, nn.pass = #nn.pass<update>} : (tensor<4x1x16xf32>, tensor<4x1x16xf32>) -> tensor<4x1x16xf32>
    %ug = nn.mul %lr, %dg {nn.id = 27, nn.pass = #nn.pass<update>} : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
    %ng = nn.sub %g, %ug {nn.id = 28, nn.pass = #nn.pass<update>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %loss, %nw, %nb, %ng : tensor<f32>, tensor<4x8x16xf32>, tensor<4x1x16xf32>, tensor<8xf32>
  }
}
