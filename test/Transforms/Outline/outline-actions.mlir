// RUN: tandem-opt %s --tandem-import --tandem-accumulate=accumulate=2 --tandem-assign-sections="points=2 sections=w0:0;w1:1" --tandem-plan="mesh=data=1" --tandem-shard --tandem-place-sections="mesh=pipe=2,data=1" --tandem-localize -o %t.mlir
// RUN: tandem-opt %t.mlir --tandem-outline-actions=order=gpipe -o %t.gpipe.mlir
// RUN: FileCheck %s --input-file %t.gpipe.mlir --check-prefixes=CHECK,GPIPE
// RUN: tandem-opt %t.mlir --tandem-outline-actions | FileCheck %s --check-prefixes=CHECK,BOTH
// RUN: tandem-opt %t.gpipe.mlir --pass-pipeline='builtin.module(builtin.module(tandem-duplex,tandem-schedule,tandem-lower))' -o %t.lowered.mlir
// RUN: printf '0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n' > %t.csv
// RUN: tandem-opt %t.mlir --tandem-outline-actions=order=%t.csv -o %t.read.mlir
// RUN: printf '0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n' > %t.waits.csv
// RUN: not tandem-opt %t.mlir --tandem-outline-actions=order=%t.waits.csv 2>&1 | FileCheck %s --check-prefix=WAITS
// RUN: printf '0F0,0F1,0B0,0B1\n1F0,1I0,1W0,1F1,1B1\n' > %t.split.csv
// RUN: not tandem-opt %t.mlir --tandem-outline-actions=order=%t.split.csv 2>&1 | FileCheck %s --check-prefix=SPLIT
// RUN: printf '0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n' > %t.late.csv
// RUN: not tandem-opt %t.mlir --tandem-outline-actions=order=%t.late.csv 2>&1 | FileCheck %s --check-prefix=LATE
// RUN: printf '0F0,0B0\n1F0,1B0\n' > %t.few.csv
// RUN: not tandem-opt %t.mlir --tandem-outline-actions=order=%t.few.csv 2>&1 | FileCheck %s --check-prefix=FEW

// WAITS: error: point 0 of 'pipe' never runs 's0.B' of microbatch 0
// SPLIT: error: order has 1I0, expected F and B
// LATE: error: order has 0B0 behind a later microbatch, expected backward passes in the order of microbatches
// FEW: few.csv: order of 2 points and 1 microbatches, expected 2 and 2

// The step is a declaration; each action is a step of one microbatch.
// CHECK: func.func private @step(
// CHECK: module @s0.B
// CHECK: func.func @step(
// A sum over microbatches is updated in place.
// CHECK-SAME: nn.role = #nn.role<state>
// CHECK: nn.updates
// CHECK: nn.add
// CHECK: module @s0.F
// CHECK: module @s1.B
// CHECK: module @s1.F

// CHECK: func.func @p0(
// CHECK: %[[X0:.*]] = sched.row %{{.*}} microbatch 0
// CHECK: %[[H0:.*]] = sched.run @s0.F microbatch 0(%[[X0]]
// CHECK: sched.send %[[H0]]{{.*}} to 1 tag [[TAG:[0-9]+]] microbatch 0
// CHECK: sched.run @s0.F microbatch 1
// CHECK: %[[G:.*]] = sched.receive from 1 tag {{[0-9]+}} microbatch 0
// CHECK: %[[ZERO:.*]] = sched.zeros
// CHECK: %[[SUM:.*]] = sched.run @s0.B microbatch 0({{.*}}%[[ZERO]])
// CHECK: sched.run @s0.B microbatch 1({{.*}}%[[SUM]])
// CHECK: sched.give

// CHECK: func.func @p1(
// CHECK: sched.receive from 0 tag [[TAG]] microbatch 0
// CHECK: sched.run @s1.F microbatch 0
// GPIPE: sched.run @s1.F microbatch 1
// GPIPE: sched.run @s1.B microbatch 0
// BOTH: sched.run @s1.B microbatch 0
// BOTH: sched.run @s1.F microbatch 1
// CHECK: sched.run @s1.B microbatch 1

#f = #nn.pass<forward>
#b = #nn.pass<backward>
#u = #nn.pass<update>
!t = tensor<8x8xf64>
func.func @step(%x: !t {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %w0: !t {nn.role = #nn.role<parameter>, nn.name = "w0"}, %w1: !t {nn.role = #nn.role<parameter>, nn.name = "w1"})
    -> (!t {nn.role = #nn.role<parameter>, nn.name = "w0", nn.updates = 1 : i64}, !t {nn.role = #nn.role<parameter>, nn.name = "w1", nn.updates = 2 : i64}) {
  %h = nn.matmul %x, %w0 {nn.pass = #f} : (!t, !t) -> !t
  %e = nn.exp %h {nn.pass = #f} : (!t) -> !t
  %y = nn.matmul %e, %w1 {nn.pass = #f} : (!t, !t) -> !t
  %s = nn.exp %y {nn.pass = #f} : (!t) -> !t
  %t1 = nn.permute %w1 {nn.pass = #b, permutation = array<i64: 1, 0>} : (!t) -> !t
  %de = nn.matmul %s, %t1 {nn.pass = #b} : (!t, !t) -> !t
  %te = nn.permute %e {nn.pass = #b, permutation = array<i64: 1, 0>} : (!t) -> !t
  %dw1 = nn.matmul %te, %s {nn.pass = #b} : (!t, !t) -> !t
  %dh = nn.mul %de, %e {nn.pass = #b} : (!t, !t) -> !t
  %tx = nn.permute %x {nn.pass = #b, permutation = array<i64: 1, 0>} : (!t) -> !t
  %dw0 = nn.matmul %tx, %dh {nn.pass = #b} : (!t, !t) -> !t
  %n0 = nn.sub %w0, %dw0 {nn.pass = #u} : (!t, !t) -> !t
  %n1 = nn.sub %w1, %dw1 {nn.pass = #u} : (!t, !t) -> !t
  return %n0, %n1 : !t, !t
}
