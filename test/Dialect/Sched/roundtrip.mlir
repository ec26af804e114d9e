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

// A queue is its role and its number among those of the role.
// CHECK: module attributes {sched.device = #sched.device<cpu>, sched.queues = [#sched.queue<compute>, #sched.queue<comm>, #sched.queue<comm[1]>, #sched.queue<copy>]}
module attributes {sched.device = #sched.device<cpu>, sched.queues = [#sched.queue<compute>, #sched.queue<comm[0]>, #sched.queue<comm[1]>, #sched.queue<copy>]} {
  func.func @queues(%a: memref<4x4xf32>, %b: memref<64xi8>, %v: memref<4xf32>) {
    // CHECK: sched.step on comm[1] stage 0 strand 0 {
    %e = sched.step on comm[1] stage 0 strand 0 {
    }
    // CHECK: sched.wait copy for
    sched.wait copy for %e
    // CHECK: sched.gemm %{{.*}}, %{{.*}} into %{{.*}} workspace %{{.*}} on compute stage 0 strand 0 {accumulate,
    sched.gemm %a, %a into %a workspace %b on compute stage 0 strand 0 {accumulate, batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, label = "", flops = 0, bytes = 0} : memref<4x4xf32>, memref<4x4xf32> into memref<4x4xf32> workspace memref<64xi8>
    // CHECK: sched.gemm %{{.*}}, %{{.*}} into %{{.*}} at %{{.*}} on compute stage 0 strand 0 {{.*}}epilogue = #sched<epilogue gelu>
    sched.gemm %a, %a into %a at %a on compute stage 0 strand 0 {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, epilogue = #sched<epilogue gelu>, label = "", flops = 0, bytes = 0} : memref<4x4xf32>, memref<4x4xf32> into memref<4x4xf32> at memref<4x4xf32>
    // CHECK: sched.gemm %{{.*}}, %{{.*}} into %{{.*}} sums %{{.*}} on compute stage 0 strand 0 {{.*}}summed = #sched<summed lhs>
    sched.gemm %a, %a into %a sums %v on compute stage 0 strand 0 {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, summed = #sched<summed lhs>, label = "", flops = 0, bytes = 0} : memref<4x4xf32>, memref<4x4xf32> into memref<4x4xf32> sums memref<4xf32>
    // CHECK: sched.attend(%{{.*}}, %{{.*}}, %{{.*}}) into(%{{.*}}, %{{.*}}) on compute stage 0 strand 0 {
    sched.attend(%a, %a, %a) into(%a, %a) on compute stage 0 strand 0 {sizes = array<i64: 1, 1, 1, 4, 4, 4, 4>, strides = array<i64: 0, 0, 4, 0, 0, 4, 0, 0, 4, 0, 0, 4>, scale = 0.5 : f64, label = "", flops = 0, bytes = 0} : (memref<4x4xf32>, memref<4x4xf32>, memref<4x4xf32>) -> (memref<4x4xf32>, memref<4x4xf32>)
    return
  }
}
