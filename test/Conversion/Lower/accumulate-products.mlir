// RUN: tandem-opt --tandem-accumulate-products --split-input-file %s | FileCheck %s

// The gradients of three strands are added up where the first one lies, by the
// products themselves.
// CHECK-LABEL: func.func @step
// CHECK: %[[A:.*]], %{{.*}} = sched.step
// CHECK: %[[A0:.*]] = sched.matmul %{{.*}}, %{{.*}} {
// CHECK: %[[B:.*]], %{{.*}} = sched.step
// CHECK: sched.matmul %{{.*}}, %{{.*}} onto %[[A]] {
// CHECK: %[[C:.*]], %{{.*}} = sched.step
// CHECK: sched.matmul %{{.*}}, %{{.*}} onto %[[B]] {
// CHECK-NOT: nn.add
// CHECK: return %[[C]]
func.func @step(%x: tensor<4x8xf32>, %g: tensor<8x5xf32>) -> tensor<4x5xf32> {
  %0, %e0 = sched.step on compute stage 0 strand 0 {
    %a = sched.matmul %x, %g {batch = array<i64>, m = 4, n = 5, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>} : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
    sched.yield %a : tensor<4x5xf32>
  } : tensor<4x5xf32>
  %1, %e1 = sched.step on compute stage 0 strand 1 {
    %a = sched.matmul %x, %g {batch = array<i64>, m = 4, n = 5, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>} : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
    sched.yield %a : tensor<4x5xf32>
  } : tensor<4x5xf32>
  %2, %e2 = sched.step on compute stage 0 strand 2 {
    %a = sched.matmul %x, %g {batch = array<i64>, m = 4, n = 5, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>} : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
    %b = nn.add %0, %1 {spmd.change} : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %c = nn.add %b, %a {spmd.change} : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    sched.yield %c : tensor<4x5xf32>
  } : tensor<4x5xf32>
  return %2 : tensor<4x5xf32>
}

// -----

// Not onto an argument, which is the caller's; nor onto what others read; nor
// onto what the kernel of the addition has in registers.
// CHECK-LABEL: func.func @step
// CHECK-NOT: onto
// CHECK-COUNT-3: nn.add
func.func @step(%x: tensor<4x8xf32>, %g: tensor<8x5xf32>, %y: tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>) {
  %0:4, %e0 = sched.step on compute stage 0 strand 0 {
    %a = sched.matmul %x, %g {batch = array<i64>, m = 4, n = 5, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>} : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
    %b = nn.add %y, %a : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %c = sched.matmul %x, %g {batch = array<i64>, m = 4, n = 5, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>} : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
    %d = sched.matmul %x, %g {batch = array<i64>, m = 4, n = 5, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>} : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
    %e = nn.add %c, %d : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %f = nn.mul %c, %d : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %h = nn.exp %y : (tensor<4x5xf32>) -> tensor<4x5xf32>
    %i = sched.matmul %x, %g {batch = array<i64>, m = 4, n = 5, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>} : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
    %j = nn.add %h, %i : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    sched.yield %b, %e, %f, %j : tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>
  } : tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>
  return %0#0, %0#1, %0#2, %0#3 : tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>
}

// -----

// Not onto what another queue makes, which no event of the product's step
// awaits.
// CHECK-LABEL: func.func @step
// CHECK-NOT: onto
#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @step(%x: tensor<4x8xf32>, %g: tensor<8x5xf32>, %y: tensor<4x5xf32>) -> tensor<4x5xf32> {
    %0, %e0 = sched.step on comm stage 0 strand 0 {
      %a = spmd.all_reduce %y over ["data"] : tensor<4x5xf32> -> tensor<4x5xf32>
      sched.yield %a : tensor<4x5xf32>
    } : tensor<4x5xf32>
    %1, %e1 = sched.step on compute stage 1 strand 0 after(%e0) {
      %a = sched.matmul %x, %g {batch = array<i64>, m = 4, n = 5, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>} : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
      %b = nn.add %0, %a : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
      sched.yield %b : tensor<4x5xf32>
    } : tensor<4x5xf32>
    return %1 : tensor<4x5xf32>
  }
}

// -----

// In one step as well; the product that comes later adds.
// CHECK-LABEL: func.func @step
// CHECK: %[[A:.*]] = sched.matmul %{{.*}}, %{{.*}} {
// CHECK: %[[B:.*]] = sched.matmul %{{.*}}, %{{.*}} onto %[[A]] {
// CHECK-NEXT: sched.yield %[[B]]
func.func @step(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0, %e = sched.step on compute stage 0 strand 0 {
    %a = sched.matmul %x, %x {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = sched.matmul %x, %x {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 1, 4>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = nn.add %b, %a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    sched.yield %c : tensor<4x4xf32>
  } : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
