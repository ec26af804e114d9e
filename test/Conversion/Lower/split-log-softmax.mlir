// RUN: tandem-opt --tandem-split-log-softmax --split-input-file %s | FileCheck %s
// RUN: tandem-opt --tandem-split-log-softmax --tandem-outline-kernels --split-input-file %s | FileCheck %s --check-prefix=KERNEL

// Two numbers per row go from the forward to the backward. The element that is gathered comes from the logits, which
// are of bf16; no kernel writes anything of their size in f32 but the gradient.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:.*]]: tensor<6x50xbf16>, %[[T:.*]]: tensor<6x1xi64>, %[[G:.*]]: tensor<6x50xf32>
// CHECK-NOT: nn.log_softmax %
// CHECK: %[[M:.*]] = nn.max %{{.*}} {dims = array<i64: 1>, keepdim = true}
// CHECK: %[[L:.*]] = nn.log %
// CHECK: %[[E:.*]] = nn.gather %[[X]], %[[T]]
// CHECK: %[[C:.*]] = nn.convert %[[E]]
// CHECK: %[[S:.*]] = nn.sub %[[C]], %[[M]]
// CHECK: nn.sub %[[S]], %[[L]]
// CHECK: nn.convert %[[X]] {sched.again}
// CHECK: nn.sub %{{.*}} {sched.again}
// CHECK: %[[Y:.*]] = nn.sub %{{.*}} {sched.again}
// CHECK: nn.log_softmax_backward %[[G]], %[[Y]]
// KERNEL-LABEL: func.func @step
// KERNEL: call @kernel_0(%arg0, %arg1) {{.*}} -> (tensor<6x1xf32>, tensor<6x1xf32>, tensor<6x1xf32>)
// KERNEL: call @kernel_1(%arg0, {{.*}} -> tensor<6x50xf32>
// KERNEL-NEXT: sched.yield
func.func @step(%x: tensor<6x50xbf16>, %t: tensor<6x1xi64>, %g: tensor<6x50xf32>) -> (tensor<6x1xf32>, tensor<6x50xf32>) {
  %0, %1, %e = sched.step on compute stage 0 strand 0 {
    %2 = nn.convert %x : (tensor<6x50xbf16>) -> tensor<6x50xf32>
    %3 = nn.log_softmax %2 {dim = 1} : (tensor<6x50xf32>) -> tensor<6x50xf32>
    %4 = nn.gather %3, %t {dim = 1} : (tensor<6x50xf32>, tensor<6x1xi64>) -> tensor<6x1xf32>
    sched.yield %3, %4 : tensor<6x50xf32>, tensor<6x1xf32>
  } : tensor<6x50xf32>, tensor<6x1xf32>
  %5, %f = sched.step on compute stage 1 strand 0 {
    %6 = nn.log_softmax_backward %g, %0 {dim = 1} : (tensor<6x50xf32>, tensor<6x50xf32>) -> tensor<6x50xf32>
    sched.yield %6 : tensor<6x50xf32>
  } : tensor<6x50xf32>
  return %1, %5 : tensor<6x1xf32>, tensor<6x50xf32>
}

// -----

