// RUN: tandem-opt %s --tandem-make-plan | FileCheck %s

// The pass alone, without options: a preset for one device.

// CHECK: #mesh = #spmd.mesh<data = 1>
func.func @step(
    %x: tensor<8x4xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
    %w: tensor<4x4xf32> {nn.role = #nn.role<parameter>, nn.name = "w"})
    -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"}) {
  // CHECK: nn.matmul {{.*}}spmd.plan = #f_f_to_f_plan
  %h = nn.matmul %x, %w {nn.pass = #nn.pass<forward>, nn.id = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  // CHECK: nn.sum {{.*}}spmd.plan = #f_to_f_plan
  %loss = nn.sum %h {dims = array<i64: 0, 1>, nn.pass = #nn.pass<forward>, nn.id = 1 : i64} : (tensor<8x4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
