// A plan costs again what the search said of it. The constant is read in two
// forms: the plan stage leaves it as it is, and shard clones it.
// RUN: tandem-compile %s --mesh model=2 --search tandem --pin w1:model=gather(1) --pin w2:model=gather(0) --plan-only -o %t.plan
// RUN: tandem-compile %s --mesh model=2 --plan-file %t.plan --stop-after plan --no-locations > %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// CHECK: nn.constant {{.*}} spmd.plan = #spmd.plan<as_wanted>
// CHECK-NOT: nn.constant
// RUN: tandem-opt %t.mlir --tandem-shard | FileCheck %s --check-prefix=SHARD
// SHARD-DAG: nn.constant {{.*}} -> tensor<4096xf32, #gather0_model>
// SHARD-DAG: nn.constant {{.*}} -> tensor<4096xf32>
// RUN: tandem-compile %s --mesh model=2 --replan %t.plan --plan-only -o %t.again
// RUN: grep "^cost\|^peak" %t.plan > %t.cost && grep "^cost\|^peak" %t.again | diff %t.cost -
// RUN: tandem-compile %s --compare %t.plan %t.again | FileCheck %s --check-prefix=COMPARE
// COMPARE: Forms that differ: 0 tensors
module {
  func.func @step(
      %w1: tensor<4096x4096xf32> {nn.role = #nn.role<parameter>, nn.name = "w1"},
      %w2: tensor<4096x4096xf32> {nn.role = #nn.role<parameter>, nn.name = "w2"},
      %x: tensor<64x4096xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0})
      -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"},
          tensor<4096x4096xf32> {nn.role = #nn.role<parameter>, nn.name = "w1", nn.updates = 0},
          tensor<4096x4096xf32> {nn.role = #nn.role<parameter>, nn.name = "w2", nn.updates = 1}) {
    %c = nn.constant dense<0.5> : tensor<4096xf32> {nn.id = 0, nn.pass = #nn.pass<forward>} -> tensor<4096xf32>
    %0 = nn.matmul %x, %w1 {nn.id = 1, nn.pass = #nn.pass<forward>} : (tensor<64x4096xf32>, tensor<4096x4096xf32>) -> tensor<64x4096xf32>
    %1 = nn.mul %0, %c {nn.id = 2, nn.pass = #nn.pass<forward>} : (tensor<64x4096xf32>, tensor<4096xf32>) -> tensor<64x4096xf32>
    %2 = nn.matmul %1, %w2 {nn.id = 3, nn.pass = #nn.pass<forward>} : (tensor<64x4096xf32>, tensor<4096x4096xf32>) -> tensor<64x4096xf32>
    %3 = nn.add %2, %c {nn.id = 4, nn.pass = #nn.pass<forward>} : (tensor<64x4096xf32>, tensor<4096xf32>) -> tensor<64x4096xf32>
    %4 = nn.mul %3, %3 {nn.id = 5, nn.pass = #nn.pass<forward>} : (tensor<64x4096xf32>, tensor<64x4096xf32>) -> tensor<64x4096xf32>
    %loss = nn.sum %4 {dims = array<i64: 0, 1>, nn.id = 6, nn.pass = #nn.pass<forward>} : (tensor<64x4096xf32>) -> tensor<f32>
    return %loss, %w1, %w2 : tensor<f32>, tensor<4096x4096xf32>, tensor<4096x4096xf32>
  }
}
