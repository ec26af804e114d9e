// The source that a reader takes is a part of the plan file: `again` and the
// number of the operand. A plan without is one of saved values.
// RUN: tandem-opt %s --tandem-import=recompute=true -o %t.mlir
// RUN: tandem-opt %t.mlir --tandem-plan="mesh=data=2 preset=data-parallel output=%t.plan" -o %t.saved.mlir
// RUN: FileCheck %s --input-file=%t.plan --check-prefix=SAVED --implicit-check-not=again
// SAVED: operator {{[0-9]+}} nn.either: data='gather(0), gather(0) -> gather(0)'
// RUN: tandem-opt %t.saved.mlir --tandem-shard | FileCheck %s --check-prefix=NONE --implicit-check-not=nn.again --implicit-check-not=nn.either
// NONE: nn.tanh
// RUN: sed 's/nn.either:/nn.either: again 1/' %t.plan > %t.again.plan
// RUN: tandem-opt %t.mlir --tandem-plan="plan-file=%t.again.plan output=%t.back.plan" -o %t.again.mlir
// RUN: diff %t.again.plan %t.back.plan
// RUN: FileCheck %s --input-file=%t.again.mlir --check-prefix=AGAIN
// AGAIN: nn.either {{.*}}nn.source = 1 : i64
// RUN: tandem-opt %t.again.mlir --tandem-shard | FileCheck %s --check-prefix=SHARD --implicit-check-not=nn.either
// SHARD: nn.tanh
// SHARD: %[[A:.*]] = nn.tanh {{.*}}nn.again
// SHARD: nn.mul %{{.*}}, %[[A]]

// Planning anew forgets it.
// RUN: tandem-opt %t.again.mlir --tandem-plan="plan-file=%t.plan" -o %t.once.mlir
// RUN: diff %t.saved.mlir %t.once.mlir

// RUN: sed 's/nn.either:/nn.either: again 2/' %t.plan > %t.two.plan
// RUN: not tandem-opt %t.mlir --tandem-plan="plan-file=%t.two.plan" 2>&1 | FileCheck %s --check-prefix=TWO
// TWO: error: plan file '{{.*}}', line {{[0-9]+}}: operator {{[0-9]+}} nn.either takes 'again 2', expected the number of one of its operands, from 1 to 1
// RUN: sed 's/nn.matmul:/nn.matmul: again 1/' %t.plan > %t.op.plan
// RUN: not tandem-opt %t.mlir --tandem-plan="plan-file=%t.op.plan" 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: error: plan file '{{.*}}', line {{[0-9]+}}: operator {{[0-9]+}} nn.matmul takes 'again', expected it for 'nn.either' only

// The compiler imports the step with the offer that the file has, or without
// it. Errors are about the file.
// RUN: not tandem-compile %s --plan-file %t.two.plan 2>&1 | FileCheck %s --check-prefix=TWO
// RUN: sed 's/nn.either:/nn.either: agian 1/' %t.plan > %t.typo.plan
// RUN: not tandem-compile %s --plan-file %t.typo.plan 2>&1 | FileCheck %s --check-prefix=TYPO
// TYPO: error: plan file '{{.*}}', line {{[0-9]+}}: found 'agian 1 data', expected 'again N' or 'host N', or an axis of mesh data=2 with its signature
// RUN: not tandem-compile %s --plan-file %t.again.plan --memory 100 2>&1 | FileCheck %s --check-prefix=LARGE
// LARGE: error: plan {{.*}}: the plan holds 704 B on each rank, 604 B more than the limit of 100 B;
// RUN: tandem-compile %s --mesh data=2 --plan-only -o %t.without.plan
// RUN: tandem-compile %s --recompute --plan-file %t.without.plan -o %t.tdm
// RUN: tandem-compile %s --compare %t.without.plan %t.again.plan | FileCheck %s --check-prefix=COMPARE
// COMPARE: peak of memory 768 B 704 B -64 B

// A pin that makes values again and saves nothing is told: here a library reads
// what it names in the forward pass. Without that its kernel does not write it.
// RUN: sed 's/^    %loss = nn.sum %1 /%9 = nn.matmul %1, %w {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>\n %loss = nn.sum %9 /' %s > %t.read.mlir
// RUN: tandem-compile %t.read.mlir --plan replicate --pin 'nn.tanh#1:again' --plan-only -o %t.idle.plan 2>&1 | FileCheck %s --check-prefix=IDLE
// IDLE: remark: pin 'nn.tanh#1' saves nothing: the plan holds 832 B at its peak, and 832 B if all that the pin names is saved; largest: 'w' at {{.*}}.read.mlir:{{[0-9]+}} (stored) 256 B
// RUN: tandem-compile %s --plan replicate --pin 'nn.tanh#1:again' --plan-only -o %t.kernel.plan 2>&1 | FileCheck %s --allow-empty --check-prefix=BUSY
// RUN: tandem-compile %s --mesh data=2 --plan data-parallel --pin 'nn.tanh#1:again' --plan-only -o %t.busy.plan 2>&1 | FileCheck %s --allow-empty --check-prefix=BUSY
// BUSY-NOT: saves nothing

// A choice is a part of its reader; a clone that one may leave out is not.
// RUN: tandem-opt %t.mlir --tandem-plan="mesh=data=2 preset=data-parallel problem-out=%t.problem" -o %t.ignored
// RUN: FileCheck %s --input-file=%t.problem --check-prefix=PROBLEM --implicit-check-not=nn.either
// PROBLEM: operator {{[0-9]+}} forward compute nn.tanh_
// PROBLEM: operator {{[0-9]+}} backward compute nn.tanh_
// PROBLEM: operator {{[0-9]+}} backward compute nn.matmul_

// Combinations of two choices between the same values that read all the same
// are one signature: the problem is one that tandem-plan reads.
// RUN: sed 's/^    %dw = nn.matmul %3, %2 /%4 = nn.mul %2, %1 {nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>\n %dw = nn.matmul %3, %4 /' %s > %t.twice.mlir
// RUN: tandem-compile %t.twice.mlir --mesh data=2 --plan data-parallel --recompute --problem-out %t.twice.problem --plan-only -o %t.twice.plan
// RUN: tandem-plan %t.twice.problem --print-problem | diff %t.twice.problem -
module {
  func.func @step(
      %w: tensor<8x8xf32> {nn.role = #nn.role<parameter>, nn.name = "w"},
      %x: tensor<4x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0})
      -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"},
          tensor<8x8xf32> {nn.role = #nn.role<gradient>, nn.name = "w"}) {
    %0 = nn.matmul %x, %w {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %1 = nn.tanh %0 {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %loss = nn.sum %1 {dims = array<i64: 0, 1>, nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<f32>
    %2 = nn.mul %1, %1 {nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = nn.permute %x {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %dw = nn.matmul %3, %2 {nn.pass = #nn.pass<backward>} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    return %loss, %dw : tensor<f32>, tensor<8x8xf32>
  }
}
