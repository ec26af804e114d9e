// One line for a collective, everywhere: of the operator that reads what it
// makes, also where operators of several lines are decided together; of the one
// that made the gradient where that is for an update.
// RUN: tandem-compile %s --mesh model=2 --plan tensor-parallel --plan-only --explain | FileCheck %s --check-prefix=READS
// READS: reduce-scatter model forward 1 x 1.05 MB {{.*}} nn.matmul#2(w2) model.py:4
// RUN: tandem-compile %s --mesh model=2 --plan tensor-parallel --stop-after localize | FileCheck %s --check-prefix=READS-PROGRAM
// READS-PROGRAM: spmd.reduce_scatter
// READS-PROGRAM-NEXT: loc([[LINE:#.*]])
// READS-PROGRAM: [[LINE]] = loc("model.py":4:1)
// RUN: tandem-compile %s --mesh data=2 --plan data-parallel --plan-only --explain | FileCheck %s --check-prefix=MADE
// MADE: all-reduce data update 1 x 16.4 KB {{.*}} nn.matmul#7(gradient of w1) {{.*}}model.py:7
// RUN: tandem-compile %s --mesh data=2 --plan data-parallel --stop-after localize | FileCheck %s --check-prefix=MADE-PROGRAM
// MADE-PROGRAM: spmd.all_reduce {{.*}} tensor<64x64xf32> loc([[LINE:#.*]])
// MADE-PROGRAM: [[LINE]] = loc("model.py":7:1)

// A problem's text says which lines are not the operator's own.
// RUN: tandem-compile %s --mesh model=2 --search tandem --plan-only -o %t.plan --problem-out %t.problem
// RUN: FileCheck %s --check-prefix=PROBLEM --input-file=%t.problem
// PROBLEM: compute nn.sum_5 {{.*}} at model.py:6 reads 0 model.py:4 reads 1 model.py:4
// RUN: tandem-plan %t.problem --print-problem | diff %t.problem -
module {
  func.func @step(
      %w1: tensor<64x64xf32> {nn.role = #nn.role<parameter>, nn.name = "w1"},
      %w2: tensor<64x64xf32> {nn.role = #nn.role<parameter>, nn.name = "w2"},
      %b: tensor<64xf32> {nn.role = #nn.role<parameter>, nn.name = "b"},
      %lr: tensor<f32> {nn.role = #nn.role<learning_rate>, nn.name = "0"},
      %x: tensor<4096x64xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0})
      -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"},
          tensor<64x64xf32> {nn.role = #nn.role<parameter>, nn.name = "w1", nn.updates = 0},
          tensor<64x64xf32> {nn.role = #nn.role<parameter>, nn.name = "w2", nn.updates = 1},
          tensor<64xf32> {nn.role = #nn.role<parameter>, nn.name = "b", nn.updates = 2}) {
    %0 = nn.matmul %x, %w1 {nn.id = 0, nn.pass = #nn.pass<forward>} : (tensor<4096x64xf32>, tensor<64x64xf32>) -> tensor<4096x64xf32> loc("model.py":1:1)
    %1 = nn.tanh %0 {nn.id = 1, nn.pass = #nn.pass<forward>} : (tensor<4096x64xf32>) -> tensor<4096x64xf32> loc("model.py":2:1)
    %2 = nn.matmul %1, %w2 {nn.id = 2, nn.pass = #nn.pass<forward>} : (tensor<4096x64xf32>, tensor<64x64xf32>) -> tensor<4096x64xf32> loc("model.py":3:1)
    %3 = nn.add %2, %b {nn.id = 3, nn.pass = #nn.pass<forward>} : (tensor<4096x64xf32>, tensor<64xf32>) -> tensor<4096x64xf32> loc("model.py":4:1)
    %4 = nn.mul %3, %3 {nn.id = 4, nn.pass = #nn.pass<forward>} : (tensor<4096x64xf32>, tensor<4096x64xf32>) -> tensor<4096x64xf32> loc("model.py":5:1)
    %loss = nn.sum %4 {dims = array<i64: 0, 1>, nn.id = 5, nn.pass = #nn.pass<forward>} : (tensor<4096x64xf32>) -> tensor<f32> loc("model.py":6:1)
    %xt = nn.permute %x {permutation = array<i64: 1, 0>, nn.id = 6, nn.pass = #nn.pass<backward>} : (tensor<4096x64xf32>) -> tensor<64x4096xf32> loc("model.py":1:1)
    %dw = nn.matmul %xt, %0 {nn.id = 7, nn.pass = #nn.pass<backward>} : (tensor<64x4096xf32>, tensor<4096x64xf32>) -> tensor<64x64xf32> loc("model.py":7:1)
    %u = nn.mul %lr, %dw {nn.id = 8, nn.pass = #nn.pass<update>} : (tensor<f32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("optimizer.py":9:1)
    %n1 = nn.sub %w1, %u {nn.id = 9, nn.pass = #nn.pass<update>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("optimizer.py":9:1)
    return %loss, %n1, %w2, %b : tensor<f32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64xf32>
  }
}
