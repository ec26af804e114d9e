// RUN: tandem-opt --tandem-carry-sums %s | FileCheck %s
// RUN: tandem-opt --tandem-carry-sums --tandem-outline-kernels --tandem-bufferize --tandem-forward-destinations --tandem-place-buffers %s | FileCheck %s --check-prefix=COMMANDS

// The sum of two strands and of all iterations begins with zeros in front of
// the loop, and stays where they are.
// CHECK-LABEL: func.func @step
// CHECK: %[[Z:.*]], %{{.*}} = sched.step
// CHECK: sched.zeros : tensor<4xf32>
// CHECK: sched.step
// CHECK: %[[A:.*]] = nn.add %[[Z]], %{{.*}} {
// CHECK: %[[B:.*]] = nn.add %[[A]], %{{.*}} {
// CHECK: sched.keep %[[B]] in %[[Z]] {
// CHECK-NOT: spmd.carry

// COMMANDS-LABEL: func.func @step
// COMMANDS: %[[ALL:.*]] = sched.alloc at 0 : memref<16xf32>
// COMMANDS: sched.fill %[[ALL]]
// COMMANDS: sched.begin_loop 0
// COMMANDS: sched.launch @kernel_0
// COMMANDS: sched.end_loop 0
func.func @step(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>) -> tensor<4xf32> attributes {spmd.iterations = 2 : i64} {
  %0, %e0 = sched.step on compute stage 0 strand 0 {
    %a = spmd.enter %x {spmd.loop = 0 : i64} : tensor<2x4xf32> -> tensor<4xf32>
    %b = spmd.enter %y {spmd.loop = 0 : i64} : tensor<2x4xf32> -> tensor<4xf32>
    %c = nn.add %a, %b {spmd.change, spmd.loop = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %d = spmd.carry %c {spmd.loop = 0 : i64} : tensor<4xf32> -> tensor<4xf32>
    sched.yield %d : tensor<4xf32>
  } {spmd.loop = 0 : i64} : tensor<4xf32>
  return %0 : tensor<4xf32>
}
