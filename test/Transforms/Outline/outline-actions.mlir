// RUN: tandem-opt %s --tandem-import --tandem-accumulate=accumulate=2 --tandem-assign-sections="points=2 sections=w0:0;w1:1" --tandem-plan="mesh=data=1" --tandem-shard --tandem-place-sections="mesh=pipe=2,data=1" --tandem-localize -o %t.mlir
// RUN: tandem-opt %t.mlir --tandem-outline-actions=order=gpipe -o %t.gpipe.mlir
// RUN: FileCheck %s --input-file %t.gpipe.mlir --check-prefixes=CHECK,GPIPE
// RUN: tandem-opt %t.mlir --tandem-outline-actions | FileCheck %s --check-prefixes=CHECK,BOTH
// RUN: tandem-opt %t.gpipe.mlir --pass-pipeline='builtin.module(builtin.module(tandem-duplex,tandem-schedule,tandem-lower))' -o %t.lowered.mlir
// RUN: printf '0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n' > %t.csv
// RUN: tandem-opt %t.mlir --tandem-outline-actions=order=%t.csv -o %t.read.mlir
// RUN: printf '0F0,0F1,0B1,0B0\n1F1,1F0,1I1,1W1,1B0\n' > %t.turns.csv
// RUN: tandem-opt %t.mlir --tandem-outline-actions=order=%t.turns.csv | FileCheck %s --check-prefix=TURNS
// RUN: printf '(0F0;0F1)OVERLAP_F_B,0B0,0B1\n(1F0;1F1)OVERLAP_F_B,(1B0;1B1)OVERLAP_F_B\n' > %t.groups.csv
// RUN: tandem-opt %t.mlir --tandem-outline-actions=order=%t.groups.csv | FileCheck %s --check-prefix=GROUPS
// RUN: printf '0F0,(0F1;0B0)OVERLAP_F_B,0B1\n(1F0;1B0)OVERLAP_F_B,1F1,1B1\n' > %t.falls.csv
// RUN: tandem-opt %t.mlir --tandem-outline-actions=order=%t.falls.csv | FileCheck %s --check-prefix=FALLS
// RUN: tandem-opt %t.mlir --tandem-outline-actions="order=%t.turns.csv joined=1" | FileCheck %s --check-prefix=JOINED
// RUN: printf '0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n' > %t.waits.csv
// RUN: not tandem-opt %t.mlir --tandem-outline-actions=order=%t.waits.csv 2>&1 | FileCheck %s --check-prefix=WAITS
// RUN: printf '0F0,0F1,0B0\n1F0,1F1,1B0,1B1\n' > %t.missing.csv
// RUN: not tandem-opt %t.mlir --tandem-outline-actions=order=%t.missing.csv 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: printf '0F0,0B0\n1F0,1B0\n' > %t.few.csv
// RUN: not tandem-opt %t.mlir --tandem-outline-actions=order=%t.few.csv 2>&1 | FileCheck %s --check-prefix=FEW

// WAITS: error: {{.*}}waits.csv:1: entry 2: found a cycle, expected an order that can run: 0B0 waits for 1B0, behind 1F1 on point 1; 1F1 waits for 0F1, behind 0B0 on point 0
// MISSING: error: {{.*}}missing.csv:1: found no '0B1', nor its I and W
// FEW: few.csv: order of 2 points and 1 microbatches, expected 2 and 2

// The step is a declaration; each action is a step of one microbatch.
// CHECK: func.func private @step(
// No gradient leaves section 0: its backward pass is W alone.
// CHECK-NOT: module @s0.I
// CHECK: module @s0.F
// CHECK: module @s0.W
// CHECK: func.func @step(
// A sum over microbatches is updated in place.
// CHECK-SAME: nn.role = #nn.role<state>
// CHECK: nn.updates
// CHECK: nn.add
// CHECK: module @s1.F
// CHECK: module @s1.I
// CHECK: module @s1.W