// Behind a view and a conversion elements are gathered before; one of bf16 is computed in f32 as its kernel would.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:.*]]: tensor<2x3x50xbf16>, %[[T:.*]]: tensor<2x1x1x3xi64>
// CHECK-NOT: nn.log_softmax %
// CHECK: nn.max {{.*}} : (tensor<2x3x50xf32>) -> tensor<2x3x1xf32>
// CHECK: nn.reshape %[[T]] : (tensor<2x1x1x3xi64>) -> tensor<2x1x3xi64>
// CHECK: nn.permute {{.*}} -> tensor<2x3x1xi64>
// CHECK: %[[E:.*]] = nn.gather %[[X]], %{{.*}} {dim = 2 : i64} : {{.*}} -> tensor<2x3x1xbf16>
// CHECK: nn.sub
// CHECK: nn.convert {{.*}} -> tensor<2x3x1xbf16>
// CHECK: nn.permute {{.*}} -> tensor<2x1x3xbf16>
// CHECK: nn.reshape {{.*}} -> tensor<2x1x1x3xbf16>
// CHECK: nn.convert {{.*}} -> tensor<2x1x1x3xf32>
// CHECK: nn.log_softmax_backward
// KERNEL-LABEL: func.func @step
// KERNEL-NOT: tensor<2x3x50xf32>
// KERNEL-NOT: tensor<2x50x1x3x
// KERNEL: call @kernel_1({{.*}}tensor<2x3x50xbf16>, {{.*}} -> tensor<2x3x50xbf16>
func.func @step(%x: tensor<2x3x50xbf16>, %t: tensor<2x1x1x3xi64>, %g: tensor<2x3x50xbf16>) -> (tensor<2x1x1x3xf32>, tensor<2x3x50xbf16>) {
  %0, %1, %e = sched.step on compute stage 0 strand 0 {
    %2 = nn.log_softmax %x {dim = 2} : (tensor<2x3x50xbf16>) -> tensor<2x3x50xbf16>
    %3 = nn.permute %2 {permutation = array<i64: 0, 2, 1>} : (tensor<2x3x50xbf16>) -> tensor<2x50x3xbf16>
    %4 = nn.reshape %3 : (tensor<2x50x3xbf16>) -> tensor<2x50x1x3xbf16>
    %5 = nn.convert %4 : (tensor<2x50x1x3xbf16>) -> tensor<2x50x1x3xf32>
    %6 = nn.gather %5, %t {dim = 1} : (tensor<2x50x1x3xf32>, tensor<2x1x1x3xi64>) -> tensor<2x1x1x3xf32>
    sched.yield %2, %6 : tensor<2x3x50xbf16>, tensor<2x1x1x3xf32>
  } : tensor<2x3x50xbf16>, tensor<2x1x1x3xf32>
  %7, %f = sched.step on compute stage 1 strand 0 {
    %8 = nn.log_softmax_backward %g, %0 {dim = 2} : (tensor<2x3x50xbf16>, tensor<2x3x50xbf16>) -> tensor<2x3x50xbf16>
    sched.yield %8 : tensor<2x3x50xbf16>
  } : tensor<2x3x50xbf16>
  return %1, %7 : tensor<2x1x1x3xf32>, tensor<2x3x50xbf16>
}

// -----

// One that no backward reads, one that the user gets, and one that a collective reads stay.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-3: nn.log_softmax %
// CHECK-NOT: nn.max
#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
func.func @step(%x: tensor<6x50xf32>) -> (tensor<6xf32>, tensor<6x50xf32>, tensor<6x50xf32>, tensor<12x50xf32>, tensor<6x50xf32>) {
  %0:4, %e = sched.step on compute stage 0 strand 0 {
    %1 = nn.log_softmax %x {dim = 1} : (tensor<6x50xf32>) -> tensor<6x50xf32>
    %2 = nn.sum %1 {dims = array<i64: 1>} : (tensor<6x50xf32>) -> tensor<6xf32>
    %3 = nn.log_softmax %x {dim = 0} : (tensor<6x50xf32>) -> tensor<6x50xf32>
    %4 = nn.log_softmax_backward %x, %3 {dim = 0} : (tensor<6x50xf32>, tensor<6x50xf32>) -> tensor<6x50xf32>
    %5 = nn.log_softmax %x {dim = 1} : (tensor<6x50xf32>) -> tensor<6x50xf32>
    sched.yield %2, %3, %4, %5 : tensor<6xf32>, tensor<6x50xf32>, tensor<6x50xf32>, tensor<6x50xf32>
  } : tensor<6xf32>, tensor<6x50xf32>, tensor<6x50xf32>, tensor<6x50xf32>
  %6, %f = sched.step on comm stage 1 strand 0 after(%e) {
    %7 = spmd.all_gather %0#3 over ["data"] dim 0 : tensor<6x50xf32> -> tensor<12x50xf32>
    sched.yield %7 : tensor<12x50xf32>
  } : tensor<12x50xf32>
  %8, %g = sched.step on compute stage 1 strand 0 {
    %9 = nn.log_softmax_backward %x, %0#3 {dim = 1} : (tensor<6x50xf32>, tensor<6x50xf32>) -> tensor<6x50xf32>
    sched.yield %9 : tensor<6x50xf32>
  } : tensor<6x50xf32>
  return %0#0, %0#1, %0#2, %6, %8 : tensor<6xf32>, tensor<6x50xf32>, tensor<6x50xf32>, tensor<12x50xf32>, tensor<6x50xf32>
}
}
