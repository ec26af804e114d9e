// RUN: tandem-opt --tandem-outline-kernels %s | FileCheck %s

// Equal groups are one kernel, whatever their ids and strands; products,
// collectives and views that cost nothing stay.
// CHECK-LABEL: func.func @step
// CHECK: sched.step on compute
// CHECK: %[[A:.*]] = func.call @kernel_0(%arg0) {nn.id = 1 : i64, nn.strand = 0 : i64, sched.label = "[[LABEL:.*gelu.*]]"}
// CHECK: %[[P:.*]] = sched.matmul %[[A]], %arg2
// CHECK: nn.reshape %[[P]]
// CHECK: %[[B:.*]] = func.call @kernel_0(%arg1) {nn.id = 1 : i64, nn.strand = 1 : i64, sched.label = "[[LABEL]]"}
// CHECK: sched.matmul %[[B]]
// CHECK: sched.step on comm
// CHECK: spmd.all_reduce
// CHECK: func.func private @kernel_0(%{{.*}}: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {sched.kernel}
// CHECK: nn.gelu none %{{.*}} :
// CHECK-NOT: func.func
module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @step(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>, %w: tensor<8x1xf32>) -> (tensor<1xf32>, tensor<1x1xf32>) {
    %p, %q, %e = sched.step on compute stage 0 strand 0 {
      %0 = nn.gelu none %x {nn.id = 1 : i64, nn.strand = 0 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
      %1 = sched.matmul %0, %w {batch = array<i64>, m = 1, n = 1, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 1, 1>, strides_c = array<i64: 1, 1>} : (tensor<2x4xf32>, tensor<8x1xf32>) -> tensor<1x1xf32>
      %2 = nn.reshape %1 : (tensor<1x1xf32>) -> tensor<1xf32>
      %3 = nn.gelu none %y {nn.id = 1 : i64, nn.strand = 1 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
      %5 = sched.matmul %3, %w {batch = array<i64>, m = 1, n = 1, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 1, 1>, strides_c = array<i64: 1, 1>} : (tensor<2x4xf32>, tensor<8x1xf32>) -> tensor<1x1xf32>
      sched.yield %2, %5 : tensor<1xf32>, tensor<1x1xf32>
    } : tensor<1xf32>, tensor<1x1xf32>
    %r, %f = sched.step on comm stage 1 strand 0 after(%e) {
      %6 = spmd.all_reduce %p over ["data"] : tensor<1xf32> -> tensor<1xf32>
      sched.yield %6 : tensor<1xf32>
    } : tensor<1xf32>
    return %r, %q : tensor<1xf32>, tensor<1x1xf32>
  }
}
