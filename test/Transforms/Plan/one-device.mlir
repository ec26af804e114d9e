// RUN: tandem-opt %s --tandem-plan="micro=2" | FileCheck %s

// Without a mesh a step is planned for one device, and may still be split over
// time.

// CHECK: #mesh = #spmd.mesh<data = 1, time micro = 2>
// CHECK: func.func @step(%{{.*}}: tensor<8x4xf32> {{{.*}}spmd.plan = #spmd.plan<form = <#mesh, micro: gather(0)>>}
func.func @step(
    %x: tensor<8x4xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
    %w: tensor<4x4xf32> {nn.role = #nn.role<parameter>, nn.name = "w"})
    -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"}) {
  // CHECK: nn.matmul {{.*}}spmd.plan = #f_f_to_f_and_g0_f_to_g0_plan
  %h = nn.matmul %x, %w {nn.pass = #nn.pass<forward>, nn.id = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %loss = nn.sum %h {dims = array<i64: 0, 1>, nn.pass = #nn.pass<forward>, nn.id = 1 : i64} : (tensor<8x4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
