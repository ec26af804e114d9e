// RUN: sed 's/core: 4/core: 1/; s/size: 3 GiB/size: 1284 B/' %source/examples/clusters/laptop.yaml > %t.fits.yaml
// RUN: tandem-compile %s --cluster %t.fits.yaml -o %t.tdm 2>&1 | FileCheck %s --check-prefix=FITS --implicit-check-not=warning
// FITS: remark: preset data-parallel: {{.*}} peak 1152 B
// RUN: sed 's/1284 B/1283 B/' %t.fits.yaml > %t.less.yaml
// RUN: tandem-compile %s --cluster %t.less.yaml -o %t.tdm 2>&1 | FileCheck %s
// RUN: sed 's/1284 B/1151 B/' %t.fits.yaml > %t.none.yaml
// RUN: tandem-compile %s --cluster %t.none.yaml -o %t.tdm 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: tandem-compile %s --memory 1284 -o %t.tdm 2>&1 | FileCheck %s --check-prefix=FITS --implicit-check-not=warning
// RUN: not tandem-compile %s --memory 1283 -o %t.tdm 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: not tandem-compile %s --memory 1283 --search tandem -o %t.tdm 2>&1 | FileCheck %s --check-prefix=NO-PLAN
// RUN: not tandem-compile %s --cluster %t.less.yaml --search tandem -o %t.tdm 2>&1 | FileCheck %s --check-prefix=NO-PLAN

// RUN: sed 's/8x8xf32/16x16xf32/g; s/8x2xf32/16x2xf32/g' %s > %t.larger.mlir
// RUN: tandem-compile %t.larger.mlir --mesh data=4 --search tandem --memory 3500 --print-after plan --print-after lower --times -o %t.tdm > %t.lowered.mlir 2> %t.remarks
// RUN: FileCheck %s --check-prefix=AGAIN --implicit-check-not=remark --input-file %t.remarks
// RUN: FileCheck %s --check-prefix=ONCE --input-file %t.lowered.mlir
// RUN: tandem-compile %t.larger.mlir --mesh data=4 --search tandem --memory 3500 --plan-only -o %t.plan
// RUN: not tandem-compile %t.larger.mlir --plan-file %t.plan --memory 3500 -o %t.tdm 2>&1 | FileCheck %s --check-prefix=GIVEN
// RUN: tandem-compile %t.larger.mlir --mesh data=4 --search tandem --memory 3500 --stop-after plan --no-locations > %t.planned.mlir
// RUN: tandem-compile %t.planned.mlir --from plan -o %t.tdm 2>&1 | FileCheck %s --check-prefix=FROM
// RUN: not tandem-compile %t.larger.mlir --mesh data=2 --search exhaustive --memory 2623 --plan-only 2>&1 | FileCheck %s --check-prefix=SMALLEST
// RUN: tandem-compile %t.larger.mlir --mesh data=2 --search exhaustive --memory 2624 --plan-only -o %t.plan 2>&1 | FileCheck %s --check-prefix=ENOUGH
// RUN: not tandem-compile %t.larger.mlir --mesh data=2 --search ilp --memory 2623 --plan-only 2>&1 | FileCheck %s --check-prefix=SMALLEST
// RUN: tandem-compile %t.larger.mlir --mesh data=2 --search ilp --memory 2624 --plan-only -o %t.plan 2>&1 | FileCheck %s --check-prefix=ENOUGH
// RUN: not tandem-compile %t.larger.mlir --mesh data=2 --search tandem --memory 2623 --plan-only 2>&1 | FileCheck %s --check-prefix=SMALLEST
// RUN: tandem-compile %t.larger.mlir --mesh data=2 --search tandem --memory 2624 --plan-only -o %t.plan 2>&1 | FileCheck %s --check-prefix=ENOUGH

// A plan that fits: its Program holds all of a product for a slice of it, which
// lies in its memory. A plan that does not fit says so itself.

// CHECK: warning: the Program holds 1.284 kB on each rank, 1 B more than the limit of 1.283 kB, into which its plan fits: leave room with 'reserved' in the cluster file
// ERROR: error: the Program holds 1.284 kB on each rank, 1 B more than the limit of 1.283 kB; its plan holds 1.152 kB: expected memory of at least 1.284 kB, or more ranks
// NO-PLAN: error: the Program holds 1.284 kB on each rank, 1 B more than the limit of 1.283 kB; its plan holds 1.152 kB: expected memory of at least 1.284 kB, or more ranks

// A searched plan is made again, for less, and for twice as much less where the
// Program holds as much as before; the IR has the limit of the Program.
// AGAIN: remark: the Program holds 3.588 kB on each rank, 88 B more than the limit of 3.5 kB: planned again, for at most 3.368 kB
// AGAIN-NEXT: remark: the Program holds 3.588 kB on each rank, 88 B more than the limit of 3.5 kB: planned again, for at most 3.024 kB
// AGAIN-NEXT: remark: search tandem: cost {{.*}} s, peak 1856 B of at most 3024 B on laptop, optimal
// AGAIN: s plan
// AGAIN-NOT: s plan
// ONCE: spmd.memory = 3500 : i64
// ONCE: sched.arena = {{.*}}spmd.memory = 3500 : i64
// ONCE-NOT: spmd.memory

// One that is given is not, nor behind the stage that plans.
// GIVEN: error: the Program holds 3.588 kB on each rank, 88 B more than the limit of 3.5 kB; its plan holds 3.456 kB: expected memory of at least 3.588 kB, or more ranks
// FROM: warning: the Program holds 3.588 kB on each rank, 88 B more than the limit of 3.5 kB, into which its plan fits

// What is said to be needed is enough.
// SMALLEST: error: no plan: none fits; the smallest that was found holds 2.624 kB on each rank, 1 B more than the limit of 2.623 kB; largest: 'w' at {{[^ ]+}} (stored) 1.024 kB, {{.*}}; parameters and states take 1.024 kB of it: try a smaller batch, accumulation or more devices
// ENOUGH: cost {{.*}} s, peak 2624 B of at most 2624 B on laptop, optimal

// NONE-NOT: the Program holds
// NONE: warning: preset data-parallel: the plan holds 1152 B at its peak, a device of 'laptop' has 1151 B
// NONE-NOT: the Program holds
func.func @step(
    %x: tensor<8x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
    %w: tensor<8x8xf32> {nn.role = #nn.role<parameter>, nn.name = "w"})
    -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"}) {
  %0 = nn.matmul %x, %w {nn.pass = #nn.pass<forward>, nn.id = 0 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = nn.slice %0 {dim = 1 : i64, start = 0 : i64, stop = 2 : i64, nn.pass = #nn.pass<forward>, nn.id = 1 : i64} : (tensor<8x8xf32>) -> tensor<8x2xf32>
  %2 = nn.matmul %x, %w {nn.pass = #nn.pass<forward>, nn.id = 2 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = nn.matmul %2, %w {nn.pass = #nn.pass<forward>, nn.id = 3 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = nn.matmul %3, %1 {nn.pass = #nn.pass<forward>, nn.id = 4 : i64} : (tensor<8x8xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
  %loss = nn.sum %4 {dims = array<i64: 0, 1>, nn.pass = #nn.pass<forward>, nn.id = 5 : i64} : (tensor<8x2xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
