// RUN: tandem-opt %s --tandem-localize -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: tandem-interpret %t.mlir --entry sections --compare %s
// RUN: tandem-opt %t.mlir --tandem-duplex -o %t.duplex.mlir
// RUN: FileCheck %s --input-file %t.duplex.mlir --check-prefix DUPLEX
// RUN: tandem-interpret %t.duplex.mlir --entry sections --compare %s

// Two sections with data parallelism, two microbatches, a tensor that goes back,
// and a sum over both sections. `at` stays in types.
#mesh = #spmd.mesh<pipe = 2, data = 2, time micro = 2>
#x = #spmd.form<#mesh, data: gather(0), micro: gather(0)>
#h0 = #spmd.form<#mesh, pipe: at(0), data: gather(0), micro: gather(0)>
#h1 = #spmd.form<#mesh, pipe: at(1), data: gather(0), micro: gather(0)>
#w0 = #spmd.form<#mesh, pipe: at(0)>
#w1 = #spmd.form<#mesh, pipe: at(1)>
#g1 = #spmd.form<#mesh, pipe: at(1), data: reduce, micro: reduce>
#r1 = #spmd.form<#mesh, pipe: at(1), data: reduce>
#sum = #spmd.form<#mesh, pipe: reduce>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @sections(
  // CHECK-SAME: %arg0: tensor<4x8xf64, #gather0_micro>
  // CHECK-SAME: %arg1: tensor<8x4xf64, #at0_pipe> {{{.*}}spmd.layout = tensor<8x4xf64, #at0_pipe>}
  // DUPLEX-LABEL: func.func @sections(
  // DUPLEX-SAME: %arg0: tensor<4x8xf64>
  // DUPLEX-SAME: %arg1: tensor<8x4xf64, #at0_pipe>
  func.func @sections(%x: tensor<8x8xf64, #x>, %w: tensor<8x4xf64, #w0>, %v: tensor<4x4xf64, #w1>)
      -> (tensor<4xf64, #w1>, tensor<4x4xf64>, tensor<8x4xf64, #w0>) {
    // CHECK: %[[H:.*]] = nn.matmul %arg0, %arg1 {{.*}} -> tensor<4x4xf64, #at0_pipe_gather0_micro>
    // DUPLEX-COUNT-2: nn.matmul {{.*}} -> tensor<2x4xf64, #at0_pipe>
    %0 = nn.matmul %x, %w : (tensor<8x8xf64, #x>, tensor<8x4xf64, #w0>) -> tensor<8x4xf64, #h0>
    // CHECK: spmd.transfer %[[H]] over ["pipe"] from 0 to 1 {spmd.change} : tensor<4x4xf64, #at0_pipe_gather0_micro> -> tensor<4x4xf64, #at1_pipe_gather0_micro>
    // DUPLEX-COUNT-2: spmd.transfer {{.*}} : tensor<2x4xf64, #at0_pipe> -> tensor<2x4xf64, #at1_pipe>
    %1 = spmd.reform %0 : tensor<8x4xf64, #h0> -> tensor<8x4xf64, #h1>
    %2 = nn.matmul %1, %v : (tensor<8x4xf64, #h1>, tensor<4x4xf64, #w1>) -> tensor<8x4xf64, #h1>
    %3 = nn.sum %2 {dims = array<i64: 0>} : (tensor<8x4xf64, #h1>) -> tensor<4xf64, #g1>
    %4 = spmd.reform %3 : tensor<4xf64, #g1> -> tensor<4xf64, #r1>
    // CHECK: spmd.all_reduce %{{.*}} over ["data"] {spmd.change} : tensor<4xf64, #at1_pipe> -> tensor<4xf64, #at1_pipe>
    %5 = spmd.reform %4 : tensor<4xf64, #r1> -> tensor<4xf64, #w1>
    // CHECK: spmd.transfer %arg2 over ["pipe"] from 1 to 0
    %6 = spmd.reform %v : tensor<4x4xf64, #w1> -> tensor<4x4xf64, #w0>
    %7 = nn.matmul %w, %6 : (tensor<8x4xf64, #w0>, tensor<4x4xf64, #w0>) -> tensor<8x4xf64, #w0>
    // CHECK: spmd.zero_others %arg2 over ["pipe"] point 1
    %8 = spmd.reform %v : tensor<4x4xf64, #w1> -> tensor<4x4xf64, #sum>
    // CHECK: spmd.all_reduce %{{.*}} over ["pipe"]
    %9 = spmd.reform %8 : tensor<4x4xf64, #sum> -> tensor<4x4xf64>
    // CHECK: %[[K:.*]] = spmd.keep_at %{{.*}} over ["pipe"] point 0
    %10 = spmd.reform %9 : tensor<4x4xf64> -> tensor<4x4xf64, #w0>
    // CHECK: spmd.broadcast %[[K]] over ["pipe"] from 0
    %11 = spmd.reform %10 : tensor<4x4xf64, #w0> -> tensor<4x4xf64>
    return %5, %11, %7 : tensor<4xf64, #w1>, tensor<4x4xf64>, tensor<8x4xf64, #w0>
  }
}
