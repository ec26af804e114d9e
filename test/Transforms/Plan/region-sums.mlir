// What a checkpointed region makes again and ranks sum is taken of the forward
// pass, with the forward pass's collective. Everything else is made again.
// RUN: tandem-opt %s --tandem-import -o %t.mlir
// RUN: tandem-opt %t.mlir --tandem-plan="mesh=model=2 preset=tensor-parallel output=%t.plan" -o %t.planned.mlir
// RUN: FileCheck %s --input-file=%t.plan --check-prefix=FILE
// FILE: nn.either: again 1
// FILE-NOT: nn.either
// RUN: tandem-opt %t.planned.mlir --tandem-shard | FileCheck %s --check-prefix=SHARD --implicit-check-not=nn.either
// SHARD: %[[SUM:.*]] = spmd.reform {{.*}}#reduce_model> -> tensor<4x8xf32>
// SHARD-NEXT: nn.exp %[[SUM]] {{.*}}#forward
// SHARD: nn.matmul {{.*}}nn.again
// SHARD: nn.tanh {{.*}}nn.again
// SHARD-NOT: nn.again
// SHARD-NOT: spmd.reform
// SHARD: nn.exp %[[SUM]] {nn.again

// RUN: tandem-opt %t.planned.mlir --tandem-print-plan -o /dev/null 2>&1 | FileCheck %s --check-prefix=TABLE
// TABLE: forward  all-reduce  model  activation  1x
// TABLE-NEXT: total  1x

// The file alone gives the same plan, also by hand.
// RUN: tandem-opt %t.mlir --tandem-plan="plan-file=%t.plan output=%t.back.plan" -o %t.back.mlir
// RUN: diff %t.plan %t.back.plan
// RUN: diff %t.planned.mlir %t.back.mlir

// Ranks sum nothing of the region: all is made again.
// RUN: tandem-opt %t.mlir --tandem-plan="mesh=data=2 preset=data-parallel output=%t.data.plan" | tandem-opt --tandem-shard | FileCheck %s --check-prefix=DATA --implicit-check-not=nn.either
// DATA: nn.matmul {{.*}}nn.again
// DATA: nn.matmul {{.*}}nn.again
// RUN: grep -c 'nn.either: again 1' %t.data.plan | FileCheck %s --check-prefix=COUNT
// COUNT: 2

// RUN: sed 's/either: again 1/either: again 2/' %t.plan > %t.two.plan
// RUN: not tandem-opt %t.mlir --tandem-plan="plan-file=%t.two.plan" 2>&1 | FileCheck %s --check-prefix=TWO
// TWO: error: plan file '{{.*}}', line {{[0-9]+}}: operator {{[0-9]+}} nn.either takes 'again 2', expected the number of one of its operands, from 1 to 1
// RUN: sed 's/either: again 1/either: agian 1/' %t.plan > %t.typo.plan
// RUN: not tandem-opt %t.mlir --tandem-plan="plan-file=%t.typo.plan" 2>&1 | FileCheck %s --check-prefix=TYPO
// TYPO: error: plan file '{{.*}}', line {{[0-9]+}}: found 'agian 1', expected 'again N'
// RUN: sed 's/either: again 1/either: again 1 more/' %t.plan > %t.more.plan
// RUN: not tandem-opt %t.mlir --tandem-plan="plan-file=%t.more.plan" 2>&1 | FileCheck %s --check-prefix=MORE
// MORE: error: plan file '{{.*}}', line {{[0-9]+}}: found 'more' behind 'again 1', expected nothing
// RUN: sed 's/nn.either: again 1/nn.tanh: again 1/' %t.plan > %t.name.plan
// RUN: not tandem-opt %t.mlir --tandem-plan="plan-file=%t.name.plan" 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: error: plan file '{{.*}}', line {{[0-9]+}}: operator {{[0-9]+}} is 'nn.tanh', expected 'nn.either', which has this number in the step

// A search starts with it, and ends with no more.
// RUN: tandem-opt %t.mlir --tandem-plan="mesh=model=2 search=tandem start=%t.plan output=%t.found.plan" -o %t.found.mlir
module {
  func.func @step(
      %w1: tensor<8x8xf32> {nn.role = #nn.role<parameter>, nn.name = "w1"},
      %w2: tensor<8x8xf32> {nn.role = #nn.role<parameter>, nn.name = "w2"},
      %x: tensor<4x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0})
      -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"},
          tensor<8x8xf32> {nn.role = #nn.role<gradient>, nn.name = "w1"},
          tensor<8x8xf32> {nn.role = #nn.role<gradient>, nn.name = "w2"}) {
    %a = nn.matmul %x, %w1 {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %b = nn.tanh %a {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %c = nn.matmul %b, %w2 {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %d = nn.exp %c {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %loss = nn.sum %d {dims = array<i64: 0, 1>, nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<f32>
    %0 = nn.matmul %x, %w1 {nn.again, nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %1 = nn.tanh %0 {nn.again, nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = nn.matmul %1, %w2 {nn.again, nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %dc = nn.exp %2 {nn.again, nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %bt = nn.permute %1 {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %dw2 = nn.matmul %bt, %dc {nn.pass = #nn.pass<backward>} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %w2t = nn.permute %w2 {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<backward>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %db = nn.matmul %dc, %w2t {nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %da = nn.mul %db, %1 {nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %xt = nn.permute %x {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %dw1 = nn.matmul %xt, %da {nn.pass = #nn.pass<backward>} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    return %loss, %dw1, %dw2 : tensor<f32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
}