// CHECK: func.func @p0(
// CHECK: %[[X0:.*]] = sched.row %{{.*}} microbatch 0
// CHECK: %[[H0:.*]] = sched.run @s0.F microbatch 0(%[[X0]]
// CHECK: sched.send %[[H0]]{{.*}} to 1 tag [[TAG:[0-9]+]] microbatch 0
// CHECK: sched.run @s0.F microbatch 1
// CHECK: %[[G:.*]] = sched.receive from 1 tag {{[0-9]+}} microbatch 0
// CHECK: %[[ZERO:.*]] = sched.zeros
// CHECK: %[[SUM:.*]] = sched.run @s0.W microbatch 0({{.*}}%[[ZERO]])
// CHECK: sched.run @s0.W microbatch 1({{.*}}%[[SUM]])
// CHECK: sched.give

// W of a joined point is the whole backward pass, and runs where I would, in its turn.
// JOINED-NOT: module @s1.I
// JOINED: func.func @p1(
// JOINED: sched.run @s1.F microbatch 0
// JOINED-NEXT: sched.zeros
// JOINED-NEXT: %[[SUMS:.*]]:2 = sched.run @s1.W microbatch 0
// JOINED-NEXT: sched.send %[[SUMS]]#0
// JOINED-NEXT: sched.run @s1.W microbatch 1
// JOINED-NEXT: sched.send

// A group begins when all that its strands read is there, and sends when all have run.
// GROUPS: func.func @p0(
// GROUPS: sched.run @s0.F microbatch 0 strand 0
// GROUPS-NEXT: sched.run @s0.F microbatch 1 strand 1
// GROUPS-NEXT: sched.send
// GROUPS-NEXT: sched.send
// GROUPS: sched.run @s0.W microbatch 0(
// GROUPS: func.func @p1(
// GROUPS: sched.zeros
// GROUPS-NEXT: sched.run @s1.I microbatch 0 strand 0
// GROUPS-NEXT: %[[SUM:.*]] = sched.run @s1.W microbatch 0 strand 0
// GROUPS-NEXT: sched.run @s1.I microbatch 1 strand 1
// GROUPS-NEXT: sched.run @s1.W microbatch 1 strand 1({{.*}}%[[SUM]])
// GROUPS-NEXT: sched.send

// Actions that wait for one another run in turn.
// FALLS: func.func @p0(
// FALLS: sched.run @s0.F microbatch 1 strand 0
// FALLS-NEXT: sched.run @s0.W microbatch 0 strand 1
// FALLS: func.func @p1(
// FALLS: sched.run @s1.F microbatch 0(
// FALLS: sched.run @s1.I microbatch 0(

// The gradient of B leaves before its W.
// CHECK: func.func @p1(
// CHECK: sched.receive from 0 tag [[TAG]] microbatch 0
// CHECK: sched.run @s1.F microbatch 0
// GPIPE: sched.run @s1.F microbatch 1
// GPIPE: sched.run @s1.I microbatch 0
// GPIPE-NEXT: sched.send
// GPIPE: sched.run @s1.W microbatch 0
// BOTH: sched.run @s1.I microbatch 0
// BOTH: sched.run @s1.W microbatch 0
// BOTH: sched.run @s1.F microbatch 1
// CHECK: sched.run @s1.I microbatch 1
// CHECK: sched.run @s1.W microbatch 1

// W waits for its turn, whatever the order.
// TURNS: func.func @p0(
// TURNS: sched.receive from 1 tag {{[0-9]+}} microbatch 1
// TURNS: sched.receive from 1 tag {{[0-9]+}} microbatch 0
// TURNS: sched.run @s0.W microbatch 0
// TURNS: sched.run @s0.W microbatch 1
// TURNS: func.func @p1(
// TURNS: sched.run @s1.F microbatch 1
// TURNS: sched.run @s1.F microbatch 0
// TURNS: sched.run @s1.I microbatch 1
// TURNS-NOT: sched.run @s1.W
// TURNS: sched.run @s1.I microbatch 0
// TURNS: sched.run @s1.W microbatch 0
// TURNS: sched.run @s1.W microbatch 1

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
