// RUN: tandem-opt --tandem-reuse-operands --split-input-file %s | FileCheck %s

// The pre-activation is written over the product, which nothing else reads; the
// activation has a buffer of its own.
// CHECK-LABEL: func.func @step
// CHECK-DAG: %[[Y:.*]] = sched.alloc : memref<2x4xf32>
// CHECK-DAG: %[[M:.*]] = sched.alloc : memref<8xf32>
// CHECK-DAG: %[[H:.*]] = sched.view %[[M]]{{.*}} : memref<8xf32> -> memref<2x4xf32>
// CHECK-NOT: sched.alloc
// CHECK: sched.launch @exp(%arg0) into(%[[M]])
// CHECK: sched.launch @gelu(%[[M]]) into(%[[H]], %[[Y]])
// CHECK: sched.launch @read(%[[H]], %[[Y]])
func.func @step(%x: memref<8xf32>, %r: memref<2x4xf32>) {
  %m = sched.alloc : memref<8xf32>
  %h = sched.alloc : memref<2x4xf32>
  %y = sched.alloc : memref<2x4xf32>
  sched.launch @exp(%x) into(%m) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>) -> memref<8xf32>
  sched.launch @gelu(%m) into(%h, %y) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  sched.launch @read(%h, %y) into(%r) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<2x4xf32>, memref<2x4xf32>) -> memref<2x4xf32>
  return
}
func.func private @exp(%a: tensor<8xf32>) -> tensor<8xf32> attributes {sched.kernel} {
  %0 = nn.exp %a : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @gelu(%a: tensor<8xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) attributes {sched.kernel} {
  %0 = nn.neg %a : (tensor<8xf32>) -> tensor<8xf32>
  %1 = nn.reshape %0 : (tensor<8xf32>) -> tensor<2x4xf32>
  %2 = nn.exp %1 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %1, %2 : tensor<2x4xf32>, tensor<2x4xf32>
}
func.func private @read(%a: tensor<2x4xf32>, %b: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {sched.kernel} {
  %0 = nn.add %a, %b : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

// What is read behind the launch stays, as do arguments; and a kernel that reads
// an element after it wrote another one has memory of its own for both.
// CHECK-LABEL: func.func @step
// CHECK: %[[A:.*]] = sched.alloc
// CHECK: %[[B:.*]] = sched.alloc
// CHECK: %[[C:.*]] = sched.alloc
// CHECK: sched.launch @exp(%arg0) into(%[[A]])
// CHECK: sched.launch @exp(%[[A]]) into(%[[B]])
// CHECK: sched.launch @transpose(%[[B]]) into(%[[C]])
// CHECK: sched.launch @add(%[[A]], %[[C]])
func.func @step(%x: memref<2x2xf32>, %r: memref<2x2xf32>) {
  %a = sched.alloc : memref<2x2xf32>
  %b = sched.alloc : memref<2x2xf32>
  %c = sched.alloc : memref<2x2xf32>
  sched.launch @exp(%x) into(%a) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<2x2xf32>) -> memref<2x2xf32>
  sched.launch @exp(%a) into(%b) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<2x2xf32>) -> memref<2x2xf32>
  sched.launch @transpose(%b) into(%c) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<2x2xf32>) -> memref<2x2xf32>
  sched.launch @add(%a, %c) into(%r) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<2x2xf32>, memref<2x2xf32>) -> memref<2x2xf32>
  return
}
func.func private @exp(%a: tensor<2x2xf32>) -> tensor<2x2xf32> attributes {sched.kernel} {
  %0 = nn.exp %a : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
func.func private @transpose(%a: tensor<2x2xf32>) -> tensor<2x2xf32> attributes {sched.kernel} {
  %0 = nn.permute %a {permutation = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
func.func private @add(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> tensor<2x2xf32> attributes {sched.kernel} {
  %0 = nn.add %a, %b : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// -----

// An all-reduce works in place where nothing else reads its operand; the second
// one does not, and gathers never do.
// CHECK-LABEL: func.func @step
// CHECK-DAG: %[[A:.*]] = sched.alloc : memref<8xf32>
// CHECK-DAG: %[[C:.*]] = sched.alloc : memref<8xf32>
// CHECK-DAG: %[[D:.*]] = sched.alloc : memref<16xf32>
// CHECK-NOT: sched.alloc
// CHECK: sched.collective all_reduce %[[A]] into %[[A]]
// CHECK: sched.collective all_reduce %[[A]] into %[[C]]
// CHECK: sched.collective all_gather %[[C]] into %[[D]]
// CHECK: sched.launch @read(%[[A]], %[[D]])
module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
func.func @step(%x: memref<8xf32>, %r: memref<8xf32>) {
  %a = sched.alloc : memref<8xf32>
  %b = sched.alloc : memref<8xf32>
  %c = sched.alloc : memref<8xf32>
  %d = sched.alloc : memref<16xf32>
  sched.launch @exp(%x) into(%a) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>) -> memref<8xf32>
  %e = sched.record compute
  sched.wait comm for %e
  sched.collective all_reduce %a into %b over ["data"] on comm stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<8xf32> -> memref<8xf32>
  sched.collective all_reduce %b into %c over ["data"] on comm stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<8xf32> -> memref<8xf32>
  sched.collective all_gather %c into %d over ["data"] on comm stage 0 strand 0 {concat_dim = 0 : i64, label = "", flops = 0, bytes = 0} : memref<8xf32> -> memref<16xf32>
  %f = sched.record comm
  sched.wait compute for %f
  sched.launch @read(%b, %d) into(%r) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<16xf32>) -> memref<8xf32>
  return
}
func.func private @exp(%a: tensor<8xf32>) -> tensor<8xf32> attributes {sched.kernel} {
  %0 = nn.exp %a : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @read(%a: tensor<8xf32>, %b: tensor<16xf32>) -> tensor<8xf32> attributes {sched.kernel} {
  return %a : tensor<8xf32>
}
}

// -----

// A part that starts where the rank's coordinate says is not all of its memory, whatever range is
// taken for it: a rank would write where another thread still reads.
// CHECK-LABEL: func.func @step
// CHECK: sched.alloc : memref<12xf32>
// CHECK: sched.alloc : memref<4xf32>
#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @step(%x: memref<12xf32>, %r: memref<4xf32>) {
    %a = sched.alloc : memref<12xf32>
    %b = sched.alloc : memref<4xf32>
    sched.launch @all(%x) into(%a) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<12xf32>) -> memref<12xf32>
    %v = sched.view %a {axes = ["data"], coefficients = array<i64: 6>} : memref<12xf32> -> memref<6xf32>
    %w = sched.view %v {offset = 1 : i64} : memref<6xf32> -> memref<4xf32>
    sched.launch @part(%w) into(%b) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<4xf32>) -> memref<4xf32>
    sched.launch @part(%b) into(%r) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<4xf32>) -> memref<4xf32>
    return
  }
  func.func private @all(%a: tensor<12xf32>) -> tensor<12xf32> attributes {sched.kernel} {
    %0 = nn.exp %a : (tensor<12xf32>) -> tensor<12xf32>
    return %0 : tensor<12xf32>
  }
  func.func private @part(%a: tensor<4xf32>) -> tensor<4xf32> attributes {sched.kernel} {
    %0 = nn.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
