// RUN: sed 's/core: 4/core: 1/; s/size: 3 GiB/size: 224 B/' %source/examples/clusters/laptop.yaml > %t.fits.yaml
// RUN: tandem-compile %s --cluster %t.fits.yaml -o %t.tdm 2>&1 | FileCheck %s --check-prefix=FITS --implicit-check-not=warning
// FITS: remark: preset data-parallel: {{.*}} peak 84 B
// RUN: sed 's/224 B/223 B/' %t.fits.yaml > %t.less.yaml
// RUN: tandem-compile %s --cluster %t.less.yaml -o %t.tdm 2>&1 | FileCheck %s
// RUN: sed 's/224 B/83 B/' %t.fits.yaml > %t.none.yaml
// RUN: tandem-compile %s --cluster %t.none.yaml -o %t.tdm 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: tandem-compile %s --memory 224 -o %t.tdm 2>&1 | FileCheck %s --check-prefix=FITS --implicit-check-not=warning
// RUN: not tandem-compile %s --memory 223 -o %t.tdm 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: not tandem-compile %s --memory 223 --search tandem -o %t.tdm 2>&1 | FileCheck %s --check-prefix=NO-PLAN
// RUN: not tandem-compile %s --cluster %t.less.yaml --search tandem -o %t.tdm 2>&1 | FileCheck %s --check-prefix=NO-PLAN

// RUN: sed 's/2x2xf32/4x4xf32/g' %s > %t.larger.mlir
// RUN: tandem-compile %t.larger.mlir --mesh data=4 --search tandem --memory 300 --print-after plan --stop-after lower --times > %t.lowered.mlir 2> %t.remarks
// RUN: FileCheck %s --check-prefix=AGAIN --implicit-check-not=remark --input-file %t.remarks
// RUN: FileCheck %s --check-prefix=ONCE --input-file %t.lowered.mlir
// RUN: tandem-compile %t.larger.mlir --mesh data=4 --search tandem --memory 310 --plan-only -o %t.plan
// RUN: not tandem-compile %t.larger.mlir --plan-file %t.plan --memory 310 -o %t.tdm 2>&1 | FileCheck %s --check-prefix=GIVEN
// RUN: tandem-compile %t.larger.mlir --mesh data=4 --search tandem --memory 310 --stop-after plan --no-locations > %t.planned.mlir
// RUN: tandem-compile %t.planned.mlir --from plan -o %t.tdm 2>&1 | FileCheck %s --check-prefix=FROM
// RUN: not tandem-compile %t.larger.mlir --mesh data=2 --search exhaustive --memory 191 --plan-only 2>&1 | FileCheck %s --check-prefix=SMALLEST
// RUN: tandem-compile %t.larger.mlir --mesh data=2 --search exhaustive --memory 192 --plan-only -o %t.plan 2>&1 | FileCheck %s --check-prefix=ENOUGH
// RUN: not tandem-compile %t.larger.mlir --mesh data=2 --search ilp --memory 191 --plan-only 2>&1 | FileCheck %s --check-prefix=SMALLEST
// RUN: tandem-compile %t.larger.mlir --mesh data=2 --search ilp --memory 192 --plan-only -o %t.plan 2>&1 | FileCheck %s --check-prefix=ENOUGH
// RUN: not tandem-compile %t.larger.mlir --mesh data=2 --search tandem --memory 191 --plan-only 2>&1 | FileCheck %s --check-prefix=SMALLEST
// RUN: tandem-compile %t.larger.mlir --mesh data=2 --search tandem --memory 192 --plan-only -o %t.plan 2>&1 | FileCheck %s --check-prefix=ENOUGH

// A plan that fits, of tensors of 16 bytes, whose buffers begin at multiples of
// 64: two arguments and three buffers. One that does not fit says so itself.

// CHECK: warning: the Program holds 224 B on each rank, 1 B more than the limit of 223 B, into which its plan fits: leave room with 'reserved' in the cluster file
// ERROR: error: the Program holds 224 B on each rank, 1 B more than the limit of 223 B; its plan holds 84 B: expected memory of at least 224 B, or more ranks
// NO-PLAN: error: the Program holds 224 B on each rank, 1 B more than the limit of 223 B, and no plan was found that holds less: no plan: {{.*}} on each rank, {{.*}} more than the limit of {{[0-9]+}} B

// A searched plan is made again, for less; the IR has the limit of the Program.
// AGAIN: remark: the Program holds 320 B on each rank, 20 B more than the limit of 300 B: planned again, for at most 240 B
// AGAIN-NEXT: remark: the Program holds 320 B on each rank, 20 B more than the limit of 300 B: planned again, for at most 172 B
// AGAIN-NEXT: remark: search tandem: cost {{.*}} s, peak 128 B of at most 172 B on laptop, optimal
// AGAIN: s plan
// AGAIN-NOT: s plan
// ONCE: spmd.memory = 300 : i64
// ONCE: sched.arena = {{.*}}spmd.memory = 300 : i64
// ONCE-NOT: spmd.memory

// One that is given is not, nor behind the stage that plans.
// GIVEN: error: the Program holds 320 B on each rank, 10 B more than the limit of 310 B; its plan holds 260 B: expected memory of at least 320 B, or more ranks
// FROM: warning: the Program holds 320 B on each rank, 10 B more than the limit of 310 B, into which its plan fits

// What is said to be needed is enough.
// SMALLEST: error: no plan: none fits; the smallest that was found holds 192 B on each rank, 1 B more than the limit of 191 B; largest: 'w' 32 B; parameters and states take most
// ENOUGH: cost {{.*}} s, peak 192 B of at most 192 B on laptop, optimal

// NONE-NOT: the Program holds
// NONE: warning: preset data-parallel: the plan holds 84 B at its peak, a device of 'laptop' has 83 B
// NONE-NOT: the Program holds
func.func @step(
    %x: tensor<2x2xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
    %w: tensor<2x2xf32> {nn.role = #nn.role<parameter>, nn.name = "w"})
    -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"}) {
  %0 = nn.matmul %x, %w {nn.pass = #nn.pass<forward>, nn.id = 0 : i64} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = nn.matmul %0, %w {nn.pass = #nn.pass<forward>, nn.id = 1 : i64} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = nn.matmul %0, %1 {nn.pass = #nn.pass<forward>, nn.id = 2 : i64} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %loss = nn.sum %2 {dims = array<i64: 0, 1>, nn.pass = #nn.pass<forward>, nn.id = 3 : i64} : (tensor<2x2xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
