// RUN: tandem-opt %s --tandem-plan="mesh=data=2" --tandem-print-plan 2>&1 >/dev/null | FileCheck %s

// CHECK: Stored tensors
// CHECK: parameter w
func.func @step(
    %x: tensor<8x4xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
    %w: tensor<4x4xf32> {nn.role = #nn.role<parameter>, nn.name = "w"})
    -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"}) {
  %h = nn.matmul %x, %w {nn.pass = #nn.pass<forward>, nn.id = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %loss = nn.sum %h {dims = array<i64: 0, 1>, nn.pass = #nn.pass<forward>, nn.id = 1 : i64} : (tensor<8x4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
