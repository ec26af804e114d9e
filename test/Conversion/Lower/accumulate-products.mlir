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

// -----

// Also through reshapes of their own, as gradients of rows are added up that
// several layers read: one term is held, and not all of them. Not through one
// that others read, and not onto what has another reshape.
// CHECK-LABEL: func.func @step
// CHECK: %[[A:.*]] = sched.matmul %{{.*}}, %{{.*}} {
// CHECK: %[[B:.*]] = sched.matmul %{{.*}}, %{{.*}} onto %[[A]] {
// CHECK: %[[C:.*]] = sched.matmul %{{.*}}, %{{.*}} onto %[[B]] {
// CHECK-NOT: nn.add
// CHECK: %[[D:.*]] = nn.reshape %[[C]]
// CHECK: nn.exp %[[D]]
// CHECK: %[[S:.*]] = sched.matmul
// CHECK-NOT: onto
// CHECK-COUNT-2: nn.add
func.func @step(%x: tensor<4x4xf32>) -> (tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<16xf32>) {
  %0:4, %e = sched.step on compute stage 0 strand 0 {
    %a = sched.matmul %x, %x {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %a3 = nn.reshape %a : (tensor<4x4xf32>) -> tensor<2x2x4xf32>
    %b = sched.matmul %x, %x {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %b3 = nn.reshape %b : (tensor<4x4xf32>) -> tensor<2x2x4xf32>
    %ab = nn.add %a3, %b3 : (tensor<2x2x4xf32>, tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
    %c = sched.matmul %x, %x {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %c3 = nn.reshape %c : (tensor<4x4xf32>) -> tensor<2x2x4xf32>
    %abc = nn.add %ab, %c3 : (tensor<2x2x4xf32>, tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
    %exp = nn.exp %abc : (tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
    %s = sched.matmul %x, %x {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %s1 = nn.reshape %s : (tensor<4x4xf32>) -> tensor<16xf32>
    %s3 = nn.reshape %s : (tensor<4x4xf32>) -> tensor<2x2x4xf32>
    %t = sched.matmul %x, %x {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %t3 = nn.reshape %t : (tensor<4x4xf32>) -> tensor<2x2x4xf32>
    %st = nn.add %s3, %t3 : (tensor<2x2x4xf32>, tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
    %u = sched.matmul %x, %x {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %u3 = nn.reshape %u : (tensor<4x4xf32>) -> tensor<2x2x4xf32>
    %v = sched.matmul %x, %x {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %v3 = nn.reshape %v : (tensor<4x4xf32>) -> tensor<2x2x4xf32>
    %uv = nn.add %u3, %v3 : (tensor<2x2x4xf32>, tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
    %more = nn.mul %u3, %uv : (tensor<2x2x4xf32>, tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
    sched.yield %exp, %st, %more, %s1 : tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<16xf32>
  } : tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<16xf32>
  return %0#0, %0#1, %0#2, %0#3 : tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<16xf32>
}
