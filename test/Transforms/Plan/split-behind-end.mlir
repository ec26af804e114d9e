// RUN: tandem-opt %s --tandem-plan="mesh=model=2 preset=tensor-parallel" | FileCheck %s

// No product contracts the columns of `attention` and `out`: softmax needs
// them whole. The feed-forward layer behind them reads whole activations, too:
// `up` is split by columns and `down` by rows.

// CHECK: nn.name = "attention", nn.role = #nn.role<parameter>}
// CHECK: nn.name = "out", nn.role = #nn.role<parameter>}
// CHECK: nn.name = "up", nn.role = #nn.role<parameter>, spmd.plan = #spmd.plan<form = <#mesh, model: gather(1)>>}
// CHECK: nn.name = "down", nn.role = #nn.role<parameter>, spmd.plan = #spmd.plan<form = <#mesh, model: gather(0)>>}
module {
  func.func @step(
      %attention: tensor<8x8xf32> {nn.role = #nn.role<parameter>, nn.name = "attention"},
      %out: tensor<8x8xf32> {nn.role = #nn.role<parameter>, nn.name = "out"},
      %up: tensor<8x16xf32> {nn.role = #nn.role<parameter>, nn.name = "up"},
      %down: tensor<16x8xf32> {nn.role = #nn.role<parameter>, nn.name = "down"},
      %x: tensor<32x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0})
      -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"}) {
    %0 = nn.matmul %x, %attention {nn.id = 0, nn.pass = #nn.pass<forward>} : (tensor<32x8xf32>, tensor<8x8xf32>) -> tensor<32x8xf32>
    %1 = nn.softmax %0 {dim = 1 : i64, nn.id = 1, nn.pass = #nn.pass<forward>} : (tensor<32x8xf32>) -> tensor<32x8xf32>
    %2 = nn.matmul %1, %out {nn.id = 2, nn.pass = #nn.pass<forward>} : (tensor<32x8xf32>, tensor<8x8xf32>) -> tensor<32x8xf32>
    %3 = nn.add %x, %2 {nn.id = 3, nn.pass = #nn.pass<forward>} : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %scale = nn.softmax %3 {dim = 1 : i64, nn.id = 10, nn.pass = #nn.pass<forward>} : (tensor<32x8xf32>) -> tensor<32x8xf32>
    %norm = nn.mul %3, %scale {nn.id = 11, nn.pass = #nn.pass<forward>} : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %4 = nn.matmul %norm, %up {nn.id = 4, nn.pass = #nn.pass<forward>} : (tensor<32x8xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
    %5 = nn.relu %4 {nn.id = 5, nn.pass = #nn.pass<forward>} : (tensor<32x16xf32>) -> tensor<32x16xf32>
    %6 = nn.matmul %5, %down {nn.id = 6, nn.pass = #nn.pass<forward>} : (tensor<32x16xf32>, tensor<16x8xf32>) -> tensor<32x8xf32>
    %7 = nn.add %3, %6 {nn.id = 7, nn.pass = #nn.pass<forward>} : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %8 = nn.softmax %7 {dim = 1 : i64, nn.id = 8, nn.pass = #nn.pass<forward>} : (tensor<32x8xf32>) -> tensor<32x8xf32>
    %loss = nn.sum %8 {dims = array<i64: 0, 1>, nn.id = 9, nn.pass = #nn.pass<forward>} : (tensor<32x8xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
