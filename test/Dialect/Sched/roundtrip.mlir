// RUN: tandem-opt %s | tandem-opt | FileCheck %s

// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: %[[V:.*]], %[[E:.*]] = sched.step on compute stage 0 strand 0 {
  %0, %e0 = sched.step on compute stage 0 strand 0 {
    // CHECK: nn.neg
    %1 = nn.neg %x : (tensor<8xf32>) -> tensor<8xf32>
    // CHECK: sched.yield %{{.*}} : tensor<8xf32>
    sched.yield %1 : tensor<8xf32>
  } : tensor<8xf32>
  // CHECK: sched.step on comm stage 1 strand 1 after(%[[E]]) {
  // CHECK-NEXT: sched.yield
  // CHECK-NEXT: }
  %e1 = sched.step on comm stage 1 strand 1 after(%e0) {
    sched.yield
  }
  return %0 : tensor<8xf32>
}
